//! File descriptors that callers pass as numbers.

use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// The descriptor; `None` if the number is not open.
#[must_use]
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
