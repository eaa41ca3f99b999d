//! Copies to and from memory that is shared with another API, with the hand-over in the same submission.

use gpu_interop_core::{Error, Result};

use super::{HeadlessContext, Recording, SemaphoreOp, Submission};
use crate::buffer::OwnedBuffer;

/// Bytes to copy from one buffer to another.
#[derive(Debug, Clone, Copy)]
pub struct BufferCopy<'a> {
    /// The source, created with `TRANSFER_SRC`.
    pub src: &'a OwnedBuffer,
    /// Where the bytes begin in the source.
    pub src_offset: u64,
    /// The target, created with `TRANSFER_DST`.
    pub dst: &'a OwnedBuffer,
    /// Where the bytes begin in the target.
    pub dst_offset: u64,
    /// How many bytes, at least 1.
    pub size: u64,
}

/// Hand-overs of work that is copies only. Between these calls the shared buffers are the other API's: release each once
/// ([`HeadlessContext::release`]) before its first hand-over.
///
/// They run on the context's queue. Where the device has one, take a context with a
/// [`QueueKind::TransferOnly`](crate::QueueKind::TransferOnly) queue for them, or make one of the application's own
/// queue ([`HeadlessContext::on_queue`]); [`QueueKind`](crate::QueueKind) says why. Such a queue is not found on every device,
/// and which other one to take is the application's choice: [`HeadlessContext::new`] answers
/// [`NoDevice`](gpu_interop_core::ErrorKind::NoDevice) rather than another queue.
impl HeadlessContext {
    /// Copies to shared buffers: waits, takes every target back from the other API, copies, hands the targets over, and
    /// signals, in one submission. Does not wait for it. The sources are this device's.
    ///
    /// The other API may use the targets once it has seen the signals, or the submission has been waited for.
    ///
    /// # Errors
    /// [`InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) without a copy; those of [`Recording::acquire`],
    /// of a target that was never released for one, [`Recording::copy`] and [`HeadlessContext::submit`]. Nothing is submitted then.
    pub fn send(
        &self,
        copies: &[BufferCopy<'_>],
        waits: &[SemaphoreOp<'_>],
        signals: &[SemaphoreOp<'_>],
    ) -> Result<Submission> {
        self.hand_over("HeadlessContext::send", copies, |copy| copy.dst, waits, signals)
    }

    /// Copies from shared buffers: waits, takes every source from the other API, copies, hands the sources back, and
    /// signals, in one submission. Does not wait for it. The targets are this device's.
    ///
    /// `waits` are for what the other API has done with the sources; it may use them again once it has seen the signals,
    /// or the submission has been waited for. The host sees what was copied to host-visible targets after that wait.
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
        // Each once, however many copies it has.
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
