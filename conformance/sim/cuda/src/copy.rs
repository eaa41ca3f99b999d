//! Memory that is not shared, copies and fills.

use std::ffi::{c_uint, c_void};
use std::ptr::with_exposed_provenance_mut as to;

use gpu_interop_sim_device::{entries, in_use, memory, work};

use crate::{address, capture, code, context, give};

entries! {
    after context::need;

    fn cuMemAlloc_v2(pointer: *mut u64, size: usize) gives pointer {
        capture::allow()?;
        code::reject_if(size == 0)?;
        give(pointer, memory::allocate(size, false).ok_or(code::OUT_OF_MEMORY)? as u64)
    }

    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        give(free, usize::try_from(in_use::free()).unwrap_or(usize::MAX))?;
        give(total, usize::try_from(in_use::TOTAL).unwrap_or(usize::MAX))
    }

    fn cuMemFree_v2(pointer: u64) {
        capture::allow()?;
        context::drain();
        if memory::free(address(pointer)) { Ok(()) } else { Err(code::INVALID_VALUE) }
    }

    fn cuMemHostAlloc(pointer: *mut *mut c_void, size: usize, flags: c_uint) gives pointer {
        capture::allow()?;
        code::reject_if(size == 0 || flags & !7 != 0)?;
        give(pointer, to(memory::allocate(size, false).ok_or(code::OUT_OF_MEMORY)?))
    }

    fn cuMemHostGetDevicePointer_v2(device: *mut u64, pointer: *mut c_void, flags: c_uint) gives device {
        code::reject_if(pointer.is_null() || flags != 0)?;
        let address = pointer.expose_provenance();
        code::reject_if(memory::number(address).is_none() && !memory::is_pinned(address))?;
        give(device, address as u64)
    }

    fn cuMemHostRegister_v2(pointer: *mut c_void, size: usize, flags: c_uint) {
        capture::allow()?;
        code::reject_if(pointer.is_null() || size == 0 || flags & !0xf != 0)?;
        if memory::pin(pointer.expose_provenance()) { Ok(()) } else { Err(code::HOST_MEMORY_ALREADY_REGISTERED) }
    }

    fn cuMemHostUnregister(pointer: *mut c_void) {
        capture::allow()?;
        context::drain();
        if memory::unpin(pointer.expose_provenance()) { Ok(()) } else { Err(code::HOST_MEMORY_NOT_REGISTERED) }
    }

    fn cuMemFreeHost(pointer: *mut c_void) {
        capture::allow()?;
        context::drain();
        if memory::free(pointer.expose_provenance()) { Ok(()) } else { Err(code::INVALID_VALUE) }
    }

    fn cuMemcpyDtoDAsync_v2(target: u64, source: u64, size: usize, stream: usize) {
        work::copy(address(target), address(source), size, stream)
    }

    fn cuMemcpyDtoHAsync_v2(target: *mut c_void, source: u64, size: usize, stream: usize) {
        work::copy(target.expose_provenance(), address(source), size, stream)
    }

    fn cuMemcpyHtoDAsync_v2(target: u64, source: *const c_void, size: usize, stream: usize) {
        work::copy(address(target), source.expose_provenance(), size, stream)
    }

    fn cuMemcpyDtoH_v2(target: *mut c_void, source: u64, size: usize) {
        work::copy(target.expose_provenance(), address(source), size, 0)?;
        work::stream_of(0)?.synchronize()
    }

    fn cuMemcpyHtoD_v2(target: u64, source: *const c_void, size: usize) {
        work::copy(address(target), source.expose_provenance(), size, 0)?;
        work::stream_of(0)?.synchronize()
    }

    fn cuMemsetD8Async(target: u64, value: u8, count: usize, stream: usize) {
        work::fill(target, value, count, stream)
    }

    fn cuMemsetD32Async(target: u64, value: u32, count: usize, stream: usize) {
        work::fill(target, value, count, stream)
    }

    fn cuMemsetD8_v2(target: u64, value: u8, count: usize) {
        work::fill(target, value, count, 0)?;
        work::stream_of(0)?.synchronize()
    }
}
