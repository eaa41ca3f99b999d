//! Description of an image, and its validation.

use std::fmt;

use ash::vk;
use gpu_interop_core::{ArrayShape, Error, MemoryHandleKind, MipmappedArrayDesc, Result};

use crate::format::TexelFormat;
use crate::interop::VulkanInterop;
use crate::query::{ExternalFeatures, ImageQuery};
use crate::shape::{array_shape, array_usage};

/// Description of an image: everything that the exporter and a Vulkan importer must agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageSpec {
    /// Dimensionality: one, two or three dimensions, a cube, or an array of one of them.
    pub view: vk::ImageViewType,
    /// Width, height and depth of level 0, texels. An unused dimension is 1.
    pub extent: vk::Extent3D,
    /// Number of array layers; six per cube.
    pub layers: u32,
    /// Number of mip levels, at least 1.
    pub levels: u32,
    /// The texel format, one of [`TexelFormat::vulkan_formats`].
    pub format: vk::Format,
    /// Vulkan's use of the image: transfers, `SAMPLED`, `STORAGE`, `COLOR_ATTACHMENT`, `INPUT_ATTACHMENT`.
    pub usage: vk::ImageUsageFlags,
    /// `OPTIMAL`, mapped as a mipmapped array, or `LINEAR`, mapped as a buffer.
    pub tiling: vk::ImageTiling,
    /// Creation flags in addition to the flags that [`view`](Self::view) requires:
    /// * `MUTABLE_FORMAT`, for views of other formats;
    /// * `CUBE_COMPATIBLE`, for cube views of a square array of six layers or more;
    /// * `TYPE_2D_ARRAY_COMPATIBLE`, to render to slices of a three-dimensional image.
    pub flags: vk::ImageCreateFlags,
}

/// Width, height and depth.
struct Extent(vk::Extent3D);

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let vk::Extent3D { width, height, depth } = self.0;
        write!(f, "{width} x {height} x {depth}")
    }
}

impl fmt::Display for ImageSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { view, extent, layers, levels, format, usage, tiling, flags } = self;
        let extent = Extent(*extent);
        write!(f, "{view:?}, {extent}, layers {layers}, mip levels {levels}, {format:?}, {tiling:?}, usage {usage:?}")?;
        if flags.is_empty() { Ok(()) } else { write!(f, ", flags {flags:?}") }
    }
}

impl ImageSpec {
    /// Describes an image with one level and optimal tiling. A cube has six layers, and other images have one. `extent`
    /// is width, height and depth in texels.
    #[must_use]
    pub fn new(
        view: vk::ImageViewType,
        [width, height, depth]: [u32; 3],
        format: vk::Format,
        usage: vk::ImageUsageFlags,
    ) -> Self {
        let is_cube = matches!(view, vk::ImageViewType::CUBE | vk::ImageViewType::CUBE_ARRAY);
        Self {
            view,
            extent: vk::Extent3D { width, height, depth },
            layers: if is_cube { 6 } else { 1 },
            levels: 1,
            format,
            usage,
            tiling: vk::ImageTiling::OPTIMAL,
            flags: vk::ImageCreateFlags::empty(),
        }
    }

    /// The shape of the image as an array.
    ///
    /// # Errors
    /// Those of [`array_shape`].
    pub fn shape(&self) -> Result<ArrayShape> {
        array_shape(self.view, self.extent, self.layers)
    }

    /// The texel format as the format of an array.
    ///
    /// # Errors
    /// Those of [`TexelFormat::from_vulkan`].
    pub fn texel_format(&self) -> Result<TexelFormat> {
        TexelFormat::from_vulkan(self.format)
    }

    /// Width, height and depth of a mip level in texels. Each level halves them, rounded down, to at least 1.
    pub fn level_extent(&self, level: u32) -> vk::Extent3D {
        let halve = |n: u32| n.checked_shr(level).unwrap_or(0).max(1);
        vk::Extent3D {
            width: halve(self.extent.width),
            height: halve(self.extent.height),
            depth: halve(self.extent.depth),
        }
    }

