//! A Vulkan device on RADV, as far as the tests need it.

use std::os::fd::{FromRawFd as _, IntoRawFd as _, OwnedFd};
use std::time::Duration;

use ash::vk;

use crate::shared::COLOR;

/// The result of a step: what failed, and Vulkan's code.
pub(crate) type Result<T> = std::result::Result<T, String>;

/// Adds the name of a call to its error.
pub(crate) fn check<T>(what: &str, result: ash::prelude::VkResult<T>) -> Result<T> {
    result.map_err(|error| format!("{what}: {error:?}"))
}

/// The longest wait for work of a test.
const LIMIT: Duration = Duration::from_secs(20);
const OPAQUE_MEMORY: vk::ExternalMemoryHandleTypeFlags = vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD;
const OPAQUE_SEMAPHORE: vk::ExternalSemaphoreHandleTypeFlags = vk::ExternalSemaphoreHandleTypeFlags::OPAQUE_FD;

/// A device with one queue. It lives until the process ends.
pub(crate) struct Gpu {
    pub(crate) name: String,
    pub(crate) device: ash::Device,
    pub(crate) physical: vk::PhysicalDevice,
    pub(crate) memory_fd: ash::khr::external_memory_fd::Device,
    semaphore_fd: ash::khr::external_semaphore_fd::Device,
    types: vk::PhysicalDeviceMemoryProperties,
    pub(crate) family: u32,
    pub(crate) queue: vk::Queue,
    pub(crate) instance: ash::Instance,
    _entry: ash::Entry,
}

/// A buffer with its own memory, which the CPU has mapped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buffer {
    pub(crate) buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    address: *mut u32,
    words: usize,
}

impl Buffer {
    pub(crate) fn words(&self) -> Vec<u32> {
        // SAFETY: the memory is mapped and has this many words; the tests wait for the GPU before they read.
        (0..self.words).map(|at| unsafe { self.address.add(at).read_volatile() }).collect()
    }

    pub(crate) fn write(&self, words: impl IntoIterator<Item = u32>) {
        for (at, word) in (0..self.words).zip(words) {
            // SAFETY: as above.
            unsafe { self.address.add(at).write_volatile(word) };
        }
    }
}

/// A point of a timeline.
pub(crate) type Point = (vk::Semaphore, u64);

impl Gpu {
    /// The only device, with a queue of a family that has compute, and graphics or not.
    pub(crate) fn new(graphics: bool) -> Result<Self> {
        Self::of([0, 1], graphics)
    }

    /// Records a barrier that passes an image from one queue family to another, in the layout `GENERAL` then. The image is
    /// live, and the command buffer is being recorded.
    pub(crate) fn pass(
        &self,
        commands: vk::CommandBuffer,
        image: vk::Image,
        layout: vk::ImageLayout,
        [from, to]: [u32; 2],
    ) {
        let all = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE;
        let barrier = [vk::ImageMemoryBarrier::default()
            .src_access_mask(all)
            .dst_access_mask(all)
            .old_layout(layout)
            .new_layout(vk::ImageLayout::GENERAL)
            .src_queue_family_index(from)
            .dst_queue_family_index(to)
            .image(image)
            .subresource_range(COLOR)];
        let stage = vk::PipelineStageFlags::ALL_COMMANDS;
        let none = vk::DependencyFlags::empty();
        // SAFETY: as documented.
        unsafe { self.device.cmd_pipeline_barrier(commands, stage, stage, none, &[], &[], &barrier) };
    }

