//! Timeline signals of submissions that have not executed yet, as far as they went through this crate.
//!
//! A queue executes in order, so its signals must increase from submission to submission. The host must not signal a
//! value that a submission may overtake or revert: the timeline's value is then undefined (VUIDs 03242, 03258 and
//! 03259).

use std::mem::ManuallyDrop;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ash::vk;
use gpu_interop_core::sync::lock;
use gpu_interop_core::{Error, ErrorKind, Result, in_host_function};

use crate::interop::VulkanInterop;
use crate::queue::Place;

#[derive(Debug, Default)]
pub(crate) struct PendingSignals(Mutex<Vec<Queue>>);

/// The pending signals of one queue.
#[derive(Debug)]
struct Queue {
    queue: vk::Queue,
    /// The greatest value that the queue's submissions wait for.
    waited: u64,
    /// The greatest value that the queue's submissions signal.
    last: u64,
    signals: Vec<Signal>,
}

/// A signal that may not have executed.
#[derive(Debug, Clone, Copy)]
struct Signal {
    value: u64,
    /// The signal executes only once the timeline has this value.
    after: u64,
    /// `None` until the submission was made.
    place: Option<Place>,
}

impl PendingSignals {
    fn lock(&self) -> MutexGuard<'_, Vec<Queue>> {
        // The data is valid after every step, so a poisoned lock is usable.
        lock(&self.0)
    }

    /// Records a wait for `value` that is about to be submitted to a queue. Returns the greatest value that earlier
    /// submissions wait for.
    pub(crate) fn wait(&self, queue: vk::Queue, value: u64) -> u64 {
        let mut queues = self.lock();
        let entry = entry(&mut queues, queue);
        let before = entry.waited;
        entry.waited = before.max(value);
        before
    }

    /// Reverts the last [`PendingSignals::wait`] of a queue, which returned `before`, after a failed submission.
    pub(crate) fn undo_wait(&self, queue: vk::Queue, before: u64) {
        entry(&mut self.lock(), queue).waited = before;
    }

    /// Records a signal of `value` that is about to be submitted to a queue, for a timeline at `current`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] unless `value` is greater than the current value and every value submitted to
    /// this queue.
    pub(crate) fn signal(&self, operation: &'static str, queue: vk::Queue, current: u64, value: u64) -> Result<()> {
        let mut queues = self.lock();
        let entry = entry(&mut queues, queue);
        entry.signals.retain(|signal| signal.value > current);
        let before = entry.last.max(current);
        if value <= before {
            return Err(Error::invalid(
                operation,
                "a timeline value can only increase: earlier work reaches this value first; signal a greater one",
            )
            .with_context("value", value)
            .with_context("reached by earlier work", before));
        }
        entry.last = value;
        entry.signals.push(Signal { value, after: entry.waited, place: None });
        Ok(())
    }

    /// The recorded signals of a queue were submitted.
    pub(crate) fn submitted(&self, queue: vk::Queue, place: Place) {
        let mut queues = self.lock();
        let signals = entry(&mut queues, queue).signals.iter_mut().rev();
        signals.take_while(|signal| signal.place.is_none()).for_each(|signal| signal.place = Some(place));
    }

    /// A submission that signals `value` or a greater one.
    pub(crate) fn submission_of(&self, value: u64) -> Option<Place> {
        let queues = self.lock();
        let mut signals = queues.iter().flat_map(|queue| &queue.signals).filter(|signal| signal.value >= value);
        signals.find_map(|signal| signal.place)
    }

    /// Reverts the last [`PendingSignals::signal`] of a queue after a failed submission.
    pub(crate) fn undo(&self, queue: vk::Queue) {
        let mut queues = self.lock();
        let entry = entry(&mut queues, queue);
        entry.signals.pop();
        entry.last = entry.signals.last().map_or(0, |signal| signal.value);
    }

    /// Runs the host's signal of `value` for a timeline at `current`, unless a pending submission conflicts with it.
    /// The lock blocks submissions during the signal.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if a pending signal has this or a smaller value; [`ErrorKind::Overtaken`] if one
    /// has a greater value and does not wait for this one. Otherwise the errors of `run`.
    pub(crate) fn by_host(
        &self,
        operation: &'static str,
        current: u64,
        value: u64,
        run: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let queues = self.lock();
        for signal in queues.iter().flat_map(|queue| &queue.signals).filter(|signal| signal.value > current) {
            let (kind, message) = match signal {
                Signal { value: pending, .. } if *pending <= value => (
                    ErrorKind::InvalidArgument,
                    "pending work will signal this or a smaller value; wait for that work first",
                ),
                Signal { after, .. } if *after < value => (
                    ErrorKind::Overtaken,
                    "pending work may signal a greater value first, because it does not wait for this one; use one \
                     timeline per direction",
                ),
                Signal { .. } => continue,
            };
            return Err(Error::new(kind, operation, message)
                .with_context("value", value)
                .with_context("pending", signal.value));
        }
        run()
    }
}

fn entry(queues: &mut Vec<Queue>, queue: vk::Queue) -> &mut Queue {
    let place = queues.iter().position(|entry| entry.queue == queue).unwrap_or_else(|| {
        queues.push(Queue { queue, waited: 0, last: 0, signals: Vec::new() });
        queues.len() - 1
    });
    &mut queues[place]
}

