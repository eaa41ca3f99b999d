//! The application's Vulkan: instance, device, memory, and a submission between values of timelines.

use std::sync::{Arc, Mutex, PoisonError};

use gpu_interop::MemoryHandleKind;
use gpu_interop::vulkan::ash::{Device, Entry, Instance, vk};
use gpu_interop::vulkan::{OwnedSemaphore, RawMemory, VulkanInterop, device_identity, load_entry, memory_handle_type};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const MEMORY: MemoryHandleKind = if cfg!(windows) { MemoryHandleKind::OpaqueWin32 } else { MemoryHandleKind::OpaqueFd };
pub(crate) const USAGE: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::TRANSFER_SRC.as_raw() | vk::BufferUsageFlags::TRANSFER_DST.as_raw(),
);
const FORMAT: vk::Format = vk::Format::R8G8B8A8_UNORM;
pub(crate) const COLOUR: vk::ImageSubresourceRange = vk::ImageSubresourceRange {
    aspect_mask: vk::ImageAspectFlags::COLOR,
    base_mip_level: 0,
    level_count: 1,
    base_array_layer: 0,
    layer_count: 1,
};

type Destroy = Box<dyn FnOnce(&Device) + Send>;

/// The application's device, and how to destroy its objects. gpu-interop keeps an `Arc` of it as long as it uses them.
pub(crate) struct App {
    _entry: Entry,
    pub(crate) instance: Instance,
    pub(crate) physical: vk::PhysicalDevice,
    pub(crate) device: Device,
    objects: Mutex<Vec<Destroy>>,
}

