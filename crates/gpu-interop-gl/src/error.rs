//! Conversion of `glGetError` codes to [`Error`].

use std::ffi::c_uint;

use gpu_interop_core::{Error, ErrorKind};

use crate::sys;

/// Converts the error of any call.
pub(crate) fn driver(operation: &'static str, code: c_uint) -> Error {
    let (kind, message) = match code {
        sys::OUT_OF_MEMORY => (ErrorKind::OutOfMemory, "the driver ran out of memory"),
        sys::CONTEXT_LOST => {
            (ErrorKind::Driver, "the context is lost: an earlier command crashed or exceeded the time limit")
        }
        _ => (ErrorKind::Driver, "the driver reported a failure"),
    };
    coded(kind, operation, message, code)
}

/// Converts the error of an import. The request was validated before, so most codes mean that the driver rejected the
/// handle.
pub(crate) fn import(operation: &'static str, code: c_uint) -> Error {
    match code {
        sys::INVALID_ENUM | sys::INVALID_VALUE | sys::INVALID_OPERATION => coded(
            ErrorKind::ImportRejected,
            operation,
            "the request is well-formed, but the driver rejected the handle",
            code,
        ),
        other => driver(operation, other),
    }
}

/// Converts the error of a storage call. Drivers that accepted an invalid handle without an error report
/// `GL_INVALID_OPERATION` here.
pub(crate) fn storage(operation: &'static str, code: c_uint) -> Error {
    match code {
        sys::OUT_OF_MEMORY => coded(
            ErrorKind::OutOfMemory,
            operation,
            "the driver ran out of memory, or requires more memory after the object than was exported (Mesa's llvmpipe \
             does for buffers)",
            code,
        ),
        sys::INVALID_OPERATION => coded(
            ErrorKind::ImportRejected,
            operation,
            "the driver has no memory behind the imported handle, or does not support such an object in it",
            code,
        ),
        sys::INVALID_ENUM => {
            coded(ErrorKind::Unsupported, operation, "the driver does not support this object in imported memory", code)
        }
        sys::INVALID_VALUE => coded(
            ErrorKind::Unsupported,
            operation,
            "the driver supports no object of this size at this offset of the memory; use the exporter's values",
            code,
        ),
        other => driver(operation, other),
    }
}

fn coded(kind: ErrorKind, operation: &'static str, message: &'static str, code: c_uint) -> Error {
    Error::new(kind, operation, message).with_code(code.into(), name(code).map(Into::into))
}

/// The code's name in the header.
pub(crate) fn name(code: c_uint) -> Option<&'static str> {
    Some(match code {
        sys::INVALID_ENUM => "GL_INVALID_ENUM",
        sys::INVALID_VALUE => "GL_INVALID_VALUE",
        sys::INVALID_OPERATION => "GL_INVALID_OPERATION",
        0x0503 => "GL_STACK_OVERFLOW",
        0x0504 => "GL_STACK_UNDERFLOW",
        sys::OUT_OF_MEMORY => "GL_OUT_OF_MEMORY",
        0x0506 => "GL_INVALID_FRAMEBUFFER_OPERATION",
        sys::CONTEXT_LOST => "GL_CONTEXT_LOST",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_map_to_error_kinds() {
        for convert in [driver, import, storage] {
            assert_eq!(convert("op", sys::OUT_OF_MEMORY).kind(), ErrorKind::OutOfMemory);
            assert_eq!(convert("op", sys::CONTEXT_LOST).kind(), ErrorKind::Driver);
            assert_eq!(convert("op", 0x1234).kind(), ErrorKind::Driver);
        }
        assert_eq!(import("op", sys::INVALID_VALUE).kind(), ErrorKind::ImportRejected);
        assert_eq!(driver("op", sys::INVALID_VALUE).kind(), ErrorKind::Driver);
        assert_eq!(storage("op", sys::INVALID_OPERATION).kind(), ErrorKind::ImportRejected);
        assert_eq!(storage("op", sys::INVALID_ENUM).kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn errors_keep_number_and_name_of_the_code() {
        let code = |error: Error| error.code().cloned().map(|code| (code.value, code.name));
        assert_eq!(code(driver("op", 0x0502)), Some((0x0502, Some("GL_INVALID_OPERATION".into()))));
        assert_eq!(code(import("op", 0x9999)), Some((0x9999, None)));
    }
}