    /// Size in bytes of one layer of a mip level with tightly packed rows and slices.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) as for [`TexelFormat::from_vulkan`];
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the size exceeds 64 bits.
    pub fn level_size(&self, level: u32) -> Result<u64> {
        let extent = self.level_extent(level);
        [extent.width, extent.height, extent.depth]
            .into_iter()
            .try_fold(u64::from(self.texel_format()?.array.texel_size()), |size, n| size.checked_mul(n.into()))
            .ok_or_else(|| Error::invalid("ImageSpec::level_size", "the level exceeds the address space"))
    }

    /// The parameters of [`VulkanInterop::image_features`] for this image.
    #[must_use]
    pub fn query(&self) -> ImageQuery {
        use vk::ImageViewType as View;
        let image_type = match self.view {
            View::TYPE_1D | View::TYPE_1D_ARRAY => vk::ImageType::TYPE_1D,
            View::TYPE_3D => vk::ImageType::TYPE_3D,
            _ => vk::ImageType::TYPE_2D,
        };
        let flags = match self.view {
            View::CUBE | View::CUBE_ARRAY => vk::ImageCreateFlags::CUBE_COMPATIBLE,
            _ => vk::ImageCreateFlags::empty(),
        };
        ImageQuery {
            format: self.format,
            image_type,
            tiling: self.tiling,
            usage: self.usage,
            flags: flags | self.flags,
        }
    }

    /// Description of the image as a mipmapped array at this offset of its memory.
    pub(super) fn array_desc(
        &self,
        operation: &'static str,
        interop: &VulkanInterop,
        offset: u64,
    ) -> Result<MipmappedArrayDesc> {
        if self.tiling != vk::ImageTiling::OPTIMAL {
            return Err(Error::unsupported(
                operation,
                "an image with linear tiling cannot be mapped as an array; map it as a buffer and use OwnedImage::subresource_layout",
            ));
        }
        let shape = self.shape()?;
        // Measured: with one level, and with all levels, the layouts of the Vulkan and CUDA drivers agree.
        let has_all_levels_layout = self.layers > 1 && self.levels > 1 && interop.is_nvidia_driver();
        Ok(MipmappedArrayDesc::new(shape, self.texel_format()?.array)
            .with_offset(offset)
            .with_levels(self.levels)
            .with_layout_levels(has_all_levels_layout.then(|| shape.max_levels()))
            .with_usage(array_usage(self.usage)))
    }

    /// If the request describes the exporter's image, rejects memory of an image that differs from this one.
    pub(super) fn check_exported(
        &self,
        operation: &'static str,
        interop: &VulkanInterop,
        exported: Option<&MipmappedArrayDesc>,
    ) -> Result<()> {
        let Some(exported) = exported else { return Ok(()) };
        // An imported image starts at offset 0.
        let own = self.array_desc(operation, interop, 0)?;
        let same = [
            ("offset", own.offset == exported.offset),
            ("shape", own.shape == exported.shape),
            ("format", own.format == exported.format),
            ("number of mip levels", own.levels == exported.levels),
        ];
        let Some((property, _)) = same.into_iter().find(|(_, same)| !same) else { return Ok(()) };
        let message =
            format!("the {property} differs from the exporter's image; import the image as the exporter created it");
        Err(Error::invalid(operation, message).with_context("exporter's image", exported).with_context("image", own))
    }

    /// Checks the image, then queries the device for support of the image shared as `kind`.
    pub(super) fn check(
        &self,
        operation: &'static str,
        interop: &VulkanInterop,
        kind: MemoryHandleKind,
    ) -> Result<ExternalFeatures<MemoryHandleKind>> {
        self.check_alone(operation)?;
        let (features, limits) = interop.image_support(kind, &self.query())?;
        self.check_limits(operation, &limits)
            .map_err(|error| error.with_device(interop.identity()).with_context("image", self))?;
        Ok(features)
    }

