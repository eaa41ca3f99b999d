//! Shared by the simulators and the shim: libraries with a vendor's C interface that are not that vendor's driver.
//!
//! A simulator's functions are written with [`entries!`], which exports, counts and fails them. Whatever does the work
//! behind them, what the environment asks for ([`settings`]) is done here, and so is what HIP's runtime decides by itself
//! ([`hip`]).
//!
//! Whatever links this crate says what it is: it exports [`mark::gpu_interop_simulated`].
//!
//! Linux and Windows only.
#![cfg(any(target_os = "linux", windows))]

pub mod code;
#[cfg(target_os = "linux")]
pub mod descriptor;
pub mod faults;
pub mod hip;
pub mod lost;
pub mod mark;
pub mod nvsci;
pub mod objects;
pub mod report;
pub mod settings;

mod entry;

use std::ffi::{c_char, c_int};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, whatever happened to others that did: nothing under the locks of a simulator can be left half-done by a panic.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes a result.
///
/// # Errors
/// [`code::INVALID_VALUE`] if there is nowhere to write it to.
///
/// # Safety
/// `target` is NULL or valid.
pub unsafe fn give<T>(target: *mut T, value: T) -> Result<(), u32> {
    code::reject_if(target.is_null())?;
    // SAFETY: the caller's promise.
    unsafe { target.write(value) };
    Ok(())
}

/// An address or a handle as what it is everywhere in here.
pub fn address(address: u64) -> usize {
    usize::try_from(address).unwrap_or(usize::MAX)
}

/// Copies text and a NUL to a buffer of `length` bytes, cut if it is too long. `false` if there is no room at all.
///
/// # Safety
/// The buffer is as long.
pub unsafe fn write_text(target: *mut c_char, length: c_int, text: &str) -> bool {
    let Some(room) = usize::try_from(length).ok().and_then(|length| length.checked_sub(1)) else { return false };
    let bytes = &text.as_bytes()[..text.len().min(room)];
    // SAFETY: the caller's promise; there is room for the NUL.
    unsafe {
        target.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        target.cast::<u8>().add(bytes.len()).write(0);
    }
    true
}
