//! Images of every format, every byte in both directions.

use gpu_interop::vulkan::{ChannelOrder, ColorEncoding, TexelFormat, ash::vk};
use gpu_interop::{ArrayShape, ChannelType, ErrorKind};

use super::expect_error;
use crate::context::Context;
use crate::ensure;
use crate::exporter::ImageSpec;
use crate::image::{SharedImage, for_each, plain_format};
use crate::outcome::Verdict;
use crate::scenario::scenarios;

scenarios! {
    "image_format.uint8", Any, "Images of 1, 2 and 4 channels of 8-bit unsigned integers go both ways.", uint8,
        needs [MappedMipmappedArray, exporter Images];
    "image_format.uint16", Any, "Images of 1, 2 and 4 channels of 16-bit unsigned integers go both ways.", uint16,
        needs [MappedMipmappedArray, exporter Images];
    "image_format.uint32", Any, "Images of 1, 2 and 4 channels of 32-bit unsigned integers go both ways.", uint32,
        needs [MappedMipmappedArray, exporter Images];
    "image_format.sint8", Any, "Images of 1, 2 and 4 channels of 8-bit signed integers go both ways.", sint8,
        needs [MappedMipmappedArray, exporter Images];
    "image_format.sint16", Any, "Images of 1, 2 and 4 channels of 16-bit signed integers go both ways.", sint16,
        needs [MappedMipmappedArray, exporter Images];
    "image_format.sint32", Any, "Images of 1, 2 and 4 channels of 32-bit signed integers go both ways.", sint32,
        needs [MappedMipmappedArray, exporter Images];
    "image_format.float16", Any,
        "Images of 1, 2 and 4 channels of 16-bit floats go both ways, those that both sides have.", float16,
        needs [MappedMipmappedArray, exporter Images];
    "image_format.float32", Any, "Images of 1, 2 and 4 channels of 32-bit floats go both ways.", float32,
        needs [MappedMipmappedArray, exporter Images];
    "image_format.unorm8", Any,
        "Images of 1, 2 and 4 channels of 8 bits from 0 to 1 go both ways, those that both sides have.", unorm8,
        needs [MappedMipmappedArray, exporter Images];
    "image_format.unorm16", Any,
        "Images of 1, 2 and 4 channels of 16 bits from 0 to 1 go both ways, those that both sides have.", unorm16,
        needs [MappedMipmappedArray, exporter Images];
    "image_format.snorm8", Any,
        "Images of 1, 2 and 4 channels of 8 bits from -1 to 1 go both ways, those that both sides have.", snorm8,
        needs [MappedMipmappedArray, exporter Images];
    "image_format.snorm16", Any,
        "Images of 1, 2 and 4 channels of 16 bits from -1 to 1 go both ways, those that both sides have.", snorm16,
        needs [MappedMipmappedArray, exporter Images];
    "image_format.unorm1010102", Any,
        "Images of texels of 10, 10, 10 and 2 bits go both ways, in the orders that both sides have.", unorm1010102,
        needs [MappedMipmappedArray, exporter Images];
    "image_format.bgra8", Any,
        "Images of four 8-bit channels in BGRA order go both ways, of the types that both sides have.", bgra8,
        needs [MappedMipmappedArray, exporter Images];
    "image_format.srgb8", Any,
        "Images of 8-bit sRGB channels go both ways as they are encoded, those that both sides have.", srgb8,
        needs [MappedMipmappedArray, exporter Images];
    "image_format.not_arrays", None, "Formats that no array has are typed errors that name format and reason.",
        not_arrays, mirrors("intel/llvm: vulkan_interop/depth_format");
}

/// Odd, so that rows are no round number of bytes; with levels of both odd and even extents.
const SHAPE: ArrayShape = ArrayShape::D2 { width: 67, height: 45 };
const LEVELS: u32 = 4;

