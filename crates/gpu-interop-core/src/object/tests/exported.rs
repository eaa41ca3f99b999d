//! Handles of this system that look like exported ones, and requests to import them.

use crate::handle::{MemoryHandle, SemaphoreHandle};
use crate::import::{MemoryImport, SemaphoreImport};

/// Only the recorder imports in these tests.
pub(super) fn memory_request(handle: MemoryHandle, size: u64) -> MemoryImport {
    // SAFETY: the recorder notes the request, and calls no driver and maps nothing.
    unsafe { MemoryImport::new(handle, size) }
}

/// The same with the dedicated flag.
pub(super) fn with_dedicated(request: MemoryImport, dedicated: bool) -> MemoryImport {
    // SAFETY: as in `memory_request`.
    unsafe { request.dedicated(dedicated) }
}

/// Only the recorder imports in these tests.
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

    /// A descriptor that looks like exported memory. The name shows in `/proc/self/fd`.
    /// As long as a file can be, and empty: any size of an import fits.
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

    /// A file mapping of a page. What it is called shows nowhere.
    pub(in super::super) fn section() -> OwnedHandle {
        let null = std::ptr::null();
        // SAFETY: no pointer but null: nameless, not inherited.
        let handle = unsafe { CreateFileMappingW(INVALID_HANDLE_VALUE, null, PAGE_READWRITE, 0, 4096, null.cast()) };
        assert!(!handle.is_null(), "{}", std::io::Error::last_os_error());
        // SAFETY: a new handle, this caller's.
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
