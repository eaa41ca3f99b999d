//! Layout of planar video textures.

use gpu_interop_core::{Error, PlaneLayout, Result, VideoFormat};

use crate::format::DxgiFormat;

/// `D3D12_TEXTURE_DATA_PITCH_ALIGNMENT`: rows in a buffer start at multiples of it, bytes.
const PITCH_ALIGNMENT: u64 = 256;
/// `D3D12_TEXTURE_DATA_PLACEMENT_ALIGNMENT`: subresources in a buffer start at multiples of it, bytes.
const PLACEMENT_ALIGNMENT: u64 = 512;

/// A video texture with luma and chroma in separate planes: NV12, P010, P016 or P208.
///
/// Direct3D stores such a texture in one allocation, in a layout that only its driver knows; HIP, and CUDA's drivers before
/// 12.8, have no arrays with planes. To share a picture, copy its planes to a shared buffer, which an importer maps with
/// [`MappedPlanes`](gpu_interop_core::MappedPlanes):
///
/// * Direct3D 12: copy each plane, a subresource of the texture, to its place in [`footprints`](Self::footprints).
/// * Direct3D 11, where planes are not subresources: let a shader read and write them through views of
///   [`plane_format`](Self::plane_format). Or copy through the host: copy the texture to a staging texture, map that, and
///   write the mapped bytes to the buffer (`UpdateSubresource`). Their layout is [`mapped_layout`](Self::mapped_layout).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VideoTextureSpec {
    format: VideoFormat,
    extent: [u32; 2],
}

impl VideoTextureSpec {
    /// Describes a texture; width and height in luma texels.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) for a format without planes or unknown to this
    /// version; [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for an extent of 0, or one that
    /// the subsampling does not divide, which Direct3D rejects.
    pub fn new(format: impl Into<DxgiFormat>, extent: [u32; 2]) -> Result<Self> {
        const OPERATION: &str = "VideoTextureSpec::new";
        let dxgi = format.into();
        let Some(format) = VideoFormat::from_dxgi_number(dxgi.0) else {
            let message = "this format has no separate planes; use NV12, P010, P016 or P208, or TextureSpec";
            return Err(Error::unsupported(OPERATION, message).with_context("format", format_args!("{dxgi:?}")));
        };
        if extent.contains(&0) || !format.divides(extent) {
            let [x, y] = format.subsampling(1);
            let message =
                format!("the width must be a multiple of {x}, the height a multiple of {y}, and both at least 1");
            return Err(Error::invalid(OPERATION, message)
                .with_context("format", format_args!("{dxgi:?}"))
                .with_context("extent", format_args!("{} x {}", extent[0], extent[1])));
        }
        Ok(Self { format, extent })
    }

    /// The format.
    #[must_use]
    pub fn format(&self) -> VideoFormat {
        self.format
    }

    /// Width and height, luma texels.
    #[must_use]
    pub fn extent(&self) -> [u32; 2] {
        self.extent
    }

    /// The view format of a plane: `R8_UNORM`, `R8G8_UNORM`, `R16_UNORM` or `R16G16_UNORM`. Planes beyond the last are as
    /// the last.
    #[must_use]
    pub fn plane_format(&self, plane: usize) -> DxgiFormat {
        let row = gpu_interop_core::format::TexelRow::of_array(self.format.texel(plane));
        row.and_then(|row| row.dxgi).map_or(DxgiFormat::UNKNOWN, DxgiFormat)
    }

    /// Layout of the planes in a buffer, as `ID3D12Device::GetCopyableFootprints` computes it for this base offset: rows at
    /// multiples of 256 bytes, planes at multiples of 512.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if `base_offset` is not a multiple of
    /// 512, or the end overflows 64 bits.
    pub fn footprints(&self, base_offset: u64) -> Result<Vec<PlaneLayout>> {
        const OPERATION: &str = "VideoTextureSpec::footprints";
        if !base_offset.is_multiple_of(PLACEMENT_ALIGNMENT) {
            let message = format!("the base offset must be a multiple of {PLACEMENT_ALIGNMENT} bytes");
            return Err(Error::invalid(OPERATION, message).with_context("base offset", base_offset));
        }
        self.format.layout(base_offset, self.extent, PITCH_ALIGNMENT, PLACEMENT_ALIGNMENT)
    }

