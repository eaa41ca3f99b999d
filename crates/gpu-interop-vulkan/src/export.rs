//! Buffers that other APIs can import.

use ash::vk;
use gpu_interop_core::{Error, MemoryHandle, MemoryHandleKind, MemoryImport, Result};

use crate::buffer::{OwnedBuffer, Sharing, Unbound};
use crate::interop::VulkanInterop;
use crate::placement::{MemoryPlacement, memory_type};
use crate::query::memory_handle_type;

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
    /// A buffer of `size` bytes in the device's own memory, exported as an opaque fd, usable for `usage`, with a
    /// dedicated allocation only if the driver demands one.
    #[must_use]
    pub fn new(size: u64, usage: vk::BufferUsageFlags) -> Self {
        Self { size, usage, dedicated: false, memory: MemoryPlacement::DeviceLocal, handle: MemoryHandleKind::OpaqueFd }
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
    /// Rests on `vkCreateBuffer` with `VkExternalMemoryBufferCreateInfo` and `vkAllocateMemory` with
    /// `VkExportMemoryAllocateInfo`, plus `VkMemoryDedicatedAllocateInfo` for dedicated allocations.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) if the device does not export such a buffer
    /// as this kind, or has no memory in that place; `InvalidArgument` for a size of 0 or no usage; `OutOfMemory`.
    pub fn new(interop: &VulkanInterop, options: &BufferOptions) -> Result<Self> {
        const OPERATION: &str = "ExportableBuffer::new";
        let features = interop.buffer_features(options.handle, options.usage)?;
        let types = memory_handle_type(options.handle).filter(|_| features.exportable && is_fd(options.handle));
        let Some(types) = types else {
            return Err(Error::unsupported(
                OPERATION,
                "buffers of this usage cannot be exported as this kind of handle",
            )
            .with_device(interop.identity())
            .with_context("handle", options.handle)
            .with_context("usage", format_args!("{:?}", options.usage)));
        };
        let mut buffer = Unbound::new(interop, options.size, options.usage, types)?;
        let memory_type = memory_type(interop, buffer.requirements.memory_type_bits, options.memory, None)?;
        let dedicated = options.dedicated || features.dedicated_only || buffer.requires_dedicated;
        buffer.allocate(&Sharing::Export(types), buffer.requirements.size, memory_type, dedicated)?;
        Ok(Self { buffer: buffer.bind(options.memory)?, handle: options.handle })
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

    /// Exports the memory. Every call gives a new descriptor, owned by the caller, that keeps the memory alive even
    /// after this buffer is gone. Rests on `vkGetMemoryFdKHR`.
    ///
    /// The descriptor closes on exec. A driver that does not see to that itself leaves a moment in which another
    /// thread's `exec` inherits it.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](gpu_interop_core::ErrorKind::OutOfMemory), `Driver`, or `System` if the process is
    /// out of descriptors; nothing is leaked.
    #[cfg(unix)]
    pub fn export(&self) -> Result<MemoryHandle> {
        use crate::error::Checked;
        const OPERATION: &str = "vkGetMemoryFdKHR";
        let interop = self.buffer.interop();
        let types = memory_handle_type(self.handle)
            .ok_or_else(|| Error::unsupported(OPERATION, "Vulkan has no handle of this kind"))?;
        let info = vk::MemoryGetFdInfoKHR::default().memory(self.buffer.memory()).handle_type(types);
        // SAFETY: the memory is live and was allocated for export as this type; `VulkanInterop::new` saw the function.
        let fd = unsafe { interop.memory_fd().get_memory_fd(&info) }
            .checked(OPERATION)
            .map_err(|error| error.with_device(interop.identity()).with_context("handle", self.handle))?;
        // SAFETY: it comes from a successful export, which makes a new descriptor for the caller.
        let fd = unsafe { crate::fd::exported(OPERATION, fd) }?;
        Ok(match self.handle {
            MemoryHandleKind::DmaBufFd => MemoryHandle::DmaBufFd(fd),
            _ => MemoryHandle::OpaqueFd(fd),
        })
    }

    /// Exports the memory as a complete request for an importer: handle, allocation size, dedicated flag, identity.
    ///
    /// # Errors
    /// As [`export`](Self::export).
    #[cfg(unix)]
    pub fn import_request(&self) -> Result<MemoryImport> {
        Ok(MemoryImport::new(self.export()?, self.buffer.allocation_size())
            .dedicated(self.buffer.is_dedicated())
            .exported_by(self.buffer.interop().identity().clone()))
    }
}

/// Whether this crate can export and import the kind.
pub(crate) fn is_fd(kind: MemoryHandleKind) -> bool {
    cfg!(unix) && matches!(kind, MemoryHandleKind::OpaqueFd | MemoryHandleKind::DmaBufFd)
}
