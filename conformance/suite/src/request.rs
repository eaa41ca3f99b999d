//! Import requests from raw handles, which gpu-interop's exporters do not build.
//!
//! Building one is `unsafe`, because the caller guarantees the description. Scenarios do so for three reasons, which
//! are documented once here:
//!
//! * The handle is an exporter's, with the values of its own request: taken out of that, sent to another process of
//!   this suite, or returned by a failed import. Also a backend's own memory, imported as another API's on purpose, in
//!   sizes that do not crash the driver.
//! * The request is rejected before a driver is called, which the scenario checks.
//! * The driver is expected to reject it, or to accept it without damage. Then no memory behind the exporter's is
//!   accessed. Inputs that have crashed a driver are tested in another process (`misbehaviour.*`) and not here.

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

/// A semaphore.
pub(crate) fn semaphore(handle: SemaphoreHandle) -> SemaphoreImport {
    // SAFETY: one of the reasons above.
    unsafe { SemaphoreImport::new(handle) }
}

/// The request with another dedicated flag.
pub(crate) fn with_dedicated(request: MemoryImport, dedicated: bool) -> MemoryImport {
    // SAFETY: one of the reasons above.
    unsafe { request.dedicated(dedicated) }
}

/// The request without the exporter's description of its image.
pub(crate) fn without_image(request: MemoryImport) -> MemoryImport {
    // SAFETY: the scenario maps the exporter's image, or tests the driver's reaction to another one, which it does not
    // use.
    unsafe { request.of_image(None) }
}