    /// Layout of the planes in a staging texture that `ID3D11DeviceContext::Map` has mapped with this row pitch, bytes:
    /// chroma directly behind luma, with the same row pitch.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the pitch is smaller than a row, or
    /// the end overflows 64 bits.
    pub fn mapped_layout(&self, row_pitch: u64) -> Result<Vec<PlaneLayout>> {
        const OPERATION: &str = "VideoTextureSpec::mapped_layout";
        let luma_end = row_pitch.checked_mul(self.extent[1].into());
        let Some(luma_end) = luma_end else {
            let error = Error::invalid(OPERATION, "the planes exceed the address space");
            return Err(error.with_context("row pitch", row_pitch));
        };
        (0..self.format.planes())
            .map(|plane| {
                let offset = if plane == 0 { 0 } else { luma_end };
                let extent = self.format.plane_extent(plane, self.extent);
                let layout = PlaneLayout::new(offset, row_pitch, extent, self.format.texel(plane));
                layout.check(OPERATION, u64::MAX).map(|()| layout)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use gpu_interop_core::ErrorKind;

    use super::*;

    fn places(layout: &[PlaneLayout]) -> Vec<(u64, u64, [u32; 2])> {
        layout.iter().map(|plane| (plane.offset, plane.pitch, plane.extent)).collect()
    }

    #[test]
    fn footprints_are_aligned_as_in_direct3d_12() {
        let nv12 = VideoTextureSpec::new(DxgiFormat::NV12, [100, 50]).expect("a texture");
        let found = nv12.footprints(0).expect("footprints");
        assert_eq!(places(&found), [(0, 256, [100, 50]), (12_800, 256, [50, 25])]);
        let found = nv12.footprints(1024).expect("footprints");
        // 1024 + 50 rows is a multiple of 512.
        assert_eq!(places(&found)[1].0, 13_824);
        let p010 = VideoTextureSpec::new(DxgiFormat::P010, [130, 6]).expect("a texture");
        let found = p010.footprints(0).expect("footprints");
        assert_eq!(places(&found), [(0, 512, [130, 6]), (3072, 512, [65, 3])]);
        assert_eq!([0, 1].map(|plane| p010.plane_format(plane)), [DxgiFormat::R16_UNORM, DxgiFormat::R16G16_UNORM]);
        for offset in [1, 256, u64::MAX - 511] {
            let error = nv12.footprints(offset).expect_err("rejected");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{offset}");
        }
    }

    #[test]
    fn chroma_of_a_mapped_texture_follows_luma() {
        let p208 = VideoTextureSpec::new(DxgiFormat::P208, [64, 31]).expect("4:2:2 halves the width only");
        let found = p208.mapped_layout(128).expect("a layout");
        assert_eq!(places(&found), [(0, 128, [64, 31]), (3968, 128, [32, 31])]);
        for pitch in [0, 63, u64::MAX] {
            assert_eq!(p208.mapped_layout(pitch).expect_err("rejected").kind(), ErrorKind::InvalidArgument, "{pitch}");
        }
    }

    #[test]
    fn other_textures_are_rejected() {
        for format in [DxgiFormat::R8_UNORM, DxgiFormat::YUY2, DxgiFormat::AYUV, DxgiFormat(116)] {
            let error = VideoTextureSpec::new(format, [64, 32]).expect_err("rejected");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{format:?}");
            assert!(error.to_string().contains(&format!("{format:?}")), "{error}");
        }
        for extent in [[0, 2], [2, 0], [3, 2], [2, 3]] {
            let error = VideoTextureSpec::new(DxgiFormat::NV12, extent).expect_err("rejected");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{extent:?}");
        }
    }

    /// Names of the core's table and of the constants, which a test on Windows compares with Direct3D's.
    #[test]
    fn numbers_match_the_constants() {
        let named: Vec<_> = VideoFormat::all()
            .filter_map(|format| Some((format.name(), DxgiFormat(format.dxgi_number()?).name()?)))
            .collect();
        let expected = [
            ("NV12", "DXGI_FORMAT_NV12"),
            ("NV16", "DXGI_FORMAT_P208"),
            ("P010", "DXGI_FORMAT_P010"),
            ("P016", "DXGI_FORMAT_P016"),
        ];
        assert_eq!(named, expected);
    }
}
