//! The last failure of each thread.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};

use gpu_interop::Error;

use crate::names;
use crate::status::{GPI_ERROR_INTERNAL, GPI_SUCCESS, gpi_status, of_kind};

/// Failure in C's types.
struct LastError {
    status: gpi_status,
    message: CString,
    reason: CString,
    operation: CString,
    code: Option<i64>,
    code_name: CString,
}

thread_local! {
    static LAST: RefCell<Option<LastError>> = const { RefCell::new(None) };
}

/// Converts a text; a NUL inside it becomes a replacement character.
fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}

/// Stores a failure of the exported function `function` for the calling thread. Returns its status.
pub(crate) fn store(function: &'static str, error: &Error) -> gpi_status {
    let code = error.code();
    let operation = names::operation(error.operation(), function);
    // `Debug` has the sources below.
    let message = format!("{error:?}");
    let rest = message.strip_prefix(error.operation()).unwrap_or(&message);
    set(LastError {
        status: of_kind(error.kind()),
        message: c_text(&format!("{operation}{}", names::in_c(rest))),
        reason: c_text(&names::in_c(error.message())),
        operation: c_text(&operation),
        code: code.map(|code| code.value),
        code_name: c_text(code.and_then(|code| code.name.as_deref()).unwrap_or_default()),
    })
}

/// Stores a panic of this library.
pub(crate) fn store_panic(operation: &str, message: &str) -> gpi_status {
    let text = format!("{operation}: internal error: the library panicked: {message}; report this defect");
    set(LastError {
        status: GPI_ERROR_INTERNAL,
        message: c_text(&text),
        reason: c_text(message),
        operation: c_text(operation),
        code: None,
        code_name: CString::default(),
    })
}

fn set(error: LastError) -> gpi_status {
    let status = error.status;
    // While a thread ends it has no last error any more.
    let _ = LAST.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            *last = Some(error);
        }
    });
    status
}

fn with<R>(default: R, read: impl FnOnce(&LastError) -> R) -> R {
    let found = LAST.try_with(|last| last.try_borrow().ok().and_then(|last| last.as_ref().map(read)));
    found.ok().flatten().unwrap_or(default)
}

fn text(read: impl FnOnce(&LastError) -> &CStr) -> *const c_char {
    with(c"".as_ptr(), |last| read(last).as_ptr())
}

/// Returns the status of the calling thread's last failed function; `GPI_SUCCESS` if none has failed. Successful functions
/// do not change it.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_last_error_status() -> gpi_status {
    with(GPI_SUCCESS, |last| last.status)
}

/// Returns the full message of the calling thread's last failure: the operation, the driver's code, the values involved,
/// the next step, and the causes on further lines. UTF-8; empty if no function has failed.
///
/// The text belongs to the library and is valid until the next failure on this thread, or the thread's end.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_last_error_message() -> *const c_char {
    text(|last| &last.message)
}

/// Returns the sentence of `gpi_last_error_message` without operation, code and values. Valid as long as that.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_last_error_reason() -> *const c_char {
    text(|last| &last.reason)
}

/// Returns the function that failed: the driver's function where one was called (`cuImportExternalMemory`), else one of this
/// library. Valid as long as the result of `gpi_last_error_message`.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_last_error_operation() -> *const c_char {
    text(|last| &last.operation)
}

/// Returns 1 and writes the driver's code of the calling thread's last failure to `*code`; returns 0, and writes nothing,
/// if the failure has none. `code` may be null.
///
/// # Safety
/// `code` is null, or points to an `int64_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_last_error_driver_code(code: *mut i64) -> i32 {
    let Some(value) = with(None, |last| last.code) else { return 0 };
    if !code.is_null() {
        // SAFETY: the caller's promise; the write needs no alignment.
        unsafe { code.write_unaligned(value) };
    }
    1
}

/// Returns the driver's name of that code (`CUDA_ERROR_INVALID_VALUE`); empty if it has none. Valid as long as the result of
/// `gpi_last_error_message`.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_last_error_driver_code_name() -> *const c_char {
    text(|last| &last.code_name)
}
