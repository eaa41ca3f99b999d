//! Imported semaphores.

use ash::vk;
use gpu_interop_core::{Error, ImportError, Result, SemaphoreImport, SemaphorePayload};

use crate::handles::ImportableSemaphore;
use crate::interop::VulkanInterop;
use crate::query::semaphore_handle_type;
use crate::semaphore::OwnedSemaphore;

const OPERATION: &str = "ImportedSemaphore::new";

/// A semaphore that shares its payload with one that was exported elsewhere. Destroyed on drop; the exporter's
/// semaphore is unaffected.
#[derive(Debug, Clone)]
pub struct ImportedSemaphore {
    semaphore: OwnedSemaphore,
}

impl ImportedSemaphore {
    /// Imports a binary or timeline semaphore, permanently. Calls `vkImportSemaphoreFdKHR` with `OPAQUE_FD`, or
    /// `vkImportSemaphoreWin32HandleKHR`.
    ///
    /// On success the import owns the handle. On failure the request is returned with its handle open, whatever the
    /// driver did: the driver only gets a duplicate.
    ///
    /// # Errors
    /// * `InvalidArgument`: the descriptor is closed or cannot be a semaphore. The driver was not called.
    /// * `Unsupported`: the device does not import this kind, has no timeline semaphores, or
    ///   `VK_KHR_external_semaphore_fd` is not enabled. The driver was not called.
    /// * `DeviceMismatch`: the request names another exporter. The driver was not called.
    /// * `ImportRejected` or `OutOfMemory`: the driver rejected the import.
    #[doc(alias("vkImportSemaphoreFdKHR", "vkImportSemaphoreWin32HandleKHR"))]
    pub fn new(interop: &VulkanInterop, request: SemaphoreImport) -> Result<Self, ImportError<SemaphoreImport>> {
        match import(interop, &request) {
            Ok(semaphore) => Ok(Self { semaphore }),
            Err(error) => {
                let handle = request.handle();
                let error = error
                    .with_device(interop.identity())
                    .with_context("handle", handle.kind())
                    .with_object_name(handle.as_win32());
                Err(ImportError::new(error, request))
            }
        }
    }

    /// The semaphore itself.
    #[must_use]
    pub fn semaphore(&self) -> &OwnedSemaphore {
        &self.semaphore
    }
}

fn import(interop: &VulkanInterop, request: &SemaphoreImport) -> Result<OwnedSemaphore> {
    let kind = request.handle().kind();
    let handle = ImportableSemaphore::new(OPERATION, request.handle())?;
    request.validate(OPERATION, interop.identity())?;
    if kind.payload() == SemaphorePayload::Timeline {
        interop.timeline(OPERATION)?;
    }
    let features = interop.semaphore_features(kind)?;
    let Some(types) = semaphore_handle_type(kind).filter(|_| features.importable) else {
        return Err(Error::unsupported(OPERATION, "the device does not import this kind of semaphore"));
    };
    interop.functions().semaphore(OPERATION)?;
    let not_exported = vk::ExternalSemaphoreHandleTypeFlags::empty();
    let semaphore = OwnedSemaphore::create(OPERATION, interop, kind.payload(), 0, not_exported)?;
    // SAFETY: the semaphore is live, has the payload type of the handle, and was just created, so nothing uses it.
    unsafe { handle.import(interop, semaphore.raw(), types) }?;
    semaphore.share();
    Ok(semaphore)
}