    /// Checks that need no device.
    fn check_alone(&self, operation: &'static str) -> Result<()> {
        let max_levels = self.shape()?.max_levels();
        if self.levels == 0 || self.levels > max_levels {
            return Err(Error::invalid(operation, format!("the number of mip levels must be from 1 to {max_levels}"))
                .with_context("levels", self.levels)
                .with_context("extent", Extent(self.extent)));
        }
        self.texel_format()?;
        let known = vk::ImageCreateFlags::MUTABLE_FORMAT
            | vk::ImageCreateFlags::TYPE_2D_ARRAY_COMPATIBLE
            | vk::ImageCreateFlags::CUBE_COMPATIBLE;
        if !known.contains(self.flags) {
            return Err(Error::unsupported(
                operation,
                "a shared image is created with MUTABLE_FORMAT, TYPE_2D_ARRAY_COMPATIBLE and CUBE_COMPATIBLE only, and the \
                 flags of its view",
            )
            .with_context("flags", format_args!("{:?}", self.flags)));
        }
        let query = self.query();
        let cubes =
            query.image_type == vk::ImageType::TYPE_2D && self.extent.width == self.extent.height && self.layers >= 6;
        if self.flags.contains(vk::ImageCreateFlags::CUBE_COMPATIBLE) && !cubes {
            return Err(Error::invalid(operation, "CUBE_COMPATIBLE needs square 2D images with at least 6 layers")
                .with_context("extent", Extent(self.extent))
                .with_context("layers", self.layers));
        }
        query.check(operation, false)
    }

    fn check_limits(&self, operation: &'static str, limits: &vk::ImageFormatProperties) -> Result<()> {
        let beyond = |what: &str, limit: u64| {
            Err(Error::unsupported(operation, format!("the device has no such image with so {what}"))
                .with_context("limit", limit))
        };
        let max = limits.max_extent;
        let sides = [(self.extent.width, max.width), (self.extent.height, max.height), (self.extent.depth, max.depth)];
        if let Some((_, limit)) = sides.into_iter().find(|(side, limit)| side > limit) {
            return beyond("large an extent", limit.into());
        }
        if self.levels > limits.max_mip_levels {
            return beyond("many mip levels", limits.max_mip_levels.into());
        }
        if self.layers > limits.max_array_layers {
            return beyond("many layers", limits.max_array_layers.into());
        }
        let least = self.level_size(0)?.saturating_mul(self.layers.into());
        if least > limits.max_resource_size {
            return beyond("many bytes", limits.max_resource_size);
        }
        Ok(())
    }
}

setters! {
    ImageSpec {
        /// Sets the number of array layers; six per cube.
        layers: u32;
        /// Sets the number of mip levels.
        levels: u32;
        /// Sets the tiling.
        tiling: vk::ImageTiling;
        /// Sets the creation flags in addition to the flags that the view requires.
        flags: vk::ImageCreateFlags;
    }
}

#[cfg(test)]
mod tests {
    use gpu_interop_core::ErrorKind;
    use vk::ImageViewType as View;

    use super::*;

    fn spec(view: View, extent: [u32; 3]) -> ImageSpec {
        ImageSpec::new(view, extent, vk::Format::R8G8B8A8_UNORM, vk::ImageUsageFlags::TRANSFER_DST)
    }

    #[test]
    fn levels_halve_down_to_one_texel() {
        let image = spec(View::TYPE_3D, [13, 6, 2]).levels(4);
        let extents = [0, 1, 2, 3].map(|level| image.level_extent(level)).map(|e| [e.width, e.height, e.depth]);
        assert_eq!(extents, [[13, 6, 2], [6, 3, 1], [3, 1, 1], [1, 1, 1]]);
        assert_eq!(image.level_extent(40).width, 1);
        assert_eq!([0, 1, 2, 3].map(|level| image.level_size(level).expect("small")), [624, 72, 12, 4]);
        image.check_alone("op").expect("a legal number of levels");
    }

