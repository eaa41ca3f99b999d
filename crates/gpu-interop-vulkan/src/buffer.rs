//! A buffer together with its memory.

use std::ptr::NonNull;
use std::sync::Arc;

use ash::vk;
use gpu_interop_core::{Error, Result};

use crate::error::{self, Checked};
use crate::interop::VulkanInterop;
use crate::mapping::Mapping;
use crate::placement::{MemoryPlacement, memory_type};

/// A `VkBuffer` bound at offset 0 of a `VkDeviceMemory` of its own. Destroyed with its memory once the last clone is
/// gone.
///
/// Dropping the last clone while submitted work still uses the buffer is an error of whoever submitted that work
/// through ash; work submitted through [`Context`](crate::Context) keeps what it uses alive.
#[derive(Debug, Clone)]
pub struct OwnedBuffer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    interop: VulkanInterop,
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    size: u64,
    usage: vk::BufferUsageFlags,
    allocation_size: u64,
    memory_type: u32,
    dedicated: bool,
    mapping: Option<Mapping>,
}

/// Where an allocation comes from and goes to.
pub(crate) enum Sharing {
    /// Used by this device alone.
    None,
    /// Can be exported as these kinds.
    Export(vk::ExternalMemoryHandleTypeFlags),
    /// Imported. The driver may take the descriptor over.
    #[cfg(unix)]
    Import(vk::ExternalMemoryHandleTypeFlags, std::os::fd::RawFd),
}

/// A buffer without memory: the state between `vkCreateBuffer` and `vkBindBufferMemory`.
pub(crate) struct Unbound {
    inner: Inner,
    /// What the buffer needs of its memory.
    pub(crate) requirements: vk::MemoryRequirements,
    /// Whether the driver demands a dedicated allocation.
    pub(crate) requires_dedicated: bool,
}

impl Unbound {
    pub(crate) fn new(
        interop: &VulkanInterop,
        size: u64,
        usage: vk::BufferUsageFlags,
        external: vk::ExternalMemoryHandleTypeFlags,
    ) -> Result<Self> {
        const OPERATION: &str = "vkCreateBuffer";
        if size == 0 {
            return Err(Error::invalid(OPERATION, "the buffer's size is 0 bytes"));
        }
        if usage.is_empty() {
            return Err(Error::invalid(OPERATION, "the buffer has no usage"));
        }
        let device = interop.device();
        let mut external_info = vk::ExternalMemoryBufferCreateInfo::default().handle_types(external);
        let mut info = vk::BufferCreateInfo::default().size(size).usage(usage).sharing_mode(vk::SharingMode::EXCLUSIVE);
        if !external.is_empty() {
            info = info.push_next(&mut external_info);
        }
        // SAFETY: the device is live (`VulkanInterop::new`), size and usage are not empty, and the caller has asked
        // the device whether it shares such buffers.
        let buffer = unsafe { device.create_buffer(&info, None) }
            .checked(OPERATION)
            .map_err(|error| error.with_device(interop.identity()).with_context("size", size))?;
        let inner = Inner {
            interop: interop.clone(),
            buffer,
            memory: vk::DeviceMemory::null(),
            size,
            usage,
            allocation_size: 0,
            memory_type: 0,
            dedicated: false,
            mapping: None,
        };

        let mut dedicated = vk::MemoryDedicatedRequirements::default();
        let mut requirements = vk::MemoryRequirements2::default().push_next(&mut dedicated);
        let of = vk::BufferMemoryRequirementsInfo2::default().buffer(buffer);
        // SAFETY: the buffer was just made from this device, which is Vulkan 1.1 or later.
        unsafe { device.get_buffer_memory_requirements2(&of, &mut requirements) };
        let requirements = requirements.memory_requirements;
        Ok(Self { inner, requirements, requires_dedicated: dedicated.requires_dedicated_allocation == vk::TRUE })
    }