    /// The device of this index, of so many.
    pub(crate) fn of([index, count]: [usize; 2], graphics: bool) -> Result<Self> {
        // SAFETY: the loader is a Vulkan loader.
        let entry = unsafe { ash::Entry::load() }.map_err(|error| error.to_string())?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: the structures are valid; so are those of all calls below.
        let instance = check("vkCreateInstance", unsafe { entry.create_instance(&info, None) })?;
        // SAFETY: as above.
        let all = check("vkEnumeratePhysicalDevices", unsafe { instance.enumerate_physical_devices() })?;
        if all.len() != count {
            return Err(format!("{} devices instead of {count}", all.len()));
        }
        let physical = all[index];
        // SAFETY: as above.
        let (properties, types, families) = unsafe {
            (
                instance.get_physical_device_properties(physical),
                instance.get_physical_device_memory_properties(physical),
                instance.get_physical_device_queue_family_properties(physical),
            )
        };
        let suits = |family: &vk::QueueFamilyProperties| {
            family.queue_flags.contains(vk::QueueFlags::COMPUTE)
                && family.queue_flags.contains(vk::QueueFlags::GRAPHICS) == graphics
        };
        let family = families.iter().position(suits).ok_or("no such queue")?;
        let family = u32::try_from(family).map_err(|error| error.to_string())?;
        let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
        let extensions = [
            ash::khr::external_memory_fd::NAME,
            ash::khr::external_semaphore_fd::NAME,
            ash::ext::external_memory_dma_buf::NAME,
            ash::ext::image_drm_format_modifier::NAME,
            ash::ext::queue_family_foreign::NAME,
        ];
        let extensions = extensions.map(std::ffi::CStr::as_ptr);
        let mut timelines = vk::PhysicalDeviceTimelineSemaphoreFeatures::default().timeline_semaphore(true);
        let info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_extension_names(&extensions)
            .push_next(&mut timelines);
        // SAFETY: as above.
        let device = check("vkCreateDevice", unsafe { instance.create_device(physical, &info, None) })?;
        // SAFETY: as above.
        let queue = unsafe { device.get_device_queue(family, 0) };
        let name =
            properties.device_name_as_c_str().map_or_else(|_| String::new(), |it| it.to_string_lossy().into_owned());
        Ok(Self {
            name,
            memory_fd: ash::khr::external_memory_fd::Device::new(&instance, &device),
            semaphore_fd: ash::khr::external_semaphore_fd::Device::new(&instance, &device),
            device,
            types,
            physical,
            family,
            queue,
            instance,
            _entry: entry,
        })
    }

    /// The first type of memory with these flags, of the allowed ones.
    pub(crate) fn memory_type(&self, allowed: u32, flags: vk::MemoryPropertyFlags) -> Result<u32> {
        let suits =
            |(index, kind): &(u32, &vk::MemoryType)| allowed >> index & 1 != 0 && kind.property_flags.contains(flags);
        let types = self.types.memory_types_as_slice();
        let (index, _) = (0_u32..).zip(types).find(suits).ok_or("no such memory")?;
        Ok(index)
    }

    fn allocate(
        &self,
        needs: vk::MemoryRequirements,
        flags: vk::MemoryPropertyFlags,
        import: Option<OwnedFd>,
    ) -> Result<vk::DeviceMemory> {
        let index = self.memory_type(needs.memory_type_bits, flags)?;
        let mut export = vk::ExportMemoryAllocateInfo::default().handle_types(OPAQUE_MEMORY);
        let info = vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(index);
        let mut source = vk::ImportMemoryFdInfoKHR::default().handle_type(OPAQUE_MEMORY);
        let info = match import {
            Some(file) => {
                source = source.fd(file.into_raw_fd());
                info.push_next(&mut source)
            }
            None => info.push_next(&mut export),
        };
        // SAFETY: as above; the descriptor passes to Vulkan.
        check("vkAllocateMemory", unsafe { self.device.allocate_memory(&info, None) })
    }

    /// A buffer of exportable memory, or of imported memory.
    pub(crate) fn buffer(&self, words: usize, import: Option<OwnedFd>) -> Result<Buffer> {
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(OPAQUE_MEMORY);
        let info = vk::BufferCreateInfo::default()
            .size(words as u64 * 4)
            .usage(
                vk::BufferUsageFlags::TRANSFER_SRC
                    | vk::BufferUsageFlags::TRANSFER_DST
                    | vk::BufferUsageFlags::STORAGE_BUFFER
                    | vk::BufferUsageFlags::INDIRECT_BUFFER,
            )
            .push_next(&mut external);
        // SAFETY: as above.
        let buffer = check("vkCreateBuffer", unsafe { self.device.create_buffer(&info, None) })?;
        // SAFETY: as above.
        let needs = unsafe { self.device.get_buffer_memory_requirements(buffer) };
        let visible = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        let memory = self.allocate(needs, visible, import)?;
        // SAFETY: as above.
        check("vkBindBufferMemory", unsafe { self.device.bind_buffer_memory(buffer, memory, 0) })?;
        let whole = vk::MemoryMapFlags::empty();
        // SAFETY: as above.
        let address = check("vkMapMemory", unsafe { self.device.map_memory(memory, 0, vk::WHOLE_SIZE, whole) })?;
        Ok(Buffer { buffer, memory, address: address.cast(), words })
    }

