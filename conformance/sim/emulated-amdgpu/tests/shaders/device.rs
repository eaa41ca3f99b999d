//! Runs shaders on a Vulkan driver: the process of one driver.

use ash::vk;

use crate::generate::memory::COMPARED;
use crate::generate::{
    CONSTANTS, COUNTERS, COUNTERS_BINDING, IMAGE_BINDING, IMAGES, INPUT, SIDE, Shader, UNIFORM, UNIFORM_BINDING,
    WIDTHS, shader,
};
use crate::random::Random;
use crate::shared::{COLOR, to_general};

type Result<T> = std::result::Result<T, String>;

fn check<T>(what: &str, result: ash::prelude::VkResult<T>) -> Result<T> {
    result.map_err(|error| format!("{what}: {error:?}"))
}

/// Bytes of the output of each width.
const OUTPUT: u64 = 1 << 20;
/// The buffer: the input, the counters of both kinds and the uniform buffer, then the outputs.
const COUNTERS_AT: u64 = INPUT as u64 * 4;
const UNIFORM_AT: u64 = COUNTERS_AT + 1024;
const OUTPUT_AT: u64 = UNIFORM_AT + 1024;
const SIZE: u64 = OUTPUT_AT + 4 * OUTPUT;

/// The words that a shader left: its counters, and the slots of all widths.
fn results(device: &Device, shader: &Shader) -> Vec<u8> {
    let mut bytes = device.bytes(COUNTERS_AT, u64::from(COUNTERS) * 8 + 256);
    for (place, slots) in shader.slots.iter().enumerate() {
        let size = slots.len() as u64 * u64::from(shader.invocations * WIDTHS[place] / 8);
        bytes.extend(device.bytes(OUTPUT_AT + place as u64 * OUTPUT, size));
    }
    bytes
}

/// Runs the shaders of some seeds, with at most so many statements, and writes all results to a file.
pub(crate) fn run(seeds: std::ops::Range<u64>, most: u32, file: &str) -> Result<()> {
    let device = Device::new()?;
    let mut all = Vec::new();
    for seed in seeds {
        let shader = shader(seed, most);
        device.execute(&shader).map_err(|error| format!("{}\nseed {seed}: {error}", shader.text))?;
        all.extend(results(&device, &shader));
    }
    std::fs::write(file, all).map_err(|error| format!("{file}: {error}"))
}

/// A device with a buffer and images. It lives until the process ends.
struct Device {
    device: ash::Device,
    queue: vk::Queue,
    pool: vk::CommandPool,
    address: *mut u8,
    layout: vk::PipelineLayout,
    set: vk::DescriptorSet,
    images: Vec<vk::Image>,
    _entry: ash::Entry,
    _instance: ash::Instance,
}

/// The type of a binding's descriptor.
const fn kind(binding: u32) -> vk::DescriptorType {
    match binding {
        UNIFORM_BINDING => vk::DescriptorType::UNIFORM_BUFFER,
        IMAGE_BINDING.. => vk::DescriptorType::STORAGE_IMAGE,
        _ => vk::DescriptorType::STORAGE_BUFFER,
    }
}

