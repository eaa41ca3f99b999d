//! Memory of Vulkan that is exported and imported before a buffer or an image is bound to it.

use std::cell::Cell;

use gpu_interop::vulkan::ash::{prelude::VkResult, vk};
use gpu_interop::vulkan::{
    HeadlessContext, MemoryPlacement, OwnedBuffer, OwnershipTransfer, RawMemory, memory_handle_type,
};
use gpu_interop::{ArrayShape, ChannelType, MemoryImport, MipmappedArrayDesc};

use crate::context::Context;
use crate::image::plain_format;
use crate::outcome::{Stop, Verdict};
use crate::scenario::scenarios;
use crate::system;

scenarios! {
    all need [exporter LateBinding];
    "lifetime.bound_late", Any,
        "Memory is exported, imported and written before the exporter binds its buffer: the buffer has the data, and later data \
         goes both ways.",
        |context| buffers(context, 1, false);
    "lifetime.bound_late_dedicated", Any, "The same for a dedicated allocation.", |context| buffers(context, 1, true);
    "lifetime.bound_late_twice", Any,
        "Memory is exported, imported and written before the exporter binds two buffers to it, one after the other: each has \
         its own data, and later data goes both ways.",
        |context| buffers(context, 2, false);
    "image_lifetime.bound_late", Any,
        "Memory is exported, imported and mapped before the exporter binds its image: texels go both ways.", image,
        needs [MappedMipmappedArray, exporter Images];
}

/// Size of a buffer, bytes.
const SIZE: usize = 64 << 10;
const BYTES: u64 = SIZE as u64;
/// Width and height of the image.
const EXTENT: [u32; 2] = [67, 45];

fn checked<T>(function: &str, result: VkResult<T>) -> Verdict<T> {
    result.map_err(|code| Stop::failed(format!("{function}: {code}")))
}

/// Buffers or an image, and memory for them, which are bound later.
struct Late<'a> {
    vulkan: &'a HeadlessContext,
    buffers: Vec<vk::Buffer>,
    image: Option<vk::Image>,
    memory: vk::DeviceMemory,
    /// Size of the memory, bytes.
    size: u64,
    is_dedicated: bool,
    /// Host-visible memory for copies.
    staging: OwnedBuffer,
    /// Commands may still use the objects.
    busy: Cell<bool>,
}

impl<'a> Late<'a> {
    fn new(context: &'a Context, staged: u64) -> Verdict<Self> {
        let vulkan = context.exporter()?.vulkan();
        let vulkan = vulkan.ok_or_else(|| Stop::unsupported("the exporter is not Vulkan".into()))?;
        let usage = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
        Ok(Self {
            vulkan,
            buffers: Vec::new(),
            image: None,
            memory: vk::DeviceMemory::null(),
            size: 0,
            is_dedicated: false,
            staging: OwnedBuffer::new(vulkan.interop(), staged, usage, MemoryPlacement::HostVisible)?,
            busy: Cell::new(false),
        })
    }

    /// Creates buffers, and memory for all of them. Returns their offsets.
    fn with_buffers(context: &'a Context, count: usize, dedicated: bool) -> Verdict<(Self, Vec<u64>)> {
        let mut late = Self::new(context, BYTES)?;
        let interop = late.vulkan.interop();
        let usage = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
        let features = interop.buffer_features(system::MEMORY, usage)?;
        if !features.exportable || features.dedicated_only && !dedicated {
            return Err(Stop::unsupported(format!("the exporter's buffers: {features:?}")));
        }
        let mut shared = vk::ExternalMemoryBufferCreateInfo::default().handle_types(handle_type()?);
        let info = vk::BufferCreateInfo::default().size(BYTES).usage(usage).push_next(&mut shared);
        let (mut offsets, mut end, mut types) = (Vec::new(), 0_u64, u32::MAX);
        for _ in 0..count {
            // SAFETY: the device is live and exports such buffers; the buffer is destroyed with `late`.
            let buffer = checked("vkCreateBuffer", unsafe { interop.device().create_buffer(&info, None) })?;
            late.buffers.push(buffer);
            // SAFETY: the buffer is live and of this device.
            let needs = unsafe { interop.device().get_buffer_memory_requirements(buffer) };
            offsets.push(end.next_multiple_of(needs.alignment));
            end = end.next_multiple_of(needs.alignment) + needs.size;
            types &= needs.memory_type_bits;
        }
        let buffer = late.buffers.first().copied().unwrap_or_default();
        late.allocate(end, types, dedicated.then(|| vk::MemoryDedicatedAllocateInfo::default().buffer(buffer)))?;
        Ok((late, offsets))
    }

