//! A Vulkan device of the suite's own with a swapchain of a headless surface.

use std::sync::Arc;
use std::time::Duration;

use gpu_interop::IdentityMatch;
use gpu_interop::vulkan::ash::prelude::VkResult;
use gpu_interop::vulkan::ash::{self, ext, khr, vk};
use gpu_interop::vulkan::{HeadlessContext, OwnedSemaphore, VulkanInterop, device_identity, load_entry};

use crate::context::Context;
use crate::outcome::{Stop, Verdict};

/// Width and height of the swapchain's images, if the surface permits them.
const EXTENT: [u32; 2] = [96, 64];
const IMAGES: u32 = 3;
/// Formats of four bytes a texel.
const FORMATS: [vk::Format; 4] =
    [vk::Format::R8G8B8A8_UNORM, vk::Format::B8G8R8A8_UNORM, vk::Format::R8G8B8A8_SRGB, vk::Format::B8G8R8A8_SRGB];
const USAGE: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(
    vk::ImageUsageFlags::TRANSFER_SRC.as_raw() | vk::ImageUsageFlags::TRANSFER_DST.as_raw(),
);

fn checked<T>(function: &str, result: VkResult<T>) -> Verdict<T> {
    result.map_err(|code| Stop::failed(format!("{function}: {code}")))
}

/// An instance with headless surfaces, and one surface.
struct InstanceOwner {
    instance: ash::Instance,
    surfaces: khr::surface::Instance,
    surface: vk::SurfaceKHR,
    /// Declared last, because it unloads the library.
    _entry: ash::Entry,
}

impl InstanceOwner {
    fn new() -> Verdict<Self> {
        let entry = load_entry()?;
        let wanted = [khr::surface::NAME, ext::headless_surface::NAME];
        // SAFETY: the entry is a Vulkan loader's.
        let listed = unsafe { entry.enumerate_instance_extension_properties(None) };
        let listed = checked("vkEnumerateInstanceExtensionProperties", listed)?;
        for name in wanted {
            if !listed.iter().any(|known| known.extension_name_as_c_str() == Ok(name)) {
                return Err(Stop::unsupported(format!("Vulkan has no instance extension {}", name.to_string_lossy())));
            }
        }
        let names = wanted.map(std::ffi::CStr::as_ptr);
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
        let info = vk::InstanceCreateInfo::default().application_info(&application).enabled_extension_names(&names);
        // SAFETY: the loader has the extensions, and every structure lives to the end of the call.
        let instance = checked("vkCreateInstance", unsafe { entry.create_instance(&info, None) })?;
        let surfaces = khr::surface::Instance::new(&entry, &instance);
        let headless = ext::headless_surface::Instance::new(&entry, &instance);
        let mut owner = Self { instance, surfaces, surface: vk::SurfaceKHR::null(), _entry: entry };
        let info = vk::HeadlessSurfaceCreateInfoEXT::default();
        // SAFETY: the instance is live and has the extension; the surface is destroyed before it.
        let surface = unsafe { headless.create_headless_surface(&info, None) };
        owner.surface = checked("vkCreateHeadlessSurfaceEXT", surface)?;
        Ok(owner)
    }
}

impl Drop for InstanceOwner {
    fn drop(&mut self) {
        // SAFETY: this object owns both; the device and its swapchain are gone, because their owner contains this one.
        unsafe {
            self.surfaces.destroy_surface(self.surface, None);
            self.instance.destroy_instance(None);
        }
    }
}

/// The device and the swapchain, alive as long as any object of theirs.
struct DeviceOwner {
    device: ash::Device,
    swapchains: khr::swapchain::Device,
    swapchain: vk::SwapchainKHR,
    parent: InstanceOwner,
}

impl Drop for DeviceOwner {
    fn drop(&mut self) {
        // SAFETY: this object owns both, and every other object of the device holds an `Arc` of this one; no other thread
        // uses the queue any more.
        unsafe {
            let _ = self.device.device_wait_idle();
            self.swapchains.destroy_swapchain(self.swapchain, None);
            self.device.destroy_device(None);
        }
    }
}

/// A swapchain, and the context that draws to its images.
pub(super) struct Screen {
    pub(super) context: HeadlessContext,
    pub(super) extent: [u32; 2],
    pub(super) images: Vec<vk::Image>,
    owner: Arc<DeviceOwner>,
}

