//! Imports as the runtime takes them.

use std::ffi::c_int;

use gpu_interop_core::{Error, MemoryHandle, MemoryImport, Result, SemaphoreHandle, SemaphoreHandleKind};
use gpu_interop_driver::ApiVersion;
use gpu_interop_driver::abi::{MemoryHandleDesc, SemaphoreHandleDesc};

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

/// Refuses what the runtime gets wrong: it maps as much as it is told, whatever the memory has, and versions before 6.2
/// drop names.
pub(crate) fn check(operation: &'static str, version: ApiVersion, request: &MemoryImport) -> Result<()> {
    let named = request.handle().as_win32().is_some_and(|object| object.name().is_some());
    if named && !version.is_at_least((6, 2)) {
        let message = format!("{version} opens no objects by name, HIP 6.2 and later do; pass a handle");
        return Err(Error::unsupported(operation, message));
    }
    #[cfg(unix)]
    if let Some(size) = dma_buf_size(request.handle()).filter(|size| *size < request.size()) {
        return Err(Error::invalid(
            operation,
            "the dma-buf is smaller than the request says; pass the allocation's size",
        )
        .with_context("size", request.size())
        .with_context("dma-buf's size", size));
    }
    Ok(())
}

/// The size of a dma-buf in bytes, where the kernel tells it.
#[cfg(unix)]
fn dma_buf_size(handle: &MemoryHandle) -> Option<u64> {
    use rustix::fs::SeekFrom;
    let fd = match handle {
        MemoryHandle::DmaBufFd(fd) => fd,
        MemoryHandle::OpaqueFd(fd) if is_dma_buf(fd) => fd,
        _ => return None,
    };
    let size = rustix::fs::seek(fd, SeekFrom::End(0)).ok().filter(|size| *size > 0);
    // As the kernel's documentation asks for. Nothing reads a dma-buf by its offset.
    let _ = rustix::fs::seek(fd, SeekFrom::Start(0));
    size
}

#[cfg(target_os = "linux")]
fn is_dma_buf(fd: &std::os::fd::OwnedFd) -> bool {
    // DMA_BUF_MAGIC of linux/magic.h.
    const MAGIC: u64 = 0x444d_4142;
    rustix::fs::fstatfs(fd).is_ok_and(|stat| u64::try_from(stat.f_type) == Ok(MAGIC))
}

#[cfg(all(unix, not(target_os = "linux")))]
fn is_dma_buf(_fd: &std::os::fd::OwnedFd) -> bool {
    false
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

    #[test]
    fn a_dma_buf_is_imported_as_an_opaque_descriptor() {
        let request = MemoryImport::new(MemoryHandle::DmaBufFd(file(4096)), 4096).dedicated(true);
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
        assert_eq!(semaphore(&SemaphoreHandle::D3d12Fence(name()), -1).expect("encodes").kind, 4);
        let request = MemoryImport::new(MemoryHandle::D3d12Heap(name()), 4096);
        let error = check("op", HIP_5, &request).expect_err("names are dropped");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(check("op", HIP_7, &request).is_ok());
    }

    #[test]
    fn a_dma_buf_smaller_than_the_request_is_refused() {
        let check = |handle, size| check("op", HIP_7, &MemoryImport::new(handle, size));
        assert!(check(MemoryHandle::DmaBufFd(file(4096)), 4096).is_ok());
        let error = check(MemoryHandle::DmaBufFd(file(4096)), 8192).expect_err("too small");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("4096") && error.to_string().contains("8192"), "{error}");
        // Of another kind of memory only its exporter knows the size.
        assert!(check(MemoryHandle::OpaqueFd(file(4096)), 8192).is_ok());
    }
}
