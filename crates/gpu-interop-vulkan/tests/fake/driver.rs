//! A fake Vulkan driver that records its calls. It computes nothing: handles are numbers, memory is a file.
//!
//! All state is thread-local, so each test has its own driver.

mod commands;
mod macros;
mod objects;
mod state;

use std::ffi::{CStr, c_char, c_void};

use ash::vk::{self, Handle};
use gpu_interop_core::Result;
use gpu_interop_vulkan::{HeadlessContext, VulkanInterop};

use self::macros::functions;
pub(crate) use self::state::{Settings, calls, change, file, in_submission, lend, lent, settings};

/// The queue family of [`context`]; not 0, the default of a missing value.
pub(crate) const FAMILY: u32 = 7;

/// Creates a device of a driver with these settings.
pub(crate) fn try_start(settings: Settings) -> Result<VulkanInterop> {
    state::reset(settings);
    // SAFETY: the functions are those of this module, with the right types; handles are never dereferenced.
    let (instance, device) = unsafe {
        (
            ash::Instance::load_with(any, vk::Instance::from_raw(0x10)),
            ash::Device::load_with(any, vk::Device::from_raw(0x11)),
        )
    };
    // SAFETY: instance and device belong together, and their functions are static.
    unsafe { VulkanInterop::new(&instance, vk::PhysicalDevice::from_raw(0x12), &device) }
}

pub(crate) fn start(settings: Settings) -> VulkanInterop {
    let interop = try_start(settings).expect("a device");
    calls();
    interop
}

/// A context on a queue of [`FAMILY`].
pub(crate) fn context(interop: &VulkanInterop) -> HeadlessContext {
    // SAFETY: the fake driver accepts this queue; nothing else uses it.
    unsafe { HeadlessContext::on_queue(interop, FAMILY, vk::Queue::from_raw(0x13)) }
}

functions! {
    create {}
    destroy {}
    PFN_vkGetDeviceProcAddr vkGetDeviceProcAddr(device: vk::Device, name: *const c_char) -> vk::PFN_vkVoidFunction {
        // SAFETY: the library passes a C string.
        let name = unsafe { CStr::from_ptr(name) };
        let text = name.to_str().unwrap_or_default();
        let (core, timeline) = (text.ends_with("Requirements2"), text.contains("SemaphoreCounterValue"));
        let modifiers = text.contains("DrmFormatModifier") && !settings().modifiers;
        let addresses = text.contains("BufferDeviceAddress") && !settings().addresses;
        let hidden = modifiers || addresses || (core && !settings().has_1_1) || (timeline && !settings().timeline_functions);
        let address = if hidden { std::ptr::null() } else { any(name) };
        // SAFETY: null, or a function that is called with its own type.
        unsafe { std::mem::transmute::<*const c_void, vk::PFN_vkVoidFunction>(address) }
    }
}

/// The function with this name; null if the driver lacks it.
fn any(name: &CStr) -> *const c_void {
    let found = [address(name), objects::address(name), commands::address(name)];
    found.into_iter().find(|function| !function.is_null()).unwrap_or(std::ptr::null())
}