impl Screen {
    /// A swapchain on the exporter's device.
    ///
    /// # Errors
    /// Unsupported if the loader or the device lacks headless surfaces or swapchains of them.
    pub(super) fn open(context: &Context) -> Verdict<Self> {
        let parent = InstanceOwner::new()?;
        let (instance, surface) = (&parent.instance, parent.surface);
        // SAFETY: the instance is live.
        let devices = checked("vkEnumeratePhysicalDevices", unsafe { instance.enumerate_physical_devices() })?;
        let exporter = context.exporter()?.identity();
        // SAFETY: the devices are those of the live instance, which is of Vulkan 1.2.
        let same = |device: &vk::PhysicalDevice| unsafe { device_identity(instance, *device) }.compare(exporter);
        let physical = devices.into_iter().find(|device| same(device) == IdentityMatch::Same);
        let physical =
            physical.ok_or_else(|| Stop::failed("another instance does not list the exporter's device".into()))?;
        let family = family(&parent, physical)?;
        let device = create_device(instance, physical, family)?;
        let swapchains = khr::swapchain::Device::new(instance, &device);
        let mut owner = DeviceOwner { device, swapchains, swapchain: vk::SwapchainKHR::null(), parent };
        let (info, extent) = describe(&owner.parent, physical, surface)?;
        // SAFETY: the device has the extension; the surface is live and supports these values, as it has just said.
        let swapchain = unsafe { owner.swapchains.create_swapchain(&info, None) };
        owner.swapchain = checked("vkCreateSwapchainKHR", swapchain)?;
        // SAFETY: the swapchain is live.
        let images = unsafe { owner.swapchains.get_swapchain_images(owner.swapchain) };
        let images = checked("vkGetSwapchainImagesKHR", images)?;
        let owner = Arc::new(owner);
        // SAFETY: the three belong together; the instance is of Vulkan 1.2, the device has the feature of timelines, and the
        // owner keeps both alive. The queue is one of the device's family, and only this context uses it.
        let context = unsafe {
            let interop = VulkanInterop::with_owner(&owner.parent.instance, physical, &owner.device, owner.clone())?;
            HeadlessContext::on_queue(&interop, family, owner.device.get_device_queue(family, 0))
        };
        Ok(Self { context, extent, images, owner })
    }

    /// Bytes of an image.
    pub(super) fn size(&self) -> u64 {
        let [width, height] = self.extent.map(u64::from);
        width * height * 4
    }

    /// Acquires an image: its index. Signals the semaphore.
    pub(super) fn acquire(&self, semaphore: &OwnedSemaphore, timeout: Duration) -> Verdict<usize> {
        let (swapchain, limit) = (self.owner.swapchain, u64::try_from(timeout.as_nanos())?);
        // SAFETY: swapchain and semaphore are live and of this device; the semaphore is unsignalled, and no work on it is
        // pending, because its last waiter has completed.
        let acquired = unsafe {
            self.owner.swapchains.acquire_next_image(swapchain, limit, semaphore.as_raw(), vk::Fence::null())
        };
        let (index, _) = checked("vkAcquireNextImageKHR", acquired)?;
        // SAFETY: the call above has submitted the signal.
        unsafe { semaphore.assume_signalled() };
        Ok(usize::try_from(index)?)
    }

    /// Presents an image behind the semaphore.
    pub(super) fn present(&self, index: usize, semaphore: &OwnedSemaphore) -> Verdict {
        let (swapchains, indices) = ([self.owner.swapchain], [u32::try_from(index)?]);
        let semaphores = [semaphore.as_raw()];
        let info =
            vk::PresentInfoKHR::default().wait_semaphores(&semaphores).swapchains(&swapchains).image_indices(&indices);
        let present = |queue| {
            // SAFETY: the queue's lock is held; its family presents to the surface; the image is acquired, and in the layout
            // of presentations once the semaphore is signalled, whose signal was submitted.
            unsafe { self.owner.swapchains.queue_present(queue, &info) }
        };
        checked("vkQueuePresentKHR", self.context.with_queue(present))?;
        // SAFETY: the call above has submitted the wait.
        unsafe { semaphore.assume_waited() };
        Ok(())
    }

    /// Waits for all work of the queue, presentations too.
    pub(super) fn finish(&self) -> Verdict {
        // SAFETY: the queue's lock is held.
        let idle = |queue| unsafe { self.owner.device.queue_wait_idle(queue) };
        checked("vkQueueWaitIdle", self.context.with_queue(idle))
    }
}