impl Device {
    fn new() -> Result<Self> {
        // SAFETY: the loader is a Vulkan loader. The structures of all calls in this function are valid.
        let entry = unsafe { ash::Entry::load() }.map_err(|error| error.to_string())?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: as above.
        let instance = check("vkCreateInstance", unsafe { entry.create_instance(&info, None) })?;
        // SAFETY: as above.
        let all = check("vkEnumeratePhysicalDevices", unsafe { instance.enumerate_physical_devices() })?;
        let [physical] = all[..] else { return Err(format!("{} devices instead of 1", all.len())) };
        let features = vk::PhysicalDeviceFeatures::default().shader_float64(true).shader_int64(true).shader_int16(true);
        let mut first = vk::PhysicalDeviceVulkan11Features::default().storage_buffer16_bit_access(true);
        let mut second = vk::PhysicalDeviceVulkan12Features::default()
            .storage_buffer8_bit_access(true)
            .shader_int8(true)
            .shader_float16(true)
            .shader_buffer_int64_atomics(true)
            .shader_shared_int64_atomics(true)
            .shader_subgroup_extended_types(true);
        let mut third = vk::PhysicalDeviceVulkan13Features::default().shader_integer_dot_product(true);
        // The first family has compute on both drivers.
        let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
        let info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_features(&features)
            .push_next(&mut first)
            .push_next(&mut second)
            .push_next(&mut third);
        // SAFETY: as above.
        let device = check("vkCreateDevice", unsafe { instance.create_device(physical, &info, None) })?;
        // SAFETY: as above.
        let (queue, types) =
            unsafe { (device.get_device_queue(0, 0), instance.get_physical_device_memory_properties(physical)) };
        let memory = |needs: vk::MemoryRequirements, flags: vk::MemoryPropertyFlags| {
            let suits = |(index, kind): &(u32, &vk::MemoryType)| {
                needs.memory_type_bits >> index & 1 != 0 && kind.property_flags.contains(flags)
            };
            let (index, _) = (0..).zip(types.memory_types_as_slice()).find(suits).ok_or("no such memory")?;
            let info = vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(index);
            // SAFETY: as above.
            check("vkAllocateMemory", unsafe { device.allocate_memory(&info, None) })
        };
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER | vk::BufferUsageFlags::UNIFORM_BUFFER;
        let info = vk::BufferCreateInfo::default().size(SIZE).usage(usage);
        // SAFETY: as above.
        let buffer = check("vkCreateBuffer", unsafe { device.create_buffer(&info, None) })?;
        // SAFETY: as above.
        let needs = unsafe { device.get_buffer_memory_requirements(buffer) };
        let visible = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        let allocation = memory(needs, visible)?;
        let whole = vk::MemoryMapFlags::empty();
        // SAFETY: as above.
        let address = unsafe {
            check("vkBindBufferMemory", device.bind_buffer_memory(buffer, allocation, 0))?;
            check("vkMapMemory", device.map_memory(allocation, 0, vk::WHOLE_SIZE, whole))?
        };
        let (mut images, mut views) = (Vec::new(), Vec::new());
        for format in [vk::Format::R32_UINT, vk::Format::R8G8B8A8_UINT, vk::Format::R16G16B16A16_UINT] {
            let info = vk::ImageCreateInfo::default()
                .image_type(vk::ImageType::TYPE_2D)
                .format(format)
                .extent(vk::Extent3D { width: SIDE, height: SIDE, depth: 1 })
                .mip_levels(1)
                .array_layers(1)
                .samples(vk::SampleCountFlags::TYPE_1)
                .usage(vk::ImageUsageFlags::STORAGE);
            // SAFETY: as above.
            let image = check("vkCreateImage", unsafe { device.create_image(&info, None) })?;
            // SAFETY: as above.
            let needs = unsafe { device.get_image_memory_requirements(image) };
            let allocation = memory(needs, vk::MemoryPropertyFlags::DEVICE_LOCAL)?;
            // SAFETY: as above.
            check("vkBindImageMemory", unsafe { device.bind_image_memory(image, allocation, 0) })?;
            let info = vk::ImageViewCreateInfo::default()
                .image(image)
                .view_type(vk::ImageViewType::TYPE_2D)
                .format(format)
                .subresource_range(COLOR);
            // SAFETY: as above.
            views.push(check("vkCreateImageView", unsafe { device.create_image_view(&info, None) })?);
            images.push(image);
        }
        let count = IMAGE_BINDING + IMAGES.len() as u32;
        let bindings: Vec<_> = (0..count)
            .map(|binding| {
                vk::DescriptorSetLayoutBinding::default()
                    .binding(binding)
                    .descriptor_type(kind(binding))
                    .descriptor_count(1)
                    .stage_flags(vk::ShaderStageFlags::COMPUTE)
            })
            .collect();
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: as above.
        let layouts =
            [check("vkCreateDescriptorSetLayout", unsafe { device.create_descriptor_set_layout(&info, None) })?];
        let ranges = [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(CONSTANTS * 4)];
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&layouts).push_constant_ranges(&ranges);
        // SAFETY: as above.
        let layout = check("vkCreatePipelineLayout", unsafe { device.create_pipeline_layout(&info, None) })?;
        let sizes: Vec<_> =
            (0..count).map(|it| vk::DescriptorPoolSize::default().ty(kind(it)).descriptor_count(1)).collect();
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(1).pool_sizes(&sizes);
        // SAFETY: as above.
        let pool = check("vkCreateDescriptorPool", unsafe { device.create_descriptor_pool(&info, None) })?;
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
        // SAFETY: as above.
        let sets = check("vkAllocateDescriptorSets", unsafe { device.allocate_descriptor_sets(&info) })?;
        for binding in 0..count {
            let (offset, range) = match binding {
                0..4 => (0, COUNTERS_AT),
                4..8 => (OUTPUT_AT + u64::from(binding - 4) * OUTPUT, OUTPUT),
                UNIFORM_BINDING.. => (UNIFORM_AT, u64::from(UNIFORM) * 4),
                _ => (COUNTERS_AT + u64::from(binding - COUNTERS_BINDING) * 256, 256),
            };
            let buffers = [vk::DescriptorBufferInfo::default().buffer(buffer).offset(offset).range(range)];
            let view = binding.checked_sub(IMAGE_BINDING).map_or(vk::ImageView::null(), |at| views[at as usize]);
            let info = [vk::DescriptorImageInfo::default().image_view(view).image_layout(vk::ImageLayout::GENERAL)];
            let write = vk::WriteDescriptorSet::default()
                .dst_set(sets[0])
                .dst_binding(binding)
                .descriptor_type(kind(binding))
                .buffer_info(&buffers)
                .image_info(&info);
            // SAFETY: as above.
            unsafe { device.update_descriptor_sets(&[write], &[]) };
        }
        let info = vk::CommandPoolCreateInfo::default();
        // SAFETY: as above.
        let pool = check("vkCreateCommandPool", unsafe { device.create_command_pool(&info, None) })?;
        Ok(Self {
            device,
            queue,
            pool,
            address: address.cast(),
            layout,
            set: sets[0],
            images,
            _entry: entry,
            _instance: instance,
        })
    }

    fn bytes(&self, offset: u64, size: u64) -> Vec<u8> {
        // SAFETY: the memory is mapped and has these bytes; the caller waited for the device.
        (0..size).map(|at| unsafe { self.address.add((offset + at) as usize).read_volatile() }).collect()
    }

    /// Sets the whole buffer: random words, of which some are small, and zeroes where results come.
    fn prepare(&self, random: &mut Random) {
        for word in 0..SIZE / 4 {
            let small = random.pick(&[0xff, u32::MAX, u32::MAX]);
            let value = if word * 4 < OUTPUT_AT { random.next() as u32 & small } else { 0 };
            // Both counters that are compared.
            let compared = [0, 1].map(|kind| COUNTERS_AT + kind * 256 + u64::from(COMPARED) * 4 * (kind + 1));
            let second = compared[1] + 4;
            let value = if compared.contains(&(word * 4)) || word * 4 == second { 0 } else { value };
            // SAFETY: the memory is mapped and has this word; no work of the device is pending.
            unsafe { self.address.cast::<u32>().add(word as usize).write_volatile(value) };
        }
    }

    fn execute(&self, shader: &Shader) -> Result<()> {
        let device = &self.device;
        let mut random = Random::new(!shader.seed);
        self.prepare(&mut random);
        let constants: Vec<u8> = (0..CONSTANTS).flat_map(|_| (random.next() as u32).to_le_bytes()).collect();
        let info = vk::ShaderModuleCreateInfo::default().code(&shader.words);
        // SAFETY: the objects are live until they are destroyed after the work, and the structures are valid.
        unsafe {
            let module = check("vkCreateShaderModule", device.create_shader_module(&info, None))?;
            let stage = vk::PipelineShaderStageCreateInfo::default()
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(module)
                .name(c"main");
            let infos = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(self.layout)];
            let pipelines = device.create_compute_pipelines(vk::PipelineCache::null(), &infos, None);
            let pipelines = check("vkCreateComputePipelines", pipelines.map_err(|(_, error)| error))?;
            let info = vk::CommandBufferAllocateInfo::default().command_pool(self.pool).command_buffer_count(1);
            let commands = check("vkAllocateCommandBuffers", device.allocate_command_buffers(&info))?;
            let [command] = commands[..] else { return Err("no command buffer".to_owned()) };
            check(
                "vkBeginCommandBuffer",
                device.begin_command_buffer(command, &vk::CommandBufferBeginInfo::default()),
            )?;
            for image in &self.images {
                to_general(device, command, *image);
            }
            let point = vk::PipelineBindPoint::COMPUTE;
            device.cmd_bind_pipeline(command, point, pipelines[0]);
            device.cmd_bind_descriptor_sets(command, point, self.layout, 0, &[self.set], &[]);
            device.cmd_push_constants(command, self.layout, vk::ShaderStageFlags::COMPUTE, 0, &constants);
            device.cmd_dispatch(command, shader.groups, 1, 1);
            check("vkEndCommandBuffer", device.end_command_buffer(command))?;
            let info = [vk::SubmitInfo::default().command_buffers(&commands)];
            check("vkQueueSubmit", device.queue_submit(self.queue, &info, vk::Fence::null()))?;
            check("vkQueueWaitIdle", device.queue_wait_idle(self.queue))?;
            device.free_command_buffers(self.pool, &commands);
            device.destroy_pipeline(pipelines[0], None);
            device.destroy_shader_module(module, None);
        }
        Ok(())
    }
}
