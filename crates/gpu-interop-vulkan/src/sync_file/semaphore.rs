//! Semaphores whose payload passes as sync files.

use std::os::fd::{AsFd, OwnedFd};

use ash::vk;
use gpu_interop_core::handle::{FdKind, classify_fd};
use gpu_interop_core::{Error, ImportError, Result, SemaphoreHandleKind, SemaphorePayload};

use crate::handles;
use crate::import::ImportedSemaphore;
use crate::interop::VulkanInterop;
use crate::query::ExternalFeatures;
use crate::semaphore::OwnedSemaphore;

const SYNC_FD: vk::ExternalSemaphoreHandleTypeFlags = vk::ExternalSemaphoreHandleTypeFlags::SYNC_FD;

impl VulkanInterop {
    /// Queries the device's support for semaphores whose payload is exported and imported as sync files. Calls
    /// `vkGetPhysicalDeviceExternalSemaphoreProperties` with `SYNC_FD`. No other kind is
    /// [`compatible`](ExternalFeatures::compatible).
    ///
    /// # Errors
    /// [`ErrorKind::System`](gpu_interop_core::ErrorKind::System) in a forked process.
    #[doc(alias = "vkGetPhysicalDeviceExternalSemaphoreProperties")]
    pub fn sync_file_features(&self) -> Result<ExternalFeatures<SemaphoreHandleKind>> {
        self.check_process("VulkanInterop::sync_file_features")?;
        let found = self.query_semaphore(SYNC_FD, SemaphorePayload::Binary).external_semaphore_features;
        Ok(ExternalFeatures {
            exportable: found.contains(vk::ExternalSemaphoreFeatureFlags::EXPORTABLE),
            importable: found.contains(vk::ExternalSemaphoreFeatureFlags::IMPORTABLE),
            dedicated_only: false,
            compatible: Vec::new(),
        })
    }
}

impl ImportedSemaphore {
    /// Creates a binary semaphore with the fence of a sync file as its payload. `None` is a fence that is already signalled,
    /// the descriptor -1 of Vulkan. The payload is temporary: wait for the semaphore once, in one submission. Calls
    /// `vkCreateSemaphore`, and `vkImportSemaphoreFdKHR` with `SYNC_FD` and `VK_SEMAPHORE_IMPORT_TEMPORARY_BIT`.
    ///
    /// On success the sync file is closed; the driver owns a duplicate. On failure it is returned open, whatever the driver
    /// did.
    ///
    /// # Errors
    /// * [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument): the descriptor is closed or cannot be a
    ///   sync file. The driver was not called.
    /// * [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported): the device does not import sync files, or
    ///   `VK_KHR_external_semaphore_fd` is not enabled. The driver was not called. Wait with `poll` for `POLLIN` on the sync file.
    /// * `ImportRejected` or `OutOfMemory`: the driver rejected the import.
    #[doc(alias = "vkImportSemaphoreFdKHR")]
    pub fn from_sync_file(
        interop: &VulkanInterop,
        sync_file: Option<OwnedFd>,
    ) -> Result<Self, ImportError<Option<OwnedFd>>> {
        match import(interop, sync_file.as_ref()) {
            Ok(semaphore) => Ok(Self::of(semaphore)),
            Err(error) => Err(ImportError::new(error.with_device(interop.identity()), sync_file)),
        }
    }
}

fn import(interop: &VulkanInterop, sync_file: Option<&OwnedFd>) -> Result<OwnedSemaphore> {
    const OPERATION: &str = "ImportedSemaphore::from_sync_file";
    if let Some(file) = sync_file {
        let kind = classify_fd(file.as_fd());
        // Emulations of the kernel's drivers have pipes. The kernel rejects any file but a sync file.
        if !matches!(kind, FdKind::AnonymousInode | FdKind::Pipe | FdKind::Other) {
            return Err(Error::invalid(OPERATION, format!("the descriptor is {kind}, not a sync file")));
        }
    }
    if !interop.sync_file_features()?.importable {
        let message = "the device does not import sync files as semaphores; wait with poll for POLLIN on the sync file";
        return Err(Error::unsupported(OPERATION, message));
    }
    interop.functions().semaphore(OPERATION)?;
    let not_exported = vk::ExternalSemaphoreHandleTypeFlags::empty();
    let semaphore = OwnedSemaphore::create(OPERATION, interop, SemaphorePayload::Binary, 0, not_exported)?;
    // SAFETY: the semaphore is live and binary, and was just created, so nothing uses it.
    unsafe { handles::import_sync_file(interop, semaphore.raw(), sync_file.map(AsFd::as_fd)) }?;
    // SAFETY: the payload is signalled, or will be by work that its driver has accepted, and nothing waits for it.
    unsafe { semaphore.assume_signalled() };
    Ok(semaphore)
}

