//! Imports as the runtime takes them.

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
        // The flag of dedicated allocations is younger, and does nothing for dma-bufs.
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

/// Direct3D 12's fences as opaque semaphores. HIP 6.1 and 6.2 open a fence as a KMT handle, which it is not (CLR 9fdddb7c5
/// mends it), and the runtime on ROCr has no fences; both answer "not supported". An opaque semaphore is opened as an NT
/// handle, which a fence is.
pub(crate) fn other_semaphore(handle: &SemaphoreHandle, fd: c_int, answer: Status) -> Option<SemaphoreHandleDesc> {
    if handle.kind() != SemaphoreHandleKind::D3d12Fence || answer != Status::NOT_SUPPORTED {
        return None;
    }
    let mut desc = SemaphoreHandleDesc::new(handle, fd)?;
    desc.kind = SEMAPHORE_OPAQUE_WIN32;
    Some(desc)
}

/// Rejects requests that the runtime would accept wrongly: it maps the requested size without checking the memory's.
#[cfg(unix)]
pub(crate) fn check(operation: &'static str, request: &MemoryImport) -> Result<()> {
    match request.handle() {
        MemoryHandle::OpaqueFd(fd) | MemoryHandle::DmaBufFd(fd) => {
            check_descriptor(operation, fd.as_fd(), request.size())
        }
        _ => Ok(()),
    }
}

/// Rejects a size that cannot be right. Neither the runtime compares it with the memory's, nor does a handle tell that: on
/// Windows it is the caller's word.
#[cfg(windows)]
pub(crate) fn check(operation: &'static str, request: &MemoryImport) -> Result<()> {
    /// More than any GPU addresses, bytes.
    const ADDRESSABLE: u64 = 1 << 57;
    if request.size() <= ADDRESSABLE {
        return Ok(());
    }
    Err(Error::invalid(operation, "no GPU addresses so much memory; pass the allocation's size")
        .with_context("size", request.size()))
}

/// Refuses descriptors that the runtime cannot import. It compares no sizes, and an import that fails ends in the free of a
/// pointer that nobody set, which builds that assert do not survive (5.7.1, 6.4.3, 7.2.4).
#[cfg(unix)]
fn check_descriptor(operation: &'static str, fd: BorrowedFd<'_>, size: u64) -> Result<()> {
    match classify_fd(fd) {
        // The latter are memory of an emulated kernel driver, which has no dma-bufs.
        kind @ (FdKind::DmaBuf | FdKind::Memory) => match length(fd) {
            Some(length) if length < size => Err(Error::invalid(
                operation,
                "the memory behind the descriptor is smaller than the request says; pass the allocation's size",
            )
            .with_context("the descriptor", kind)
            .with_context("size", size)
            .with_context("the descriptor's size", length)),
            _ => Ok(()),
        },
        kind @ (FdKind::AnonymousInode | FdKind::EventFd) if !is_old_dma_buf(fd) => {
            Err(Error::invalid(operation, "AMD's memory is a dma-buf; pass what vkGetMemoryFdKHR gave")
                .with_context("the descriptor", kind))
        }
        _ => Ok(()),
    }
}

/// The size in bytes, where the kernel tells it.
#[cfg(unix)]
fn length(fd: BorrowedFd<'_>) -> Option<u64> {
    use rustix::fs::{SeekFrom, seek};
    let before = seek(fd, SeekFrom::Current(0)).unwrap_or(0);
    let length = seek(fd, SeekFrom::End(0)).ok().filter(|length| *length > 0);
    // Nothing reads a dma-buf by its offset, but whoever shares this one may read memory.
    let _ = seek(fd, SeekFrom::Start(before));
    length
}

/// Before Linux 5.3 a dma-buf is an anonymous object that only its link in `/proc` tells.
#[cfg(unix)]
fn is_old_dma_buf(fd: BorrowedFd<'_>) -> bool {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    // Where `/proc` is missing, nothing is refused.
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
        // SAFETY: these tests check and encode it, and import nothing.
        unsafe { MemoryImport::new(handle, size).dedicated(dedicated) }
    }

    #[test]
    fn a_dma_buf_is_imported_as_an_opaque_descriptor() {
        let request = request(MemoryHandle::DmaBufFd(file(4096)), 4096, true);
        let desc = memory(HIP_7, &request, 5).expect("encodes");
        assert_eq!((desc.kind, desc.size, desc.flags), (1, 4096, 1));
        // SAFETY: a descriptor was encoded.
        assert_eq!(unsafe { desc.handle.fd }, 5);
        assert_eq!(memory(HIP_5, &request, 5).expect("encodes").flags, 0);
    }

    #[test]
    fn objects_of_windows_are_encoded_as_the_runtime_takes_them() {
        use gpu_interop_core::handle::{ObjectName, Win32Object};
        let name = || Win32Object::Name(ObjectName::new("Local\\memory").expect("a name"));
        let timeline = semaphore(&SemaphoreHandle::TimelineWin32(name()), -1).expect("encodes");
        assert_eq!(timeline.kind, 2, "its own number is refused");
        let fence = SemaphoreHandle::D3d12Fence(name());
        assert_eq!(semaphore(&fence, -1).expect("encodes").kind, 4);
        assert_eq!(other_semaphore(&fence, -1, Status::NOT_SUPPORTED).expect("encodes").kind, 2);
    }

    #[test]
    fn only_a_fence_that_is_not_supported_is_imported_as_another_kind() {
        use gpu_interop_core::handle::{ObjectName, Win32Object};
        let name = || Win32Object::Name(ObjectName::new("Local\\fence").expect("a name"));
        for answer in [Status::SUCCESS, Status::INVALID_VALUE, Status::OUT_OF_MEMORY] {
            assert!(other_semaphore(&SemaphoreHandle::D3d12Fence(name()), -1, answer).is_none(), "{answer:?}");
        }
        assert!(other_semaphore(&SemaphoreHandle::OpaqueWin32(name()), -1, Status::NOT_SUPPORTED).is_none());
    }

    #[test]
    fn a_dma_buf_smaller_than_the_request_is_refused() {
        let check = |handle, size| check("op", &request(handle, size, false));
        assert!(check(MemoryHandle::DmaBufFd(file(4096)), 4096).is_ok());
        let error = check(MemoryHandle::DmaBufFd(file(4096)), 8192).expect_err("too small");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("4096") && error.to_string().contains("8192"), "{error}");
        assert_eq!(check(MemoryHandle::OpaqueFd(file(4096)), 8192).expect_err("too small").kind(), error.kind());
    }

    #[test]
    fn what_is_no_memory_is_refused() {
        use rustix::event::{EventfdFlags, eventfd};
        let other = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
        let error = check("op", &request(MemoryHandle::OpaqueFd(other), 4096, false)).expect_err("no memory");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("eventfd"), "{error}");
    }

    #[test]
    fn a_descriptor_s_offset_stays() {
        use rustix::fs::{SeekFrom, seek};
        let file = file(4096);
        seek(&file, SeekFrom::Start(100)).expect("seek");
        check_descriptor("op", file.as_fd(), 4096).expect("large enough");
        assert_eq!(seek(&file, SeekFrom::Current(0)).expect("seek"), 100);
    }
}
