//! Pointers of C callers.

use std::ffi::{CStr, c_char};
use std::ptr::NonNull;

use gpu_interop::{Error, Result};

/// Checks that a pointer is neither null nor misaligned.
fn checked<T>(operation: &'static str, name: &'static str, pointer: *const T) -> Result<NonNull<T>> {
    let problem = match NonNull::new(pointer.cast_mut()) {
        Some(pointer) if pointer.is_aligned() => return Ok(pointer),
        Some(_) => "the pointer is not aligned for its type; pass the address of a variable",
        None => "the pointer is null; pass the address of a variable",
    };
    Err(Error::invalid(operation, problem).with_context("argument", name))
}

/// Result that a function writes on success.
#[derive(Debug)]
pub(crate) struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    /// Checks the pointer.
    ///
    /// # Safety
    /// `pointer` is null, misaligned, or valid for a write until this object has been dropped.
    pub(crate) unsafe fn new(operation: &'static str, name: &'static str, pointer: *mut T) -> Result<Self> {
        checked(operation, name, pointer).map(Self)
    }

    /// Writes the result.
    pub(crate) fn set(self, value: T) {
        // SAFETY: not null and aligned (`new`); valid by its caller's promise.
        unsafe { self.0.write(value) };
    }
}

/// Copies a structure.
///
/// # Safety
/// `pointer` is null, misaligned, or points to a `T` that is fully initialised.
pub(crate) unsafe fn read<T: Copy>(operation: &'static str, name: &'static str, pointer: *const T) -> Result<T> {
    // SAFETY: not null and aligned; the caller's promise.
    checked(operation, name, pointer).map(|pointer| unsafe { pointer.read() })
}

fn check_count<T>(operation: &'static str, name: &'static str, count: usize) -> Result<()> {
    if count <= isize::MAX.unsigned_abs() / size_of::<T>().max(1) {
        return Ok(());
    }
    Err(Error::invalid(operation, "the count exceeds the address space; check for a negative value")
        .with_context("argument", name)
        .with_context("count", count))
}

/// Borrows an array. `pointer` may be null if `count` is 0.
///
/// # Safety
/// `pointer` is null, misaligned, or points to `count` elements that nothing writes during `'a`.
pub(crate) unsafe fn array<'a, T>(
    operation: &'static str,
    name: &'static str,
    pointer: *const T,
    count: usize,
) -> Result<&'a [T]> {
    check_count::<T>(operation, name, count)?;
    if count == 0 {
        return Ok(&[]);
    }
    let pointer = checked(operation, name, pointer)?;
    // SAFETY: not null, aligned, and no longer than the address space; the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(pointer.as_ptr(), count) })
}

/// Borrows host memory for writing. `pointer` may be null if `count` is 0.
///
/// # Safety
/// `pointer` is null, or points to `count` bytes that nothing else uses during `'a`.
pub(crate) unsafe fn bytes_mut<'a>(
    operation: &'static str,
    name: &'static str,
    pointer: *mut u8,
    count: usize,
) -> Result<&'a mut [u8]> {
    check_count::<u8>(operation, name, count)?;
    if count == 0 {
        return Ok(&mut []);
    }
    let pointer = checked(operation, name, pointer)?;
    // SAFETY: not null and no longer than the address space; the caller's promise. Bytes have no invalid values, and the
    // callers of this function only write them.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer.as_ptr(), count) })
}

/// Borrows a text that ends with NUL.
///
/// # Safety
/// `pointer` is null, or points to bytes that end with NUL and that nothing writes during `'a`.
pub(crate) unsafe fn text<'a>(operation: &'static str, name: &'static str, pointer: *const c_char) -> Result<&'a CStr> {
    let pointer = checked(operation, name, pointer)?;
    // SAFETY: not null; the caller's promise.
    Ok(unsafe { CStr::from_ptr(pointer.as_ptr()) })
}

/// As [`text`], as UTF-8.
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn utf8<'a>(operation: &'static str, name: &'static str, pointer: *const c_char) -> Result<&'a str> {
    // SAFETY: the caller's promise.
    unsafe { text(operation, name, pointer) }?
        .to_str()
        .map_err(|_| Error::invalid(operation, "the text is not UTF-8").with_context("argument", name))
}
