//! `kcmp(2)`, which no dependency wraps, memory that forked processes find cleared, and guarded destructors.

use std::mem::ManuallyDrop;
use std::ops::Deref;
#[cfg(unix)]
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
#[cfg(target_os = "linux")]
use std::sync::atomic::AtomicU32;

use crate::callback::caught;

/// `true` if `number` is an open descriptor of the same open file as `fd`; `None` if unknown. `process` is the number of
/// this process.
///
/// Uses `kcmp(2)` with `KCMP_FILE`, which containers may forbid.
#[cfg(target_os = "linux")]
pub(crate) fn same_open_file(process: u32, fd: BorrowedFd<'_>, number: RawFd) -> Option<bool> {
    const KCMP_FILE: libc::c_int = 0;
    // SAFETY: kcmp takes five integers and touches no memory of this process. A `number` that is not open
    // makes it return -1 with EBADF.
    let result = unsafe { libc::syscall(libc::SYS_kcmp, process, process, KCMP_FILE, fd.as_raw_fd(), number) };
    match result {
        0 => Some(true),
        1..=3 => Some(false),
        _ if std::io::Error::last_os_error().raw_os_error() == Some(libc::EBADF) => Some(false),
        _ => None,
    }
}

/// `kcmp` is Linux only.
#[cfg(all(unix, not(target_os = "linux")))]
pub(crate) fn same_open_file(_process: u32, _fd: BorrowedFd<'_>, _number: RawFd) -> Option<bool> {
    None
}

/// A new word, 0, which is 0 again in each forked process; `None` where the kernel cannot do this (Linux before 4.14). It
/// is never freed.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) fn cleared_by_fork() -> Option<&'static AtomicU32> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    let size = rustix::param::page_size();
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new private mapping at an address that the kernel chooses.
    let page = unsafe { mmap_anonymous(std::ptr::null_mut(), size, access, MapFlags::PRIVATE) }.ok()?;
    // SAFETY: the page was mapped above, and nothing uses it yet.
    if unsafe { madvise(page, size, Advice::LinuxWipeOnFork) }.is_err() {
        // SAFETY: as above. A failure leaves the page mapped.
        let _ = unsafe { munmap(page, size) };
        return None;
    }
    // SAFETY: the page is mapped for reads and writes until the process ends, aligned, zeroed, and used only through
    // this reference.
    Some(unsafe { &*page.cast::<AtomicU32>() })
}

/// A value of the application. A panic of its destructor ends here.
#[derive(Debug)]
pub(crate) struct Guarded<T>(ManuallyDrop<T>);

impl<T> Guarded<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(ManuallyDrop::new(value))
    }
}

impl<T> Deref for Guarded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        // SAFETY: the value is dropped here only, once, and not used afterwards.
        caught(|| unsafe { ManuallyDrop::drop(&mut self.0) });
    }
}
