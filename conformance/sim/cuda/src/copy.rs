//! Memory that is not shared, copies and fills.

use std::ffi::{c_uint, c_void};
use std::ptr::with_exposed_provenance_mut as to;
use std::sync::Arc;

use gpu_interop_sim_device::stream::Stream;
use gpu_interop_sim_device::{entries, in_use, memory, work};

use crate::{address, capture, code, context, give};

/// The stream of a handle, with a context current.
pub(crate) fn stream_of(handle: usize) -> Result<Arc<Stream>, u32> {
    context::need()?;
    work::stream_of(handle)
}

entries! {
    fn cuMemAlloc_v2(pointer: *mut u64, size: usize) gives pointer {
        context::need()?;
        capture::allow()?;
        code::reject_if(size == 0)?;
        give(pointer, memory::allocate(size).ok_or(code::OUT_OF_MEMORY)? as u64)
    }

    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        context::need()?;
        give(free, usize::try_from(in_use::free()).unwrap_or(usize::MAX))?;
        give(total, usize::try_from(in_use::TOTAL).unwrap_or(usize::MAX))
    }

    fn cuMemFree_v2(pointer: u64) {
        context::need()?;
        capture::allow()?;
        context::drain();
        if memory::free(address(pointer)) { Ok(()) } else { Err(code::INVALID_VALUE) }
    }

    fn cuMemHostAlloc(pointer: *mut *mut c_void, size: usize, flags: c_uint) gives pointer {
        context::need()?;
        capture::allow()?;
        code::reject_if(size == 0 || flags & !7 != 0)?;
        give(pointer, to(memory::allocate(size).ok_or(code::OUT_OF_MEMORY)?))
    }

    fn cuMemHostGetDevicePointer_v2(device: *mut u64, pointer: *mut c_void, flags: c_uint) gives device {
        context::need()?;
        code::reject_if(pointer.is_null() || flags != 0)?;
        give(device, pointer.expose_provenance() as u64)
    }

    fn cuMemFreeHost(pointer: *mut c_void) {
        context::need()?;
        capture::allow()?;
        context::drain();
        if memory::free(pointer.expose_provenance()) { Ok(()) } else { Err(code::INVALID_VALUE) }
    }

    fn cuMemcpyDtoDAsync_v2(target: u64, source: u64, size: usize, stream: usize) {
        context::need()?;
        work::copy(address(target), address(source), size, stream)
    }

    fn cuMemcpyDtoHAsync_v2(target: *mut c_void, source: u64, size: usize, stream: usize) {
        context::need()?;
        work::copy(target.expose_provenance(), address(source), size, stream)
    }

    fn cuMemcpyHtoDAsync_v2(target: u64, source: *const c_void, size: usize, stream: usize) {
        context::need()?;
        work::copy(address(target), source.expose_provenance(), size, stream)
    }

    fn cuMemcpyDtoH_v2(target: *mut c_void, source: u64, size: usize) {
        context::need()?;
        work::copy(target.expose_provenance(), address(source), size, 0)?;
        work::stream_of(0)?.synchronize()
    }

    fn cuMemcpyHtoD_v2(target: u64, source: *const c_void, size: usize) {
        context::need()?;
        work::copy(address(target), source.expose_provenance(), size, 0)?;
        work::stream_of(0)?.synchronize()
    }

    fn cuMemsetD8Async(target: u64, value: u8, count: usize, stream: usize) {
        context::need()?;
        work::fill(target, value, count, stream)
    }

    fn cuMemsetD32Async(target: u64, value: u32, count: usize, stream: usize) {
        context::need()?;
        work::fill(target, value, count, stream)
    }

    fn cuMemsetD8_v2(target: u64, value: u8, count: usize) {
        context::need()?;
        work::fill(target, value, count, 0)?;
        work::stream_of(0)?.synchronize()
    }
}
