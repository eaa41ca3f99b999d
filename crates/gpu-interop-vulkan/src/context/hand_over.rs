//! Copies to and from memory shared with another API, with the transfer of ownership in the same submission.

use gpu_interop_core::{Error, Result};

use super::{HeadlessContext, Recording, SemaphoreOp, Submission};
use crate::buffer::OwnedBuffer;

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
