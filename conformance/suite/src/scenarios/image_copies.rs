//! Copies of boxes of texels, with every texel around them checked.

use gpu_interop::{ArrayShape, ChannelType, PitchedTexels, Stream};

use super::semaphore_misuse::import_timeline;
use super::{BRIEF, keeps_waiting};
use crate::context::Context;
use crate::ensure;
use crate::exporter::ImageSpec;
use crate::image::{SharedImage, Texels, plain_format};
use crate::outcome::{Verdict, WAIT_TIMEOUT};
use crate::pattern::{Pattern, compare};
use crate::scenario::scenarios;

scenarios! {
    all need [MappedMipmappedArray, exporter Images];
    "image_copy.region", Any, "Reads and writes of boxes of texels touch exactly those texels, in every shape.", region;
    "image_copy.between_images", Any, "The device copies a box to another image, and to another level.", between_images;
    "image_copy.pitched", Any,
        "Boxes of texels go to and from linear memory with gaps between rows and slices; the gaps stay.", pitched;
    "image_copy.20_frames", Any,
        "20 frames go from the exporter through the device and back, ordered by timeline semaphores.", frames,
        needs [shared timelines];
}

const SHAPES: [ArrayShape; 6] = [
    ArrayShape::D1 { width: 67 },
    ArrayShape::D1Layered { width: 67, layers: 5 },
    ArrayShape::D2 { width: 67, height: 45 },
    ArrayShape::D2Layered { width: 37, height: 21, layers: 5 },
    ArrayShape::D3 { width: 37, height: 21, depth: 9 },
    ArrayShape::Cube { width: 35 },
];

/// Origin and extent, texels.
type Box3 = ([usize; 3], [usize; 3]);

fn image(context: &Context, shape: ArrayShape, levels: u32) -> Verdict<SharedImage> {
    SharedImage::new(context, ImageSpec { levels, ..ImageSpec::new(shape, plain_format(ChannelType::Uint16, 2)?) })
}

fn extent(image: &SharedImage, level: u32) -> Verdict<[usize; 3]> {
    let [width, height, depth] = image.spec().shape.level_extent(level);
    Ok([usize::try_from(width)?, usize::try_from(height)?, usize::try_from(depth)?])
}

fn as_u64(texels: [usize; 3]) -> [u64; 3] {
    texels.map(|n| n as u64)
}

/// The texels of a level that holds the pattern.
fn level_texels(image: &SharedImage, level: u32, pattern: Pattern) -> Verdict<Texels> {
    let size = usize::try_from(image.spec().format.array.texel_size())?;
    let extent = extent(image, level)?;
    Texels::new(extent, size, pattern.level(level).bytes(0, extent.iter().product::<usize>() * size))
}

/// One in the middle, the first texel, the last one, and a whole row.
fn boxes(extent: [usize; 3]) -> [Box3; 4] {
    [
        (extent.map(|n| n / 4), extent.map(|n| (n / 2).max(1))),
        ([0; 3], [1; 3]),
        (extent.map(|n| n - 1), [1; 3]),
        ([0, extent[1] / 2, extent[2] / 2], [extent[0], 1, 1]),
    ]
}

fn box_bytes(image: &SharedImage, pattern: Pattern, extent: [usize; 3]) -> Verdict<Vec<u8>> {
    let size = usize::try_from(image.spec().format.array.texel_size())?;
    Ok(pattern.bytes(0, extent.iter().product::<usize>() * size))
}

fn region(context: &Context) -> Verdict {
    let stream = context.stream()?;
    let base = context.pattern();
    for shape in SHAPES {
        let image = image(context, shape, 2)?;
        for level in 0..2 {
            image.exported.write_all(base)?;
            let mut expected = level_texels(&image, level, base)?;
            let mut written = base.other();
            // The boxes overlap: each write must preserve the results of earlier ones outside its box.
            for (origin, size) in boxes(extent(&image, level)?) {
                let what = format!("{size:?} texels at {origin:?}, level {level} of {shape:?}");
                let part = image.array.level(level)?.region(as_u64(origin), as_u64(size))?;
                let data = box_bytes(&image, written, size)?;
                let mut found = vec![0; data.len()];
                stream.read_array(part, &mut found)?;
                compare(&found, &expected.part(origin, size), format_args!("read: {what}"))?;
                stream.write_array(part, &data)?;
                stream.read_array(part, &mut found)?;
                compare(&found, &data, format_args!("read after the write: {what}"))?;
                expected.put(origin, size, &data)?;
                compare(&image.exported.read_level(level)?, &expected.bytes, format_args!("written: {what}"))?;
                written = written.other();
            }
            image.exported.verify_level(1 - level, base, "the level that was not written")?;
        }
    }
    Ok(())
}

