//! Waits and signals of a submission that is being made.

use ash::vk;
use gpu_interop_core::Result;

use crate::semaphore::OwnedSemaphore;

/// Recorded waits and signals of a submission to a queue. Reverted if this is dropped before the submission succeeds.
pub(crate) struct Begun<'a> {
    queue: vk::Queue,
    /// With the values that [`OwnedSemaphore::begin_wait`] returned.
    waits: Vec<(&'a OwnedSemaphore, u64)>,
    signals: Vec<&'a OwnedSemaphore>,
}

impl<'a> Begun<'a> {
    /// Records the waits and signals of a submission that is about to be made. The caller holds the queue's lock.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if a timeline would not increase.
    pub(crate) fn new(
        operation: &'static str,
        queue: vk::Queue,
        waits: impl IntoIterator<Item = (&'a OwnedSemaphore, u64)>,
        signals: impl IntoIterator<Item = (&'a OwnedSemaphore, u64)>,
    ) -> Result<Self> {
        let begin = |(semaphore, value): (&'a OwnedSemaphore, u64)| (semaphore, semaphore.begin_wait(queue, value));
        let mut begun = Self { queue, waits: waits.into_iter().map(begin).collect(), signals: Vec::new() };
        for (semaphore, value) in signals {
            semaphore.begin_signal(operation, queue, value)?;
            begun.signals.push(semaphore);
        }
        Ok(begun)
    }

    /// The submission was made.
    pub(crate) fn submitted(mut self) {
        self.waits.clear();
        self.signals.clear();
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.signals.iter().rev().for_each(|semaphore| semaphore.undo_signal(self.queue));
        self.waits.iter().rev().for_each(|(semaphore, before)| semaphore.undo_wait(self.queue, *before));
    }
}
