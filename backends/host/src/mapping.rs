//! Shared memory mapped into this process.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use gpu_interop_core::{Error, ErrorKind, Result};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

/// An `mmap` of a range of a descriptor, unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    /// Length of the whole mapping, bytes; it begins `lead` bytes before the wanted range.
    length: usize,
    lead: usize,
}

// SAFETY: a shared mapping is valid from every thread; all access goes through raw pointers.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `size` bytes from `offset`, read and write, shared. Any offset will do.
    pub(crate) fn new(fd: BorrowedFd<'_>, offset: u64, size: u64) -> Result<Self> {
        let page = rustix::param::page_size() as u64;
        let lead = offset % page;
        let describe = |error: Error| error.with_context("offset", offset).with_context("size", size);
        let too_large = || describe(Error::new(ErrorKind::OutOfMemory, "mmap", "the range exceeds the address space"));
        let length = size.checked_add(lead).and_then(|length| usize::try_from(length).ok()).ok_or_else(too_large)?;
        // SAFETY: a fresh shared mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                fd,
                offset - lead,
            )
        };
        match base {
            // `lead` is less than a page.
            Ok(base) => NonNull::new(base.cast::<u8>())
                .map(|base| Self { base, length, lead: usize::try_from(lead).unwrap_or(0) })
                .ok_or_else(too_large),
            Err(errno) => {
                let kind = match errno {
                    rustix::io::Errno::NOMEM => ErrorKind::OutOfMemory,
                    _ => ErrorKind::System,
                };
                let error = Error::new(kind, "mmap", "the kernel does not map the memory")
                    .with_source(std::io::Error::from(errno));
                Err(describe(error))
            }
        }
    }

    /// The first byte of the wanted range. Its provenance is exposed, so that it may travel as an address.
    pub(crate) fn ptr(&self) -> *mut u8 {
        let ptr = self.base.as_ptr().wrapping_add(self.lead);
        let _ = ptr.expose_provenance();
        ptr
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `new`, of this length, and nothing uses it any more: whoever hands
        // out its addresses keeps it until their last use.
        if let Err(errno) = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.length) } {
            tracing::error!(%errno, "munmap failed");
        }
    }
}

/// A nameless shared memory file of `size` bytes that can neither shrink nor grow.
pub(crate) fn sealed_memfd(name: &str, size: u64) -> Result<OwnedFd> {
    let failed = |operation: &'static str| {
        move |errno: rustix::io::Errno| {
            let kind = match errno {
                rustix::io::Errno::NOMEM | rustix::io::Errno::NOSPC | rustix::io::Errno::FBIG => ErrorKind::OutOfMemory,
                _ => ErrorKind::System,
            };
            Error::new(kind, operation, "cannot make shared memory")
                .with_context("size", size)
                .with_source(std::io::Error::from(errno))
        }
    };
    let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .map_err(failed("memfd_create"))?;
    rustix::fs::ftruncate(&fd, size).map_err(failed("ftruncate"))?;
    rustix::fs::fcntl_add_seals(fd.as_fd(), SealFlags::SHRINK | SealFlags::GROW)
        .map_err(failed("fcntl(F_ADD_SEALS)"))?;
    Ok(fd)
}
