//! The implicit fences of a dma-buf.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use gpu_interop_core::handle::{FdKind, classify_fd};
use gpu_interop_core::{Error, ErrorKind, Result};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, Updater, ioctl, opcode};

/// An access to a dma-buf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DmaBufAccess {
    /// Reads (`DMA_BUF_SYNC_READ`). They wait for earlier writes.
    Read,
    /// Writes (`DMA_BUF_SYNC_WRITE`). They wait for all earlier accesses.
    Write,
}

impl DmaBufAccess {
    fn flags(self) -> u32 {
        match self {
            Self::Read => 1,
            Self::Write => 2,
        }
    }
}

/// `dma_buf_export_sync_file` and `dma_buf_import_sync_file` of `linux/dma-buf.h`.
#[repr(C)]
struct SyncFile {
    flags: u32,
    fd: RawFd,
}

const EXPORT: Opcode = opcode::read_write::<SyncFile>(b'b', 2);
const IMPORT: Opcode = opcode::write::<SyncFile>(b'b', 3);

/// The fence of a dma-buf that an access must wait for, as a new sync file that the caller owns. It has the accesses that were
/// submitted so far, and is signalled if there are none. Calls `DMA_BUF_IOCTL_EXPORT_SYNC_FILE`.
///
/// A producer with implicit synchronisation, such as OpenGL or a compositor, adds fences to its buffers when it submits. Take
/// the fence after it has passed the buffer, and pass it to
/// [`ImportedSemaphore::from_sync_file`](crate::ImportedSemaphore::from_sync_file).
///
/// # Errors
/// * [`ErrorKind::InvalidArgument`]: the descriptor is closed or is not a dma-buf.
/// * [`ErrorKind::Unsupported`]: the kernel is older than Linux 6.0. Wait with `poll` on the dma-buf instead: for `POLLIN`
///   before reads, for `POLLOUT` before writes. Also for a memfd of a driver on the CPU, which has no fences: `poll` on it
///   does not wait, so the producer must say when it has finished.
/// * [`ErrorKind::System`]: the process is out of descriptors, or the kernel out of memory.
pub fn dma_buf_fence(dma_buf: impl AsFd, access: DmaBufAccess) -> Result<OwnedFd> {
    // SAFETY: the opcode is of this structure, which the kernel reads and writes; the descriptor is a dma-buf or memory. A
    // successful call makes a descriptor that nothing else owns.
    unsafe { export(dma_buf.as_fd(), access, |dma_buf, file| ioctl(dma_buf, Updater::<EXPORT, SyncFile>::new(file))) }
}

