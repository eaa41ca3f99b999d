//! The Khronos validation layer, and its versions that stall beside a bridge.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

use ash::vk;

use crate::identity::version;
use crate::loader::load_entry;

pub(crate) const LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";

/// The first version that does not wait for itself where one thread signals a timeline and another waits.
const FIXED: u32 = vk::make_api_version(0, 1, 4, 304);

/// Warns, once a process, of a loaded validation layer that stalls beside a bridge. Vulkan cannot report the layers of an
/// instance, so it looks for the layer's library in the process.
pub(crate) fn warn_beside_bridge() {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if WARNED.load(Ordering::Relaxed) {
        return;
    }
    let Some(found) = loaded().filter(|found| *found < FIXED) else { return };
    if WARNED.swap(true, Ordering::Relaxed) {
        return;
    }
    tracing::warn!(
        layer = version(found),
        "this validation layer may stall for 10 s wherever a bridge signals a timeline, and report \
         UNASSIGNED-VkSemaphore-state-timeout; install version 1.4.304 or later (Debian 13's vulkan-validationlayers, or the \
         Vulkan SDK), or turn validation off"
    );
}

/// The version of the validation layer if its library is loaded.
fn loaded() -> Option<u32> {
    let mapped = std::fs::read("/proc/self/maps").ok()?;
    let name = b"VkLayer_khronos_validation";
    if !mapped.windows(name.len()).any(|window| window == name) {
        return None;
    }
    let entry = load_entry().ok()?;
    // SAFETY: the entry is a Vulkan loader's.
    let layers = unsafe { entry.enumerate_instance_layer_properties() }.ok()?;
    let layer = layers.iter().find(|layer| layer.layer_name_as_c_str() == Ok(LAYER))?;
    Some(layer.spec_version)
}
