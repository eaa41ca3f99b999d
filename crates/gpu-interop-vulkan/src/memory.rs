//! Device memory of one buffer or image, allocated or imported.

use std::ptr::NonNull;
use std::sync::Arc;

use ash::vk;
use gpu_interop_core::{Error, HostMapping, MemoryHandle, MemoryHandleKind, MemoryImport, Result};

use crate::error::{self, Checked};
use crate::handles::{self, Exported, Incoming};
use crate::heap::space::Lease;
use crate::interop::VulkanInterop;
use crate::placement::{MemoryPlacement, memory_type};

/// A `VkDeviceMemory` for one object, freed on drop. Its owner must drop the bound object first.
#[derive(Debug)]
pub(crate) struct Memory {
    interop: VulkanInterop,
    raw: vk::DeviceMemory,
    size: u64,
    memory_type: u32,
    dedicated: bool,
    mapping: Option<HostMapping>,
    exported: Exported,
}

/// The object that the memory is allocated for.
#[derive(Debug, Clone, Copy)]
enum Object {
    Buffer(vk::Buffer),
    Image(vk::Image),
}

/// Memory requirements of an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs {
    object: Object,
    device_address: bool,
    /// Bytes of the memory that the host may access if it is host-visible.
    host_range: u64,
    /// Size and memory types.
    pub(crate) requirements: vk::MemoryRequirements,
    /// The driver requires a dedicated allocation. This depends on the handle types that the object was created for.
    pub(crate) requires_dedicated: bool,
}

impl Needs {
    /// # Safety
    /// `buffer` must be a live buffer of this device, of `size` bytes and this usage.
    pub(crate) unsafe fn of_buffer(
        interop: &VulkanInterop,
        buffer: vk::Buffer,
        size: u64,
        usage: vk::BufferUsageFlags,
    ) -> Self {
        let mut dedicated = vk::MemoryDedicatedRequirements::default();
        let mut requirements = vk::MemoryRequirements2::default().push_next(&mut dedicated);
        let of = vk::BufferMemoryRequirementsInfo2::default().buffer(buffer);
        // SAFETY: the caller's promise; the device is Vulkan 1.1 or later.
        unsafe { interop.device().get_buffer_memory_requirements2(&of, &mut requirements) };
        Self {
            object: Object::Buffer(buffer),
            device_address: usage.contains(vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS),
            host_range: size,
            requirements: requirements.memory_requirements,
            requires_dedicated: dedicated.requires_dedicated_allocation == vk::TRUE,
        }
    }

    /// # Safety
    /// `image` must be a live image of this device that is not disjoint.
    pub(crate) unsafe fn of_image(interop: &VulkanInterop, image: vk::Image) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::of(interop, image, vk::ImageMemoryRequirementsInfo2::default().image(image)) }
    }

    /// Requirements of one plane.
    ///
    /// # Safety
    /// `image` must be a live disjoint image of this device with this plane.
    pub(crate) unsafe fn of_plane(interop: &VulkanInterop, image: vk::Image, plane: vk::ImageAspectFlags) -> Self {
        let mut plane = vk::ImagePlaneMemoryRequirementsInfo::default().plane_aspect(plane);
        let of = vk::ImageMemoryRequirementsInfo2::default().image(image).push_next(&mut plane);
        // SAFETY: the caller's promise.
        unsafe { Self::of(interop, image, of) }
    }

    /// # Safety
    /// As [`of_image`](Self::of_image) or [`of_plane`](Self::of_plane); `of` names the image.
    unsafe fn of(interop: &VulkanInterop, image: vk::Image, of: vk::ImageMemoryRequirementsInfo2<'_>) -> Self {
        let mut dedicated = vk::MemoryDedicatedRequirements::default();
        let mut requirements = vk::MemoryRequirements2::default().push_next(&mut dedicated);
        // SAFETY: the caller's promise; the device is Vulkan 1.1 or later.
        unsafe { interop.device().get_image_memory_requirements2(&of, &mut requirements) };
        let requirements = requirements.memory_requirements;
        Self {
            object: Object::Image(image),
            device_address: false,
            host_range: requirements.size,
            requirements,
            requires_dedicated: dedicated.requires_dedicated_allocation == vk::TRUE,
        }
    }

    /// Requirements with `offset` bytes before the object; `None` on overflow.
    pub(crate) fn after(mut self, offset: u64) -> Option<Self> {
        self.requirements.size = self.requirements.size.checked_add(offset)?;
        self.host_range = self.host_range.checked_add(offset)?;
        Some(self)
    }
}