    /// Allocates memory for export.
    fn allocate(&mut self, size: u64, types: u32, dedicated: Option<vk::MemoryDedicatedAllocateInfo<'_>>) -> Verdict {
        let interop = self.vulkan.interop();
        let local = |index: &u32| {
            let memory_type = interop.memory_types().get(*index as usize);
            let is_local =
                |found: &vk::MemoryType| found.property_flags.contains(vk::MemoryPropertyFlags::DEVICE_LOCAL);
            types & 1 << index != 0 && memory_type.is_some_and(is_local)
        };
        let index = (0..32).find(local).ok_or_else(|| Stop::unsupported("no device-local memory to export".into()))?;
        let mut export = vk::ExportMemoryAllocateInfo::default().handle_types(handle_type()?);
        let mut info =
            vk::MemoryAllocateInfo::default().allocation_size(size).memory_type_index(index).push_next(&mut export);
        self.is_dedicated = dedicated.is_some();
        let mut dedicated = dedicated.unwrap_or_default();
        if self.is_dedicated {
            info = info.push_next(&mut dedicated);
        }
        // SAFETY: size and type are those of the object's requirements, for handles that the device exports; the memory is
        // freed with this object.
        self.memory = checked("vkAllocateMemory", unsafe { interop.device().allocate_memory(&info, None) })?;
        self.size = size;
        Ok(())
    }

    fn export(&self) -> Verdict<MemoryImport> {
        let memory = RawMemory::new(self.memory, self.size).dedicated(self.is_dedicated).handle(system::MEMORY);
        // SAFETY: the memory is live, of this device, and allocated with these values for this kind of handle, of which it is
        // exported once.
        Ok(unsafe { self.vulkan.interop().export_memory(&memory) }?)
    }

    fn bind(&self, buffer: usize, offset: u64) -> Verdict {
        let device = self.vulkan.interop().device();
        // SAFETY: buffer and memory are live, of this device, and not bound yet; the offset was made for the buffer.
        checked("vkBindBufferMemory", unsafe { device.bind_buffer_memory(self.buffers[buffer], self.memory, offset) })
    }

    /// Runs commands, between an acquire from the importer and a release to it if `record` says so itself.
    fn run(&self, record: impl FnOnce(vk::CommandBuffer) -> gpu_interop::Result<()>) -> Verdict {
        self.busy.set(true);
        self.vulkan.run(|recording| {
            recording.keep(&self.staging);
            record(recording.as_raw())
        })?;
        self.busy.set(false);
        Ok(())
    }

    fn ours(&self) -> OwnershipTransfer {
        OwnershipTransfer::all(self.vulkan.queue_family())
    }

    /// Acquires a bound buffer, copies to it or from it, and releases it.
    fn copy(&self, buffer: usize, writes: bool) -> Verdict {
        let (interop, staging, buffer) = (self.vulkan.interop(), self.staging.as_raw(), self.buffers[buffer]);
        let [from, to] = if writes { [staging, buffer] } else { [buffer, staging] };
        let whole = [vk::BufferCopy::default().size(BYTES)];
        self.run(|commands| {
            // SAFETY: recording on a queue of this family; the buffers are live, of this device and this size, and the
            // importer's side has no work on the memory and leaves it to Vulkan.
            unsafe {
                interop.record_buffer_acquire(commands, buffer, self.ours())?;
                interop.device().cmd_copy_buffer(commands, from, to, &whole);
                interop.record_buffer_release(commands, buffer, self.ours())
            }
        })
    }

