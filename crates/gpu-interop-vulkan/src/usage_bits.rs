//! Usages of buffers, and usages and flags of images, that a device has.

use std::ffi::CStr;

use ash::vk;

/// Usages of buffers on every device.
const OF_BUFFERS: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::TRANSFER_SRC.as_raw()
        | vk::BufferUsageFlags::TRANSFER_DST.as_raw()
        | vk::BufferUsageFlags::UNIFORM_TEXEL_BUFFER.as_raw()
        | vk::BufferUsageFlags::STORAGE_TEXEL_BUFFER.as_raw()
        | vk::BufferUsageFlags::UNIFORM_BUFFER.as_raw()
        | vk::BufferUsageFlags::STORAGE_BUFFER.as_raw()
        | vk::BufferUsageFlags::INDEX_BUFFER.as_raw()
        | vk::BufferUsageFlags::VERTEX_BUFFER.as_raw()
        | vk::BufferUsageFlags::INDIRECT_BUFFER.as_raw(),
);

/// Usages of buffers with an extension, and a function that only devices with the extension have. Video needs the profiles
/// of its decoders and encoders, which this crate has no parameter for.
const OF_EXTENSIONS: [(vk::BufferUsageFlags, &CStr); 6] = [
    (vk::BufferUsageFlags::ACCELERATION_STRUCTURE_STORAGE_KHR, c"vkCreateAccelerationStructureKHR"),
    (vk::BufferUsageFlags::ACCELERATION_STRUCTURE_BUILD_INPUT_READ_ONLY_KHR, c"vkCreateAccelerationStructureKHR"),
    (vk::BufferUsageFlags::SHADER_BINDING_TABLE_KHR, c"vkCreateRayTracingPipelinesKHR"),
    (vk::BufferUsageFlags::CONDITIONAL_RENDERING_EXT, c"vkCmdBeginConditionalRenderingEXT"),
    (vk::BufferUsageFlags::TRANSFORM_FEEDBACK_BUFFER_EXT, c"vkCmdBeginTransformFeedbackEXT"),
    (vk::BufferUsageFlags::TRANSFORM_FEEDBACK_COUNTER_BUFFER_EXT, c"vkCmdBeginTransformFeedbackEXT"),
];

/// Usages of buffers on a device with these functions. `has_addresses` is the feature `bufferDeviceAddress`.
pub(crate) fn of_buffers(has: impl Fn(&CStr) -> bool, has_addresses: bool) -> vk::BufferUsageFlags {
    let mut usages = OF_BUFFERS;
    if has_addresses && (has(c"vkGetBufferDeviceAddress") || has(c"vkGetBufferDeviceAddressKHR")) {
        usages |= vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
    }
    let known = OF_EXTENSIONS.iter().filter(|(_, function)| has(function));
    known.fold(usages, |usages, (usage, _)| usages | *usage)
}

/// Usages and flags of images on every device of Vulkan 1.1: queries report whether it supports such an image.
const OF_IMAGES: (vk::ImageUsageFlags, vk::ImageCreateFlags) =
    (vk::ImageUsageFlags::from_raw(0xff), vk::ImageCreateFlags::from_raw(0xfff));

/// As [`OF_EXTENSIONS`], of images.
const IMAGE_USAGES: [(vk::ImageUsageFlags, &CStr); 4] = [
    (vk::ImageUsageFlags::FRAGMENT_SHADING_RATE_ATTACHMENT_KHR, c"vkCmdSetFragmentShadingRateKHR"),
    (vk::ImageUsageFlags::FRAGMENT_SHADING_RATE_ATTACHMENT_KHR, c"vkCmdBindShadingRateImageNV"),
    (vk::ImageUsageFlags::ATTACHMENT_FEEDBACK_LOOP_EXT, c"vkCmdSetAttachmentFeedbackLoopEnableEXT"),
    (vk::ImageUsageFlags::HOST_TRANSFER_EXT, c"vkCopyMemoryToImageEXT"),
];

/// Usages and flags of images on a device with these functions.
pub(crate) fn of_images(has: impl Fn(&CStr) -> bool) -> (vk::ImageUsageFlags, vk::ImageCreateFlags) {
    let (usages, mut flags) = OF_IMAGES;
    if has(c"vkCmdSetSampleLocationsEXT") {
        flags |= vk::ImageCreateFlags::SAMPLE_LOCATIONS_COMPATIBLE_DEPTH_EXT;
    }
    let known = IMAGE_USAGES.iter().filter(|(_, function)| has(function));
    (known.fold(usages, |usages, (usage, _)| usages | *usage), flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_bits_of_extensions_need_the_device_s_functions() {
        let bits = |has: &dyn Fn(&CStr) -> bool| {
            let (usages, flags) = of_images(has);
            (usages.as_raw(), flags.as_raw())
        };
        assert_eq!(bits(&|_| false), (0xff, 0xfff));
        // VK_IMAGE_USAGE_FRAGMENT_SHADING_RATE_ATTACHMENT_BIT_KHR, ATTACHMENT_FEEDBACK_LOOP_BIT_EXT, HOST_TRANSFER_BIT_EXT.
        assert_eq!(bits(&|name| name == c"vkCmdBindShadingRateImageNV"), (0x1ff, 0xfff));
        assert_eq!(bits(&|_| true), (0x48_01ff, 0x1fff));
    }

    #[test]
    fn usages_of_extensions_need_the_device_s_functions() {
        assert_eq!(of_buffers(|_| false, true).as_raw(), 0x1ff);
        assert_eq!(of_buffers(|name| name == c"vkGetBufferDeviceAddress", false).as_raw(), 0x1ff);
        assert_eq!(of_buffers(|name| name == c"vkGetBufferDeviceAddress", true).as_raw(), 0x2_01ff);
        // VK_BUFFER_USAGE_ACCELERATION_STRUCTURE_BUILD_INPUT_READ_ONLY_BIT_KHR and _STORAGE_BIT_KHR.
        assert_eq!(of_buffers(|name| name == c"vkCreateAccelerationStructureKHR", true).as_raw(), 0x18_01ff);
        // No video, micromaps, descriptor buffers, or unknown bits.
        assert_eq!(of_buffers(|_| true, true).as_raw(), 0x1a_1fff | 0x400);
    }
}
