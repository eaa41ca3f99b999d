//! Copies between images, linear memory and the host.

use super::array::ArrayRegion;
use super::buffer::BufferSlice;
use super::stream::Stream;
use super::transfer::READ_ONLY;
use crate::backend::{ArrayCopy, ArrayCopySide};
use crate::error::{Error, Result};

/// Texels in linear memory, row by row and slice by slice.
///
/// Converting a [`BufferSlice`] of exactly the region's size describes rows without gaps. For gaps between rows use
/// [`PitchedTexels::new`].
#[derive(Debug, Clone, Copy)]
pub struct PitchedTexels<'a> {
    slice: BufferSlice<'a>,
    pitches: Option<(u64, u64)>,
}

impl<'a> PitchedTexels<'a> {
    /// Describes texels with `row_pitch` bytes from row to row and `rows` rows from slice to slice. Without gaps
    /// between slices, `rows` is the height. For linear Vulkan images, the pitch is `VkSubresourceLayout::rowPitch`.
    #[must_use]
    pub fn new(slice: impl Into<BufferSlice<'a>>, row_pitch: u64, rows: u64) -> Self {
        Self { slice: slice.into(), pitches: Some((row_pitch, rows)) }
    }

    /// Checks that a copy of this extent (bytes, rows, slices) is inside the slice, and converts it for the backend.
    fn side(&self, operation: &'static str, extent: [u64; 3]) -> Result<ArrayCopySide> {
        let [width, height, depth] = extent;
        let (row_pitch, rows) = self.pitches.unwrap_or((width, height));
        let invalid = |what: &str| {
            let error = Error::invalid(operation, what)
                .with_context("row pitch", format_args!("{row_pitch} bytes"))
                .with_context("rows in a slice", rows)
                .with_context("linear memory", format_args!("{} bytes", self.slice.size))
                .with_context("region", format_args!("{width} bytes x {height} rows x {depth} slices"));
            Err(self.slice.device.decorate(error))
        };
        if row_pitch < width || rows < height {
            return invalid("the row pitch or the number of rows is smaller than that of the region");
        }
        // End of the last row, without the padding behind it.
        let end = (depth - 1)
            .checked_mul(rows)
            .and_then(|before| before.checked_add(height - 1))
            .and_then(|before| before.checked_mul(row_pitch))
            .and_then(|before| before.checked_add(width));
        match end {
            Some(end) if self.pitches.is_some() && end <= self.slice.size => {}
            Some(end) if self.pitches.is_none() && end == self.slice.size => {}
            _ => return invalid("the linear memory does not have the size of the region"),
        }
        // A single row or slice has no pitch, and drivers may reject an arbitrary one.
        let rows = if depth == 1 { height } else { rows };
        let row_pitch = if height == 1 && depth == 1 { width } else { row_pitch };
        Ok(ArrayCopySide::Linear { ptr: self.slice.ptr, row_pitch, rows })
    }
}

impl<'a, T: Into<BufferSlice<'a>>> From<T> for PitchedTexels<'a> {
    fn from(slice: T) -> Self {
        Self { slice: slice.into(), pitches: None }
    }
}

