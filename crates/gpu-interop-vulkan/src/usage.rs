//! Valid usages of buffers and images, and checks of them before they reach the driver.

use std::ffi::CStr;

use ash::vk;
use gpu_interop_core::{Error, Result, VideoFormat};

use crate::format::TexelFormat;
use crate::interop::VulkanInterop;
use crate::query::ImageQuery;

impl VulkanInterop {
    /// Rejects usages of buffers that are empty, unknown, or need something that the device lacks.
    pub(crate) fn check_buffer_usage(&self, operation: &'static str, usage: vk::BufferUsageFlags) -> Result<()> {
        if usage.is_empty() {
            return Err(Error::invalid(
                operation,
                "the buffer has no usage; state how Vulkan uses it, for example TRANSFER_SRC",
            ));
        }
        let unknown = usage & !self.buffer_usages();
        if unknown.is_empty() {
            return Ok(());
        }
        let message = if unknown == vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS {
            "the device has no buffer addresses; create it for Vulkan 1.2 and enable the feature bufferDeviceAddress"
        } else {
            "the device does not have a usage of the buffer; enable its extension, or omit it. Video and unknown usages are \
             not supported"
        };
        Err(Error::unsupported(operation, message)
            .with_device(self.identity())
            .with_context("usage", format_args!("{usage:?}"))
            .with_context("unsupported", format_args!("{unknown:?}")))
    }
}

impl ImageQuery {
    /// Rejects parameters that Vulkan does not define, or that belong to an extension which is off. `by_modifier`: the tiling
    /// is by DRM modifiers.
    pub(crate) fn check_defined(
        &self,
        operation: &'static str,
        interop: &VulkanInterop,
        by_modifier: bool,
    ) -> Result<()> {
        self.check_basics(operation, by_modifier)?;
        let (usages, flags) = interop.image_bits();
        if !usages.contains(self.usage) || !flags.contains(self.flags) {
            let message = "Vulkan does not define a usage or flag of the image, or its extension is off, or is one that no \
                           function shows; omit it";
            return Err(Error::unsupported(operation, message)
                .with_device(interop.identity())
                .with_context("usage", format_args!("{:?}", self.usage & !usages))
                .with_context("flags", format_args!("{:?}", self.flags & !flags)));
        }
        // Vulkan 1.0, and the formats of 1.1 for pictures.
        if matches!(self.format.as_raw(), 1..=184 | 1_000_156_000..=1_000_156_033) || self.is_planar() {
            return Ok(());
        }
        Err(Error::unsupported(operation, "Vulkan 1.1 does not define the format of the image")
            .with_context("format", format_args!("{:?}", self.format)))
    }

    pub(crate) fn is_planar(&self) -> bool {
        VideoFormat::from_vulkan_number(self.format.as_raw()).is_some()
    }

    /// Rejects unknown types and tilings, and images without a usage.
    fn check_basics(&self, operation: &'static str, by_modifier: bool) -> Result<()> {
        if !matches!(self.image_type, vk::ImageType::TYPE_1D | vk::ImageType::TYPE_2D | vk::ImageType::TYPE_3D) {
            return Err(Error::invalid(operation, "an image has one, two or three dimensions")
                .with_context("type", format_args!("{:?}", self.image_type)));
        }
        let is_tiling = match self.tiling {
            vk::ImageTiling::DRM_FORMAT_MODIFIER_EXT => by_modifier,
            tiling => matches!(tiling, vk::ImageTiling::OPTIMAL | vk::ImageTiling::LINEAR),
        };
        if !is_tiling {
            return Err(Error::unsupported(operation, "the tiling must be OPTIMAL or LINEAR")
                .with_context("tiling", format_args!("{:?}", self.tiling)));
        }
        if self.usage.is_empty() {
            return Err(Error::invalid(operation, "the image has no usage; state how Vulkan uses it"));
        }
        Ok(())
    }