    /// A two-dimensional image of words in device memory.
    pub(crate) fn image(&self, tiling: vk::ImageTiling, [width, height]: [u32; 2]) -> Result<vk::Image> {
        let usage = vk::ImageUsageFlags::TRANSFER_SRC | vk::ImageUsageFlags::TRANSFER_DST;
        let info = vk::ImageCreateInfo::default()
            .image_type(vk::ImageType::TYPE_2D)
            .format(vk::Format::R32_UINT)
            .extent(vk::Extent3D { width, height, depth: 1 })
            .mip_levels(1)
            .array_layers(1)
            .samples(vk::SampleCountFlags::TYPE_1)
            .tiling(tiling)
            .usage(usage);
        // SAFETY: as above.
        let image = check("vkCreateImage", unsafe { self.device.create_image(&info, None) })?;
        // SAFETY: as above.
        let needs = unsafe { self.device.get_image_memory_requirements(image) };
        let memory = self.allocate(needs, vk::MemoryPropertyFlags::DEVICE_LOCAL, None)?;
        // SAFETY: as above.
        check("vkBindImageMemory", unsafe { self.device.bind_image_memory(image, memory, 0) })?;
        Ok(image)
    }

    pub(crate) fn memory_descriptor(&self, buffer: &Buffer) -> Result<OwnedFd> {
        let info = vk::MemoryGetFdInfoKHR::default().memory(buffer.memory).handle_type(OPAQUE_MEMORY);
        // SAFETY: as above; the descriptor is new.
        unsafe { check("vkGetMemoryFdKHR", self.memory_fd.get_memory_fd(&info)).map(|file| OwnedFd::from_raw_fd(file)) }
    }

