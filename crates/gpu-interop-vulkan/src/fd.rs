//! File descriptors that come from a driver.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use gpu_interop_core::{Error, ErrorKind, Result};
use rustix::io::FdFlags;

/// Takes over a descriptor that a driver exported, and makes it close on exec, which not every driver does.
///
/// # Safety
/// `fd` must come from a successful `vkGetMemoryFdKHR` or `vkGetSemaphoreFdKHR`, and nothing else may own it.
pub(crate) unsafe fn exported(operation: &'static str, fd: RawFd) -> Result<OwnedFd> {
    if fd < 0 {
        return Err(Error::new(ErrorKind::Driver, operation, "the driver reported success but gave no descriptor")
            .with_context("fd", fd));
    }
    // SAFETY: the driver made it, and the caller promises that nothing else owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    rustix::io::fcntl_setfd(&fd, FdFlags::CLOEXEC).map_err(|errno| {
        Error::new(ErrorKind::System, "fcntl(F_SETFD)", "the exported descriptor cannot be made close-on-exec")
            .with_source(std::io::Error::from(errno))
    })?;
    Ok(fd)
}