    fn write(&self, buffer: usize, data: &[u8]) -> Verdict {
        self.staging.write(0, data)?;
        self.copy(buffer, true)
    }

    fn read(&self, buffer: usize) -> Verdict<Vec<u8>> {
        self.copy(buffer, false)?;
        let mut found = vec![0; SIZE];
        self.staging.read(0, &mut found)?;
        Ok(found)
    }
}

impl Drop for Late<'_> {
    fn drop(&mut self) {
        if self.busy.get() {
            // Leaked: the commands may still run.
            return;
        }
        let device = self.vulkan.interop().device();
        // SAFETY: this object owns all of them, and no commands use them any more.
        unsafe {
            self.buffers.iter().for_each(|buffer| device.destroy_buffer(*buffer, None));
            self.image.iter().for_each(|image| device.destroy_image(*image, None));
            device.free_memory(self.memory, None);
        }
    }
}

fn handle_type() -> Verdict<vk::ExternalMemoryHandleTypeFlags> {
    memory_handle_type(system::MEMORY).ok_or_else(|| Stop::unsupported("Vulkan has no such handles".into()))
}

fn buffers(context: &Context, count: usize, dedicated: bool) -> Verdict {
    let (late, offsets) = Late::with_buffers(context, count, dedicated)?;
    let stream = context.stream()?;
    let memory = context.device().import_memory(late.export()?)?;
    // The library maps a dedicated allocation from its first byte only, where its buffer is.
    let map = |offset: &u64| memory.map_buffer(*offset..offset + BYTES);
    let mapped = offsets.iter().map(map).collect::<Result<Vec<_>, _>>()?;
    let pattern = |turn: usize, buffer: usize| {
        let seed = context.pattern().seed();
        crate::pattern::Pattern::new(seed.wrapping_add(u32::try_from(turn * 7 + buffer).unwrap_or(0)))
    };
    for (buffer, mapped) in mapped.iter().enumerate() {
        stream.write(mapped, &pattern(0, buffer).bytes(0, SIZE))?;
    }
    for (buffer, offset) in offsets.iter().enumerate() {
        late.bind(buffer, *offset)?;
        let what = format!("buffer {buffer}, bound after the device wrote its memory");
        pattern(0, buffer).verify(0, &late.read(buffer)?, &what)?;
    }
    for turn in 1..4 {
        for buffer in 0..count {
            late.write(buffer, &pattern(2 * turn, buffer).bytes(0, SIZE))?;
        }
        for (buffer, mapped) in mapped.iter().enumerate() {
            let what = format!("turn {turn}: what the exporter wrote to buffer {buffer}");
            pattern(2 * turn, buffer).verify(0, &context.read(&stream, mapped)?, &what)?;
            stream.write(mapped, &pattern(2 * turn + 1, buffer).bytes(0, SIZE))?;
        }
        for buffer in 0..count {
            let what = format!("turn {turn}: what the device wrote to buffer {buffer}");
            pattern(2 * turn + 1, buffer).verify(0, &late.read(buffer)?, &what)?;
        }
    }
    Ok(())
}