/// Time that a drop waits for pending work.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// Time that a thread waits for the work of objects that were dropped in a host function.
const UNATTENDED: Duration = Duration::from_secs(60);

/// An object that pending work uses.
pub(crate) trait InUse: Send + Sized + 'static {
    /// Logged if the object is leaked.
    const LEAKED: &str;

    /// The device of the work.
    fn interop(&self) -> &VulkanInterop;

    /// Blocks until the work has finished, or fails.
    fn wait(&self, timeout: Duration) -> Result<()>;
}

/// Drops objects of one device once their work has finished, and leaks those whose work has not finished in time:
/// freeing them would be undefined behaviour, and an unlimited wait could hang the application.
pub(crate) fn drop_in_use<T: InUse>(objects: Vec<T>) {
    let Some(first) = objects.first() else { return };
    // In a forked process no drop calls the driver.
    if first.interop().is_forked() {
        return;
    }
    if must_not_wait(first.interop()) {
        free_later(objects, finish);
    } else {
        finish(objects, PATIENCE);
    }
}

fn finish<T: InUse>(objects: Vec<T>, patience: Duration) {
    let deadline = Instant::now() + patience;
    for object in objects {
        match object.wait(deadline.saturating_duration_since(Instant::now())) {
            // A failed wait proves nothing, but a lost device runs nothing.
            Err(error) if error.kind() != ErrorKind::DeviceLost => {
                tracing::error!(%error, "{}", T::LEAKED);
                std::mem::forget(object);
            }
            _ => drop(object),
        }
    }
}

/// `true` if a drop on this thread must leave pending work to [`free_later`]: a host function must not wait, because
/// the work may be behind it. A device that its objects do not keep alive may be destroyed after the host function.
pub(crate) fn must_not_wait(interop: &VulkanInterop) -> bool {
    in_host_function() && interop.keeps_device()
}

/// Calls `free` on a new thread, with the time to wait for the work of `objects`; leaks them if no thread can start.
pub(crate) fn free_later<T: Send + 'static>(objects: T, free: impl FnOnce(T, Duration) + Send + 'static) {
    // A closure that is not called is dropped.
    let objects = ManuallyDrop::new(objects);
    let body = move || free(ManuallyDrop::into_inner(objects), UNATTENDED);
    if let Err(error) = std::thread::Builder::new().name("gpu-interop free".into()).spawn(body) {
        tracing::error!(%error, "no thread can wait for pending work; the objects that it uses are leaked");
    }
}

#[cfg(test)]
mod tests {
    use ash::vk::Handle;

    use super::*;

    fn queue(number: u64) -> vk::Queue {
        vk::Queue::from_raw(number)
    }

    fn kind(result: Result<()>) -> Option<ErrorKind> {
        result.err().map(|error| error.kind())
    }

    #[test]
    fn signals_of_a_queue_must_increase() {
        let pending = PendingSignals::default();
        let signal = |number, current, value| kind(pending.signal("op", queue(number), current, value));
        assert_eq!(signal(1, 0, 5), None);
        for value in [0, 4, 5] {
            assert_eq!(signal(1, 0, value), Some(ErrorKind::InvalidArgument), "{value}");
        }
        // Another queue may signal a smaller value, but not one that is already reached.
        assert_eq!(signal(2, 0, 3), None);
        assert_eq!(signal(3, 3, 3), Some(ErrorKind::InvalidArgument));
        // A reverted signal does not count.
        assert_eq!(signal(1, 3, 9), None);
        pending.undo(queue(1));
        assert_eq!(signal(1, 3, 6), None);
    }

    #[test]
    fn host_signals_must_not_conflict_with_pending_ones() {
        let pending = PendingSignals::default();
        let host = |current, value| kind(pending.by_host("op", current, value, || Ok(())));
        assert_eq!(host(0, 1), None);
        // Alternating signals: the next one waits for the host's value.
        pending.wait(queue(1), 2);
        pending.signal("op", queue(1), 1, 3).expect("increases");
        assert_eq!(host(1, 2), None);
        // Not while this or a smaller value is pending.
        for value in [3, 4] {
            assert_eq!(host(1, value), Some(ErrorKind::InvalidArgument), "{value}");
        }
        assert_eq!(host(3, 4), None, "reached");
        // A queue that does not wait for the host's value may be faster.
        pending.signal("op", queue(2), 3, 9).expect("increases");
        assert_eq!(host(3, 4), Some(ErrorKind::Overtaken));
        // Earlier waits on the same queue count.
        let pending = PendingSignals::default();
        pending.wait(queue(1), 4);
        pending.signal("op", queue(1), 3, 5).expect("increases");
        pending.signal("op", queue(1), 3, 6).expect("increases");
        assert_eq!(kind(pending.by_host("op", 3, 4, || Ok(()))), None);
        assert_eq!(
            kind(pending.by_host("op", 3, 4, || Err(Error::unsupported("op", "no")))),
            Some(ErrorKind::Unsupported)
        );
    }
}
