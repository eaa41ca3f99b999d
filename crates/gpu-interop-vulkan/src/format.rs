//! Conversion of Vulkan formats to array formats.

use ash::vk;
use gpu_interop_core::format::{TexelRow, VideoFormat};
use gpu_interop_core::{ArrayFormat, Error, Result};
pub use gpu_interop_core::{ChannelOrder, ColorEncoding};

/// Array format of a `VkFormat`, with its channel order and encoding, which array formats lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TexelFormat {
    /// Type and number of the channels, in memory order.
    pub array: ArrayFormat,
    /// The colours of the channels.
    pub order: ChannelOrder,
    /// The encoding of the colours.
    pub encoding: ColorEncoding,
}

/// Reasons for the formats of Vulkan 1.0 that are not in the table; the first range that contains the format applies.
const UNSUPPORTED: &[(std::ops::RangeInclusive<vk::Format>, &str)] = &[
    (vk::Format::UNDEFINED..=vk::Format::UNDEFINED, "it is not a format"),
    (vk::Format::R4G4_UNORM_PACK8..=vk::Format::A1R5G5B5_UNORM_PACK16, "arrays have no channels below 8 bits"),
    (vk::Format::R8G8B8_UNORM..=vk::Format::B8G8R8_SRGB, "arrays have 1, 2 or 4 channels, not 3"),
    (vk::Format::R16G16B16_UNORM..=vk::Format::R16G16B16_SFLOAT, "arrays have 1, 2 or 4 channels, not 3"),
    (vk::Format::R32G32B32_UINT..=vk::Format::R32G32B32_SFLOAT, "arrays have 1, 2 or 4 channels, not 3"),
    (
        vk::Format::A2R10G10B10_UNORM_PACK32..=vk::Format::A2B10G10R10_SINT_PACK32,
        "of the packed formats with 10 bits per channel, arrays have only UNORM",
    ),
    (vk::Format::R8_UNORM..=vk::Format::R16G16B16A16_SFLOAT, "arrays have no scaled integers"),
    (vk::Format::R64_UINT..=vk::Format::R64G64B64A64_SFLOAT, "arrays have no channels of 64 bits"),
    (vk::Format::B10G11R11_UFLOAT_PACK32..=vk::Format::E5B9G9R9_UFLOAT_PACK32, "arrays have no packed floats"),
    (vk::Format::D16_UNORM..=vk::Format::D32_SFLOAT_S8_UINT, "depth and stencil are not colour channels"),
    (vk::Format::BC1_RGB_UNORM_BLOCK..=vk::Format::ASTC_12X12_SRGB_BLOCK, "compressed blocks are not texels"),
];

impl TexelFormat {
    /// Converts a Vulkan format.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) with the reason, if no array has the
    /// format.
    pub fn from_vulkan(format: vk::Format) -> Result<Self> {
        const OPERATION: &str = "TexelFormat::from_vulkan";
        if let Some(row) = TexelRow::of_vulkan(format.as_raw()) {
            return Ok(Self { array: row.array, order: row.order, encoding: row.encoding });
        }
        let planes = "it is not one of Vulkan 1.0's, but multi-planar; share its planes with ExportableVideo";
        let other = "it is not one of Vulkan 1.0's; formats of extensions are not supported";
        let has_planes = VideoFormat::from_vulkan_number(format.as_raw()).is_some();
        let reason = UNSUPPORTED
            .iter()
            .find(|(range, _)| range.contains(&format))
            .map_or(if has_planes { planes } else { other }, |(_, reason)| reason);
        Err(Error::unsupported(OPERATION, format!("no array has this format: {reason}"))
            .with_context("format", format_args!("{format:?}")))
    }

