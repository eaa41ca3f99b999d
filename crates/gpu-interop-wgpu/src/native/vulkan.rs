//! Vulkan beneath wgpu.
//!
//! # What keeps a texture's contents
//! Five things between wgpu, Vulkan and a compute API lose the contents of an image or show wrong ones. This module and
//! `gpu-interop-vulkan` exclude each of them:
//!
//! * *A transition from `UNDEFINED` discards.* wgpu starts the first use of a texture from the state it was created
//!   with. [`VulkanDevice::create_texture`] brings the image to `GENERAL` itself, zeroes it, and names that state; wgpu
//!   never sees the image in `UNDEFINED`.
//! * *wgpu's tracker and the image's layout must agree.* wgpu's conversion of states to layouts is private, but one
//!   state is the layout `GENERAL` for every colour image: `STORAGE_READ_WRITE`. `transition_resources` makes wgpu
//!   record the transition into it, behind all of its own work, *before* a release; the tracker still has it *after*
//!   the acquire, and neither the release, the compute API nor the acquire leaves `GENERAL`.
//! * *Without an acquire from `VK_QUEUE_FAMILY_EXTERNAL`, caches keep old contents.* The acquire is recorded in a
//!   command buffer of its own (wgpu records an encoder's own commands at `finish`, and puts transitions in front of
//!   it), and is followed, in the same submission, by one in which wgpu's tracker uses the object.
//! * *wgpu zeroes what it believes to be uninitialised.* Buffers and textures made with `create_*_from_hal` are tracked
//!   as initialised (`TextureClearMode::None`, an empty `BufferInitTracker`).
//! * *NVIDIA's driver reads wrong texels* of a linear image after compute has written, unless its memory is dedicated.
//!   [`ExportableImage`] dedicates it, and says what was measured.

pub(crate) mod import;

use std::ffi::CStr;
use std::sync::Arc;

use gpu_interop::vulkan::ash::vk;
use gpu_interop::vulkan::{
    BufferOptions, ExportableBuffer, ExportableImage, ImageOptions, ImageSpec, OwnedBuffer, OwnedImage, OwnedSemaphore,
    OwnershipTransfer, VulkanInterop, shared_timeline,
};
use gpu_interop::{Device, DeviceIdentity, Error, ErrorKind, Result, Timeline};
use wgpu::hal::api::Vulkan;

use super::objects::{Exporter, Layout, NativeTimeline, NewBuffer, NewTexture, Resource, Transfer};
use crate::format;
use crate::tiling::{LinearLayout, TextureOptions};

/// The `VkDevice` of a wgpu device.
#[derive(Debug)]
pub(crate) struct VulkanDevice {
    interop: VulkanInterop,
    /// Family of wgpu's only queue.
    queue_family: u32,
    /// The enabled extensions.
    extensions: Vec<&'static CStr>,
}

const SEMAPHORES: &CStr =
    if cfg!(windows) { vk::KHR_EXTERNAL_SEMAPHORE_WIN32_NAME } else { vk::KHR_EXTERNAL_SEMAPHORE_FD_NAME };

impl VulkanDevice {
    /// Returns `None` if the device is not of wgpu's Vulkan backend.
    pub(super) fn new(operation: &'static str, device: &wgpu::Device) -> Result<Option<Self>> {
        // SAFETY: the guard destroys nothing, and keeps wgpu's device, and with it the `VkDevice`, alive.
        let Some(hal) = (unsafe { device.as_hal::<Vulkan>() }) else { return Ok(None) };
        let enabled = hal.enabled_device_extensions();
        check_extensions(operation, enabled)?;
        let extensions = enabled.to_vec();
        let (instance, physical) = (hal.shared_instance().raw_instance().clone(), hal.raw_physical_device());
        let (raw, queue_family) = (hal.raw_device().clone(), hal.queue_family_index());
        let owner: Arc<dyn std::any::Any + Send + Sync> = Arc::new(hal);
        // SAFETY: the three belong together, by the contract of wgpu-hal's device, whose guard is the owner: it keeps
        // the device and, through it, the instance alive. wgpu creates instances for Vulkan 1.1 or later where the
        // loader has it, which is checked, and enables `timelineSemaphore` wherever the device has it, and
        // `bufferDeviceAddress` with the features that allow the usages BLAS_INPUT and TLAS_INPUT.
        let interop = unsafe { VulkanInterop::with_owner(&instance, physical, &raw, owner) }?;
        Ok(Some(Self { interop, queue_family, extensions }))
    }

