//! Formats with several planes.

use std::fmt;

use super::drm::DrmFourcc;
use super::plane::PlaneLayout;
use super::table::TexelRow;
use crate::array::{ArrayFormat, ChannelType};
use crate::error::{Error, Result};

/// Sampling and depth of a format, and its numbers in each API. `None` where an API lacks the format.
struct Row {
    format: VideoFormat,
    name: &'static str,
    vulkan: i32,
    dxgi: Option<u32>,
    drm: Option<DrmFourcc>,
    planes: usize,
    /// Luma texels for each chroma texel, horizontally and vertically.
    subsampling: [u32; 2],
    /// Significant bits of a channel.
    bits: u32,
}

/// Table of `variant "name" = VkFormat, DXGI_FORMAT, DRM_FORMAT: planes, subsampling, bits`; also defines the variants.
macro_rules! formats {
    (@number _) => { None };
    (@number $number:literal) => { Some($number) };
    (@code _) => { None };
    (@code $code:literal) => { Some(DrmFourcc::from_code($code)) };
    ($($(#[$doc:meta])* $format:ident $name:literal = $vulkan:literal, $dxgi:tt, $drm:tt:
        $planes:literal planes, $x:literal x $y:literal, $bits:literal bits;)*) => {
        /// A format of pictures with luma and chroma in separate planes.
        ///
        /// The first plane has luma in one channel. The others have chroma: one plane with two channels, blue before red,
        /// or two planes, blue before red. Channels of more than 8 bits have 16 bits in memory, little-endian, of which the
        /// highest are significant and the others are 0; nothing here converts or clears them.
        ///
        /// Channels are unsigned and normalised. The table has no transfer function, matrix or range: these belong to the
        /// stream, not to the memory.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
        #[non_exhaustive]
        pub enum VideoFormat {
            $($(#[$doc])* $format,)*
        }

        const TABLE: &[Row] = &[$(Row {
            format: VideoFormat::$format,
            name: $name,
            vulkan: $vulkan,
            dxgi: formats!(@number $dxgi),
            drm: formats!(@code $drm),
            planes: $planes,
            subsampling: [$x, $y],
            bits: $bits,
        }),*];
    };
}

formats! {
    /// 4:2:0, 8 bits, chroma in one plane. `VK_FORMAT_G8_B8R8_2PLANE_420_UNORM`
    Nv12 "NV12" = 1_000_156_003, 103, "NV12": 2 planes, 2 x 2, 8 bits;
    /// 4:2:2, 8 bits, chroma in one plane. `VK_FORMAT_G8_B8R8_2PLANE_422_UNORM`, `DXGI_FORMAT_P208`
    Nv16 "NV16" = 1_000_156_005, 130, "NV16": 2 planes, 2 x 1, 8 bits;
    /// 4:2:0, 10 bits, chroma in one plane. `VK_FORMAT_G10X6_B10X6R10X6_2PLANE_420_UNORM_3PACK16`
    P010 "P010" = 1_000_156_013, 104, "P010": 2 planes, 2 x 2, 10 bits;
    /// 4:2:0, 12 bits, chroma in one plane. `VK_FORMAT_G12X4_B12X4R12X4_2PLANE_420_UNORM_3PACK16`
    P012 "P012" = 1_000_156_023, _, "P012": 2 planes, 2 x 2, 12 bits;
    /// 4:2:0, 16 bits, chroma in one plane. `VK_FORMAT_G16_B16R16_2PLANE_420_UNORM`
    P016 "P016" = 1_000_156_030, 105, "P016": 2 planes, 2 x 2, 16 bits;
    /// 4:2:2, 10 bits, chroma in one plane. `VK_FORMAT_G10X6_B10X6R10X6_2PLANE_422_UNORM_3PACK16`
    P210 "P210" = 1_000_156_015, _, "P210": 2 planes, 2 x 1, 10 bits;
    /// 4:2:2, 12 bits, chroma in one plane. `VK_FORMAT_G12X4_B12X4R12X4_2PLANE_422_UNORM_3PACK16`
    P212 "P212" = 1_000_156_025, _, _: 2 planes, 2 x 1, 12 bits;
    /// 4:2:2, 16 bits, chroma in one plane. `VK_FORMAT_G16_B16R16_2PLANE_422_UNORM`
    P216 "P216" = 1_000_156_032, _, _: 2 planes, 2 x 1, 16 bits;
    /// 4:2:0, 8 bits, three planes (I420). `VK_FORMAT_G8_B8_R8_3PLANE_420_UNORM`
    Yuv420 "YUV 4:2:0" = 1_000_156_002, _, "YU12": 3 planes, 2 x 2, 8 bits;
    /// 4:2:2, 8 bits, three planes (I422). `VK_FORMAT_G8_B8_R8_3PLANE_422_UNORM`
    Yuv422 "YUV 4:2:2" = 1_000_156_004, _, "YU16": 3 planes, 2 x 1, 8 bits;
    /// 4:4:4, 8 bits, three planes (I444). `VK_FORMAT_G8_B8_R8_3PLANE_444_UNORM`
    Yuv444 "YUV 4:4:4" = 1_000_156_006, _, "YU24": 3 planes, 1 x 1, 8 bits;
    /// 4:2:0, 10 bits, three planes. `VK_FORMAT_G10X6_B10X6_R10X6_3PLANE_420_UNORM_3PACK16`
    Yuv420Bits10 "YUV 4:2:0, 10 bits" = 1_000_156_012, _, _: 3 planes, 2 x 2, 10 bits;
    /// 4:2:2, 10 bits, three planes. `VK_FORMAT_G10X6_B10X6_R10X6_3PLANE_422_UNORM_3PACK16`
    Yuv422Bits10 "YUV 4:2:2, 10 bits" = 1_000_156_014, _, _: 3 planes, 2 x 1, 10 bits;
    /// 4:4:4, 10 bits, three planes. `VK_FORMAT_G10X6_B10X6_R10X6_3PLANE_444_UNORM_3PACK16`, `DRM_FORMAT_Q410`
    Yuv444Bits10 "YUV 4:4:4, 10 bits" = 1_000_156_016, _, "Q410": 3 planes, 1 x 1, 10 bits;
    /// 4:2:0, 12 bits, three planes. `VK_FORMAT_G12X4_B12X4_R12X4_3PLANE_420_UNORM_3PACK16`
    Yuv420Bits12 "YUV 4:2:0, 12 bits" = 1_000_156_022, _, _: 3 planes, 2 x 2, 12 bits;
    /// 4:2:2, 12 bits, three planes. `VK_FORMAT_G12X4_B12X4_R12X4_3PLANE_422_UNORM_3PACK16`
    Yuv422Bits12 "YUV 4:2:2, 12 bits" = 1_000_156_024, _, _: 3 planes, 2 x 1, 12 bits;
    /// 4:4:4, 12 bits, three planes. `VK_FORMAT_G12X4_B12X4_R12X4_3PLANE_444_UNORM_3PACK16`
    Yuv444Bits12 "YUV 4:4:4, 12 bits" = 1_000_156_026, _, _: 3 planes, 1 x 1, 12 bits;
    /// 4:2:0, 16 bits, three planes. `VK_FORMAT_G16_B16_R16_3PLANE_420_UNORM`
    Yuv420Bits16 "YUV 4:2:0, 16 bits" = 1_000_156_029, _, _: 3 planes, 2 x 2, 16 bits;
    /// 4:2:2, 16 bits, three planes. `VK_FORMAT_G16_B16_R16_3PLANE_422_UNORM`
    Yuv422Bits16 "YUV 4:2:2, 16 bits" = 1_000_156_031, _, _: 3 planes, 2 x 1, 16 bits;
    /// 4:4:4, 16 bits, three planes. `VK_FORMAT_G16_B16_R16_3PLANE_444_UNORM`
    Yuv444Bits16 "YUV 4:4:4, 16 bits" = 1_000_156_033, _, _: 3 planes, 1 x 1, 16 bits;
}

impl VideoFormat {
    /// Every format, in the order of the table.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        TABLE.iter().map(|row| row.format)
    }

    /// The format of a `VkFormat`; `None` for single-plane and unknown ones.
    #[must_use]
    pub fn from_vulkan_number(format: i32) -> Option<Self> {
        Self::find(|row| row.vulkan == format)
    }

    /// The format of a `DXGI_FORMAT`; `None` for single-plane and unknown ones.
    #[must_use]
    pub fn from_dxgi_number(format: u32) -> Option<Self> {
        Self::find(|row| row.dxgi == Some(format))
    }

    /// The format of a `DRM_FORMAT_*`; `None` for single-plane and unknown ones.
    #[must_use]
    pub fn from_drm(format: DrmFourcc) -> Option<Self> {
        Self::find(|row| row.drm == Some(format))
    }

    fn find(matches: impl Fn(&Row) -> bool) -> Option<Self> {
        TABLE.iter().find(|row| matches(row)).map(|row| row.format)
    }

    fn row(self) -> &'static Row {
        // One macro defines the variants and the rows, in the same order.
        &TABLE[self as usize]
    }

    /// The usual name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The `VkFormat`.
    #[must_use]
    pub fn vulkan_number(self) -> i32 {
        self.row().vulkan
    }

    /// The `DXGI_FORMAT`.
    #[must_use]
    pub fn dxgi_number(self) -> Option<u32> {
        self.row().dxgi
    }

    /// The `DRM_FORMAT_*`.
    #[must_use]
    pub fn drm(self) -> Option<DrmFourcc> {
        self.row().drm
    }

    /// Number of planes: 2 or 3.
    #[must_use]
    pub fn planes(self) -> usize {
        self.row().planes
    }

    /// Significant bits of a channel: 8, 10, 12 or 16.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.row().bits
    }

    /// Luma texels for each texel of the plane, horizontally and vertically. Planes beyond the last are as the last.
    #[must_use]
    pub fn subsampling(self, plane: usize) -> [u32; 2] {
        if plane == 0 { [1, 1] } else { self.row().subsampling }
    }

    /// The format of a plane's texels: one channel for luma, one or two for chroma. Planes beyond the last are as the last.
    #[must_use]
    pub fn texel(self, plane: usize) -> ArrayFormat {
        let row = self.row();
        let channel = if row.bits == 8 { ChannelType::Unorm8 } else { ChannelType::Unorm16 };
        let channels = if plane > 0 && row.planes == 2 { 2 } else { 1 };
        ArrayFormat::of_table(channel, channels)
    }

    /// The `VkFormat` of a plane as an image of its own, `R8_UNORM` to `R16G16_UNORM`.
    #[must_use]
    pub fn plane_vulkan_number(self, plane: usize) -> i32 {
        // Every format of `texel` is in the table of texels; 0 is `VK_FORMAT_UNDEFINED`.
        TexelRow::of_array(self.texel(plane)).map_or(0, |row| row.vulkan)
    }

    /// The `DRM_FORMAT_*` of a plane as a picture of its own, `R8  ` to `GR32`.
    #[must_use]
    pub fn plane_drm(self, plane: usize) -> Option<DrmFourcc> {
        TexelRow::of_array(self.texel(plane))?.drm
    }

    /// Width and height of a plane in texels, for a picture of this width and height in luma texels. An odd width or height
    /// is rounded up: the last chroma texel then covers luma texels of one column or row.
    #[must_use]
    pub fn plane_extent(self, plane: usize, [width, height]: [u32; 2]) -> [u32; 2] {
        let [x, y] = self.subsampling(plane);
        [width.div_ceil(x), height.div_ceil(y)]
    }

    /// `true` if the subsampling divides width and height. Multi-planar images of Vulkan and Direct3D require it.
    #[must_use]
    pub fn divides(self, [width, height]: [u32; 2]) -> bool {
        let [x, y] = self.subsampling(1);
        width.is_multiple_of(x) && height.is_multiple_of(y)
    }

    /// Layout of all planes, one behind the other in one range of linear memory from byte `offset`. Rows start at multiples
    /// of `row_alignment` bytes, planes at multiples of `plane_alignment` bytes from the start of the memory. With
    /// alignments of 1 the planes are tightly packed.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for an extent or alignment of 0, or an end that
    /// overflows 64 bits.
    pub fn layout(
        self,
        offset: u64,
        extent: [u32; 2],
        row_alignment: u64,
        plane_alignment: u64,
    ) -> Result<Vec<PlaneLayout>> {
        const OPERATION: &str = "VideoFormat::layout";
        let invalid = |message: &str| {
            Error::invalid(OPERATION, message)
                .with_context("format", self)
                .with_context("extent", format_args!("{} x {}", extent[0], extent[1]))
                .with_context("offset", offset)
                .with_context("alignments", format_args!("{row_alignment} and {plane_alignment} bytes"))
        };
        if extent.contains(&0) || row_alignment == 0 || plane_alignment == 0 {
            return Err(invalid("width, height and alignments must be at least 1"));
        }
        let mut end = offset;
        (0..self.planes())
            .map(|plane| {
                let (extent, texel) = (self.plane_extent(plane, extent), self.texel(plane));
                let pitch = u64::from(extent[0]) * u64::from(texel.texel_size());
                let placed = pitch.checked_next_multiple_of(row_alignment).and_then(|pitch| {
                    let start = end.checked_next_multiple_of(plane_alignment)?;
                    let layout = PlaneLayout::new(start, pitch, extent, texel);
                    end = start.checked_add(pitch.checked_mul(extent[1].into())?)?;
                    Some(layout)
                });
                placed.ok_or_else(|| invalid("the planes exceed the address space"))
            })
            .collect()
    }
}

