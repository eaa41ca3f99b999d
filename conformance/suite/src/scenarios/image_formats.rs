//! Images of every format, every byte in both directions.

use gpu_interop::vulkan::ash::vk;
use gpu_interop::vulkan::{ChannelOrder, ColorEncoding, TexelFormat};
use gpu_interop::{ArrayFormat, ArrayShape, ChannelType as T, ErrorKind};

use super::expect_error;
use crate::context::Context;
use crate::exporter::ImageSpec;
use crate::image::{SharedImage, for_each, plain_format};
use crate::outcome::{Stop, Verdict};
use crate::scenario::scenarios;
use crate::{ensure, request};

scenarios! {
    "image_format.uint8", Any, "Images of 1, 2 and 4 channels of 8-bit unsigned integers go both ways.",
        |context| plain(context, T::Uint8, true), needs [MappedMipmappedArray, exporter Images];
    "image_format.uint16", Any, "Images of 1, 2 and 4 channels of 16-bit unsigned integers go both ways.",
        |context| plain(context, T::Uint16, true), needs [MappedMipmappedArray, exporter Images];
    "image_format.uint32", Any, "Images of 1, 2 and 4 channels of 32-bit unsigned integers go both ways.",
        |context| plain(context, T::Uint32, true), needs [MappedMipmappedArray, exporter Images];
    "image_format.sint8", Any, "Images of 1, 2 and 4 channels of 8-bit signed integers go both ways.",
        |context| plain(context, T::Sint8, true), needs [MappedMipmappedArray, exporter Images];
    "image_format.sint16", Any, "Images of 1, 2 and 4 channels of 16-bit signed integers go both ways.",
        |context| plain(context, T::Sint16, true), needs [MappedMipmappedArray, exporter Images];
    "image_format.sint32", Any, "Images of 1, 2 and 4 channels of 32-bit signed integers go both ways.",
        |context| plain(context, T::Sint32, true), needs [MappedMipmappedArray, exporter Images];
    "image_format.float16", Any, "Images of 1, 2 and 4 channels of 16-bit floats go both ways, for the formats that both sides support.",
        |context| plain(context, T::Float16, false), needs [MappedMipmappedArray, exporter Images];
    "image_format.float32", Any, "Images of 1, 2 and 4 channels of 32-bit floats go both ways.",
        |context| plain(context, T::Float32, true), needs [MappedMipmappedArray, exporter Images];
    "image_format.unorm8", Any, "Images of 1, 2 and 4 channels of 8 bits from 0 to 1 go both ways, for the formats that both sides support.",
        |context| plain(context, T::Unorm8, false), needs [MappedMipmappedArray, exporter Images];
    "image_format.unorm16", Any, "Images of 1, 2 and 4 channels of 16 bits from 0 to 1 go both ways, for the formats that both sides support.",
        |context| plain(context, T::Unorm16, false), needs [MappedMipmappedArray, exporter Images];
    "image_format.snorm8", Any, "Images of 1, 2 and 4 channels of 8 bits from -1 to 1 go both ways, for the formats that both sides support.",
        |context| plain(context, T::Snorm8, false), needs [MappedMipmappedArray, exporter Images];
    "image_format.snorm16", Any, "Images of 1, 2 and 4 channels of 16 bits from -1 to 1 go both ways, for the formats that both sides support.",
        |context| plain(context, T::Snorm16, false), needs [MappedMipmappedArray, exporter Images];
    "image_format.unorm1010102", Any,
        "Images of 10, 10, 10 and 2 bits per texel go both ways, in the orders that both sides support.", unorm1010102,
        needs [MappedMipmappedArray, exporter Images];
    "image_format.bgra8", Any, "Images of four 8-bit channels in BGRA order go both ways, for the types that both sides \
         support.", bgra8, needs [MappedMipmappedArray, exporter Images];
    "image_format.srgb8", Any, "Images of 8-bit sRGB channels go both ways unconverted, for the formats that both sides \
         support.", srgb8, needs [MappedMipmappedArray, exporter Images];
    "image_format.one_word", Any,
        "Images of four 8-bit channels go both ways if the device maps one channel of 32 bits. With the exporter's description \
         in the request, the mapping is rejected.", one_word, needs [MappedMipmappedArray, exporter Images],
        mirrors("hip-tests: hipVulkanImageDataVerification_Positive_VulkanWrite_HIPRead, hipVulkanImageDataVerification_Positive_HIPWrite_VulkanRead");
    "image_format.not_arrays", None, "Formats without an array equivalent are typed errors with format and reason.",
        not_arrays, mirrors("intel/llvm: vulkan_interop/depth_format");
}

/// Odd extents, so that rows are not a power of two; the levels have both odd and even extents.
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

/// `all_needed` holds for the channel types of CUDA's guide, which every device maps with 1, 2 and 4 channels.
fn plain(context: &Context, channel: T, all_needed: bool) -> Verdict {
    let formats = [1, 2, 4].into_iter().map(|channels| plain_format(channel, channels)).collect::<Verdict<Vec<_>>>()?;
    both_ways(context, &formats, all_needed)
}

fn unorm1010102(context: &Context) -> Verdict {
    let rgba = plain_format(T::Unorm1010102, 4)?;
    both_ways(context, &[rgba, TexelFormat { order: ChannelOrder::Bgra, ..rgba }], false)
}

fn bgra8(context: &Context) -> Verdict {
    let mut formats = Vec::new();
    for channel in [T::Unorm8, T::Snorm8, T::Uint8, T::Sint8] {
        formats.push(TexelFormat { order: ChannelOrder::Bgra, ..plain_format(channel, 4)? });
    }
    both_ways(context, &formats, false)
}

fn srgb8(context: &Context) -> Verdict {
    let mut formats = Vec::new();
    for channels in [1, 2, 4] {
        formats.push(TexelFormat { encoding: ColorEncoding::Srgb, ..plain_format(T::Unorm8, channels)? });
    }
    formats.push(TexelFormat { order: ChannelOrder::Bgra, ..formats[2] });
    both_ways(context, &formats, false)
}

fn one_word(context: &Context) -> Verdict {
    for channel in [T::Unorm8, T::Uint8] {
        let spec = ImageSpec { levels: LEVELS, ..ImageSpec::new(SHAPE, plain_format(channel, 4)?) };
        let exported = context.exporter()?.image(spec)?;
        let desc = exported.array_desc()?.with_format(ArrayFormat::new(T::Uint32, 1)?);
        let described = context.device().import_memory(exported.import_request()?)?;
        let error = expect_error(described.map_mipmapped_array(&desc), ErrorKind::InvalidArgument, "another format")?;
        ensure!(error.to_string().contains("the format differs"), "the error does not name the format: {error}");
        let memory = context.device().import_memory(request::without_image(exported.import_request()?))?;
        let array = memory.map_mipmapped_array(&desc).map_err(Stop::attempted)?;
        SharedImage { exported, array }.goes_both_ways(context)?;
    }
    Ok(())
}

fn not_arrays(_: &Context) -> Verdict {
    let formats = [
        (vk::Format::UNDEFINED, "not a format"),
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