    /// The extension is enabled.
    fn has(&self, extension: &CStr) -> bool {
        self.extensions.contains(&extension)
    }

    pub(super) fn identity(&self) -> &DeviceIdentity {
        self.interop.identity()
    }

    pub(super) fn owns(&self, queue: &wgpu::Queue) -> bool {
        with_queue(queue, |queue| queue.raw_device().handle() == self.interop.device().handle()).unwrap_or(false)
    }

    pub(super) fn create_buffer(
        &self,
        device: &wgpu::Device,
        desc: &wgpu::BufferDescriptor<'_>,
        size: u64,
    ) -> Result<NewBuffer> {
        // For the zeroes.
        let usage = buffer_usage(desc.usage) | vk::BufferUsageFlags::TRANSFER_DST;
        let exported = ExportableBuffer::new(&self.interop, &BufferOptions::new(size, usage))?;
        let raw = exported.buffer().clone();
        // SAFETY: the buffer is of this device, has the usage and the size, and is zeroed before its first use.
        let buffer = unsafe { wgpu_buffer(device, desc, &raw) };
        Ok(NewBuffer { buffer, resource: Resource::VulkanBuffer(raw), exporter: Exporter::VulkanBuffer(exported) })
    }

    pub(super) fn create_texture(
        &self,
        device: &wgpu::Device,
        desc: &wgpu::TextureDescriptor<'_>,
        options: TextureOptions,
        linear: bool,
    ) -> Result<NewTexture> {
        let spec = image_spec("Interop::create_texture", desc, options.cube, linear)?;
        let exported = ExportableImage::new(&self.interop, &ImageOptions::new(spec)).map_err(|error| {
            if linear && error.kind() == ErrorKind::Unsupported {
                error.with_context("advice", "linear tiling: drivers often have it for 2D images with one level only")
            } else {
                error
            }
        })?;
        let raw = exported.image().clone();
        let layout = if linear {
            let layers = |level| (0..spec.layers).map(|layer| linear_layout(&raw, level, layer)).collect();
            Layout::Linear((0..spec.levels).map(layers).collect::<Result<_>>()?)
        } else {
            Layout::Array(exported.array_desc()?)
        };
        let texture = {
            // SAFETY: the guard destroys nothing.
            let hal = unsafe { device.as_hal::<Vulkan>() };
            let hal = hal.ok_or_else(|| Error::invalid("Interop::create_texture", "the wgpu device has changed"))?;
            // SAFETY: the image was created on this device from this description. The caller submits
            // `Transfer::Initialize` before anything else can use it, which leaves it zeroed in `GENERAL`.
            unsafe { wgpu_texture(device, &hal, desc, &raw) }
        };
        let format = raw.format().array;
        let exporter = Exporter::VulkanImage(exported);
        Ok(NewTexture { texture, resource: Resource::VulkanImage(raw), exporter, format, layout })
    }

    pub(super) fn create_timeline(&self, compute: &Device, initial: u64) -> Result<(NativeTimeline, Timeline)> {
        let (semaphore, timeline) = if self.has(SEMAPHORES) {
            shared_timeline(&self.interop, compute, initial)?
        } else {
            let semaphore = OwnedSemaphore::timeline(&self.interop, initial)?;
            (semaphore.clone(), Timeline::new(compute, Arc::new(semaphore))?)
        };
        Ok((NativeTimeline::Vulkan(semaphore), timeline))
    }

