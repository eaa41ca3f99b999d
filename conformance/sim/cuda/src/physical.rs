//! Virtual memory management: memory that can be exported.

use std::ffi::{c_uint, c_void};

use cudarc::driver::sys as cuda;
use gpu_interop_sim_device::system::{self, Export};
use gpu_interop_sim_device::{entries, physical};

use crate::{code, context, give};

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
    fn cuMemGetAllocationGranularity(granularity: *mut usize, prop: *const Prop, option: c_uint) gives granularity {
        context::need()?;
        if prop.is_null() || option > 1 {
            return Err(code::INVALID_VALUE);
        }
        physical::check(numbers(prop))?;
        give(granularity, physical::granularity())
    }

    fn cuMemCreate(handle: *mut u64, size: usize, prop: *const Prop, flags: u64) gives handle {
        context::need()?;
        if handle.is_null() || prop.is_null() {
            return Err(code::INVALID_VALUE);
        }
        physical::check(numbers(prop))?;
        if cfg!(windows) && (&raw const (*prop).requestedHandleTypes).cast::<u32>().read() != 0 {
            // As documented: Win32 exports require security attributes.
            if (*prop).win32HandleMetaData.is_null() {
                return Err(code::INVALID_VALUE);
            }
        }
        give(handle, physical::create(size, flags)?)
    }

    fn cuMemRelease(handle: u64) {
        context::need()?;
        physical::release(handle)
    }

    fn cuMemAddressReserve(pointer: *mut u64, size: usize, alignment: usize, _hint: u64, flags: u64) gives pointer {
        context::need()?;
        if pointer.is_null() {
            return Err(code::INVALID_VALUE);
        }
        give(pointer, physical::reserve(size, alignment, flags)?)
    }

    fn cuMemAddressFree(pointer: u64, size: usize) {
        context::need()?;
        physical::unreserve(pointer, size)
    }

    fn cuMemMap(pointer: u64, size: usize, offset: usize, handle: u64, flags: u64) {
        context::need()?;
        physical::map(pointer, size, offset, handle, flags)
    }

    fn cuMemUnmap(pointer: u64, size: usize) {
        context::need()?;
        physical::unmap(pointer, size)
    }

    fn cuMemSetAccess(pointer: u64, size: usize, desc: *const Access, count: usize) {
        context::need()?;
        if desc.is_null() || count != 1 {
            return Err(code::INVALID_VALUE);
        }
        let location = (&raw const (*desc).location).cast::<u32>().read();
        physical::allow(pointer, size, [location, (&raw const (*desc).flags).cast::<u32>().read()])
    }

    fn cuMemImportFromShareableHandle(handle: *mut u64, exported: *mut c_void, kind: c_uint) gives handle {
        context::need()?;
        if handle.is_null() {
            return Err(code::INVALID_VALUE);
        }
        give(handle, physical::import(system::given(exported), kind)?)
    }

    fn cuMemExportToShareableHandle(shareable: *mut Export, handle: u64, kind: c_uint, flags: u64) {
        context::need()?;
        if shareable.is_null() {
            return Err(code::INVALID_VALUE);
        }
        give(shareable, physical::export(handle, kind, flags)?)
    }
}
