//! Memory that is not shared. HIP frees all of it, and mappings, with either of two functions; CUDA has one for device
//! memory and one for host memory.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_PORTABLE};
use gpu_interop_sim_abi::hip::allocation::{self, Place};
use gpu_interop_sim_abi::hip::device;
use gpu_interop_sim_abi::objects::Objects;
use gpu_interop_sim_abi::{address, entries, give};

use crate::code::{INVALID_VALUE, check, reject_if};
use crate::context::{call, enter_device, make};
use crate::cuda::cuda;

/// Memory that can be freed, by its first address.
static ALLOCATIONS: Objects<Allocation> = Objects::new();

#[derive(Debug)]
enum Allocation {
    /// Allocated by CUDA.
    Own { place: Place, device: c_int },
    /// An address in imported memory.
    Mapped { _whole: Arc<Mapped> },
}

/// Imported memory, mapped by CUDA until this is dropped.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(crate) address: u64,
    pub(crate) device: c_int,
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if let Ok(cuda) = enter_device(self.device) {
            // SAFETY: mapped by CUDA, and freed once. HIP cannot report a failure here.
            let _ = unsafe { (cuda.cuMemFree_v2)(self.address) };
        }
    }
}

/// Records an address in imported memory until `hipFree`. An address has one entry, however often it is recorded.
pub(crate) fn note(pointer: u64, whole: Arc<Mapped>) {
    ALLOCATIONS.insert_as(address(pointer), Allocation::Mapped { _whole: whole });
}

/// Allocates memory; a size of 0 gives a null address.
fn allocate(size: usize, place: Place) -> Result<*mut c_void, u32> {
    cuda()?;
    if size == 0 {
        return Ok(ptr::null_mut());
    }
    let pointer = match place {
        // SAFETY: the argument is a number.
        Place::Device => unsafe { make!(cuMemAlloc_v2(size)) }?,
        // The device uses the same address, as wherever the two share an address space.
        Place::Host => {
            // SAFETY: the arguments are numbers.
            let pointer: *mut c_void =
                unsafe { make!(cuMemHostAlloc(size, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP)) }?;
            pointer.expose_provenance() as u64
        }
    };
    ALLOCATIONS.insert_as(address(pointer), Allocation::Own { place, device: device::current() });
    Ok(ptr::with_exposed_provenance_mut(address(pointer)))
}

/// Frees memory of any kind; a null address has no effect.
fn free(pointer: *mut c_void) -> Result<(), u32> {
    cuda()?;
    if pointer.is_null() {
        return Ok(());
    }
    // Removed first: after the free another thread may get the same address.
    let address = pointer.expose_provenance();
    let allocation = ALLOCATIONS.remove(address).ok_or(INVALID_VALUE)?;
    let Allocation::Own { place, device } = *allocation else { return Ok(()) };
    let freed = enter_device(device).and_then(|cuda| {
        // SAFETY: allocated here, and freed once, by the thread that removed it.
        check(unsafe {
            match place {
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
        reject_if(pointer.is_null())?;
        give(pointer, allocate(size, Place::Device)?)
    }

    fn hipExtMallocWithFlags(pointer: *mut *mut c_void, size: usize, flags: c_uint) gives pointer {
        reject_if(pointer.is_null())?;
        give(pointer, allocate(size, allocation::extended(size, flags)?)?)
    }

    fn hipMemGetInfo(free: *mut usize, total: *mut usize) {
        call!(cuMemGetInfo_v2(free, total))
    }

    fn hipFree(pointer: *mut c_void) {
        free(pointer)
    }

    fn hipHostMalloc(pointer: *mut *mut c_void, size: usize, flags: c_uint) gives pointer {
        allocation::check_host(flags)?;
        reject_if(pointer.is_null())?;
        give(pointer, allocate(size, Place::Host)?)
    }

    fn hipHostGetDevicePointer(device: *mut u64, pointer: *mut c_void, flags: c_uint) gives device {
        reject_if(device.is_null() || pointer.is_null() || flags != 0)?;
        give(device, make!(cuMemHostGetDevicePointer_v2(pointer, 0))?)
    }

    fn hipHostRegister(pointer: *mut c_void, size: usize, flags: c_uint) {
        reject_if(pointer.is_null() || size == 0)?;
        // Portable, mapped, I/O memory and read-only have the same numbers.
        call!(cuMemHostRegister_v2(pointer, size, flags & 0xf))
    }

    fn hipHostUnregister(pointer: *mut c_void) {
        reject_if(pointer.is_null())?;
        call!(cuMemHostUnregister(pointer))
    }

    fn hipHostFree(pointer: *mut c_void) {
        free(pointer)
    }
}
