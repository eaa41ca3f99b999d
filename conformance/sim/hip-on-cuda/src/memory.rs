//! Allocations, copies and fills; and virtual memory management: exportable memory, whose handles are CUDA's own.
//!
//! HIP frees allocations and mappings with either of two functions. CUDA has one for device memory and one for host
//! memory.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::Arc;

use cubecl_hip_sys as hip;
use cudarc::driver::sys::{
    CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_PORTABLE, CUmemAccess_flags, CUmemAccessDesc,
    CUmemAllocationGranularity_flags as Granularity, CUmemAllocationHandleType as HandleType, CUmemAllocationProp,
    CUmemAllocationProp_st__bindgen_ty_1, CUmemAllocationType, CUmemLocation, CUmemLocationType, CUstream,
};
use gpu_interop_sim_abi::hip::device;
use gpu_interop_sim_abi::hip::memory::{Access, Placement, Prop, access, check_host_flags, numbers, placement};
use gpu_interop_sim_abi::objects::Objects;
use gpu_interop_sim_abi::{address, entries, give};

use crate::cuda::{INVALID_VALUE, NOT_SUPPORTED, call, check, cuda, enter_device, make, reject_if};

/// Memory that can be freed, by its first address.
static ALLOCATIONS: Objects<Allocation> = Objects::new();

