//! The driver's C interface: status codes, structs, functions.
//!
//! Opaque handles are pointer-sized integers here. Status codes are a newtype and never an enum: a driver may return
//! codes that this version does not know.

pub(crate) mod array;

use std::ffi::{c_char, c_int, c_uint, c_void};

use gpu_interop_driver::abi::{
    MemoryBufferDesc, MemoryHandleDesc, SemaphoreHandleDesc, SemaphoreSignalParams, SemaphoreWaitParams,
};
use gpu_interop_driver::driver_table;

/// `CUresult`.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CuResult(pub(crate) c_uint);

impl CuResult {
    pub(crate) const SUCCESS: Self = Self(0);
    pub(crate) const OUT_OF_MEMORY: Self = Self(2);
    pub(crate) const STUB_LIBRARY: Self = Self(34);
    pub(crate) const NO_DEVICE: Self = Self(100);
    pub(crate) const SYSTEM_DRIVER_MISMATCH: Self = Self(803);
    pub(crate) const COMPAT_NOT_SUPPORTED_ON_DEVICE: Self = Self(804);
    pub(crate) const NOT_READY: Self = Self(600);
    pub(crate) const NOT_SUPPORTED: Self = Self(801);
}

/// `CUdevice`.
pub(crate) type Device = c_int;
/// `CUcontext`, `CUstream`, `CUevent`, `CUmodule`, `CUfunction`, `CUexternalMemory`, ...: opaque pointers.
pub(crate) type Handle = usize;
/// `CUdeviceptr`.
pub(crate) type DeviceAddress = u64;
/// `CUhostFn`.
pub(crate) type HostFn = unsafe extern "C" fn(*mut c_void);

/// `CUdevice_attribute`.
pub(crate) mod attribute {
    use std::ffi::c_int;

    pub(crate) const INTEGRATED: c_int = 18;
    pub(crate) const PCI_BUS_ID: c_int = 33;
    pub(crate) const PCI_DEVICE_ID: c_int = 34;
    pub(crate) const PCI_DOMAIN_ID: c_int = 50;
    pub(crate) const VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: c_int = 102;
    pub(crate) const HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED: c_int = 103;
    pub(crate) const TIMELINE_SEMAPHORE_INTEROP_SUPPORTED: c_int = 114;
    pub(crate) const CAN_USE_64_BIT_STREAM_MEM_OPS: c_int = 122;
    pub(crate) const DMA_BUF_SUPPORTED: c_int = 124;
}

/// `CU_STREAM_NON_BLOCKING`.
pub(crate) const STREAM_NON_BLOCKING: c_uint = 1;
/// `CU_EVENT_DISABLE_TIMING`.
pub(crate) const EVENT_DISABLE_TIMING: c_uint = 2;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
pub(crate) const MEM_HANDLE_TYPE_POSIX_FD: c_uint = 1;
/// `CU_MEM_ALLOCATION_TYPE_PINNED`.
pub(crate) const MEM_ALLOCATION_TYPE_PINNED: c_uint = 1;
/// `CU_MEM_LOCATION_TYPE_DEVICE`.
pub(crate) const MEM_LOCATION_TYPE_DEVICE: c_uint = 1;
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`.
pub(crate) const MEM_ACCESS_READ_WRITE: c_uint = 3;
/// `CU_MEM_ALLOC_GRANULARITY_MINIMUM`.
pub(crate) const GRANULARITY_MINIMUM: c_uint = 0;

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Array3dDescriptor {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
    pub(crate) format: c_uint,
    pub(crate) channels: c_uint,
    pub(crate) flags: c_uint,
}

/// `CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MipmappedArrayDesc {
    pub(crate) offset: u64,
    pub(crate) array: Array3dDescriptor,
    pub(crate) levels: c_uint,
    pub(crate) reserved: [c_uint; 16],
}

