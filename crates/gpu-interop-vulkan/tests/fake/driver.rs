//! A fake Vulkan driver that records its calls. It computes nothing: handles are numbers, memory is a file.
//!
//! All state is thread-local, so each test has its own driver.

mod commands;
mod lookup;
mod macros;
mod objects;
mod state;

use ash::vk::{self, Handle};
use gpu_interop_core::Result;
use gpu_interop_vulkan::{HeadlessContext, VulkanInterop};

pub(crate) use self::state::{Settings, calls, change, file, in_submission, lend, lent, settings};

/// The queue family of [`context`]; not 0, the default of a missing value.
pub(crate) const FAMILY: u32 = 7;

/// Creates a device of a driver with these settings.
pub(crate) fn try_start(settings: Settings) -> Result<VulkanInterop> {
    state::reset(settings);
    // SAFETY: the functions are those of this module, with the right types; handles are never dereferenced.
    let (instance, device) = unsafe {
        (
            ash::Instance::load_with(lookup::any, vk::Instance::from_raw(0x10)),
            ash::Device::load_with(lookup::any, vk::Device::from_raw(0x11)),
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
