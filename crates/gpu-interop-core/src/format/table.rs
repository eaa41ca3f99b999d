//! The table of texel formats, one column an API.

use super::drm::DrmFourcc;
use crate::array::{ArrayFormat, ChannelType};
use crate::format::{ChannelOrder, ColorEncoding};

/// A texel format: its numbers in each API, and its array format. `None` where an API lacks the format.
///
/// Conversions of the exporters' crates look up in this table. It contains every `VkFormat` that arrays express. Formats
/// with several planes are in [`VideoFormat`](super::VideoFormat).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TexelRow {
    /// The name in `VkFormat`, without its prefix.
    pub name: &'static str,
    /// `VkFormat`.
    pub vulkan: i32,
    /// `DXGI_FORMAT`.
    pub dxgi: Option<u32>,
    /// `DRM_FORMAT_*`. These do not distinguish encodings; the row with linear encoding has the number.
    pub drm: Option<DrmFourcc>,
    /// Sized internal format of OpenGL. It has no formats with blue first: such texels use the format with red first, and
    /// the texture swaps red and blue.
    pub gl: u32,
    /// Type and number of the channels, in memory order.
    pub array: ArrayFormat,
    /// The colours of the channels.
    pub order: ChannelOrder,
    /// The encoding of the colours.
    pub encoding: ColorEncoding,
}

/// Table of `VkFormat = its number, DXGI_FORMAT, DRM_FORMAT, internal format of OpenGL: channel type x channels, order,
/// encoding`.
macro_rules! rows {
    (@number _) => { None };
    (@number $number:literal) => { Some($number) };
    (@code _) => { None };
    (@code $code:literal) => { Some(DrmFourcc::from_code($code)) };
    ($($name:ident = $vulkan:literal, $dxgi:tt, $drm:tt, $gl:literal:
        $channel:ident x $channels:literal, $order:ident, $encoding:ident;)*) => {
        &[$(TexelRow {
            name: stringify!($name),
            vulkan: $vulkan,
            dxgi: rows!(@number $dxgi),
            drm: rows!(@code $drm),
            gl: $gl,
            array: ArrayFormat::of_table(ChannelType::$channel, $channels),
            order: ChannelOrder::$order,
            encoding: ColorEncoding::$encoding,
        }),*]
    };
}

