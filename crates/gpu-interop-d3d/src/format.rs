//! Conversion of DXGI formats to array formats.

use std::fmt;

use gpu_interop_core::format::TexelRow;
use gpu_interop_core::{ArrayFormat, Error, Result};
pub use gpu_interop_core::{ChannelOrder, ColorEncoding};

/// Array format of a `DXGI_FORMAT`, with its channel order and encoding, which array formats lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TexelFormat {
    /// Type and number of the channels, in memory order.
    pub array: ArrayFormat,
    /// The colours of the channels.
    pub order: ChannelOrder,
    /// The encoding of the colours.
    pub encoding: ColorEncoding,
}

/// A `DXGI_FORMAT`, on every operating system. Numbers without a constant are formats unknown to this version, which
/// arrays lack.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DxgiFormat(pub u32);

struct Row {
    format: DxgiFormat,
    name: &'static str,
    /// The reason why arrays lack the format; `None` for those in the core's table.
    unsupported: Option<&'static str>,
}

const NONE: &str = "it is not a format";
const TYPELESS: &str = "it has no channel type; create the texture with a typed format";
const THREE: &str = "arrays have 1, 2 or 4 channels, not 3";
const DEPTH: &str = "depth and stencil are not colour channels";
const BLOCKS: &str = "compressed blocks are not texels";
const VIDEO: &str = "video and palette formats have no texels of equal channels";
const PACKED_FLOAT: &str = "arrays have no packed floats";
const TEN_BITS: &str = "of the packed formats with 10 bits per channel, arrays have only UNORM";
const SUBSAMPLED: &str = "its texels share red and blue in pairs";
const NARROW: &str = "arrays have no channels below 8 bits";
const UNUSED: &str = "its fourth channel is unused; use the format with alpha";
const ALPHA: &str = "the first channel of an array is red, and this format has only alpha; use R8_UNORM";
const FEEDBACK: &str = "sampler feedback maps are opaque";

/// Table of `NAME = number, texel` for the formats in the core's table, and `NAME = number, REASON` for the others; also
/// defines the constants.
macro_rules! formats {
    (@unsupported texel) => { None };
    (@unsupported $reason:ident) => { Some($reason) };
    ($($ident:ident $(as $name:literal)? = $value:literal, $what:ident;)*) => {
        impl DxgiFormat {
            $(
                #[doc = concat!("`DXGI_FORMAT_", formats!(@name $ident $($name)?), "`")]
                pub const $ident: Self = Self($value);
            )*
        }

        /// Every format of DXGI.
        const TABLE: &[Row] = &[$(Row {
            format: DxgiFormat::$ident,
            name: concat!("DXGI_FORMAT_", formats!(@name $ident $($name)?)),
            unsupported: formats!(@unsupported $what),
        }),*];
    };
    (@name $ident:ident $name:literal) => { $name };
    (@name $ident:ident) => { stringify!($ident) };
}

