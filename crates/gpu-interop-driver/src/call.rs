//! Macros that call a function of the driver and check its status, and conversions to the types of its arguments.

use std::ffi::c_void;

use gpu_interop_core::{Error, ErrorKind, KernelArg, Result};
use smallvec::SmallVec;

use crate::driver::not_null;

/// Calls a function of the driver and checks its status. Expands inside an `unsafe` block of the caller. `|operation|`
/// binds the function's name in errors, which the arguments may use; an argument may return an error with `?`.
macro_rules! call {
    ($driver:ident.$function:ident |$operation:ident| ($($argument:expr),* $(,)?)) => {{
        let entry = &$driver.functions.$function;
        #[allow(unused_variables, reason = "most arguments cannot fail")]
        let $operation = entry.operation;
        entry.require(&$driver.version).and_then(|function| {
            $driver.check(entry.operation, $crate::trace::DriverFunction::traced(function, entry.operation, ($($argument,)*)))
        })
    }};
    ($driver:ident.$function:ident($($argument:expr),* $(,)?)) => {
        $crate::call::call!($driver.$function |operation| ($($argument),*))
    };
}

/// Calls a required function and yields its name in errors and its unchecked status. Expands inside an `unsafe` block.
macro_rules! status {
    ($driver:ident.$function:ident($($argument:expr),*)) => {{
        let entry = &$driver.functions.$function;
        (entry.operation, $crate::trace::DriverFunction::traced(entry.get(), entry.operation, ($($argument,)*)))
    }};
}

pub(crate) use {call, status};

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
