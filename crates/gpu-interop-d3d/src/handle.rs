//! Handles that Direct3D gives out, and what its answers mean.

use std::any::Any;
use std::os::windows::io::{BorrowedHandle, FromRawHandle, OwnedHandle};
use std::sync::Arc;

use gpu_interop_core::handle::{NtHandle, ObjectName};
use gpu_interop_core::{Error, ErrorKind, Result};
use windows::Win32::Foundation::HANDLE;
use windows::core::PCWSTR;

use crate::hresult;

/// `MAX_PATH`, which the names of shared objects are limited to.
const LONGEST_NAME: usize = 260;

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
    let handle = given(operation, answer)?;
    // SAFETY: the caller promises that it is new, so it is open, and this is its only owner.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle.0) }.into())
}

/// A request with a name, which the object has as long as `handle` or another handle of it is open: the request keeps a
/// duplicate. `keeping` is that of the request.
pub(crate) fn keep_handle<R>(
    handle: &NtHandle,
    request: R,
    keeping: impl FnOnce(R, Arc<dyn Any + Send + Sync>) -> R,
) -> Result<R> {
    // SAFETY: the handle is open, and outlives the borrow.
    let open = unsafe { BorrowedHandle::borrow_raw(handle.as_raw()) };
    let duplicate = open.try_clone_to_owned().map_err(|error| {
        Error::new(ErrorKind::System, "DuplicateHandle", "cannot duplicate the exported handle").with_source(error)
    })?;
    Ok(keeping(request, Arc::new(duplicate)))
}

/// The handle of whatever sort that a method answered.
pub(crate) fn given(operation: &'static str, answer: windows::core::Result<HANDLE>) -> Result<HANDLE> {
    let handle = answer.checked(operation)?;
    if handle.is_invalid() {
        return Err(Error::new(ErrorKind::Driver, operation, "the call succeeded, but gave no handle"));
    }
    Ok(handle)
}

/// The handle as Direct3D takes it, valid as long as `handle`.
pub(crate) fn lent(handle: &NtHandle) -> HANDLE {
    HANDLE(handle.as_raw())
}

/// Runs a call with a name as Direct3D takes it, which ends with NUL and is valid during the call, or with none. Refuses
/// a name that is too long; what goes wrong tells the name.
pub(crate) fn with_name<T>(
    operation: &'static str,
    name: Option<&ObjectName>,
    call: impl FnOnce(PCWSTR) -> Result<T>,
) -> Result<T> {
    let Some(name) = name else { return call(PCWSTR::null()) };
    // The NUL is no part of the name.
    let length = name.as_utf16().len() - 1;
    let result = if length > LONGEST_NAME {
        let message = format!("Direct3D's names have at most {LONGEST_NAME} UTF-16 code units; choose a shorter one");
        Err(Error::invalid(operation, message).with_context("length", length))
    } else {
        call(PCWSTR(name.as_utf16().as_ptr()))
    };
    result.map_err(|error| error.with_context("name", format_args!("{name:?}")))
}
