//! Copies to and from memory shared with another API, with the transfer of ownership in the same submission.

use ash::vk;
use gpu_interop_core::{Error, Result};

use super::{HeadlessContext, Recording, SemaphoreOp, Submission};
use crate::buffer::OwnedBuffer;
use crate::semaphore::{Before, OwnedSemaphore};

/// Bytes to copy from one buffer to another.
#[derive(Debug, Clone, Copy)]
pub struct BufferCopy<'a> {
    /// The source, created with `TRANSFER_SRC`.
    pub src: &'a OwnedBuffer,
    /// Offset in the source, in bytes.
    pub src_offset: u64,
    /// The target, created with `TRANSFER_DST`.
    pub dst: &'a OwnedBuffer,
    /// Offset in the target, in bytes.
    pub dst_offset: u64,
    /// Number of bytes, at least 1.
    pub size: u64,
}

/// Hand-overs of work that only copies. Between these calls the other API owns the shared buffers: release each once
/// ([`HeadlessContext::release`]) before its first hand-over.
///
/// The copies run on the context's queue. If the device has one, use a context with a
/// [`QueueKind::TransferOnly`](crate::QueueKind::TransferOnly) queue for them, or create one for a queue of the
/// application ([`HeadlessContext::on_queue`]); [`QueueKind`](crate::QueueKind) gives the reason. Some devices have no
/// such queue, and the application chooses another one then: [`HeadlessContext::new`] returns
/// [`NoDevice`](gpu_interop_core::ErrorKind::NoDevice) instead of taking another queue.
impl HeadlessContext {
    /// Copies to shared buffers: waits, acquires every target from the other API, copies, releases the targets, and
    /// signals, in one submission. Does not block. This device must own the sources.
    ///
    /// The other API may use the targets after the signals, or after the submission has been waited for.
    ///
    /// # Errors
    /// [`InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) without a copy; those of
    /// [`Recording::acquire`] (also for a target that was never released), [`Recording::copy`] and
    /// [`HeadlessContext::submit`]. Nothing is submitted then.
    pub fn send(
        &self,
        copies: &[BufferCopy<'_>],
        waits: &[SemaphoreOp<'_>],
        signals: &[SemaphoreOp<'_>],
    ) -> Result<Submission> {
        self.hand_over("HeadlessContext::send", copies, |copy| copy.dst, waits, signals)
    }

    /// Copies from shared buffers: waits, acquires every source from the other API, copies, releases the sources, and
    /// signals, in one submission. Does not block. This device must own the targets.
    ///
    /// `waits` must include the other API's work on the sources. The other API may use them again after the signals, or
    /// after the submission has been waited for. Copies to host-visible targets are visible to the host after that
    /// wait.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn receive(
        &self,
        copies: &[BufferCopy<'_>],
        waits: &[SemaphoreOp<'_>],
        signals: &[SemaphoreOp<'_>],
    ) -> Result<Submission> {
        self.hand_over("HeadlessContext::receive", copies, |copy| copy.src, waits, signals)
    }

    fn hand_over<'a>(
        &self,
        operation: &'static str,
        copies: &[BufferCopy<'a>],
        shared: impl Fn(&BufferCopy<'a>) -> &'a OwnedBuffer,
        waits: &[SemaphoreOp<'_>],
        signals: &[SemaphoreOp<'_>],
    ) -> Result<Submission> {
        if copies.is_empty() {
            return Err(Error::invalid(operation, "there is nothing to copy"));
        }
        // Each buffer once, however many copies it has.
        let mut buffers: Vec<&OwnedBuffer> = Vec::with_capacity(copies.len());
        for buffer in copies.iter().map(shared) {
            if buffers.iter().all(|known| known.as_raw() != buffer.as_raw()) {
                buffers.push(buffer);
            }
        }
        self.submit(waits, signals, |recording: &mut Recording<'_>| {
            buffers.iter().try_for_each(|buffer| recording.acquire(buffer))?;
            for copy in copies {
                recording.copy(copy.src, copy.src_offset, copy.dst, copy.dst_offset, copy.size)?;
            }
            buffers.iter().try_for_each(|buffer| recording.release(buffer))
        })
    }
}

/// Recorded waits and signals of a submission to a queue. Reverted if this is dropped before the submission succeeds.
pub(crate) struct SubmissionGuard<'a> {
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

impl<'a> SubmissionGuard<'a> {
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
        let mut guard = Self { queue, waits: Vec::new(), signals: Vec::new() };
        for (semaphore, value) in waits {
            let before = semaphore.begin_wait(operation, queue, value)?;
            guard.waits.push(Begin { semaphore, value, before });
        }
        for (semaphore, value) in signals {
            let is_waited = guard.waits.iter().any(|wait| wait.semaphore.is_same(semaphore));
            let before = semaphore.begin_signal(operation, queue, value, is_waited)?;
            guard.signals.push(Begin { semaphore, value, before });
        }
        Ok(guard)
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

impl Drop for SubmissionGuard<'_> {
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
        let guard = SubmissionGuard::new(OPERATION, queue, [], [(self, value)])?;
        submit()?;
        guard.submitted();
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
        let guard = SubmissionGuard::new(OPERATION, queue, [(self, value)], [])?;
        submit()?;
        guard.submitted();
        Ok(())
    }
}