/// A family with graphics that presents to the surface.
fn family(parent: &InstanceOwner, physical: vk::PhysicalDevice) -> Verdict<u32> {
    // SAFETY: the physical device belongs to the live instance.
    let families = unsafe { parent.instance.get_physical_device_queue_family_properties(physical) };
    for (family, properties) in (0..).zip(families) {
        // SAFETY: the surface is the instance's, and the family the device's.
        let presents = unsafe { parent.surfaces.get_physical_device_surface_support(physical, family, parent.surface) };
        if properties.queue_flags.contains(vk::QueueFlags::GRAPHICS)
            && checked("vkGetPhysicalDeviceSurfaceSupportKHR", presents)?
        {
            return Ok(family);
        }
    }
    Err(Stop::unsupported("no queue of the exporter's device draws and presents to a headless surface".into()))
}

fn create_device(instance: &ash::Instance, physical: vk::PhysicalDevice, family: u32) -> Verdict<ash::Device> {
    // SAFETY: the physical device belongs to the live instance.
    let listed = unsafe { instance.enumerate_device_extension_properties(physical) };
    let listed = checked("vkEnumerateDeviceExtensionProperties", listed)?;
    let has = |name: &std::ffi::CStr| listed.iter().any(|known| known.extension_name_as_c_str() == Ok(name));
    if !has(khr::swapchain::NAME) {
        return Err(Stop::unsupported("the exporter's device has no VK_KHR_swapchain".into()));
    }
    let known = VulkanInterop::required_device_extensions().iter().chain(VulkanInterop::optional_device_extensions());
    let extensions = known.copied().filter(|name| has(name)).chain([khr::swapchain::NAME]);
    let extensions: Vec<_> = extensions.map(std::ffi::CStr::as_ptr).collect();
    let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
    let mut timelines = vk::PhysicalDeviceTimelineSemaphoreFeatures::default().timeline_semaphore(true);
    let info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .enabled_extension_names(&extensions)
        .push_next(&mut timelines);
    // SAFETY: family and extensions are the device's own; every structure lives to the end of the call. A device without the
    // feature returns an error.
    match unsafe { instance.create_device(physical, &info, None) } {
        Err(vk::Result::ERROR_FEATURE_NOT_PRESENT) => {
            Err(Stop::unsupported("the exporter's device has no timeline semaphores".into()))
        }
        created => checked("vkCreateDevice", created),
    }
}

/// A swapchain that the surface supports, and its extent.
fn describe(
    parent: &InstanceOwner,
    physical: vk::PhysicalDevice,
    surface: vk::SurfaceKHR,
) -> Verdict<(vk::SwapchainCreateInfoKHR<'static>, [u32; 2])> {
    // SAFETY: device and surface belong to the live instance, and a queue of the device presents to the surface.
    let (limits, formats) = unsafe {
        (
            parent.surfaces.get_physical_device_surface_capabilities(physical, surface),
            parent.surfaces.get_physical_device_surface_formats(physical, surface),
        )
    };
    let limits = checked("vkGetPhysicalDeviceSurfaceCapabilitiesKHR", limits)?;
    let formats = checked("vkGetPhysicalDeviceSurfaceFormatsKHR", formats)?;
    let format = formats.iter().find(|known| FORMATS.contains(&known.format));
    let format = format.ok_or_else(|| Stop::unsupported(format!("the surface has no 8-bit format: {formats:?}")))?;
    if !limits.supported_usage_flags.contains(USAGE) {
        let usage = limits.supported_usage_flags;
        return Err(Stop::unsupported(format!("images of the surface are not copied to and from: {usage:?}")));
    }
    // A headless surface has no extent of its own.
    let extent = match limits.current_extent {
        vk::Extent2D { width: u32::MAX, .. } => vk::Extent2D {
            width: EXTENT[0].clamp(limits.min_image_extent.width, limits.max_image_extent.width),
            height: EXTENT[1].clamp(limits.min_image_extent.height, limits.max_image_extent.height),
        },
        own => own,
    };
    let most = if limits.max_image_count == 0 { u32::MAX } else { limits.max_image_count };
    let alpha = if limits.supported_composite_alpha.contains(vk::CompositeAlphaFlagsKHR::OPAQUE) {
        vk::CompositeAlphaFlagsKHR::OPAQUE
    } else {
        vk::CompositeAlphaFlagsKHR::INHERIT
    };
    let info = vk::SwapchainCreateInfoKHR::default()
        .surface(surface)
        .min_image_count(IMAGES.clamp(limits.min_image_count, most))
        .image_format(format.format)
        .image_color_space(format.color_space)
        .image_extent(extent)
        .image_array_layers(1)
        .image_usage(USAGE)
        .pre_transform(limits.current_transform)
        .composite_alpha(alpha)
        .present_mode(vk::PresentModeKHR::FIFO)
        .clipped(true);
    Ok((info, [extent.width, extent.height]))
}
