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

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use gpu_interop::ErrorKind;

    use super::*;

    const CALL: &str = "gpi_call";

    /// Checks that a pointer is refused, with the name of its argument and the reason.
    fn refused<T>(result: Result<T>, reason: &str) {
        let Err(error) = result else { panic!("accepted instead of: {reason}") };
        assert_eq!((error.kind(), error.operation()), (ErrorKind::InvalidArgument, CALL));
        let text = error.to_string();
        assert!(text.contains(reason) && text.contains("argument: values"), "{text}");
    }

    #[test]
    fn null_and_misaligned_pointers_are_refused() {
        let mut values = [7_u32, 8];
        let odd = values.as_mut_ptr().cast::<u8>().wrapping_add(1).cast::<u32>();
        for (pointer, reason) in [(std::ptr::null_mut(), "is null"), (odd, "is not aligned")] {
            // SAFETY: null or misaligned, which is refused before the pointer is used.
            unsafe {
                refused(Out::new(CALL, "values", pointer), reason);
                refused(read(CALL, "values", pointer), reason);
                refused(array(CALL, "values", pointer, 1), reason);
            }
        }
        // SAFETY: null is refused.
        unsafe {
            refused(bytes_mut(CALL, "values", std::ptr::null_mut(), 1), "is null");
            refused(utf8(CALL, "values", std::ptr::null()), "is null");
        }
    }

    /// A length that was computed as a negative number, and the first one that no memory has.
    #[test]
    fn counts_that_no_memory_has_are_refused() {
        let mut values = [0_u64; 2];
        let longest = isize::MAX.unsigned_abs();
        let reason = "exceeds the address space";
        // SAFETY: the counts are refused before the pointers are used.
        unsafe {
            for count in [usize::MAX, longest / 8 + 1] {
                refused(array(CALL, "values", values.as_ptr(), count), reason);
                refused(array::<u64>(CALL, "values", std::ptr::null(), count), reason);
            }
            for count in [usize::MAX, longest + 1] {
                refused(bytes_mut(CALL, "values", values.as_mut_ptr().cast(), count), reason);
            }
        }
        assert!(
            check_count::<u64>(CALL, "values", longest / 8).is_ok() && check_count::<u8>(CALL, "", longest).is_ok()
        );
    }

    #[test]
    fn the_whole_range_is_borrowed() {
        let mut values = [1_u8, 2, 3];
        // SAFETY: the pointers are null with a count of 0, or those of `values` and a text.
        unsafe {
            assert!(array::<u64>(CALL, "values", std::ptr::null(), 0).is_ok_and(<[_]>::is_empty));
            assert!(bytes_mut(CALL, "values", std::ptr::null_mut(), 0).is_ok_and(|bytes| bytes.is_empty()));
            assert_eq!(array(CALL, "values", values.as_ptr(), 3).ok(), Some(&[1, 2, 3][..]));
            bytes_mut(CALL, "values", values.as_mut_ptr(), 2).expect("bytes").fill(9);
            assert_eq!(values, [9, 9, 3]);
            Out::new(CALL, "values", &raw mut values[2]).expect("aligned").set(5);
            assert_eq!(read(CALL, "values", &raw const values[2]).ok(), Some(5));
            let name: &CStr = c"f\xc3\xbcr";
            assert_eq!(utf8(CALL, "values", name.as_ptr()).ok(), Some("für"));
            refused(utf8(CALL, "values", c"\xff".as_ptr()), "is not UTF-8");
        }
    }
}
