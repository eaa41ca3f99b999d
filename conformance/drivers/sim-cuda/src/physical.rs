//! Virtual memory management: memory that can be exported.

use std::ffi::{c_int, c_uint};
use std::os::fd::IntoRawFd;
use std::sync::Arc;

use cudarc::driver::sys as cuda;
use gpu_interop_sim::entries;
use gpu_interop_sim::mapping::Mapping;
use gpu_interop_sim::physical::{GRANULARITY, PHYSICAL, Physical, RESERVED, reservation};

use crate::{address, code, context, give};

type Prop = cuda::CUmemAllocationProp_st;

/// `CU_MEM_ALLOCATION_TYPE_PINNED`, `CU_MEM_LOCATION_TYPE_DEVICE`, `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`,
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`.
const PINNED: u32 = 1;
const DEVICE: u32 = 1;
const POSIX_FD: u32 = 1;
const READ_WRITE: u32 = 3;

/// Fails unless the description is one of device memory.
///
/// # Safety
/// `prop` is valid. Its enums are read as numbers: any value may be there.
unsafe fn check(prop: *const Prop) -> Result<(), u32> {
    // SAFETY: the caller's promise.
    let (kind, handles, location, id) = unsafe {
        (
            (&raw const (*prop).type_).cast::<u32>().read(),
            (&raw const (*prop).requestedHandleTypes).cast::<u32>().read(),
            (&raw const (*prop).location.type_).cast::<u32>().read(),
            (&raw const (*prop).location).cast::<c_int>().add(1).read(),
        )
    };
    if kind != PINNED || location != DEVICE || id != 0 {
        return Err(code::INVALID_VALUE);
    }
    if handles & !POSIX_FD != 0 { Err(code::NOT_SUPPORTED) } else { Ok(()) }
}

/// A size that is a multiple of the granularity, and not 0.
fn whole(size: usize) -> Result<usize, u32> {
    if size == 0 || !size.is_multiple_of(GRANULARITY) { Err(code::INVALID_VALUE) } else { Ok(size) }
}

fn reserved(pointer: u64) -> Result<(usize, Arc<Mapping>), u32> {
    let pointer = address(pointer);
    reservation(pointer).map(|range| (pointer, range)).ok_or(code::INVALID_VALUE)
}

fn physical(handle: u64) -> Result<Arc<Physical>, u32> {
    PHYSICAL.get(address(handle)).ok_or(code::INVALID_VALUE)
}

entries! {
    fn cuMemGetAllocationGranularity(granularity: *mut usize, prop: *const Prop, option: c_uint) gives granularity {
        context::need()?;
        if prop.is_null() || option > 1 {
            return Err(code::INVALID_VALUE);
        }
        check(prop)?;
        give(granularity, GRANULARITY)
    }

    fn cuMemCreate(handle: *mut u64, size: usize, prop: *const Prop, flags: u64) gives handle {
        context::need()?;
        if handle.is_null() || prop.is_null() || flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        check(prop)?;
        let memory = Physical::new(whole(size)?).map_err(|_| code::OUT_OF_MEMORY)?;
        give(handle, PHYSICAL.insert(memory) as u64)
    }

    fn cuMemRelease(handle: u64) {
        context::need()?;
        PHYSICAL.remove(address(handle)).map(drop).ok_or(code::INVALID_VALUE)
    }

    fn cuMemAddressReserve(pointer: *mut u64, size: usize, alignment: usize, _hint: u64, flags: u64) gives pointer {
        context::need()?;
        if pointer.is_null() || flags != 0 || !(alignment == 0 || alignment.is_power_of_two()) {
            return Err(code::INVALID_VALUE);
        }
        let range = Mapping::reserved(whole(size)?).map_err(|_| code::OUT_OF_MEMORY)?;
        let base = range.base();
        RESERVED.insert_as(base, range);
        give(pointer, base as u64)
    }

    fn cuMemAddressFree(pointer: u64, size: usize) {
        context::need()?;
        let (pointer, range) = reserved(pointer)?;
        if range.base() != pointer || range.length() != size {
            return Err(code::INVALID_VALUE);
        }
        RESERVED.remove(pointer).map(drop).ok_or(code::INVALID_VALUE)
    }

    fn cuMemMap(pointer: u64, size: usize, offset: usize, handle: u64, flags: u64) {
        context::need()?;
        let (pointer, range) = reserved(pointer)?;
        if flags != 0 || offset != 0 {
            return Err(code::INVALID_VALUE);
        }
        physical(handle)?.map(&range, pointer, whole(size)?, offset).map_err(|_| code::INVALID_VALUE)
    }

    fn cuMemUnmap(pointer: u64, size: usize) {
        context::need()?;
        let (pointer, range) = reserved(pointer)?;
        range.clear(pointer, whole(size)?).map_err(|_| code::INVALID_VALUE)
    }

    fn cuMemSetAccess(pointer: u64, size: usize, desc: *const cuda::CUmemAccessDesc_st, count: usize) {
        context::need()?;
        if desc.is_null() || count != 1 {
            return Err(code::INVALID_VALUE);
        }
        let location = (&raw const (*desc).location.type_).cast::<u32>().read();
        let flags = (&raw const (*desc).flags).cast::<u32>().read();
        if location != DEVICE || flags != READ_WRITE {
            return Err(code::INVALID_VALUE);
        }
        let (pointer, range) = reserved(pointer)?;
        range.allow(pointer, whole(size)?).map_err(|_| code::INVALID_VALUE)
    }

    fn cuMemExportToShareableHandle(shareable: *mut c_int, handle: u64, kind: c_uint, flags: u64) {
        context::need()?;
        if kind != POSIX_FD || flags != 0 || shareable.is_null() {
            return Err(code::INVALID_VALUE);
        }
        let fd = physical(handle)?.export().map_err(|_| code::OUT_OF_MEMORY)?;
        give(shareable, fd.into_raw_fd())
    }
}
