//! The last signalled value of each semaphore, which the next one must exceed.
//!
//! Nothing here is atomic across calls: the application must order signals of one timeline from several threads, and
//! each thread then observes the other's value.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use super::held_values::HeldValues;
use crate::error::{Error, Result};
use crate::sync::{AtomicU64, lock};

/// Marks a semaphore whose value a batch holds. No value is greater.
const HELD: u64 = u64::MAX;

/// Greatest value signalled through a semaphore object; the exporter may have signalled greater ones. Shared with graphs
/// and prepared batches.
#[derive(Debug, Default)]
pub(super) struct LastSignalled {
    value: AtomicU64,
    /// The values that have this one, and its index. If present, `value` is [`HELD`].
    holder: Mutex<Option<(Arc<HeldValues>, usize)>>,
}

impl LastSignalled {
    /// Records a greater value. Returns the previous one.
    ///
    /// # Errors
    /// If the value is not greater.
    #[inline(always)]
    pub(super) fn grow(&self, operation: &'static str, value: u64) -> Result<u64> {
        let mut previous = self.value.load(Ordering::Relaxed);
        if value <= previous {
            previous = self.leave_batch();
            if value <= previous {
                return Err(backwards(operation, value, previous));
            }
        }
        self.value.store(value, Ordering::Relaxed);
        Ok(previous)
    }

    /// Restores or sets the value.
    pub(super) fn set(&self, value: u64) {
        self.leave_batch();
        self.value.store(value, Ordering::Relaxed);
    }

    /// Sets the value and returns the previous one.
    #[inline]
    pub(super) fn replace(&self, value: u64) -> u64 {
        let mut previous = self.value.load(Ordering::Relaxed);
        if previous == HELD {
            previous = self.leave_batch();
        }
        self.value.store(value, Ordering::Relaxed);
        previous
    }

    /// The value. If a batch holds it, the semaphore has one of its own from now on.
    #[cold]
    fn leave_batch(&self) -> u64 {
        if let Some((held, index)) = lock(&self.holder).take() {
            // A different value comes from an unordered thread; it is kept.
            let _ = self.value.compare_exchange(HELD, held.release(index), Ordering::Relaxed, Ordering::Relaxed);
        }
        self.value.load(Ordering::Relaxed)
    }

    /// Gives the value to a batch, as the one with this index.
    pub(super) fn join(&self, held: &Arc<HeldValues>, index: usize) {
        let mut holder = lock(&self.holder);
        self.value.store(HELD, Ordering::Relaxed);
        *holder = Some((held.clone(), index));
    }
}

#[cold]
pub(super) fn backwards(operation: &'static str, value: u64, last: u64) -> Error {
    Error::invalid(operation, "a timeline only grows; signal a greater value")
        .with_context("value", value)
        .with_context("already signalled", last)
}