/// On the little-endian machines that GPUs run in, packed 8-bit formats have the same bytes as the unpacked ones. Those
/// come first, so that they are found by the numbers that both have.
#[rustfmt::skip]
const TABLE: &[TexelRow] = rows! {
    R8_UINT = 13, 62, _, 0x8232: Uint8 x 1, Rgba, Linear;
    R8G8_UINT = 20, 50, _, 0x8238: Uint8 x 2, Rgba, Linear;
    R8G8B8A8_UINT = 41, 30, _, 0x8D7C: Uint8 x 4, Rgba, Linear;
    R8_SINT = 14, 64, _, 0x8231: Sint8 x 1, Rgba, Linear;
    R8G8_SINT = 21, 52, _, 0x8237: Sint8 x 2, Rgba, Linear;
    R8G8B8A8_SINT = 42, 32, _, 0x8D8E: Sint8 x 4, Rgba, Linear;
    R16_UINT = 74, 57, _, 0x8234: Uint16 x 1, Rgba, Linear;
    R16G16_UINT = 81, 36, _, 0x823A: Uint16 x 2, Rgba, Linear;
    R16G16B16A16_UINT = 95, 12, _, 0x8D76: Uint16 x 4, Rgba, Linear;
    R16_SINT = 75, 59, _, 0x8233: Sint16 x 1, Rgba, Linear;
    R16G16_SINT = 82, 38, _, 0x8239: Sint16 x 2, Rgba, Linear;
    R16G16B16A16_SINT = 96, 14, _, 0x8D88: Sint16 x 4, Rgba, Linear;
    R32_UINT = 98, 42, _, 0x8236: Uint32 x 1, Rgba, Linear;
    R32G32_UINT = 101, 17, _, 0x823C: Uint32 x 2, Rgba, Linear;
    R32G32B32A32_UINT = 107, 3, _, 0x8D70: Uint32 x 4, Rgba, Linear;
    R32_SINT = 99, 43, _, 0x8235: Sint32 x 1, Rgba, Linear;
    R32G32_SINT = 102, 18, _, 0x823B: Sint32 x 2, Rgba, Linear;
    R32G32B32A32_SINT = 108, 4, _, 0x8D82: Sint32 x 4, Rgba, Linear;
    R32_SFLOAT = 100, 41, _, 0x822E: Float32 x 1, Rgba, Linear;
    R32G32_SFLOAT = 103, 16, _, 0x8230: Float32 x 2, Rgba, Linear;
    R32G32B32A32_SFLOAT = 109, 2, _, 0x8814: Float32 x 4, Rgba, Linear;
    R16_SFLOAT = 76, 54, _, 0x822D: Float16 x 1, Rgba, Linear;
    R16G16_SFLOAT = 83, 34, _, 0x822F: Float16 x 2, Rgba, Linear;
    R16G16B16A16_SFLOAT = 97, 10, "AB4H", 0x881A: Float16 x 4, Rgba, Linear;
    R8_UNORM = 9, 61, "R8  ", 0x8229: Unorm8 x 1, Rgba, Linear;
    R8G8_UNORM = 16, 49, "GR88", 0x822B: Unorm8 x 2, Rgba, Linear;
    R8G8B8A8_UNORM = 37, 28, "AB24", 0x8058: Unorm8 x 4, Rgba, Linear;
    R8_SNORM = 10, 63, _, 0x8F94: Snorm8 x 1, Rgba, Linear;
    R8G8_SNORM = 17, 51, _, 0x8F95: Snorm8 x 2, Rgba, Linear;
    R8G8B8A8_SNORM = 38, 31, _, 0x8F97: Snorm8 x 4, Rgba, Linear;
    R16_UNORM = 70, 56, "R16 ", 0x822A: Unorm16 x 1, Rgba, Linear;
    R16G16_UNORM = 77, 35, "GR32", 0x822C: Unorm16 x 2, Rgba, Linear;
    R16G16B16A16_UNORM = 91, 11, "AB48", 0x805B: Unorm16 x 4, Rgba, Linear;
    R16_SNORM = 71, 58, _, 0x8F98: Snorm16 x 1, Rgba, Linear;
    R16G16_SNORM = 78, 37, _, 0x8F99: Snorm16 x 2, Rgba, Linear;
    R16G16B16A16_SNORM = 92, 13, _, 0x8F9B: Snorm16 x 4, Rgba, Linear;
    R8_SRGB = 15, _, _, 0x8FBD: Unorm8 x 1, Rgba, Srgb;
    R8G8_SRGB = 22, _, _, 0x8FBE: Unorm8 x 2, Rgba, Srgb;
    R8G8B8A8_SRGB = 43, 29, _, 0x8C43: Unorm8 x 4, Rgba, Srgb;
    B8G8R8A8_UNORM = 44, 87, "AR24", 0x8058: Unorm8 x 4, Bgra, Linear;
    B8G8R8A8_SNORM = 45, _, _, 0x8F97: Snorm8 x 4, Bgra, Linear;
    B8G8R8A8_UINT = 48, _, _, 0x8D7C: Uint8 x 4, Bgra, Linear;
    B8G8R8A8_SINT = 49, _, _, 0x8D8E: Sint8 x 4, Bgra, Linear;
    B8G8R8A8_SRGB = 50, 91, _, 0x8C43: Unorm8 x 4, Bgra, Srgb;
    A8B8G8R8_UNORM_PACK32 = 51, 28, _, 0x8058: Unorm8 x 4, Rgba, Linear;
    A8B8G8R8_SNORM_PACK32 = 52, 31, _, 0x8F97: Snorm8 x 4, Rgba, Linear;
    A8B8G8R8_UINT_PACK32 = 55, 30, _, 0x8D7C: Uint8 x 4, Rgba, Linear;
    A8B8G8R8_SINT_PACK32 = 56, 32, _, 0x8D8E: Sint8 x 4, Rgba, Linear;
    A8B8G8R8_SRGB_PACK32 = 57, 29, _, 0x8C43: Unorm8 x 4, Rgba, Srgb;
    A2B10G10R10_UNORM_PACK32 = 64, 24, "AB30", 0x8059: Unorm1010102 x 4, Rgba, Linear;
    A2R10G10B10_UNORM_PACK32 = 58, _, "AR30", 0x8059: Unorm1010102 x 4, Bgra, Linear;
};

