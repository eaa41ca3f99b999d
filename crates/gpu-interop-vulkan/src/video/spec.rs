//! Description of a picture, and its validation.

use ash::vk;
use gpu_interop_core::{Error, ErrorKind, MemoryHandleKind, Result, VideoFormat};

use crate::image::ImageSpec;
use crate::interop::VulkanInterop;
use crate::query::ExternalFeatures;

/// The images and allocations of a picture's planes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PlaneStorage {
    /// An image and an allocation for each plane, of the formats `R8_UNORM` to `R16G16_UNORM`. Works with every driver and
    /// every size. Shaders combine the planes themselves.
    #[default]
    Separate,
    /// One image of the multi-planar format in one allocation, for samplers with `VkSamplerYcbcrConversion`. Linear planes
    /// are mapped as ranges of one import. Optimal ones cannot be mapped.
    Joint,
    /// One image of the multi-planar format with an allocation for each plane (`VK_IMAGE_CREATE_DISJOINT_BIT`, and
    /// `ALIAS_BIT`, which makes each plane equal to an image of its own). Drivers may lack the feature
    /// `VK_FORMAT_FEATURE_DISJOINT_BIT`.
    Disjoint,
}

/// Description of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct VideoSpec {
    /// The format.
    pub format: VideoFormat,
    /// Width and height, luma texels. [`PlaneStorage::Joint`] and [`PlaneStorage::Disjoint`] need multiples of the
    /// subsampling; [`PlaneStorage::Separate`] rounds chroma up.
    pub extent: [u32; 2],
    /// Vulkan's use of the images, as in [`ImageSpec::usage`].
    pub usage: vk::ImageUsageFlags,
    /// `LINEAR`, mapped as pitched memory, or `OPTIMAL`, mapped as arrays.
    pub tiling: vk::ImageTiling,
    /// Images and allocations.
    pub storage: PlaneStorage,
}

impl VideoSpec {
    /// Describes a picture of linear tiling with an image for each plane. Width and height in luma texels.
    #[must_use]
    pub fn new(format: VideoFormat, extent: [u32; 2], usage: vk::ImageUsageFlags) -> Self {
        Self { format, extent, usage, tiling: vk::ImageTiling::LINEAR, storage: PlaneStorage::Separate }
    }

    /// The image of a plane on its own.
    pub(super) fn plane_image(&self, plane: usize) -> ImageSpec {
        let format = vk::Format::from_raw(self.format.plane_vulkan_number(plane));
        self.image(self.format.plane_extent(plane, self.extent), format, vk::ImageCreateFlags::empty())
    }

    /// The multi-planar image.
    pub(super) fn planar_image(&self) -> ImageSpec {
        let flags = match self.storage {
            PlaneStorage::Disjoint => vk::ImageCreateFlags::DISJOINT | vk::ImageCreateFlags::ALIAS,
            _ => vk::ImageCreateFlags::empty(),
        };
        self.image(self.extent, vk::Format::from_raw(self.format.vulkan_number()), flags)
    }

    fn image(&self, [width, height]: [u32; 2], format: vk::Format, flags: vk::ImageCreateFlags) -> ImageSpec {
        ImageSpec::new(vk::ImageViewType::TYPE_2D, [width, height, 1], format, self.usage)
            .tiling(self.tiling)
            .flags(flags)
    }

    /// Checks that need no device.
    pub(super) fn check_alone(&self, operation: &'static str) -> Result<()> {
        let extent = format_args!("{} x {}", self.extent[0], self.extent[1]).to_string();
        if self.extent.contains(&0) {
            return Err(Error::invalid(operation, "width and height must be at least 1").with_context("extent", extent));
        }
        if self.storage != PlaneStorage::Separate && !self.format.divides(self.extent) {
            let [x, y] = self.format.subsampling(1);
            let message = format!(
                "a multi-planar image of this format has a width that is a multiple of {x} and a height that is a multiple of \
                 {y}; use PlaneStorage::Separate, or pad the picture"
            );
            return Err(Error::invalid(operation, message)
                .with_context("format", self.format)
                .with_context("extent", extent));
        }
        if !matches!(self.tiling, vk::ImageTiling::OPTIMAL | vk::ImageTiling::LINEAR) {
            return Err(Error::unsupported(operation, "the tiling must be OPTIMAL or LINEAR")
                .with_context("tiling", format_args!("{:?}", self.tiling)));
        }
        Ok(())
    }

