//! Conversion of arguments to the types of the drivers' functions.

use std::ffi::c_void;

use gpu_interop_core::{Error, ErrorKind, KernelArg, Result};
use smallvec::SmallVec;

use crate::driver::not_null;

/// Converts a byte or word count to `usize`.
pub(crate) fn count(operation: &'static str, count: u64) -> Result<usize> {
    usize::try_from(count)
        .map_err(|_| Error::invalid(operation, "the size exceeds the address space").with_context("size", count))
}

/// Converts a handle that the driver returned as a 64-bit number.
pub(crate) fn number(operation: &'static str, number: u64) -> Result<usize> {
    usize::try_from(number)
        .map_err(|_| {
            Error::new(ErrorKind::Driver, operation, "the driver returned a handle that exceeds the pointer size")
        })
        .and_then(|number| not_null(operation, number))
}

/// Error for a request whose handle kind the API does not number.
pub(crate) fn no_number(operation: &'static str, api: &str) -> Error {
    Error::unsupported(operation, format!("{api} has no handles of this kind"))
}

/// Collects a pointer to each kernel argument. The driver reads as many bytes there as the kernel declares.
pub(crate) fn kernel_arguments(operation: &'static str, args: &[KernelArg<'_>]) -> Result<SmallVec<[*mut c_void; 16]>> {
    let unresolved = || Error::unsupported(operation, "the driver has no kernel arguments of this type");
    args.iter().map(|arg| Ok(arg.as_ptr().ok_or_else(unresolved)?.cast_mut().cast())).collect()
}
