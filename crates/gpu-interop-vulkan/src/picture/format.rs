//! Formats of pictures: DRM's codes as Vulkan's formats.

use ash::vk;
use gpu_interop_core::format::{DrmFourcc, PlaneLayout, TexelRow};
use gpu_interop_core::{ChannelType, Error, Result, VideoFormat};

use crate::format::TexelFormat;

/// The format of a picture's image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PictureFormat {
    pub(super) vulkan: vk::Format,
    /// Format of the texels, or of the luma.
    pub(super) texel: TexelFormat,
    /// The multi-planar format.
    pub(super) video: Option<VideoFormat>,
}

/// Every code that has a format.
pub(super) fn codes() -> impl Iterator<Item = DrmFourcc> {
    let unused = ["XR24", "XB24", "XR30", "XB30"].map(DrmFourcc::from_code);
    let texels = TexelRow::all().iter().filter_map(|row| row.drm);
    texels.chain(unused).chain(VideoFormat::all().filter_map(VideoFormat::drm))
}

impl PictureFormat {
    /// The format of a code, or `wanted` if it has the same texels.
    pub(super) fn new(operation: &'static str, code: DrmFourcc, wanted: Option<vk::Format>) -> Result<Self> {
        let alpha = code.with_alpha();
        let found = if let Some(video) = VideoFormat::from_drm(alpha) {
            let luma = TexelFormat::from_vulkan(vk::Format::from_raw(video.plane_vulkan_number(0)))?;
            Self { vulkan: vk::Format::from_raw(video.vulkan_number()), texel: luma, video: Some(video) }
        } else if let Some(row) = TexelRow::of_drm(alpha) {
            let vulkan = vk::Format::from_raw(row.vulkan);
            Self { vulkan, texel: TexelFormat::from_vulkan(vulkan)?, video: None }
        } else {
            let known = codes().map(|code| code.to_string()).collect::<Vec<_>>().join(" ");
            let message = format!("the format {code} is unknown to this version; have the producer use a known one");
            return Err(Error::unsupported(operation, message).with_context("known", known));
        };
        let Some(wanted) = wanted.filter(|wanted| *wanted != found.vulkan) else { return Ok(found) };
        let mismatch = || {
            let message = "the format of the image has other texels than the picture; pass one that differs in the encoding or \
                           the numeric type only, such as SRGB";
            Error::invalid(operation, message)
                .with_context("picture", code)
                .with_context("image", format_args!("{wanted:?}"))
        };
        let texel = TexelFormat::from_vulkan(wanted).map_err(|_| mismatch())?;
        let layout = |texel: TexelFormat| {
            let is_packed = texel.array.channel() == ChannelType::Unorm1010102;
            (texel.array.texel_size(), texel.array.channels(), is_packed, texel.order)
        };
        if found.video.is_some() || layout(texel) != layout(found.texel) {
            return Err(mismatch());
        }
        Ok(Self { vulkan: wanted, texel, video: None })
    }

    /// Number of planes of the format. A modifier may have more memory planes.
    pub(super) fn planes(&self) -> usize {
        self.video.map_or(1, VideoFormat::planes)
    }

    /// Layout of a plane of the format, in a picture of this extent.
    pub(super) fn layout(&self, plane: usize, extent: [u32; 2], offset: u64, pitch: u64) -> PlaneLayout {
        match self.video {
            Some(video) => PlaneLayout::new(offset, pitch, video.plane_extent(plane, extent), video.texel(plane)),
            None => PlaneLayout::new(offset, pitch, extent, self.texel.array),
        }
    }
}

#[cfg(test)]
mod tests {
    use gpu_interop_core::ErrorKind;

    use super::*;

    fn format(code: &str, wanted: Option<vk::Format>) -> Result<PictureFormat> {
        PictureFormat::new("op", DrmFourcc::from_code(code), wanted)
    }

    #[test]
    fn codes_have_the_formats_of_the_same_bytes() {
        // drm_fourcc.h names packed texels from the highest bits down, VkFormat unpacked ones from the first byte.
        for (code, vulkan, planes) in [
            ("AR24", vk::Format::B8G8R8A8_UNORM, 1),
            ("XR24", vk::Format::B8G8R8A8_UNORM, 1),
            ("AB24", vk::Format::R8G8B8A8_UNORM, 1),
            ("XB24", vk::Format::R8G8B8A8_UNORM, 1),
            ("XR30", vk::Format::A2R10G10B10_UNORM_PACK32, 1),
            ("AB30", vk::Format::A2B10G10R10_UNORM_PACK32, 1),
            ("R8  ", vk::Format::R8_UNORM, 1),
            ("GR88", vk::Format::R8G8_UNORM, 1),
            ("R16 ", vk::Format::R16_UNORM, 1),
            ("GR32", vk::Format::R16G16_UNORM, 1),
            ("NV12", vk::Format::G8_B8R8_2PLANE_420_UNORM, 2),
            ("P010", vk::Format::G10X6_B10X6R10X6_2PLANE_420_UNORM_3PACK16, 2),
            ("YU12", vk::Format::G8_B8_R8_3PLANE_420_UNORM, 3),
        ] {
            let found = format(code, None).expect(code);
            assert_eq!((found.vulkan, found.planes()), (vulkan, planes), "{code}");
        }
        assert!(codes().all(|code| PictureFormat::new("op", code, None).is_ok()));
        let error = format("YUYV", None).expect_err("packed");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("'NV12'"), "{error}");
    }

    #[test]
    fn other_formats_have_the_same_texels() {
        let srgb = format("XR24", Some(vk::Format::B8G8R8A8_SRGB)).expect("sRGB");
        assert_eq!(srgb.vulkan, vk::Format::B8G8R8A8_SRGB);
        assert_eq!(format("R8  ", Some(vk::Format::R8_UINT)).expect("integers").vulkan, vk::Format::R8_UINT);
        for (code, wanted) in [
            ("AR24", vk::Format::R8G8B8A8_SRGB),
            ("XR30", vk::Format::B8G8R8A8_UNORM),
            ("AB24", vk::Format::A2B10G10R10_UNORM_PACK32),
            ("R16 ", vk::Format::R8G8_UNORM),
            ("NV12", vk::Format::R8_UNORM),
            ("AR24", vk::Format::D32_SFLOAT),
        ] {
            let error = format(code, Some(wanted)).expect_err(code);
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{code} {wanted:?}");
        }
    }

    #[test]
    fn planes_have_the_extent_of_their_subsampling() {
        let chroma = format("NV12", None).expect("known").layout(1, [64, 32], 2048, 64);
        assert_eq!((chroma.extent, chroma.row_size(), chroma.end()), ([32, 16], 64, Some(2048 + 16 * 64)));
        let texels = format("XR24", None).expect("known").layout(0, [5, 3], 4, 20);
        assert_eq!((texels.extent, texels.row_size(), texels.end()), ([5, 3], 20, Some(64)));
    }
}
