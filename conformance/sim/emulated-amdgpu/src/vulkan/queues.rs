//! Queue families: draws are not emulated, so programs are kept from the graphics queue.
//!
//! RADV copies and clears images on its graphics queue by draws, and on its compute queues by compute programs. The
//! graphics family of an AMD GPU has only sparse binding here, so programs choose a compute family.

use ash::vk;
use ash::vk::Handle as _;

use super::table::{InstanceTable, instance_table};
use crate::settings::settings;

/// AMD's vendor number.
const VENDOR: u32 = 0x1002;

/// `true` if the graphics families of a physical device are changed.
///
/// # Safety
///
/// The handle is of a physical device of the table.
unsafe fn is_changed(physical: vk::PhysicalDevice, table: &InstanceTable) -> bool {
    let Some(get) = table.properties.filter(|_| settings().is_some_and(|settings| !settings.vulkan_graphics)) else {
        return false;
    };
    let mut properties = vk::PhysicalDeviceProperties::default();
    // SAFETY: the structure is writable.
    unsafe { get(physical, &raw mut properties) };
    properties.vendor_id == VENDOR && properties.device_type != vk::PhysicalDeviceType::CPU
}

fn change(family: &mut vk::QueueFamilyProperties) {
    if family.queue_flags.contains(vk::QueueFlags::GRAPHICS) {
        family.queue_flags &= vk::QueueFlags::SPARSE_BINDING;
    }
}

pub(super) unsafe extern "system" fn families(
    physical: vk::PhysicalDevice,
    count: *mut u32,
    properties: *mut vk::QueueFamilyProperties,
) {
    // SAFETY: the physical device is of an instance that this layer created.
    let Some(table) = (unsafe { instance_table(physical.as_raw()) }) else { return };
    let Some(next) = table.families else { return };
    // SAFETY: the arguments are the caller's.
    unsafe { next(physical, count, properties) };
    // SAFETY: as above.
    if properties.is_null() || !unsafe { is_changed(physical, &table) } {
        return;
    }
    // SAFETY: the call above wrote the number, and as many elements.
    unsafe { std::slice::from_raw_parts_mut(properties, *count as usize) }.iter_mut().for_each(change);
}

pub(super) unsafe extern "system" fn families2(
    physical: vk::PhysicalDevice,
    count: *mut u32,
    properties: *mut vk::QueueFamilyProperties2<'_>,
) {
    // SAFETY: the physical device is of an instance that this layer created.
    let Some(table) = (unsafe { instance_table(physical.as_raw()) }) else { return };
    let Some(next) = table.families2 else { return };
    // SAFETY: the arguments are the caller's.
    unsafe { next(physical, count, properties) };
    // SAFETY: as above.
    if properties.is_null() || !unsafe { is_changed(physical, &table) } {
        return;
    }
    // SAFETY: the call above wrote the number, and as many elements.
    let families = unsafe { std::slice::from_raw_parts_mut(properties, *count as usize) };
    families.iter_mut().for_each(|family| change(&mut family.queue_family_properties));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_graphics_families_are_changed() {
        let all = vk::QueueFlags::GRAPHICS
            | vk::QueueFlags::COMPUTE
            | vk::QueueFlags::TRANSFER
            | vk::QueueFlags::SPARSE_BINDING;
        for (flags, expected) in [
            (all, vk::QueueFlags::SPARSE_BINDING),
            (vk::QueueFlags::COMPUTE | vk::QueueFlags::TRANSFER, vk::QueueFlags::COMPUTE | vk::QueueFlags::TRANSFER),
        ] {
            let mut family = vk::QueueFamilyProperties { queue_flags: flags, ..Default::default() };
            change(&mut family);
            assert_eq!(family.queue_flags, expected);
        }
    }
}
