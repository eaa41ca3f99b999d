//! Virtual memory management: memory that can be exported.

use std::ffi::{c_int, c_uint};

use cubecl_hip_sys as hip;
use gpu_interop_sim::{entries, physical};

use crate::device::need;
use crate::{code, give};

type Prop = hip::hipMemAllocationProp;
type Access = hip::hipMemAccessDesc;

/// The numbers of a description. Its enums are read as such: any value may be there.
///
/// # Safety
/// `prop` is valid.
unsafe fn numbers(prop: *const Prop) -> [u32; 4] {
    // SAFETY: the caller's promise. Of a location the device comes after the type.
    unsafe {
        [
            (&raw const (*prop).type_).cast::<u32>().read(),
            (&raw const (*prop).__bindgen_anon_1).cast::<u32>().read(),
            (&raw const (*prop).location).cast::<u32>().read(),
            (&raw const (*prop).location).cast::<u32>().add(1).read(),
        ]
    }
}

entries! {
    fn hipMemGetAllocationGranularity(granularity: *mut usize, prop: *const Prop, option: c_uint) gives granularity {
        need()?;
        if prop.is_null() || option > 1 {
            return Err(code::INVALID_VALUE);
        }
        physical::check(numbers(prop))?;
        give(granularity, physical::GRANULARITY)
    }

    fn hipMemCreate(handle: *mut u64, size: usize, prop: *const Prop, flags: u64) gives handle {
        need()?;
        if handle.is_null() || prop.is_null() {
            return Err(code::INVALID_VALUE);
        }
        physical::check(numbers(prop))?;
        give(handle, physical::create(size, flags)?)
    }

    fn hipMemRelease(handle: u64) {
        need()?;
        physical::release(handle)
    }

    fn hipMemAddressReserve(pointer: *mut u64, size: usize, alignment: usize, _hint: u64, flags: u64) gives pointer {
        need()?;
        if pointer.is_null() {
            return Err(code::INVALID_VALUE);
        }
        give(pointer, physical::reserve(size, alignment, flags)?)
    }

    fn hipMemAddressFree(pointer: u64, size: usize) {
        need()?;
        physical::unreserve(pointer, size)
    }

    fn hipMemMap(pointer: u64, size: usize, offset: usize, handle: u64, flags: u64) {
        need()?;
        physical::map(pointer, size, offset, handle, flags)
    }

    fn hipMemUnmap(pointer: u64, size: usize) {
        need()?;
        physical::unmap(pointer, size)
    }

    fn hipMemSetAccess(pointer: u64, size: usize, desc: *const Access, count: usize) {
        need()?;
        if desc.is_null() || count != 1 {
            return Err(code::INVALID_VALUE);
        }
        let location = (&raw const (*desc).location).cast::<u32>().read();
        physical::allow(pointer, size, [location, (&raw const (*desc).flags).cast::<u32>().read()])
    }

    fn hipMemExportToShareableHandle(shareable: *mut c_int, handle: u64, kind: c_uint, flags: u64) {
        need()?;
        if shareable.is_null() {
            return Err(code::INVALID_VALUE);
        }
        give(shareable, physical::export(handle, kind, flags)?)
    }
}
