//! Memory that is not shared. HIP frees all of it, and what is mapped, with either of two functions; CUDA has one for the
//! device's and one for the host's.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use cudarc::driver::sys::{CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_PORTABLE};
use gpu_interop_stand_in::hip::allocation::{self, Place};
use gpu_interop_stand_in::hip::device;
use gpu_interop_stand_in::objects::Objects;
use gpu_interop_stand_in::{address, entries, give};

use crate::code::{INVALID_VALUE, check};
use crate::context::{enter_device, make};
use crate::cuda::cuda;

/// What can be freed, by its first address.
static ALLOCATIONS: Objects<Allocation> = Objects::new();

#[derive(Debug)]
struct Allocation {
    place: Place,
    device: c_int,
}

/// Notes what `hipFree` will free.
pub(crate) fn add(pointer: u64, place: Place, device: c_int) {
    ALLOCATIONS.insert_as(address(pointer), Allocation { place, device });
}

/// Allocates; nothing for nothing.
fn allocate(size: usize, place: Place) -> Result<*mut c_void, u32> {
    cuda()?;
    if size == 0 {
        return Ok(ptr::null_mut());
    }
    let pointer = match place {
        // SAFETY: takes a number.
        Place::Device => unsafe { make!(cuMemAlloc_v2(size)) }?,
        // At the same address for the device, as everywhere where the two share an address space.
        Place::Host => {
            // SAFETY: takes numbers.
            let pointer: *mut c_void =
                unsafe { make!(cuMemHostAlloc(size, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP)) }?;
            pointer.expose_provenance() as u64
        }
    };
    add(pointer, place, device::current());
    Ok(ptr::with_exposed_provenance_mut(address(pointer)))
}

/// Frees whatever it is; nothing is freed where there is nothing.
fn free(pointer: *mut c_void) -> Result<(), u32> {
    cuda()?;
    if pointer.is_null() {
        return Ok(());
    }
    // Removed first: once it is free, another thread may be given the same address.
    let address = pointer.expose_provenance();
    let allocation = ALLOCATIONS.remove(address).ok_or(INVALID_VALUE)?;
    let freed = enter_device(allocation.device).and_then(|cuda| {
        // SAFETY: allocated or mapped by this, and freed once: who removed it, frees it.
        check(unsafe {
            match allocation.place {
                Place::Device => (cuda.cuMemFree_v2)(address as u64),
                Place::Host => (cuda.cuMemFreeHost)(pointer),
            }
        })
    });
    if freed.is_err() {
        ALLOCATIONS.insert_as(address, allocation);
    }
    freed
}

entries! {
    fn hipMalloc(pointer: *mut *mut c_void, size: usize) gives pointer {
        if pointer.is_null() {
            return Err(INVALID_VALUE);
        }
        give(pointer, allocate(size, Place::Device)?)
    }

    fn hipExtMallocWithFlags(pointer: *mut *mut c_void, size: usize, flags: c_uint) gives pointer {
        if pointer.is_null() {
            return Err(INVALID_VALUE);
        }
        give(pointer, allocate(size, allocation::extended(size, flags)?)?)
    }

    fn hipFree(pointer: *mut c_void) {
        free(pointer)
    }

    fn hipHostMalloc(pointer: *mut *mut c_void, size: usize, flags: c_uint) gives pointer {
        allocation::check_host(flags)?;
        if pointer.is_null() {
            return Err(INVALID_VALUE);
        }
        give(pointer, allocate(size, Place::Host)?)
    }

    fn hipHostGetDevicePointer(device: *mut u64, pointer: *mut c_void, flags: c_uint) gives device {
        if device.is_null() || pointer.is_null() || flags != 0 {
            return Err(INVALID_VALUE);
        }
        give(device, make!(cuMemHostGetDevicePointer_v2(pointer, 0))?)
    }

    fn hipHostFree(pointer: *mut c_void) {
        free(pointer)
    }
}