/// A binary semaphore whose payload is exported as sync files: signal it in a submission, then export the fence of that
/// signal. The export resets the semaphore, as a wait does. Destroyed with the last clone, as an [`OwnedSemaphore`].
///
/// ```no_run
/// use gpu_interop_core::Result;
/// use gpu_interop_vulkan::{
///     DmaBufAccess, HeadlessContext, ImportedPicture, ImportedSemaphore, SemaphoreOp, Submission, SyncFileSemaphore,
/// };
///
/// /// Reads a picture after its producer's writes; the producer's next write waits for the reads.
/// fn read(context: &HeadlessContext, picture: &ImportedPicture) -> Result<Submission> {
///     let mut before = Vec::new();
///     for fence in picture.fences(DmaBufAccess::Read)? {
///         let imported = ImportedSemaphore::from_sync_file(context.interop(), Some(fence));
///         before.push(imported.map_err(|failure| failure.into_parts().0)?);
///     }
///     let waits: Vec<_> =
///         before.iter().map(|fence| SemaphoreOp { semaphore: fence.semaphore(), value: 0 }).collect();
///     let done = SyncFileSemaphore::new(context.interop())?;
///     let signal = SemaphoreOp { semaphore: done.semaphore(), value: 0 };
///     let submission = context.submit(&waits, &[signal], |commands| {
///         commands.acquire_image(picture.image())?;
///         // Commands that read the image.
///         commands.release_image(picture.image())
///     })?;
///     // SAFETY: the submission waits for fences of the kernel only.
///     if let Some(fence) = unsafe { done.export() }? {
///         picture.add_fence(DmaBufAccess::Read, &fence)?;
///     }
///     Ok(submission)
/// }
/// ```
#[derive(Debug, Clone)]
pub struct SyncFileSemaphore {
    semaphore: OwnedSemaphore,
}

impl SyncFileSemaphore {
    /// Creates an unsignalled semaphore. Calls `vkCreateSemaphore` with `VkExportSemaphoreCreateInfo` of `SYNC_FD`.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) if the device does not export sync files, or
    /// `VK_KHR_external_semaphore_fd` is not enabled; [`ErrorKind::OutOfMemory`](gpu_interop_core::ErrorKind::OutOfMemory).
    #[doc(alias("vkCreateSemaphore", "VkExportSemaphoreCreateInfo"))]
    pub fn new(interop: &VulkanInterop) -> Result<Self> {
        const OPERATION: &str = "SyncFileSemaphore::new";
        if !interop.sync_file_features()?.exportable {
            let message =
                "the device does not export semaphores as sync files; wait for the commands on the host instead";
            return Err(Error::unsupported(OPERATION, message).with_device(interop.identity()));
        }
        interop.functions().semaphore(OPERATION).map_err(|error| error.with_device(interop.identity()))?;
        let semaphore = OwnedSemaphore::create(OPERATION, interop, SemaphorePayload::Binary, 0, SYNC_FD)?;
        Ok(Self { semaphore })
    }

    /// The semaphore itself, to be signalled.
    #[must_use]
    pub fn semaphore(&self) -> &OwnedSemaphore {
        &self.semaphore
    }

    /// Exports the fence of the submitted signal as a new sync file that the caller owns and that closes on exec, and resets
    /// the semaphore. `None` if the signal has already executed and the driver makes no sync file for that. Calls
    /// `vkGetSemaphoreFdKHR`. Declare a signal submitted through ash first ([`OwnedSemaphore::assume_signalled`]).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if no signal was submitted since the last
    /// export or wait; `OutOfMemory`, `Driver`, or `System` if the process is out of descriptors: the signal is then still to
    /// be exported.
    ///
    /// # Safety
    /// Everything that the signalling submission waits for was submitted, too, such as the signals of timelines.
    #[doc(alias = "vkGetSemaphoreFdKHR")]
    pub unsafe fn export(&self) -> Result<Option<OwnedFd>> {
        const OPERATION: &str = "SyncFileSemaphore::export";
        let interop = self.semaphore.interop();
        interop.check_process(OPERATION)?;
        self.semaphore.take_signal(OPERATION, || {
            // SAFETY: the semaphore is live and was created for `SYNC_FD`; a signal was submitted, and no wait for it; the
            // caller promises the same of all that the signal depends on.
            unsafe { handles::export_sync_file(interop, self.semaphore.raw()) }
                .map_err(|error| error.with_device(interop.identity()))
        })
    }
}
