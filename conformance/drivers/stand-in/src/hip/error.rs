//! Status codes, and their names.

use std::ffi::{CStr, c_char};

use cubecl_hip_sys as hip;

use crate::faults::{Strike, strike};

/// `hipErrorNoBinaryForGpu`.
pub const NO_BINARY_FOR_GPU: u32 = hip::hipError_t_hipErrorNoBinaryForGpu;

const UNKNOWN: &CStr = c"hipErrorUnknown";

/// The codes that stand-ins have names for.
const NAMES: &[(u32, &CStr)] = &[
    (hip::hipError_t_hipSuccess, c"hipSuccess"),
    (hip::hipError_t_hipErrorInvalidValue, c"hipErrorInvalidValue"),
    (hip::hipError_t_hipErrorOutOfMemory, c"hipErrorOutOfMemory"),
    (hip::hipError_t_hipErrorNotInitialized, c"hipErrorNotInitialized"),
    (hip::hipError_t_hipErrorDeinitialized, c"hipErrorDeinitialized"),
    (hip::hipError_t_hipErrorInsufficientDriver, c"hipErrorInsufficientDriver"),
    (hip::hipError_t_hipErrorNoDevice, c"hipErrorNoDevice"),
    (hip::hipError_t_hipErrorInvalidDevice, c"hipErrorInvalidDevice"),
    (hip::hipError_t_hipErrorInvalidImage, c"hipErrorInvalidImage"),
    (hip::hipError_t_hipErrorInvalidContext, c"hipErrorInvalidContext"),
    (hip::hipError_t_hipErrorMapFailed, c"hipErrorMapFailed"),
    (hip::hipError_t_hipErrorUnmapFailed, c"hipErrorUnmapFailed"),
    (hip::hipError_t_hipErrorAlreadyMapped, c"hipErrorAlreadyMapped"),
    (hip::hipError_t_hipErrorNoBinaryForGpu, c"hipErrorNoBinaryForGpu"),
    (hip::hipError_t_hipErrorNotMapped, c"hipErrorNotMapped"),
    (hip::hipError_t_hipErrorECCNotCorrectable, c"hipErrorECCNotCorrectable"),
    (hip::hipError_t_hipErrorInvalidKernelFile, c"hipErrorInvalidKernelFile"),
    (hip::hipError_t_hipErrorInvalidSource, c"hipErrorInvalidSource"),
    (hip::hipError_t_hipErrorOperatingSystem, c"hipErrorOperatingSystem"),
    (hip::hipError_t_hipErrorInvalidHandle, c"hipErrorInvalidHandle"),
    (hip::hipError_t_hipErrorIllegalState, c"hipErrorIllegalState"),
    (hip::hipError_t_hipErrorNotFound, c"hipErrorNotFound"),
    (hip::hipError_t_hipErrorNotReady, c"hipErrorNotReady"),
    (hip::hipError_t_hipErrorIllegalAddress, c"hipErrorIllegalAddress"),
    (hip::hipError_t_hipErrorLaunchOutOfResources, c"hipErrorLaunchOutOfResources"),
    (hip::hipError_t_hipErrorLaunchTimeOut, c"hipErrorLaunchTimeOut"),
    (hip::hipError_t_hipErrorContextIsDestroyed, c"hipErrorContextIsDestroyed"),
    (hip::hipError_t_hipErrorAssert, c"hipErrorAssert"),
    (hip::hipError_t_hipErrorLaunchFailure, c"hipErrorLaunchFailure"),
    (hip::hipError_t_hipErrorNotSupported, c"hipErrorNotSupported"),
    (hip::hipError_t_hipErrorUnknown, UNKNOWN),
];

/// The name of a code. One that is not known has the name of the code for unknown errors.
#[must_use]
pub fn name(code: u32) -> &'static CStr {
    NAMES.iter().find(|(known, _)| *known == code).map_or(UNKNOWN, |(_, name)| *name)
}

/// The name, as `function` answers it, unless a fault is injected: functions of texts answer no code, so that any fault
/// is NULL.
#[must_use]
pub fn answer(function: &'static str, code: u32) -> *const c_char {
    match strike(function, true) {
        Strike::None => name(code).as_ptr(),
        Strike::Code(_) | Strike::Null => std::ptr::null(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code;

    #[test]
    fn codes_are_those_of_the_header() {
        for (ours, theirs) in [
            (code::INVALID_VALUE, hip::hipError_t_hipErrorInvalidValue),
            (code::OUT_OF_MEMORY, hip::hipError_t_hipErrorOutOfMemory),
            (code::NO_DEVICE, hip::hipError_t_hipErrorNoDevice),
            (code::INVALID_DEVICE, hip::hipError_t_hipErrorInvalidDevice),
            (code::INVALID_IMAGE, hip::hipError_t_hipErrorInvalidImage),
            (code::INVALID_HANDLE, hip::hipError_t_hipErrorInvalidHandle),
            (code::NOT_FOUND, hip::hipError_t_hipErrorNotFound),
            (code::NOT_READY, hip::hipError_t_hipErrorNotReady),
            (code::NOT_SUPPORTED, hip::hipError_t_hipErrorNotSupported),
        ] {
            assert_eq!(ours, theirs);
        }
        assert_eq!(name(12345), UNKNOWN);
    }
}
