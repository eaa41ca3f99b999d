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
    /// The memory must be allocated for export. For other memory, some drivers report success without a handle, and
    /// some report codes of unrelated failures. Allocators allocate for export only on request:
    /// * VMA: set `VmaAllocatorCreateInfo::pTypeExternalMemoryHandleTypes`, or create a pool with
    ///   `pMemoryAllocateNext`.
    /// * `gpu-allocator`: versions without such an option cannot; allocate the memory yourself.
    ///
    /// The memory of an image with linear tiling should be a dedicated allocation. NVIDIA's driver loses an importer's
    /// writes to other allocations (see [`ExportableImage::new`](crate::ExportableImage::new)).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a null memory or a size of 0,
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) for a handle type that this crate does not
    /// export. Errors of the driver.
    ///
    /// # Safety
    /// * The memory is live and belongs to this device.
    /// * The memory was allocated with this size and dedicated flag.
    /// * `VkExportMemoryAllocateInfo::handleTypes` of the allocation contained the handle type.
    /// * On Windows, no NT handle of this type was exported from the memory before. Vulkan allows one export; duplicate
    ///   the existing handle instead.
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
        // SAFETY: the driver has just exported the handle from this memory, as the type of its variant. The handle is a
        // new descriptor or NT handle that keeps the memory alive. The caller guarantees size and dedicated flag. The
        // request names Vulkan and the exporting device.
        let request = unsafe { MemoryImport::new(handle, memory.size).dedicated(memory.dedicated) };
        let request = request.exported_by(self.identity().clone());
        // SAFETY: the descriptor is new. Its file is memory of the driver in this process. The driver maps the file and
        // never shrinks it.
        Ok(unsafe { request.trusted_peer(true) })
    }

    /// Exports a semaphore that the application created, as a complete import request: handle and exporting device.
    /// Calls `vkGetSemaphoreFdKHR` or `vkGetSemaphoreWin32HandleKHR`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a null semaphore,
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) if the device does not export semaphores as
    /// `kind`. Errors of the driver.
    ///
    /// # Safety
    /// * The semaphore is live and belongs to this device.
    /// * The semaphore is a timeline exactly if `kind` is a kind of timelines.
    /// * `VkExportSemaphoreCreateInfo::handleTypes` of the semaphore contained the handle type.
    /// * On Windows, no NT handle was exported from the semaphore before.
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
        // SAFETY: the driver has just exported the handle from this semaphore. The caller guarantees that the handle's
        // variant matches the semaphore's type. The handle is a new descriptor or NT handle. The request names the
        // exporting device.
        let request = unsafe { SemaphoreImport::new(handle) };
        Ok(request.exported_by(self.identity().clone()))
    }
}
