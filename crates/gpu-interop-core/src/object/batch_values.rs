//! The last signalled values of a prepared batch's timelines.
//!
//! While only the batch signals them, it holds these values in one array, or as one number if they are equal. That is
//! faster than a value in each semaphore: 64 semaphores are 64 cache lines, which the driver's call evicts.
//! Another signal of one of the semaphores ends it.
//!
//! Semaphores may leave at the same time: threads that signal different timelines need no order. Each of them is ordered
//! after the batch's last signal. Leaving therefore sets one bit and writes no values, and the values stay until all have
//! left.
//!
//! Nothing here is atomic across calls: the application must order signals of one timeline from several threads, and
//! each thread then observes the other's value.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use crate::error::{Error, Result};
use crate::sync::{AtomicU8, AtomicU64, lock};

/// How the values of signals were recorded, to revert that.
#[derive(Debug, Clone, Copy)]
pub(super) enum RecordedValues {
    /// The common value was replaced: the previous one.
    One(u64),
    /// The value of each timeline was replaced, in the array.
    Held,
    /// The value of each timeline was replaced, in its semaphore.
    Each,
}

/// A value that is not greater than the last one.
#[derive(Debug, Clone, Copy)]
pub(super) struct NotGreater {
    pub(super) value: u64,
    pub(super) last: u64,
}

/// The last values of a batch's timelines, in order.
#[derive(Debug)]
pub(super) struct BatchValues {
    semaphores: Box<[Arc<LastSignalled>]>,
    /// The values before the signals that are being enqueued.
    previous: Box<[u64]>,
    /// The values that this batch wrote to the semaphores last, also those of a failed call.
    signalled: Box<[u64]>,
    /// `false` for a batch that has a semaphore twice: the second value must exceed the first one.
    may_hold: bool,
    held: Arc<HeldValues>,
}

impl BatchValues {
    pub(super) fn new(semaphores: impl Iterator<Item = Arc<LastSignalled>>) -> Self {
        let semaphores: Box<[_]> = semaphores.collect();
        let count = semaphores.len();
        let mut addresses: Vec<_> = semaphores.iter().map(Arc::as_ptr).collect();
        addresses.sort_unstable();
        addresses.dedup();
        Self {
            may_hold: count > 0 && addresses.len() == count,
            semaphores,
            previous: vec![0; count].into(),
            // A value that no signal can exceed.
            signalled: vec![u64::MAX; count].into(),
            held: Arc::new(HeldValues::new(count)),
        }
    }

    /// Number of timelines.
    pub(super) fn len(&self) -> usize {
        self.semaphores.len()
    }

    /// `true` while the batch holds one value for all timelines.
    #[inline]
    pub(super) fn is_one(&self) -> bool {
        self.held.is(HELD_AS_ONE)
    }

    /// `true` while the batch holds the values of its timelines.
    #[cfg(all(test, not(loom)))]
    pub(super) fn is_holding(&self) -> bool {
        self.held.is(HELD_AS_ONE) || self.held.is(HELD_EACH)
    }

    /// Records a greater value for all timelines, of which the batch holds one value ([`is_one`](Self::is_one)).
    #[inline]
    pub(super) fn grow_one(&mut self, next: u64) -> Result<RecordedValues, NotGreater> {
        let last = self.held.one.load(Ordering::Relaxed);
        if next <= last {
            return Err(NotGreater { value: next, last });
        }
        self.held.one.store(next, Ordering::Relaxed);
        Ok(RecordedValues::One(last))
    }

    /// Records a greater value for each timeline. `one` is the value if all are equal.
    pub(super) fn grow(
        &mut self,
        next: impl Iterator<Item = u64>,
        one: Option<u64>,
    ) -> Result<RecordedValues, NotGreater> {
        if self.held.is(HELD_EACH) { self.grow_held(next, one) } else { self.grow_rarely(next, one) }
    }

    /// As [`grow`](Self::grow), the first times, and after a value for all.
    // Not inlined: the common case would save more registers.
    #[inline(never)]
    fn grow_rarely(&mut self, next: impl Iterator<Item = u64>, one: Option<u64>) -> Result<RecordedValues, NotGreater> {
        if self.held.is(HELD_AS_ONE) {
            self.held.spread();
            self.held.set_state(HELD_EACH);
            return self.grow_held(next, one);
        }
        self.grow_in_semaphores(next, one)
    }

    // Both replace all values and compare afterwards, because a loop without exits takes half of the time.

    #[inline]
    fn grow_held(&mut self, next: impl Iterator<Item = u64>, one: Option<u64>) -> Result<RecordedValues, NotGreater> {
        let held = &*self.held;
        let mut grow = true;
        for ((last, previous), next) in held.each.iter().zip(&mut self.previous).zip(next) {
            *previous = last.load(Ordering::Relaxed);
            grow &= next > *previous;
            last.store(next, Ordering::Relaxed);
        }
        if !grow {
            return Err(self.rejected());
        }
        if let Some(one) = one {
            held.one.store(one, Ordering::Relaxed);
            held.set_state(HELD_AS_ONE);
        }
        Ok(RecordedValues::Held)
    }

    /// Reverts values that the batch holds, and returns the first one that was not greater.
    #[cold]
    fn rejected(&self) -> NotGreater {
        let next = self.held.each.iter().map(|value| value.load(Ordering::Relaxed));
        let error = first_not_greater(next, &self.previous);
        self.undo(RecordedValues::Held);
        error
    }

