//! Status codes.

use std::ffi::{CStr, c_char};

use cudarc::driver::sys::cudaError_enum as Code;
use gpu_interop_sim_device::entries;

use crate::give;

pub use gpu_interop_sim_device::code::{
    CAPTURE_UNSUPPORTED, CONTEXT_IS_DESTROYED, HOST_MEMORY_ALREADY_REGISTERED, HOST_MEMORY_NOT_REGISTERED,
    ILLEGAL_STATE, INVALID_CONTEXT, INVALID_DEVICE, INVALID_HANDLE, INVALID_IMAGE, INVALID_VALUE, NO_DEVICE,
    NOT_INITIALIZED, NOT_READY, NOT_SUPPORTED, OUT_OF_MEMORY, UNKNOWN, reject_if,
};

/// `CUDA_ERROR_INVALID_PTX`.
pub const INVALID_PTX: u32 = Code::CUDA_ERROR_INVALID_PTX as u32;

/// The codes with names in this library; others are unknown, as newer codes are to an older driver.
const NAMES: &[(Code, &CStr)] = &[
    (Code::CUDA_SUCCESS, c"CUDA_SUCCESS"),
    (Code::CUDA_ERROR_INVALID_VALUE, c"CUDA_ERROR_INVALID_VALUE"),
    (Code::CUDA_ERROR_OUT_OF_MEMORY, c"CUDA_ERROR_OUT_OF_MEMORY"),
    (Code::CUDA_ERROR_NOT_INITIALIZED, c"CUDA_ERROR_NOT_INITIALIZED"),
    (Code::CUDA_ERROR_DEINITIALIZED, c"CUDA_ERROR_DEINITIALIZED"),
    (Code::CUDA_ERROR_STUB_LIBRARY, c"CUDA_ERROR_STUB_LIBRARY"),
    (Code::CUDA_ERROR_DEVICE_UNAVAILABLE, c"CUDA_ERROR_DEVICE_UNAVAILABLE"),
    (Code::CUDA_ERROR_NO_DEVICE, c"CUDA_ERROR_NO_DEVICE"),
    (Code::CUDA_ERROR_INVALID_DEVICE, c"CUDA_ERROR_INVALID_DEVICE"),
    (Code::CUDA_ERROR_INVALID_IMAGE, c"CUDA_ERROR_INVALID_IMAGE"),
    (Code::CUDA_ERROR_INVALID_CONTEXT, c"CUDA_ERROR_INVALID_CONTEXT"),
    (Code::CUDA_ERROR_MAP_FAILED, c"CUDA_ERROR_MAP_FAILED"),
    (Code::CUDA_ERROR_INVALID_PTX, c"CUDA_ERROR_INVALID_PTX"),
    (Code::CUDA_ERROR_OPERATING_SYSTEM, c"CUDA_ERROR_OPERATING_SYSTEM"),
    (Code::CUDA_ERROR_INVALID_HANDLE, c"CUDA_ERROR_INVALID_HANDLE"),
    (Code::CUDA_ERROR_NOT_FOUND, c"CUDA_ERROR_NOT_FOUND"),
    (Code::CUDA_ERROR_NOT_READY, c"CUDA_ERROR_NOT_READY"),
    (Code::CUDA_ERROR_ILLEGAL_ADDRESS, c"CUDA_ERROR_ILLEGAL_ADDRESS"),
    (Code::CUDA_ERROR_LAUNCH_FAILED, c"CUDA_ERROR_LAUNCH_FAILED"),
    (Code::CUDA_ERROR_NOT_PERMITTED, c"CUDA_ERROR_NOT_PERMITTED"),
    (Code::CUDA_ERROR_CONTEXT_IS_DESTROYED, c"CUDA_ERROR_CONTEXT_IS_DESTROYED"),
    (Code::CUDA_ERROR_NOT_SUPPORTED, c"CUDA_ERROR_NOT_SUPPORTED"),
    (Code::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, c"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
    (Code::CUDA_ERROR_TIMEOUT, c"CUDA_ERROR_TIMEOUT"),
    (Code::CUDA_ERROR_UNKNOWN, c"CUDA_ERROR_UNKNOWN"),
];

fn name(code: u32) -> Option<&'static CStr> {
    NAMES.iter().find(|(known, _)| *known as u32 == code).map(|(_, name)| *name)
}

entries! {
    fn cuGetErrorName(error: u32, text: *mut *const c_char) gives text {
        give(text, name(error).map_or(std::ptr::null(), CStr::as_ptr))?;
        name(error).map(drop).ok_or(INVALID_VALUE)
    }

    fn cuGetErrorString(error: u32, text: *mut *const c_char) gives text {
        give(text, name(error).map_or(std::ptr::null(), CStr::as_ptr))?;
        name(error).map(drop).ok_or(INVALID_VALUE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_header() {
        for (ours, theirs) in [
            (INVALID_VALUE, Code::CUDA_ERROR_INVALID_VALUE),
            (OUT_OF_MEMORY, Code::CUDA_ERROR_OUT_OF_MEMORY),
            (NOT_INITIALIZED, Code::CUDA_ERROR_NOT_INITIALIZED),
            (gpu_interop_sim_device::code::NO_DEVICE, Code::CUDA_ERROR_NO_DEVICE),
            (INVALID_DEVICE, Code::CUDA_ERROR_INVALID_DEVICE),
            (INVALID_IMAGE, Code::CUDA_ERROR_INVALID_IMAGE),
            (INVALID_CONTEXT, Code::CUDA_ERROR_INVALID_CONTEXT),
            (INVALID_HANDLE, Code::CUDA_ERROR_INVALID_HANDLE),
            (gpu_interop_sim_device::code::NOT_FOUND, Code::CUDA_ERROR_NOT_FOUND),
            (NOT_READY, Code::CUDA_ERROR_NOT_READY),
            (NOT_SUPPORTED, Code::CUDA_ERROR_NOT_SUPPORTED),
            (UNKNOWN, Code::CUDA_ERROR_UNKNOWN),
        ] {
            assert_eq!(ours, theirs as u32);
        }
    }
}
