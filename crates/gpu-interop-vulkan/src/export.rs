//! Exportable buffers and semaphores.

use std::any::Any;
use std::sync::Arc;

use ash::vk;
use gpu_interop_core::{
    Error, ErrorKind, MemoryHandle, MemoryHandleKind, MemoryImport, Result, SemaphoreHandle, SemaphoreHandleKind,
    SemaphoreImport, SemaphorePayload,
};

use crate::buffer::{self, OwnedBuffer, Unbound};
use crate::handles::{self, Exported};
use crate::interop::VulkanInterop;
use crate::memory::{Memory, Sharing};
use crate::placement::MemoryPlacement;
use crate::query::{ExternalFeatures, memory_handle_type, semaphore_handle_type};
use crate::semaphore::OwnedSemaphore;
use crate::tracking::State;

/// Options of an [`ExportableBuffer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BufferOptions {
    /// Size, bytes. The allocation may be larger.
    pub size: u64,
    /// Vulkan's use of the buffer. `SHADER_DEVICE_ADDRESS` needs the feature `bufferDeviceAddress` enabled.
    pub usage: vk::BufferUsageFlags,
    /// Requests a dedicated allocation. One is made anyway where the driver requires it.
    pub dedicated: bool,
    /// Placement of the memory.
    pub memory: MemoryPlacement,
    /// Handle kind of the exports. [`MemoryHandleKind::DmaBufFd`] needs `VK_EXT_external_memory_dma_buf` enabled.
    pub handle: MemoryHandleKind,
}

impl BufferOptions {
    /// Options for a buffer of `size` bytes for `usage` in device-local memory, exported as an opaque fd or an NT
    /// handle, with a dedicated allocation only if the driver requires one.
    #[must_use]
    pub fn new(size: u64, usage: vk::BufferUsageFlags) -> Self {
        Self { size, usage, dedicated: false, memory: MemoryPlacement::DeviceLocal, handle: handles::MEMORY }
    }
}

setters! {
    BufferOptions {
        /// Requests a dedicated allocation.
        dedicated: bool;
        /// Sets the placement of the memory.
        memory: MemoryPlacement;
        /// Sets the handle kind of the exports.
        handle: MemoryHandleKind;
    }
}

/// A buffer whose memory can be exported. Destroyed on drop; exported handles stay valid.
#[derive(Debug, Clone)]
pub struct ExportableBuffer {
    buffer: OwnedBuffer,
    handle: MemoryHandleKind,
}

impl ExportableBuffer {
    /// Creates a buffer that can be exported, after a query whether the device supports it.
    ///
    /// This device owns the buffer: release it ([`Recording::release`](crate::Recording::release)) before the other API
    /// uses it, even if the other API writes it first.
    ///
    /// Calls `vkCreateBuffer` with `VkExternalMemoryBufferCreateInfo` and `vkAllocateMemory` with
    /// `VkExportMemoryAllocateInfo`, plus `VkMemoryDedicatedAllocateInfo` for dedicated allocations.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) if the device does not export buffers of
    /// this usage as this kind, lacks a feature or an extension of the usage, or has no memory of this placement; `InvalidArgument` for a size of 0 or no usage;
    /// `OutOfMemory`.
    #[doc(alias(
        "vkCreateBuffer",
        "VkExternalMemoryBufferCreateInfo",
        "vkGetBufferMemoryRequirements2",
        "vkBindBufferMemory",
        "vkAllocateMemory",
        "VkExportMemoryAllocateInfo"
    ))]
    pub fn new(interop: &VulkanInterop, options: &BufferOptions) -> Result<Self> {
        const OPERATION: &str = "ExportableBuffer::new";
        buffer::check(OPERATION, interop, options.size, options.usage)?;
        let features = interop.buffer_features(options.handle, options.usage)?;
        let Some(types) = exportable_as(options.handle, &features) else {
            return Err(Error::unsupported(
                OPERATION,
                "the device cannot export buffers of this usage as this kind of handle",
            )
            .with_device(interop.identity())
            .with_context("handle", options.handle)
            .with_context("usage", format_args!("{:?}", options.usage)));
        };
        let buffer = Unbound::new(interop, options.size, options.usage, types)?;
        let dedicated = options.dedicated || features.dedicated_only;
        let memory = Memory::new(interop, &buffer.needs(), &Sharing::Export(types), options.memory, dedicated)?;
        Ok(Self { buffer: buffer.bind(memory, Some(State::Owned))?, handle: options.handle })
    }

    /// The buffer itself.
    #[must_use]
    pub fn buffer(&self) -> &OwnedBuffer {
        &self.buffer
    }

    /// The handle kind of the exports.
    #[must_use]
    pub fn handle_kind(&self) -> MemoryHandleKind {
        self.handle
    }

    /// Exports the memory, for another process or API. For an import in this process use
    /// [`import_request`](Self::import_request). Every call returns a new descriptor or handle, owned by the caller,
    /// that keeps the memory alive even after this buffer is destroyed. Calls `vkGetMemoryFdKHR` or
    /// `vkGetMemoryWin32HandleKHR`.
    ///
    /// The descriptor closes on exec. If the driver does not set close-on-exec itself, another thread's `exec` can
    /// inherit the descriptor before this crate sets it.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](gpu_interop_core::ErrorKind::OutOfMemory), `Driver`, or `System` if the process is
    /// out of descriptors; nothing is leaked.
    #[doc(alias("vkGetMemoryFdKHR", "vkGetMemoryWin32HandleKHR"))]
    pub fn export(&self) -> Result<MemoryHandle> {
        self.buffer.memory_object().export(self.handle)
    }

    /// Exports the memory as an import request: handle, allocation size, dedicated flag, device identity.
    ///
    /// For another process, send these values (`into_handle`, `size`, `is_dedicated`, `exporter`). That process builds
    /// a request with `MemoryImport::new`, which is `unsafe`: its caller promises that the values are true.
    ///
    /// # Errors
    /// As [`export`](Self::export).
    #[doc(alias("vkGetMemoryFdKHR", "vkGetMemoryWin32HandleKHR"))]
    pub fn import_request(&self) -> Result<MemoryImport> {
        self.buffer.memory_object().import_request(self.handle)
    }
}

/// Adds the remedy to an error for dma-bufs without a modifier: some drivers export none.
pub(crate) fn needs_modifier(error: Error, kind: MemoryHandleKind, remedy: &str) -> Error {
    if !cfg!(unix) || kind != MemoryHandleKind::DmaBufFd || error.kind() != ErrorKind::Unsupported {
        return error;
    }
    error.with_context("remedy", format_args!("some drivers export dma-bufs with a modifier only; use {remedy}"))
}

/// Vulkan's flag for the kind, if both the device and this crate export it.
pub(crate) fn exportable_as(
    kind: MemoryHandleKind,
    features: &ExternalFeatures<MemoryHandleKind>,
) -> Option<vk::ExternalMemoryHandleTypeFlags> {
    memory_handle_type(kind).filter(|_| handles::exports(kind) && features.exportable)
}

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