    pub(super) fn record(
        &self,
        device: &wgpu::Device,
        transfer: Transfer,
        resources: &[&Resource],
    ) -> Result<Option<wgpu::CommandBuffer>> {
        let label = Some("gpu-interop barriers");
        let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label });
        let record = |encoder: Option<&mut wgpu::hal::vulkan::CommandEncoder>| {
            let lost = || Error::new(ErrorKind::DeviceLost, "CommandEncoder::as_hal_mut", "wgpu opened no encoder");
            // SAFETY: the command buffer is neither ended nor destroyed here.
            let commands = unsafe { encoder.ok_or_else(lost)?.raw_handle() };
            resources.iter().try_for_each(|resource| {
                // SAFETY: the command buffer is of this device, in the recording state and outside a pass, and used by
                // this thread alone. It is submitted to wgpu's queue, which is of `queue_family`, in a submission whose
                // tracked command buffer keeps the objects alive. Releases and acquires alternate: an object is
                // released once at a time (`Object::lend`), and new ones are initialised once.
                unsafe { self.record_one(commands, transfer, resource) }
            })
        };
        // SAFETY: nothing else uses the encoder, and wgpu ends it.
        unsafe { encoder.as_hal_mut::<Vulkan, _, _>(record) }?;
        Ok(Some(encoder.finish()))
    }

    /// # Safety
    /// As `OwnedImage::record_release` of gpu-interop-vulkan; for `Initialize` the object must be new.
    unsafe fn record_one(&self, commands: vk::CommandBuffer, transfer: Transfer, resource: &Resource) -> Result<()> {
        let family = OwnershipTransfer::all(self.queue_family);
        let general = vk::ImageLayout::GENERAL;
        let device = self.interop.device();
        // SAFETY: the caller's promises. An image that changes hands is in `GENERAL`, as the module says.
        unsafe {
            match (resource, transfer) {
                (Resource::VulkanBuffer(buffer), Transfer::Release) => buffer.record_release(commands, family),
                (Resource::VulkanBuffer(buffer), Transfer::Acquire) => buffer.record_acquire(commands, family),
                (Resource::VulkanImage(image), Transfer::Release) => image.record_release(commands, family, general),
                (Resource::VulkanImage(image), Transfer::Acquire) => image.record_acquire(commands, family, general),
                (Resource::VulkanBuffer(buffer), Transfer::Initialize) => {
                    device.cmd_fill_buffer(commands, buffer.as_raw(), 0, vk::WHOLE_SIZE, 0);
                    self.record_end_of_zeroes(commands);
                    Ok(())
                }
                (Resource::VulkanImage(image), Transfer::Initialize) => {
                    image.record_initialize(commands);
                    let range = vk::ImageSubresourceRange::default()
                        .aspect_mask(vk::ImageAspectFlags::COLOR)
                        .level_count(vk::REMAINING_MIP_LEVELS)
                        .layer_count(vk::REMAINING_ARRAY_LAYERS);
                    // Zero is the same bits for floats and integers.
                    let zero = vk::ClearColorValue { uint32: [0; 4] };
                    device.cmd_clear_color_image(commands, image.as_raw(), general, &zero, &[range]);
                    self.record_end_of_zeroes(commands);
                    Ok(())
                }
                #[cfg(windows)]
                (Resource::D3d12, _) => Ok(()),
            }
        }
    }

    /// Makes the zeroes visible to everything behind them.
    ///
    /// # Safety
    /// As `vkCmdPipelineBarrier`.
    unsafe fn record_end_of_zeroes(&self, commands: vk::CommandBuffer) {
        let barrier = vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
            .dst_access_mask(vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE);
        // SAFETY: the caller's promises; the barrier names no object.
        unsafe {
            self.interop.device().cmd_pipeline_barrier(
                commands,
                vk::PipelineStageFlags::TRANSFER,
                vk::PipelineStageFlags::ALL_COMMANDS,
                vk::DependencyFlags::empty(),
                &[barrier],
                &[],
                &[],
            );
        }
    }

    /// A submission that takes the wait early delays only itself: all later ones are behind it.
    pub(super) fn stage_wait(&self, queue: &wgpu::Queue, timeline: &NativeTimeline, value: u64) -> Result<()> {
        let semaphore = semaphore(timeline)?;
        semaphore.submit_wait(raw_queue(queue)?, value, || {
            with_queue(queue, |queue| {
                queue.add_wait_semaphore(semaphore.as_raw(), Some(value), vk::PipelineStageFlags::ALL_COMMANDS);
            })
        })
    }

    /// The signal must not go to a submission before the work that it announces. wgpu gives a staged signal to
    /// whichever thread submits next, so it is staged only after that work was submitted; then every thread's next
    /// submission is behind the work, and the signal's scope contains all submissions before it. An empty submission
    /// follows, in case no other thread's comes.
    pub(super) fn signal(&self, queue: &wgpu::Queue, timeline: &NativeTimeline, value: u64) -> Result<()> {
        let semaphore = semaphore(timeline)?;
        let raw = semaphore.as_raw();
        semaphore.submit_signal(raw_queue(queue)?, value, || {
            with_queue(queue, |queue| queue.add_signal_semaphore(raw, Some(value)))?;
            queue.submit([]);
            if with_queue(queue, |queue| queue.remove_signal_semaphore(raw))? {
                let message = "wgpu submits nothing any more; its device is lost or destroyed";
                return Err(Error::new(ErrorKind::DeviceLost, "Queue::submit", message).with_device(self.identity()));
            }
            Ok(())
        })
    }
}