    #[test]
    fn invalid_images_are_rejected_without_a_device() {
        let flat = spec(View::TYPE_2D, [16, 8, 1]);
        let layers = |view, extent| spec(view, extent).layers(6).flags(vk::ImageCreateFlags::CUBE_COMPATIBLE);
        layers(View::TYPE_2D_ARRAY, [16, 16, 1]).layers(7).check_alone("op").expect("cube views of a legal array");
        let cases = [
            (flat.levels(0), ErrorKind::InvalidArgument),
            (flat.levels(6), ErrorKind::InvalidArgument),
            (flat.layers(2), ErrorKind::InvalidArgument),
            (flat.layers(0), ErrorKind::InvalidArgument),
            (spec(View::TYPE_2D, [16, 0, 1]), ErrorKind::InvalidArgument),
            (spec(View::CUBE, [16, 8, 1]), ErrorKind::InvalidArgument),
            (ImageSpec { usage: vk::ImageUsageFlags::empty(), ..flat }, ErrorKind::InvalidArgument),
            (ImageSpec { usage: vk::ImageUsageFlags::TRANSIENT_ATTACHMENT, ..flat }, ErrorKind::Unsupported),
            (ImageSpec { format: vk::Format::R8G8B8_UNORM, ..flat }, ErrorKind::Unsupported),
            (flat.tiling(vk::ImageTiling::DRM_FORMAT_MODIFIER_EXT), ErrorKind::Unsupported),
            (flat.flags(vk::ImageCreateFlags::SPARSE_BINDING), ErrorKind::Unsupported),
            (flat.flags(vk::ImageCreateFlags::CUBE_COMPATIBLE), ErrorKind::InvalidArgument),
            (layers(View::TYPE_2D_ARRAY, [16, 8, 1]), ErrorKind::InvalidArgument),
            (layers(View::TYPE_2D_ARRAY, [16, 16, 1]).layers(5), ErrorKind::InvalidArgument),
            (layers(View::TYPE_1D_ARRAY, [1, 1, 1]), ErrorKind::InvalidArgument),
            (flat.flags(vk::ImageCreateFlags::TYPE_2D_ARRAY_COMPATIBLE), ErrorKind::Unsupported),
            (flat.tiling(vk::ImageTiling::from_raw(7)), ErrorKind::Unsupported),
        ];
        for (image, kind) in cases {
            assert_eq!(image.check_alone("op").expect_err("rejected").kind(), kind, "{image:?}");
        }
        flat.levels(5).check_alone("op").expect("a legal image");
        let mutable = flat.flags(vk::ImageCreateFlags::MUTABLE_FORMAT);
        mutable.check_alone("op").expect("a legal flag");
        assert_eq!(mutable.query().flags, vk::ImageCreateFlags::MUTABLE_FORMAT);
        spec(View::CUBE, [16, 16, 1]).check_alone("op").expect("a legal cube");
    }

    #[test]
    fn images_beyond_device_limits_are_rejected() {
        let limits = vk::ImageFormatProperties {
            max_extent: vk::Extent3D { width: 64, height: 32, depth: 16 },
            max_mip_levels: 3,
            max_array_layers: 4,
            sample_counts: vk::SampleCountFlags::TYPE_1,
            max_resource_size: 16 << 10,
        };
        let check = |image: ImageSpec| image.check_limits("op", &limits);
        check(spec(View::TYPE_2D_ARRAY, [64, 16, 1]).layers(4).levels(3)).expect("at the limits");
        let beyond = [
            (spec(View::TYPE_2D, [65, 1, 1]), "64"),
            (spec(View::TYPE_2D, [1, 33, 1]), "32"),
            (spec(View::TYPE_3D, [1, 1, 17]), "16"),
            (spec(View::TYPE_2D, [8, 8, 1]).levels(4), "3"),
            (spec(View::TYPE_2D_ARRAY, [8, 8, 1]).layers(5), "4"),
            (spec(View::TYPE_2D_ARRAY, [64, 32, 1]).layers(3), "16384"),
        ];
        for (image, limit) in beyond {
            let error = check(image).expect_err("beyond");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{image:?}");
            assert_eq!(error.context(), [("limit", limit.to_owned())], "{image:?}");
        }
    }
}
