//! The installed validation layer.

use gpu_interop::vulkan::ash::vk;

use crate::outcome::{Stop, Verdict};

/// The first version without the deadlock.
const SOUND: u32 = vk::make_api_version(0, 1, 4, 304);

/// The reason why the layer must be disabled if one host thread signals a timeline that another waits for or reads;
/// `None` if it may be enabled, or is not installed. Old layers deadlock then for 10 seconds each time, and report an
/// error caused by a defect of their own (KhronosGroup/Vulkan-ValidationLayers, #8519).
pub(super) fn deadlocks() -> Verdict<Option<String>> {
    let entry = gpu_interop::vulkan::load_entry()?;
    // SAFETY: the entry is a Vulkan loader's.
    let layers = unsafe { entry.enumerate_instance_layer_properties() }
        .map_err(|code| Stop::failed(format!("vkEnumerateInstanceLayerProperties: {code}")))?;
    let layer = layers.iter().find(|layer| layer.layer_name_as_c_str() == Ok(c"VK_LAYER_KHRONOS_validation"));
    let old = layer.map(|layer| layer.spec_version).filter(|version| *version < SOUND);
    Ok(old.map(|version| {
        let [major, minor, patch] =
            [vk::api_version_major(version), vk::api_version_minor(version), vk::api_version_patch(version)];
        format!(
            "the Vulkan validation layer is off: version {major}.{minor}.{patch} waits for itself where threads of the \
             host signal timelines, which those before 1.4.304 may"
        )
    }))
}
