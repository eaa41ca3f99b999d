//! Memory of another API, or of another Vulkan device, as a buffer.

use ash::vk;
use gpu_interop_core::{Error, ImportError, MemoryImport, Result};

use crate::buffer::{self, OwnedBuffer, Unbound};
use crate::import_memory::{self, Incoming};
use crate::interop::VulkanInterop;
use crate::placement::MemoryPlacement;
use crate::tracking::State;

const OPERATION: &str = "ImportedBuffer::new";

/// What an [`ImportedBuffer`] is created with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BufferImportOptions {
    /// The buffer's size, bytes. At most the size of the imported allocation.
    pub size: u64,
    /// What Vulkan uses the buffer for. For a dedicated allocation of Vulkan it must be the exporter's usage.
    pub usage: vk::BufferUsageFlags,
    /// Where the exporter placed the memory. Vulkan demands that both sides use one memory type, and the same
    /// placement and usage choose the same type on the same device.
    pub memory: MemoryPlacement,
    /// The exporter's memory type, if it is known; it goes before the choice by placement.
    pub memory_type: Option<u32>,
}

impl BufferImportOptions {
    /// A buffer of `size` bytes for `usage`, in memory that is the device's own.
    #[must_use]
    pub fn new(size: u64, usage: vk::BufferUsageFlags) -> Self {
        Self { size, usage, memory: MemoryPlacement::DeviceLocal, memory_type: None }
    }

    /// Says where the exporter placed the memory.
    #[must_use]
    pub fn memory(mut self, memory: MemoryPlacement) -> Self {
        self.memory = memory;
        self
    }

    /// Says which memory type the exporter used.
    #[must_use]
    pub fn memory_type(mut self, index: u32) -> Self {
        self.memory_type = Some(index);
        self
    }
}

/// A buffer on memory that was exported elsewhere. Destroyed when dropped, which leaves the exporter's memory alone.
#[derive(Debug, Clone)]
pub struct ImportedBuffer {
    buffer: OwnedBuffer,
}

impl ImportedBuffer {
    /// Imports memory and binds a new buffer to it at offset 0. Rests on `vkAllocateMemory` with
    /// `VkImportMemoryFdInfoKHR`.
    ///
    /// The buffer belongs to the other side at first: acquire it ([`Recording::acquire`](crate::Recording::acquire))
    /// before commands use it, also to be the first to write it. The other side, if it is Vulkan, has released it by then.
    ///
    /// On success the handle belongs to the import. On failure the request comes back with its handle open, whatever
    /// the driver did: it only ever gets a duplicate.
    ///
    /// # Errors
    /// * `InvalidArgument`: a size of 0 or no usage, a buffer greater than the allocation, a dedicated allocation of another size
    ///   than the buffer needs, a descriptor that is closed or can never be GPU memory, a missing dedicated flag
    ///   (the device or the driver demands one), an unfit memory type. The driver was not called.
    /// * `Unsupported`: the device does not import this kind. The driver was not called.
    /// * `DeviceMismatch`: the request names another exporter. The driver was not called.
    /// * `ImportRejected` or `OutOfMemory`: the driver refused. Drivers also say "out of memory" for a size that is
    ///   greater than the exported allocation.
    pub fn new(
        interop: &VulkanInterop,
        request: MemoryImport,
        options: &BufferImportOptions,
    ) -> Result<Self, ImportError<MemoryImport>> {
        match import(interop, &request, options) {
            // The request's own descriptor is closed here; the driver has a duplicate.
            Ok(buffer) => Ok(Self { buffer }),
            Err(error) => Err(import_memory::failed(error, interop, request)),
        }
    }

    /// The buffer itself.
    #[must_use]
    pub fn buffer(&self) -> &OwnedBuffer {
        &self.buffer
    }
}

fn import(interop: &VulkanInterop, request: &MemoryImport, options: &BufferImportOptions) -> Result<OwnedBuffer> {
    let incoming = Incoming::new(OPERATION, interop, request)?;
    buffer::check(OPERATION, options.size, options.usage)?;
    if options.size > request.size() {
        return Err(Error::invalid(OPERATION, "the buffer is greater than the imported memory")
            .with_context("buffer", format_args!("{} bytes", options.size)));
    }
    if request.is_dedicated() && request.image().is_some() {
        return Err(Error::invalid(OPERATION, "the memory is dedicated to an image; import it as an `ImportedImage`"));
    }
    let features = interop.buffer_features(incoming.kind(), options.usage)?;
    let types = incoming
        .handle_type(&features)
        .map_err(|error| error.with_context("usage", format_args!("{:?}", options.usage)))?;
    let buffer = Unbound::new(interop, options.size, options.usage, types)?;
    let memory = incoming.allocate(&buffer.needs(), types, options.memory, options.memory_type)?;
    // Whoever has the memory has the buffer, until it is acquired.
    buffer.bind(memory, Some(State::External))
}
