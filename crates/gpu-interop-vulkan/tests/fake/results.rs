//! Results of the fake driver.

use std::ffi::c_void;
use std::os::fd::RawFd;

use ash::vk;

use crate::driver::{Settings, settings};

/// Size and alignment of every buffer and image, bytes.
const NEEDS: (u64, u64) = (8192, 4096);

/// `DRM_FORMAT_MOD_LINEAR` and `I915_FORMAT_MOD_Y_TILED`: the modifiers of every format, each with two memory planes.
pub(crate) const MODIFIERS: [u64; 2] = [0, 0x0100_0000_0000_0002];

/// The first type is not device-local, and the best host-visible type is not the first one.
pub(crate) fn memory_types() -> vk::PhysicalDeviceMemoryProperties {
    let mut properties = vk::PhysicalDeviceMemoryProperties { memory_type_count: 4, ..Default::default() };
    for (to, flags) in properties.memory_types.iter_mut().zip([0x0, 0x1, 0x6, 0xe]) {
        to.property_flags = vk::MemoryPropertyFlags::from_raw(flags);
    }
    properties
}

pub(crate) fn external_memory() -> vk::ExternalMemoryProperties {
    let Settings { dedicated_only, importable, .. } = settings();
    let features = 0x2 | u32::from(dedicated_only) | if importable { 0x4 } else { 0 };
    vk::ExternalMemoryProperties {
        external_memory_features: vk::ExternalMemoryFeatureFlags::from_raw(features),
        ..Default::default()
    }
}

/// Features of images with a modifier: all, but the second has no `VK_FORMAT_FEATURE_STORAGE_IMAGE_BIT`, and there may be no
/// `VK_FORMAT_FEATURE_DISJOINT_BIT`.
fn modifier_features(index: usize) -> vk::FormatFeatureFlags {
    let missing = if settings().disjoint { 0 } else { 0x40_0000 } | if index == 1 { 0x2 } else { 0 };
    vk::FormatFeatureFlags::from_raw(!missing)
}

pub(crate) fn image_limits() -> vk::ImageFormatProperties {
    vk::ImageFormatProperties {
        max_extent: vk::Extent3D { width: 1024, height: 1024, depth: 1024 },
        max_mip_levels: 11,
        max_array_layers: 64,
        sample_counts: vk::SampleCountFlags::TYPE_1,
        max_resource_size: 1 << 30,
    }
}

/// Fills the known structures of a chain.
///
/// # Safety
/// `first` must be the first of a chain of Vulkan's output structures.
pub(crate) unsafe fn fill(first: *mut vk::BaseOutStructure<'_>) {
    let mut next = first;
    while !next.is_null() {
        // SAFETY: a structure of the chain, of the type that `s_type` names.
        unsafe {
            match (*next).s_type {
                vk::StructureType::PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES if settings().fills_1_1 => {
                    let limits = next.cast::<vk::PhysicalDeviceMaintenance3Properties<'_>>();
                    (*limits).max_memory_allocation_size = 1 << 30;
                }
                vk::StructureType::PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES => {
                    let features = next.cast::<vk::PhysicalDeviceTimelineSemaphoreFeatures<'_>>();
                    (*features).timeline_semaphore = settings().timelines.into();
                }
                vk::StructureType::PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES => {
                    let features = next.cast::<vk::PhysicalDeviceBufferDeviceAddressFeatures<'_>>();
                    (*features).buffer_device_address = settings().addresses.into();
                }
                vk::StructureType::MEMORY_REQUIREMENTS_2 => {
                    let (size, alignment) = NEEDS;
                    (*next.cast::<vk::MemoryRequirements2<'_>>()).memory_requirements =
                        vk::MemoryRequirements { size, alignment, memory_type_bits: 0xf };
                }
                vk::StructureType::MEMORY_DEDICATED_REQUIREMENTS => {
                    let dedicated = next.cast::<vk::MemoryDedicatedRequirements<'_>>();
                    (*dedicated).requires_dedicated_allocation = settings().requires_dedicated.into();
                }
                vk::StructureType::EXTERNAL_IMAGE_FORMAT_PROPERTIES => {
                    let properties = next.cast::<vk::ExternalImageFormatProperties<'_>>();
                    (*properties).external_memory_properties = external_memory();
                }
                vk::StructureType::DRM_FORMAT_MODIFIER_PROPERTIES_LIST_EXT => {
                    let list = next.cast::<vk::DrmFormatModifierPropertiesListEXT<'_>>();
                    let to = (*list).p_drm_format_modifier_properties;
                    (*list).drm_format_modifier_count = 2;
                    for (index, modifier) in MODIFIERS.into_iter().enumerate().filter(|_| !to.is_null()) {
                        to.add(index).write(vk::DrmFormatModifierPropertiesEXT {
                            drm_format_modifier: modifier,
                            drm_format_modifier_plane_count: settings().memory_planes,
                            drm_format_modifier_tiling_features: modifier_features(index),
                        });
                    }
                }
                _ => {}
            }
            next = (*next).p_next;
        }
    }
}

/// The descriptor that an allocation imports.
///
/// # Safety
/// `first` must be the first of a chain of Vulkan's structures.
pub(crate) unsafe fn imported(first: *const c_void) -> Option<RawFd> {
    let mut next = first.cast::<vk::BaseInStructure<'_>>();
    while !next.is_null() {
        // SAFETY: a structure of the chain, of the type that `s_type` names.
        unsafe {
            if (*next).s_type == vk::StructureType::IMPORT_MEMORY_FD_INFO_KHR {
                return Some((*next.cast::<vk::ImportMemoryFdInfoKHR<'_>>()).fd);
            }
            next = (*next).p_next;
        }
    }
    None
}

pub(crate) fn regions(regions: &[vk::BufferImageCopy]) -> String {
    let text = |region: &vk::BufferImageCopy| {
        let of = region.image_subresource;
        let (offset, extent) = (region.image_offset, region.image_extent);
        format!(
            "buffer {} {} {}, aspect {:#x}, level {}, layers {} {}, offset {} {} {}, extent {} {} {}",
            region.buffer_offset,
            region.buffer_row_length,
            region.buffer_image_height,
            of.aspect_mask.as_raw(),
            of.mip_level,
            of.base_array_layer,
            of.layer_count,
            offset.x,
            offset.y,
            offset.z,
            extent.width,
            extent.height,
            extent.depth,
        )
    };
    regions.iter().map(text).collect::<Vec<_>>().join(", ")
}
