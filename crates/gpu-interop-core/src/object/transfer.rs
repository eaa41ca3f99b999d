//! Copies, fills and stream memory operations.

use super::buffer::BufferSlice;
use super::stream::Stream;
use super::validate;
use crate::backend::{BackendDevice, RawStream, WaitCondition};
use crate::capability::Feature;
use crate::error::{Error, Result};

/// Why a write is refused.
pub(super) const READ_ONLY: &str = "the memory was imported read-only; import an object that allows writing";

impl Stream {
    /// Copies `src` to `dst`, asynchronously. Both have the same size and do not overlap.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for sizes that differ, ranges that overlap
    /// in device addresses or in one import, or memory of another device; else what the driver answers. That two imports
    /// are of the same memory, or an import and what it was exported from, cannot be seen: with ranges that overlap there,
    /// the data are not defined.
    pub fn copy<'a>(&self, dst: impl Into<BufferSlice<'a>>, src: impl Into<BufferSlice<'a>>) -> Result<()> {
        const OPERATION: &str = "Stream::copy";
        let (dst, src) = (dst.into(), src.into());
        self.enter(OPERATION, src, src.size)?;
        self.enter_target(OPERATION, dst, src.size)?;
        if dst.overlaps(&src) {
            let error = Error::invalid(OPERATION, "the ranges overlap")
                .with_context("dst", format_args!("{:?}", dst.ptr))
                .with_context("src", format_args!("{:?}", src.ptr))
                .with_context("size", src.size);
            return Err(self.device().decorate(error));
        }
        // SAFETY: both ranges are live on this device, of this size, and disjoint.
        self.call(|device, stream| unsafe { device.copy(stream, dst.ptr, src.ptr, src.size) })
    }

    /// Copies device memory to the host, and blocks until everything enqueued so far and the copy have run.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for sizes that differ or memory of another
    /// device; else what the driver answers.
    pub fn read<'a>(&self, src: impl Into<BufferSlice<'a>>, dst: &mut [u8]) -> Result<()> {
        let src = src.into();
        self.runs("Stream::read")?;
        self.enter("Stream::read", src, dst.len() as u64)?;
        // SAFETY: `dst` is as long as the range and outlives the copy: it is borrowed until this returns, and `finish`
        // returns, also with an error, only when the stream runs nothing any more.
        self.call(|device, stream| unsafe { device.copy_to_host(stream, dst.as_mut_ptr(), src.ptr, src.size) })?;
        self.finish()
    }

    /// Copies host memory to the device, and blocks until everything enqueued so far and the copy have run.
    ///
    /// # Errors
    /// As for [`Stream::read`].
    pub fn write<'a>(&self, dst: impl Into<BufferSlice<'a>>, src: &[u8]) -> Result<()> {
        let dst = dst.into();
        self.runs("Stream::write")?;
        self.enter_target("Stream::write", dst, src.len() as u64)?;
        // SAFETY: as in `read`.
        self.call(|device, stream| unsafe { device.copy_from_host(stream, dst.ptr, src.as_ptr(), dst.size) })?;
        self.finish()
    }

    /// Copies device memory to the host, asynchronously.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for memory of another device; else what the
    /// driver answers.
    ///
    /// # Safety
    /// `dst` must be valid for writes of the slice's size, and not be touched otherwise, until the copy has run; in a
    /// graph, until the graph is gone and has run.
    pub unsafe fn read_async<'a>(&self, src: impl Into<BufferSlice<'a>>, dst: *mut u8) -> Result<()> {
        let src = src.into();
        self.enter("Stream::read_async", src, src.size)?;
        // SAFETY: the range is live on this device; the caller vouches for the host memory.
        self.call(|device, stream| unsafe { device.copy_to_host(stream, dst, src.ptr, src.size) })
    }

    /// Copies host memory to the device, asynchronously.
    ///
    /// # Errors
    /// As for [`Stream::read_async`].
    ///
    /// # Safety
    /// `src` must be valid for reads of the slice's size, and not be written, until the copy has run; in a graph, until
    /// the graph is gone and has run.
    pub unsafe fn write_async<'a>(&self, dst: impl Into<BufferSlice<'a>>, src: *const u8) -> Result<()> {
        let dst = dst.into();
        self.enter_target("Stream::write_async", dst, dst.size)?;
        // SAFETY: the range is live on this device; the caller vouches for the host memory.
        self.call(|device, stream| unsafe { device.copy_from_host(stream, dst.ptr, src, dst.size) })
    }

    /// Sets every byte, asynchronously (`cuMemsetD8Async`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for memory of another device; else what the
    /// driver answers.
    pub fn fill<'a>(&self, dst: impl Into<BufferSlice<'a>>, value: u8) -> Result<()> {
        let dst = dst.into();
        self.enter_target("Stream::fill", dst, dst.size)?;
        // SAFETY: the range is live on this device.
        self.call(|device, stream| unsafe { device.fill_u8(stream, dst.ptr, value, dst.size) })
    }

    /// Sets every 32-bit word, asynchronously (`cuMemsetD32Async`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for memory of another device, or an address
    /// or size that is not a multiple of 4; else what the driver answers.
    pub fn fill_u32<'a>(&self, dst: impl Into<BufferSlice<'a>>, value: u32) -> Result<()> {
        const OPERATION: &str = "Stream::fill_u32";
        let dst = dst.into();
        self.enter_target(OPERATION, dst, dst.size)?;
        if !dst.ptr.get().is_multiple_of(4) || !dst.size.is_multiple_of(4) {
            let error = Error::invalid(OPERATION, "address and size must be multiples of 4")
                .with_context("address", format_args!("{:?}", dst.ptr))
                .with_context("size", dst.size);
            return Err(self.device().decorate(error));
        }
        // SAFETY: the range is live on this device and holds this many aligned words.
        self.call(|device, stream| unsafe { device.fill_u32(stream, dst.ptr, value, dst.size / 4) })
    }

    /// Makes everything enqueued from here on wait until a 32-bit word in device memory meets a condition
    /// (`cuStreamWaitValue32`).
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) where streams cannot, or cannot in graphs and this stream
    /// records one; [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) unless `word` is 4 bytes, 4-byte aligned, and
    /// of this device; else what the driver answers.
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
        self.waits_outside();
        Ok(())
    }

    /// The 64-bit twin of [`Stream::wait_value_u32`].
    ///
    /// # Errors
    /// As there, with 8 bytes.
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
        self.waits_outside();
        Ok(())
    }

    /// Writes a 32-bit word in device memory once everything enqueued before has run (`cuStreamWriteValue32`).
    ///
    /// # Errors
    /// As for [`Stream::wait_value_u32`].
    pub fn write_value_u32<'a>(&self, word: impl Into<BufferSlice<'a>>, value: u32) -> Result<()> {
        let word = word.into();
        self.check_writable("Stream::write_value_u32", word)?;
        self.enter_word("Stream::write_value_u32", word, 4, Feature::StreamMemoryOperations32)?;
        // SAFETY: the word is live on this device and naturally aligned.
        self.call(|device, stream| unsafe { device.write_value_u32(stream, word.ptr, value) })
    }

    /// The 64-bit twin of [`Stream::write_value_u32`].
    ///
    /// # Errors
    /// As there, with 8 bytes.
    pub fn write_value_u64<'a>(&self, word: impl Into<BufferSlice<'a>>, value: u64) -> Result<()> {
        let word = word.into();
        self.check_writable("Stream::write_value_u64", word)?;
        self.enter_word("Stream::write_value_u64", word, 8, Feature::StreamMemoryOperations64)?;
        // SAFETY: the word is live on this device and naturally aligned.
        self.call(|device, stream| unsafe { device.write_value_u64(stream, word.ptr, value) })
    }

    /// Checks that a slice can be used on this stream with `size` bytes, and notes the use.
    fn enter(&self, operation: &'static str, slice: BufferSlice<'_>, size: u64) -> Result<()> {
        self.check_device(operation, "memory", slice.device)?;
        if slice.size != size {
            let error = Error::invalid(operation, "the two sides differ in size")
                .with_context("device memory", format_args!("{} bytes", slice.size))
                .with_context("other side", format_args!("{size} bytes"));
            return Err(self.device().decorate(error));
        }
        slice.in_flight.mark(self.slot());
        Ok(())
    }

    /// As [`Stream::enter`], for a slice that will be written.
    fn enter_target(&self, operation: &'static str, slice: BufferSlice<'_>, size: u64) -> Result<()> {
        self.check_writable(operation, slice)?;
        self.enter(operation, slice, size)
    }

    /// Refuses to write what the exporter only allows to be read. A GPU would fault, and take its context with it.
    pub(super) fn check_writable(&self, operation: &'static str, slice: BufferSlice<'_>) -> Result<()> {
        if !slice.read_only {
            return Ok(());
        }
        Err(self.device().decorate(Error::invalid(operation, READ_ONLY)))
    }

    fn enter_word(&self, operation: &'static str, word: BufferSlice<'_>, size: u64, feature: Feature) -> Result<()> {
        let device = self.device();
        validate::feature(operation, device.raw.capabilities(), feature).map_err(|error| device.decorate(error))?;
        self.records_with(operation, Feature::GraphMemoryOperations)?;
        if word.size != size {
            let error = Error::invalid(operation, format!("the word must be {size} bytes"))
                .with_context("size", format_args!("{} bytes", word.size));
            return Err(device.decorate(error));
        }
        self.enter(operation, word, size)?;
        if !word.ptr.get().is_multiple_of(size) {
            let error = Error::invalid(operation, format!("the word must be aligned to {size} bytes"))
                .with_context("address", format_args!("{:?}", word.ptr));
            return Err(device.decorate(error));
        }
        Ok(())
    }

    fn call(&self, work: impl FnOnce(&dyn BackendDevice, RawStream) -> Result<()>) -> Result<()> {
        work(&*self.device().raw, self.as_raw()).map_err(|error| self.device().decorate(error))
    }
}
