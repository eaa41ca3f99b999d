//! Checks of usages of buffers and parameters of images before they reach the driver.

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

    fn is_planar(&self) -> bool {
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
        use vk::ImageCreateFlags as Flags;
        use vk::ImageUsageFlags as Usage;
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
}
