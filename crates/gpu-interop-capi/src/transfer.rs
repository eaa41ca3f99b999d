//! Copies and fills of linear memory.

use std::ffi::c_void;

use gpu_interop::{Error, Result};

use crate::buffer::gpi_range;
use crate::call::call;
use crate::handle::gpi_stream;
use crate::object;
use crate::pointer;
use crate::status::gpi_status;

/// Copies `src` to `dst`, asynchronously.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` for sizes that differ, ranges that overlap, or memory of another device than the
/// stream's; otherwise the driver's error.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_stream_copy(stream: gpi_stream, dst: gpi_range, src: gpi_range) -> gpi_status {
    call("gpi_stream_copy", |operation| {
        let stream = object::get(operation, stream)?;
        let (dst_memory, src_memory) = (dst.memory(operation)?, src.memory(operation)?);
        stream.copy(dst.slice(operation, &dst_memory)?, src.slice(operation, &src_memory)?)
    })
}

/// Copies a range to `size` bytes of host memory. Blocks until the copy and all work enqueued before have completed.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` if `size` is not that of the range, or for memory of another device; otherwise the
/// driver's error.
///
/// # Safety
/// `dst` is null, or points to `size` bytes that nothing else uses during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_stream_read(
    stream: gpi_stream,
    src: gpi_range,
    dst: *mut c_void,
    size: usize,
) -> gpi_status {
    call("gpi_stream_read", |operation| {
        // SAFETY: the caller's promise.
        let dst = unsafe { pointer::bytes_mut(operation, "dst", dst.cast(), size) }?;
        let (stream, memory) = (object::get(operation, stream)?, src.memory(operation)?);
        stream.read(src.slice(operation, &memory)?, dst)
    })
}

/// Copies `size` bytes of host memory to a range. Blocks until the copy and all work enqueued before have completed.
///
/// Errors: as `gpi_stream_read`.
///
/// # Safety
/// `src` is null, or points to `size` bytes that nothing writes during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_stream_write(
    stream: gpi_stream,
    dst: gpi_range,
    src: *const c_void,
    size: usize,
) -> gpi_status {
    call("gpi_stream_write", |operation| {
        // SAFETY: the caller's promise.
        let src = unsafe { pointer::array(operation, "src", src.cast(), size) }?;
        let (stream, memory) = (object::get(operation, stream)?, dst.memory(operation)?);
        stream.write(dst.slice(operation, &memory)?, src)
    })
}

fn not_null(operation: &'static str, pointer: *const c_void) -> Result<()> {
    match pointer.is_null() {
        true => Err(Error::invalid(operation, "the host memory is null")),
        false => Ok(()),
    }
}

/// Copies a range to host memory, asynchronously. `dst` is complete once the stream has completed the copy.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` for a null `dst` or memory of another device; otherwise the driver's error.
///
/// # Safety
/// `dst` points to as many bytes as the range has, valid and not used otherwise until the copy has completed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_stream_read_async(stream: gpi_stream, src: gpi_range, dst: *mut c_void) -> gpi_status {
    call("gpi_stream_read_async", |operation| {
        not_null(operation, dst)?;
        let (stream, memory) = (object::get(operation, stream)?, src.memory(operation)?);
        // SAFETY: the caller's promise.
        unsafe { stream.read_async(src.slice(operation, &memory)?, dst.cast()) }
    })
}

/// Copies host memory to a range, asynchronously. `src` is read until the stream has completed the copy.
///
/// Errors: as `gpi_stream_read_async`.
///
/// # Safety
/// `src` points to as many bytes as the range has, valid and not written until the copy has completed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_stream_write_async(stream: gpi_stream, dst: gpi_range, src: *const c_void) -> gpi_status {
    call("gpi_stream_write_async", |operation| {
        not_null(operation, src)?;
        let (stream, memory) = (object::get(operation, stream)?, dst.memory(operation)?);
        // SAFETY: the caller's promise.
        unsafe { stream.write_async(dst.slice(operation, &memory)?, src.cast()) }
    })
}

/// Sets every byte of a range, asynchronously.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` for memory of another device; otherwise the driver's error.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_stream_fill(stream: gpi_stream, dst: gpi_range, value: u8) -> gpi_status {
    call("gpi_stream_fill", |operation| {
        let (stream, memory) = (object::get(operation, stream)?, dst.memory(operation)?);
        stream.fill(dst.slice(operation, &memory)?, value)
    })
}

/// Sets every 32-bit word of a range, asynchronously.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` if address or size are not multiples of 4, or for memory of another device; otherwise
/// the driver's error.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_stream_fill_u32(stream: gpi_stream, dst: gpi_range, value: u32) -> gpi_status {
    call("gpi_stream_fill_u32", |operation| {
        let (stream, memory) = (object::get(operation, stream)?, dst.memory(operation)?);
        stream.fill_u32(dst.slice(operation, &memory)?, value)
    })
}