    /// Allocates `size` bytes. A descriptor to import is the driver's once this succeeded.
    pub(crate) fn allocate(&mut self, sharing: &Sharing, size: u64, memory_type: u32, dedicated: bool) -> Result<()> {
        const OPERATION: &str = "vkAllocateMemory";
        let mut dedicated_info = vk::MemoryDedicatedAllocateInfo::default().buffer(self.inner.buffer);
        let mut flags_info = vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
        let mut export_info = vk::ExportMemoryAllocateInfo::default();
        #[cfg(unix)]
        let mut import_info = vk::ImportMemoryFdInfoKHR::default();

        let mut info = vk::MemoryAllocateInfo::default().allocation_size(size).memory_type_index(memory_type);
        if dedicated {
            info = info.push_next(&mut dedicated_info);
        }
        if self.inner.usage.contains(vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS) {
            info = info.push_next(&mut flags_info);
        }
        let mut translate: fn(&'static str, vk::Result) -> Error = error::driver;
        match *sharing {
            Sharing::None => {}
            Sharing::Export(types) => {
                export_info = export_info.handle_types(types);
                info = info.push_next(&mut export_info);
            }
            #[cfg(unix)]
            Sharing::Import(types, fd) => {
                import_info = import_info.handle_type(types).fd(fd);
                info = info.push_next(&mut import_info);
                translate = error::import;
            }
        }
        // SAFETY: the device is live; the memory type is one of its own that the buffer allows; the size is at least
        // what the buffer needs; every chained structure lives to the end of the call.
        let memory = unsafe { self.inner.interop.device().allocate_memory(&info, None) }.map_err(|code| {
            translate(OPERATION, code)
                .with_device(self.inner.interop.identity())
                .with_context("size", format_args!("{size} bytes"))
                .with_context("memory type", memory_type)
                .with_context("dedicated", dedicated)
        })?;
        self.inner.memory = memory;
        self.inner.allocation_size = size;
        self.inner.memory_type = memory_type;
        self.inner.dedicated = dedicated;
        Ok(())
    }

    /// Binds the allocated memory, and maps it if it is host memory.
    pub(crate) fn bind(mut self, placement: MemoryPlacement) -> Result<OwnedBuffer> {
        let inner = &mut self.inner;
        let device = inner.interop.device();
        // SAFETY: buffer and memory are this object's own, of one device, and neither is bound yet; the memory's type
        // and size fit the buffer.
        unsafe { device.bind_buffer_memory(inner.buffer, inner.memory, 0) }
            .checked("vkBindBufferMemory")
            .map_err(|error| error.with_device(inner.interop.identity()))?;
        if placement == MemoryPlacement::HostVisible {
            // SAFETY: the memory is host-visible (`memory_type` checked it) and not mapped yet.
            let base = unsafe { device.map_memory(inner.memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()) }
                .checked("vkMapMemory")
                .map_err(|error| error.with_device(inner.interop.identity()))?;
            let base = NonNull::new(base.cast::<u8>())
                .ok_or_else(|| error::driver("vkMapMemory", vk::Result::ERROR_MEMORY_MAP_FAILED))?;
            // SAFETY: the whole allocation is mapped, which is at least the buffer's size, until the memory is freed
            // in the same drop that ends this object. No Rust reference into it exists.
            inner.mapping = Some(unsafe { Mapping::new(base, inner.size) });
        }
        Ok(OwnedBuffer { inner: Arc::new(self.inner) })
    }
}

impl OwnedBuffer {
    /// A buffer of `size` bytes that is not shared, for staging and scratch.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a size of 0 or no usage,
    /// `OutOfMemory`, `Unsupported` if the device has no memory in this place. Rests on `vkCreateBuffer`,
    /// `vkAllocateMemory`, `vkBindBufferMemory` and `vkMapMemory`.
    pub fn new(
        interop: &VulkanInterop,
        size: u64,
        usage: vk::BufferUsageFlags,
        placement: MemoryPlacement,
    ) -> Result<Self> {
        let mut buffer = Unbound::new(interop, size, usage, vk::ExternalMemoryHandleTypeFlags::empty())?;
        let memory_type = memory_type(interop, buffer.requirements.memory_type_bits, placement, None)?;
        let dedicated = buffer.requires_dedicated;
        buffer.allocate(&Sharing::None, buffer.requirements.size, memory_type, dedicated)?;
        buffer.bind(placement)
    }

    /// The `VkBuffer`, valid as long as a clone of this object lives.
    #[must_use]
    pub fn as_raw(&self) -> vk::Buffer {
        self.inner.buffer
    }

    /// The `VkDeviceMemory`, valid as long as a clone of this object lives. Host-visible memory is mapped already;
    /// mapping it again is an error.
    #[must_use]
    pub fn memory(&self) -> vk::DeviceMemory {
        self.inner.memory
    }

    /// The buffer's size, bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.inner.size
    }

    /// What it was created to be used for.
    #[must_use]
    pub fn usage(&self) -> vk::BufferUsageFlags {
        self.inner.usage
    }

    /// The size of the memory behind it, bytes: what an importer must be told.
    #[must_use]
    pub fn allocation_size(&self) -> u64 {
        self.inner.allocation_size
    }

    /// The index of its memory type among [`VulkanInterop::memory_types`].
    #[must_use]
    pub fn memory_type(&self) -> u32 {
        self.inner.memory_type
    }

    /// Whether the memory is a dedicated allocation, which an importer must be told.
    #[must_use]
    pub fn is_dedicated(&self) -> bool {
        self.inner.dedicated
    }

    /// The device that it belongs to.
    #[must_use]
    pub fn interop(&self) -> &VulkanInterop {
        &self.inner.interop
    }

    /// The address of the first byte, if the buffer is host-visible. Valid as long as a clone of this object lives.
    #[must_use]
    pub fn mapped_ptr(&self) -> Option<NonNull<u8>> {
        self.inner.mapping.as_ref().map(Mapping::as_ptr)
    }

    /// Copies `out.len()` bytes from byte `offset` on. The memory is coherent, so nothing is flushed; it is the
    /// caller's to have waited for whoever wrote it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the buffer is not host-visible,
    /// or the range goes past its end.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.mapping("OwnedBuffer::read")?.read(offset, out)
    }

    /// Copies `data` to byte `offset`. Work submitted later sees it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the buffer is not host-visible,
    /// or the range goes past its end.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.mapping("OwnedBuffer::write")?.write(offset, data)
    }

    fn mapping(&self, operation: &'static str) -> Result<&Mapping> {
        self.inner.mapping.as_ref().ok_or_else(|| {
            Error::invalid(operation, "the buffer is not host-visible; create it with MemoryPlacement::HostVisible")
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let device = self.interop.device();
        // SAFETY: both are this object's own, and null or live; nothing uses them any more, by the contract of
        // `OwnedBuffer`. Freeing the memory unmaps it.
        unsafe {
            device.destroy_buffer(self.buffer, None);
            device.free_memory(self.memory, None);
        }
    }
}
