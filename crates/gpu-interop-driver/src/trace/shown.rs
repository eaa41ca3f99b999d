//! Formatting of arguments in a trace.

use std::any::TypeId;
use std::ffi::c_int;
use std::fmt::{self, Formatter};

use gpu_interop_core::backend::HostFunction;

use crate::abi::{
    Handle, MemoryBufferDesc, MemoryHandleDesc, SemaphoreHandleDesc, SemaphoreSignalParams, SemaphoreWaitParams,
};

/// Argument of a driver's function.
pub trait Shown {
    /// Formats the argument.
    ///
    /// # Errors
    /// Errors of the formatter.
    ///
    /// # Safety
    /// A pointer to a descriptor, parameters or handles is null or valid for reads of one.
    unsafe fn argument(&self, f: &mut Formatter<'_>) -> fmt::Result;

    /// Returns the number that a call wrote through this argument, if it points to one.
    ///
    /// # Safety
    /// The pointer is null or valid for reads.
    unsafe fn made(&self) -> Option<u64> {
        None
    }
}

/// Formats up to 32 bits (sizes, ordinals, flags) in decimal, more (handles, addresses) in hexadecimal.
pub(super) fn number(number: u64, f: &mut Formatter<'_>) -> fmt::Result {
    if number <= u64::from(u32::MAX) { write!(f, "{number}") } else { write!(f, "{number:#x}") }
}

macro_rules! numbers {
    ($($number:ty),*) => { $(
        impl Shown for $number {
            unsafe fn argument(&self, f: &mut Formatter<'_>) -> fmt::Result {
                number(u64::from(*self), f)
            }
        }
    )* };
}

numbers!(u8, u32, u64);

impl Shown for usize {
    unsafe fn argument(&self, f: &mut Formatter<'_>) -> fmt::Result {
        number(*self as u64, f)
    }
}

impl Shown for i64 {
    unsafe fn argument(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Shown for c_int {
    unsafe fn argument(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Shown for HostFunction {
    unsafe fn argument(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{self:p}")
    }
}

/// Reads the target of a pointer if it is a `T` and the pointer is not null.
///
/// # Safety
/// A pointer to a `T` is null or valid for reads of one.
unsafe fn at<P: 'static, T: Copy + 'static>(pointer: *const P) -> Option<T> {
    if TypeId::of::<P>() != TypeId::of::<T>() || pointer.is_null() {
        return None;
    }
    // SAFETY: the pointer is not null and points to a `T`, so it is valid by the caller's promise.
    Some(unsafe { pointer.cast::<T>().read() })
}

fn address<T>(pointer: *const T, f: &mut Formatter<'_>) -> fmt::Result {
    if pointer.is_null() { f.write_str("null") } else { write!(f, "{pointer:p}") }
}

impl<T: 'static> Shown for *mut T {
    unsafe fn argument(&self, f: &mut Formatter<'_>) -> fmt::Result {
        address(*self, f)
    }

    unsafe fn made(&self) -> Option<u64> {
        let pointer = self.cast_const();
        // SAFETY: the caller's promise, for each of the three.
        let (size, word, int) = unsafe { (at::<T, usize>(pointer), at::<T, u64>(pointer), at::<T, c_int>(pointer)) };
        size.map(|size| size as u64).or(word).or(int.map(|int| u64::from(int.cast_unsigned())))
    }
}

impl<T: 'static> Shown for *const T {
    unsafe fn argument(&self, f: &mut Formatter<'_>) -> fmt::Result {
        /// Displays the file descriptor in a handle, for kinds that have one.
        struct Fd(u32, Handle);
        impl fmt::Display for Fd {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                match self.0 {
                    // SAFETY: 1 and 9 are file descriptors in both numberings, of memory and of semaphores.
                    1 | 9 => write!(f, ", fd {}", unsafe { self.1.fd }),
                    _ => Ok(()),
                }
            }
        }
        // SAFETY: the caller's promise, here and below.
        if let Some(desc) = unsafe { at::<T, MemoryHandleDesc>(*self) } {
            let MemoryHandleDesc { kind, handle, size, flags, .. } = desc;
            return write!(f, "{{type {kind}{}, size {size}, flags {flags}}}", Fd(kind, handle));
        }
        // SAFETY: as above.
        if let Some(MemoryBufferDesc { offset, size, flags, .. }) = unsafe { at(*self) } {
            return write!(f, "{{offset {offset}, size {size}, flags {flags}}}");
        }
        // SAFETY: as above.
        if let Some(SemaphoreHandleDesc { kind, handle, flags, .. }) = unsafe { at(*self) } {
            return write!(f, "{{type {kind}{}, flags {flags}}}", Fd(kind, handle));
        }
        // Batches: the first element. The length is a separate argument.
        // SAFETY: as above.
        if let Some(SemaphoreSignalParams { fence_value, key, flags, .. }) = unsafe { at(*self) } {
            return write!(f, "[{{value {fence_value}, key {key}, flags {flags}}}, ..]");
        }
        // SAFETY: as above.
        if let Some(SemaphoreWaitParams { fence_value, key, timeout_ms, flags, .. }) = unsafe { at(*self) } {
            return write!(f, "[{{value {fence_value}, key {key}, timeout {timeout_ms} ms, flags {flags}}}, ..]");
        }
        // SAFETY: as above.
        if let Some(handle) = unsafe { at::<T, usize>(*self) } {
            return write!(f, "[{handle:#x}, ..]");
        }
        address(*self, f)
    }
}
