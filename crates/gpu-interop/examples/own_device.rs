//! Example: an application with its own Vulkan instance, device, buffer, memory and timeline semaphore.
//!
//! Only the read-back buffer is made by gpu-interop: `VulkanInterop` exports the application's memory and records
//! transfers of ownership into its command buffers, and a `Timeline` follows its semaphore. In each round the
//! application fills its buffer, a stream of the compute device overwrites the second half, and the application reads
//! all of it. Argument: the number of rounds (default 1,000).

use std::ffi::CStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpu_interop::vulkan::ash::{self, vk};
use gpu_interop::vulkan::{
    ExportableSemaphore, MemoryPlacement, OwnedBuffer, OwnedSemaphore, OwnershipTransfer, QueueKind, RawMemory,
    VulkanInterop, device_identity, load_entry, memory_handle_type, semaphore_handle_type,
};
use gpu_interop::{Device, ExporterTimeline, MemoryHandleKind, SemaphoreHandleKind, Timeline};

const SIZE: u64 = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(10);
const MEMORY: MemoryHandleKind = if cfg!(windows) { MemoryHandleKind::OpaqueWin32 } else { MemoryHandleKind::OpaqueFd };
const SEMAPHORE: SemaphoreHandleKind =
    if cfg!(windows) { SemaphoreHandleKind::TimelineWin32 } else { SemaphoreHandleKind::TimelineFd };

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The application's instance and device. gpu-interop keeps an `Arc` of it as long as it uses them.
struct Vulkan {
    _entry: ash::Entry,
    instance: ash::Instance,
    physical_device: vk::PhysicalDevice,
    device: ash::Device,
    queue_family: u32,
}

impl Vulkan {
    /// Opens the first device that a compute backend has, too, on both sides.
    fn new() -> Result<(Arc<Self>, Device)> {
        let entry = load_entry()?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: the structures are complete; the physical device is one of the live instance, which is of version
        // 1.2.
        unsafe {
            let instance = entry.create_instance(&info, None)?;
            let (mut found, mut failures) = (None, Vec::new());
            for physical_device in instance.enumerate_physical_devices()? {
                match gpu_interop::device_for(&device_identity(&instance, physical_device)) {
                    Ok(compute) if found.is_none() => found = Some((physical_device, compute)),
                    Ok(_) => {}
                    Err(error) => failures.push(error.to_string()),
                }
            }
            let (physical_device, compute) = found.ok_or(failures.join("\n"))?;
            let families = instance.get_physical_device_queue_family_properties(physical_device);
            // Nothing is drawn, and some GPUs have no graphics queue.
            let kinds = [QueueKind::ComputeOnly, QueueKind::General];
            let queue_family = kinds.into_iter().find_map(|kind| kind.find_family(&families));
            let queue_family = queue_family.ok_or("no queue family computes")?;
            // The extensions and the feature that sharing requires.
            let listed = instance.enumerate_device_extension_properties(physical_device)?;
            let is_listed = |name: &&&CStr| listed.iter().any(|one| one.extension_name_as_c_str() == Ok(**name));
            let optional = VulkanInterop::optional_device_extensions().iter().filter(is_listed);
            let extensions = VulkanInterop::required_device_extensions().iter().chain(optional);
            let extensions: Vec<_> = extensions.map(|name| name.as_ptr()).collect();
            let queue = vk::DeviceQueueCreateInfo::default().queue_family_index(queue_family).queue_priorities(&[1.0]);
            let mut features = vk::PhysicalDeviceVulkan12Features::default().timeline_semaphore(true);
            let info = vk::DeviceCreateInfo::default()
                .queue_create_infos(std::slice::from_ref(&queue))
                .enabled_extension_names(&extensions)
                .push_next(&mut features);
            let device = instance.create_device(physical_device, &info, None)?;
            Ok((Arc::new(Self { _entry: entry, instance, physical_device, device, queue_family }), compute))
        }
    }
}

