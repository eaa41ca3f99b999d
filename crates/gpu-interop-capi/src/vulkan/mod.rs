//! The application's Vulkan device. The types of `vulkan.h` are passed as pointers (dispatchable handles), 64-bit numbers
//! (other handles) and 32-bit numbers (flags and enums), so that the header does not need `vulkan.h`.

mod barrier;
mod buffer;
mod export;
mod image;
mod semaphore;

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use gpu_interop::vulkan::ash::vk::{self, Handle as _};
use gpu_interop::vulkan::{VulkanInterop, ash, device_identity, load_entry};
use gpu_interop::{Error, Result};

use crate::call::call;
use crate::handle::gpi_vulkan;
use crate::identity::gpi_identity;
use crate::object;
use crate::pointer::{self, Out};
use crate::release::{Release, gpi_release_function};
use crate::status::gpi_status;

pub use barrier::*;
pub use buffer::*;
pub use export::*;
pub use image::*;
pub use semaphore::*;

/// Placement of Vulkan memory: device-local.
pub const GPI_VULKAN_DEVICE_LOCAL: i32 = 0;
/// Placement of Vulkan memory: host-visible and coherent; it stays mapped.
pub const GPI_VULKAN_HOST_VISIBLE: i32 = 1;

/// The application's Vulkan objects.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gpi_vulkan_device {
    /// `VkInstance`, created for Vulkan 1.1 or later (`VkApplicationInfo::apiVersion`).
    pub instance: *mut c_void,
    /// `VkPhysicalDevice` of the instance.
    pub physical_device: *mut c_void,
    /// `VkDevice` of the physical device, with the extensions of `gpi_vulkan_get_extension`. For timelines it has the feature
    /// `timelineSemaphore`, of Vulkan 1.2 or `VK_KHR_timeline_semaphore`; the library cannot query enabled features. Ignored
    /// by `gpi_vulkan_get_physical_device_identity`.
    pub device: *mut c_void,
    /// `vkGetInstanceProcAddr`, cast. Null: that of the system's Vulkan loader.
    pub get_instance_proc_addr: Option<unsafe extern "C" fn()>,
}

/// Function tables of the application's objects.
struct Loaded {
    /// Keeps the loader, if it was loaded here.
    entry: ash::Entry,
    instance: ash::Instance,
    physical_device: vk::PhysicalDevice,
}

fn not_null(operation: &'static str, name: &'static str, pointer: *mut c_void) -> Result<u64> {
    match pointer.is_null() {
        true => Err(Error::invalid(operation, "a Vulkan handle is null").with_context("handle", name)),
        false => Ok(pointer.expose_provenance() as u64),
    }
}

impl gpi_vulkan_device {
    /// # Safety
    /// The objects are live and belong together; the function is `vkGetInstanceProcAddr`.
    unsafe fn load(&self, operation: &'static str) -> Result<Loaded> {
        let instance = not_null(operation, "instance", self.instance)?;
        let physical_device = not_null(operation, "physical_device", self.physical_device)?;
        let entry = match self.get_instance_proc_addr {
            None => load_entry()?,
            Some(function) => {
                // SAFETY: the caller's promise: it is this function. On 64-bit systems C has one calling convention.
                let get_instance_proc_addr =
                    unsafe { std::mem::transmute::<unsafe extern "C" fn(), vk::PFN_vkGetInstanceProcAddr>(function) };
                // SAFETY: the caller's promise.
                unsafe { ash::Entry::from_static_fn(ash::StaticFn { get_instance_proc_addr }) }
            }
        };
        // SAFETY: the caller's promise: the instance is live.
        let instance = unsafe { ash::Instance::load(entry.static_fn(), vk::Instance::from_raw(instance)) };
        Ok(Loaded { entry, instance, physical_device: vk::PhysicalDevice::from_raw(physical_device) })
    }
}

