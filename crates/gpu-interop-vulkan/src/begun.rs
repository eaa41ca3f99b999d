//! Waits and signals of a submission that is being made.

use ash::vk;
use gpu_interop_core::Result;

use crate::semaphore::OwnedSemaphore;

/// Recorded waits and signals of a submission to a queue. Reverted if this is dropped before the submission succeeds.
pub(crate) struct Begun<'a> {
    queue: vk::Queue,
    waits: Vec<Begin<'a>>,
    signals: Vec<&'a OwnedSemaphore>,
}

/// A recorded wait.
struct Begin<'a> {
    semaphore: &'a OwnedSemaphore,
    value: u64,
    /// Returned by [`OwnedSemaphore::begin_wait`].
    before: u64,
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
            semaphore.begin_signal(operation, queue, value)?;
            begun.signals.push(semaphore);
        }
        Ok(begun)
    }

    /// The submission was made.
    pub(crate) fn submitted(mut self) {
        for wait in self.waits.drain(..) {
            if let Some(timeline) = wait.semaphore.awaited() {
                wait.semaphore.interop().queue_waits().add(self.queue, &timeline, wait.value);
            }
        }
        self.signals.clear();
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.signals.iter().rev().for_each(|semaphore| semaphore.undo_signal(self.queue));
        self.waits.iter().rev().for_each(|wait| wait.semaphore.undo_wait(self.queue, wait.before));
    }
}
