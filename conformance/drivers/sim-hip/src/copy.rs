//! Memory that is not shared, copies and fills.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::with_exposed_provenance_mut as to;

use gpu_interop_sim::{code, entries, memory, work};
use gpu_interop_stand_in::hip::allocation;

use crate::device::need;
use crate::{address, give};

/// Allocates; nothing for nothing.
fn allocate(size: usize) -> Result<*mut c_void, u32> {
    need()?;
    if size == 0 {
        return Ok(std::ptr::null_mut());
    }
    memory::allocate(size).map(to).ok_or(code::OUT_OF_MEMORY)
}

/// Frees; nothing is freed where there is nothing.
fn free(pointer: usize) -> Result<(), u32> {
    need()?;
    if pointer == 0 || memory::free(pointer) { Ok(()) } else { Err(code::INVALID_VALUE) }
}

entries! {
    fn hipMalloc(pointer: *mut *mut c_void, size: usize) gives pointer {
        give(pointer, allocate(size)?)
    }

    fn hipExtMallocWithFlags(pointer: *mut *mut c_void, size: usize, flags: c_uint) gives pointer {
        // Wherever: it is one memory here.
        allocation::extended(size, flags)?;
        give(pointer, allocate(size)?)
    }

    fn hipFree(pointer: u64) {
        free(address(pointer))
    }

    fn hipHostMalloc(pointer: *mut *mut c_void, size: usize, flags: c_uint) gives pointer {
        allocation::check_host(flags)?;
        give(pointer, allocate(size)?)
    }

    fn hipHostGetDevicePointer(device: *mut *mut c_void, pointer: *mut c_void, flags: c_uint) gives device {
        need()?;
        if pointer.is_null() || flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        give(device, pointer)
    }

    fn hipHostFree(pointer: *mut c_void) {
        free(pointer.expose_provenance())
    }

    fn hipMemcpyDtoDAsync(target: u64, source: u64, size: usize, stream: usize) {
        need()?;
        work::copy(address(target), address(source), size, stream)
    }

    fn hipMemcpyDtoHAsync(target: *mut c_void, source: u64, size: usize, stream: usize) {
        need()?;
        work::copy(target.expose_provenance(), address(source), size, stream)
    }

    fn hipMemcpyHtoDAsync(target: u64, source: *const c_void, size: usize, stream: usize) {
        need()?;
        work::copy(address(target), source.expose_provenance(), size, stream)
    }

    fn hipMemsetD8Async(target: u64, value: u8, count: usize, stream: usize) {
        need()?;
        work::fill(target, value, count, stream)
    }

    fn hipMemsetD32Async(target: u64, value: c_int, count: usize, stream: usize) {
        need()?;
        work::fill(target, value, count, stream)
    }
}