/// A buffer of wgpu on a buffer of Vulkan.
///
/// # Safety
/// The buffer is of this device, has the usage and at least the size of `desc`, and is initialised before its first use.
/// `desc` has no usage that maps.
unsafe fn wgpu_buffer(device: &wgpu::Device, desc: &wgpu::BufferDescriptor<'_>, raw: &OwnedBuffer) -> wgpu::Buffer {
    let kept = raw.clone();
    // SAFETY: the buffer lives until wgpu drops its own, and with it `kept`. wgpu never maps it, as the caller promises.
    let hal =
        unsafe { wgpu::hal::vulkan::Buffer::from_raw_externally_owned(raw.as_raw(), Box::new(move || drop(kept))) };
    // SAFETY: the caller's promises.
    unsafe { device.create_buffer_from_hal::<Vulkan>(hal, desc) }
}

/// A texture of wgpu on an image of Vulkan.
///
/// # Safety
/// The image is of this device and was created with the properties of `desc`. It is initialised and in `GENERAL` before
/// anything of wgpu uses it.
unsafe fn wgpu_texture(
    device: &wgpu::Device,
    hal: &wgpu::hal::vulkan::Device,
    desc: &wgpu::TextureDescriptor<'_>,
    raw: &OwnedImage,
) -> wgpu::Texture {
    let kept = raw.clone();
    let hal_desc = wgpu::hal::TextureDescriptor {
        label: desc.label,
        size: desc.size,
        mip_level_count: desc.mip_level_count,
        sample_count: desc.sample_count,
        dimension: desc.dimension,
        format: desc.format,
        usage: wgpu::TextureUses::empty(),
        memory_flags: wgpu::hal::MemoryFlags::empty(),
        view_formats: other_views(desc).collect(),
    };
    // SAFETY: the image has this description, and lives until wgpu drops its own and with it `kept`; so does its memory.
    let texture = unsafe {
        hal.texture_from_raw(
            raw.as_raw(),
            &hal_desc,
            Some(Box::new(move || drop(kept))),
            wgpu::hal::vulkan::TextureMemory::External,
        )
    };
    // SAFETY: the caller's promises.
    unsafe { device.create_texture_from_hal::<Vulkan>(texture, desc, wgpu::TextureUses::STORAGE_READ_WRITE) }
}

