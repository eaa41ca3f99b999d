//! Conversion between RGBA and video pictures: NV12 and P010, BT.601, BT.709 and BT.2020, limited and full range.
//!
//! [`YUV_TO_RGBA`](crate::YUV_TO_RGBA) and [`RGBA_TO_YUV`](crate::RGBA_TO_YUV) are one kernel for each direction, with
//! the format, the matrix, the range and the siting as arguments. They compute in integers: each backend writes the same
//! bytes, which are those of [`cpu`]. Each value differs by at most 1 from exact arithmetic.
//!
//! * **Matrix**: that of BT.2020 is for non-constant luminance. The components keep their transfer function and primaries:
//!   the kernels convert between R'G'B' and Y'CbCr and nothing else.
//! * **Range**: that of luma and chroma. RGB is always full: 0 to 255.
//! * **Siting**: [`Siting::Left`] puts each chroma sample on the even column, halfway between two rows (MPEG-2, H.264, HEVC
//!   by default); [`Siting::Center`] puts it halfway between two columns, too (MPEG-1, JPEG).
//! * **Filters**: chroma is interpolated linearly between the nearest samples. In the other direction a sample is the mean
//!   of its two rows and of its columns: of two if it is centred between them, and of three with the weights 1, 2, 1 if
//!   it is on the second of them. Texels on an edge are their own neighbours outside of the picture.
//! * **Odd sizes**: the chroma plane is rounded up, as `VkFormat`'s, `DRM_FORMAT_NV12`'s and FFmpeg's are: 5 x 3 texels
//!   have 3 x 2 chroma samples.
//! * **Alpha** is ignored in RGBA, and 255 in the result.
//! * **P010**: the ten bits are the high ones of 16. The others are ignored, and 0 in the result.
//!
//! Rows may have any pitch. A thread converts four columns with accesses of 4 to 16 bytes if the addresses and pitches are
//! multiples of 16 (RGBA), of 4 (NV12) and of 8 (P010); elsewhere it accesses single samples, with the same result.

mod coefficients;
pub mod cpu;
#[cfg(feature = "launch")]
mod launch;

#[cfg(feature = "launch")]
pub use launch::{Converter, Plane, RgbPicture, YuvPicture};

/// Weights of red, green and blue in luma.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Matrix {
    /// ITU-R BT.601, for standard definition, and JPEG.
    Bt601,
    /// ITU-R BT.709, for high definition.
    Bt709,
    /// ITU-R BT.2020 with non-constant luminance, for ultra-high definition.
    Bt2020,
}

/// Code values of luma and chroma.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Range {
    /// Luma from 16 to 235 and chroma from 16 to 240, times 4 for 10 bits.
    Limited,
    /// All code values.
    Full,
}

/// Position of a chroma sample among its four luma samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Siting {
    /// On the left column, halfway between the rows: MPEG-2, and H.264 and HEVC by default.
    Left,
    /// Halfway between the columns and between the rows: MPEG-1 and JPEG.
    Center,
}

/// Matrix, range and siting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Conversion {
    /// Weights of the colours.
    pub matrix: Matrix,
    /// Code values of luma and chroma.
    pub range: Range,
    /// Position of chroma.
    pub siting: Siting,
}

/// Format of a picture with luma and chroma.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum YuvFormat {
    /// 8 bits, Cb before Cr.
    Nv12,
    /// 10 bits, the high ones of 16, Cb before Cr.
    P010,
}

impl YuvFormat {
    /// Bytes of a sample.
    #[must_use]
    pub const fn sample_size(self) -> u32 {
        match self {
            Self::Nv12 => 1,
            Self::P010 => 2,
        }
    }

    /// Bits of a sample.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Self::Nv12 => 8,
            Self::P010 => 10,
        }
    }
}

/// Order of the bytes of a texel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RgbOrder {
    /// Red, green, blue, alpha.
    Rgba,
    /// Blue, green, red, alpha.
    Bgra,
}

