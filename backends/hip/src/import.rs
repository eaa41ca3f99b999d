//! Encoding and validation of import requests.

use std::ffi::c_int;
#[cfg(unix)]
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

#[cfg(unix)]
use gpu_interop_core::handle::{FdKind, classify_fd};
use gpu_interop_core::{Error, MemoryHandle, MemoryImport, Result, SemaphoreHandle, SemaphoreHandleKind};
use gpu_interop_driver::abi::{MemoryHandleDesc, SemaphoreHandleDesc};
use gpu_interop_driver::{ApiVersion, Status};

use crate::sys::{MEMORY_OPAQUE_FD, SEMAPHORE_OPAQUE_WIN32};

pub(crate) fn memory(version: ApiVersion, request: &MemoryImport, fd: c_int) -> Option<MemoryHandleDesc> {
    let mut desc = MemoryHandleDesc::new(request, fd)?;
    if matches!(request.handle(), MemoryHandle::DmaBufFd(_)) {
        desc.kind = MEMORY_OPAQUE_FD;
    }
    if !version.is_at_least((5, 5)) {
        // Before HIP 5.5 the flag for dedicated allocations is undefined. It has no effect on dma-bufs.
        desc.flags = 0;
    }
    Some(desc)
}

pub(crate) fn semaphore(handle: &SemaphoreHandle, fd: c_int) -> Option<SemaphoreHandleDesc> {
    let mut desc = SemaphoreHandleDesc::new(handle, fd)?;
    if handle.kind() == SemaphoreHandleKind::TimelineWin32 {
        desc.kind = SEMAPHORE_OPAQUE_WIN32;
    }
    Some(desc)
}

/// Encodes a Direct3D 12 fence as an opaque semaphore after the status "not supported". HIP 6.1 and 6.2 open fences as
/// KMT handles, although they are NT handles (fixed by CLR 9fdddb7c5), and the runtime on ROCr has no fences; both
/// return "not supported". Opaque semaphores are opened as NT handles.
pub(crate) fn other_semaphore(handle: &SemaphoreHandle, fd: c_int, status: Status) -> Option<SemaphoreHandleDesc> {
    if handle.kind() != SemaphoreHandleKind::D3d12Fence || status != Status::NOT_SUPPORTED {
        return None;
    }
    let mut desc = SemaphoreHandleDesc::new(handle, fd)?;
    desc.kind = SEMAPHORE_OPAQUE_WIN32;
    Some(desc)
}

/// Rejects requests that the runtime would accept wrongly: it maps the requested size without checking the memory's
/// size.
#[cfg(unix)]
pub(crate) fn check(operation: &'static str, request: &MemoryImport) -> Result<()> {
    match request.handle() {
        MemoryHandle::OpaqueFd(fd) | MemoryHandle::DmaBufFd(fd) => {
            check_descriptor(operation, fd.as_fd(), request.size())
        }
        _ => Ok(()),
    }
}

/// Rejects sizes beyond any GPU's address space. On Windows neither the runtime checks the size nor can a handle be
/// queried for it, so the caller's size is trusted.
#[cfg(windows)]
pub(crate) fn check(operation: &'static str, request: &MemoryImport) -> Result<()> {
    /// Upper bound of GPU address spaces in bytes.
    const ADDRESSABLE: u64 = 1 << 57;
    if request.size() <= ADDRESSABLE {
        return Ok(());
    }
    Err(Error::invalid(operation, "the size exceeds every GPU's address space; pass the allocation's size")
        .with_context("size", request.size()))
}

/// Rejects anonymous inodes and eventfds that are no dma-bufs, and memory smaller than the request. Character devices
/// pass, for `hip-on-cuda`. The runtime does not compare sizes, and a failed import frees an uninitialised pointer,
/// which aborts builds with assertions (5.7.1, 6.4.3, 7.2.4).
#[cfg(unix)]
fn check_descriptor(operation: &'static str, fd: BorrowedFd<'_>, size: u64) -> Result<()> {
    match classify_fd(fd) {
        // `Memory`: the emulated kernel driver exports memfds instead of dma-bufs.
        kind @ (FdKind::DmaBuf | FdKind::Memory) => match length(fd) {
            Some(length) if length < size => Err(Error::invalid(
                operation,
                "the memory of the file descriptor is smaller than the requested size; pass the allocation's size",
            )
            .with_context("file descriptor", kind)
            .with_context("size", size)
            .with_context("size of the file descriptor", length)),
            _ => Ok(()),
        },
        kind @ (FdKind::AnonymousInode | FdKind::EventFd) if !is_old_dma_buf(fd) => {
            Err(Error::invalid(operation, "HIP imports dma-bufs; pass the file descriptor of vkGetMemoryFdKHR")
                .with_context("file descriptor", kind))
        }
        _ => Ok(()),
    }
}

