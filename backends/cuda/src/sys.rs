//! Status codes, attributes, structs and functions of NVIDIA's driver only.

use std::ffi::{c_char, c_int, c_uint, c_void};

use gpu_interop_driver::{DeviceAddress, DeviceNumber, Handle, Status, driver_table};

/// `CUresult` codes in addition to those of both vendors.
pub(crate) mod status {
    use gpu_interop_driver::Status;

    pub(crate) const STUB_LIBRARY: Status = Status(34);
    pub(crate) const SYSTEM_DRIVER_MISMATCH: Status = Status(803);
    pub(crate) const COMPAT_NOT_SUPPORTED_ON_DEVICE: Status = Status(804);
    /// Another library has reset or destroyed the context. HIP returns this number for any unknown stream.
    pub(crate) const CONTEXT_IS_DESTROYED: Status = Status(709);
    /// Codes of a lost context in addition to those of both vendors: `ECC_UNCORRECTABLE`, `NVLINK_UNCORRECTABLE`,
    /// `CONTAINED`, `TENSOR_MEMORY_LEAK`, `MPS_CLIENT_TERMINATED`, `EXTERNAL_DEVICE`.
    pub(crate) const CONTEXT_LOST: [Status; 6] =
        [Status(214), Status(220), Status(226), Status(721), Status(810), Status(911)];
}

/// `CUdevice_attribute`.
pub(crate) mod attribute {
    use std::ffi::c_int;

    pub(crate) const INTEGRATED: c_int = 18;
    pub(crate) const PCI_BUS_ID: c_int = 33;
    pub(crate) const PCI_DEVICE_ID: c_int = 34;
    pub(crate) const PCI_DOMAIN_ID: c_int = 50;
    pub(crate) const VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: c_int = 102;
    pub(crate) const HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED: c_int = 103;
    pub(crate) const HANDLE_TYPE_WIN32_HANDLE_SUPPORTED: c_int = 104;
    pub(crate) const TIMELINE_SEMAPHORE_INTEROP_SUPPORTED: c_int = 114;
    pub(crate) const CAN_USE_64_BIT_STREAM_MEM_OPS: c_int = 122;
    pub(crate) const DMA_BUF_SUPPORTED: c_int = 124;
}

/// `CUDA_NVSCISYNC_ATTR_SIGNAL`, `CUDA_NVSCISYNC_ATTR_WAIT`.
pub(crate) mod nv_sci_sync {
    use std::ffi::c_int;

    pub(crate) const SIGNAL: c_int = 1;
    pub(crate) const WAIT: c_int = 2;
}

/// `CU_MEMORYTYPE_ARRAY`.
pub(crate) const MEMORY_TYPE_ARRAY: c_uint = 3;

/// `CUstreamBatchMemOpParams` with its `memoryBarrier` member.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchMemOp {
    pub(crate) operation: c_uint,
    pub(crate) flags: c_uint,
    pub(crate) pad: [u64; 5],
}

impl BatchMemOp {
    /// `CU_STREAM_MEM_OP_BARRIER` with `CU_STREAM_MEMORY_BARRIER_TYPE_SYS`: system scope, not GPU scope.
    pub(crate) const BARRIER: Self = Self { operation: 6, flags: 0, pad: [0; 5] };
}

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

