//! Requests to import bare handles, which gpu-interop's exporters do not make.
//!
//! Building one takes `unsafe`: who does must know what the handle is. Scenarios do so for three reasons. What they promise is
//! said here once:
//!
//! * The handle is an exporter's, with what its own request said: taken out of that, sent to another process of this suite,
//!   or back from an import that failed. Memory of a backend's own, too, where it is imported as another API's on purpose:
//!   less than crashes the driver.
//! * The request is rejected before a driver is called, which the scenario checks.
//! * The driver is asked to reject it, or to take it without harm. Then nothing behind the exporter's memory is read or
//!   written. Where a driver was seen to crash, it is called in another process (`misbehaviour.*`), not with this.

use gpu_interop::{MemoryHandle, MemoryImport, SemaphoreHandle, SemaphoreImport};

/// Memory that is not dedicated.
pub fn memory(handle: MemoryHandle, size: u64) -> MemoryImport {
    // SAFETY: one of the reasons above.
    unsafe { MemoryImport::new(handle, size) }
}

/// Memory, dedicated or not.
pub(crate) fn memory_with(handle: MemoryHandle, size: u64, dedicated: bool) -> MemoryImport {
    // SAFETY: one of the reasons above.
    unsafe { MemoryImport::new(handle, size).dedicated(dedicated) }
}

pub(crate) fn semaphore(handle: SemaphoreHandle) -> SemaphoreImport {
    // SAFETY: one of the reasons above.
    unsafe { SemaphoreImport::new(handle) }
}

/// The request with another dedicated flag.
pub(crate) fn with_dedicated(request: MemoryImport, dedicated: bool) -> MemoryImport {
    // SAFETY: one of the reasons above.
    unsafe { request.dedicated(dedicated) }
}

/// The request without what the exporter said of its image.
pub(crate) fn without_image(request: MemoryImport) -> MemoryImport {
    // SAFETY: the scenario maps the exporter's image, or asks the driver about another one, which it does not use.
    unsafe { request.of_image(None) }
}
