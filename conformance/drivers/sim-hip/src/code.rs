//! Status codes.

use std::ffi::{CStr, c_char};

use cubecl_hip_sys as hip;

pub use gpu_interop_sim::code::{
    INVALID_DEVICE, INVALID_HANDLE, INVALID_IMAGE, INVALID_VALUE, NO_DEVICE, NOT_SUPPORTED, OUT_OF_MEMORY,
};

/// `hipErrorNoBinaryForGpu`.
pub const NO_BINARY_FOR_GPU: u32 = hip::hipError_t_hipErrorNoBinaryForGpu;

const UNKNOWN: &CStr = c"hipErrorUnknown";

/// The codes that this library has names for.
const NAMES: &[(u32, &CStr)] = &[
    (hip::hipError_t_hipSuccess, c"hipSuccess"),
    (hip::hipError_t_hipErrorInvalidValue, c"hipErrorInvalidValue"),
    (hip::hipError_t_hipErrorOutOfMemory, c"hipErrorOutOfMemory"),
    (hip::hipError_t_hipErrorNotInitialized, c"hipErrorNotInitialized"),
    (hip::hipError_t_hipErrorInsufficientDriver, c"hipErrorInsufficientDriver"),
    (hip::hipError_t_hipErrorNoDevice, c"hipErrorNoDevice"),
    (hip::hipError_t_hipErrorInvalidDevice, c"hipErrorInvalidDevice"),
    (hip::hipError_t_hipErrorInvalidImage, c"hipErrorInvalidImage"),
    (hip::hipError_t_hipErrorInvalidContext, c"hipErrorInvalidContext"),
    (hip::hipError_t_hipErrorNoBinaryForGpu, c"hipErrorNoBinaryForGpu"),
    (hip::hipError_t_hipErrorInvalidHandle, c"hipErrorInvalidHandle"),
    (hip::hipError_t_hipErrorNotFound, c"hipErrorNotFound"),
    (hip::hipError_t_hipErrorNotReady, c"hipErrorNotReady"),
    (hip::hipError_t_hipErrorIllegalAddress, c"hipErrorIllegalAddress"),
    (hip::hipError_t_hipErrorLaunchFailure, c"hipErrorLaunchFailure"),
    (hip::hipError_t_hipErrorNotSupported, c"hipErrorNotSupported"),
    (hip::hipError_t_hipErrorUnknown, UNKNOWN),
];

fn name(code: u32) -> &'static CStr {
    NAMES.iter().find(|(known, _)| *known == code).map_or(UNKNOWN, |(_, name)| *name)
}

/// Plays `hipGetErrorName`: a code that is not known has the name of the one for unknown errors.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the vendor's interface")]
pub extern "C" fn hipGetErrorName(code: u32) -> *const c_char {
    name(code).as_ptr()
}

/// Plays `hipGetErrorString`.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the vendor's interface")]
pub extern "C" fn hipGetErrorString(code: u32) -> *const c_char {
    name(code).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_header() {
        for (ours, theirs) in [
            (INVALID_VALUE, hip::hipError_t_hipErrorInvalidValue),
            (OUT_OF_MEMORY, hip::hipError_t_hipErrorOutOfMemory),
            (NO_DEVICE, hip::hipError_t_hipErrorNoDevice),
            (INVALID_DEVICE, hip::hipError_t_hipErrorInvalidDevice),
            (INVALID_IMAGE, hip::hipError_t_hipErrorInvalidImage),
            (INVALID_HANDLE, hip::hipError_t_hipErrorInvalidHandle),
            (gpu_interop_sim::code::NOT_FOUND, hip::hipError_t_hipErrorNotFound),
            (gpu_interop_sim::code::NOT_READY, hip::hipError_t_hipErrorNotReady),
            (NOT_SUPPORTED, hip::hipError_t_hipErrorNotSupported),
        ] {
            assert_eq!(ours, theirs);
        }
        assert_eq!(name(12345), UNKNOWN);
    }
}
