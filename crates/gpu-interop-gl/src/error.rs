//! The one place where an error of `glGetError` becomes an [`Error`].

use std::ffi::c_uint;

use gpu_interop_core::{Error, ErrorKind};

use crate::sys;

/// What an error that a call left behind means, whichever call it was.
pub(crate) fn driver(operation: &'static str, code: c_uint) -> Error {
    let (kind, message) = match code {
        sys::OUT_OF_MEMORY => (ErrorKind::OutOfMemory, "the driver ran out of memory"),
        sys::CONTEXT_LOST => (ErrorKind::Driver, "the context is lost: an earlier command crashed or ran too long"),
        _ => (ErrorKind::Driver, "the driver reported a failure"),
    };
    coded(kind, operation, message, code)
}

/// What an error of an import means: the request was found well-formed before, so most are a refusal of the handle.
pub(crate) fn import(operation: &'static str, code: c_uint) -> Error {
    match code {
        sys::INVALID_ENUM | sys::INVALID_VALUE | sys::INVALID_OPERATION => coded(
            ErrorKind::ImportRejected,
            operation,
            "the request is well-formed, but the driver does not take this handle",
            code,
        ),
        other => driver(operation, other),
    }
}

/// What an error means that came when storage was made of imported memory. `GL_INVALID_OPERATION` is how a driver tells
/// that it had taken the handle without an error and has no memory behind it.
pub(crate) fn storage(operation: &'static str, code: c_uint) -> Error {
    match code {
        sys::OUT_OF_MEMORY => coded(
            ErrorKind::OutOfMemory,
            operation,
            "the driver ran out of memory, or wants more of it behind the object's end than was exported (Mesa's llvmpipe \
             does for buffers)",
            code,
        ),
        sys::INVALID_OPERATION => coded(
            ErrorKind::ImportRejected,
            operation,
            "the driver has no memory behind the imported handle, or makes no such object of it",
            code,
        ),
        sys::INVALID_ENUM => {
            coded(ErrorKind::Unsupported, operation, "the driver has no such object in imported memory", code)
        }
        sys::INVALID_VALUE => coded(
            ErrorKind::Unsupported,
            operation,
            "the driver makes no object of this size at this offset of the memory; pass what its exporter said",
            code,
        ),
        other => driver(operation, other),
    }
}

fn coded(kind: ErrorKind, operation: &'static str, message: &'static str, code: c_uint) -> Error {
    Error::new(kind, operation, message).with_code(code.into(), name(code).map(Into::into))
}

/// The code as the header spells it.
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
    fn codes_get_the_kind_that_says_what_to_do() {
        for of in [driver, import, storage] {
            assert_eq!(of("op", sys::OUT_OF_MEMORY).kind(), ErrorKind::OutOfMemory);
            assert_eq!(of("op", sys::CONTEXT_LOST).kind(), ErrorKind::Driver);
            assert_eq!(of("op", 0x1234).kind(), ErrorKind::Driver);
        }
        assert_eq!(import("op", sys::INVALID_VALUE).kind(), ErrorKind::ImportRejected);
        assert_eq!(driver("op", sys::INVALID_VALUE).kind(), ErrorKind::Driver);
        assert_eq!(storage("op", sys::INVALID_OPERATION).kind(), ErrorKind::ImportRejected);
        assert_eq!(storage("op", sys::INVALID_ENUM).kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn the_number_and_name_survive() {
        let code = |error: Error| error.code().cloned().map(|code| (code.value, code.name));
        assert_eq!(code(driver("op", 0x0502)), Some((0x0502, Some("GL_INVALID_OPERATION".into()))));
        assert_eq!(code(import("op", 0x9999)), Some((0x9999, None)));
    }
}
