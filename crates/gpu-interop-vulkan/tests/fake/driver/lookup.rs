//! Functions by name.

use std::ffi::{CStr, c_char, c_void};

use ash::vk;

use super::macros::functions;
use super::state::settings;
use super::{commands, objects};

type Device = vk::Device;

functions! {
    create {}
    destroy {}
    PFN_vkGetDeviceProcAddr vkGetDeviceProcAddr(device: Device, name: *const c_char) -> vk::PFN_vkVoidFunction {
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
pub(super) fn any(name: &CStr) -> *const c_void {
    let found = [address(name), objects::address(name), commands::address(name)];
    found.into_iter().find(|function| !function.is_null()).unwrap_or(std::ptr::null())
}
