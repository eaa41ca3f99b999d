//! Handles that Direct3D gives out, and what its answers mean.

use std::os::windows::io::{FromRawHandle, OwnedHandle};

use gpu_interop_core::handle::{NtHandle, ObjectName};
use gpu_interop_core::{Error, ErrorKind, Result};
use windows::Win32::Foundation::HANDLE;
use windows::core::PCWSTR;

use crate::hresult;

/// Translates the error side of a result of the `windows` crate.
pub(crate) trait Checked<T> {
    /// Names the method that gave the result.
    fn checked(self, operation: &'static str) -> Result<T>;
}

impl<T> Checked<T> for windows::core::Result<T> {
    fn checked(self, operation: &'static str) -> Result<T> {
        self.map_err(|error| hresult::driver(operation, error.code().0))
    }
}

/// An object that a method wrote to its last argument.
pub(crate) fn created<T>(operation: &'static str, answer: windows::core::Result<()>, object: Option<T>) -> Result<T> {
    answer.checked(operation)?;
    object.ok_or_else(|| Error::new(ErrorKind::Driver, operation, "the call succeeded, but created nothing"))
}

/// The NT handle that a method created for its caller.
///
/// # Safety
/// A handle in `answer` must be new: nothing else closes it.
pub(crate) unsafe fn exported(operation: &'static str, answer: windows::core::Result<HANDLE>) -> Result<NtHandle> {
    let handle = answer.checked(operation)?;
    if handle.is_invalid() {
        return Err(Error::new(ErrorKind::Driver, operation, "the call succeeded, but gave no handle"));
    }
    // SAFETY: the caller promises that it is new, so it is open, and this is its only owner.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle.0) }.into())
}

/// The handle as Direct3D takes it, valid as long as `handle`.
pub(crate) fn lent(handle: &NtHandle) -> HANDLE {
    HANDLE(handle.as_raw())
}

/// The name as Direct3D takes it, or none; valid as long as `name`.
pub(crate) fn wide(name: Option<&ObjectName>) -> PCWSTR {
    name.map_or(PCWSTR::null(), |name| PCWSTR(name.as_utf16().as_ptr()))
}
