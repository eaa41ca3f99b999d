//! Handles lent to the driver for an import.

use std::ffi::c_void;

use gpu_interop_core::handle::Win32Object;
use gpu_interop_core::{Error, Result};

#[cfg(unix)]
use crate::error;
#[cfg(unix)]
use crate::interop::GlInterop;

/// Lends the driver a duplicate, which it owns after a success. Its handling of the duplicate after a failure is
/// unspecified, so the loan checks the descriptor.
#[cfg(unix)]
pub(crate) fn lend(
    interop: &GlInterop,
    operation: &'static str,
    fd: std::os::fd::BorrowedFd<'_>,
    import: impl FnOnce(std::os::fd::RawFd),
) -> Result<()> {
    let loan = gpu_interop_core::handle::LentFd::new(fd)?;
    let outcome = interop.call(operation, error::import, |_| import(loan.as_raw_fd()));
    match outcome {
        Ok(()) => loan.consumed(),
        Err(_) => drop(loan.settle()),
    }
    outcome
}

/// Passes a Windows object to the driver: as a handle, which the caller keeps, or as a name in NUL-terminated UTF-16.
pub(crate) fn lend_win32(
    object: &Win32Object,
    operation: &'static str,
    by_handle: impl FnOnce(*mut c_void) -> Result<()>,
    by_name: impl FnOnce(*const c_void) -> Result<()>,
) -> Result<()> {
    match object {
        Win32Object::Handle(handle) => by_handle(handle.as_raw()),
        Win32Object::Name(name) => by_name(name.as_utf16().as_ptr().cast()),
        _ => Err(Error::unsupported(operation, "this crate imports only handles and names")),
    }
}