#[rustfmt::skip]
formats! {
    UNKNOWN = 0, NONE;
    R32G32B32A32_TYPELESS = 1, TYPELESS;
    R32G32B32A32_FLOAT = 2, texel;
    R32G32B32A32_UINT = 3, texel;
    R32G32B32A32_SINT = 4, texel;
    R32G32B32_TYPELESS = 5, TYPELESS;
    R32G32B32_FLOAT = 6, THREE;
    R32G32B32_UINT = 7, THREE;
    R32G32B32_SINT = 8, THREE;
    R16G16B16A16_TYPELESS = 9, TYPELESS;
    R16G16B16A16_FLOAT = 10, texel;
    R16G16B16A16_UNORM = 11, texel;
    R16G16B16A16_UINT = 12, texel;
    R16G16B16A16_SNORM = 13, texel;
    R16G16B16A16_SINT = 14, texel;
    R32G32_TYPELESS = 15, TYPELESS;
    R32G32_FLOAT = 16, texel;
    R32G32_UINT = 17, texel;
    R32G32_SINT = 18, texel;
    R32G8X24_TYPELESS = 19, TYPELESS;
    D32_FLOAT_S8X24_UINT = 20, DEPTH;
    R32_FLOAT_X8X24_TYPELESS = 21, DEPTH;
    X32_TYPELESS_G8X24_UINT = 22, DEPTH;
    R10G10B10A2_TYPELESS = 23, TYPELESS;
    R10G10B10A2_UNORM = 24, texel;
    R10G10B10A2_UINT = 25, TEN_BITS;
    R11G11B10_FLOAT = 26, PACKED_FLOAT;
    R8G8B8A8_TYPELESS = 27, TYPELESS;
    R8G8B8A8_UNORM = 28, texel;
    R8G8B8A8_UNORM_SRGB = 29, texel;
    R8G8B8A8_UINT = 30, texel;
    R8G8B8A8_SNORM = 31, texel;
    R8G8B8A8_SINT = 32, texel;
    R16G16_TYPELESS = 33, TYPELESS;
    R16G16_FLOAT = 34, texel;
    R16G16_UNORM = 35, texel;
    R16G16_UINT = 36, texel;
    R16G16_SNORM = 37, texel;
    R16G16_SINT = 38, texel;
    R32_TYPELESS = 39, TYPELESS;
    D32_FLOAT = 40, DEPTH;
    R32_FLOAT = 41, texel;
    R32_UINT = 42, texel;
    R32_SINT = 43, texel;
    R24G8_TYPELESS = 44, TYPELESS;
    D24_UNORM_S8_UINT = 45, DEPTH;
    R24_UNORM_X8_TYPELESS = 46, DEPTH;
    X24_TYPELESS_G8_UINT = 47, DEPTH;
    R8G8_TYPELESS = 48, TYPELESS;
    R8G8_UNORM = 49, texel;
    R8G8_UINT = 50, texel;
    R8G8_SNORM = 51, texel;
    R8G8_SINT = 52, texel;
    R16_TYPELESS = 53, TYPELESS;
    R16_FLOAT = 54, texel;
    D16_UNORM = 55, DEPTH;
    R16_UNORM = 56, texel;
    R16_UINT = 57, texel;
    R16_SNORM = 58, texel;
    R16_SINT = 59, texel;
    R8_TYPELESS = 60, TYPELESS;
    R8_UNORM = 61, texel;
    R8_UINT = 62, texel;
    R8_SNORM = 63, texel;
    R8_SINT = 64, texel;
    A8_UNORM = 65, ALPHA;
    R1_UNORM = 66, NARROW;
    R9G9B9E5_SHAREDEXP = 67, PACKED_FLOAT;
    R8G8_B8G8_UNORM = 68, SUBSAMPLED;
    G8R8_G8B8_UNORM = 69, SUBSAMPLED;
    BC1_TYPELESS = 70, BLOCKS;
    BC1_UNORM = 71, BLOCKS;
    BC1_UNORM_SRGB = 72, BLOCKS;
    BC2_TYPELESS = 73, BLOCKS;
    BC2_UNORM = 74, BLOCKS;
    BC2_UNORM_SRGB = 75, BLOCKS;
    BC3_TYPELESS = 76, BLOCKS;
    BC3_UNORM = 77, BLOCKS;
    BC3_UNORM_SRGB = 78, BLOCKS;
    BC4_TYPELESS = 79, BLOCKS;
    BC4_UNORM = 80, BLOCKS;
    BC4_SNORM = 81, BLOCKS;
    BC5_TYPELESS = 82, BLOCKS;
    BC5_UNORM = 83, BLOCKS;
    BC5_SNORM = 84, BLOCKS;
    B5G6R5_UNORM = 85, NARROW;
    B5G5R5A1_UNORM = 86, NARROW;
    B8G8R8A8_UNORM = 87, texel;
    B8G8R8X8_UNORM = 88, UNUSED;
    R10G10B10_XR_BIAS_A2_UNORM = 89, TEN_BITS;
    B8G8R8A8_TYPELESS = 90, TYPELESS;
    B8G8R8A8_UNORM_SRGB = 91, texel;
    B8G8R8X8_TYPELESS = 92, TYPELESS;
    B8G8R8X8_UNORM_SRGB = 93, UNUSED;
    BC6H_TYPELESS = 94, BLOCKS;
    BC6H_UF16 = 95, BLOCKS;
    BC6H_SF16 = 96, BLOCKS;
    BC7_TYPELESS = 97, BLOCKS;
    BC7_UNORM = 98, BLOCKS;
    BC7_UNORM_SRGB = 99, BLOCKS;
    AYUV = 100, VIDEO;
    Y410 = 101, VIDEO;
    Y416 = 102, VIDEO;
    NV12 = 103, VIDEO;
    P010 = 104, VIDEO;
    P016 = 105, VIDEO;
    OPAQUE_420 as "420_OPAQUE" = 106, VIDEO;
    YUY2 = 107, VIDEO;
    Y210 = 108, VIDEO;
    Y216 = 109, VIDEO;
    NV11 = 110, VIDEO;
    AI44 = 111, VIDEO;
    IA44 = 112, VIDEO;
    P8 = 113, VIDEO;
    A8P8 = 114, VIDEO;
    B4G4R4A4_UNORM = 115, NARROW;
    P208 = 130, VIDEO;
    V208 = 131, VIDEO;
    V408 = 132, VIDEO;
    SAMPLER_FEEDBACK_MIN_MIP_OPAQUE = 189, FEEDBACK;
    SAMPLER_FEEDBACK_MIP_REGION_USED_OPAQUE = 190, FEEDBACK;
    A4B4G4R4_UNORM = 191, NARROW;
}

