//! Random images, and random malformed descriptions.

use gpu_interop::{ArrayShape, ArrayUsage, ChannelType, ErrorKind, ExternalMemory, Feature, MipmappedArrayDesc};
use proptest::collection::vec;
use proptest::prelude::*;

use super::super::expect_error;
use super::super::image_linear::LinearImage;
use super::check;
use crate::image::{SharedImage, plain_format};
use crate::scenario::scenarios;
use crate::{Context, ImageSpec, Tiling, Verdict, ensure, request};

scenarios! {
    "property.images", Any,
        "Images of random shape, extent, format, usage and offset go both ways, where both sides support them; random \
         malformed descriptions are typed errors or harmless.",
        images, needs [MappedBuffer, exporter Images];
}

#[derive(Debug, Clone)]
struct Request {
    shape: ArrayShape,
    channel: ChannelType,
    channels: u8,
    levels: u32,
    tiling: Tiling,
    usage: ArrayUsage,
    dedicated: bool,
    /// Bytes before the image, 0 for a dedicated allocation.
    offset: u64,
    wrong: Vec<Wrong>,
}

/// A change to a valid description.
#[derive(Debug, Clone, Copy)]
enum Wrong {
    Offset(u64),
    Levels(u32),
    LayoutLevels(u32),
    Shape(ArrayShape),
}

fn shape(most: u64) -> impl Strategy<Value = ArrayShape> {
    let (side, few) = (1..most, 1..(most / 8).max(3));
    prop_oneof![
        3 => (side.clone(), side.clone()).prop_map(|(width, height)| ArrayShape::D2 { width, height }),
        1 => side.clone().prop_map(|width| ArrayShape::D1 { width }),
        1 => (side.clone(), few.clone()).prop_map(|(width, layers)| ArrayShape::D1Layered { width, layers }),
        1 => (side.clone(), side.clone(), few.clone())
            .prop_map(|(width, height, layers)| ArrayShape::D2Layered { width, height, layers }),
        1 => (side.clone(), side.clone(), few)
            .prop_map(|(width, height, depth)| ArrayShape::D3 { width, height, depth }),
        1 => side.prop_map(|width| ArrayShape::Cube { width }),
    ]
}

fn wrong() -> impl Strategy<Value = Wrong> {
    let any_extent = (any::<u64>(), any::<u64>()).prop_map(|(width, height)| ArrayShape::D2 { width, height });
    prop_oneof![
        prop_oneof![0..100_000_u64, any::<u64>()].prop_map(Wrong::Offset),
        prop_oneof![0..30_u32, any::<u32>()].prop_map(Wrong::Levels),
        prop_oneof![0..30_u32, any::<u32>()].prop_map(Wrong::LayoutLevels),
        prop_oneof![shape(3000), any_extent].prop_map(Wrong::Shape),
    ]
}

fn requests(arrays: bool) -> impl Strategy<Value = Request> {
    let format = prop_oneof![
        Just((ChannelType::Uint8, 4)),
        Just((ChannelType::Unorm8, 4)),
        Just((ChannelType::Unorm8, 1)),
        Just((ChannelType::Uint8, 2)),
        Just((ChannelType::Sint16, 2)),
        Just((ChannelType::Uint32, 1)),
        Just((ChannelType::Float16, 4)),
        Just((ChannelType::Float32, 4)),
    ];
    let optimal = if arrays { 3 } else { 0 };
    let tiling = prop_oneof![1 => Just(Tiling::Linear), optimal => Just(Tiling::Optimal)];
    let usage = prop_oneof![
        2 => Just(ArrayUsage::empty()),
        1 => Just(ArrayUsage::SURFACE_LOAD_STORE),
        1 => Just(ArrayUsage::COLOR_ATTACHMENT),
    ];
    let place = prop_oneof![
        2 => Just((false, 0)),
        1 => Just((true, 0)),
        2 => (1..200_000_u64).prop_map(|offset| (false, offset)),
    ];
    (shape(48), format, 1..4_u32, tiling, usage, place, vec(wrong(), 0..4)).prop_map(
        |(shape, (channel, channels), levels, tiling, usage, (dedicated, offset), wrong)| Request {
            shape,
            channel,
            channels,
            levels: if tiling == Tiling::Linear { 1 } else { levels.min(shape.max_levels()) },
            tiling,
            usage,
            dedicated,
            offset,
            wrong,
        },
    )
}

fn images(context: &Context) -> Verdict {
    let arrays = context.device().capabilities().feature(Feature::MappedMipmappedArray).is_supported();
    check(context, "property.images", 24, &requests(arrays), |request| image(context, request))
}

fn image(context: &Context, request: &Request) -> Verdict {
    let spec = ImageSpec {
        levels: request.levels,
        tiling: request.tiling,
        usage: request.usage,
        dedicated: request.dedicated,
        offset: request.offset,
        ..ImageSpec::new(request.shape, plain_format(request.channel, request.channels)?)
    };
    if request.tiling == Tiling::Linear {
        return LinearImage::new(context, spec)?.goes_both_ways(context);
    }
    let image = SharedImage::new(context, spec)?;
    let right = image.array.desc();
    let described = context.device().import_memory(image.exported.import_request()?)?;
    let bare = context.device().import_memory(request::without_image(image.exported.import_request()?))?;
    for wrong in &request.wrong {
        let desc = changed(right, *wrong);
        let fits = desc.validate(bare.size()).is_ok();
        // Without the exporter's description, any image that fits the memory may be mapped.
        if let Err(error) = bare.map_mipmapped_array(&desc) {
            ensure!(error.code().is_some() || !fits, "rejected without a driver call: {error}");
            ensure!(error.code().is_none() || fits, "the driver was called for {desc:?}: {error}");
        }
        let same_layout = desc.with_layout_levels(right.layout_levels);
        if same_layout == *right && desc.driver_levels() == right.driver_levels() {
            described.map_mipmapped_array(&desc)?;
        } else {
            is_another(&described, &desc)?;
        }
    }
    // This description fits into any memory.
    is_another(&described, &right.with_usage(right.usage ^ ArrayUsage::COLOR_ATTACHMENT))?;
    image.goes_both_ways(context)
}

/// Fails unless an import that knows its image rejects the description, before the driver is called.
fn is_another(memory: &ExternalMemory, desc: &MipmappedArrayDesc) -> Verdict {
    let mapped = memory.map_mipmapped_array(desc);
    let error = expect_error(mapped, ErrorKind::InvalidArgument, "another image than the exporter's")?;
    ensure!(error.code().is_none(), "the driver was called for {desc:?}: {error}");
    Ok(())
}

fn changed(desc: &MipmappedArrayDesc, wrong: Wrong) -> MipmappedArrayDesc {
    match wrong {
        Wrong::Offset(offset) => desc.with_offset(offset),
        Wrong::Levels(levels) => desc.with_levels(levels),
        Wrong::LayoutLevels(levels) => desc.with_layout_levels(Some(levels)),
        Wrong::Shape(shape) => desc.with_shape(shape),
    }
}
