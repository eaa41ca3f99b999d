//! Status codes, and their names.

use std::ffi::{CStr, c_char};

use cubecl_hip_sys as hip;

use crate::faults::{Strike, strike};
use crate::hip::version::Era;

/// `hipErrorNoBinaryForGpu`.
pub const NO_BINARY_FOR_GPU: u32 = hip::hipError_t_hipErrorNoBinaryForGpu;

const UNKNOWN: &CStr = c"hipErrorUnknown";

/// The status codes with names in the simulators, with their names and texts.
#[rustfmt::skip]
const NAMES: &[(u32, &CStr, &CStr)] = &[
    (hip::hipError_t_hipSuccess, c"hipSuccess", c"no error"),
    (hip::hipError_t_hipErrorInvalidValue, c"hipErrorInvalidValue", c"invalid argument"),
    (hip::hipError_t_hipErrorOutOfMemory, c"hipErrorOutOfMemory", c"out of memory"),
    (hip::hipError_t_hipErrorNotInitialized, c"hipErrorNotInitialized", c"initialization error"),
    (hip::hipError_t_hipErrorDeinitialized, c"hipErrorDeinitialized", c"driver shutting down"),
    (hip::hipError_t_hipErrorInvalidConfiguration, c"hipErrorInvalidConfiguration", c"invalid configuration argument"),
    (hip::hipError_t_hipErrorInsufficientDriver, c"hipErrorInsufficientDriver", c"driver version is insufficient for runtime version"),
    (hip::hipError_t_hipErrorNoDevice, c"hipErrorNoDevice", c"no ROCm-capable device is detected"),
    (hip::hipError_t_hipErrorInvalidDevice, c"hipErrorInvalidDevice", c"invalid device ordinal"),
    (hip::hipError_t_hipErrorInvalidImage, c"hipErrorInvalidImage", c"device kernel image is invalid"),
    (hip::hipError_t_hipErrorInvalidContext, c"hipErrorInvalidContext", c"invalid device context"),
    (hip::hipError_t_hipErrorMapFailed, c"hipErrorMapFailed", c"mapping of buffer object failed"),
    (hip::hipError_t_hipErrorUnmapFailed, c"hipErrorUnmapFailed", c"unmapping of buffer object failed"),
    (hip::hipError_t_hipErrorAlreadyMapped, c"hipErrorAlreadyMapped", c"resource already mapped"),
    (hip::hipError_t_hipErrorNoBinaryForGpu, c"hipErrorNoBinaryForGpu", c"no kernel image is available for execution on the device"),
    (hip::hipError_t_hipErrorNotMapped, c"hipErrorNotMapped", c"resource not mapped"),
    (hip::hipError_t_hipErrorECCNotCorrectable, c"hipErrorECCNotCorrectable", c"uncorrectable ECC error encountered"),
    (hip::hipError_t_hipErrorInvalidKernelFile, c"hipErrorInvalidKernelFile", c"invalid kernel file"),
    (hip::hipError_t_hipErrorInvalidSource, c"hipErrorInvalidSource", c"device kernel image is invalid"),
    (hip::hipError_t_hipErrorSharedObjectInitFailed, c"hipErrorSharedObjectInitFailed", c"shared object initialization failed"),
    (hip::hipError_t_hipErrorOperatingSystem, c"hipErrorOperatingSystem", c"OS call failed or operation not supported on this OS"),
    (hip::hipError_t_hipErrorInvalidHandle, c"hipErrorInvalidHandle", c"invalid resource handle"),
    (hip::hipError_t_hipErrorIllegalState, c"hipErrorIllegalState", c"the operation cannot be performed in the present state"),
    (hip::hipError_t_hipErrorNotFound, c"hipErrorNotFound", c"named symbol not found"),
    (hip::hipError_t_hipErrorNotReady, c"hipErrorNotReady", c"device not ready"),
    (hip::hipError_t_hipErrorIllegalAddress, c"hipErrorIllegalAddress", c"an illegal memory access was encountered"),
    (hip::hipError_t_hipErrorLaunchOutOfResources, c"hipErrorLaunchOutOfResources", c"too many resources requested for launch"),
    (hip::hipError_t_hipErrorLaunchTimeOut, c"hipErrorLaunchTimeOut", c"the launch timed out and was terminated"),
    (hip::hipError_t_hipErrorContextIsDestroyed, c"hipErrorContextIsDestroyed", c"context is destroyed"),
    (hip::hipError_t_hipErrorAssert, c"hipErrorAssert", c"device-side assert triggered"),
    (hip::hipError_t_hipErrorLaunchFailure, c"hipErrorLaunchFailure", c"unspecified launch failure"),
    (hip::hipError_t_hipErrorNotSupported, c"hipErrorNotSupported", c"operation not supported"),
    (hip::hipError_t_hipErrorStreamCaptureUnsupported, c"hipErrorStreamCaptureUnsupported", c"operation not permitted when stream is capturing"),
    (hip::hipError_t_hipErrorStreamCaptureInvalidated, c"hipErrorStreamCaptureInvalidated", c"operation failed due to a previous error during capture"),
    (hip::hipError_t_hipErrorStreamCaptureUnmatched, c"hipErrorStreamCaptureUnmatched", c"capture was not ended in the same stream as it began"),
    (hip::hipError_t_hipErrorStreamCaptureUnjoined, c"hipErrorStreamCaptureUnjoined", c"capturing stream has unjoined work"),
    (hip::hipError_t_hipErrorStreamCaptureIsolation, c"hipErrorStreamCaptureIsolation", c"dependency created on uncaptured work in another stream"),
    (hip::hipError_t_hipErrorCapturedEvent, c"hipErrorCapturedEvent", c"operation not permitted on an event last recorded in a capturing stream"),
    (hip::hipError_t_hipErrorStreamCaptureWrongThread, c"hipErrorStreamCaptureWrongThread", c"attempt to terminate a thread-local capture sequence from another thread"),
    (hip::hipError_t_hipErrorUnknown, UNKNOWN, c"unknown error"),
];

/// The name and text of a code. Unknown codes have those of the unknown error.
fn known(code: u32) -> (&'static CStr, &'static CStr) {
    NAMES
        .iter()
        .find(|(known, ..)| *known == code)
        .map_or((UNKNOWN, c"unknown error"), |(_, name, text)| (*name, *text))
}

/// The name of a code.
pub fn name(code: u32) -> &'static CStr {
    known(code).0
}

/// The text of a code; before HIP 5.5 its name.
pub fn text(code: u32) -> &'static CStr {
    if Era::now() == Era::Early { name(code) } else { known(code).1 }
}

/// A text as the return value of `function`, or NULL if a fault is injected: these functions return no code.
pub fn answer(function: &'static str, text: &'static CStr) -> *const c_char {
    match strike(function, true) {
        Strike::None => text.as_ptr(),
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