/// Fails for a device that cannot share memory.
fn check_extensions(operation: &'static str, enabled: &[&'static CStr]) -> Result<()> {
    let missing: Vec<_> =
        VulkanInterop::required_device_extensions().iter().filter(|name| !enabled.contains(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let feature = if cfg!(windows) { "VULKAN_EXTERNAL_MEMORY_WIN32" } else { "VULKAN_EXTERNAL_MEMORY_FD" };
    let message = format!(
        "the wgpu device was created without the Vulkan extensions {missing:?}; create it with \
         gpu_interop_wgpu::request_device, or with the feature {feature}"
    );
    Err(Error::unsupported(operation, message))
}

/// As [`Native::unstage`](super::Native::unstage).
pub(super) fn unstage(queue: &wgpu::Queue, semaphore: &OwnedSemaphore) {
    let removed = with_queue(queue, |queue| {
        queue.remove_wait_semaphore(semaphore.as_raw());
        queue.remove_signal_semaphore(semaphore.as_raw());
    });
    if let Err(error) = removed {
        tracing::error!(%error, "a timeline may be staged after its end");
    }
}

fn with_queue<T>(queue: &wgpu::Queue, call: impl FnOnce(&wgpu::hal::vulkan::Queue) -> T) -> Result<T> {
    // SAFETY: the guard destroys nothing.
    let hal = unsafe { queue.as_hal::<Vulkan>() };
    let hal = hal.ok_or_else(|| Error::invalid("Queue::as_hal", "the queue is not of the device's backend"))?;
    Ok(call(&hal))
}

fn raw_queue(queue: &wgpu::Queue) -> Result<vk::Queue> {
    with_queue(queue, wgpu::hal::vulkan::Queue::as_raw)
}

fn semaphore(timeline: &NativeTimeline) -> Result<&OwnedSemaphore> {
    match timeline {
        NativeTimeline::Vulkan(semaphore) => Ok(semaphore),
        #[cfg(windows)]
        NativeTimeline::D3d12(_) => Err(Error::invalid("Interop::submit_with", "the timeline is of another API")),
    }
}

/// Vulkan's usage of a buffer of wgpu.
fn buffer_usage(usage: wgpu::BufferUsages) -> vk::BufferUsageFlags {
    use vk::BufferUsageFlags as Flags;
    use wgpu::BufferUsages as Usage;
    let ray_tracing = Flags::ACCELERATION_STRUCTURE_BUILD_INPUT_READ_ONLY_KHR | Flags::SHADER_DEVICE_ADDRESS;
    let table = [
        (Usage::COPY_SRC, Flags::TRANSFER_SRC),
        (Usage::COPY_DST, Flags::TRANSFER_DST),
        (Usage::INDEX, Flags::INDEX_BUFFER),
        (Usage::VERTEX, Flags::VERTEX_BUFFER),
        (Usage::UNIFORM, Flags::UNIFORM_BUFFER),
        (Usage::STORAGE, Flags::STORAGE_BUFFER),
        // wgpu's own shaders validate indirect arguments and normalise timestamps.
        (Usage::INDIRECT, Flags::INDIRECT_BUFFER | Flags::STORAGE_BUFFER),
        (Usage::QUERY_RESOLVE, Flags::TRANSFER_DST | Flags::STORAGE_BUFFER),
        (Usage::BLAS_INPUT, ray_tracing),
        (Usage::TLAS_INPUT, ray_tracing),
    ];
    let of = |(wanted, flags)| if usage.contains(wanted) { flags } else { Flags::empty() };
    table.into_iter().map(of).fold(Flags::empty(), |all, flags| all | flags)
}

/// Vulkan's usage of a texture of wgpu.
fn image_usage(usage: wgpu::TextureUsages) -> vk::ImageUsageFlags {
    use vk::ImageUsageFlags as Flags;
    use wgpu::TextureUsages as Usage;
    let table = [
        (Usage::COPY_SRC, Flags::TRANSFER_SRC),
        (Usage::COPY_DST, Flags::TRANSFER_DST),
        (Usage::TEXTURE_BINDING, Flags::SAMPLED),
        (Usage::STORAGE_BINDING, Flags::STORAGE),
        (Usage::STORAGE_ATOMIC, Flags::STORAGE),
        (Usage::RENDER_ATTACHMENT, Flags::COLOR_ATTACHMENT),
    ];
    let of = |(wanted, flags)| if usage.contains(wanted) { flags } else { Flags::empty() };
    table.into_iter().map(of).fold(Flags::empty(), |all, flags| all | flags)
}

fn image_spec(
    operation: &'static str,
    desc: &wgpu::TextureDescriptor<'_>,
    cube: bool,
    linear: bool,
) -> Result<ImageSpec> {
    use vk::ImageViewType as View;
    let wgpu::Extent3d { width, height, depth_or_array_layers } = desc.size;
    let (view, depth, layers) = match desc.dimension {
        wgpu::TextureDimension::D1 => (View::TYPE_1D, 1, depth_or_array_layers),
        wgpu::TextureDimension::D3 => (View::TYPE_3D, depth_or_array_layers, 1),
        wgpu::TextureDimension::D2 if cube && depth_or_array_layers == 6 => (View::CUBE, 1, 6),
        wgpu::TextureDimension::D2 if cube => (View::CUBE_ARRAY, 1, depth_or_array_layers),
        wgpu::TextureDimension::D2 if depth_or_array_layers > 1 => (View::TYPE_2D_ARRAY, 1, depth_or_array_layers),
        wgpu::TextureDimension::D2 => (View::TYPE_2D, 1, depth_or_array_layers),
    };
    let format = format::row(operation, desc.format)?.vulkan;
    // For the zeroes.
    let usage = image_usage(desc.usage) | vk::ImageUsageFlags::TRANSFER_DST;
    let tiling = if linear { vk::ImageTiling::LINEAR } else { vk::ImageTiling::OPTIMAL };
    let spec = ImageSpec::new(view, [width, height, depth], format, usage);
    Ok(spec.layers(layers).levels(desc.mip_level_count).tiling(tiling).flags(image_flags(desc)))
}

/// The formats of views that differ from the texture's format.
fn other_views(desc: &wgpu::TextureDescriptor<'_>) -> impl Iterator<Item = wgpu::TextureFormat> {
    desc.view_formats.iter().copied().filter(|format| *format != desc.format)
}

/// The creation flags that wgpu's own textures have: each allows views that wgpu's validation lets the application
/// make.
fn image_flags(desc: &wgpu::TextureDescriptor<'_>) -> vk::ImageCreateFlags {
    let mut flags = vk::ImageCreateFlags::empty();
    if other_views(desc).next().is_some() {
        flags |= vk::ImageCreateFlags::MUTABLE_FORMAT;
    }
    let wgpu::Extent3d { width, height, depth_or_array_layers } = desc.size;
    if desc.dimension == wgpu::TextureDimension::D2 && width == height && depth_or_array_layers >= 6 {
        flags |= vk::ImageCreateFlags::CUBE_COMPATIBLE;
    }
    let rendered = desc.usage.contains(wgpu::TextureUsages::RENDER_ATTACHMENT);
    if desc.dimension == wgpu::TextureDimension::D3 && rendered {
        flags |= vk::ImageCreateFlags::TYPE_2D_ARRAY_COMPATIBLE;
    }
    flags
}

fn linear_layout(image: &gpu_interop::vulkan::OwnedImage, level: u32, layer: u32) -> Result<LinearLayout> {
    let found = image.subresource_layout(level, layer)?;
    let row_pitch = found.row_pitch;
    let rows = u64::from(image.spec().level_extent(level).height);
    let slice_pitch = found.depth_pitch.unwrap_or_else(|| row_pitch.saturating_mul(rows));
    Ok(LinearLayout { offset: found.offset, row_pitch, slice_pitch })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_the_extensions_is_an_error_that_says_how_to_get_one() {
        let error = check_extensions("test", &[c"VK_KHR_swapchain"]).expect_err("cannot share");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        for words in ["VK_KHR_external_memory_", "request_device", "VULKAN_EXTERNAL_MEMORY_"] {
            assert!(error.to_string().contains(words), "{error}");
        }
        check_extensions("test", VulkanInterop::required_device_extensions()).expect("can share");
    }

    #[test]
    fn usages_of_wgpu_are_usages_of_vulkan() {
        use vk::BufferUsageFlags as Flags;
        let all = wgpu::BufferUsages::all() - wgpu::BufferUsages::MAP_READ - wgpu::BufferUsages::MAP_WRITE;
        for usage in all.iter() {
            assert!(!buffer_usage(usage).is_empty(), "{usage:?}");
        }
        assert_eq!(buffer_usage(wgpu::BufferUsages::VERTEX), Flags::VERTEX_BUFFER);
        // wgpu reads indirect arguments in a shader.
        assert!(buffer_usage(wgpu::BufferUsages::INDIRECT).contains(Flags::STORAGE_BUFFER));
        for usage in (wgpu::TextureUsages::all() - wgpu::TextureUsages::TRANSIENT_ATTACHMENT).iter() {
            assert!(!image_usage(usage).is_empty(), "{usage:?}");
        }
    }
}
