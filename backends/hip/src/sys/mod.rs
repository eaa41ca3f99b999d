//! Status codes, attributes, structs and functions of AMD's runtime only.

#[cfg(target_pointer_width = "64")]
mod generation_5;

use std::ffi::{c_char, c_int, c_uint, c_void};

use gpu_interop_driver::{DeviceAddress, DeviceNumber, Handle, Status, driver_table};

/// `hipError_t` codes in addition to those of both vendors.
pub(crate) mod status {
    use gpu_interop_driver::Status;

    pub(crate) const NOT_INITIALIZED: Status = Status(3);
    pub(crate) const INSUFFICIENT_DRIVER: Status = Status(35);
    pub(crate) const INVALID_DEVICE: Status = Status(101);
    pub(crate) const NO_BINARY_FOR_GPU: Status = Status(209);
    pub(crate) const UNKNOWN: Status = Status(999);
}

/// `hipDeviceAttribute_t`. The numbers are unchanged since HIP 5, for attributes that it defines.
pub(crate) mod attribute {
    use std::ffi::c_int;

    /// Not defined by HIP 5.2, whose runtime rejects the number.
    pub(crate) const VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: c_int = 89;
    pub(crate) const CAN_USE_STREAM_WAIT_VALUE: c_int = 10013;
    pub(crate) const PCI_BUS_ID: c_int = 67;
    pub(crate) const PCI_DEVICE_ID: c_int = 68;
}

/// `hipExternalMemoryHandleTypeOpaqueFd`, also for dma-bufs, which have no number. On Linux the runtime ignores the
/// number and inspects the file descriptor; on AMD GPUs Vulkan exports dma-bufs for every handle type.
pub(crate) const MEMORY_OPAQUE_FD: u32 = 1;
/// `hipExternalSemaphoreHandleTypeOpaqueWin32`, also for timeline semaphores, whose own number the runtime rejects.
pub(crate) const SEMAPHORE_OPAQUE_WIN32: u32 = 2;

/// `hipMemoryTypeArray` since HIP 6.
pub(crate) const MEMORY_TYPE_ARRAY: c_uint = 10;

/// Mask that compares every bit of a 32-bit word.
pub(crate) const WHOLE_WORD_32: u32 = u32::MAX;
/// Mask that compares every bit of a 64-bit word.
pub(crate) const WHOLE_WORD_64: u64 = u64::MAX;

driver_table! {
    /// Functions that only HIP has, or whose arguments differ from CUDA's.
    pub(crate) struct Functions {
        required {
            get_device: fn(device: *mut c_int) -> Status = c"hipGetDevice";
            set_device: fn(device: c_int) -> Status = c"hipSetDevice";
            get_pci_bus_id: fn(text: *mut c_char, length: c_int, device: DeviceNumber) -> Status
                = c"hipDeviceGetPCIBusId";
            get_error_name: fn(code: Status) -> *const c_char = c"hipGetErrorName";
            get_error_string: fn(code: Status) -> *const c_char = c"hipGetErrorString";
        }
        optional {
            get_properties: fn(properties: *mut c_void, device: c_int) -> Status
                = c"hipGetDevicePropertiesR0600" since (6, 0);
            // In later versions this symbol keeps the layout of HIP 5, while the header maps its name to the newer one.
            get_properties_generation_5: fn(properties: *mut c_void, device: c_int) -> Status
                = c"hipGetDeviceProperties" since (4, 2);
            get_luid: fn(luid: *mut c_char, node_mask: *mut c_uint, device: DeviceNumber) -> Status
                = c"hipDeviceGetLuid" since (7, 16);
            ext_malloc: fn(memory: *mut *mut c_void, size: usize, flags: c_uint) -> Status
                = c"hipExtMallocWithFlags" since (4, 2);
            pointer_get_attribute: fn(value: *mut c_void, attribute: c_int, address: DeviceAddress) -> Status
                = c"hipPointerGetAttribute" since (5, 0);
            array_destroy: fn(array: Handle) -> Status = c"hipArrayDestroy" since (4, 3);
            malloc: fn(memory: *mut DeviceAddress, size: usize) -> Status = c"hipMalloc" since (4, 2);
            stream_create_with_cu_mask: fn(stream: *mut Handle, words: c_uint, mask: *const u32) -> Status
                = c"hipExtStreamCreateWithCUMask" since (4, 2);
            stream_wait_value_32: fn(stream: Handle, address: DeviceAddress, value: u32, flags: c_uint, mask: u32)
                -> Status = c"hipStreamWaitValue32" since (4, 4);
            stream_wait_value_64: fn(stream: Handle, address: DeviceAddress, value: u64, flags: c_uint, mask: u64)
                -> Status = c"hipStreamWaitValue64" since (4, 4);
        }
    }
}

#[cfg(test)]
mod tests {
    use cubecl_hip_sys as hip;

    use super::*;

    #[test]
    fn constants_match_the_header() {
        let codes = [
            (Status::SUCCESS, hip::hipError_t_hipSuccess),
            (Status::INVALID_VALUE, hip::hipError_t_hipErrorInvalidValue),
            (Status::NOT_READY, hip::hipError_t_hipErrorNotReady),
            (Status::OUT_OF_MEMORY, hip::hipError_t_hipErrorOutOfMemory),
            (status::INSUFFICIENT_DRIVER, hip::hipError_t_hipErrorInsufficientDriver),
            (Status::NO_DEVICE, hip::hipError_t_hipErrorNoDevice),
            (status::INVALID_DEVICE, hip::hipError_t_hipErrorInvalidDevice),
            (status::NO_BINARY_FOR_GPU, hip::hipError_t_hipErrorNoBinaryForGpu),
            (Status::NOT_SUPPORTED, hip::hipError_t_hipErrorNotSupported),
            (status::UNKNOWN, hip::hipError_t_hipErrorUnknown),
        ];
        for (ours, theirs) in codes {
            assert_eq!(ours.0, theirs);
        }
        let attributes = [
            (
                attribute::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                hip::hipDeviceAttribute_t_hipDeviceAttributeVirtualMemoryManagementSupported,
            ),
            (attribute::CAN_USE_STREAM_WAIT_VALUE, hip::hipDeviceAttribute_t_hipDeviceAttributeCanUseStreamWaitValue),
            (attribute::PCI_BUS_ID, hip::hipDeviceAttribute_t_hipDeviceAttributePciBusId),
            (attribute::PCI_DEVICE_ID, hip::hipDeviceAttribute_t_hipDeviceAttributePciDeviceId),
        ];
        for (ours, theirs) in attributes {
            assert_eq!(u32::try_from(ours), Ok(theirs));
        }
        assert_eq!(MEMORY_OPAQUE_FD, hip::hipExternalMemoryHandleType_enum_hipExternalMemoryHandleTypeOpaqueFd);
        assert_eq!(
            SEMAPHORE_OPAQUE_WIN32,
            hip::hipExternalSemaphoreHandleType_enum_hipExternalSemaphoreHandleTypeOpaqueWin32
        );
    }
}
