//! Import requests for memory and semaphores that the application created itself.

use ash::vk;
use gpu_interop_core::{
    Error, MemoryHandleKind, MemoryImport, Result, SemaphoreHandleKind, SemaphoreImport, SemaphorePayload,
};

use crate::handles::{self, Exported};
use crate::interop::VulkanInterop;
use crate::query::{memory_handle_type, semaphore_handle_type};

/// A `VkDeviceMemory` of the application, for [`VulkanInterop::export_memory`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RawMemory {
    /// The memory.
    pub memory: vk::DeviceMemory,
    /// `VkMemoryAllocateInfo::allocationSize`, bytes.
    pub size: u64,
    /// `true` if the memory was allocated with `VkMemoryDedicatedAllocateInfo`. The default is `false`.
    pub dedicated: bool,
    /// Handle type that the memory is exported as. The default is an opaque file descriptor or NT handle.
    pub handle: MemoryHandleKind,
}

impl RawMemory {
    /// Describes `memory` of `size` bytes that is not a dedicated allocation.
    #[must_use]
    pub fn new(memory: vk::DeviceMemory, size: u64) -> Self {
        Self { memory, size, dedicated: false, handle: handles::MEMORY }
    }

    /// Sets whether the memory is a dedicated allocation.
    #[must_use]
    pub fn dedicated(mut self, dedicated: bool) -> Self {
        self.dedicated = dedicated;
        self
    }

    /// Sets the handle type.
    #[must_use]
    pub fn handle(mut self, handle: MemoryHandleKind) -> Self {
        self.handle = handle;
        self
    }
}

impl VulkanInterop {
    /// Exports memory that the application allocated, as a complete import request: handle, size, dedicated flag and
    /// exporting device. The handle keeps the memory alive. Calls `vkGetMemoryFdKHR` or `vkGetMemoryWin32HandleKHR`.
    ///
    /// The memory must be allocated for export. Allocators do that on request only: VMA with
    /// `VmaAllocatorCreateInfo::pTypeExternalMemoryHandleTypes` or a pool with `pMemoryAllocateNext`; with a version of
    /// `gpu-allocator` that has no such option, allocate the memory yourself. Some drivers report other memory as success without a handle, or with codes of any
    /// other failure.
    ///
    /// Allocate the memory of an image with linear tiling as dedicated: NVIDIA's driver loses an importer's writes
    /// otherwise (see [`ExportableImage::new`](crate::ExportableImage::new)).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a null memory or a size of 0,
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) for a handle type that this crate does not
    /// export; otherwise the driver's error.
    ///
    /// # Safety
    /// The memory is live, belongs to this device, and was allocated with this size and dedicated flag and with
    /// `VkExportMemoryAllocateInfo::handleTypes` that contains the handle type. On Windows, no NT handle of this type
    /// was exported from it before: Vulkan allows one; duplicate that handle instead.
    pub unsafe fn export_memory(&self, memory: &RawMemory) -> Result<MemoryImport> {
        const OPERATION: &str = "VulkanInterop::export_memory";
        self.check_process(OPERATION)?;
        if memory.memory == vk::DeviceMemory::null() || memory.size == 0 {
            return Err(Error::invalid(OPERATION, "the memory is null or its size is 0").with_device(self.identity()));
        }
        let types = memory_handle_type(memory.handle).filter(|_| handles::exports(memory.handle)).ok_or_else(|| {
            Error::unsupported(OPERATION, "memory is not exported as this handle type")
                .with_context("handle", memory.handle)
        })?;
        let handle = handles::export_memory(self, memory.memory, (memory.handle, types), &Exported::default())
            .map_err(|error| {
                error
                    .with_device(self.identity())
                    .with_context("handle", memory.handle)
                    .with_context("needs", "memory allocated with VkExportMemoryAllocateInfo for this handle type")
            })?;
        // SAFETY: the driver has just exported the handle from this memory as the type that its variant names; it is a
        // new descriptor or NT handle that keeps the memory. The caller guarantees size and dedicated flag. The memory
        // is Vulkan's, and the device that exported it is named.
        let request = unsafe { MemoryImport::new(handle, memory.size).dedicated(memory.dedicated) };
        let request = request.exported_by(self.identity().clone());
        // SAFETY: the descriptor is new, and the file behind it is memory of the driver in this process, which maps the
        // file itself and never shrinks it.
        Ok(unsafe { request.trusted_peer(true) })
    }

    /// Exports a semaphore that the application created, as a complete import request: handle and exporting device.
    /// Calls `vkGetSemaphoreFdKHR` or `vkGetSemaphoreWin32HandleKHR`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a null semaphore,
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) if the device does not export semaphores as
    /// `kind`; otherwise the driver's error.
    ///
    /// # Safety
    /// The semaphore is live, belongs to this device, is a timeline exactly if `kind` is, and was created with
    /// `VkExportSemaphoreCreateInfo::handleTypes` that contains the handle type. On Windows, no NT handle was exported
    /// from it before.
    pub unsafe fn export_semaphore(
        &self,
        semaphore: vk::Semaphore,
        kind: SemaphoreHandleKind,
    ) -> Result<SemaphoreImport> {
        const OPERATION: &str = "VulkanInterop::export_semaphore";
        self.check_process(OPERATION)?;
        if semaphore == vk::Semaphore::null() {
            return Err(Error::invalid(OPERATION, "the semaphore is null").with_device(self.identity()));
        }
        let own = match kind.payload() {
            SemaphorePayload::Timeline => handles::TIMELINE_SEMAPHORE,
            _ => handles::BINARY_SEMAPHORE,
        };
        let exportable = kind == own && self.semaphore_features(kind)?.exportable;
        let types = semaphore_handle_type(kind).filter(|_| exportable).ok_or_else(|| {
            Error::unsupported(OPERATION, "the device does not export semaphores as this handle type")
                .with_device(self.identity())
                .with_context("handle", kind)
        })?;
        let handle = handles::export_semaphore(self, semaphore, (kind, types), &Exported::default())
            .map_err(|error| error.with_device(self.identity()).with_context("handle", kind))?;
        // SAFETY: the driver has just exported the handle from this semaphore; the caller guarantees that its variant
        // names the semaphore's type. It is a new descriptor or NT handle, and the device that exported it is named.
        let request = unsafe { SemaphoreImport::new(handle) };
        Ok(request.exported_by(self.identity().clone()))
    }
}