#[derive(Debug)]
enum Allocation {
    /// Allocated by CUDA.
    Own { place: Placement, device: c_int },
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
fn allocate(size: usize, place: Placement) -> Result<*mut c_void, u32> {
    cuda()?;
    if size == 0 {
        return Ok(ptr::null_mut());
    }
    let pointer = match place {
        // SAFETY: the argument is a number.
        Placement::Device => unsafe { make!(cuMemAlloc_v2(size)) }?,
        // The device uses the same address, as wherever the two share an address space.
        Placement::Host => {
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
                Placement::Device => (cuda.cuMemFree_v2)(address as u64),
                Placement::Host => (cuda.cuMemFreeHost)(pointer),
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
        give(pointer, allocate(size, Placement::Device)?)
    }

    fn hipExtMallocWithFlags(pointer: *mut *mut c_void, size: usize, flags: c_uint) gives pointer {
        reject_if(pointer.is_null())?;
        give(pointer, allocate(size, placement(size, flags)?)?)
    }

    fn hipFree(pointer: *mut c_void) {
        free(pointer)
    }

    fn hipHostMalloc(pointer: *mut *mut c_void, size: usize, flags: c_uint) gives pointer {
        check_host_flags(flags)?;
        reject_if(pointer.is_null())?;
        give(pointer, allocate(size, Placement::Host)?)
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

/// Rejects a null address.
fn need_addresses(size: usize, addresses: &[u64]) -> Result<(), u32> {
    reject_if(size > 0 && addresses.contains(&0))
}

entries! {
    fn hipMemcpyDtoDAsync(target: u64, source: u64, size: usize, stream: CUstream) {
        need_addresses(size, &[target, source])?;
        call!(cuMemcpyDtoDAsync_v2(target, source, size, stream))
    }

    fn hipMemcpyDtoHAsync(target: *mut c_void, source: u64, size: usize, stream: CUstream) {
        need_addresses(size, &[target.addr() as u64, source])?;
        call!(cuMemcpyDtoHAsync_v2(target, source, size, stream))
    }

    fn hipMemcpyHtoDAsync(target: u64, source: *const c_void, size: usize, stream: CUstream) {
        need_addresses(size, &[target, source.addr() as u64])?;
        call!(cuMemcpyHtoDAsync_v2(target, source, size, stream))
    }

    fn hipMemsetD8Async(target: u64, value: u8, count: usize, stream: CUstream) {
        need_addresses(count, &[target])?;
        call!(cuMemsetD8Async(target, value, count, stream))
    }

    fn hipMemsetD32Async(target: u64, value: c_int, count: usize, stream: CUstream) {
        need_addresses(count, &[target])?;
        call!(cuMemsetD32Async(target, value.cast_unsigned(), count, stream))
    }
}

/// The device of a location, if it is one. CUDA's devices have the same numbers as HIP's.
fn location(kind: u32, device: u32) -> Result<CUmemLocation, u32> {
    let count = cuda()?.count();
    match c_int::try_from(device) {
        Ok(id) if id < count && kind == hip::hipMemLocationType_hipMemLocationTypeDevice => {
            Ok(CUmemLocation { type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id })
        }
        _ => Err(INVALID_VALUE),
    }
}

/// The runtime accepts pinned memory of a device, exportable as a descriptor or not at all.
///
/// # Safety
/// `prop` is NULL or valid.
unsafe fn encode(prop: *const Prop) -> Result<CUmemAllocationProp, u32> {
    reject_if(prop.is_null())?;
    // SAFETY: the caller's promise.
    let [kind, handles, at, device] = unsafe { numbers(prop) };
    reject_if(kind != hip::hipMemAllocationType_hipMemAllocationTypePinned)?;
    let handles = match handles {
        hip::hipMemAllocationHandleType_hipMemHandleTypeNone => HandleType::CU_MEM_HANDLE_TYPE_NONE,
        hip::hipMemAllocationHandleType_hipMemHandleTypePosixFileDescriptor => {
            HandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        }
        _ => return Err(NOT_SUPPORTED),
    };
    Ok(CUmemAllocationProp {
        type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: handles,
        location: location(at, device)?,
        win32HandleMetaData: std::ptr::null_mut(),
        allocFlags: CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    })
}

/// # Safety
/// `desc` is valid.
unsafe fn encode_access(desc: *const Access) -> Result<CUmemAccessDesc, u32> {
    // SAFETY: the caller's promise.
    let [at, device, flags] = unsafe { access(desc) };
    let flags = match flags {
        hip::hipMemAccessFlags_hipMemAccessFlagsProtNone => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE,
        hip::hipMemAccessFlags_hipMemAccessFlagsProtRead => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ,
        hip::hipMemAccessFlags_hipMemAccessFlagsProtReadWrite => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        _ => return Err(INVALID_VALUE),
    };
    Ok(CUmemAccessDesc { location: location(at, device)?, flags })
}

entries! {
    fn hipMemGetAllocationGranularity(granularity: *mut usize, prop: *const Prop, option: c_uint) gives granularity {
        let prop = encode(prop)?;
        let option = match option {
            0 => Granularity::CU_MEM_ALLOC_GRANULARITY_MINIMUM,
            1 => Granularity::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED,
            _ => return Err(INVALID_VALUE),
        };
        give(granularity, make!(cuMemGetAllocationGranularity(&raw const prop, option))?)
    }

    fn hipMemCreate(handle: *mut u64, size: usize, prop: *const Prop, flags: u64) gives handle {
        let prop = encode(prop)?;
        reject_if(handle.is_null() || flags != 0)?;
        give(handle, make!(cuMemCreate(size, &raw const prop, 0))?)
    }

    fn hipMemRelease(handle: u64) {
        reject_if(handle == 0)?;
        call!(cuMemRelease(handle))
    }

    fn hipMemAddressReserve(pointer: *mut u64, size: usize, alignment: usize, hint: u64, flags: u64) gives pointer {
        reject_if(pointer.is_null() || flags != 0)?;
        give(pointer, make!(cuMemAddressReserve(size, alignment, hint, 0))?)
    }

    fn hipMemMap(pointer: u64, size: usize, offset: usize, handle: u64, flags: u64) {
        reject_if(pointer == 0 || handle == 0 || flags != 0)?;
        call!(cuMemMap(pointer, size, offset, handle, 0))
    }

    fn hipMemSetAccess(pointer: u64, size: usize, desc: *const Access, count: usize) {
        reject_if(pointer == 0 || desc.is_null() || count == 0)?;
        let all = (0..count).map(|index| encode_access(desc.add(index))).collect::<Result<Vec<_>, u32>>()?;
        call!(cuMemSetAccess(pointer, size, all.as_ptr(), all.len()))
    }

    fn hipMemExportToShareableHandle(shareable: *mut c_int, handle: u64, kind: c_uint, flags: u64) {
        let descriptor = hip::hipMemAllocationHandleType_hipMemHandleTypePosixFileDescriptor;
        reject_if(shareable.is_null() || handle == 0 || kind != descriptor || flags != 0)?;
        let kind = HandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        call!(cuMemExportToShareableHandle(shareable.cast::<c_void>(), handle, kind, 0))
    }
}