    /// Rejects parameters that no image of this crate has. `by_modifier`: the tiling is by DRM modifiers.
    pub(crate) fn check(&self, operation: &'static str, by_modifier: bool) -> Result<()> {
        use vk::{ImageCreateFlags as Flags, ImageUsageFlags as Usage};
        self.check_basics(operation, by_modifier)?;
        let usages = Usage::TRANSFER_SRC
            | Usage::TRANSFER_DST
            | Usage::SAMPLED
            | Usage::STORAGE
            | Usage::COLOR_ATTACHMENT
            | Usage::INPUT_ATTACHMENT;
        let is_planar = self.is_planar();
        let flags = Flags::MUTABLE_FORMAT
            | match self.image_type {
                vk::ImageType::TYPE_3D => Flags::TYPE_2D_ARRAY_COMPATIBLE,
                vk::ImageType::TYPE_2D if is_planar => Flags::DISJOINT | Flags::ALIAS,
                vk::ImageType::TYPE_2D => Flags::CUBE_COMPATIBLE,
                _ => Flags::empty(),
            };
        if !usages.contains(self.usage) {
            return Err(Error::unsupported(
                operation,
                "a shared image is used for transfers, SAMPLED, STORAGE, COLOR_ATTACHMENT and INPUT_ATTACHMENT only",
            )
            .with_context("usage", format_args!("{:?}", self.usage)));
        }
        if !flags.contains(self.flags) {
            return Err(Error::unsupported(operation, "a shared image of this type and format has no such flags")
                .with_context("flags", format_args!("{:?}", self.flags))
                .with_context("supported", format_args!("{flags:?}")));
        }
        if is_planar { Ok(()) } else { TexelFormat::from_vulkan(self.format).map(drop) }
    }
}

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
    use gpu_interop_core::ErrorKind;
    use vk::ImageCreateFlags as Flags;

    use super::*;

    #[test]
    fn image_parameters_that_no_shared_image_has_are_rejected() {
        let good = ImageQuery {
            format: vk::Format::R8G8B8A8_UNORM,
            image_type: vk::ImageType::TYPE_2D,
            tiling: vk::ImageTiling::OPTIMAL,
            usage: vk::ImageUsageFlags::SAMPLED,
            flags: Flags::CUBE_COMPATIBLE | Flags::MUTABLE_FORMAT,
        };
        let planar = ImageQuery { format: vk::Format::G8_B8R8_2PLANE_420_UNORM, ..good };
        let disjoint = ImageQuery { flags: Flags::DISJOINT | Flags::ALIAS, ..planar };
        let volume = ImageQuery { image_type: vk::ImageType::TYPE_3D, flags: Flags::TYPE_2D_ARRAY_COMPATIBLE, ..good };
        for image in [good, disjoint, volume] {
            image.check("op", false).expect("a shared image");
        }
        let modifier = ImageQuery { tiling: vk::ImageTiling::DRM_FORMAT_MODIFIER_EXT, ..disjoint };
        modifier.check("op", true).expect("by modifiers");
        let bad = [
            (ImageQuery { format: vk::Format::from_raw(190), ..good }, ErrorKind::Unsupported),
            (ImageQuery { format: vk::Format::UNDEFINED, ..good }, ErrorKind::Unsupported),
            (ImageQuery { image_type: vk::ImageType::from_raw(3), ..good }, ErrorKind::InvalidArgument),
            (modifier, ErrorKind::Unsupported),
            (ImageQuery { tiling: vk::ImageTiling::from_raw(7), ..good }, ErrorKind::Unsupported),
            (ImageQuery { usage: vk::ImageUsageFlags::empty(), ..good }, ErrorKind::InvalidArgument),
            (ImageQuery { usage: vk::ImageUsageFlags::from_raw(1 << 31), ..good }, ErrorKind::Unsupported),
            (ImageQuery { flags: Flags::TYPE_2D_ARRAY_COMPATIBLE, ..good }, ErrorKind::Unsupported),
            (ImageQuery { flags: Flags::CUBE_COMPATIBLE, ..volume }, ErrorKind::Unsupported),
            (ImageQuery { flags: Flags::DISJOINT, ..good }, ErrorKind::Unsupported),
            (ImageQuery { flags: Flags::SPARSE_BINDING, ..good }, ErrorKind::Unsupported),
        ];
        for (image, kind) in bad {
            assert_eq!(image.check("op", false).expect_err("rejected").kind(), kind, "{image:?}");
        }
    }

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
