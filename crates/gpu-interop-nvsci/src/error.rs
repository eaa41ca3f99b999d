//! Status codes of both libraries (`nvscierror.h`).

use std::ffi::c_void;
use std::ptr::{NonNull, with_exposed_provenance_mut};

use gpu_interop_core::{Error, ErrorKind, Result};
use gpu_interop_driver::Status;

use crate::sys::Handle;

pub(crate) const NOT_IMPLEMENTED: u32 = 0x10;
pub(crate) const NOT_SUPPORTED: u32 = 0x11;
pub(crate) const INVALID_STATE: u32 = 0x22;
pub(crate) const INSUFFICIENT_MEMORY: u32 = 0x30;
pub(crate) const BAD_PARAMETER: u32 = 0x100;
pub(crate) const TIMEOUT: u32 = 0x200;
pub(crate) const RECONCILIATION_FAILED: u32 = 0x1_0100;
pub(crate) const UNSUPPORTED_CONFIG: u32 = 0x200_0001;
pub(crate) const CLEARED_FENCE: u32 = 0x200_0002;

/// Codes that this crate's functions are documented to return.
const NAMES: [(u32, &str); 20] = [
    (0x1, "NvSciError_Unknown"),
    (NOT_IMPLEMENTED, "NvSciError_NotImplemented"),
    (NOT_SUPPORTED, "NvSciError_NotSupported"),
    (0x20, "NvSciError_AccessDenied"),
    (0x21, "NvSciError_NotPermitted"),
    (INVALID_STATE, "NvSciError_InvalidState"),
    (0x23, "NvSciError_InvalidOperation"),
    (0x24, "NvSciError_NotInitialized"),
    (INSUFFICIENT_MEMORY, "NvSciError_InsufficientMemory"),
    (0x31, "NvSciError_InsufficientResource"),
    (0x32, "NvSciError_ResourceError"),
    (BAD_PARAMETER, "NvSciError_BadParameter"),
    (0x103, "NvSciError_Overflow"),
    (TIMEOUT, "NvSciError_Timeout"),
    (0x201, "NvSciError_TryItAgain"),
    (0x202, "NvSciError_Busy"),
    (0x1000, "NvSciError_NoSuchDevice"),
    (RECONCILIATION_FAILED, "NvSciError_ReconciliationFailed"),
    (UNSUPPORTED_CONFIG, "NvSciError_UnsupportedConfig"),
    (CLEARED_FENCE, "NvSciError_ClearedFence"),
];

/// Converts a status code to a result. `operation` is the function's name.
pub(crate) fn check(operation: &'static str, code: Status) -> Result<()> {
    if code == Status::SUCCESS { Ok(()) } else { Err(error(operation, code)) }
}

#[cold]
fn error(operation: &'static str, code: Status) -> Error {
    let (kind, message) = match code.0 {
        NOT_IMPLEMENTED | NOT_SUPPORTED => (ErrorKind::Unsupported, "this system does not support the operation"),
        INSUFFICIENT_MEMORY => (ErrorKind::OutOfMemory, "memory ran out"),
        TIMEOUT => (ErrorKind::Timeout, "the fence was not signalled in time; wait again or increase the timeout"),
        RECONCILIATION_FAILED | UNSUPPORTED_CONFIG => (
            ErrorKind::ReconciliationFailed,
            "no object satisfies all of the attribute lists; change one of them where they differ",
        ),
        BAD_PARAMETER => (ErrorKind::Driver, "the library rejected a value"),
        INVALID_STATE => (
            ErrorKind::Driver,
            "the library rejects the call in its present state, as in the system's runtime mode; make objects before that",
        ),
        _ => (ErrorKind::Driver, "the library reported a failure"),
    };
    failure(kind, operation, message, code)
}

/// An error with a status code and its name.
pub(crate) fn failure(kind: ErrorKind, operation: &'static str, message: &'static str, code: Status) -> Error {
    let name = NAMES.iter().find(|(known, _)| *known == code.0).map(|(_, name)| (*name).to_owned());
    Error::new(kind, operation, message).with_code(i64::from(code.0), name)
}

/// As [`check`], for a function that reconciles attribute lists: two of its codes concern the lists.
pub(crate) fn check_reconciled(operation: &'static str, code: Status) -> Result<()> {
    let message = match code.0 {
        NOT_SUPPORTED => {
            "the library does not support this combination of attributes; change one of the attribute lists"
        }
        BAD_PARAMETER => {
            "no attribute list sets an attribute that is mandatory, or a value is not supported for the type; set it, or \
             change the value"
        }
        _ => return check(operation, code),
    };
    Err(failure(ErrorKind::ReconciliationFailed, operation, message, code))
}

/// Rejects a null handle: a library may report success without one.
pub(crate) fn not_null(operation: &'static str, handle: Handle) -> Result<NonNull<c_void>> {
    not_null_pointer(operation, with_exposed_provenance_mut(handle))
}

/// As [`not_null`], for a pointer.
pub(crate) fn not_null_pointer<T>(operation: &'static str, pointer: *mut T) -> Result<NonNull<T>> {
    let null = || Error::new(ErrorKind::Driver, operation, "the library reported success but returned a null handle");
    NonNull::new(pointer).ok_or_else(null)
}

/// The error for a function that an older library lacks.
pub(crate) fn missing(operation: &'static str) -> Error {
    Error::new(ErrorKind::SymbolMissing, operation, "the library lacks this function; NvSciSync 2.3 has it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_say_what_to_do_and_keep_their_number() {
        for (code, kind, name) in [
            (0x11, ErrorKind::Unsupported, Some("NvSciError_NotSupported")),
            (0x30, ErrorKind::OutOfMemory, Some("NvSciError_InsufficientMemory")),
            (0x200, ErrorKind::Timeout, Some("NvSciError_Timeout")),
            (0x1_0100, ErrorKind::ReconciliationFailed, Some("NvSciError_ReconciliationFailed")),
            (0x200_0001, ErrorKind::ReconciliationFailed, Some("NvSciError_UnsupportedConfig")),
            (0x100, ErrorKind::Driver, Some("NvSciError_BadParameter")),
            (54321, ErrorKind::Driver, None),
        ] {
            let error = check("NvSciBufObjAlloc", Status(code)).expect_err("a failure");
            assert_eq!((error.kind(), error.operation()), (kind, "NvSciBufObjAlloc"));
            let found = error.code().expect("a code");
            assert_eq!((found.value, found.name.as_deref()), (i64::from(code), name));
        }
        assert!(check("op", Status(0)).is_ok());
    }

    #[test]
    fn codes_of_reconciliation_are_about_the_lists() {
        for (code, kind, part) in [
            (0x11, ErrorKind::ReconciliationFailed, "combination"),
            (0x100, ErrorKind::ReconciliationFailed, "mandatory"),
            (0x1_0100, ErrorKind::ReconciliationFailed, "satisfies"),
            (0x22, ErrorKind::Driver, "runtime mode"),
            (0x30, ErrorKind::OutOfMemory, "memory"),
        ] {
            let error = check_reconciled("NvSciBufAttrListReconcile", Status(code)).expect_err("a failure");
            assert_eq!((error.kind(), error.code().map(|code| code.value)), (kind, Some(i64::from(code))));
            assert!(error.message().contains(part), "{error}");
        }
        assert!(check_reconciled("op", Status(0)).is_ok());
    }
}