/// Formats, size and row pitches of the two pictures of a conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Width and height in texels.
    pub extent: [u32; 2],
    /// Format of luma and chroma.
    pub yuv: YuvFormat,
    /// Order of red, green and blue.
    pub rgb: RgbOrder,
    /// Bytes from one row of luma, of chroma and of RGBA to the next.
    pub pitches: [u32; 3],
}

/// Numbers before the coefficients in the arguments of both kernels.
const LAYOUT_NUMBERS: usize = 7;
/// 32-bit arguments of [`YUV_TO_RGBA`](crate::YUV_TO_RGBA).
pub const YUV_TO_RGBA_NUMBERS: usize = LAYOUT_NUMBERS + 9;
/// 32-bit arguments of [`RGBA_TO_YUV`](crate::RGBA_TO_YUV).
pub const RGBA_TO_YUV_NUMBERS: usize = LAYOUT_NUMBERS + 11;

impl Conversion {
    /// The 32-bit arguments of [`YUV_TO_RGBA`](crate::YUV_TO_RGBA), which follow its three addresses.
    #[must_use]
    pub fn yuv_to_rgba_numbers(&self, layout: &Layout) -> [u32; YUV_TO_RGBA_NUMBERS] {
        let [a, b, c, d, e, f, g] = self.layout_numbers(layout);
        let [scale, red_v, green_u, green_v, blue_u, red, green, blue] = coefficients::to_rgb(self, layout.yuv);
        let blue_first = u32::from(layout.rgb == RgbOrder::Bgra);
        [a, b, c, d, e, f, g, blue_first, scale, red_v, green_u, green_v, blue_u, red, green, blue]
    }

    /// The 32-bit arguments of [`RGBA_TO_YUV`](crate::RGBA_TO_YUV), which follow its three addresses.
    #[must_use]
    pub fn rgba_to_yuv_numbers(&self, layout: &Layout) -> [u32; RGBA_TO_YUV_NUMBERS] {
        let [a, b, c, d, e, f, g] = self.layout_numbers(layout);
        let ([mut luma, mut u, mut v], [luma_base, chroma_base]) = coefficients::to_yuv(self, layout.yuv);
        if layout.rgb == RgbOrder::Bgra {
            for channels in [&mut luma, &mut u, &mut v] {
                channels.reverse();
            }
        }
        let ([h, i, j], [k, l, m], [n, o, p]) = (luma, u, v);
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, luma_base, chroma_base]
    }

    fn layout_numbers(&self, layout: &Layout) -> [u32; LAYOUT_NUMBERS] {
        let ([luma, chroma, rgba], [width, height]) = (layout.pitches, layout.extent);
        let siting = match self.siting {
            Siting::Left => 0,
            Siting::Center => 1,
        };
        [luma, chroma, rgba, width, height, layout.yuv.sample_size(), siting]
    }
}

/// Bytes that each kernel accesses in luma, chroma and RGBA, from the first row's start to the last row's end, by its
/// 32-bit arguments. `None` if the width or the height is 0; `u64::MAX` for a size beyond 64 bits.
#[must_use]
pub fn plane_sizes(numbers: &[u32]) -> Option<[u64; 3]> {
    let &[luma_pitch, chroma_pitch, rgba_pitch, width, height, sample_size, ..] = numbers else { return None };
    let ([luma_row, chroma_row, rgba_row], [rows, chroma_rows]) = rows([width, height], sample_size)?;
    let size = |pitch: u32, row: u64, rows: u64| (u64::from(pitch) * (rows - 1)).saturating_add(row);
    Some([
        size(luma_pitch, luma_row, rows),
        size(chroma_pitch, chroma_row, chroma_rows),
        size(rgba_pitch, rgba_row, rows),
    ])
}

/// Bytes of a row of luma, chroma and RGBA; rows of luma and RGBA, and of chroma.
fn rows([width, height]: [u32; 2], sample_size: u32) -> Option<([u64; 3], [u64; 2])> {
    if width == 0 || height == 0 {
        return None;
    }
    let [width, height, sample] = [width, height, sample_size].map(u64::from);
    Some(([width * sample, width.div_ceil(2) * 2 * sample, width * 4], [height, height.div_ceil(2)]))
}
