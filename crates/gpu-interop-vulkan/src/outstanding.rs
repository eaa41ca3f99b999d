//! What submissions will do to a timeline, as far as they went through this crate.
//!
//! A queue runs in order, so what it signals must grow from submission to submission. And the host must not signal a value
//! that a submission may overtake or undo: Vulkan leaves undefined what a timeline is then (VUIDs 03242, 03258 and 03259).

use std::sync::{Mutex, MutexGuard, PoisonError};

use ash::vk;
use gpu_interop_core::{Error, ErrorKind, Result};

/// The outstanding signals of a timeline.
#[derive(Debug, Default)]
pub(crate) struct Outstanding(Mutex<Vec<Queue>>);

/// Those of one queue.
#[derive(Debug)]
struct Queue {
    queue: vk::Queue,
    /// The greatest value of the timeline that something on the queue waits for.
    waited: u64,
    /// The greatest value that something on the queue signals.
    last: u64,
    signals: Vec<Signal>,
}

/// A signal that may not have happened.
#[derive(Debug, Clone, Copy)]
struct Signal {
    value: u64,
    /// It does not happen before the timeline has this value.
    after: u64,
}

impl Outstanding {
    fn lock(&self) -> MutexGuard<'_, Vec<Queue>> {
        // What is under the lock is valid at every step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a queue is about to be given a wait for `value`.
    pub(crate) fn wait(&self, queue: vk::Queue, value: u64) {
        let mut queues = self.lock();
        let entry = entry(&mut queues, queue);
        entry.waited = entry.waited.max(value);
    }

    /// Notes that a queue is about to be given a signal of `value`; the timeline is at `present`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] unless it is greater than what was reached or given to this queue before.
    pub(crate) fn signal(&self, operation: &'static str, queue: vk::Queue, present: u64, value: u64) -> Result<()> {
        let mut queues = self.lock();
        let entry = entry(&mut queues, queue);
        entry.signals.retain(|signal| signal.value > present);
        let before = entry.last.max(present);
        if value <= before {
            return Err(Error::invalid(
                operation,
                "a timeline only goes up: the submission would signal what is reached by then",
            )
            .with_context("value", value)
            .with_context("reached or submitted before", before));
        }
        entry.last = value;
        entry.signals.push(Signal { value, after: entry.waited });
        Ok(())
    }

    /// Takes back the last [`Outstanding::signal`] of a queue, which was not submitted.
    pub(crate) fn undo(&self, queue: vk::Queue) {
        let mut queues = self.lock();
        let entry = entry(&mut queues, queue);
        entry.signals.pop();
        entry.last = entry.signals.last().map_or(0, |signal| signal.value);
    }

    /// Runs the host's signal of `value`, unless a submission may come before or after it as it must not; the timeline is at
    /// `present`. Nothing is submitted meanwhile.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if a smaller value, or this one, is outstanding; [`ErrorKind::Overtaken`] if a greater
    /// one is, of work that does not wait for this value. Else those of `run`.
    pub(crate) fn by_host(
        &self,
        operation: &'static str,
        present: u64,
        value: u64,
        run: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let queues = self.lock();
        for signal in queues.iter().flat_map(|queue| &queue.signals).filter(|signal| signal.value > present) {
            let (kind, message) = match signal {
                Signal { value: outstanding, .. } if *outstanding <= value => (
                    ErrorKind::InvalidArgument,
                    "submitted work is still to signal a value that is not greater; wait for that first",
                ),
                Signal { after, .. } if *after < value => (
                    ErrorKind::Overtaken,
                    "submitted work that does not wait for this value may signal a greater one before it; use one \
                     timeline a direction",
                ),
                Signal { .. } => continue,
            };
            return Err(Error::new(kind, operation, message)
                .with_context("value", value)
                .with_context("outstanding", signal.value));
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
    fn what_a_queue_signals_grows() {
        let outstanding = Outstanding::default();
        let signal = |number, present, value| kind(outstanding.signal("op", queue(number), present, value));
        assert_eq!(signal(1, 0, 5), None);
        for value in [0, 4, 5] {
            assert_eq!(signal(1, 0, value), Some(ErrorKind::InvalidArgument), "{value}");
        }
        // Another queue may be earlier, but not behind what is reached.
        assert_eq!(signal(2, 0, 3), None);
        assert_eq!(signal(3, 3, 3), Some(ErrorKind::InvalidArgument));
        // What was not submitted counts no more.
        assert_eq!(signal(1, 3, 9), None);
        outstanding.undo(queue(1));
        assert_eq!(signal(1, 3, 6), None);
    }

    #[test]
    fn the_host_signals_only_between_what_is_outstanding() {
        let outstanding = Outstanding::default();
        let host = |present, value| kind(outstanding.by_host("op", present, value, || Ok(())));
        assert_eq!(host(0, 1), None);
        // Turns: the next signal waits for the host's value.
        outstanding.wait(queue(1), 2);
        outstanding.signal("op", queue(1), 1, 3).expect("grows");
        assert_eq!(host(1, 2), None);
        // Not before a smaller one, nor the same.
        for value in [3, 4] {
            assert_eq!(host(1, value), Some(ErrorKind::InvalidArgument), "{value}");
        }
        assert_eq!(host(3, 4), None, "reached");
        // A queue that waits for nothing of the sort may be faster.
        outstanding.signal("op", queue(2), 3, 9).expect("grows");
        assert_eq!(host(3, 4), Some(ErrorKind::Overtaken));
        // What was waited for before on the same queue counts.
        let outstanding = Outstanding::default();
        outstanding.wait(queue(1), 4);
        outstanding.signal("op", queue(1), 3, 5).expect("grows");
        outstanding.signal("op", queue(1), 3, 6).expect("grows");
        assert_eq!(kind(outstanding.by_host("op", 3, 4, || Ok(()))), None);
        assert_eq!(
            kind(outstanding.by_host("op", 3, 4, || Err(Error::unsupported("op", "no")))),
            Some(ErrorKind::Unsupported)
        );
    }
}