impl DxgiFormat {
    fn row(self) -> Option<&'static Row> {
        TABLE.iter().find(|row| row.format == self)
    }

    /// Every DXGI format known to this version, in numeric order.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        TABLE.iter().map(|row| row.format)
    }

    /// The name in DXGI's header; `None` for an unknown format.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        self.row().map(|row| row.name)
    }
}

impl fmt::Debug for DxgiFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "DXGI_FORMAT({})", self.0),
        }
    }
}

#[cfg(windows)]
impl From<windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT> for DxgiFormat {
    fn from(format: windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT) -> Self {
        Self(format.0.cast_unsigned())
    }
}

#[cfg(windows)]
impl From<DxgiFormat> for windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT {
    fn from(format: DxgiFormat) -> Self {
        Self(format.0.cast_signed())
    }
}

impl TexelFormat {
    /// Converts a DXGI format.
    ///
    /// The integer and 32-bit float formats are the 21 in the table of NVIDIA's programming guide. The 16-bit float and
    /// normalised formats, which applications render to, are array formats of the driver as well.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) with the format and the reason, if no array
    /// has the format.
    pub fn from_dxgi(format: impl Into<DxgiFormat>) -> Result<Self> {
        const OPERATION: &str = "TexelFormat::from_dxgi";
        let format = format.into();
        if let Some(row) = TexelRow::of_dxgi(format.0) {
            return Ok(Self { array: row.array, order: row.order, encoding: row.encoding });
        }
        let reason = format.row().and_then(|row| row.unsupported).unwrap_or("it is unknown to this version");
        Err(Error::unsupported(OPERATION, format!("no array has this format: {reason}"))
            .with_context("format", format_args!("{format:?}")))
    }