/// Writes the identity of a physical device to `*identity`; `device->device` is ignored.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` for a null handle; `GPI_ERROR_DRIVER_NOT_FOUND` without a Vulkan loader.
///
/// # Safety
/// The instance is live and for Vulkan 1.1 or later, and the physical device is one of its devices.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_vulkan_get_physical_device_identity(
    device: *const gpi_vulkan_device,
    identity: *mut gpi_identity,
) -> gpi_status {
    call("gpi_vulkan_get_physical_device_identity", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "identity", identity) }?;
        // SAFETY: the caller's promises.
        let loaded = unsafe { pointer::read(operation, "device", device)?.load(operation) }?;
        // SAFETY: the caller's promise.
        out.set((&unsafe { device_identity(&loaded.instance, loaded.physical_device) }).into());
        Ok(())
    })
}

/// Returns the name of the device extension at `index`, counted from 0: first the required ones, then those for semaphores and
/// dma-bufs, which are enabled where the device lists them. Null past the end. `*required`, unless `required` is null, is set
/// to 1 or 0. The text is static.
///
/// # Safety
/// `required` is null or points to an `int32_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_vulkan_get_extension(index: u32, required: *mut i32) -> *const c_char {
    let (needed, optional) = (VulkanInterop::required_device_extensions(), VulkanInterop::optional_device_extensions());
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    let Some(name) = needed.iter().chain(optional).nth(index) else { return std::ptr::null() };
    if !required.is_null() {
        // SAFETY: the caller's promise; the write needs no alignment.
        unsafe { required.write_unaligned(i32::from(index < needed.len())) };
    }
    name.as_ptr()
}

/// Wraps the application's device, and writes it to `*vulkan`, owned by the caller. It owns neither instance nor device.
///
/// `release(data)` is called once, when nothing made from it uses the device any more, which may be after
/// `gpi_vulkan_destroy`: destroy device and instance there, or destroy everything made from them first. If this function
/// fails, it is not called.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` for a null handle or an instance of Vulkan 1.0; `GPI_ERROR_DRIVER_TOO_OLD`;
/// `GPI_ERROR_UNSUPPORTED` if a required extension is not enabled.
///
/// # Safety
/// Instance, physical device and device belong together, and are live until `release` is called, or, if it is null, until
/// everything made from this object is destroyed and the compute devices that use its timelines are closed. If timelines are
/// used, the feature `timelineSemaphore` is enabled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_vulkan_wrap(
    device: *const gpi_vulkan_device,
    release: gpi_release_function,
    data: *mut c_void,
    vulkan: *mut gpi_vulkan,
) -> gpi_status {
    call("gpi_vulkan_wrap", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "vulkan", vulkan) }?;
        // SAFETY: the caller's promise.
        let device = unsafe { pointer::read(operation, "device", device) }?;
        let raw = not_null(operation, "device", device.device)?;
        // SAFETY: the caller's promise.
        let loaded = unsafe { device.load(operation) }?;
        // SAFETY: the caller's promise: the device is live and made from this instance.
        let device = unsafe { ash::Device::load(loaded.instance.fp_v1_0(), vk::Device::from_raw(raw)) };
        // SAFETY: the caller's promise.
        let release = Arc::new(unsafe { Release::new(release, data) });
        let owner = Arc::new((release.clone(), loaded.entry));
        // SAFETY: the caller's promises.
        let interop = unsafe { VulkanInterop::with_owner(&loaded.instance, loaded.physical_device, &device, owner) }?;
        release.arm();
        out.set(object::add(interop));
        Ok(())
    })
}

/// Writes the identity of the device to `*identity`: pass it to `gpi_device_open_for`.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_vulkan_get_identity(vulkan: gpi_vulkan, identity: *mut gpi_identity) -> gpi_status {
    call("gpi_vulkan_get_identity", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "identity", identity) }?;
        out.set(object::get(operation, vulkan)?.identity().into());
        Ok(())
    })
}

/// Destroys the handle. Objects made from it stay usable.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_vulkan_destroy(vulkan: gpi_vulkan) -> gpi_status {
    call("gpi_vulkan_destroy", |operation| object::remove(operation, vulkan).map(drop))
}
