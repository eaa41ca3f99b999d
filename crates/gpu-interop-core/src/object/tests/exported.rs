//! Handles that resemble exported ones, and requests to import them.

use crate::handle::{MemoryHandle, SemaphoreHandle};
use crate::import::{MemoryImport, SemaphoreImport};

/// Builds a request, which only the recorder imports.
pub(super) fn memory_request(handle: MemoryHandle, size: u64) -> MemoryImport {
    // SAFETY: the recorder logs the request; it calls no driver and maps nothing.
    unsafe { MemoryImport::new(handle, size) }
}

/// Builds a request with the dedicated flag.
pub(super) fn with_dedicated(request: MemoryImport, dedicated: bool) -> MemoryImport {
    // SAFETY: as in `memory_request`.
    unsafe { request.dedicated(dedicated) }
}

/// Builds a request, which only the recorder imports.
pub(super) fn semaphore_request(handle: SemaphoreHandle) -> SemaphoreImport {
    // SAFETY: as in `memory_request`.
    unsafe { SemaphoreImport::new(handle) }
}

#[cfg(unix)]
pub(super) use descriptors::*;
#[cfg(windows)]
pub(super) use handles::*;

#[cfg(unix)]
mod descriptors {
    use std::os::fd::OwnedFd;

    use rustix::fs::MemfdFlags;

    use crate::handle::{MemoryHandle, SemaphoreHandle, SemaphoreHandleKind};

    /// The kind of [`timeline`].
    pub(in super::super) const TIMELINE: SemaphoreHandleKind = SemaphoreHandleKind::TimelineFd;

    /// A descriptor that resembles exported memory. `/proc/self/fd` shows its name. Sparse, with the maximum file
    /// length: any import size fits.
    pub(in super::super) fn memfd(name: &str) -> OwnedFd {
        let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC).expect("memfd");
        rustix::fs::ftruncate(&fd, i64::MAX.unsigned_abs()).expect("ftruncate");
        fd
    }

    pub(in super::super) fn memory(name: &str) -> MemoryHandle {
        MemoryHandle::OpaqueFd(memfd(name))
    }

    pub(in super::super) fn binary(name: &str) -> SemaphoreHandle {
        SemaphoreHandle::OpaqueFd(memfd(name))
    }

    pub(in super::super) fn timeline(name: &str) -> SemaphoreHandle {
        SemaphoreHandle::TimelineFd(memfd(name))
    }
}

#[cfg(windows)]
mod handles {
    use std::os::windows::io::{FromRawHandle, OwnedHandle};

    use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;
    use windows_sys::Win32::System::Memory::{CreateFileMappingW, PAGE_READWRITE};

    use crate::handle::{MemoryHandle, SemaphoreHandle, SemaphoreHandleKind, Win32Object};

    /// The kind of [`timeline`].
    pub(in super::super) const TIMELINE: SemaphoreHandleKind = SemaphoreHandleKind::TimelineWin32;

    /// A file mapping of one page. The name is unused.
    pub(in super::super) fn section() -> OwnedHandle {
        let null = std::ptr::null();
        // SAFETY: null pointers only: unnamed, not inherited.
        let handle = unsafe { CreateFileMappingW(INVALID_HANDLE_VALUE, null, PAGE_READWRITE, 0, 4096, null.cast()) };
        assert!(!handle.is_null(), "{}", std::io::Error::last_os_error());
        // SAFETY: a new handle that this function owns.
        unsafe { OwnedHandle::from_raw_handle(handle) }
    }

    fn object() -> Win32Object {
        Win32Object::Handle(section().into())
    }

    pub(in super::super) fn memory(_name: &str) -> MemoryHandle {
        MemoryHandle::OpaqueWin32(object())
    }

    pub(in super::super) fn binary(_name: &str) -> SemaphoreHandle {
        SemaphoreHandle::OpaqueWin32(object())
    }

    pub(in super::super) fn timeline(_name: &str) -> SemaphoreHandle {
        SemaphoreHandle::TimelineWin32(object())
    }
}