impl fmt::Display for VideoFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;
    use crate::ErrorKind;

    fn any_format() -> impl Strategy<Value = VideoFormat> {
        (0..TABLE.len()).prop_map(|index| TABLE[index].format)
    }

    #[test]
    fn rows_are_found_by_every_number() {
        for (index, row) in TABLE.iter().enumerate() {
            let format = row.format;
            assert_eq!(format as usize, index);
            let numbers = (format.vulkan_number(), format.dxgi_number(), format.drm());
            assert_eq!(numbers, (row.vulkan, row.dxgi, row.drm));
            assert_eq!(VideoFormat::from_vulkan_number(row.vulkan), Some(format));
            assert!(row.dxgi.is_none_or(|number| VideoFormat::from_dxgi_number(number) == Some(format)));
            assert!(row.drm.is_none_or(|code| VideoFormat::from_drm(code) == Some(format)));
            assert_ne!(format.plane_vulkan_number(0), 0);
        }
        let columns: [HashSet<String>; 2] = [
            TABLE.iter().map(|row| row.name.to_owned()).collect(),
            TABLE.iter().map(|row| row.vulkan.to_string()).collect(),
        ];
        assert!(columns.iter().all(|column| column.len() == TABLE.len()));
        assert_eq!(VideoFormat::from_vulkan_number(37), None, "R8G8B8A8_UNORM has one plane");
        assert_eq!(VideoFormat::from_dxgi_number(107), None, "YUY2 is packed");
    }

    #[test]
    fn planes_have_the_sizes_of_the_formats() {
        // Bytes of a picture of 4 x 4 luma texels, by plane.
        let sizes = |format: VideoFormat| -> Vec<u64> {
            let layout = format.layout(0, [4, 4], 1, 1).expect("a small picture");
            layout.iter().map(|plane| plane.size().expect("a small plane")).collect()
        };
        assert_eq!(sizes(VideoFormat::Nv12), [16, 8]);
        assert_eq!(sizes(VideoFormat::Nv16), [16, 16]);
        assert_eq!(sizes(VideoFormat::P010), [32, 16]);
        assert_eq!(sizes(VideoFormat::P216), [32, 32]);
        assert_eq!(sizes(VideoFormat::Yuv420), [16, 4, 4]);
        assert_eq!(sizes(VideoFormat::Yuv422), [16, 8, 8]);
        assert_eq!(sizes(VideoFormat::Yuv444Bits10), [32, 32, 32]);
    }

    #[test]
    fn odd_sizes_round_chroma_up() {
        assert_eq!(VideoFormat::Nv12.plane_extent(1, [5, 3]), [3, 2]);
        assert_eq!(VideoFormat::Nv16.plane_extent(1, [5, 3]), [3, 3]);
        assert_eq!(VideoFormat::Yuv444.plane_extent(2, [5, 3]), [5, 3]);
        assert_eq!(VideoFormat::Nv12.plane_extent(1, [u32::MAX, 1]), [1 << 31, 1]);
        assert!(!VideoFormat::Nv12.divides([4, 3]) && VideoFormat::Nv16.divides([4, 3]));
    }

    proptest! {
        /// Planes are aligned, in order, and do not overlap; or the request is rejected.
        #[test]
        fn layouts_are_disjoint_or_rejected(
            format in any_format(),
            offset: u64,
            width: u32,
            height: u32,
            alignments in (0_u64..5000, 0_u64..5000),
        ) {
            match format.layout(offset, [width, height], alignments.0, alignments.1) {
                Ok(planes) => {
                    prop_assert_eq!(planes.len(), format.planes());
                    let mut before = offset;
                    for plane in planes {
                        prop_assert!(plane.offset >= before);
                        prop_assert!(plane.offset.is_multiple_of(alignments.1) && plane.pitch.is_multiple_of(alignments.0));
                        prop_assert!(plane.pitch >= plane.row_size());
                        before = plane.end().expect("a plane inside the address space");
                    }
                }
                Err(error) => prop_assert_eq!(error.kind(), ErrorKind::InvalidArgument),
            }
        }
    }

    #[test]
    fn layouts_beyond_the_address_space_are_rejected() {
        for (offset, extent, rows, planes) in
            [(u64::MAX, [2, 2], 1, 1), (0, [2, 2], u64::MAX, 1), (1, [2, 2], 1, u64::MAX), (0, [0, 2], 1, 1)]
        {
            let error = VideoFormat::Nv12.layout(offset, extent, rows, planes).expect_err("rejected");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        }
    }
}