fn image(context: &Context) -> Verdict {
    let [width, height] = EXTENT;
    let length = u64::from(width * height * 4);
    let mut late = Late::new(context, length)?;
    let interop = late.vulkan.interop();
    let device = interop.device();
    let mut shared = vk::ExternalMemoryImageCreateInfo::default().handle_types(handle_type()?);
    let info = vk::ImageCreateInfo::default()
        .image_type(vk::ImageType::TYPE_2D)
        .format(vk::Format::R8G8B8A8_UINT)
        .extent(vk::Extent3D { width, height, depth: 1 })
        .mip_levels(1)
        .array_layers(1)
        .samples(vk::SampleCountFlags::TYPE_1)
        .usage(vk::ImageUsageFlags::TRANSFER_SRC | vk::ImageUsageFlags::TRANSFER_DST | vk::ImageUsageFlags::SAMPLED)
        .push_next(&mut shared);
    // SAFETY: the device is live; the image is destroyed with `late`.
    let image = checked("vkCreateImage", unsafe { device.create_image(&info, None) })?;
    late.image = Some(image);
    // SAFETY: the image is live and of this device.
    let needs = unsafe { device.get_image_memory_requirements(image) };
    let dedicated = vk::MemoryDedicatedAllocateInfo::default().image(image);
    late.allocate(needs.size, needs.memory_type_bits, Some(dedicated))?;

    let shape = ArrayShape::D2 { width: u64::from(width), height: u64::from(height) };
    let desc = MipmappedArrayDesc::new(shape, plain_format(ChannelType::Uint8, 4)?.array);
    // SAFETY: the memory is for this image alone, which this describes.
    let request = unsafe { late.export()?.of_image(desc) };
    let array = context.device().import_memory(request)?.map_mipmapped_array(&desc).map_err(Stop::attempted)?;
    // SAFETY: image and memory are live, of this device, and not bound yet.
    checked("vkBindImageMemory", unsafe { device.bind_image_memory(image, late.memory, 0) })?;

    let region = [vk::BufferImageCopy::default()
        .image_subresource(
            vk::ImageSubresourceLayers::default().aspect_mask(vk::ImageAspectFlags::COLOR).layer_count(1),
        )
        .image_extent(vk::Extent3D { width, height, depth: 1 })];
    let (ours, staging, general) = (late.ours(), late.staging.as_raw(), vk::ImageLayout::GENERAL);
    let (stream, length) = (context.stream()?, usize::try_from(length)?);
    let (mut pattern, mut found) = (context.pattern(), vec![0; length]);
    for turn in 0..3 {
        late.staging.write(0, &pattern.bytes(0, length))?;
        late.run(|commands| {
            // SAFETY: recording on a queue of this family, outside a render pass; image and staging memory are live, of this
            // device, and large enough; at first the image has no contents, later the importer leaves it in this layout.
            unsafe {
                if turn == 0 {
                    initialize(device, commands, image);
                } else {
                    interop.record_image_acquire(commands, image, ours, general)?;
                }
                device.cmd_copy_buffer_to_image(commands, staging, image, general, &region);
                interop.record_image_release(commands, image, ours, general)
            }
        })?;
        stream.read_array(array.level(0)?, &mut found)?;
        pattern.verify(0, &found, format_args!("turn {turn}: the exporter's texels"))?;
        pattern = pattern.other();
        stream.write_array(array.level(0)?, &pattern.bytes(0, length))?;
        late.run(|commands| {
            // SAFETY: as above.
            unsafe {
                interop.record_image_acquire(commands, image, ours, general)?;
                device.cmd_copy_image_to_buffer(commands, image, general, staging, &region);
                interop.record_image_release(commands, image, ours, general)
            }
        })?;
        late.staging.read(0, &mut found)?;
        pattern.verify(0, &found, format_args!("turn {turn}: the device's texels"))?;
        pattern = pattern.other();
    }
    Ok(())
}

/// Brings a new image to the layout `GENERAL`.
///
/// # Safety
/// `commands` is recording, outside a render pass; the image is live, of this device, and not in use.
unsafe fn initialize(device: &gpu_interop::vulkan::ash::Device, commands: vk::CommandBuffer, image: vk::Image) {
    let range =
        vk::ImageSubresourceRange::default().aspect_mask(vk::ImageAspectFlags::COLOR).level_count(1).layer_count(1);
    let barrier = vk::ImageMemoryBarrier::default()
        .image(image)
        .subresource_range(range)
        .new_layout(vk::ImageLayout::GENERAL)
        .dst_access_mask(vk::AccessFlags::TRANSFER_WRITE)
        .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED);
    let (top, transfer) = (vk::PipelineStageFlags::TOP_OF_PIPE, vk::PipelineStageFlags::TRANSFER);
    // SAFETY: the caller's promises.
    unsafe { device.cmd_pipeline_barrier(commands, top, transfer, vk::DependencyFlags::empty(), &[], &[], &[barrier]) };
}
