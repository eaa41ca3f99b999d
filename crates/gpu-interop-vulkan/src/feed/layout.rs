//! Linear planes of a format.

use ash::vk;
use gpu_interop_core::{Error, PlaneLayout, Result, VideoFormat};

use crate::format::TexelFormat;

/// Multiple of the rows' and planes' offsets, bytes: what textures on linear memory need.
const ALIGNMENT: u64 = 256;

/// Layout of an image's planes in one range of linear memory: one of a [`TexelFormat`], two or three of a [`VideoFormat`].
/// Rows and planes start at multiples of 256 bytes.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for an extent of 0;
/// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) as [`TexelFormat::from_vulkan`].
pub fn picture_planes(format: vk::Format, extent: [u32; 2]) -> Result<Vec<PlaneLayout>> {
    if let Some(video) = VideoFormat::from_vulkan_number(format.as_raw()) {
        return video.layout(0, extent, ALIGNMENT, ALIGNMENT);
    }
    let texel = TexelFormat::from_vulkan(format)?.array;
    let mut layout = PlaneLayout::new(0, 0, extent, texel);
    layout.pitch = layout.row_size().next_multiple_of(ALIGNMENT);
    layout.check("picture_planes", u64::MAX)?;
    Ok(vec![layout])
}

/// Size of the memory of these planes, bytes.
pub(crate) fn planes_size(planes: &[PlaneLayout]) -> Result<u64> {
    let end = planes.iter().map(PlaneLayout::end).try_fold(0, |size, end| Some(end?.max(size)));
    let size = end.and_then(|end: u64| end.checked_next_multiple_of(ALIGNMENT)).filter(|size| *size > 0);
    size.ok_or_else(|| Error::invalid("picture_planes", "the picture has no plane, or exceeds the address space"))
}

#[cfg(test)]
mod tests {
    use gpu_interop_core::ErrorKind;

    use super::*;

    fn places(format: vk::Format, extent: [u32; 2]) -> Vec<(u64, u64, [u32; 2])> {
        let planes = picture_planes(format, extent).expect("planes");
        planes.iter().map(|plane| (plane.offset, plane.pitch, plane.extent)).collect()
    }

    #[test]
    fn rows_and_planes_are_aligned() {
        assert_eq!(places(vk::Format::R8G8B8A8_SRGB, [65, 3]), [(0, 512, [65, 3])]);
        let nv12 = [(0, 256, [34, 6]), (1536, 256, [17, 3])];
        assert_eq!(places(vk::Format::G8_B8R8_2PLANE_420_UNORM, [34, 6]), nv12);
        let planes = picture_planes(vk::Format::G8_B8R8_2PLANE_420_UNORM, [34, 6]).expect("planes");
        assert_eq!(planes_size(&planes).expect("a size"), 2304);
    }

    #[test]
    fn pictures_without_planes_are_rejected() {
        let error = picture_planes(vk::Format::D32_SFLOAT, [8, 8]).expect_err("depth");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        for format in [vk::Format::R8_UNORM, vk::Format::G8_B8R8_2PLANE_420_UNORM] {
            let error = picture_planes(format, [0, 8]).expect_err("empty");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        }
        let huge = picture_planes(vk::Format::R32G32B32A32_SFLOAT, [u32::MAX; 2]);
        assert!(huge.and_then(|planes| planes_size(&planes)).is_err());
        assert!(planes_size(&[]).is_err());
    }
}
