//! Property tests of buffers and images.

use gpu_interop::{
    ArrayShape, ArrayUsage, BufferSlice, ChannelType, ErrorKind, ExternalMemory, Feature, MappedBuffer,
    MipmappedArrayDesc, Stream,
};
use proptest::collection::vec;
use proptest::prelude::*;

use super::super::expect_error;
use super::super::image_linear::LinearImage;
use super::check;
use crate::context::Context;
use crate::exporter::{ImageSpec, Tiling};
use crate::image::{SharedImage, plain_format};
use crate::outcome::{Stop, Verdict};
use crate::pattern::{Pattern, compare};
use crate::scenario::scenarios;
use crate::{ensure, ensure_eq, request};

scenarios! {
    "property.slices", Any,
        "Random slices, fills, copies, writes and reads leave the memory equal to a model; ranges past the end are rejected.",
        slices;
    "property.images", Any,
        "Images of random shape, extent, format, usage and offset go both ways, where both sides support them; random \
         malformed descriptions are typed errors or harmless.",
        images, needs [MappedBuffer, exporter Images];
}

const SIZE: u64 = 10_007;

/// A slice of a slice, by offset and length.
#[derive(Debug, Clone, Copy)]
struct Part {
    within: u64,
    start: u64,
    length: u64,
}

#[derive(Debug, Clone)]
enum Step {
    Fill(Part, u8),
    FillWords(Part, u32),
    /// Copies to the first range from the second, as many bytes as the second has.
    Copy(Part, Part),
    Write(Part),
    Read(Part),
}

fn part() -> impl Strategy<Value = Part> {
    let start = prop_oneof![9 => 0..SIZE, 1 => SIZE..SIZE + 8, 1 => any::<u64>()];
    let words = (0..SIZE / 16).prop_map(|words| words * 4);
    let length = prop_oneof![4 => 1..64_u64, 4 => 0..SIZE / 4, 2 => words, 1 => any::<u64>()];
    (0..96_u64, start, length).prop_map(|(within, start, length)| Part { within, start, length })
}

fn step() -> impl Strategy<Value = Step> {
    // At word boundaries, or adjacent to them.
    let words = (0..8_u64, 0..SIZE / 4, 1..SIZE / 8, prop_oneof![3 => Just(0_u64), 1 => 1..4_u64]);
    let words =
        words.prop_map(|(within, start, count, off)| Part { within, start: start * 4 + off, length: count * 4 });
    prop_oneof![
        (part(), any::<u8>()).prop_map(|(part, value)| Step::Fill(part, value)),
        (prop_oneof![words, part()], any::<u32>()).prop_map(|(part, value)| Step::FillWords(part, value)),
        (part(), part()).prop_map(|(target, source)| Step::Copy(Part { length: source.length, ..target }, source)),
        part().prop_map(Step::Write),
        part().prop_map(Step::Read),
    ]
}

fn slices(context: &Context) -> Verdict {
    /// The mapping begins at an odd byte.
    const BEFORE: u64 = 13;
    let buffer = context.buffer(BEFORE + SIZE + 5)?;
    let memory = context.import_memory(&*buffer)?;
    let (mapped, stream) = (memory.map_buffer(BEFORE..BEFORE + SIZE)?, context.stream()?);
    check(context, "property.slices", 48, &vec(step(), 1..12), |steps| {
        let mut model = context.pattern().bytes(0, usize::try_from(buffer.size())?);
        buffer.write(0, &model)?;
        let (start, end) = (usize::try_from(BEFORE)?, usize::try_from(BEFORE + SIZE)?);
        for (number, step) in (1..).zip(steps) {
            let written = Pattern::new(context.pattern().seed().wrapping_add(number));
            apply(&stream, &mapped, step, &mut model[start..end], written)?;
        }
        stream.synchronize()?;
        let mut found = vec![0; model.len()];
        buffer.read(0, &mut found)?;
        compare(&found, &model, "the whole memory")
    })
}

impl Part {
    /// The range in the memory; `None` if it is outside.
    fn range(self) -> Option<std::ops::Range<usize>> {
        let start = self.within.checked_add(self.start)?;
        let end = start.checked_add(self.length)?;
        (self.length > 0 && end <= SIZE).then(|| Some(usize::try_from(start).ok()?..usize::try_from(end).ok()?))?
    }

    fn of(self, mapped: &MappedBuffer) -> gpu_interop::Result<BufferSlice<'_>> {
        mapped.slice(self.within..)?.slice(self.start..self.start.saturating_add(self.length))
    }
}

/// Runs one step on the device and on the model. Both must reject the same steps.
fn apply(stream: &Stream, mapped: &MappedBuffer, step: &Step, model: &mut [u8], written: Pattern) -> Verdict {
    let aligned = |part: &Part| {
        let address = mapped.as_raw().get().wrapping_add(part.within).wrapping_add(part.start);
        address.is_multiple_of(4) && part.length.is_multiple_of(4)
    };
    match step {
        Step::Fill(part, value) => {
            let done = part.of(mapped).and_then(|slice| stream.fill(slice, *value));
            if let Some(range) = agreed(done, part.range(), step)? {
                model[range].fill(*value);
            }
        }
        Step::FillWords(part, value) => {
            let done = part.of(mapped).and_then(|slice| stream.fill_u32(slice, *value));
            if let Some(range) = agreed(done, part.range().filter(|_| aligned(part)), step)? {
                for word in model[range].chunks_exact_mut(4) {
                    word.copy_from_slice(&value.to_ne_bytes());
                }
            }
        }
        Step::Copy(target, source) => {
            let done = target.of(mapped).and_then(|target| stream.copy(target, source.of(mapped)?));
            let apart = |target: &std::ops::Range<usize>, source: &std::ops::Range<usize>| {
                target.end <= source.start || source.end <= target.start
            };
            let both = target.range().zip(source.range()).filter(|(target, source)| apart(target, source));
            if let Some((target, source)) = agreed(done, both, step)? {
                model.copy_within(source, target.start);
            }
        }
        Step::Write(part) => {
            let data = part.range().map(|range| written.bytes(0, range.len())).unwrap_or_default();
            let done = part.of(mapped).and_then(|slice| stream.write(slice, &data));
            if let Some(range) = agreed(done, part.range(), step)? {
                model[range].copy_from_slice(&data);
            }
        }
        Step::Read(part) => {
            let mut found = vec![0; part.range().map_or(0, |range| range.len())];
            let done = part.of(mapped).and_then(|slice| stream.read(slice, &mut found));
            if let Some(range) = agreed(done, part.range(), step)? {
                compare(&found, &model[range], format_args!("the data of {step:?}"))?;
            }
        }
    }
    Ok(())
}

/// The model's range if both accept the step, and `None` if both reject it.
fn agreed<T>(done: gpu_interop::Result<()>, possible: Option<T>, step: &Step) -> Verdict<Option<T>> {
    match (done, possible) {
        (Ok(()), Some(range)) => Ok(Some(range)),
        (Ok(()), None) => Err(Stop::failed(format!("{step:?} was accepted"))),
        (Err(error), Some(_)) => Err(Stop::failed(format!("{step:?} was rejected: {error}")).with_error(&error)),
        (Err(error), None) => {
            ensure_eq!(error.kind(), ErrorKind::InvalidArgument, "the error kind of {step:?}");
            Ok(None)
        }
    }
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
