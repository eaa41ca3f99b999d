//! Common code of the simulators and the shim: libraries with a vendor's C interface that are not that vendor's driver.
//!
//! The functions of a simulator are declared with [`entries!`], which exports, counts and fails them. The settings of
//! the environment ([`settings`]) and the behaviour of HIP's runtime that does not depend on the device ([`hip`]) are
//! implemented here.
//!
//! Every library that links this crate identifies itself as simulated: it exports [`report::gpu_interop_simulated`].
//!
//! Linux and Windows only.

#![doc(html_root_url = "../")]
#![cfg(any(target_os = "linux", windows))]

pub mod code;
pub mod faults;
pub mod hip;
pub mod nvsci;
pub mod objects;
pub mod report;
pub mod settings;

use std::ffi::{CString, c_char, c_int};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, ignoring poison: a panic does not invalidate the data of a simulator's locks.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// File descriptors that callers pass as numbers.
#[cfg(target_os = "linux")]
pub mod descriptor {
    use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

    /// The descriptor; `None` if the number is not open.
    pub fn borrow<'a>(fd: RawFd) -> Option<BorrowedFd<'a>> {
        // SAFETY: the borrow is only queried, and if it is open, the caller of the driver lent it for the call.
        let fd = (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })?;
        rustix::io::fcntl_getfd(fd).is_ok().then_some(fd)
    }

    /// Closes a descriptor whose ownership was transferred.
    ///
    /// # Safety
    /// The previous owner expects the close.
    pub unsafe fn close(fd: RawFd) {
        if borrow(fd).is_some() {
            // SAFETY: open, and the caller's promise.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }
}

/// Writes a result.
///
/// # Errors
/// [`code::INVALID_VALUE`] for a null target.
///
/// # Safety
/// `target` is NULL or valid.
pub unsafe fn give<T>(target: *mut T, value: T) -> Result<(), u32> {
    code::reject_if(target.is_null())?;
    // SAFETY: the caller's promise.
    unsafe { target.write(value) };
    Ok(())
}

/// Converts an address or a handle to the number that simulators use.
pub fn address(address: u64) -> usize {
    usize::try_from(address).unwrap_or(usize::MAX)
}

/// Copies text and a NUL to a buffer of `length` bytes, truncated if it is too long. `false` if the length is 0.
///
/// # Safety
/// The buffer has that length.
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

/// The names of the kernels in PTX.
pub fn kernels_of_ptx(text: &str) -> Vec<CString> {
    let mut words = text.split_whitespace();
    let mut names = Vec::new();
    while words.any(|word| word == ".entry") {
        let name = words.next().and_then(|word| word.split('(').next());
        names.extend(name.and_then(|name| CString::new(name).ok()));
    }
    names
}

#[cfg(test)]
mod tests {
    use gpu_interop_kernels::KERNELS;

    use super::*;

    #[test]
    fn kernels_are_found_by_their_entries() {
        let project: Vec<_> = KERNELS.iter().map(|kernel| kernel.name.to_owned()).collect();
        assert_eq!(kernels_of_ptx(&gpu_interop_kernels::ptx().to_string_lossy()), project);
        let text = ".version 6.0 // .entryless\n.visible .entry\n  one (.param .u64 a) { } .weak .entry two()";
        assert_eq!(kernels_of_ptx(text), [c"one".to_owned(), c"two".to_owned()]);
        assert_eq!(kernels_of_ptx(".entry"), [].map(|()| CString::default()));
    }
}