/// # Safety
/// A successful `call` makes a sync file, or leaves a negative descriptor.
unsafe fn export(
    dma_buf: BorrowedFd<'_>,
    access: DmaBufAccess,
    call: impl FnOnce(BorrowedFd<'_>, &mut SyncFile) -> rustix::io::Result<()>,
) -> Result<OwnedFd> {
    const OPERATION: &str = "DMA_BUF_IOCTL_EXPORT_SYNC_FILE";
    check(OPERATION, dma_buf)?;
    let mut file = SyncFile { flags: access.flags(), fd: -1 };
    call(dma_buf, &mut file).map_err(|errno| failed(OPERATION, errno, dma_buf))?;
    if file.fd < 0 {
        return Err(Error::new(ErrorKind::System, OPERATION, "the kernel returned no sync file; report it"));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { OwnedFd::from_raw_fd(file.fd) })
}

/// Adds the fence of a sync file to a dma-buf, as one of this access. Later accesses of others wait for it: writes for each
/// fence, reads for those of writes. The kernel keeps the fence; the sync file stays the caller's. Calls
/// `DMA_BUF_IOCTL_IMPORT_SYNC_FILE`.
///
/// Pass the sync file of [`SyncFileSemaphore::export`](crate::SyncFileSemaphore::export) after the commands on a picture were
/// submitted, and before the buffer goes back to its producer.
///
/// # Errors
/// As [`dma_buf_fence`], and [`ErrorKind::InvalidArgument`] for a descriptor that is not a sync file. On a kernel older than
/// Linux 6.0, wait for the commands before the buffer goes back.
pub fn set_dma_buf_fence(dma_buf: impl AsFd, access: DmaBufAccess, sync_file: impl AsFd) -> Result<()> {
    const OPERATION: &str = "DMA_BUF_IOCTL_IMPORT_SYNC_FILE";
    let dma_buf = dma_buf.as_fd();
    check(OPERATION, dma_buf)?;
    let file = SyncFile { flags: access.flags(), fd: sync_file.as_fd().as_raw_fd() };
    // SAFETY: the opcode is of this structure, which the kernel reads; the descriptor is a dma-buf or memory.
    unsafe { ioctl(dma_buf, Setter::<IMPORT, SyncFile>::new(file)) }.map_err(|errno| failed(OPERATION, errno, dma_buf))
}

/// Other files have other meanings of the numbers of the calls. Drivers that run on the CPU export memory as dma-bufs.
fn check(operation: &'static str, fd: BorrowedFd<'_>) -> Result<()> {
    match classify_fd(fd) {
        FdKind::DmaBuf | FdKind::Memory => Ok(()),
        kind => Err(Error::invalid(operation, format!("the descriptor is {kind}, not a dma-buf"))
            .with_context("fd", fd.as_raw_fd())),
    }
}

fn failed(operation: &'static str, errno: Errno, fd: BorrowedFd<'_>) -> Error {
    let (kind, message) = match errno {
        Errno::NOTTY if classify_fd(fd) == FdKind::Memory => (
            ErrorKind::Unsupported,
            "memory of a driver on the CPU has no fences, and poll on it does not wait; have the producer say when it has \
             finished, and wait for own commands before the buffer goes back",
        ),
        Errno::NOTTY => (
            ErrorKind::Unsupported,
            "the dma-buf has no fences as sync files, which Linux 6.0 and later have; wait with poll on the dma-buf (POLLIN \
             before reads, POLLOUT before writes), and for own commands before the buffer goes back",
        ),
        Errno::INVAL => (ErrorKind::InvalidArgument, "the descriptor is not a sync file; pass one of a fence"),
        Errno::BADF => (ErrorKind::InvalidArgument, "a descriptor is not open; it may have been closed elsewhere"),
        _ => (ErrorKind::System, "the kernel rejects the fence; see the system's error"),
    };
    Error::new(kind, operation, message).with_context("fd", fd.as_raw_fd()).with_source(std::io::Error::from(errno))
}

#[cfg(test)]
mod tests {
    use rustix::fs::MemfdFlags;

    use super::*;

    #[test]
    fn calls_have_the_numbers_of_the_header() {
        // _IOWR('b', 2, struct dma_buf_export_sync_file) and _IOW('b', 3, struct dma_buf_import_sync_file) on x86 and Arm.
        if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            assert_eq!((EXPORT, IMPORT), (0xc008_6202, 0x4008_6203));
        }
        assert_eq!((size_of::<SyncFile>(), std::mem::offset_of!(SyncFile, fd)), (8, 4));
        assert_eq!([DmaBufAccess::Read, DmaBufAccess::Write].map(DmaBufAccess::flags), [1, 2]);
    }

    #[test]
    fn other_files_are_rejected_by_kind() {
        let (pipe, writer) = rustix::pipe::pipe().expect("a pipe");
        for outcome in
            [dma_buf_fence(&pipe, DmaBufAccess::Read).map(drop), set_dma_buf_fence(&pipe, DmaBufAccess::Write, &writer)]
        {
            let error = outcome.expect_err("a pipe");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.message().contains("a pipe, not a dma-buf"), "{error}");
        }
    }

    #[test]
    fn the_kernel_s_sync_file_is_the_caller_s() {
        let memory = rustix::fs::memfd_create("memory", MemfdFlags::CLOEXEC).expect("memfd");
        let made = rustix::pipe::pipe().expect("a pipe").0;
        let number = made.as_raw_fd();
        let call = |of: BorrowedFd<'_>, file: &mut SyncFile| {
            assert_eq!((of.as_raw_fd(), file.flags, file.fd), (memory.as_raw_fd(), 2, -1));
            file.fd = std::os::fd::IntoRawFd::into_raw_fd(made);
            Ok(())
        };
        // SAFETY: the call makes a descriptor that nothing else owns.
        let exported = unsafe { export(memory.as_fd(), DmaBufAccess::Write, call) }.expect("a sync file");
        assert_eq!((exported.as_raw_fd(), classify_fd(exported.as_fd())), (number, FdKind::Pipe));
        // SAFETY: the call leaves a negative descriptor.
        let error = unsafe { export(memory.as_fd(), DmaBufAccess::Read, |_, _| Ok(())) }.expect_err("no sync file");
        assert_eq!(error.kind(), ErrorKind::System);
    }

    /// As dma-bufs of old kernels, but nothing waits for memory files.
    #[test]
    fn files_without_fences_are_unsupported() {
        let file = rustix::fs::memfd_create("no dma-buf", MemfdFlags::CLOEXEC).expect("memfd");
        for outcome in
            [dma_buf_fence(&file, DmaBufAccess::Write).map(drop), set_dma_buf_fence(&file, DmaBufAccess::Read, &file)]
        {
            let error = outcome.expect_err("no fences");
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            // It polls as ready at once.
            assert!(error.message().contains("poll on it does not wait"), "{error}");
        }
        let old = failed("op", Errno::NOTTY, rustix::pipe::pipe().expect("a pipe").0.as_fd());
        assert_eq!(old.kind(), ErrorKind::Unsupported);
        assert!(old.message().contains("wait with poll"), "{old}");
        let kinds = [Errno::INVAL, Errno::BADF, Errno::NOMEM].map(|errno| failed("op", errno, file.as_fd()).kind());
        assert_eq!(kinds, [ErrorKind::InvalidArgument, ErrorKind::InvalidArgument, ErrorKind::System]);
    }
}
