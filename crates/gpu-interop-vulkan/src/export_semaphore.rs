//! Exportable semaphores.

use std::any::Any;
use std::sync::Arc;

use ash::vk;
use gpu_interop_core::{
    Error, ErrorKind, Result, SemaphoreHandle, SemaphoreHandleKind, SemaphoreImport, SemaphorePayload,
};

use crate::handles::{self, Exported};
use crate::interop::VulkanInterop;
use crate::query::semaphore_handle_type;
use crate::semaphore::OwnedSemaphore;

/// A semaphore that can be exported. Destroyed on drop; exported handles stay valid.
#[doc(alias("vkCreateSemaphore", "VkExportSemaphoreCreateInfo"))]
#[derive(Debug, Clone)]
pub struct ExportableSemaphore {
    semaphore: OwnedSemaphore,
    handle: SemaphoreHandleKind,
    exported: Arc<Exported>,
}

impl ExportableSemaphore {
    /// Creates an unsignalled binary semaphore for export as [`SemaphoreHandleKind::OpaqueFd`], on Windows as
    /// [`SemaphoreHandleKind::OpaqueWin32`].
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the device does not export such semaphores, or `VK_KHR_external_semaphore_fd`
    /// (`VK_KHR_external_semaphore_win32`) is not enabled; [`ErrorKind::OutOfMemory`]. The device is queried before the
    /// creation, because some devices create semaphores that they cannot export.
    pub fn binary(interop: &VulkanInterop) -> Result<Self> {
        Self::new("ExportableSemaphore::binary", interop, handles::BINARY_SEMAPHORE, 0)
    }

    /// Creates a timeline semaphore with the value `initial` for export as [`SemaphoreHandleKind::TimelineFd`], on
    /// Windows as [`SemaphoreHandleKind::TimelineWin32`].
    ///
    /// # Errors
    /// As [`binary`](Self::binary).
    pub fn timeline(interop: &VulkanInterop, initial: u64) -> Result<Self> {
        Self::new("ExportableSemaphore::timeline", interop, handles::TIMELINE_SEMAPHORE, initial)
    }

    fn new(
        operation: &'static str,
        interop: &VulkanInterop,
        handle: SemaphoreHandleKind,
        initial: u64,
    ) -> Result<Self> {
        let types = Self::check(operation, interop, handle)?;
        let semaphore = OwnedSemaphore::create(operation, interop, handle.payload(), initial, types)?;
        Ok(Self { semaphore, handle, exported: Arc::default() })
    }

    /// Borrows a timeline semaphore that the application created for export, for a
    /// [`Timeline`](gpu_interop_core::Timeline) that is native where the compute device imports timelines. The
    /// semaphore is not destroyed on drop; `owner` is kept until then.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a null semaphore; otherwise as for [`timeline`](Self::timeline).
    ///
    /// # Safety
    /// As [`OwnedSemaphore::timeline_from_raw`], and the semaphore was created with
    /// `VkExportSemaphoreCreateInfo::handleTypes` of `OPAQUE_FD`, on Windows `OPAQUE_WIN32`. On Windows, no NT handle
    /// was exported from it before.
    pub unsafe fn timeline_from_raw(
        interop: &VulkanInterop,
        semaphore: vk::Semaphore,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Self> {
        let handle = handles::TIMELINE_SEMAPHORE;
        Self::check("ExportableSemaphore::timeline_from_raw", interop, handle)?;
        // SAFETY: the caller's promises.
        let semaphore = unsafe { OwnedSemaphore::timeline_from_raw(interop, semaphore, owner) }?;
        Ok(Self { semaphore, handle, exported: Arc::default() })
    }

    /// The flag of `handle`, if the device exports such semaphores.
    fn check(
        operation: &'static str,
        interop: &VulkanInterop,
        handle: SemaphoreHandleKind,
    ) -> Result<vk::ExternalSemaphoreHandleTypeFlags> {
        if handle.payload() == SemaphorePayload::Timeline {
            interop.timeline(operation)?;
        }
        let features = interop.semaphore_features(handle)?;
        let types = semaphore_handle_type(handle).filter(|_| features.exportable);
        let Some(types) = types else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                operation,
                "the device does not export this kind of semaphore; for a `Timeline` use `OwnedSemaphore::timeline` and a \
                 bridge",
            )
            .with_device(interop.identity())
            .with_context("handle", handle));
        };
        interop.functions().semaphore(operation).map_err(|error| error.with_device(interop.identity()))?;
        Ok(types)
    }

    /// The semaphore itself.
    #[must_use]
    pub fn semaphore(&self) -> &OwnedSemaphore {
        &self.semaphore
    }

    /// The handle kind of the exports.
    #[must_use]
    pub fn handle_kind(&self) -> SemaphoreHandleKind {
        self.handle
    }

    /// Exports the semaphore, for another process or API. For an import in this process use
    /// [`import_request`](Self::import_request). Every call returns a new descriptor or handle that the caller owns and
    /// that closes on exec. Calls `vkGetSemaphoreFdKHR` with `OPAQUE_FD`, or `vkGetSemaphoreWin32HandleKHR`, which
    /// shares the semaphore's payload by reference.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`], `Driver`, or `System` if the process is out of descriptors; nothing is leaked.
    #[doc(alias("vkGetSemaphoreFdKHR", "vkGetSemaphoreWin32HandleKHR"))]
    pub fn export(&self) -> Result<SemaphoreHandle> {
        const OPERATION: &str = "ExportableSemaphore::export";
        let interop = self.semaphore.interop();
        let types = semaphore_handle_type(self.handle)
            .ok_or_else(|| Error::unsupported(OPERATION, "Vulkan has no handle of this kind"))?;
        interop.check_process(OPERATION)?;
        let handle = handles::export_semaphore(interop, self.semaphore.raw(), (self.handle, types), &self.exported)
            .map_err(|error| error.with_device(interop.identity()).with_context("handle", self.handle))?;
        self.semaphore.share();
        Ok(handle)
    }

    /// Exports the semaphore as an import request: handle and device identity.
    ///
    /// # Errors
    /// As [`export`](Self::export).
    #[doc(alias("vkGetSemaphoreFdKHR", "vkGetSemaphoreWin32HandleKHR"))]
    pub fn import_request(&self) -> Result<SemaphoreImport> {
        // SAFETY: the Vulkan driver just exported the handle, from this semaphore and as the kind that its variant
        // names: `TimelineFd` and `TimelineWin32` only for a timeline (`handles::export_semaphore`). It is a separate
        // descriptor or NT handle, which keeps the payload alive. The exporting device is named.
        let request = unsafe { SemaphoreImport::new(self.export()?) };
        Ok(request.exported_by(self.semaphore.interop().identity().clone()))
    }
}