impl Drop for Vulkan {
    fn drop(&mut self) {
        // SAFETY: what was made from the device held an `Arc` of this object.
        unsafe {
            self.device.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}

/// The application's objects: those that it shares, and two command buffers.
struct Shared {
    vulkan: Arc<Vulkan>,
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    memory_size: u64,
    timeline: vk::Semaphore,
    pool: vk::CommandPool,
    commands: Vec<vk::CommandBuffer>,
}

impl Shared {
    /// Creates them for export; the timeline only if the device can export it.
    fn new(vulkan: &Arc<Vulkan>, usage: vk::BufferUsageFlags, timelines: bool) -> Result<Arc<Self>> {
        let device = &vulkan.device;
        let handle = memory_handle_type(MEMORY).ok_or("no such handle")?;
        let mut export_buffer = vk::ExternalMemoryBufferCreateInfo::default().handle_types(handle);
        let buffer = vk::BufferCreateInfo::default().size(SIZE).usage(usage).push_next(&mut export_buffer);
        let handle_of_timeline = semaphore_handle_type(SEMAPHORE).filter(|_| timelines).unwrap_or_default();
        let mut export_timeline = vk::ExportSemaphoreCreateInfo::default().handle_types(handle_of_timeline);
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let timeline = vk::SemaphoreCreateInfo::default().push_next(&mut kind).push_next(&mut export_timeline);
        let pool = vk::CommandPoolCreateInfo::default()
            .queue_family_index(vulkan.queue_family)
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
        // SAFETY: the device is live, and the structures are complete; each object is used as it was created.
        unsafe {
            let buffer = device.create_buffer(&buffer, None)?;
            let needs = device.get_buffer_memory_requirements(buffer);
            let types = vulkan.instance.get_physical_device_memory_properties(vulkan.physical_device);
            let is_local = |index: &u32| {
                let flags = types.memory_types[*index as usize].property_flags;
                needs.memory_type_bits & 1 << index != 0 && flags.contains(vk::MemoryPropertyFlags::DEVICE_LOCAL)
            };
            let local = (0..types.memory_type_count).find(is_local).ok_or("no memory of the device")?;
            let mut export = vk::ExportMemoryAllocateInfo::default().handle_types(handle);
            let mut dedicated = vk::MemoryDedicatedAllocateInfo::default().buffer(buffer);
            let allocation = vk::MemoryAllocateInfo::default()
                .allocation_size(needs.size)
                .memory_type_index(local)
                .push_next(&mut export)
                .push_next(&mut dedicated);
            let memory = device.allocate_memory(&allocation, None)?;
            device.bind_buffer_memory(buffer, memory, 0)?;
            let timeline = device.create_semaphore(&timeline, None)?;
            let pool = device.create_command_pool(&pool, None)?;
            let commands = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(2);
            let commands = device.allocate_command_buffers(&commands)?;
            let vulkan = vulkan.clone();
            Ok(Arc::new(Self { vulkan, buffer, memory, memory_size: needs.size, timeline, pool, commands }))
        }
    }

    /// Records one of the command buffers, and submits it between two values of the timeline.
    fn submit(&self, index: usize, values: [u64; 2], record: impl Fn(vk::CommandBuffer) -> Result<()>) -> Result<()> {
        let (device, commands, [waits, signals]) =
            (&self.vulkan.device, self.commands[index], values.map(|value| [value]));
        let mut values =
            vk::TimelineSemaphoreSubmitInfo::default().wait_semaphore_values(&waits).signal_semaphore_values(&signals);
        let submission = vk::SubmitInfo::default()
            .wait_semaphores(std::slice::from_ref(&self.timeline))
            .wait_dst_stage_mask(&[vk::PipelineStageFlags::ALL_COMMANDS])
            .command_buffers(std::slice::from_ref(&commands))
            .signal_semaphores(std::slice::from_ref(&self.timeline))
            .push_next(&mut values);
        // SAFETY: the objects are live, the last round has completed, and this thread alone uses the queue.
        unsafe {
            device.begin_command_buffer(commands, &vk::CommandBufferBeginInfo::default())?;
            record(commands)?;
            device.end_command_buffer(commands)?;
            let queue = device.get_device_queue(self.vulkan.queue_family, 0);
            Ok(device.queue_submit(queue, &[submission], vk::Fence::null())?)
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let device = &self.vulkan.device;
        // SAFETY: the device is live; nothing uses the objects once it is idle.
        unsafe {
            let _ = device.device_wait_idle();
            device.destroy_command_pool(self.pool, None);
            device.destroy_semaphore(self.timeline, None);
            device.destroy_buffer(self.buffer, None);
            device.free_memory(self.memory, None);
        }
    }
}

fn main() -> Result<()> {
    let rounds = std::env::args().nth(1).map_or(Ok(1_000), |rounds| rounds.parse::<u32>())?;
    let (vulkan, compute) = Vulkan::new()?;
    let Vulkan { instance, physical_device, device, queue_family, .. } = &*vulkan;
    // SAFETY: instance and device belong together, live as long as the owner, and have the extensions and the feature.
    let interop = unsafe { VulkanInterop::with_owner(instance, *physical_device, device, vulkan.clone()) }?;
    let usage = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
    let exportable = interop.semaphore_features(SEMAPHORE)?.exportable;
    let shared = Shared::new(&vulkan, usage, exportable)?;
    let seen = OwnedBuffer::new(&interop, SIZE, usage, MemoryPlacement::HostVisible)?;

    // The application's memory and timeline, on the compute side.
    let memory = RawMemory::new(shared.memory, shared.memory_size).dedicated(true);
    // SAFETY: the memory was allocated with this size, dedicated, and for export as an opaque handle.
    let request = unsafe { interop.export_memory(&memory) }?;
    let buffer = compute.import_memory(request)?.map_buffer(0..SIZE)?;
    let stream = compute.create_stream()?;
    // SAFETY: a timeline of this device, live as long as `shared`, for export if so, and raised in order.
    let exporter: Arc<dyn ExporterTimeline> = unsafe {
        if exportable {
            Arc::new(ExportableSemaphore::timeline_from_raw(&interop, shared.timeline, shared.clone())?)
        } else {
            Arc::new(OwnedSemaphore::timeline_from_raw(&interop, shared.timeline, shared.clone())?)
        }
    };
    let timeline = Timeline::new(&compute, exporter)?;

    let transfer = OwnershipTransfer::all(*queue_family);
    let (copied, seen_by_host) = (vk::AccessFlags::TRANSFER_WRITE, vk::AccessFlags::HOST_READ);
    let to_host = vk::MemoryBarrier::default().src_access_mask(copied).dst_access_mask(seen_by_host);
    let mut bytes = vec![0; usize::try_from(SIZE)?];
    let start = Instant::now();
    for round in 1..=rounds {
        let back = 3 * u64::from(round);
        // The application fills its buffer and releases it.
        // SAFETY: the buffer is the application's on this queue, and lives until the commands have completed.
        shared.submit(0, [back - 3, back - 2], |commands| unsafe {
            device.cmd_fill_buffer(commands, shared.buffer, 0, SIZE, round);
            Ok(interop.record_buffer_release(commands, shared.buffer, transfer)?)
        })?;
        // The stream waits, overwrites the second half, and signals.
        stream.wait_timeline(&timeline, back - 2)?;
        stream.fill_u32(buffer.slice(SIZE / 2..)?, !round)?;
        stream.signal_timeline(&timeline, back - 1)?;
        // The application acquires the buffer and copies it to host-visible memory.
        // SAFETY: as above, after the stream's signal.
        shared.submit(1, [back - 1, back], |commands| unsafe {
            interop.record_buffer_acquire(commands, shared.buffer, transfer)?;
            device.cmd_copy_buffer(commands, shared.buffer, seen.as_raw(), &[vk::BufferCopy::default().size(SIZE)]);
            let (from, to) = (vk::PipelineStageFlags::TRANSFER, vk::PipelineStageFlags::HOST);
            device.cmd_pipeline_barrier(commands, from, to, vk::DependencyFlags::empty(), &[to_host], &[], &[]);
            Ok(())
        })?;
        timeline.wait(back, PATIENCE)?;
        seen.read(0, &mut bytes)?;
        let (first, second) = bytes.split_at(bytes.len() / 2);
        for (half, word) in [(first, round), (second, !round)] {
            assert!(half.chunks_exact(4).all(|seen| seen == word.to_ne_bytes()), "round {round}");
        }
    }
    let each = start.elapsed() / rounds.max(1);
    println!("{rounds} rounds by strategy {}, {each:?} each, with {}", timeline.strategy(), compute.identity());
    Ok(())
}