impl TexelRow {
    /// Every row.
    #[must_use]
    pub const fn all() -> &'static [Self] {
        TABLE
    }

    /// The row of a `VkFormat`.
    #[must_use]
    pub fn of_vulkan(format: i32) -> Option<&'static Self> {
        Self::find(|row| row.vulkan == format)
    }

    /// The row of a `DXGI_FORMAT`.
    #[must_use]
    pub fn of_dxgi(format: u32) -> Option<&'static Self> {
        Self::find(|row| row.dxgi == Some(format))
    }

    /// The row of a `DRM_FORMAT_*`.
    #[must_use]
    pub fn of_drm(format: DrmFourcc) -> Option<&'static Self> {
        Self::find(|row| row.drm == Some(format))
    }

    /// The row of a sized internal format of OpenGL, with red first.
    #[must_use]
    pub fn of_gl(format: u32) -> Option<&'static Self> {
        Self::find(|row| row.gl == format && row.order == ChannelOrder::Rgba)
    }

    /// The row of an array format, with red first and linear encoding.
    #[must_use]
    pub fn of_array(format: ArrayFormat) -> Option<&'static Self> {
        Self::find(|row| (row.array, row.order, row.encoding) == (format, ChannelOrder::Rgba, ColorEncoding::Linear))
    }

    fn find(matches: impl Fn(&Self) -> bool) -> Option<&'static Self> {
        TABLE.iter().find(|row| matches(row))
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn vulkan_numbers_are_unique_and_found() {
        let numbers: HashSet<_> = TABLE.iter().map(|row| row.vulkan).collect();
        assert_eq!(numbers.len(), TABLE.len());
        for row in TABLE {
            assert_eq!(TexelRow::of_vulkan(row.vulkan), Some(row));
        }
        for number in [-1, 0, 1_000_156_003, i32::MAX] {
            assert_eq!(TexelRow::of_vulkan(number), None, "{number}");
        }
    }

    /// Rows with a common number in one column have the same texels: another column may distinguish only formats that
    /// the first does not.
    #[test]
    fn a_number_means_the_same_texels_in_every_row() {
        for (one, other) in TABLE.iter().flat_map(|one| TABLE.iter().map(move |other| (one, other))) {
            let pair = format!("{} and {}", one.name, other.name);
            let texels = |row: &TexelRow| (row.array, row.order, row.encoding);
            if one.dxgi.is_some() && one.dxgi == other.dxgi {
                assert_eq!(texels(one), texels(other), "{pair}");
            }
            if one.drm.is_some() && one.drm == other.drm {
                assert_eq!(one.vulkan, other.vulkan, "{pair}");
            }
            if one.gl == other.gl {
                assert_eq!((one.array, one.encoding), (other.array, other.encoding), "{pair}");
            }
        }
    }

    #[test]
    fn lookups_find_the_first_row_with_the_number() {
        for row in TABLE {
            let same = |found: Option<&TexelRow>| {
                found.is_some_and(|found| (found.array, found.encoding) == (row.array, row.encoding))
            };
            assert!(row.dxgi.is_none_or(|number| same(TexelRow::of_dxgi(number))), "{}", row.name);
            assert!(row.drm.is_none_or(|code| same(TexelRow::of_drm(code))), "{}", row.name);
            assert!(same(TexelRow::of_gl(row.gl)), "{}", row.name);
            assert!(TexelRow::of_array(row.array).is_some_and(|found| found.array == row.array), "{}", row.name);
        }
        assert_eq!(TexelRow::of_dxgi(103), None, "NV12 has planes");
        assert_eq!(TexelRow::of_drm(DrmFourcc::from_code("NV12")), None, "NV12 has planes");
        assert_eq!(TexelRow::of_gl(0x1908), None, "GL_RGBA is not sized");
    }
}