#[cfg(all(test, unix))]
impl Needs {
    /// Requirements for tests, without an object.
    pub(crate) fn of_bytes(size: u64, requires_dedicated: bool) -> Self {
        Self {
            object: Object::Buffer(vk::Buffer::null()),
            device_address: false,
            host_range: size,
            requirements: vk::MemoryRequirements { size, alignment: 1, memory_type_bits: 1 },
            requires_dedicated,
        }
    }
}

/// External memory structures of an allocation.
pub(crate) enum Sharing<'a> {
    /// Not shared.
    None,
    /// Exportable as these handle types.
    Export(vk::ExternalMemoryHandleTypeFlags),
    /// Imported from this handle. The driver may take ownership of the lent duplicate.
    Import(vk::ExternalMemoryHandleTypeFlags, &'a Incoming<'a>),
}

impl Memory {
    /// Allocates the required size in the best memory type of this placement, dedicated if the caller or the driver
    /// requires it, and maps host-visible memory.
    pub(crate) fn new(
        interop: &VulkanInterop,
        needs: &Needs,
        sharing: &Sharing<'_>,
        placement: MemoryPlacement,
        dedicated: bool,
    ) -> Result<Self> {
        let memory_type = memory_type(interop, needs.requirements.memory_type_bits, placement, None)?;
        let dedicated = dedicated || needs.requires_dedicated;
        let mut memory = Self::allocate(interop, needs, sharing, needs.requirements.size, memory_type, dedicated)?;
        memory.map(needs, placement)?;
        Ok(memory)
    }