    /// An exportable timeline.
    pub(crate) fn timeline(&self) -> Result<vk::Semaphore> {
        let mut export = vk::ExportSemaphoreCreateInfo::default().handle_types(OPAQUE_SEMAPHORE);
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind).push_next(&mut export);
        // SAFETY: as above.
        check("vkCreateSemaphore", unsafe { self.device.create_semaphore(&info, None) })
    }

    pub(crate) fn timeline_descriptor(&self, timeline: vk::Semaphore) -> Result<OwnedFd> {
        let info = vk::SemaphoreGetFdInfoKHR::default().semaphore(timeline).handle_type(OPAQUE_SEMAPHORE);
        // SAFETY: as above; the descriptor is new.
        unsafe {
            check("vkGetSemaphoreFdKHR", self.semaphore_fd.get_semaphore_fd(&info))
                .map(|file| OwnedFd::from_raw_fd(file))
        }
    }

    pub(crate) fn import_timeline(&self, file: OwnedFd) -> Result<vk::Semaphore> {
        let timeline = self.timeline()?;
        let info = vk::ImportSemaphoreFdInfoKHR::default()
            .semaphore(timeline)
            .handle_type(OPAQUE_SEMAPHORE)
            .fd(file.into_raw_fd());
        // SAFETY: as above; the descriptor passes to Vulkan.
        check("vkImportSemaphoreFdKHR", unsafe { self.semaphore_fd.import_semaphore_fd(&info) })?;
        Ok(timeline)
    }

    /// Submits commands between a wait and a signal. Returns the pool of the commands.
    pub(crate) fn submit(
        &self,
        wait: Option<Point>,
        signal: Option<Point>,
        record: impl FnOnce(&ash::Device, vk::CommandBuffer),
    ) -> Result<vk::CommandPool> {
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(self.family);
        // SAFETY: as above.
        let pool = check("vkCreateCommandPool", unsafe { self.device.create_command_pool(&info, None) })?;
        let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
        // SAFETY: as above.
        let commands = check("vkAllocateCommandBuffers", unsafe { self.device.allocate_command_buffers(&info) })?;
        // SAFETY: as above.
        unsafe {
            check(
                "vkBeginCommandBuffer",
                self.device.begin_command_buffer(commands[0], &vk::CommandBufferBeginInfo::default()),
            )?;
            record(&self.device, commands[0]);
            check("vkEndCommandBuffer", self.device.end_command_buffer(commands[0]))?;
        }
        let [waits, signals] =
            [wait, signal].map(|point| point.map(|(semaphore, _)| semaphore).into_iter().collect::<Vec<_>>());
        let [wait_values, signal_values] =
            [wait, signal].map(|point| point.map(|(_, value)| value).into_iter().collect::<Vec<_>>());
        let stages = vec![vk::PipelineStageFlags::ALL_COMMANDS; waits.len()];
        let mut values = vk::TimelineSemaphoreSubmitInfo::default()
            .wait_semaphore_values(&wait_values)
            .signal_semaphore_values(&signal_values);
        let info = vk::SubmitInfo::default()
            .wait_semaphores(&waits)
            .wait_dst_stage_mask(&stages)
            .signal_semaphores(&signals)
            .command_buffers(&commands)
            .push_next(&mut values);
        // SAFETY: as above; the tests submit from one thread.
        check("vkQueueSubmit", unsafe { self.device.queue_submit(self.queue, &[info], vk::Fence::null()) })?;
        Ok(pool)
    }

    /// Frees a buffer and its memory, which no work uses.
    pub(crate) fn free(&self, buffer: Buffer) {
        // SAFETY: both are live, and the caller has waited for all work on them.
        unsafe {
            self.device.destroy_buffer(buffer.buffer, None);
            self.device.free_memory(buffer.memory, None);
        }
    }

    /// Executes commands and waits for their end.
    pub(crate) fn execute(&self, record: impl FnOnce(&ash::Device, vk::CommandBuffer)) -> Result<()> {
        let timeline = self.timeline()?;
        let pool = self.submit(None, Some((timeline, 1)), record)?;
        self.wait((timeline, 1))?;
        // SAFETY: no work uses them.
        unsafe {
            self.device.destroy_semaphore(timeline, None);
            self.device.destroy_command_pool(pool, None);
        }
        Ok(())
    }

    pub(crate) fn wait(&self, point: Point) -> Result<()> {
        self.wait_for(point, LIMIT)
    }

    pub(crate) fn wait_for(&self, (timeline, value): Point, limit: Duration) -> Result<()> {
        let (timelines, values) = ([timeline], [value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&timelines).values(&values);
        let limit = u64::try_from(limit.as_nanos()).map_err(|error| error.to_string())?;
        // SAFETY: as above.
        check("vkWaitSemaphores", unsafe { self.device.wait_semaphores(&info, limit) })
    }

    pub(crate) fn signal(&self, (semaphore, value): Point) -> Result<()> {
        let info = vk::SemaphoreSignalInfo::default().semaphore(semaphore).value(value);
        // SAFETY: as above.
        check("vkSignalSemaphore", unsafe { self.device.signal_semaphore(&info) })
    }

    pub(crate) fn value(&self, timeline: vk::Semaphore) -> Result<u64> {
        // SAFETY: as above.
        check("vkGetSemaphoreCounterValue", unsafe { self.device.get_semaphore_counter_value(timeline) })
    }
}

/// Orders all earlier work of a command buffer before all later work.
pub(crate) fn barrier(device: &ash::Device, commands: vk::CommandBuffer) {
    let all = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE;
    let barrier = [vk::MemoryBarrier::default().src_access_mask(all).dst_access_mask(all)];
    let stage = vk::PipelineStageFlags::ALL_COMMANDS;
    // SAFETY: the command buffer is being recorded.
    unsafe { device.cmd_pipeline_barrier(commands, stage, stage, vk::DependencyFlags::empty(), &barrier, &[], &[]) };
}