impl App {
    /// Opens the first device that a compute backend has, too, on both sides.
    pub(crate) fn new() -> Result<(Arc<Self>, gpu_interop::Device)> {
        let entry = load_entry()?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        let mut timelines = vk::PhysicalDeviceVulkan12Features::default().timeline_semaphore(true);
        let mut rendering = vk::PhysicalDeviceVulkan13Features::default().dynamic_rendering(true);
        // Queues of the first family execute all commands, on the drivers of desktops.
        let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
        // SAFETY: the structures are complete, and the physical devices are those of the live instance.
        unsafe {
            let instance = entry.create_instance(&info, None)?;
            let compute = |physical| gpu_interop::device_for(&device_identity(&instance, physical));
            let compute =
                |physical| Some((physical, compute(physical).inspect_err(|error| eprintln!("{error}")).ok()?));
            let found = instance.enumerate_physical_devices()?.into_iter().find_map(compute);
            let (physical, compute) = found.ok_or("no device of Vulkan is one of a compute backend")?;
            let listed = instance.enumerate_device_extension_properties(physical)?;
            let optional = VulkanInterop::optional_device_extensions().iter();
            let optional = optional.filter(|name| listed.iter().any(|one| one.extension_name_as_c_str() == Ok(name)));
            let extensions = VulkanInterop::required_device_extensions().iter().chain(optional);
            let extensions: Vec<_> = extensions.map(|name| name.as_ptr()).collect();
            let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues).enabled_extension_names(&extensions);
            let info = info.push_next(&mut timelines).push_next(&mut rendering);
            let device = instance.create_device(physical, &info, None)?;
            Ok((Arc::new(Self { _entry: entry, instance, physical, device, objects: Mutex::default() }), compute))
        }
    }

    /// Registers how an object is destroyed.
    pub(crate) fn owns<T: Copy + Send + 'static>(&self, object: T, destroy: unsafe fn(&Device, T)) -> T {
        // SAFETY: `drop` calls it once, with the device of the object, when nothing uses the object.
        let destroy: Destroy = Box::new(move |device: &Device| unsafe { destroy(device, object) });
        self.objects.lock().unwrap_or_else(PoisonError::into_inner).push(destroy);
        object
    }

    /// Allocates memory of the device for one object, for export as one of `handles`.
    fn allocate(
        &self,
        needs: vk::MemoryRequirements,
        mut dedicated: vk::MemoryDedicatedAllocateInfo<'_>,
        handles: vk::ExternalMemoryHandleTypeFlags,
    ) -> Result<vk::DeviceMemory> {
        let mut export = vk::ExportMemoryAllocateInfo::default().handle_types(handles);
        // SAFETY: the device is live, and the structures are complete.
        unsafe {
            let types = self.instance.get_physical_device_memory_properties(self.physical).memory_types;
            let is_local = |index: &u32| {
                let flags = types[*index as usize].property_flags;
                needs.memory_type_bits & 1 << index != 0 && flags.contains(vk::MemoryPropertyFlags::DEVICE_LOCAL)
            };
            let local = (0..32).find(is_local).ok_or("no memory of the device")?;
            let info = vk::MemoryAllocateInfo::default().memory_type_index(local).allocation_size(needs.size);
            let memory = self.device.allocate_memory(&info.push_next(&mut export).push_next(&mut dedicated), None)?;
            Ok(self.owns(memory, |device, memory| device.free_memory(memory, None)))
        }
    }

    /// An image to render to, and its view.
    pub(crate) fn target(&self, [width, height]: [u32; 2]) -> Result<(vk::Image, vk::ImageView)> {
        let usage = vk::ImageUsageFlags::COLOR_ATTACHMENT | vk::ImageUsageFlags::TRANSFER_SRC;
        let extent = vk::Extent3D { width, height, depth: 1 };
        let info = vk::ImageCreateInfo::default().image_type(vk::ImageType::TYPE_2D).format(FORMAT).extent(extent);
        let info = info.mip_levels(1).array_layers(1).samples(vk::SampleCountFlags::TYPE_1).usage(usage);
        // SAFETY: as above.
        unsafe {
            let image = self.device.create_image(&info, None)?;
            let needs = self.device.get_image_memory_requirements(image);
            let dedicated = vk::MemoryDedicatedAllocateInfo::default().image(image);
            let memory = self.allocate(needs, dedicated, vk::ExternalMemoryHandleTypeFlags::empty())?;
            self.owns(image, |device, image| device.destroy_image(image, None));
            self.device.bind_image_memory(image, memory, 0)?;
            let view = vk::ImageViewCreateInfo::default().image(image).format(FORMAT).subresource_range(COLOUR);
            let view = self.device.create_image_view(&view.view_type(vk::ImageViewType::TYPE_2D), None)?;
            Ok((image, self.owns(view, |device, view| device.destroy_image_view(view, None))))
        }
    }

    /// A buffer in its own memory of the device, for export; and the size of the memory.
    pub(crate) fn buffer(&self, size: u64) -> Result<(vk::Buffer, RawMemory)> {
        let handles = memory_handle_type(MEMORY).ok_or("no such handle")?;
        let mut export = vk::ExternalMemoryBufferCreateInfo::default().handle_types(handles);
        let buffer = vk::BufferCreateInfo::default().size(size).usage(USAGE).push_next(&mut export);
        // SAFETY: the device is live, and the structures are complete.
        unsafe {
            let buffer = self.device.create_buffer(&buffer, None)?;
            let needs = self.device.get_buffer_memory_requirements(buffer);
            let memory = self.allocate(needs, vk::MemoryDedicatedAllocateInfo::default().buffer(buffer), handles)?;
            self.owns(buffer, |device, buffer| device.destroy_buffer(buffer, None));
            self.device.bind_buffer_memory(buffer, memory, 0)?;
            Ok((buffer, RawMemory::new(memory, needs.size).dedicated(true)))
        }
    }

    /// Records commands and submits them between two values.
    pub(crate) fn submit(
        &self,
        commands: vk::CommandBuffer,
        wait: (&OwnedSemaphore, u64),
        signal: (&OwnedSemaphore, u64),
        record: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let (waits, signals, values) = ([wait.0.as_raw()], [signal.0.as_raw()], [[wait.1], [signal.1]]);
        let mut values = vk::TimelineSemaphoreSubmitInfo::default()
            .wait_semaphore_values(&values[0])
            .signal_semaphore_values(&values[1]);
        let info = vk::SubmitInfo::default()
            .wait_semaphores(&waits)
            .wait_dst_stage_mask(&[vk::PipelineStageFlags::ALL_COMMANDS]);
        let info =
            info.command_buffers(std::slice::from_ref(&commands)).signal_semaphores(&signals).push_next(&mut values);
        // SAFETY: the objects are live, earlier work with these commands has completed, and one thread uses the queue.
        unsafe {
            self.device.begin_command_buffer(commands, &vk::CommandBufferBeginInfo::default())?;
            record()?;
            self.device.end_command_buffer(commands)?;
            Ok(self.device.queue_submit(self.device.get_device_queue(0, 0), &[info], vk::Fence::null())?)
        }
    }
}

impl Drop for App {
    fn drop(&mut self) {
        // SAFETY: nothing uses the objects once the device is idle; the last one was made of the others.
        unsafe {
            let _ = self.device.device_wait_idle();
            self.objects
                .get_mut()
                .unwrap_or_else(PoisonError::into_inner)
                .drain(..)
                .rev()
                .for_each(|destroy| destroy(&self.device));
            self.device.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}