    fn grow_in_semaphores(
        &mut self,
        next: impl Iterator<Item = u64>,
        one: Option<u64>,
    ) -> Result<RecordedValues, NotGreater> {
        let (mut grow, mut only_here) = (true, true);
        let values = self.previous.iter_mut().zip(&mut self.signalled);
        for ((semaphore, (previous, signalled)), next) in self.semaphores.iter().zip(values).zip(next) {
            *previous = semaphore.replace(next);
            grow &= next > *previous;
            only_here &= *previous == *signalled;
            *signalled = next;
        }
        if !grow {
            let error = first_not_greater(self.signalled.iter().copied(), &self.previous);
            self.undo(RecordedValues::Each);
            return Err(error);
        }
        // Twice in a row, because semaphores that other signals change each time would join each time.
        if only_here && self.may_hold {
            self.hold(one);
        }
        Ok(RecordedValues::Each)
    }

    /// Takes over the values of the semaphores.
    fn hold(&self, one: Option<u64>) {
        let Self { held, semaphores, signalled, .. } = self;
        held.each.iter().zip(signalled).for_each(|(held, value)| held.store(*value, Ordering::Relaxed));
        held.one.store(one.unwrap_or(0), Ordering::Relaxed);
        held.set_state(if one.is_some() { HELD_AS_ONE } else { HELD_EACH });
        semaphores.iter().enumerate().for_each(|(index, semaphore)| semaphore.join(held, index));
    }

    /// Reverts signals, in reverse order, for a semaphore that is in the batch twice.
    #[cold]
    pub(super) fn undo(&self, recorded: RecordedValues) {
        match recorded {
            RecordedValues::One(previous) => self.held.one.store(previous, Ordering::Relaxed),
            RecordedValues::Held => {
                self.held.each.iter().zip(&self.previous).for_each(|(held, previous)| {
                    held.store(*previous, Ordering::Relaxed);
                });
                if self.held.is(HELD_AS_ONE) {
                    self.held.set_state(HELD_EACH);
                }
            }
            RecordedValues::Each => {
                let semaphores = self.semaphores.iter().zip(&self.previous);
                semaphores.rev().for_each(|(semaphore, previous)| semaphore.set(*previous));
            }
        }
    }
}

#[cold]
fn first_not_greater(next: impl Iterator<Item = u64>, last: &[u64]) -> NotGreater {
    let wrong = next.zip(last).find(|(value, last)| value <= last);
    wrong.map_or(NotGreater { value: 0, last: 0 }, |(value, last)| NotGreater { value, last: *last })
}

#[cfg(all(test, loom))]
mod models {
    use loom::thread;

    use super::*;

    /// Threads that signal different timelines of a batch need no order: each finds the value of the batch.
    #[test]
    fn timelines_leave_a_batch_at_the_same_time() {
        for values in [[1, 2, 100].map(|value| [value; 2]), [[1, 2], [3, 4], [102, 100]]] {
            loom::model(move || {
                let semaphores: [Arc<LastSignalled>; 2] = Default::default();
                let mut batch = BatchValues::new(semaphores.iter().cloned());
                for next in values {
                    let one = (next[0] == next[1]).then_some(next[0]);
                    let grown = match one {
                        Some(one) if batch.is_one() => batch.grow_one(one),
                        _ => batch.grow(next.into_iter(), one),
                    };
                    grown.expect("greater values");
                }
                let [first, second] = semaphores;
                let thread = thread::spawn(move || second.grow("signal", 50).ok());
                assert_eq!(first.grow("signal", 103).ok(), Some(values[2][0]));
                assert_eq!(thread.join().expect("join"), None, "50 after 100");
            });
        }
    }
}

/// Each semaphore has its own value.
const NOT_HELD: u8 = 0;
/// All timelines have the same value.
pub(super) const HELD_AS_ONE: u8 = 1;
/// Each timeline has a value in the array.
pub(super) const HELD_EACH: u8 = 2;
/// Bit in addition to `HELD_AS_ONE` or `HELD_EACH`: a semaphore has left, and the others are to leave.
const LEAVING: u8 = 4;

/// The values that a batch holds for its semaphores.
#[derive(Debug)]
pub(super) struct HeldValues {
    /// Mode bits, plus `LEAVING`.
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
        Self { state: AtomicU8::new(NOT_HELD), one: AtomicU64::new(0), each }
    }

    /// The value at `index`. From now on the batch does not change its values.
    pub(super) fn release(&self, index: usize) -> u64 {
        if self.state.fetch_or(LEAVING, Ordering::Relaxed) & HELD_AS_ONE != 0 {
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

/// Marks a semaphore whose value a batch holds. No value is greater.
const IN_BATCH: u64 = u64::MAX;

/// Greatest value signalled through a semaphore object; the exporter may have signalled greater ones. Shared with graphs
/// and prepared batches.
#[derive(Debug, Default)]
pub(super) struct LastSignalled {
    value: AtomicU64,
    /// The batch that stores this value, and its index there. If present, `value` is [`IN_BATCH`].
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
        if previous == IN_BATCH {
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
            let _ = self.value.compare_exchange(IN_BATCH, held.release(index), Ordering::Relaxed, Ordering::Relaxed);
        }
        self.value.load(Ordering::Relaxed)
    }

    /// Gives the value to a batch, as the one with this index.
    pub(super) fn join(&self, held: &Arc<HeldValues>, index: usize) {
        let mut holder = lock(&self.holder);
        self.value.store(IN_BATCH, Ordering::Relaxed);
        *holder = Some((held.clone(), index));
    }
}

#[cold]
pub(super) fn backwards(operation: &'static str, value: u64, last: u64) -> Error {
    Error::invalid(operation, "a timeline only grows; signal a greater value")
        .with_context("value", value)
        .with_context("already signalled", last)
}
