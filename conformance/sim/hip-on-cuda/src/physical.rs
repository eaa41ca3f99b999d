//! Virtual memory management: exportable memory. The handles are CUDA's own.

use std::ffi::{c_int, c_uint, c_void};

use cubecl_hip_sys as hip;
use cudarc::driver::sys::{
    CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationGranularity_flags as Granularity,
    CUmemAllocationHandleType as HandleType, CUmemAllocationProp, CUmemAllocationProp_st__bindgen_ty_1,
    CUmemAllocationType, CUmemLocation, CUmemLocationType,
};
use gpu_interop_sim_abi::hip::physical::{Access, Prop, access, numbers};
use gpu_interop_sim_abi::{entries, give};

use crate::code::{INVALID_VALUE, NOT_SUPPORTED};
use crate::context::{call, make};
use crate::cuda::cuda;

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
    if prop.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    let [kind, handles, at, device] = unsafe { numbers(prop) };
    if kind != hip::hipMemAllocationType_hipMemAllocationTypePinned {
        return Err(INVALID_VALUE);
    }
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
        if handle.is_null() || flags != 0 {
            return Err(INVALID_VALUE);
        }
        give(handle, make!(cuMemCreate(size, &raw const prop, 0))?)
    }

    fn hipMemRelease(handle: u64) {
        if handle == 0 {
            return Err(INVALID_VALUE);
        }
        call!(cuMemRelease(handle))
    }

    fn hipMemAddressReserve(pointer: *mut u64, size: usize, alignment: usize, hint: u64, flags: u64) gives pointer {
        if pointer.is_null() || flags != 0 {
            return Err(INVALID_VALUE);
        }
        give(pointer, make!(cuMemAddressReserve(size, alignment, hint, 0))?)
    }

    fn hipMemAddressFree(pointer: u64, size: usize) {
        call!(cuMemAddressFree(pointer, size))
    }

    fn hipMemMap(pointer: u64, size: usize, offset: usize, handle: u64, flags: u64) {
        if pointer == 0 || handle == 0 || flags != 0 {
            return Err(INVALID_VALUE);
        }
        call!(cuMemMap(pointer, size, offset, handle, 0))
    }

    fn hipMemUnmap(pointer: u64, size: usize) {
        call!(cuMemUnmap(pointer, size))
    }

    fn hipMemSetAccess(pointer: u64, size: usize, desc: *const Access, count: usize) {
        if pointer == 0 || desc.is_null() || count == 0 {
            return Err(INVALID_VALUE);
        }
        let all = (0..count).map(|index| encode_access(desc.add(index))).collect::<Result<Vec<_>, u32>>()?;
        call!(cuMemSetAccess(pointer, size, all.as_ptr(), all.len()))
    }

    fn hipMemExportToShareableHandle(shareable: *mut c_int, handle: u64, kind: c_uint, flags: u64) {
        let descriptor = hip::hipMemAllocationHandleType_hipMemHandleTypePosixFileDescriptor;
        if shareable.is_null() || handle == 0 || kind != descriptor || flags != 0 {
            return Err(INVALID_VALUE);
        }
        let kind = HandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        call!(cuMemExportToShareableHandle(shareable.cast::<c_void>(), handle, kind, 0))
    }
}