/// Copies texels of the source's level 0, which holds `from`, into a level of the target that holds `onto`, and
/// verifies it.
fn copy_texels(
    stream: &Stream,
    (source, origin, from): (&SharedImage, [usize; 3], Pattern),
    (target, level, place, onto): (&SharedImage, u32, [usize; 3], Pattern),
    what: &str,
) -> Verdict {
    let size = [11, 7, 3];
    stream.copy_array(
        target.array.level(level)?.region(as_u64(place), as_u64(size))?,
        source.array.level(0)?.region(as_u64(origin), as_u64(size))?,
    )?;
    stream.synchronize()?;
    let copied = level_texels(source, 0, from)?.part(origin, size);
    let mut expected = level_texels(target, level, onto)?;
    expected.put(place, size, &copied)?;
    compare(&target.exported.read_level(level)?, &expected.bytes, what)
}

fn between_images(context: &Context) -> Verdict {
    let stream = context.stream()?;
    let source = image(context, ArrayShape::D2Layered { width: 37, height: 21, layers: 5 }, 2)?;
    let (from, onto) = (context.pattern(), context.pattern().other());
    for shape in
        [ArrayShape::D2Layered { width: 53, height: 29, layers: 6 }, ArrayShape::D3 { width: 41, height: 23, depth: 9 }]
    {
        let target = image(context, shape, 2)?;
        source.exported.write_all(from)?;
        target.exported.write_all(onto)?;
        let place = (&target, 0, [20, 3, 2], onto);
        copy_texels(&stream, (&source, [5, 9, 1], from), place, &format!("the target, {shape:?}"))?;
        target.exported.verify_level(1, onto, "the target's other level")?;
        source.exported.verify_all(from, "the source")?;
    }
    // Within one image, from level 0 to level 1.
    let place = (&source, 1, [3, 2, 1], from);
    copy_texels(&stream, (&source, [20, 10, 2], from), place, "the level that was copied to")?;
    source.exported.verify_level(0, from, "the level that was copied from")
}

fn pitched(context: &Context) -> Verdict {
    /// The offset of the first row in linear memory, bytes.
    const START: usize = 272;
    let stream = context.stream()?;
    let (texels, gaps) = (context.pattern(), context.pattern().other());
    for shape in SHAPES {
        let image = image(context, shape, 2)?;
        let size = usize::try_from(image.spec().format.array.texel_size())?;
        for (origin, part) in boxes(extent(&image, 1)?) {
            let what = format!("{part:?} texels at {origin:?} of {shape:?}");
            image.exported.write_all(texels)?;
            let mut level = level_texels(&image, 1, texels)?;
            let region = image.array.level(1)?.region(as_u64(origin), as_u64(part))?;
            // Five texels per row and three rows per slice more than the box has.
            let spaced = [part[0] + 5, part[1] + 3, part[2]];
            let end = START + spaced.iter().product::<usize>() * size;
            let buffer = context.buffer(end as u64)?;
            buffer.put(gaps)?;
            let mapped = context.import(&*buffer)?;
            let (row_pitch, rows) = ((spaced[0] * size) as u64, spaced[1] as u64);
            let linear = PitchedTexels::new(mapped.slice(START as u64..)?, row_pitch, rows);

            stream.copy_from_array(linear, region)?;
            stream.synchronize()?;
            let mut memory = Texels::new(spaced, size, gaps.bytes(START as u64, end - START))?;
            memory.put([0; 3], part, &level.part(origin, part))?;
            let found = buffer.contents()?;
            gaps.verify(0, &found[..START], format_args!("the bytes before the linear memory, {what}"))?;
            compare(&found[START..], &memory.bytes, format_args!("linear memory, {what}"))?;

            let data = gaps.other().bytes(0, end);
            buffer.write(0, &data)?;
            stream.copy_to_array(region, linear)?;
            stream.synchronize()?;
            let memory = Texels::new(spaced, size, data[START..].to_vec())?;
            level.put(origin, part, &memory.part([0; 3], part))?;
            compare(&image.exported.read_level(1)?, &level.bytes, format_args!("the image, {what}"))?;
            image.exported.verify_level(0, texels, &format!("the other level, {what}"))?;
        }
    }
    Ok(())
}

fn frames(context: &Context) -> Verdict {
    let (ready, to_device) = import_timeline(context, 0)?;
    let (done, from_device) = import_timeline(context, 0)?;
    let shape = ArrayShape::D2 { width: 256, height: 144 };
    let (input, output) = (image(context, shape, 1)?, image(context, shape, 1)?);
    let stream = context.stream()?;
    let mut pattern = context.pattern();
    for frame in 1..=20 {
        // The device's half is enqueued before the exporter has written anything.
        stream.wait(&[to_device.wait_value(frame)])?;
        stream.copy_array(output.array.level(0)?, input.array.level(0)?)?;
        stream.signal(&[from_device.signal_value(frame)])?;
        keeps_waiting(&stream, BRIEF, format_args!("frame {frame}: the device did not wait"))?;
        input.exported.write_all(pattern)?;
        ready.signal(frame)?;
        ensure!(done.wait(frame, WAIT_TIMEOUT)?, "frame {frame} did not come back");
        output.exported.verify_all(pattern, &format!("frame {frame}"))?;
        pattern = pattern.other();
    }
    Ok(())
}
