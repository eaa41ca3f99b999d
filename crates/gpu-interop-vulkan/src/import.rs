//! Memory of another API, or of another Vulkan device, as a buffer.

use ash::vk;
use gpu_interop_core::handle::LentFd;
use gpu_interop_core::{Error, ImportError, MemoryHandle, MemoryHandleKind, MemoryImport, Result};

use crate::buffer::{OwnedBuffer, Sharing, Unbound};
use crate::error;
use crate::interop::VulkanInterop;
use crate::placement::{MemoryPlacement, memory_type};
use crate::query::memory_handle_type;

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
    /// On success the handle belongs to the import. On failure the request comes back with its handle open, whatever
    /// the driver did: it only ever gets a duplicate.
    ///
    /// # Errors
    /// * `InvalidArgument`: a size of 0, a buffer greater than the allocation, a dedicated allocation of another size
    ///   than the buffer needs, a descriptor that is closed or can never be GPU memory, a missing dedicated flag, an
    ///   unfit memory type. The driver was not called.
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
            Err(error) => {
                let error = error
                    .with_device(interop.identity())
                    .with_context("handle", request.handle().kind())
                    .with_context("import size", format_args!("{} bytes", request.size()));
                Err(ImportError::new(error, request))
            }
        }
    }

    /// The buffer itself.
    #[must_use]
    pub fn buffer(&self) -> &OwnedBuffer {
        &self.buffer
    }
}

fn import(interop: &VulkanInterop, request: &MemoryImport, options: &BufferImportOptions) -> Result<OwnedBuffer> {
    let kind = request.handle().kind();
    let (MemoryHandle::OpaqueFd(fd) | MemoryHandle::DmaBufFd(fd)) = request.handle() else {
        return Err(Error::unsupported(OPERATION, "only descriptors can be imported here"));
    };
    request.validate(OPERATION, interop.identity())?;
    if options.size > request.size() {
        return Err(Error::invalid(OPERATION, "the buffer is greater than the imported memory")
            .with_context("buffer", format_args!("{} bytes", options.size)));
    }
    let fd = std::os::fd::AsFd::as_fd(fd);
    let features = interop.buffer_features(kind, options.usage)?;
    let Some(types) = memory_handle_type(kind).filter(|_| features.importable) else {
        return Err(Error::unsupported(OPERATION, "the device does not import this kind of handle for such a buffer")
            .with_context("usage", format_args!("{:?}", options.usage)));
    };
    if features.dedicated_only && !request.is_dedicated() {
        return Err(Error::invalid(
            OPERATION,
            "the device imports this kind only as a dedicated allocation; set the flag",
        ));
    }

    let mut buffer = Unbound::new(interop, options.size, options.usage, types)?;
    let needed = buffer.requirements.size;
    let fits = if request.is_dedicated() { needed == request.size() } else { needed <= request.size() };
    if !fits {
        return Err(Error::invalid(OPERATION, "the imported memory has not the size that the buffer needs")
            .with_context("needed", format_args!("{needed} bytes"))
            .with_context("dedicated", request.is_dedicated()));
    }
    let loan = LentFd::new(fd)?;
    let mut allowed = buffer.requirements.memory_type_bits;
    if kind != MemoryHandleKind::OpaqueFd {
        // Opaque descriptors must not be asked about; only the exporter knows their type.
        allowed &= memory_types_of(interop, types, loan.as_raw_fd())?;
    }
    let memory_type = memory_type(interop, allowed, options.memory, options.memory_type)?;
    match buffer.allocate(
        &Sharing::Import(types, loan.as_raw_fd()),
        request.size(),
        memory_type,
        request.is_dedicated(),
    ) {
        Ok(()) => loan.consumed(),
        Err(error) => {
            // Some drivers close the descriptor of a failed import, others do not.
            loan.settle();
            return Err(error);
        }
    }
    buffer.bind(options.memory)
}

/// The memory types that a non-opaque descriptor can be imported as, a bit each.
fn memory_types_of(interop: &VulkanInterop, types: vk::ExternalMemoryHandleTypeFlags, fd: i32) -> Result<u32> {
    let mut properties = vk::MemoryFdPropertiesKHR::default();
    // SAFETY: the descriptor is open and not of an opaque type; the function does not take it over.
    unsafe { interop.memory_fd().get_memory_fd_properties(types, fd, &mut properties) }
        .map_err(|code| error::import("vkGetMemoryFdPropertiesKHR", code))?;
    Ok(properties.memory_type_bits)
}