/// `CUmemLocation`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemLocation {
    pub(crate) kind: c_uint,
    pub(crate) id: c_int,
}

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemAllocationProp {
    pub(crate) kind: c_uint,
    pub(crate) requested_handle_types: c_uint,
    pub(crate) location: MemLocation,
    pub(crate) win32_handle_metadata: *mut c_void,
    pub(crate) alloc_flags: [u8; 8],
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemAccessDesc {
    pub(crate) location: MemLocation,
    pub(crate) flags: c_uint,
}

/// The version of CUDA since which every driver has all the required functions: `cuDevicePrimaryCtxRetain` came last.
pub(crate) const REQUIRED_SINCE: (u32, u32) = (7, 0);

driver_table! {
    /// The driver's functions. Optional are those that a driver may lack without being useless, with the version of
    /// CUDA that introduced them.
    pub(crate) struct Functions {
        required {
            init: fn(flags: c_uint) -> CuResult = c"cuInit";
            driver_get_version: fn(version: *mut c_int) -> CuResult = c"cuDriverGetVersion";
            get_error_name: fn(code: CuResult, name: *mut *const c_char) -> CuResult = c"cuGetErrorName";
            get_error_string: fn(code: CuResult, text: *mut *const c_char) -> CuResult = c"cuGetErrorString";
            device_get_count: fn(count: *mut c_int) -> CuResult = c"cuDeviceGetCount";
            device_get: fn(device: *mut Device, ordinal: c_int) -> CuResult = c"cuDeviceGet";
            device_get_name: fn(name: *mut c_char, length: c_int, device: Device) -> CuResult = c"cuDeviceGetName";
            device_get_attribute: fn(value: *mut c_int, attribute: c_int, device: Device) -> CuResult
                = c"cuDeviceGetAttribute";
            primary_ctx_retain: fn(context: *mut Handle, device: Device) -> CuResult = c"cuDevicePrimaryCtxRetain";
            primary_ctx_release: fn(device: Device) -> CuResult
                = c"cuDevicePrimaryCtxRelease_v2", c"cuDevicePrimaryCtxRelease";
            ctx_get_current: fn(context: *mut Handle) -> CuResult = c"cuCtxGetCurrent";
            ctx_push_current: fn(context: Handle) -> CuResult = c"cuCtxPushCurrent_v2";
            ctx_pop_current: fn(context: *mut Handle) -> CuResult = c"cuCtxPopCurrent_v2";
            mem_free: fn(address: DeviceAddress) -> CuResult = c"cuMemFree_v2";
            memcpy_dtod_async: fn(target: DeviceAddress, source: DeviceAddress, size: usize, stream: Handle) -> CuResult
                = c"cuMemcpyDtoDAsync_v2";
            memcpy_dtoh_async: fn(target: *mut c_void, source: DeviceAddress, size: usize, stream: Handle) -> CuResult
                = c"cuMemcpyDtoHAsync_v2";
            memcpy_htod_async: fn(target: DeviceAddress, source: *const c_void, size: usize, stream: Handle) -> CuResult
                = c"cuMemcpyHtoDAsync_v2";
            memset_d8_async: fn(target: DeviceAddress, value: u8, count: usize, stream: Handle) -> CuResult
                = c"cuMemsetD8Async";
            memset_d32_async: fn(target: DeviceAddress, value: c_uint, count: usize, stream: Handle) -> CuResult
                = c"cuMemsetD32Async";
            stream_create: fn(stream: *mut Handle, flags: c_uint) -> CuResult = c"cuStreamCreate";
            stream_destroy: fn(stream: Handle) -> CuResult = c"cuStreamDestroy_v2";
            stream_synchronize: fn(stream: Handle) -> CuResult = c"cuStreamSynchronize";
            stream_query: fn(stream: Handle) -> CuResult = c"cuStreamQuery";
            stream_wait_event: fn(stream: Handle, event: Handle, flags: c_uint) -> CuResult = c"cuStreamWaitEvent";
            event_create: fn(event: *mut Handle, flags: c_uint) -> CuResult = c"cuEventCreate";
            event_destroy: fn(event: Handle) -> CuResult = c"cuEventDestroy_v2";
            event_record: fn(event: Handle, stream: Handle) -> CuResult = c"cuEventRecord";
            event_query: fn(event: Handle) -> CuResult = c"cuEventQuery";
        }
        optional {
            device_get_uuid: fn(uuid: *mut [u8; 16], device: Device) -> CuResult
                = c"cuDeviceGetUuid_v2", c"cuDeviceGetUuid" since (9, 2);
            device_get_luid: fn(luid: *mut [u8; 8], node_mask: *mut c_uint, device: Device) -> CuResult
                = c"cuDeviceGetLuid" since (10, 0);
            import_external_memory: fn(memory: *mut Handle, desc: *const MemoryHandleDesc) -> CuResult
                = c"cuImportExternalMemory" since (10, 0);
            get_mapped_buffer: fn(address: *mut DeviceAddress, memory: Handle, desc: *const MemoryBufferDesc) -> CuResult
                = c"cuExternalMemoryGetMappedBuffer" since (10, 0);
            get_mapped_mipmapped_array: fn(array: *mut Handle, memory: Handle, desc: *const MipmappedArrayDesc)
                -> CuResult = c"cuExternalMemoryGetMappedMipmappedArray" since (10, 0);
            destroy_external_memory: fn(memory: Handle) -> CuResult = c"cuDestroyExternalMemory" since (10, 0);
            mipmapped_array_get_level: fn(array: *mut Handle, mipmapped: Handle, level: c_uint) -> CuResult
                = c"cuMipmappedArrayGetLevel" since (5, 0);
            mipmapped_array_destroy: fn(mipmapped: Handle) -> CuResult = c"cuMipmappedArrayDestroy" since (5, 0);
            memcpy_3d_async: fn(copy: *const array::Memcpy3d, stream: Handle) -> CuResult
                = c"cuMemcpy3DAsync_v2" since (3, 2);
            surface_create: fn(surface: *mut u64, resource: *const array::ResourceDesc) -> CuResult
                = c"cuSurfObjectCreate" since (5, 0);
            surface_destroy: fn(surface: u64) -> CuResult = c"cuSurfObjectDestroy" since (5, 0);
            texture_create: fn(texture: *mut u64, resource: *const array::ResourceDesc,
                texture_desc: *const array::TextureDesc, view: *const c_void) -> CuResult
                = c"cuTexObjectCreate" since (5, 0);
            texture_destroy: fn(texture: u64) -> CuResult = c"cuTexObjectDestroy" since (5, 0);
            import_external_semaphore: fn(semaphore: *mut Handle, desc: *const SemaphoreHandleDesc) -> CuResult
                = c"cuImportExternalSemaphore" since (10, 0);
            signal_external_semaphores: fn(semaphores: *const Handle, params: *const SemaphoreSignalParams,
                count: c_uint, stream: Handle) -> CuResult = c"cuSignalExternalSemaphoresAsync" since (10, 0);
            wait_external_semaphores: fn(semaphores: *const Handle, params: *const SemaphoreWaitParams,
                count: c_uint, stream: Handle) -> CuResult = c"cuWaitExternalSemaphoresAsync" since (10, 0);
            destroy_external_semaphore: fn(semaphore: Handle) -> CuResult = c"cuDestroyExternalSemaphore" since (10, 0);
            stream_wait_value_32: fn(stream: Handle, address: DeviceAddress, value: u32, flags: c_uint) -> CuResult
                = c"cuStreamWaitValue32_v2" since (11, 7);
            stream_wait_value_64: fn(stream: Handle, address: DeviceAddress, value: u64, flags: c_uint) -> CuResult
                = c"cuStreamWaitValue64_v2" since (11, 7);
            stream_write_value_32: fn(stream: Handle, address: DeviceAddress, value: u32, flags: c_uint) -> CuResult
                = c"cuStreamWriteValue32_v2" since (11, 7);
            stream_write_value_64: fn(stream: Handle, address: DeviceAddress, value: u64, flags: c_uint) -> CuResult
                = c"cuStreamWriteValue64_v2" since (11, 7);
            launch_host_func: fn(stream: Handle, function: HostFn, data: *mut c_void) -> CuResult
                = c"cuLaunchHostFunc" since (10, 0);
            module_load_data: fn(module: *mut Handle, image: *const c_void) -> CuResult
                = c"cuModuleLoadData" since (2, 0);
            module_unload: fn(module: Handle) -> CuResult = c"cuModuleUnload" since (2, 0);
            module_get_function: fn(function: *mut Handle, module: Handle, name: *const c_char) -> CuResult
                = c"cuModuleGetFunction" since (2, 0);
            launch_kernel: fn(function: Handle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
                block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: Handle, params: *mut *mut c_void,
                extra: *mut *mut c_void) -> CuResult = c"cuLaunchKernel" since (4, 0);
            mem_get_allocation_granularity: fn(granularity: *mut usize, prop: *const MemAllocationProp, option: c_uint)
                -> CuResult = c"cuMemGetAllocationGranularity" since (10, 2);
            mem_create: fn(handle: *mut u64, size: usize, prop: *const MemAllocationProp, flags: u64) -> CuResult
                = c"cuMemCreate" since (10, 2);
            mem_release: fn(handle: u64) -> CuResult = c"cuMemRelease" since (10, 2);
            mem_address_reserve: fn(address: *mut DeviceAddress, size: usize, alignment: usize, hint: DeviceAddress,
                flags: u64) -> CuResult = c"cuMemAddressReserve" since (10, 2);
            mem_address_free: fn(address: DeviceAddress, size: usize) -> CuResult = c"cuMemAddressFree" since (10, 2);
            mem_map: fn(address: DeviceAddress, size: usize, offset: usize, handle: u64, flags: u64) -> CuResult
                = c"cuMemMap" since (10, 2);
            mem_unmap: fn(address: DeviceAddress, size: usize) -> CuResult = c"cuMemUnmap" since (10, 2);
            mem_set_access: fn(address: DeviceAddress, size: usize, desc: *const MemAccessDesc, count: usize) -> CuResult
                = c"cuMemSetAccess" since (10, 2);
            mem_export_to_shareable_handle: fn(shareable: *mut c_void, handle: u64, kind: c_uint, flags: u64)
                -> CuResult = c"cuMemExportToShareableHandle" since (10, 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use cudarc::driver::sys as cuda;

    use super::*;

    #[test]
    fn attributes_are_those_of_the_header() {
        use cuda::CUdevice_attribute_enum as A;
        let pairs = [
            (attribute::INTEGRATED, A::CU_DEVICE_ATTRIBUTE_INTEGRATED),
            (attribute::PCI_BUS_ID, A::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
            (attribute::PCI_DEVICE_ID, A::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID),
            (attribute::PCI_DOMAIN_ID, A::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
            (
                attribute::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                A::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
            ),
            (
                attribute::HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                A::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
            ),
            (
                attribute::TIMELINE_SEMAPHORE_INTEROP_SUPPORTED,
                A::CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED,
            ),
            (attribute::CAN_USE_64_BIT_STREAM_MEM_OPS, A::CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS),
            (attribute::DMA_BUF_SUPPORTED, A::CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED),
        ];
        for (ours, theirs) in pairs {
            assert_eq!(ours, theirs as i32);
        }
    }

    #[test]
    fn status_codes_are_those_of_the_header() {
        use cuda::cudaError_enum as E;
        let pairs = [
            (CuResult::SUCCESS, E::CUDA_SUCCESS),
            (CuResult::OUT_OF_MEMORY, E::CUDA_ERROR_OUT_OF_MEMORY),
            (CuResult::STUB_LIBRARY, E::CUDA_ERROR_STUB_LIBRARY),
            (CuResult::NO_DEVICE, E::CUDA_ERROR_NO_DEVICE),
            (CuResult::NOT_READY, E::CUDA_ERROR_NOT_READY),
            (CuResult::NOT_SUPPORTED, E::CUDA_ERROR_NOT_SUPPORTED),
            (CuResult::SYSTEM_DRIVER_MISMATCH, E::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH),
            (CuResult::COMPAT_NOT_SUPPORTED_ON_DEVICE, E::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE),
        ];
        for (ours, theirs) in pairs {
            assert_eq!(ours.0, theirs as u32);
        }
    }

    #[test]
    fn virtual_memory_structs_are_laid_out_as_in_the_header() {
        assert_eq!(size_of::<MemLocation>(), size_of::<cuda::CUmemLocation_st>());
        assert_eq!(size_of::<MemAccessDesc>(), size_of::<cuda::CUmemAccessDesc_st>());
        type Prop = cuda::CUmemAllocationProp_st;
        assert_eq!(size_of::<MemAllocationProp>(), size_of::<Prop>());
        assert_eq!(offset_of!(MemAllocationProp, requested_handle_types), offset_of!(Prop, requestedHandleTypes));
        assert_eq!(offset_of!(MemAllocationProp, location), offset_of!(Prop, location));
        assert_eq!(offset_of!(MemAllocationProp, win32_handle_metadata), offset_of!(Prop, win32HandleMetaData));
        assert_eq!(offset_of!(MemAllocationProp, alloc_flags), offset_of!(Prop, allocFlags));
    }
}
