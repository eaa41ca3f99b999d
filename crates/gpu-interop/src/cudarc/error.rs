//! Errors of cudarc.

use ::cudarc::driver::DriverError;
use gpu_interop_core::{Error, ErrorKind};

/// Converts an error of cudarc.
#[cold]
pub(super) fn error(operation: &'static str, error: DriverError) -> Error {
    let name = format!("{:?}", error.0);
    let kind = match &*name {
        "CUDA_ERROR_OUT_OF_MEMORY" => ErrorKind::OutOfMemory,
        "CUDA_ERROR_NO_DEVICE" => ErrorKind::NoDevice,
        _ => ErrorKind::Driver,
    };
    // The discriminants are the driver's numbers.
    Error::new(kind, operation, "the driver reported a failure to cudarc").with_code(error.0 as i64, Some(name))
}
