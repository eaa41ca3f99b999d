//! Handles returned by Direct3D, and conversion of its results.

use std::any::Any;
use std::os::windows::io::{BorrowedHandle, FromRawHandle, OwnedHandle};
use std::sync::Arc;

use gpu_interop_core::handle::{NtHandle, ObjectName};
use gpu_interop_core::{Error, ErrorKind, Result};
use windows::Win32::Foundation::HANDLE;
use windows::core::PCWSTR;

use crate::hresult;

/// `MAX_PATH`, the longest name of a shared object, UTF-16 code units.
const MAX_NAME: usize = 260;

/// Converts the error of a result of the `windows` crate.
pub(crate) trait Checked<T> {
    /// Adds the name of the method that returned the result.
    fn checked(self, operation: &'static str) -> Result<T>;
}

impl<T> Checked<T> for windows::core::Result<T> {
    fn checked(self, operation: &'static str) -> Result<T> {
        self.map_err(|error| hresult::driver(operation, error.code().0))
    }
}

/// Returns the object that a method wrote to its last argument.
pub(crate) fn created<T>(operation: &'static str, result: windows::core::Result<()>, object: Option<T>) -> Result<T> {
    result.checked(operation)?;
    object.ok_or_else(|| Error::new(ErrorKind::Driver, operation, "the call succeeded but returned no object"))
}

/// Takes ownership of the NT handle that a method created.
///
/// # Safety
/// A handle in `result` must be new: nothing else closes it.
pub(crate) unsafe fn exported(operation: &'static str, result: windows::core::Result<HANDLE>) -> Result<NtHandle> {
    let handle = given(operation, result)?;
    // SAFETY: the caller guarantees that the handle is new, so it is open and has no other owner.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle.0) }.into())
}

/// Adds a duplicate of `handle` to a request by name, because the name is valid only while a handle to the object is
/// open. `keeping` is the request's method.
pub(crate) fn keep_handle<R>(
    handle: &NtHandle,
    request: R,
    keeping: impl FnOnce(R, Arc<dyn Any + Send + Sync>) -> R,
) -> Result<R> {
    // SAFETY: the handle is open and outlives the borrow.
    let open = unsafe { BorrowedHandle::borrow_raw(handle.as_raw()) };
    let duplicate = open.try_clone_to_owned().map_err(|error| {
        Error::new(ErrorKind::System, "DuplicateHandle", "cannot duplicate the exported handle").with_source(error)
    })?;
    Ok(keeping(request, Arc::new(duplicate)))
}

/// Returns the handle of any kind that a method returned.
pub(crate) fn given(operation: &'static str, result: windows::core::Result<HANDLE>) -> Result<HANDLE> {
    let handle = result.checked(operation)?;
    if handle.is_invalid() {
        return Err(Error::new(ErrorKind::Driver, operation, "the call succeeded but returned no handle"));
    }
    Ok(handle)
}

/// Borrows the handle as a `HANDLE`, valid as long as `handle`.
pub(crate) fn lent(handle: &NtHandle) -> HANDLE {
    HANDLE(handle.as_raw())
}

/// Calls a function with a NUL-terminated name that is valid during the call, or with a null pointer. Rejects a name
/// that is too long; errors contain the name.
pub(crate) fn with_name<T>(
    operation: &'static str,
    name: Option<&ObjectName>,
    call: impl FnOnce(PCWSTR) -> Result<T>,
) -> Result<T> {
    let Some(name) = name else { return call(PCWSTR::null()) };
    // Without the terminating NUL.
    let length = name.as_utf16().len() - 1;
    let result = if length > MAX_NAME {
        let message = format!("Direct3D names have at most {MAX_NAME} UTF-16 code units; use a shorter one");
        Err(Error::invalid(operation, message).with_context("length", length))
    } else {
        call(PCWSTR(name.as_utf16().as_ptr()))
    };
    result.map_err(|error| error.with_context("name", format_args!("{name:?}")))
}