    /// Allocates `size` bytes, at least the required size, of a memory type that the object allows. On success the
    /// driver owns a descriptor that was imported.
    pub(crate) fn allocate(
        interop: &VulkanInterop,
        needs: &Needs,
        sharing: &Sharing<'_>,
        size: u64,
        memory_type: u32,
        dedicated: bool,
    ) -> Result<Self> {
        const OPERATION: &str = "vkAllocateMemory";
        interop.check_process(OPERATION)?;
        let mut dedicated_info = match needs.object {
            Object::Buffer(buffer) => vk::MemoryDedicatedAllocateInfo::default().buffer(buffer),
            Object::Image(image) => vk::MemoryDedicatedAllocateInfo::default().image(image),
        };
        let mut flags_info = vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
        let mut export_info = vk::ExportMemoryAllocateInfo::default();
        let mut import_info;

        let mut info = vk::MemoryAllocateInfo::default().allocation_size(size).memory_type_index(memory_type);
        if dedicated {
            info = info.push_next(&mut dedicated_info);
        }
        if needs.device_address {
            info = info.push_next(&mut flags_info);
        }
        let mut translate: fn(&'static str, vk::Result) -> Error = error::driver;
        match *sharing {
            Sharing::None => {}
            Sharing::Export(types) => {
                export_info = export_info.handle_types(types);
                info = info.push_next(&mut export_info);
            }
            Sharing::Import(types, incoming) => {
                import_info = incoming.info(types);
                info = info.push_next(&mut import_info);
                translate = error::import;
            }
        }
        // SAFETY: the device is live; the memory type is one of its own that the object allows; the size is at least
        // what the object needs; every chained structure lives to the end of the call.
        let raw = unsafe { interop.device().allocate_memory(&info, None) }.map_err(|code| {
            translate(OPERATION, code)
                .with_device(interop.identity())
                .with_context("size", format_args!("{size} bytes"))
                .with_context("memory type", memory_type)
                .with_context("dedicated", dedicated)
        })?;
        Ok(Self {
            interop: interop.clone(),
            raw,
            size,
            memory_type,
            dedicated,
            mapping: None,
            exported: Exported::default(),
        })
    }

    /// Maps the memory if the placement is host-visible. Called once.
    pub(crate) fn map(&mut self, needs: &Needs, placement: MemoryPlacement) -> Result<()> {
        if placement != MemoryPlacement::HostVisible {
            return Ok(());
        }
        let device = self.interop.device();
        // SAFETY: the memory is host-visible (`memory_type` checked it) and not mapped yet.
        let base = unsafe { device.map_memory(self.raw, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()) }
            .checked("vkMapMemory")
            .map_err(|error| error.with_device(self.interop.identity()))?;
        let base = NonNull::new(base.cast::<u8>())
            .ok_or_else(|| error::driver("vkMapMemory", vk::Result::ERROR_MEMORY_MAP_FAILED))?;
        // SAFETY: the whole allocation is mapped, which is at least the object's size, until this object's drop frees
        // the memory. No Rust reference into it exists.
        self.mapping = Some(unsafe { HostMapping::new(base, needs.host_range) });
        Ok(())
    }

    pub(crate) fn as_raw(&self) -> vk::DeviceMemory {
        self.raw
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn memory_type(&self) -> u32 {
        self.memory_type
    }

    pub(crate) fn is_dedicated(&self) -> bool {
        self.dedicated
    }

    pub(crate) fn mapped_ptr(&self) -> Option<NonNull<u8>> {
        self.mapping.as_ref().map(HostMapping::as_ptr)
    }

    pub(crate) fn mapping(&self, operation: &'static str) -> Result<&HostMapping> {
        self.mapping.as_ref().ok_or_else(|| {
            Error::invalid(operation, "the memory is not host-visible; create it with MemoryPlacement::HostVisible")
        })
    }

    /// Exports the memory, which was allocated for this kind, as a new handle.
    pub(crate) fn export(&self, kind: MemoryHandleKind) -> Result<MemoryHandle> {
        const OPERATION: &str = "Memory::export";
        self.interop.check_process(OPERATION)?;
        let types = crate::query::memory_handle_type(kind)
            .ok_or_else(|| Error::unsupported(OPERATION, "Vulkan has no handle of this kind"))?;
        handles::export_memory(&self.interop, self.raw, (kind, types), &self.exported)
            .map_err(|error| error.with_device(self.interop.identity()).with_context("handle", kind))
    }

    /// Exports the memory as an import request with size, dedicated flag and device identity.
    pub(crate) fn import_request(&self, kind: MemoryHandleKind) -> Result<MemoryImport> {
        let handle = self.export(kind)?;
        // SAFETY: the Vulkan driver just exported the handle, from this memory and as the kind that its variant names
        // (`handles::export_memory`). It is a separate descriptor or NT handle, which keeps the memory alive. `size`
        // and `dedicated` are those of the allocation. The handle comes from Vulkan on the named device, not from the
        // importing backend.
        let request = unsafe { MemoryImport::new(handle, self.size).dedicated(self.dedicated) };
        let request = request.exported_by(self.interop.identity().clone());
        // SAFETY: the driver in this process exported the descriptor, and the file is that driver's memory: the driver
        // maps the file itself and never shrinks it. Another holder of a descriptor that shrinks the file breaks the
        // driver in this process as well.
        Ok(unsafe { request.trusted_peer(true) })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.interop.is_forked() {
            return;
        }
        // SAFETY: this object owns the memory. Either nothing was ever bound to it, or the bound object is destroyed:
        // the `Inner` of buffers and images, where the bind happens, declares its object before this field. Freeing
        // unmaps the memory.
        unsafe { self.interop.device().free_memory(self.raw, None) };
    }
}

#[derive(Debug)]
pub(crate) enum Backing {
    /// All of an allocation.
    Own(Memory),
    /// A range of an allocation.
    Range(Range),
}

/// A range of an allocation, with its host mapping.
#[derive(Debug)]
pub(crate) struct Range {
    // Field order is drop order: the mapping before the memory.
    mapping: Option<HostMapping>,
    lease: Arc<Lease>,
}

impl Backing {
    /// A range for a buffer of `size` bytes.
    pub(crate) fn of_lease(lease: Arc<Lease>, size: u64) -> Self {
        Self::Range(Range { mapping: lease.host_mapping(size), lease })
    }

    /// The allocation.
    pub(crate) fn memory(&self) -> &Memory {
        match self {
            Self::Own(memory) => memory,
            Self::Range(range) => range.lease.memory(),
        }
    }

    /// Offset in the allocation, bytes.
    pub(crate) fn offset(&self) -> u64 {
        match self {
            Self::Own(_) => 0,
            Self::Range(range) => range.lease.offset(),
        }
    }

    pub(crate) fn as_raw(&self) -> vk::DeviceMemory {
        self.memory().as_raw()
    }

    pub(crate) fn size(&self) -> u64 {
        self.memory().size()
    }

    pub(crate) fn memory_type(&self) -> u32 {
        self.memory().memory_type()
    }

    pub(crate) fn is_dedicated(&self) -> bool {
        self.memory().is_dedicated()
    }

    /// Address of the buffer's first byte.
    pub(crate) fn mapped_ptr(&self) -> Option<NonNull<u8>> {
        match self {
            Self::Own(memory) => memory.mapped_ptr(),
            Self::Range(range) => range.mapping.as_ref().map(HostMapping::as_ptr),
        }
    }

    pub(crate) fn mapping(&self, operation: &'static str) -> Result<&HostMapping> {
        match self {
            Self::Own(memory) => memory.mapping(operation),
            Self::Range(range) => range.mapping.as_ref().ok_or_else(|| {
                Error::invalid(operation, "the heap is not host-visible; create it with MemoryPlacement::HostVisible")
            }),
        }
    }
}