impl Stream {
    /// Copies a region of an image to linear memory, asynchronously (`cuMemcpy3DAsync`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the linear memory does not have the size of
    /// the region or is too small with its pitches, or for memory of another device. Errors of the driver.
    #[doc(alias(
        "cuMemcpy3DAsync",
        "cudaMemcpy3DAsync",
        "hipDrvMemcpy3DAsync",
        "hipMemcpy3DAsync",
        "cudaMemcpy2DFromArrayAsync"
    ))]
    pub fn copy_from_array<'a>(&self, dst: impl Into<PitchedTexels<'a>>, src: ArrayRegion<'_>) -> Result<()> {
        const OPERATION: &str = "Stream::copy_from_array";
        let dst = dst.into();
        self.check_writable(OPERATION, dst.slice)?;
        let dst = self.enter_linear(OPERATION, &dst, src.copy_extent())?;
        let src_side = self.enter_region(OPERATION, src)?;
        // SAFETY: both sides are live on this device and hold the extent.
        unsafe { self.copy_array_sides(dst, src_side, src.copy_extent()) }
    }

    /// Copies linear memory to a region of an image, asynchronously (`cuMemcpy3DAsync`).
    ///
    /// # Errors
    /// As for [`Stream::copy_from_array`].
    #[doc(alias(
        "cuMemcpy3DAsync",
        "cudaMemcpy3DAsync",
        "hipDrvMemcpy3DAsync",
        "hipMemcpy3DAsync",
        "cudaMemcpy2DToArrayAsync"
    ))]
    pub fn copy_to_array<'a>(&self, dst: ArrayRegion<'_>, src: impl Into<PitchedTexels<'a>>) -> Result<()> {
        const OPERATION: &str = "Stream::copy_to_array";
        let src = src.into();
        let src = self.enter_linear(OPERATION, &src, dst.copy_extent())?;
        let dst_side = self.enter_target_region(OPERATION, dst)?;
        // SAFETY: both sides are live on this device and hold the extent.
        unsafe { self.copy_array_sides(dst_side, src, dst.copy_extent()) }
    }

    /// Copies a region of an image to another, asynchronously (`cuMemcpy3DAsync`). Texels are copied without
    /// conversion.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the regions differ in extent or texel size,
    /// overlap in one level, or belong to another device. Errors of the driver.
    #[doc(alias("cuMemcpy3DAsync", "cudaMemcpy3DAsync", "hipDrvMemcpy3DAsync", "hipMemcpy3DAsync"))]
    pub fn copy_array(&self, dst: ArrayRegion<'_>, src: ArrayRegion<'_>) -> Result<()> {
        const OPERATION: &str = "Stream::copy_array";
        let dst_side = self.enter_target_region(OPERATION, dst)?;
        let src_side = self.enter_region(OPERATION, src)?;
        let invalid = |what: &str| {
            let describe = |region: ArrayRegion<'_>| {
                format!("{:?} texels of {} bytes at {:?}", region.extent, region.texel_size, region.offset)
            };
            let error =
                Error::invalid(OPERATION, what).with_context("dst", describe(dst)).with_context("src", describe(src));
            Err(self.device().decorate(error))
        };
        if dst.extent != src.extent || dst.texel_size != src.texel_size {
            return invalid("the two sides differ in extent or texel size");
        }
        let overlap = dst.raw == src.raw
            && (0..3).all(|dimension| dst.offset[dimension].abs_diff(src.offset[dimension]) < dst.extent[dimension]);
        if overlap {
            return invalid("the regions overlap");
        }
        // SAFETY: both sides are live on this device, hold the extent and are disjoint.
        unsafe { self.copy_array_sides(dst_side, src_side, dst.copy_extent()) }
    }

    /// Copies a region of an image to the host, without gaps, and blocks until the copy and all work enqueued before
    /// have completed.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the size of `dst` differs from the
    /// region's, or for a region of another device. Errors of the driver.
    pub fn read_array(&self, src: ArrayRegion<'_>, dst: &mut [u8]) -> Result<()> {
        const OPERATION: &str = "Stream::read_array";
        self.check_may_wait(OPERATION)?;
        let extent = src.copy_extent();
        self.check_host_size(OPERATION, src, dst.len())?;
        let src = self.enter_region(OPERATION, src)?;
        let dst = ArrayCopySide::Host { ptr: dst.as_mut_ptr(), row_pitch: extent[0], rows: extent[1] };
        // SAFETY: the region is live. The host memory contains the extent and is borrowed until this returns. `finish`
        // waits until the stream is idle, even if it returns an error.
        unsafe { self.copy_array_sides(dst, src, extent) }?;
        self.finish()
    }

    /// Copies host memory without gaps to a region of an image, and blocks until the copy and all work enqueued before
    /// have completed.
    ///
    /// # Errors
    /// As for [`Stream::read_array`].
    pub fn write_array(&self, dst: ArrayRegion<'_>, src: &[u8]) -> Result<()> {
        const OPERATION: &str = "Stream::write_array";
        self.check_may_wait(OPERATION)?;
        let extent = dst.copy_extent();
        self.check_host_size(OPERATION, dst, src.len())?;
        let dst = self.enter_target_region(OPERATION, dst)?;
        // The source is only read.
        let src = ArrayCopySide::Host { ptr: src.as_ptr().cast_mut(), row_pitch: extent[0], rows: extent[1] };
        // SAFETY: as in `read_array`.
        unsafe { self.copy_array_sides(dst, src, extent) }?;
        self.finish()
    }

    /// Checks that linear memory can be used on this stream with a copy of this extent, and records the use.
    fn enter_linear(
        &self,
        operation: &'static str,
        texels: &PitchedTexels<'_>,
        extent: [u64; 3],
    ) -> Result<ArrayCopySide> {
        self.check_device(operation, "memory", texels.slice.device)?;
        let side = texels.side(operation, extent)?;
        texels.slice.mark(self.slot());
        Ok(side)
    }

    /// Checks that a region can be used on this stream, and records the use.
    fn enter_region(&self, operation: &'static str, region: ArrayRegion<'_>) -> Result<ArrayCopySide> {
        self.check_device(operation, "image", region.device)?;
        region.in_flight.mark(self.slot());
        Ok(ArrayCopySide::Array { raw: region.raw, offset: region.copy_offset() })
    }

    /// As [`Stream::enter_region`], for a destination.
    fn enter_target_region(&self, operation: &'static str, region: ArrayRegion<'_>) -> Result<ArrayCopySide> {
        if region.read_only {
            return Err(self.device().decorate(Error::invalid(operation, READ_ONLY)));
        }
        self.enter_region(operation, region)
    }

    fn check_host_size(&self, operation: &'static str, region: ArrayRegion<'_>, size: usize) -> Result<()> {
        if region.size() == size as u64 {
            return Ok(());
        }
        let error = Error::invalid(operation, "the host memory does not have the size of the region")
            .with_context("host memory", format_args!("{size} bytes"))
            .with_context("region", format_args!("{} bytes, {:?} texels", region.size(), region.extent));
        Err(self.device().decorate(error))
    }

    /// # Safety
    /// Both sides are live until the copy has run, hold the extent and do not overlap.
    unsafe fn copy_array_sides(&self, dst: ArrayCopySide, src: ArrayCopySide, extent: [u64; 3]) -> Result<()> {
        let copy = ArrayCopy { dst, src, extent };
        let _recording = self.lock_recording();
        // SAFETY: the stream is live; the caller guarantees the rest.
        unsafe { self.device().raw.copy_array(self.as_raw(), &copy) }.map_err(|error| self.device().decorate(error))
    }
}
