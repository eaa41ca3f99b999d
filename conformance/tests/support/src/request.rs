//! Import requests from raw handles, for fake drivers and simulators.

use gpu_interop_core::{MemoryHandle, MemoryImport, SemaphoreHandle, SemaphoreImport};

#[must_use]
pub fn memory_request(handle: MemoryHandle, size: u64) -> MemoryImport {
    // SAFETY: the fake drivers of tests map nothing, and simulators reject a handle of another kind or size.
    unsafe { MemoryImport::new(handle, size) }
}

#[must_use]
pub fn dedicated_request(handle: MemoryHandle, size: u64, dedicated: bool) -> MemoryImport {
    // SAFETY: as in `memory_request`.
    unsafe { MemoryImport::new(handle, size).dedicated(dedicated) }
}

#[must_use]
pub fn semaphore_request(handle: SemaphoreHandle) -> SemaphoreImport {
    // SAFETY: as in `memory_request`.
    unsafe { SemaphoreImport::new(handle) }
}

/// Anonymous memory of `size` bytes, as an export of a driver for the CPU.
#[cfg(target_os = "linux")]
pub fn anonymous_memory(size: u64) -> std::os::fd::OwnedFd {
    // Importers seal its size.
    let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
    let fd = rustix::fs::memfd_create("request", flags).expect("memfd");
    rustix::fs::ftruncate(&fd, size).expect("ftruncate");
    fd
}