    /// Every DXGI format that [`from_dxgi`](Self::from_dxgi) accepts. A device may share fewer; creating a texture
    /// reports that.
    pub fn dxgi_formats() -> impl Iterator<Item = DxgiFormat> {
        TABLE.iter().filter(|row| row.unsupported.is_none()).map(|row| row.format)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use gpu_interop_core::{ChannelType, ErrorKind};

    use super::*;

    /// The format table of CUDA's programming guide: bits per channel, number of channels, kind.
    const GUIDE: [(DxgiFormat, u32, u8, char); 21] = [
        (DxgiFormat::R8_UINT, 8, 1, 'u'),
        (DxgiFormat::R8_SINT, 8, 1, 's'),
        (DxgiFormat::R8G8_UINT, 8, 2, 'u'),
        (DxgiFormat::R8G8_SINT, 8, 2, 's'),
        (DxgiFormat::R8G8B8A8_UINT, 8, 4, 'u'),
        (DxgiFormat::R8G8B8A8_SINT, 8, 4, 's'),
        (DxgiFormat::R16_UINT, 16, 1, 'u'),
        (DxgiFormat::R16_SINT, 16, 1, 's'),
        (DxgiFormat::R16G16_UINT, 16, 2, 'u'),
        (DxgiFormat::R16G16_SINT, 16, 2, 's'),
        (DxgiFormat::R16G16B16A16_UINT, 16, 4, 'u'),
        (DxgiFormat::R16G16B16A16_SINT, 16, 4, 's'),
        (DxgiFormat::R32_UINT, 32, 1, 'u'),
        (DxgiFormat::R32_SINT, 32, 1, 's'),
        (DxgiFormat::R32_FLOAT, 32, 1, 'f'),
        (DxgiFormat::R32G32_UINT, 32, 2, 'u'),
        (DxgiFormat::R32G32_SINT, 32, 2, 's'),
        (DxgiFormat::R32G32_FLOAT, 32, 2, 'f'),
        (DxgiFormat::R32G32B32A32_UINT, 32, 4, 'u'),
        (DxgiFormat::R32G32B32A32_SINT, 32, 4, 's'),
        (DxgiFormat::R32G32B32A32_FLOAT, 32, 4, 'f'),
    ];

    #[test]
    fn formats_of_the_cuda_guide_are_converted() {
        for (format, bits, channels, kind) in GUIDE {
            let found = TexelFormat::from_dxgi(format).expect("in the guide");
            let channel = found.array.channel();
            assert_eq!((channel.bits(), found.array.channels()), (bits, channels), "{format:?}");
            let kinds = (channel.is_integer(), channel.is_signed());
            assert_eq!(kinds, (kind != 'f', kind != 'u'), "{format:?}");
            assert_eq!((found.order, found.encoding), (ChannelOrder::Rgba, ColorEncoding::Linear), "{format:?}");
        }
        // The guide has all integer and 32-bit float formats.
        use ChannelType as T;
        let plain = [T::Uint8, T::Sint8, T::Uint16, T::Sint16, T::Uint32, T::Sint32, T::Float32];
        let guide: HashSet<_> = GUIDE.iter().map(|row| row.0).collect();
        for format in TexelFormat::dxgi_formats() {
            let channel = TexelFormat::from_dxgi(format).expect("in the table").array.channel();
            assert_eq!(plain.contains(&channel), guide.contains(&format), "{format:?}");
        }
    }

    /// Parses a format's name: letters of the channels, their bits, and the suffix.
    fn parse(format: DxgiFormat) -> (String, Vec<u32>, String) {
        let name = format.name().expect("a known format").trim_start_matches("DXGI_FORMAT_");
        let (texel, kind) = name.split_once('_').expect("letters and a kind");
        let letters = texel.chars().filter(char::is_ascii_alphabetic).collect();
        let bits = texel.split(|c: char| c.is_ascii_alphabetic()).filter_map(|bits| bits.parse().ok()).collect();
        (letters, bits, kind.to_owned())
    }

    #[test]
    fn conversions_match_the_format_names() {
        for format in TexelFormat::dxgi_formats() {
            let found = TexelFormat::from_dxgi(format).expect("in the table");
            let (letters, bits, kind) = parse(format);
            let order = match found.order {
                ChannelOrder::Rgba => "RGBA",
                ChannelOrder::Bgra => "BGRA",
            };
            assert_eq!(letters, order[..letters.len()], "{format:?}");
            assert_eq!(usize::from(found.array.channels()), letters.len(), "{format:?}");
            assert_eq!(found.array.texel_size(), bits.iter().sum::<u32>() / 8, "{format:?}");
            assert_eq!(found.encoding == ColorEncoding::Srgb, kind.ends_with("SRGB"), "{format:?}");
            let channel = match (kind.trim_end_matches("_SRGB"), bits[0]) {
                ("UNORM", 10) => "Unorm1010102".to_owned(),
                (kind, bits) => format!("{}{}{bits}", &kind[..1], kind[1..].to_lowercase()),
            };
            assert_eq!(format!("{:?}", found.array.channel()), channel, "{format:?}");
        }
    }

    #[test]
    fn the_table_has_every_format_once() {
        let numbers: Vec<_> = DxgiFormat::all().map(|format| format.0).collect();
        let expected: Vec<_> = (0..=115).chain(130..=132).chain(189..=191).collect();
        assert_eq!(numbers, expected);
        let names: HashSet<_> = DxgiFormat::all().map(DxgiFormat::name).collect();
        assert_eq!(names.len(), 122);
        // 36 of one to four channels, R10G10B10A2, BGRA, and two of sRGB.
        assert_eq!(TexelFormat::dxgi_formats().count(), 36 + 1 + 1 + 2);
    }

    /// Words expected in the reason, by the format's name.
    fn reason(format: DxgiFormat) -> &'static str {
        let name = format.name().unwrap_or_default().trim_start_matches("DXGI_FORMAT_");
        let starts = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
        match name {
            "" => "unknown to this version",
            "UNKNOWN" => "not a format",
            "A8_UNORM" => "only alpha",
            "R1_UNORM" => "below 8 bits",
            "R11G11B10_FLOAT" | "R9G9B9E5_SHAREDEXP" => "packed floats",
            "R8G8_B8G8_UNORM" | "G8R8_G8B8_UNORM" => "share",
            "R24_UNORM_X8_TYPELESS" | "R32_FLOAT_X8X24_TYPELESS" => "depth and stencil",
            _ if starts(&["D16", "D24", "D32", "X24", "X32"]) => "depth and stencil",
            _ if starts(&["BC"]) => "compressed blocks",
            _ if name.ends_with("TYPELESS") => "no channel type",
            _ if name.starts_with("R32G32B32_") => "not 3",
            _ if starts(&["R10"]) => "10 bits",
            _ if starts(&["B5", "B4", "A4"]) => "below 8 bits",
            _ if starts(&["B8G8R8X8"]) => "fourth channel",
            _ if starts(&["SAMPLER_FEEDBACK"]) => "opaque",
            _ => "video",
        }
    }

