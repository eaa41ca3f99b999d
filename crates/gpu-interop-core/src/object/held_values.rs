//! The last signalled values that a prepared batch holds for its semaphores ([`BatchValues`](super::batch_values)).
//!
//! Semaphores may leave at the same time: threads that signal different timelines need no order. Each of them is ordered after the
//! batch's last signal. Leaving therefore sets one bit and writes no values, and the values stay until all have left.

use std::sync::atomic::Ordering;

use crate::sync::{AtomicU8, AtomicU64};

/// Each semaphore has its own value.
const FREE: u8 = 0;
/// All timelines have the same value.
pub(super) const ONE: u8 = 1;
/// Each timeline has a value in the array.
pub(super) const EACH: u8 = 2;
/// A bit beside `ONE` or `EACH`: a semaphore has left, and the others are to leave.
const LEFT: u8 = 4;

/// The values that a batch holds for its semaphores.
#[derive(Debug)]
pub(super) struct HeldValues {
    /// `FREE`, or `ONE` or `EACH`, also with `LEFT`.
    state: AtomicU8,
    /// The value of all.
    pub(super) one: AtomicU64,
    /// The value of each.
    pub(super) each: Box<[AtomicU64]>,
}

impl HeldValues {
    /// Of `count` semaphores that still have their own values.
    pub(super) fn new(count: usize) -> Self {
        let each = (0..count).map(|_| AtomicU64::new(0)).collect();
        Self { state: AtomicU8::new(FREE), one: AtomicU64::new(0), each }
    }

    /// The value at `index`. From now on the batch does not change its values.
    pub(super) fn release(&self, index: usize) -> u64 {
        if self.state.fetch_or(LEFT, Ordering::Relaxed) & ONE != 0 {
            return self.one.load(Ordering::Relaxed);
        }
        self.each.get(index).map_or(0, |value| value.load(Ordering::Relaxed))
    }

    /// Writes the common value to the array.
    pub(super) fn spread(&self) {
        let one = self.one.load(Ordering::Relaxed);
        self.each.iter().for_each(|value| value.store(one, Ordering::Relaxed));
    }

    #[inline]
    pub(super) fn is(&self, state: u8) -> bool {
        self.state.load(Ordering::Relaxed) == state
    }

    pub(super) fn set_state(&self, state: u8) {
        self.state.store(state, Ordering::Relaxed);
    }
}
