//! Copies, fills and stream memory operations.

use super::buffer::BufferSlice;
use super::stream::Stream;
use super::validate;
use crate::backend::{BackendDevice, RawStream, WaitCondition};
use crate::capability::Feature;
use crate::error::{Error, Result};

/// Error text of a write to read-only memory.
pub(super) const READ_ONLY: &str = "the memory was imported read-only; import an object that allows writing";

impl Stream {
    /// Copies `src` to `dst`, asynchronously. Both must have the same size and not overlap.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for sizes that differ, ranges that overlap in
    /// device addresses or in one import, or memory of another device. Errors of the driver.
    ///
    /// The library cannot detect an overlap between two imports of the same memory, or between an import and its
    /// original allocation. The copied data is then undefined.
    #[doc(alias("cuMemcpyDtoDAsync", "cuMemcpyAsync", "cudaMemcpyAsync", "hipMemcpyDtoDAsync", "hipMemcpyAsync"))]
    pub fn copy<'a>(&self, dst: impl Into<BufferSlice<'a>>, src: impl Into<BufferSlice<'a>>) -> Result<()> {
        const OPERATION: &str = "Stream::copy";
        let (dst, src) = (dst.into(), src.into());
        self.enter(OPERATION, src, src.size)?;
        self.enter_target(OPERATION, dst, src.size)?;
        if dst.overlaps(&src) {
            let error = Error::invalid(OPERATION, "the ranges overlap")
                .with_context("dst", dst.ptr)
                .with_context("src", src.ptr)
                .with_context("size", src.size);
            return Err(self.device().decorate(error));
        }
        // SAFETY: both ranges are live on this device, of this size, and disjoint.
        self.call(|device, stream| unsafe { device.copy(stream, dst.ptr, src.ptr, src.size) })
    }

    /// Copies device memory to the host, and blocks until the copy and all work enqueued before have completed.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for sizes that differ or memory of another
    /// device; [`ErrorKind::System`](crate::ErrorKind::System) in a forked process. Errors of the driver.
    #[doc(alias("cuMemcpyDtoH", "cudaMemcpy", "hipMemcpyDtoH", "hipMemcpy"))]
    pub fn read<'a>(&self, src: impl Into<BufferSlice<'a>>, dst: &mut [u8]) -> Result<()> {
        self.check_may_wait("Stream::read")?;
        let src = src.into();
        self.enter("Stream::read", src, dst.len() as u64)?;
        // SAFETY: `dst` has the size of the range and is borrowed until this returns. It outlives the copy, because
        // `finish` waits until the stream is idle, even if it returns an error.
        self.call(|device, stream| unsafe { device.copy_to_host(stream, dst.as_mut_ptr(), src.ptr, src.size) })?;
        self.finish()
    }

    /// Copies host memory to the device, and blocks until the copy and all work enqueued before have completed.
    ///
    /// # Errors
    /// As for [`Stream::read`].
    #[doc(alias("cuMemcpyHtoD", "cudaMemcpy", "hipMemcpyHtoD", "hipMemcpy"))]
    pub fn write<'a>(&self, dst: impl Into<BufferSlice<'a>>, src: &[u8]) -> Result<()> {
        self.check_may_wait("Stream::write")?;
        let dst = dst.into();
        self.enter_target("Stream::write", dst, src.len() as u64)?;
        // SAFETY: as in `read`.
        self.call(|device, stream| unsafe { device.copy_from_host(stream, dst.ptr, src.as_ptr(), dst.size) })?;
        self.finish()
    }

    /// Copies device memory to the host, asynchronously.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for memory of another device. Errors of the
    /// driver.
    ///
    /// # Safety
    /// `dst` must be valid for writes of the slice's size, and must not be accessed by other code, until the copy has
    /// completed. For a recorded copy, this holds until the graph is destroyed and its last launch has completed.
    #[doc(alias("cuMemcpyDtoHAsync", "cudaMemcpyAsync", "hipMemcpyDtoHAsync"))]
    pub unsafe fn read_async<'a>(&self, src: impl Into<BufferSlice<'a>>, dst: *mut u8) -> Result<()> {
        let src = src.into();
        self.enter("Stream::read_async", src, src.size)?;
        // SAFETY: the range is live on this device; the caller guarantees the host memory.
        self.call(|device, stream| unsafe { device.copy_to_host(stream, dst, src.ptr, src.size) })
    }

    /// Copies host memory to the device, asynchronously.
    ///
    /// # Errors
    /// As for [`Stream::read_async`].
    ///
    /// # Safety
    /// `src` must be valid for reads of the slice's size, and must not be written, until the copy has completed. For a
    /// recorded copy, this holds until the graph is destroyed and its last launch has completed.
    #[doc(alias("cuMemcpyHtoDAsync", "cudaMemcpyAsync", "hipMemcpyHtoDAsync"))]
    pub unsafe fn write_async<'a>(&self, dst: impl Into<BufferSlice<'a>>, src: *const u8) -> Result<()> {
        let dst = dst.into();
        self.enter_target("Stream::write_async", dst, dst.size)?;
        // SAFETY: the range is live on this device; the caller guarantees the host memory.
        self.call(|device, stream| unsafe { device.copy_from_host(stream, dst.ptr, src, dst.size) })
    }

    /// Sets every byte, asynchronously (`cuMemsetD8Async`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for memory of another device. Errors of the
    /// driver.
    #[doc(alias("cuMemsetD8Async", "cudaMemsetAsync", "hipMemsetD8Async", "hipMemsetAsync"))]
    pub fn fill<'a>(&self, dst: impl Into<BufferSlice<'a>>, value: u8) -> Result<()> {
        let dst = dst.into();
        self.enter_target("Stream::fill", dst, dst.size)?;
        // SAFETY: the range is live on this device.
        self.call(|device, stream| unsafe { device.fill_u8(stream, dst.ptr, value, dst.size) })
    }

    /// Sets every 32-bit word, asynchronously (`cuMemsetD32Async`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for memory of another device, or an address or
    /// size that is not a multiple of 4. Errors of the driver.
    #[doc(alias("cuMemsetD32Async", "hipMemsetD32Async"))]
    pub fn fill_u32<'a>(&self, dst: impl Into<BufferSlice<'a>>, value: u32) -> Result<()> {
        const OPERATION: &str = "Stream::fill_u32";
        let dst = dst.into();
        self.enter_target(OPERATION, dst, dst.size)?;
        if !dst.ptr.get().is_multiple_of(4) || !dst.size.is_multiple_of(4) {
            let error = Error::invalid(OPERATION, "address and size must be multiples of 4")
                .with_context("address", dst.ptr)
                .with_context("size", dst.size);
            return Err(self.device().decorate(error));
        }
        // SAFETY: the range is live on this device and holds this many aligned words.
        self.call(|device, stream| unsafe { device.fill_u32(stream, dst.ptr, value, dst.size / 4) })
    }

    /// Makes later work wait until a 32-bit word in device memory satisfies a condition (`cuStreamWaitValue32`).
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if streams lack the feature, or graphs do (on a
    /// recording stream); [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) unless `word` is 4 bytes
    /// long, 4-byte aligned, and of this device. Errors of the driver.
    #[doc(alias("cuStreamWaitValue32", "hipStreamWaitValue32"))]
    pub fn wait_value_u32<'a>(
        &self,
        word: impl Into<BufferSlice<'a>>,
        value: u32,
        condition: WaitCondition,
    ) -> Result<()> {
        let word = word.into();
        self.enter_word("Stream::wait_value_u32", word, 4, Feature::StreamMemoryOperations32)?;
        self.about_to_wait();
        // SAFETY: the word is live on this device and naturally aligned.
        self.call(|device, stream| unsafe { device.wait_value_u32(stream, word.ptr, value, condition) })?;
        self.note_external_wait();
        Ok(())
    }

    /// Makes later work wait until a 64-bit word in device memory satisfies a condition (`cuStreamWaitValue64`).
    ///
    /// # Errors
    /// As for [`Stream::wait_value_u32`], with 8 bytes.
    #[doc(alias("cuStreamWaitValue64", "hipStreamWaitValue64"))]
    pub fn wait_value_u64<'a>(
        &self,
        word: impl Into<BufferSlice<'a>>,
        value: u64,
        condition: WaitCondition,
    ) -> Result<()> {
        let word = word.into();
        self.enter_word("Stream::wait_value_u64", word, 8, Feature::StreamMemoryOperations64)?;
        self.about_to_wait();
        // SAFETY: the word is live on this device and naturally aligned.
        self.call(|device, stream| unsafe { device.wait_value_u64(stream, word.ptr, value, condition) })?;
        self.note_external_wait();
        Ok(())
    }

    /// Writes a 32-bit word in device memory after all work enqueued before has completed (`cuStreamWriteValue32`).
    ///
    /// # Errors
    /// As for [`Stream::wait_value_u32`].
    #[doc(alias("cuStreamWriteValue32", "hipStreamWriteValue32"))]
    pub fn write_value_u32<'a>(&self, word: impl Into<BufferSlice<'a>>, value: u32) -> Result<()> {
        let word = word.into();
        self.check_writable("Stream::write_value_u32", word)?;
        self.enter_word("Stream::write_value_u32", word, 4, Feature::StreamMemoryOperations32)?;
        // SAFETY: the word is live on this device and naturally aligned.
        self.call(|device, stream| unsafe { device.write_value_u32(stream, word.ptr, value) })
    }

    /// Writes a 64-bit word in device memory after all work enqueued before has completed (`cuStreamWriteValue64`).
    ///
    /// # Errors
    /// As for [`Stream::wait_value_u32`], with 8 bytes.
    #[doc(alias("cuStreamWriteValue64", "hipStreamWriteValue64", "cuStreamBatchMemOp", "hipStreamBatchMemOp"))]
    pub fn write_value_u64<'a>(&self, word: impl Into<BufferSlice<'a>>, value: u64) -> Result<()> {
        let word = word.into();
        self.check_writable("Stream::write_value_u64", word)?;
        self.enter_word("Stream::write_value_u64", word, 8, Feature::StreamMemoryOperations64)?;
        // SAFETY: the word is live on this device and naturally aligned.
        self.call(|device, stream| unsafe { device.write_value_u64(stream, word.ptr, value) })
    }

    /// Checks that a slice can be used on this stream with `size` bytes, and records the use.
    fn enter(&self, operation: &'static str, slice: BufferSlice<'_>, size: u64) -> Result<()> {
        self.check_device(operation, "memory", slice.device)?;
        if slice.size != size {
            let error = Error::invalid(operation, "the two sides differ in size")
                .with_context("device memory", format_args!("{} bytes", slice.size))
                .with_context("other side", format_args!("{size} bytes"));
            return Err(self.device().decorate(error));
        }
        slice.mark(self.slot());
        Ok(())
    }

    /// As [`Stream::enter`], for a destination.
    fn enter_target(&self, operation: &'static str, slice: BufferSlice<'_>, size: u64) -> Result<()> {
        self.check_writable(operation, slice)?;
        self.enter(operation, slice, size)
    }

    /// Rejects writes to read-only memory. Such a write would fault on the GPU and destroy its context.
    pub(super) fn check_writable(&self, operation: &'static str, slice: BufferSlice<'_>) -> Result<()> {
        if !slice.read_only {
            return Ok(());
        }
        Err(self.device().decorate(Error::invalid(operation, READ_ONLY)))
    }

    fn enter_word(&self, operation: &'static str, word: BufferSlice<'_>, size: u64, feature: Feature) -> Result<()> {
        let device = self.device();
        validate::feature(operation, device.raw.capabilities(), feature).map_err(|error| device.decorate(error))?;
        self.check_capture_support(operation, Feature::GraphMemoryOperations)?;
        if word.size != size {
            let error = Error::invalid(operation, format!("the word must be {size} bytes"))
                .with_context("size", format_args!("{} bytes", word.size));
            return Err(device.decorate(error));
        }
        self.enter(operation, word, size)?;
        if !word.ptr.get().is_multiple_of(size) {
            let error = Error::invalid(operation, format!("the word must be aligned to {size} bytes"))
                .with_context("address", word.ptr);
            return Err(device.decorate(error));
        }
        Ok(())
    }

    fn call(&self, work: impl FnOnce(&dyn BackendDevice, RawStream) -> Result<()>) -> Result<()> {
        let _recording = self.lock_recording();
        work(&*self.device().raw, self.as_raw()).map_err(|error| self.device().decorate(error))
    }
}
