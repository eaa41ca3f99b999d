//! Allocations, copies and fills; and virtual memory management: memory that can be exported.

use std::ffi::{c_uint, c_void};
use std::ptr::with_exposed_provenance_mut as to;

use cudarc::driver::sys as cuda;
use gpu_interop_sim_device::system::ExportHandle;
use gpu_interop_sim_device::{device, entries, memory, physical, system, work};

use crate::{address, code, driver, give, graph};

entries! {
    after driver::need_context;

    fn cuMemAlloc_v2(pointer: *mut u64, size: usize) gives pointer {
        graph::allow()?;
        code::reject_if(size == 0)?;
        give(pointer, memory::allocate(size, false).ok_or(code::OUT_OF_MEMORY)? as u64)
    }

    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        give(free, usize::try_from(device::free_memory()).unwrap_or(usize::MAX))?;
        give(total, usize::try_from(device::TOTAL_MEMORY).unwrap_or(usize::MAX))
    }

    fn cuMemFree_v2(pointer: u64) {
        graph::allow()?;
        driver::drain();
        if memory::free(address(pointer)) { Ok(()) } else { Err(code::INVALID_VALUE) }
    }

    fn cuMemHostAlloc(pointer: *mut *mut c_void, size: usize, flags: c_uint) gives pointer {
        graph::allow()?;
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
        graph::allow()?;
        code::reject_if(pointer.is_null() || size == 0 || flags & !0xf != 0)?;
        if memory::pin(pointer.expose_provenance()) { Ok(()) } else { Err(code::HOST_MEMORY_ALREADY_REGISTERED) }
    }

    fn cuMemHostUnregister(pointer: *mut c_void) {
        graph::allow()?;
        driver::drain();
        if memory::unpin(pointer.expose_provenance()) { Ok(()) } else { Err(code::HOST_MEMORY_NOT_REGISTERED) }
    }

    fn cuMemFreeHost(pointer: *mut c_void) {
        graph::allow()?;
        driver::drain();
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

type Prop = cuda::CUmemAllocationProp_st;
type Access = cuda::CUmemAccessDesc_st;

/// The numbers of a description. Its enums are read as numbers, because callers may pass any value.
///
/// # Safety
/// `prop` is valid.
unsafe fn numbers(prop: *const Prop) -> [u32; 4] {
    // SAFETY: the caller's promise. Of a location the device comes after the type.
    unsafe {
        [
            (&raw const (*prop).type_).cast::<u32>().read(),
            (&raw const (*prop).requestedHandleTypes).cast::<u32>().read(),
            (&raw const (*prop).location).cast::<u32>().read(),
            (&raw const (*prop).location).cast::<u32>().add(1).read(),
        ]
    }
}

entries! {
    after driver::need_context;

    fn cuMemGetAllocationGranularity(granularity: *mut usize, prop: *const Prop, option: c_uint) gives granularity {
        code::reject_if(prop.is_null() || option > 1)?;
        physical::check(numbers(prop))?;
        give(granularity, physical::granularity())
    }

    fn cuMemCreate(handle: *mut u64, size: usize, prop: *const Prop, flags: u64) gives handle {
        code::reject_if(handle.is_null() || prop.is_null())?;
        physical::check(numbers(prop))?;
        if cfg!(windows) && (&raw const (*prop).requestedHandleTypes).cast::<u32>().read() != 0 {
            // As documented: Win32 exports require security attributes.
            code::reject_if((*prop).win32HandleMetaData.is_null())?;
        }
        give(handle, physical::create(size, flags)?)
    }

    fn cuMemRelease(handle: u64) {
        physical::release(handle)
    }

    fn cuMemAddressReserve(pointer: *mut u64, size: usize, alignment: usize, _hint: u64, flags: u64) gives pointer {
        code::reject_if(pointer.is_null())?;
        give(pointer, physical::reserve(size, alignment, flags)?)
    }

    fn cuMemAddressFree(pointer: u64, size: usize) {
        physical::unreserve(pointer, size)
    }

    fn cuMemMap(pointer: u64, size: usize, offset: usize, handle: u64, flags: u64) {
        physical::map(pointer, size, offset, handle, flags)
    }

    fn cuMemUnmap(pointer: u64, size: usize) {
        physical::unmap(pointer, size)
    }

    fn cuMemSetAccess(pointer: u64, size: usize, desc: *const Access, count: usize) {
        code::reject_if(desc.is_null() || count != 1)?;
        let location = (&raw const (*desc).location).cast::<u32>().read();
        physical::allow(pointer, size, [location, (&raw const (*desc).flags).cast::<u32>().read()])
    }

    fn cuMemImportFromShareableHandle(handle: *mut u64, exported: *mut c_void, kind: c_uint) gives handle {
        code::reject_if(handle.is_null())?;
        give(handle, physical::import(system::given(exported), kind)?)
    }

    fn cuMemExportToShareableHandle(shareable: *mut ExportHandle, handle: u64, kind: c_uint, flags: u64) {
        code::reject_if(shareable.is_null())?;
        give(shareable, physical::export(handle, kind, flags)?)
    }
}
