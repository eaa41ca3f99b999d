//! Waits and signals of a submission that is being made.

use ash::vk;
use gpu_interop_core::Result;

use crate::semaphore::{Before, OwnedSemaphore};

/// Recorded waits and signals of a submission to a queue. Reverted if this is dropped before the submission succeeds.
pub(crate) struct Begun<'a> {
    queue: vk::Queue,
    waits: Vec<Begin<'a>>,
    signals: Vec<Begin<'a>>,
}

/// A recorded wait or signal.
struct Begin<'a> {
    semaphore: &'a OwnedSemaphore,
    value: u64,
    before: Before,
}

impl<'a> Begun<'a> {
    /// Records the waits and signals of a submission that is about to be made. The caller holds the queue's lock.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if a timeline would not increase, a
    /// binary semaphore to wait for has no submitted signal, or one to signal is already signalled.
    pub(crate) fn new(
        operation: &'static str,
        queue: vk::Queue,
        waits: impl IntoIterator<Item = (&'a OwnedSemaphore, u64)>,
        signals: impl IntoIterator<Item = (&'a OwnedSemaphore, u64)>,
    ) -> Result<Self> {
        let mut begun = Self { queue, waits: Vec::new(), signals: Vec::new() };
        for (semaphore, value) in waits {
            let before = semaphore.begin_wait(operation, queue, value)?;
            begun.waits.push(Begin { semaphore, value, before });
        }
        for (semaphore, value) in signals {
            let is_waited = begun.waits.iter().any(|wait| wait.semaphore.is_same(semaphore));
            let before = semaphore.begin_signal(operation, queue, value, is_waited)?;
            begun.signals.push(Begin { semaphore, value, before });
        }
        Ok(begun)
    }

    /// The submission was made: other queues may now wait for its signals.
    pub(crate) fn submitted(mut self) {
        let (waits, signals) = (std::mem::take(&mut self.waits), std::mem::take(&mut self.signals));
        let Some(first) = waits.iter().chain(&signals).next() else { return };
        let awaited = waits.iter().filter_map(|wait| Some((wait.semaphore.awaited()?, wait.value)));
        let place = first.semaphore.interop().queue_waits().submitted(self.queue, awaited);
        waits.iter().for_each(|wait| wait.semaphore.wait_submitted());
        signals.iter().for_each(|signal| signal.semaphore.signal_submitted(self.queue, place));
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.signals.iter().rev().for_each(|signal| signal.semaphore.undo_signal(self.queue, signal.before));
        self.waits.iter().rev().for_each(|wait| wait.semaphore.undo_wait(self.queue, wait.before));
    }
}

impl OwnedSemaphore {
    /// Runs `submit`, which makes another library signal the timeline from `queue`, behind the queue's earlier work. The
    /// signal is recorded, so that [`signal`](Self::signal) and later submissions do not conflict with it; it is not if
    /// `submit` fails. One thread at a time submits signals of a timeline to a queue.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a binary semaphore; for a value not above the current one and every one
    /// submitted to this queue, or further above the current one than the device allows; otherwise the errors of
    /// `submit`.
    pub fn submit_signal(&self, queue: vk::Queue, value: u64, submit: impl FnOnce() -> Result<()>) -> Result<()> {
        const OPERATION: &str = "OwnedSemaphore::submit_signal";
        self.check_value(OPERATION, value)?;
        let begun = Begun::new(OPERATION, queue, [], [(self, value)])?;
        submit()?;
        begun.submitted();
        Ok(())
    }

    /// As [`submit_signal`](Self::submit_signal), of a wait for `value` in front of the queue's later work.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a binary semaphore, and for a value further from the current one than the
    /// device allows; otherwise the errors of `submit`.
    pub fn submit_wait(&self, queue: vk::Queue, value: u64, submit: impl FnOnce() -> Result<()>) -> Result<()> {
        const OPERATION: &str = "OwnedSemaphore::submit_wait";
        self.check_value(OPERATION, value)?;
        let begun = Begun::new(OPERATION, queue, [(self, value)], [])?;
        submit()?;
        begun.submitted();
        Ok(())
    }
}