    /// Every Vulkan format that [`from_vulkan`](Self::from_vulkan) converts.
    /// [`VulkanInterop::image_features`](crate::VulkanInterop::image_features) reports which of them a device shares.
    pub fn vulkan_formats() -> impl ExactSizeIterator<Item = vk::Format> {
        TexelRow::all().iter().map(|row| vk::Format::from_raw(row.vulkan))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use gpu_interop_core::{ChannelType, ErrorKind};

    use super::*;

    /// Parses a format's name: the channels' letters and bits, and the numeric type.
    fn parse(format: vk::Format) -> Option<(Vec<(char, u32)>, String)> {
        let name = format!("{format:?}");
        let (texel, kind) = name.split_once('_')?;
        let mut channels: Vec<(char, u32)> = Vec::new();
        for character in texel.chars() {
            match (character.to_digit(10), channels.last_mut()) {
                (Some(digit), Some((_, bits))) => *bits = *bits * 10 + digit,
                (Some(_), None) => return None,
                (None, _) => channels.push((character, 0)),
            }
        }
        let packed = kind.strip_suffix("_PACK32");
        if packed.is_some() {
            // Named from the highest bit down; memory starts with the lowest.
            channels.reverse();
        }
        Some((channels, packed.unwrap_or(kind).to_owned()))
    }

    #[test]
    fn rows_match_the_format_names() {
        for row in TexelRow::all() {
            assert_eq!(format!("{:?}", vk::Format::from_raw(row.vulkan)), row.name);
        }
        for format in TexelFormat::vulkan_formats() {
            let found = TexelFormat::from_vulkan(format).expect("in the table");
            let (channels, kind) = parse(format).expect("a name of letters and bits");
            let letters: String = channels.iter().map(|(letter, _)| letter).collect();
            let order = match found.order {
                ChannelOrder::Rgba => "RGBA",
                ChannelOrder::Bgra => "BGRA",
            };
            assert_eq!(letters, order[..letters.len()], "{format:?}");
            assert_eq!(usize::from(found.array.channels()), letters.len(), "{format:?}");
            let bits: u32 = channels.iter().map(|(_, bits)| bits).sum();
            assert_eq!(found.array.texel_size(), bits / 8, "{format:?}");
            assert_eq!(found.encoding == ColorEncoding::Srgb, kind == "SRGB", "{format:?}");
            let channel = match (kind.as_str(), channels[0].1) {
                ("UNORM", 10) => "Unorm1010102".to_owned(),
                ("SFLOAT", bits) => format!("Float{bits}"),
                ("SRGB", bits) => format!("Unorm{bits}"),
                (kind, bits) => format!("{}{}{bits}", &kind[..1], kind[1..].to_lowercase()),
            };
            assert_eq!(format!("{:?}", found.array.channel()), channel, "{format:?}");
        }
    }

    #[test]
    fn table_is_complete_without_duplicates() {
        let formats: HashSet<_> = TexelFormat::vulkan_formats().collect();
        assert_eq!((TexelFormat::vulkan_formats().len(), formats.len()), (51, 51));
        let plain: HashSet<_> = TexelRow::all()
            .iter()
            .filter(|row| row.order == ChannelOrder::Rgba && row.encoding == ColorEncoding::Linear)
            .map(|row| (row.array.channel(), row.array.channels()))
            .collect();
        use ChannelType as T;
        let integers_and_floats = [T::Uint8, T::Sint8, T::Uint16, T::Sint16, T::Uint32, T::Sint32, T::Float32];
        let beyond = [T::Float16, T::Unorm8, T::Snorm8, T::Unorm16, T::Snorm16];
        for channel in integers_and_floats.into_iter().chain(beyond) {
            for channels in [1, 2, 4] {
                assert!(plain.contains(&(channel, channels)), "{channels} x {channel:?}");
            }
        }
        assert_eq!(plain.len(), 3 * 12 + 1);
    }

    /// The expected words of the reason, by the format's name.
    fn reason(format: vk::Format) -> &'static str {
        let name = format!("{format:?}");
        let depth_or_stencil = ["D16", "D24", "D32", "X8", "S8"].iter().any(|start| name.starts_with(start));
        match name.as_str() {
            "UNDEFINED" => "not a format",
            name if name.contains("BLOCK") => "compressed blocks",
            _ if depth_or_stencil => "depth and stencil",
            name if name.contains("PACK8") || name.contains("PACK16") => "below 8 bits",
            name if name.contains("UFLOAT") => "packed floats",
            name if name.contains("10") => "10 bits",
            name if name.contains("64") => "64 bits",
            _ if parse(format).is_some_and(|(channels, _)| channels.len() == 3) => "not 3",
            name if name.contains("SCALED") => "scaled integers",
            name => unreachable!("{name} should be in the table"),
        }
    }

    #[test]
    fn other_formats_are_rejected_with_a_reason() {
        let known: HashSet<_> = TexelFormat::vulkan_formats().collect();
        let rejected = |format, reason| {
            let error = TexelFormat::from_vulkan(format).expect_err("no array has it");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{format:?}");
            assert_eq!(error.context(), [("format", format!("{format:?}"))]);
            assert!(error.message().contains(reason), "{error} should say: {reason}");
        };
        let others: Vec<_> = (0..=184).map(vk::Format::from_raw).filter(|format| !known.contains(format)).collect();
        assert_eq!(others.len(), 185 - 51);
        for format in others {
            rejected(format, reason(format));
        }
        for format in [vk::Format::G8_B8R8_2PLANE_420_UNORM, vk::Format::from_raw(-1), vk::Format::from_raw(185)] {
            rejected(format, "not one of Vulkan 1.0");
        }
        rejected(vk::Format::G8_B8R8_2PLANE_420_UNORM, "multi-planar");
    }

    /// Parses a multi-planar name: channels of each plane, bits, and sampling.
    fn planes(format: vk::Format) -> (Vec<usize>, u32, String) {
        let name = format!("{format:?}");
        let (texels, rest) = name.split_once("PLANE_").expect("planes");
        let mut parts: Vec<&str> = texels.split('_').collect();
        let count: usize = parts.pop().expect("a number").parse().expect("a number");
        let letters = |plane: &&str| plane.chars().filter(|letter| "RGB".contains(*letter)).count();
        let digits: String = parts[0][1..].chars().take_while(char::is_ascii_digit).collect();
        assert_eq!(parts.len(), count, "{name}");
        (parts.iter().map(letters).collect(), digits.parse().expect("bits"), rest[..3].to_owned())
    }

    #[test]
    fn video_rows_match_the_format_names() {
        for video in VideoFormat::all() {
            let format = vk::Format::from_raw(video.vulkan_number());
            let (channels, bits, sampling) = planes(format);
            let found: Vec<_> = (0..video.planes()).map(|plane| usize::from(video.texel(plane).channels())).collect();
            assert_eq!((found, video.bits()), (channels, bits), "{format:?}");
            let subsampling = match sampling.as_str() {
                "420" => [2, 2],
                "422" => [2, 1],
                _ => [1, 1],
            };
            assert_eq!(video.subsampling(1), subsampling, "{format:?}");
            for plane in 0..video.planes() {
                let image = vk::Format::from_raw(video.plane_vulkan_number(plane));
                let texel = TexelFormat::from_vulkan(image).expect("a format of one plane");
                assert_eq!(texel.array, video.texel(plane), "{format:?}, plane {plane}");
            }
        }
        // Every multi-planar format of Vulkan 1.1.
        let names = (1_000_156_000..=1_000_156_033).map(vk::Format::from_raw);
        let planar = names.filter(|format| format!("{format:?}").contains("PLANE"));
        assert!(planar.clone().all(|format| VideoFormat::from_vulkan_number(format.as_raw()).is_some()));
        assert_eq!(planar.count(), VideoFormat::all().len());
    }
}
