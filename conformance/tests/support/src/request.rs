//! Import requests from raw handles, for fake drivers.

use gpu_interop_core::{MemoryHandle, MemoryImport, SemaphoreHandle, SemaphoreImport};

#[must_use]
pub fn memory_request(handle: MemoryHandle, size: u64) -> MemoryImport {
    // SAFETY: the fake drivers of tests map nothing.
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
