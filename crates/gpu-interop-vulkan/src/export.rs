//! Buffers that other APIs can import.

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

/// What an [`ExportableBuffer`] is created with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BufferOptions {
    /// Size, bytes. The allocation may be greater.
    pub size: u64,
    /// What Vulkan uses the buffer for. `SHADER_DEVICE_ADDRESS` needs the feature `bufferDeviceAddress` enabled.
    pub usage: vk::BufferUsageFlags,
    /// Whether to make a dedicated allocation. Made anyway where the driver demands one.
    pub dedicated: bool,
    /// Where the memory should be.
    pub memory: MemoryPlacement,
    /// What the buffer is exported as. [`MemoryHandleKind::DmaBufFd`] needs `VK_EXT_external_memory_dma_buf` enabled.
    pub handle: MemoryHandleKind,
}

impl BufferOptions {
    /// A buffer of `size` bytes in the device's own memory, exported as an opaque fd or an NT handle, usable for `usage`, with a
    /// dedicated allocation only if the driver demands one.
    #[must_use]
    pub fn new(size: u64, usage: vk::BufferUsageFlags) -> Self {
        Self { size, usage, dedicated: false, memory: MemoryPlacement::DeviceLocal, handle: handles::MEMORY }
    }

    /// Asks for a dedicated allocation.
    #[must_use]
    pub fn dedicated(mut self, dedicated: bool) -> Self {
        self.dedicated = dedicated;
        self
    }

    /// Says where the memory should be.
    #[must_use]
    pub fn memory(mut self, memory: MemoryPlacement) -> Self {
        self.memory = memory;
        self
    }

    /// Says what the buffer is exported as.
    #[must_use]
    pub fn handle(mut self, handle: MemoryHandleKind) -> Self {
        self.handle = handle;
        self
    }
}

/// A buffer whose memory can be exported. Destroyed when dropped; what was exported stays valid on its own.
#[derive(Debug, Clone)]
pub struct ExportableBuffer {
    buffer: OwnedBuffer,
    handle: MemoryHandleKind,
}

impl ExportableBuffer {
    /// Creates a buffer that can be exported. The device is asked first whether it can.
    ///
    /// The buffer is this device's at first: release it ([`Recording::release`](crate::Recording::release)) before the
    /// other side uses it, also if the other side is the first to write it.
    ///
    /// Rests on `vkCreateBuffer` with `VkExternalMemoryBufferCreateInfo` and `vkAllocateMemory` with
    /// `VkExportMemoryAllocateInfo`, plus `VkMemoryDedicatedAllocateInfo` for dedicated allocations.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) if the device does not export such a buffer
    /// as this kind, or has no memory in that place; `InvalidArgument` for a size of 0 or no usage; `OutOfMemory`.
    pub fn new(interop: &VulkanInterop, options: &BufferOptions) -> Result<Self> {
        const OPERATION: &str = "ExportableBuffer::new";
        buffer::check(OPERATION, options.size, options.usage)?;
        let features = interop.buffer_features(options.handle, options.usage)?;
        let Some(types) = exportable_as(options.handle, &features) else {
            return Err(Error::unsupported(
                OPERATION,
                "buffers of this usage cannot be exported as this kind of handle",
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

    /// What it is exported as.
    #[must_use]
    pub fn handle_kind(&self) -> MemoryHandleKind {
        self.handle
    }

    /// Exports the memory, for another process or API. To import it in this process, use
    /// [`import_request`](Self::import_request). Every call gives a new descriptor or handle, owned by the caller, that
    /// keeps the memory alive even after this buffer is gone. Rests on `vkGetMemoryFdKHR` or `vkGetMemoryWin32HandleKHR`.
    ///
    /// The descriptor closes on exec. A driver that does not see to that itself leaves a moment in which another
    /// thread's `exec` inherits it.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](gpu_interop_core::ErrorKind::OutOfMemory), `Driver`, or `System` if the process is
    /// out of descriptors; nothing is leaked.
    pub fn export(&self) -> Result<MemoryHandle> {
        self.buffer.memory_object().export(self.handle)
    }

    /// Exports the memory as a complete request for an importer: handle, allocation size, dedicated flag, identity.
    ///
    /// For another process send these parts (`into_handle`, `size`, `is_dedicated`, `exporter`). It makes a request of them by
    /// `MemoryImport::new`, which is `unsafe`: its caller promises that they are true.
    ///
    /// # Errors
    /// As [`export`](Self::export).
    pub fn import_request(&self) -> Result<MemoryImport> {
        self.buffer.memory_object().import_request(self.handle)
    }
}

/// Vulkan's flag for the kind, if the device exports it and this crate can.
pub(crate) fn exportable_as(
    kind: MemoryHandleKind,
    features: &ExternalFeatures<MemoryHandleKind>,
) -> Option<vk::ExternalMemoryHandleTypeFlags> {
    memory_handle_type(kind).filter(|_| handles::exports(kind) && features.exportable)
}
