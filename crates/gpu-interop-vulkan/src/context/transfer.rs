//! Transfers of bytes between the host and a context's buffers. Every method blocks until completion.

use ash::vk;
use gpu_interop_core::{Error, Result};

use super::HeadlessContext;
use crate::buffer::OwnedBuffer;
use crate::placement::MemoryPlacement;

/// Bytes staged at a time. A larger value is not faster, and a small device has little host memory to map.
const CHUNK: u64 = 16 << 20;

impl HeadlessContext {
    /// Fills `size` bytes starting at byte `offset` with a word. Blocks until completion.
    ///
    /// # Errors
    /// Those of [`Recording::fill`](super::Recording::fill) and [`HeadlessContext::run`].
    pub fn fill(&self, buffer: &OwnedBuffer, offset: u64, size: u64, word: u32) -> Result<()> {
        self.run(|recording| recording.fill(buffer, offset, size, word))
    }

    /// Copies `size` bytes. Blocks until completion.
    ///
    /// # Errors
    /// Those of [`Recording::copy`](super::Recording::copy) and [`HeadlessContext::run`].
    pub fn copy(
        &self,
        src: &OwnedBuffer,
        src_offset: u64,
        dst: &OwnedBuffer,
        dst_offset: u64,
        size: u64,
    ) -> Result<()> {
        self.run(|recording| recording.copy(src, src_offset, dst, dst_offset, size))
    }

    /// Releases a buffer to the other API; see [`OwnershipTransfer`](crate::OwnershipTransfer). Blocks until
    /// completion, so the other API needs no further wait.
    ///
    /// # Errors
    /// Those of [`Recording::release`](super::Recording::release) and [`HeadlessContext::run`].
    pub fn release(&self, buffer: &OwnedBuffer) -> Result<()> {
        self.run(|recording| recording.release(buffer))
    }

    /// Acquires a buffer from the other API; see [`OwnershipTransfer`](crate::OwnershipTransfer). Blocks until
    /// completion.
    ///
    /// # Errors
    /// Those of [`Recording::acquire`](super::Recording::acquire) and [`HeadlessContext::run`].
    pub fn acquire(&self, buffer: &OwnedBuffer) -> Result<()> {
        self.run(|recording| recording.acquire(buffer))
    }

    /// Copies `data` to byte `offset` of a buffer of any placement, through a staging buffer and the queue. Blocks
    /// until completion.
    ///
    /// # Errors
    /// [`InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the range exceeds the buffer or the buffer
    /// lacks `TRANSFER_DST`; otherwise those of [`HeadlessContext::run`].
    pub fn upload(&self, buffer: &OwnedBuffer, offset: u64, data: &[u8]) -> Result<()> {
        let Some(staging) = self.staging("HeadlessContext::upload", buffer, offset, data.len())? else {
            return Ok(());
        };
        let chunk = usize::try_from(staging.size()).unwrap_or(usize::MAX);
        let mut at = offset;
        for part in data.chunks(chunk) {
            staging.write(0, part)?;
            let length = part.len() as u64;
            self.copy(&staging, 0, buffer, at, length)?;
            at += length;
        }
        Ok(())
    }

    /// Copies bytes starting at byte `offset` of a buffer of any placement, through the queue and a staging buffer.
    /// Blocks until completion.
    ///
    /// # Errors
    /// [`InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the range exceeds the buffer or the buffer
    /// lacks `TRANSFER_SRC`; otherwise those of [`HeadlessContext::run`].
    pub fn download(&self, buffer: &OwnedBuffer, offset: u64, out: &mut [u8]) -> Result<()> {
        let Some(staging) = self.staging("HeadlessContext::download", buffer, offset, out.len())? else {
            return Ok(());
        };
        let chunk = usize::try_from(staging.size()).unwrap_or(usize::MAX);
        let mut at = offset;
        for part in out.chunks_mut(chunk) {
            let length = part.len() as u64;
            self.copy(buffer, at, &staging, 0, length)?;
            staging.read(0, part)?;
            at += length;
        }
        Ok(())
    }

    /// Creates a staging buffer for a transfer of `length` bytes; `None` for an empty transfer.
    fn staging(
        &self,
        operation: &'static str,
        buffer: &OwnedBuffer,
        offset: u64,
        length: usize,
    ) -> Result<Option<OwnedBuffer>> {
        let length = length as u64;
        // Checked for the whole range first, so that an invalid transfer copies nothing.
        if offset.checked_add(length).is_none_or(|end| end > buffer.size()) {
            return Err(Error::invalid(operation, "the range goes past the end of the buffer")
                .with_context("offset", offset)
                .with_context("length", length)
                .with_context("size", format_args!("{} bytes", buffer.size())));
        }
        if length == 0 {
            return Ok(None);
        }
        let usage = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
        OwnedBuffer::new(self.interop(), length.min(CHUNK), usage, MemoryPlacement::HostVisible).map(Some)
    }
}