/// Returns the size in bytes, if the kernel reports it.
#[cfg(unix)]
fn length(fd: BorrowedFd<'_>) -> Option<u64> {
    use rustix::fs::{SeekFrom, seek};
    let before = seek(fd, SeekFrom::Current(0)).unwrap_or(0);
    let length = seek(fd, SeekFrom::End(0)).ok().filter(|length| *length > 0);
    // Dma-bufs ignore the offset, but other users of a memfd share it.
    let _ = seek(fd, SeekFrom::Start(before));
    length
}

/// Returns whether the link in `/proc` names a dma-buf: before Linux 5.3 dma-bufs are anonymous inodes without another
/// mark.
#[cfg(unix)]
fn is_old_dma_buf(fd: BorrowedFd<'_>) -> bool {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    // Without `/proc` an anonymous inode is accepted.
    link.map_or(true, |target| target.to_string_lossy().contains("dmabuf"))
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use gpu_interop_core::ErrorKind;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    const HIP_5: ApiVersion = ApiVersion { api: "HIP", major: 5, minor: 2 };
    const HIP_7: ApiVersion = ApiVersion { api: "HIP", major: 7, minor: 1 };

    fn file(size: u64) -> std::os::fd::OwnedFd {
        let fd = memfd_create("import-test", MemfdFlags::CLOEXEC).expect("memfd");
        ftruncate(&fd, size).expect("ftruncate");
        fd
    }

    fn request(handle: MemoryHandle, size: u64, dedicated: bool) -> MemoryImport {
        // SAFETY: these tests only check and encode the request.
        unsafe { MemoryImport::new(handle, size).dedicated(dedicated) }
    }

    #[test]
    fn a_dma_buf_is_imported_as_an_opaque_file_descriptor() {
        let request = request(MemoryHandle::DmaBufFd(file(4096)), 4096, true);
        let desc = memory(HIP_7, &request, 5).expect("encodes");
        assert_eq!((desc.kind, desc.size, desc.flags), (1, 4096, 1));
        // SAFETY: `fd` was encoded.
        assert_eq!(unsafe { desc.handle.fd }, 5);
        assert_eq!(memory(HIP_5, &request, 5).expect("encodes").flags, 0);
    }

    #[test]
    fn windows_objects_are_encoded_with_the_kinds_the_runtime_accepts() {
        use gpu_interop_core::handle::{ObjectName, Win32Object};
        let name = || Win32Object::Name(ObjectName::new("Local\\memory").expect("a name"));
        let timeline = semaphore(&SemaphoreHandle::TimelineWin32(name()), -1).expect("encodes");
        assert_eq!(timeline.kind, 2, "the runtime rejects the timeline's own kind");
        let fence = SemaphoreHandle::D3d12Fence(name());
        assert_eq!(semaphore(&fence, -1).expect("encodes").kind, 4);
        assert_eq!(other_semaphore(&fence, -1, Status::NOT_SUPPORTED).expect("encodes").kind, 2);
    }

    #[test]
    fn only_unsupported_fences_are_imported_as_another_kind() {
        use gpu_interop_core::handle::{ObjectName, Win32Object};
        let name = || Win32Object::Name(ObjectName::new("Local\\fence").expect("a name"));
        for status in [Status::SUCCESS, Status::INVALID_VALUE, Status::OUT_OF_MEMORY] {
            assert!(other_semaphore(&SemaphoreHandle::D3d12Fence(name()), -1, status).is_none(), "{status:?}");
        }
        assert!(other_semaphore(&SemaphoreHandle::OpaqueWin32(name()), -1, Status::NOT_SUPPORTED).is_none());
    }

    #[test]
    fn a_dma_buf_smaller_than_the_request_is_rejected() {
        let check = |handle, size| check("op", &request(handle, size, false));
        assert!(check(MemoryHandle::DmaBufFd(file(4096)), 4096).is_ok());
        let error = check(MemoryHandle::DmaBufFd(file(4096)), 8192).expect_err("too small");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("4096") && error.to_string().contains("8192"), "{error}");
        assert_eq!(check(MemoryHandle::OpaqueFd(file(4096)), 8192).expect_err("too small").kind(), error.kind());
    }

    #[test]
    fn an_eventfd_is_rejected() {
        use rustix::event::{EventfdFlags, eventfd};
        let other = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
        let error = check("op", &request(MemoryHandle::OpaqueFd(other), 4096, false)).expect_err("not memory");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("eventfd"), "{error}");
    }

    #[test]
    fn the_check_preserves_the_file_offset() {
        use rustix::fs::{SeekFrom, seek};
        let file = file(4096);
        seek(&file, SeekFrom::Start(100)).expect("seek");
        check_descriptor("op", file.as_fd(), 4096).expect("large enough");
        assert_eq!(seek(&file, SeekFrom::Current(0)).expect("seek"), 100);
    }
}
