//! Copies of images.

use std::ffi::c_void;
use std::sync::Arc;

use gpu_interop::{ArrayRegion, MappedMipmappedArray, PitchedTexels, Result};

use crate::buffer::gpi_range;
use crate::call::call;
use crate::handle::{gpi_array, gpi_stream};
use crate::object;
use crate::pointer;
use crate::status::gpi_status;

/// A box of texels in one mip level.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct gpi_array_region {
    /// The array.
    pub array: gpi_array,
    /// The mip level.
    pub level: u32,
    /// Must be 0.
    pub reserved: u32,
    /// First texel; the third dimension counts slices, layers, or the faces of cubes.
    pub offset: [u64; 3],
    /// Texels in each dimension. All 0 is the whole level; `offset` must then be 0.
    pub extent: [u64; 3],
}

/// Texels in linear memory, row by row and slice by slice.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct gpi_texels {
    /// The memory.
    pub range: gpi_range,
    /// Bytes from row to row (`VkSubresourceLayout::rowPitch`). 0, with `rows` of 0: no gaps, and the range has exactly the
    /// size of the region.
    pub row_pitch: u64,
    /// Rows from slice to slice.
    pub rows: u64,
}

impl gpi_array_region {
    fn array(&self, operation: &'static str) -> Result<Arc<MappedMipmappedArray>> {
        object::get(operation, self.array)
    }

    fn region<'a>(&self, array: &'a MappedMipmappedArray) -> Result<ArrayRegion<'a>> {
        let level = array.level(self.level)?;
        if (self.offset, self.extent) == ([0; 3], [0; 3]) { Ok(level) } else { level.region(self.offset, self.extent) }
    }
}

impl gpi_texels {
    fn texels<'a>(
        &self,
        operation: &'static str,
        memory: &'a crate::buffer::LinearMemory,
    ) -> Result<PitchedTexels<'a>> {
        let slice = self.range.slice(operation, memory)?;
        Ok(match (self.row_pitch, self.rows) {
            (0, 0) => slice.into(),
            (row_pitch, rows) => PitchedTexels::new(slice, row_pitch, rows),
        })
    }
}

/// Copies a region of an image to linear memory, asynchronously.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` if the memory does not have the size of the region, or is too small with its pitches;
/// otherwise the driver's error.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_stream_copy_from_array(stream: gpi_stream, dst: gpi_texels, src: gpi_array_region) -> gpi_status {
    call("gpi_stream_copy_from_array", |operation| {
        let (stream, memory) = (object::get(operation, stream)?, dst.range.memory(operation)?);
        let array = src.array(operation)?;
        stream.copy_from_array(dst.texels(operation, &memory)?, src.region(&array)?)
    })
}

/// Copies linear memory to a region of an image, asynchronously.
///
/// Errors: as `gpi_stream_copy_from_array`.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_stream_copy_to_array(stream: gpi_stream, dst: gpi_array_region, src: gpi_texels) -> gpi_status {
    call("gpi_stream_copy_to_array", |operation| {
        let (stream, memory) = (object::get(operation, stream)?, src.range.memory(operation)?);
        let array = dst.array(operation)?;
        stream.copy_to_array(dst.region(&array)?, src.texels(operation, &memory)?)
    })
}

/// Copies a region of an image to another of the same extent and texel size, asynchronously. Texels are not converted.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` if the regions differ, or overlap in one level; otherwise the driver's error.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_stream_copy_array(
    stream: gpi_stream,
    dst: gpi_array_region,
    src: gpi_array_region,
) -> gpi_status {
    call("gpi_stream_copy_array", |operation| {
        let stream = object::get(operation, stream)?;
        let (dst_array, src_array) = (dst.array(operation)?, src.array(operation)?);
        stream.copy_array(dst.region(&dst_array)?, src.region(&src_array)?)
    })
}

/// Copies a region of an image to `size` bytes of host memory, without gaps. Blocks until the copy and all work enqueued
/// before have completed.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` if `size` is not that of the region; otherwise the driver's error.
///
/// # Safety
/// `dst` is null, or points to `size` bytes that nothing else uses during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_stream_read_array(
    stream: gpi_stream,
    src: gpi_array_region,
    dst: *mut c_void,
    size: usize,
) -> gpi_status {
    call("gpi_stream_read_array", |operation| {
        // SAFETY: the caller's promise.
        let dst = unsafe { pointer::bytes_mut(operation, "dst", dst.cast(), size) }?;
        let (stream, array) = (object::get(operation, stream)?, src.array(operation)?);
        stream.read_array(src.region(&array)?, dst)
    })
}

/// Copies `size` bytes of host memory without gaps to a region of an image. Blocks until the copy and all work enqueued
/// before have completed.
///
/// Errors: as `gpi_stream_read_array`.
///
/// # Safety
/// `src` is null, or points to `size` bytes that nothing writes during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_stream_write_array(
    stream: gpi_stream,
    dst: gpi_array_region,
    src: *const c_void,
    size: usize,
) -> gpi_status {
    call("gpi_stream_write_array", |operation| {
        // SAFETY: the caller's promise.
        let src = unsafe { pointer::array(operation, "src", src.cast(), size) }?;
        let (stream, array) = (object::get(operation, stream)?, dst.array(operation)?);
        stream.write_array(dst.region(&array)?, src)
    })
}
