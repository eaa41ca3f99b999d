//! Virtual memory management: memory that can be exported, on Linux only. What asks for Win32 handles is refused.

use std::ffi::c_uint;

use cubecl_hip_sys as hip;
use gpu_interop_sim::system::Export;
use gpu_interop_sim::{code, entries, physical};
use gpu_interop_stand_in::hip::physical::{Access, Prop, access, numbers};

use crate::device::need;
use crate::give;

const NO_HANDLE: u32 = hip::hipMemAllocationHandleType_hipMemHandleTypeNone;
const DESCRIPTOR: u32 = hip::hipMemAllocationHandleType_hipMemHandleTypePosixFileDescriptor;

entries! {
    fn hipMemGetAllocationGranularity(granularity: *mut usize, prop: *const Prop, option: c_uint) gives granularity {
        need()?;
        if prop.is_null() || option > 1 {
            return Err(code::INVALID_VALUE);
        }
        // Whatever handles are asked for: only what creates the memory looks at them.
        let [kind, _, location, device] = numbers(prop);
        physical::check([kind, NO_HANDLE, location, device])?;
        give(granularity, physical::GRANULARITY)
    }

    fn hipMemCreate(handle: *mut u64, size: usize, prop: *const Prop, flags: u64) gives handle {
        need()?;
        if handle.is_null() || prop.is_null() {
            return Err(code::INVALID_VALUE);
        }
        let [kind, handles, location, device] = numbers(prop);
        if ![NO_HANDLE, DESCRIPTOR].contains(&handles) {
            return Err(code::NOT_SUPPORTED);
        }
        physical::check([kind, handles, location, device])?;
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
        let [location, _device, flags] = access(desc);
        physical::allow(pointer, size, [location, flags])
    }

    fn hipMemExportToShareableHandle(shareable: *mut Export, handle: u64, kind: c_uint, flags: u64) {
        need()?;
        // There is no memory that was made for another kind.
        if shareable.is_null() || kind != DESCRIPTOR {
            return Err(code::INVALID_VALUE);
        }
        give(shareable, physical::export(handle, kind, flags)?)
    }
}
