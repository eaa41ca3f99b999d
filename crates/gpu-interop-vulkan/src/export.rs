//! Exportable buffers.

use ash::vk;
use gpu_interop_core::{Error, MemoryHandleKind, Result};
use gpu_interop_core::{MemoryHandle, MemoryImport};

use crate::buffer::{self, OwnedBuffer, Unbound};
use crate::handles;
use crate::interop::VulkanInterop;
use crate::memory::{Memory, Sharing};
use crate::placement::MemoryPlacement;
use crate::query::{ExternalFeatures, memory_handle_type};
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

/// Vulkan's flag for the kind, if both the device and this crate export it.
pub(crate) fn exportable_as(
    kind: MemoryHandleKind,
    features: &ExternalFeatures<MemoryHandleKind>,
) -> Option<vk::ExternalMemoryHandleTypeFlags> {
    memory_handle_type(kind).filter(|_| handles::exports(kind) && features.exportable)
}
