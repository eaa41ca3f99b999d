//! A semaphore of another API, or of another Vulkan device.

use ash::vk;
use gpu_interop_core::handle::LentFd;
use gpu_interop_core::{Error, ImportError, Result, SemaphoreHandle, SemaphoreImport};

use crate::error;
use crate::interop::VulkanInterop;
use crate::query::semaphore_handle_type;
use crate::semaphore::OwnedSemaphore;

const OPERATION: &str = "ImportedSemaphore::new";

/// A semaphore that shares its payload with one that was exported elsewhere. Destroyed when dropped, which leaves the
/// exporter's alone.
#[derive(Debug, Clone)]
pub struct ImportedSemaphore {
    semaphore: OwnedSemaphore,
}

impl ImportedSemaphore {
    /// Imports a binary or timeline semaphore, permanently. Rests on `vkImportSemaphoreFdKHR` with `OPAQUE_FD`.
    ///
    /// On success the handle belongs to the import. On failure the request comes back with its handle open, whatever
    /// the driver did: it only ever gets a duplicate.
    ///
    /// # Errors
    /// * `InvalidArgument`: the descriptor is closed or can never be a semaphore. The driver was not called.
    /// * `Unsupported`: the device does not import this kind, or `VK_KHR_external_semaphore_fd` is not enabled. The
    ///   driver was not called.
    /// * `DeviceMismatch`: the request names another exporter. The driver was not called.
    /// * `ImportRejected` or `OutOfMemory`: the driver refused.
    pub fn new(interop: &VulkanInterop, request: SemaphoreImport) -> Result<Self, ImportError<SemaphoreImport>> {
        match import(interop, &request) {
            Ok(semaphore) => Ok(Self { semaphore }),
            Err(error) => {
                let error = error.with_device(interop.identity()).with_context("handle", request.handle().kind());
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
    const IMPORT: &str = "vkImportSemaphoreFdKHR";
    let kind = request.handle().kind();
    let (SemaphoreHandle::OpaqueFd(fd) | SemaphoreHandle::TimelineFd(fd)) = request.handle() else {
        return Err(Error::unsupported(OPERATION, "only descriptors can be imported here"));
    };
    let fd = std::os::fd::AsFd::as_fd(fd);
    request.validate(OPERATION, interop.identity())?;
    let features = interop.semaphore_features(kind)?;
    let Some(types) = semaphore_handle_type(kind).filter(|_| features.importable) else {
        return Err(Error::unsupported(OPERATION, "the device does not import this kind of semaphore"));
    };
    let functions = interop.semaphore_fd(OPERATION)?;
    let semaphore = OwnedSemaphore::create(interop, kind.payload(), 0, vk::ExternalSemaphoreHandleTypeFlags::empty())?;
    let loan = LentFd::new(fd)?;
    let info =
        vk::ImportSemaphoreFdInfoKHR::default().semaphore(semaphore.as_raw()).handle_type(types).fd(loan.as_raw_fd());
    // SAFETY: the semaphore is live, of the payload that the handle's type states, and nothing else knows it yet; the
    // descriptor is open and the driver may keep it.
    match unsafe { functions.import_semaphore_fd(&info) } {
        Ok(()) => {
            loan.consumed();
            Ok(semaphore)
        }
        Err(code) => {
            // Some drivers close the descriptor of a failed import, others do not.
            loan.settle();
            Err(error::import(IMPORT, code))
        }
    }
}
