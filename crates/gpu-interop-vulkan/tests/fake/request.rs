//! Import requests from raw handles.

use gpu_interop_core::{MemoryHandle, MemoryImport, SemaphoreHandle, SemaphoreImport};

pub(crate) fn memory_request(handle: MemoryHandle, size: u64) -> MemoryImport {
    // SAFETY: the fake drivers of the tests that include this file map nothing.
    unsafe { MemoryImport::new(handle, size) }
}

pub(crate) fn dedicated_request(handle: MemoryHandle, size: u64, dedicated: bool) -> MemoryImport {
    // SAFETY: as in `memory_request`.
    unsafe { MemoryImport::new(handle, size).dedicated(dedicated) }
}

pub(crate) fn semaphore_request(handle: SemaphoreHandle) -> SemaphoreImport {
    // SAFETY: as in `memory_request`.
    unsafe { SemaphoreImport::new(handle) }
}
