//! Usages of buffers that a device has.

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
const OF_EXTENSIONS: [(vk::BufferUsageFlags, &CStr); 7] = [
    (vk::BufferUsageFlags::ACCELERATION_STRUCTURE_STORAGE_KHR, c"vkCreateAccelerationStructureKHR"),
    (vk::BufferUsageFlags::ACCELERATION_STRUCTURE_BUILD_INPUT_READ_ONLY_KHR, c"vkCreateAccelerationStructureKHR"),
    (vk::BufferUsageFlags::SHADER_BINDING_TABLE_KHR, c"vkCreateRayTracingPipelinesKHR"),
    (vk::BufferUsageFlags::CONDITIONAL_RENDERING_EXT, c"vkCmdBeginConditionalRenderingEXT"),
    (vk::BufferUsageFlags::TRANSFORM_FEEDBACK_BUFFER_EXT, c"vkCmdBeginTransformFeedbackEXT"),
    (vk::BufferUsageFlags::TRANSFORM_FEEDBACK_COUNTER_BUFFER_EXT, c"vkCmdBeginTransformFeedbackEXT"),
    (vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS, c"vkGetBufferDeviceAddressKHR"),
];

/// Usages of buffers on a device with these functions. `has_addresses` is the feature `bufferDeviceAddress`.
pub(crate) fn of_buffers(has: impl Fn(&CStr) -> bool, has_addresses: bool) -> vk::BufferUsageFlags {
    let address = vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
    let known = |(usage, function): &(_, &CStr)| match *usage == address {
        true => has_addresses && (has(c"vkGetBufferDeviceAddress") || has(function)),
        false => has(function),
    };
    OF_EXTENSIONS.iter().filter(|one| known(one)).fold(OF_BUFFERS, |usages, (usage, _)| usages | *usage)
}

#[cfg(test)]
mod tests {
    use super::*;

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
