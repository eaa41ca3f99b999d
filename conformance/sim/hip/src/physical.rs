//! Virtual memory management: exportable memory, on Linux only. Win32 handles are rejected.

use std::collections::BTreeSet;
use std::ffi::c_uint;
use std::sync::Mutex;

use cubecl_hip_sys as hip;
use gpu_interop_sim_abi::hip::memory::{Access, Prop, access, numbers};
use gpu_interop_sim_abi::hip::version::Era;
use gpu_interop_sim_abi::lock;
use gpu_interop_sim_device::system::ExportHandle;
use gpu_interop_sim_device::{code, device, entries, physical};

use crate::device::{has_virtual_memory, need};
use crate::die_because;
use crate::memory::Found;
use crate::{address, give};

const NO_HANDLE: u32 = hip::hipMemAllocationHandleType_hipMemHandleTypeNone;
const DESCRIPTOR: u32 = hip::hipMemAllocationHandleType_hipMemHandleTypePosixFileDescriptor;

const DEVICE: u32 = hip::hipMemLocationType_hipMemLocationTypeDevice;
const NO_ACCESS: u32 = hip::hipMemAccessFlags_hipMemAccessFlagsProtNone;
const READ: u32 = hip::hipMemAccessFlags_hipMemAccessFlagsProtRead;
const READ_WRITE: u32 = hip::hipMemAccessFlags_hipMemAccessFlagsProtReadWrite;

/// Mappings by their first address.
static MAPPED: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

/// `true` if memory is mapped at this address.
pub(crate) fn is_mapped(address: usize) -> bool {
    lock(&MAPPED).contains(&(address as u64))
}

/// More than the memory of any device, bytes.
const MOST: usize = 1 << 40;
/// `hipMemLocationTypeHost`: memory can be located there since HIP 7.
const HOST: u32 = 2;

/// The memory that copies and fills access for a reserved address.
pub(crate) fn find(address: usize) -> Option<Found> {
    let (address, range) = physical::reserved(address as u64).ok()?;
    Some(Found { address, size: range.length(), offset: address - range.base(), real: range.length() })
}

/// Fails on devices without virtual memory management.
fn need_virtual_memory() -> Result<(), u32> {
    code::reject_if(!has_virtual_memory())
}

entries! {
    after need;

    fn hipMemGetAllocationGranularity(granularity: *mut usize, prop: *const Prop, option: c_uint) gives granularity {
        code::reject_if(granularity.is_null() || prop.is_null())?;
        // For any handle type: only the creation of memory checks it.
        let [kind, _, location, device] = numbers(prop);
        if !(location == HOST && Era::now() >= Era::Seven) {
            physical::check([kind, NO_HANDLE, location, device])?;
        }
        match Era::now() {
            // Not supported: HIP 5.7 returns success without a result.
            Era::Five if !has_virtual_memory() => give(granularity, 0),
            _ if option > 1 => Err(code::INVALID_VALUE),
            _ => {
                need_virtual_memory()?;
                give(granularity, physical::granularity())
            }
        }
    }

    fn hipMemCreate(handle: *mut u64, size: usize, prop: *const Prop, flags: u64) gives handle {
        code::reject_if(handle.is_null() || prop.is_null() || flags != 0 || size == 0)?;
        if !has_virtual_memory() {
            return Err(if Era::now() == Era::Early { code::INVALID_VALUE } else { code::NOT_SUPPORTED });
        }
        let [kind, handles, location, device] = numbers(prop);
        physical::check([kind, NO_HANDLE, location, device]).map_err(|error| {
            let other_device = physical::check([kind, NO_HANDLE, location, 0]).is_ok();
            if other_device && Era::now() >= Era::Seven { code::INVALID_DEVICE } else { error }
        })?;
        if ![NO_HANDLE, DESCRIPTOR].contains(&handles) {
            return Err(code::NOT_SUPPORTED);
        }
        physical::check([kind, handles, location, device])?;
        if size > MOST {
            return Err(code::OUT_OF_MEMORY);
        }
        give(handle, physical::create(size, flags)?)
    }

    fn hipMemRelease(handle: u64) {
        code::reject_if(handle == 0)?;
        if !has_virtual_memory() {
            return Ok(());
        }
        physical::release(handle).map_err(|_| die_because("invalid or released memory is released"))
    }

    fn hipMemAddressReserve(pointer: *mut u64, size: usize, alignment: usize, _hint: u64, flags: u64) gives pointer {
        code::reject_if(pointer.is_null() || flags != 0)?;
        if !has_virtual_memory() {
            // Success without a result.
            return if Era::now() == Era::Early { Ok(()) } else { give(pointer, 0) };
        }
        let reserved = physical::reserve(size, alignment, flags);
        give(pointer, reserved.map_err(|_| if Era::now() >= Era::Seven { code::INVALID_VALUE } else { code::OUT_OF_MEMORY })?)
    }

    fn hipMemAddressFree(pointer: u64, size: usize) {
        need_virtual_memory()?;
        code::reject_if(pointer == 0 || size == 0)?;
        if physical::RESERVED.get(address(pointer)).is_none() {
            die_because("hipMemAddressFree of an address that was not reserved");
        }
        physical::unreserve(pointer, size)?;
        // Mappings end with their addresses, which other memory may get.
        lock(&MAPPED).remove(&pointer);
        Ok(())
    }

    fn hipMemMap(pointer: u64, size: usize, offset: usize, handle: u64, flags: u64) {
        need_virtual_memory()?;
        physical::map(pointer, size, offset, handle, flags)?;
        lock(&MAPPED).insert(pointer);
        Ok(())
    }

    fn hipMemUnmap(pointer: u64, size: usize) {
        need_virtual_memory()?;
        code::reject_if(pointer == 0 || size == 0)?;
        if !lock(&MAPPED).remove(&pointer) {
            if Era::now() == Era::Six {
                die_because("before HIP 7.2 hipMemUnmap dereferences an address that is not mapped");
            }
            return Err(code::INVALID_VALUE);
        }
        physical::unmap(pointer, size)
    }

    fn hipMemSetAccess(pointer: u64, size: usize, desc: *const Access, count: usize) {
        need_virtual_memory()?;
        code::reject_if(desc.is_null() || count != 1)?;
        let [location, device, flags] = access(desc);
        let known = [NO_ACCESS, READ, READ_WRITE].contains(&flags) && location == DEVICE;
        code::reject_if(!device::exists(device.cast_signed()) || (Era::now() >= Era::Seven && !known))?;
        if flags == NO_ACCESS {
            return Ok(());
        }
        physical::allow(pointer, size, [DEVICE, READ_WRITE])
    }

    fn hipMemExportToShareableHandle(shareable: *mut ExportHandle, handle: u64, kind: c_uint, flags: u64) {
        need_virtual_memory()?;
        if shareable.is_null() && kind == DESCRIPTOR && flags == 0 && Era::now() == Era::Six {
            die_because("HIP 6 follows NULL where a handle is exported to");
        }
        // Memory of other handle types does not exist.
        code::reject_if(shareable.is_null() || kind != DESCRIPTOR)?;
        give(shareable, physical::export(handle, kind, flags)?)
    }
}