    /// Queries the device for support of the multi-planar image shared as `kind`.
    pub(super) fn check_planar(
        &self,
        operation: &'static str,
        interop: &VulkanInterop,
        kind: MemoryHandleKind,
    ) -> Result<ExternalFeatures<MemoryHandleKind>> {
        let spec = self.planar_image();
        spec.query().check(operation, false)?;
        let unsupported = |message: &str| {
            Err(Error::unsupported(operation, message)
                .with_device(interop.identity())
                .with_context("picture", format_args!("{self:?}")))
        };
        let (features, limits) = interop.image_support(kind, &spec.query()).map_err(|error| {
            let storage = format!("{:?} (PlaneStorage::Separate works with every driver)", self.storage);
            if error.kind() == ErrorKind::Unsupported { error.with_context("storage", storage) } else { error }
        })?;
        if self.extent[0] > limits.max_extent.width || self.extent[1] > limits.max_extent.height {
            return unsupported("the device has no such image with so large an extent");
        }
        if self.storage == PlaneStorage::Disjoint {
            // SAFETY: the physical device belongs to the live instance (`VulkanInterop::new`).
            let properties = unsafe {
                interop.instance().get_physical_device_format_properties(interop.physical_device(), spec.format)
            };
            let of_tiling = match self.tiling {
                vk::ImageTiling::LINEAR => properties.linear_tiling_features,
                _ => properties.optimal_tiling_features,
            };
            if !of_tiling.contains(vk::FormatFeatureFlags::DISJOINT) {
                return unsupported(
                    "the device has no disjoint images of this format and tiling; use PlaneStorage::Separate",
                );
            }
            if features.dedicated_only {
                return unsupported(
                    "the device shares this image in dedicated allocations only, which Vulkan forbids for \
                                    disjoint images; use PlaneStorage::Separate",
                );
            }
        }
        Ok(features)
    }
}

setters! {
    VideoSpec {
        /// Sets the tiling.
        tiling: vk::ImageTiling;
        /// Sets the images and allocations.
        storage: PlaneStorage;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USAGE: vk::ImageUsageFlags = vk::ImageUsageFlags::TRANSFER_DST;

    #[test]
    fn planes_are_images_of_their_own() {
        let spec = VideoSpec::new(VideoFormat::P010, [5, 3], USAGE);
        let [luma, chroma] = [0, 1].map(|plane| spec.plane_image(plane));
        assert_eq!((luma.format, luma.extent.width, luma.extent.height), (vk::Format::R16_UNORM, 5, 3));
        assert_eq!((chroma.format, chroma.extent.width, chroma.extent.height), (vk::Format::R16G16_UNORM, 3, 2));
        assert_eq!((luma.tiling, luma.usage), (vk::ImageTiling::LINEAR, USAGE));
    }

    #[test]
    fn multi_planar_images_have_their_format_and_flags() {
        let spec = VideoSpec::new(VideoFormat::Nv12, [64, 32], USAGE);
        let joint = spec.storage(PlaneStorage::Joint).planar_image();
        assert_eq!((joint.format, joint.flags.as_raw()), (vk::Format::G8_B8R8_2PLANE_420_UNORM, 0));
        let disjoint = spec.storage(PlaneStorage::Disjoint).planar_image();
        // VK_IMAGE_CREATE_DISJOINT_BIT, VK_IMAGE_CREATE_ALIAS_BIT.
        assert_eq!(disjoint.flags.as_raw(), 0x200 | 0x400);
    }

    #[test]
    fn odd_sizes_are_for_separate_planes_only() {
        for storage in [PlaneStorage::Joint, PlaneStorage::Disjoint] {
            for (format, extent, valid) in [
                (VideoFormat::Nv12, [64, 32], true),
                (VideoFormat::Nv12, [63, 32], false),
                (VideoFormat::Nv12, [64, 31], false),
                (VideoFormat::Nv16, [64, 31], true),
                (VideoFormat::Yuv444, [63, 31], true),
                (VideoFormat::Yuv444, [0, 31], false),
            ] {
                let checked = VideoSpec::new(format, extent, USAGE).storage(storage).check_alone("op");
                assert_eq!(checked.is_ok(), valid, "{format} {extent:?}: {checked:?}");
            }
        }
        VideoSpec::new(VideoFormat::Nv12, [63, 31], USAGE).check_alone("op").expect("separate planes");
        let error = VideoSpec::new(VideoFormat::Nv12, [63, 32], USAGE).storage(PlaneStorage::Joint).check_alone("op");
        let error = error.expect_err("odd");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains("PlaneStorage::Separate"), "{error}");
    }
}