    /// The names of both tables agree: `R8G8B8A8_UNORM_SRGB` is Vulkan's `R8G8B8A8_SRGB`.
    #[test]
    fn formats_of_the_core_are_in_this_table() {
        for row in TexelRow::all() {
            let Some(number) = row.dxgi else { continue };
            let format = DxgiFormat(number);
            assert_eq!(format.row().map(|row| row.unsupported), Some(None), "{format:?}");
            let name = format.name().and_then(|name| name.strip_prefix("DXGI_FORMAT_")).expect("a name");
            let name = name.replace("UNORM_SRGB", "SRGB").replace("FLOAT", "SFLOAT");
            let packed = row.name.ends_with("_PACK32");
            assert!(name == row.name || packed, "{name} and {}", row.name);
        }
        for format in TexelFormat::dxgi_formats() {
            assert!(TexelRow::of_dxgi(format.0).is_some(), "{format:?}");
        }
    }

    #[test]
    fn other_formats_are_rejected_with_name_and_reason() {
        let known: HashSet<_> = TexelFormat::dxgi_formats().collect();
        // Numbers past the last format, and DXGI_FORMAT_FORCE_UINT.
        let others = (0..=256).chain([u32::MAX]).map(DxgiFormat).filter(|format| !known.contains(format));
        let mut count = 0;
        for format in others {
            count += 1;
            let error = TexelFormat::from_dxgi(format).expect_err("unsupported");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{format:?}");
            assert_eq!(error.context(), [("format", format!("{format:?}"))]);
            assert!(error.message().contains(reason(format)), "{error} should say: {}", reason(format));
        }
        assert_eq!(count, 257 + 1 - 40);
        assert_eq!(format!("{:?}", DxgiFormat::OPAQUE_420), "DXGI_FORMAT_420_OPAQUE");
        assert_eq!(format!("{:?}", DxgiFormat(116)), "DXGI_FORMAT(116)");
    }
}