driver_table! {
    /// Functions that only CUDA has, or whose arguments differ from HIP's.
    pub(crate) struct Functions {
        required {
            get_error_name: fn(code: Status, name: *mut *const c_char) -> Status = c"cuGetErrorName";
            get_error_string: fn(code: Status, text: *mut *const c_char) -> Status = c"cuGetErrorString";
            primary_ctx_retain: fn(context: *mut Handle, device: DeviceNumber) -> Status = c"cuDevicePrimaryCtxRetain";
            primary_ctx_release: fn(device: DeviceNumber) -> Status
                = c"cuDevicePrimaryCtxRelease_v2", c"cuDevicePrimaryCtxRelease";
            ctx_get_current: fn(context: *mut Handle) -> Status = c"cuCtxGetCurrent";
            ctx_push_current: fn(context: Handle) -> Status = c"cuCtxPushCurrent_v2";
            ctx_pop_current: fn(context: *mut Handle) -> Status = c"cuCtxPopCurrent_v2";
        }
        optional {
            ctx_get_id: fn(context: Handle, id: *mut u64) -> Status = c"cuCtxGetId" since (12, 0);
            primary_ctx_get_state: fn(device: DeviceNumber, flags: *mut c_uint, active: *mut c_int) -> Status
                = c"cuDevicePrimaryCtxGetState" since (7, 0);
            stream_get_ctx: fn(stream: Handle, context: *mut Handle) -> Status = c"cuStreamGetCtx" since (9, 2);
            device_get_uuid: fn(uuid: *mut [u8; 16], device: DeviceNumber) -> Status
                = c"cuDeviceGetUuid_v2", c"cuDeviceGetUuid" since (9, 2);
            device_get_luid: fn(luid: *mut [u8; 8], node_mask: *mut c_uint, device: DeviceNumber) -> Status
                = c"cuDeviceGetLuid" since (10, 0);
            device_get_nv_sci_sync_attributes: fn(list: *mut c_void, device: DeviceNumber, flags: c_int) -> Status
                = c"cuDeviceGetNvSciSyncAttributes" since (10, 2);
            stream_batch_mem_op: fn(stream: Handle, count: c_uint, operations: *mut BatchMemOp, flags: c_uint) -> Status
                = c"cuStreamBatchMemOp_v2" since (11, 7);
            stream_wait_value_32: fn(stream: Handle, address: DeviceAddress, value: u32, flags: c_uint) -> Status
                = c"cuStreamWaitValue32_v2" since (11, 7);
            stream_wait_value_64: fn(stream: Handle, address: DeviceAddress, value: u64, flags: c_uint) -> Status
                = c"cuStreamWaitValue64_v2" since (11, 7);
        }
    }
}

#[cfg(test)]
mod tests {
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
            (attribute::HANDLE_TYPE_WIN32_HANDLE_SUPPORTED, A::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_HANDLE_SUPPORTED),
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
    fn uses_of_nv_sci_sync_are_those_of_the_header() {
        assert_eq!(nv_sci_sync::SIGNAL.cast_unsigned(), cuda::CUDA_NVSCISYNC_ATTR_SIGNAL);
        assert_eq!(nv_sci_sync::WAIT.cast_unsigned(), cuda::CUDA_NVSCISYNC_ATTR_WAIT);
    }

    #[test]
    fn a_barrier_is_laid_out_as_in_the_header() {
        let ours = BatchMemOp::BARRIER;
        assert_eq!(size_of_val(&ours), size_of::<cuda::CUstreamBatchMemOpParams>());
        let theirs = cuda::CUstreamBatchMemOpParams_union_CUstreamMemOpMemoryBarrierParams_st {
            operation: cuda::CUstreamBatchMemOpType::CU_STREAM_MEM_OP_BARRIER,
            flags: cuda::CUstreamMemoryBarrier_flags_enum::CU_STREAM_MEMORY_BARRIER_TYPE_SYS as u32,
        };
        assert_eq!((ours.operation, ours.flags), (theirs.operation as u32, theirs.flags));
        let offset =
            std::mem::offset_of!(cuda::CUstreamBatchMemOpParams_union_CUstreamMemOpMemoryBarrierParams_st, flags);
        assert_eq!(std::mem::offset_of!(BatchMemOp, flags), offset);
    }

    #[test]
    fn status_codes_are_those_of_the_header() {
        use cuda::cudaError_enum as E;
        let pairs = [
            (Status::SUCCESS, E::CUDA_SUCCESS),
            (Status::INVALID_VALUE, E::CUDA_ERROR_INVALID_VALUE),
            (Status::OUT_OF_MEMORY, E::CUDA_ERROR_OUT_OF_MEMORY),
            (status::STUB_LIBRARY, E::CUDA_ERROR_STUB_LIBRARY),
            (Status::NO_DEVICE, E::CUDA_ERROR_NO_DEVICE),
            (Status::NOT_READY, E::CUDA_ERROR_NOT_READY),
            (status::CONTEXT_IS_DESTROYED, E::CUDA_ERROR_CONTEXT_IS_DESTROYED),
            (Status::NOT_SUPPORTED, E::CUDA_ERROR_NOT_SUPPORTED),
            (status::SYSTEM_DRIVER_MISMATCH, E::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH),
            (status::COMPAT_NOT_SUPPORTED_ON_DEVICE, E::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE),
        ];
        for (ours, theirs) in pairs {
            assert_eq!(ours.0, theirs as u32);
        }
    }
}
