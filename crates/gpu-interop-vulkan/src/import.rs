//! Buffers on imported memory.

use ash::vk;
use gpu_interop_core::{Error, ImportError, MemoryImport, Result};

use crate::buffer::{self, OwnedBuffer, Unbound};
use crate::import_memory::{self, Incoming};
use crate::interop::VulkanInterop;
use crate::placement::MemoryPlacement;
use crate::tracking::State;

const OPERATION: &str = "ImportedBuffer::new";

/// Options of an [`ImportedBuffer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BufferImportOptions {
    /// The buffer's size, bytes; at most the size of the imported allocation.
    pub size: u64,
    /// Vulkan's use of the buffer. Must be the exporter's usage for a dedicated allocation of Vulkan.
    pub usage: vk::BufferUsageFlags,
    /// Placement that the exporter used. Vulkan requires the same memory type on both sides; the same placement and
    /// usage select the same type on the same device.
    pub memory: MemoryPlacement,
    /// The exporter's memory type, if known; overrides the selection by placement.
    pub memory_type: Option<u32>,
}

impl BufferImportOptions {
    /// Options for a buffer of `size` bytes for `usage` in device-local memory.
    #[must_use]
    pub fn new(size: u64, usage: vk::BufferUsageFlags) -> Self {
        Self { size, usage, memory: MemoryPlacement::DeviceLocal, memory_type: None }
    }
}

setters! {
    BufferImportOptions {
        /// Sets the placement that the exporter used.
        memory: MemoryPlacement;
        /// Sets the memory type that the exporter used.
        memory_type: u32;
    }
}

/// A buffer on memory that was exported elsewhere. Destroyed on drop; the exporter's memory is unaffected.
#[derive(Debug, Clone)]
pub struct ImportedBuffer {
    buffer: OwnedBuffer,
}

impl ImportedBuffer {
    /// Imports memory and binds a new buffer to it at offset 0. Calls `vkAllocateMemory` with `VkImportMemoryFdInfoKHR`
    /// or `VkImportMemoryWin32HandleInfoKHR`.
    ///
    /// The other API owns the buffer: acquire it ([`Recording::acquire`](crate::Recording::acquire)) before commands
    /// use it, even to write it first. A Vulkan exporter has released it by then.
    ///
    /// On success the import owns the handle. On failure the request is returned with its handle open, whatever the
    /// driver did: the driver only gets a duplicate.
    ///
    /// # Errors
    /// * `InvalidArgument`: a size of 0 or no usage; a buffer larger than the allocation; a dedicated allocation of
    ///   another size than the buffer needs; a descriptor that is closed or cannot be GPU memory; a missing dedicated
    ///   flag that the device or the driver requires; an unfit memory type. The driver was not called.
    /// * `Unsupported`: the device does not import this kind. The driver was not called.
    /// * `DeviceMismatch`: the request names another exporter. The driver was not called.
    /// * `ImportRejected` or `OutOfMemory`: the driver rejected the import. Drivers also report "out of memory" for a
    ///   size larger than the exported allocation.
    #[doc(alias(
        "VkImportMemoryFdInfoKHR",
        "VkImportMemoryWin32HandleInfoKHR",
        "vkGetMemoryFdPropertiesKHR",
        "vkGetMemoryWin32HandlePropertiesKHR"
    ))]
    pub fn new(
        interop: &VulkanInterop,
        request: MemoryImport,
        options: &BufferImportOptions,
    ) -> Result<Self, ImportError<MemoryImport>> {
        match import(interop, &request, options) {
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
    buffer::check(OPERATION, interop, options.size, options.usage)?;
    if options.size > request.size() {
        return Err(Error::invalid(OPERATION, "the buffer is larger than the imported memory")
            .with_context("buffer", format_args!("{} bytes", options.size)));
    }
    if request.is_dedicated() && request.image().is_some() {
        return Err(Error::invalid(OPERATION, "the memory is dedicated to an image; import it as an `ImportedImage`"));
    }
    request.check_buffer(OPERATION, ..options.size)?;
    let features = interop.buffer_features(incoming.kind(), options.usage)?;
    let types = incoming
        .handle_type(&features)
        .map_err(|error| error.with_context("usage", format_args!("{:?}", options.usage)))?;
    let buffer = Unbound::new(interop, options.size, options.usage, types)?;
    let memory = incoming.allocate(&buffer.needs(), types, options.memory, options.memory_type)?;
    // The other API owns the buffer until it is acquired.
    buffer.bind(memory, Some(State::External))
}
