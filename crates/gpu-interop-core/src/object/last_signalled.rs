//! The last signalled value of each semaphore, which the next one must exceed.
//!
//! Nothing here is atomic across calls: the application must order signals of one timeline from several threads, and
//! each thread then observes the other's value.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::lock::lock;
use crate::error::{Error, Result};

/// Marks a semaphore that has the value of a batch. No value is greater.
const COMMON: u64 = u64::MAX;

/// Greatest value signalled through a semaphore object; the exporter may have signalled greater ones. Shared with graphs
/// and prepared batches.
#[derive(Debug, Default)]
pub(super) struct LastSignalled {
    value: AtomicU64,
    /// If present, `value` is [`COMMON`].
    common: Mutex<Option<Arc<CommonValue>>>,
}

/// The last signalled value of all timelines of a batch. They do not have it at first.
#[derive(Debug, Default)]
pub(super) struct CommonValue {
    value: AtomicU64,
    /// `false` once a semaphore has a value of its own.
    is_common: AtomicBool,
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
        if previous == COMMON {
            previous = self.leave_batch();
        }
        self.value.store(value, Ordering::Relaxed);
        previous
    }

    /// The value. If it is a batch's, the semaphore has one of its own from now on.
    #[cold]
    fn leave_batch(&self) -> u64 {
        if let Some(common) = lock(&self.common).take() {
            common.is_common.store(false, Ordering::Relaxed);
            // A different value comes from an unordered thread; it is kept.
            let _ = self.value.compare_exchange(COMMON, common.value(), Ordering::Relaxed, Ordering::Relaxed);
        }
        self.value.load(Ordering::Relaxed)
    }

    /// Replaces the value with a batch's.
    fn join(&self, common: &Arc<CommonValue>) {
        let mut joined = lock(&self.common);
        self.value.store(COMMON, Ordering::Relaxed);
        *joined = Some(common.clone());
    }
}

impl CommonValue {
    /// Makes this the value of these semaphores.
    pub(super) fn begin<'a>(self: &Arc<Self>, value: u64, semaphores: impl Iterator<Item = &'a LastSignalled>) {
        self.set(value);
        self.is_common.store(true, Ordering::Relaxed);
        semaphores.for_each(|semaphore| semaphore.join(self));
    }

    /// `true` while every semaphore of the batch has this value.
    #[inline]
    pub(super) fn is_common(&self) -> bool {
        self.is_common.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn value(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn set(&self, value: u64) {
        self.value.store(value, Ordering::Relaxed);
    }
}

#[cold]
pub(super) fn backwards(operation: &'static str, value: u64, last: u64) -> Error {
    Error::invalid(operation, "a timeline only grows; signal a greater value")
        .with_context("value", value)
        .with_context("already signalled", last)
}
