//! `kcmp(2)`, the one system call that no dependency wraps.

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// `true` if `number` is an open descriptor of the same open file as `fd`; `None` if unknown.
///
/// Uses `kcmp(2)` with `KCMP_FILE`, which containers may forbid.
#[cfg(target_os = "linux")]
pub(crate) fn same_open_file(fd: BorrowedFd<'_>, number: RawFd) -> Option<bool> {
    const KCMP_FILE: libc::c_int = 0;
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    // SAFETY: kcmp takes five integers and touches no memory of this process. A `number` that is not open
    // makes it return -1 with EBADF.
    let result = unsafe { libc::syscall(libc::SYS_kcmp, pid, pid, KCMP_FILE, fd.as_raw_fd(), number) };
    match result {
        0 => Some(true),
        1..=3 => Some(false),
        _ if std::io::Error::last_os_error().raw_os_error() == Some(libc::EBADF) => Some(false),
        _ => None,
    }
}

/// `kcmp` is Linux only.
#[cfg(not(target_os = "linux"))]
pub(crate) fn same_open_file(_fd: BorrowedFd<'_>, _number: RawFd) -> Option<bool> {
    None
}