fn both_ways(context: &Context, formats: &[TexelFormat], all_needed: bool) -> Verdict {
    for_each(
        |what| context.leave_out(what),
        formats,
        all_needed,
        |format| {
            SharedImage::new(context, ImageSpec { levels: LEVELS, ..ImageSpec::new(SHAPE, format) })?
                .goes_both_ways(context)
        },
    )
}

fn plain(context: &Context, channel: ChannelType, all_needed: bool) -> Verdict {
    let formats = [1, 2, 4].into_iter().map(|channels| plain_format(channel, channels)).collect::<Verdict<Vec<_>>>()?;
    both_ways(context, &formats, all_needed)
}

/// A scenario for each channel type. Of those that CUDA's guide has in its table, every number of channels is needed.
macro_rules! plain {
    ($($function:ident: $channel:ident, all needed: $all_needed:literal;)+) => { $(
        fn $function(context: &Context) -> Verdict {
            plain(context, ChannelType::$channel, $all_needed)
        }
    )+ };
}

plain! {
    uint8: Uint8, all needed: true;
    uint16: Uint16, all needed: true;
    uint32: Uint32, all needed: true;
    sint8: Sint8, all needed: true;
    sint16: Sint16, all needed: true;
    sint32: Sint32, all needed: true;
    float16: Float16, all needed: false;
    float32: Float32, all needed: true;
    unorm8: Unorm8, all needed: false;
    unorm16: Unorm16, all needed: false;
    snorm8: Snorm8, all needed: false;
    snorm16: Snorm16, all needed: false;
}

fn unorm1010102(context: &Context) -> Verdict {
    let rgba = plain_format(ChannelType::Unorm1010102, 4)?;
    both_ways(context, &[rgba, TexelFormat { order: ChannelOrder::Bgra, ..rgba }], false)
}

fn bgra8(context: &Context) -> Verdict {
    use ChannelType as T;
    let mut formats = Vec::new();
    for channel in [T::Unorm8, T::Snorm8, T::Uint8, T::Sint8] {
        formats.push(TexelFormat { order: ChannelOrder::Bgra, ..plain_format(channel, 4)? });
    }
    both_ways(context, &formats, false)
}

fn srgb8(context: &Context) -> Verdict {
    let mut formats = Vec::new();
    for channels in [1, 2, 4] {
        formats.push(TexelFormat { encoding: ColorEncoding::Srgb, ..plain_format(ChannelType::Unorm8, channels)? });
    }
    formats.push(TexelFormat { order: ChannelOrder::Bgra, ..formats[2] });
    both_ways(context, &formats, false)
}

fn not_arrays(_: &Context) -> Verdict {
    let formats = [
        (vk::Format::UNDEFINED, "no format"),
        (vk::Format::R5G6B5_UNORM_PACK16, "8 bits"),
        (vk::Format::R8G8B8_UNORM, "not 3"),
        (vk::Format::R16G16B16_SFLOAT, "not 3"),
        (vk::Format::R32G32B32_SFLOAT, "not 3"),
        (vk::Format::R64_UINT, "64 bits"),
        (vk::Format::B10G11R11_UFLOAT_PACK32, "packed floats"),
        (vk::Format::D16_UNORM, "depth"),
        (vk::Format::D24_UNORM_S8_UINT, "depth"),
        (vk::Format::D32_SFLOAT, "depth"),
        (vk::Format::S8_UINT, "stencil"),
        (vk::Format::BC1_RGB_UNORM_BLOCK, "compressed"),
        (vk::Format::BC7_SRGB_BLOCK, "compressed"),
        (vk::Format::ASTC_4X4_UNORM_BLOCK, "compressed"),
        (vk::Format::G8_B8R8_2PLANE_420_UNORM, "multi-planar"),
    ];
    for (format, reason) in formats {
        let name = format!("{format:?}");
        let text = expect_error(TexelFormat::from_vulkan(format), ErrorKind::Unsupported, &name)?.to_string();
        ensure!(text.contains(&name) && text.contains(reason), "the text lacks the format or `{reason}`: {text}");
    }
    Ok(())
}
