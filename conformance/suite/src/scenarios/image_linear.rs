//! Images of linear tiling, mapped as buffers with the exporter's row layout.

use gpu_interop::{ArrayShape, ChannelType, ErrorKind, MappedBuffer, PitchedTexels, Stream};

use super::expect_error;
use crate::context::Context;
use crate::exporter::{ExportedImage, ImageSpec, Placement, Tiling};
use crate::image::{SharedImage, both_ways, for_each, plain_format};
use crate::outcome::{Stop, Verdict};
use crate::pattern::{self, Pattern, compare};
use crate::scenario::scenarios;
use crate::{ensure, ensure_eq};

scenarios! {
    all need [MappedBuffer, exporter Images];
    "image_linear.read", Any, "The device finds every row of a linear image at its pitch.", read,
        mirrors("hip-tests: hipVulkanImageDataVerification_Positive_Linear_RoundTrip");
    "image_linear.write", Any, "The exporter finds every row that the device wrote to a linear image.", write,
        mirrors("hip-tests: hipVulkanImageDataVerification_Positive_Linear_RoundTrip");
    "image_linear.host_visible", Any, "A host-visible linear image goes both ways.", host_visible;
    "image_linear.compressible", Any, "Texels that GPUs compress go both ways, dedicated or not, and at an offset.",
        compressible;
    "image_linear.levels_and_layers", Any,
        "Linear images with levels, layers or slices go both ways, where the exporter supports them.", levels_and_layers;
    "image_linear.at_offset", Any,
        "A linear image at an offset of its memory goes both ways; the bytes before it stay.", at_offset;
    "image_linear.optimal_is_no_buffer", Any,
        "An image of optimal tiling is not mapped as a buffer; the bytes before it are, and a linear image is.", optimal_is_no_buffer;
    "image_linear.to_array", Any, "Texels go from a linear image to one of optimal tiling and back.", to_array,
        needs [MappedMipmappedArray];
}

const SHAPE: ArrayShape = ArrayShape::D2 { width: 67, height: 45 };
const FORMATS: [(ChannelType, u8); 4] =
    [(ChannelType::Unorm8, 4), (ChannelType::Unorm8, 1), (ChannelType::Float16, 2), (ChannelType::Float32, 4)];

/// A linear image, and its memory as mapped by the device.
pub(super) struct LinearImage {
    exported: Box<dyn ExportedImage>,
    mapped: MappedBuffer,
}

impl LinearImage {
    pub(super) fn new(context: &Context, spec: ImageSpec) -> Verdict<Self> {
        let exported = context.exporter()?.image(ImageSpec { tiling: Tiling::Linear, ..spec })?;
        let mapped = context.device().import_memory(exported.import_request()?)?.map_buffer(..)?;
        Ok(Self { exported, mapped })
    }

    fn device_sees(&self, stream: &Stream, pattern: Pattern, what: &str) -> Verdict {
        for (place, at, level) in self.exported.rows()? {
            let mut found = vec![0; usize::try_from(self.exported.spec().row_size(level))?];
            stream.read(self.mapped.slice(place..place + found.len() as u64)?, &mut found)?;
            let what = format!("{what}: the row at byte {place}, level {level} of {}", self.exported.spec());
            pattern.level(level).verify(at, &found, &what)?;
        }
        Ok(())
    }

    fn device_writes(&self, stream: &Stream, pattern: Pattern) -> Verdict {
        for (place, at, level) in self.exported.rows()? {
            let data = pattern.level(level).bytes(at, usize::try_from(self.exported.spec().row_size(level))?);
            stream.write(self.mapped.slice(place..place + data.len() as u64)?, &data)?;
        }
        Ok(())
    }

    pub(super) fn goes_both_ways(&self, context: &Context) -> Verdict {
        let device_sees = |stream: &Stream, pattern, what: &str| self.device_sees(stream, pattern, what);
        both_ways(context, &*self.exported, device_sees, |stream, pattern| self.device_writes(stream, pattern))
    }
}

fn for_images(context: &Context, check: impl Fn(LinearImage) -> Verdict) -> Verdict {
    let formats =
        FORMATS.iter().map(|(channel, channels)| plain_format(*channel, *channels)).collect::<Verdict<Vec<_>>>()?;
    for_each(
        |what| context.leave_out(what),
        &formats,
        false,
        |format| check(LinearImage::new(context, ImageSpec::new(SHAPE, format))?),
    )
}

fn read(context: &Context) -> Verdict {
    let stream = context.stream()?;
    for_images(context, |image| {
        for pattern in [context.pattern(), context.pattern().other()] {
            image.exported.write_all(pattern)?;
            image.device_sees(&stream, pattern, "the exporter's data")?;
        }
        Ok(())
    })
}

fn write(context: &Context) -> Verdict {
    let stream = context.stream()?;
    for_images(context, |image| {
        for pattern in [context.pattern(), context.pattern().other()] {
            image.device_writes(&stream, pattern)?;
            image.exported.verify_all(pattern, "the device's data")?;
        }
        Ok(())
    })
}

fn host_visible(context: &Context) -> Verdict {
    let spec = ImageSpec::new(SHAPE, plain_format(ChannelType::Unorm8, 4)?);
    LinearImage::new(context, ImageSpec { placement: Placement::HostVisible, ..spec })?.goes_both_ways(context)
}

/// A side that compresses the memory of its writes must not read the other side's data as compressed.
fn compressible(context: &Context) -> Verdict {
    let stream = context.stream()?;
    let spec = ImageSpec::new(ArrayShape::D2 { width: 256, height: 64 }, plain_format(ChannelType::Unorm8, 4)?);
    let variants = [
        spec,
        ImageSpec { dedicated: true, ..spec },
        ImageSpec { offset: 1 << 16, ..spec },
        ImageSpec { placement: Placement::HostVisible, ..spec },
    ];
    for_each(
        |what| context.leave_out(what),
        &variants,
        false,
        |spec| {
            let image = LinearImage::new(context, spec)?;
            let texels = usize::try_from(spec.layer_size(0))?;
            let form = format!("{spec}, dedicated: {}, offset {}, {:?}", spec.dedicated, spec.offset, spec.placement);
            for round in 0..4 {
                let [sent, returned] = [2 * round, 2 * round + 3].map(|round| pattern::compressible(round, texels));
                image.exported.write(0, 0, &sent)?;
                let mut found = vec![0; texels];
                for (place, at, _) in image.exported.rows()? {
                    let (at, size) = (usize::try_from(at)?, usize::try_from(spec.row_size(0))?);
                    let row = image.mapped.slice(place..place + size as u64)?;
                    stream.read(row, &mut found[at..at + size])?;
                    stream.write(row, &returned[at..at + size])?;
                }
                compare(&found, &sent, format_args!("round {round} of {form}: the exporter's texels"))?;
                image.exported.read(0, 0, &mut found)?;
                compare(&found, &returned, format_args!("round {round} of {form}: the device's texels"))?;
            }
            Ok(())
        },
    )
}

fn at_offset(context: &Context) -> Verdict {
    const BEFORE: u64 = 100_000;
    let stream = context.stream()?;
    for placement in [Placement::DeviceLocal, Placement::HostVisible] {
        let spec = ImageSpec::new(SHAPE, plain_format(ChannelType::Unorm8, 4)?);
        let image = LinearImage::new(context, ImageSpec { placement, offset: BEFORE, ..spec })?;
        let first = image.exported.row_layout(0, 0)?.offset;
        ensure!(first >= BEFORE, "the exporter reports the image at {first}");
        let (before, pattern) = (image.mapped.slice(..first)?, context.pattern().level(9));
        stream.write(before, &pattern.bytes(0, usize::try_from(first)?))?;
        image.goes_both_ways(context)?;
        let mut found = vec![0; usize::try_from(first)?];
        stream.read(before, &mut found)?;
        pattern.verify(0, &found, format_args!("the bytes before {}", image.exported.spec()))?;
    }
    Ok(())
}

/// Drivers may support none of these.
fn levels_and_layers(context: &Context) -> Verdict {
    let format = plain_format(ChannelType::Unorm8, 4)?;
    let image = |levels, shape| ImageSpec { levels, ..ImageSpec::new(shape, format) };
    let images = [
        image(SHAPE.max_levels(), SHAPE),
        image(1, ArrayShape::D2Layered { width: 37, height: 21, layers: 3 }),
        image(2, ArrayShape::D2Layered { width: 37, height: 21, layers: 3 }),
        image(1, ArrayShape::D3 { width: 37, height: 21, depth: 9 }),
        image(1, ArrayShape::D1 { width: 67 }),
        image(1, ArrayShape::D1Layered { width: 67, layers: 4 }),
    ];
    for_each(
        |what| context.leave_out(what),
        &images,
        false,
        |spec| LinearImage::new(context, spec)?.goes_both_ways(context),
    )
}

/// Rows read from an optimal image would be tiles, without an error of any driver.
fn optimal_is_no_buffer(context: &Context) -> Verdict {
    const BEFORE: u64 = 4096;
    let spec = ImageSpec::new(SHAPE, plain_format(ChannelType::Unorm8, 4)?);
    for offset in [0, BEFORE] {
        let optimal = context.exporter()?.image(ImageSpec { offset, ..spec })?;
        let request = optimal.import_request()?;
        let Some(start) = request.image().map(|image| image.offset) else {
            return Err(Stop::failed("the request lacks the image".into()));
        };
        let memory = context.device().import_memory(request)?;
        let size = memory.size();
        for range in [0..size, start..start + 1, size - 1..size] {
            let text =
                expect_error(memory.map_buffer(range), ErrorKind::InvalidArgument, "texels as a buffer")?.to_string();
            for remedy in ["linear tiling", "map_mipmapped_array", "copy"] {
                ensure!(text.contains(remedy), "the error does not name {remedy}: {text}");
            }
        }
        if start > 0 {
            let (stream, before, pattern) = (context.stream()?, memory.map_buffer(..start)?, context.pattern());
            stream.write(&before, &pattern.bytes(0, usize::try_from(start)?))?;
            pattern.verify(0, &context.read(&stream, &before)?, "the bytes before the image")?;
        }
        ensure_eq!(memory.map_image_bytes(..)?.size(), size, "the size of the image's bytes");
    }
    LinearImage::new(context, spec)?.goes_both_ways(context)
}

fn to_array(context: &Context) -> Verdict {
    let stream = context.stream()?;
    for_images(context, |linear| {
        let spec = *linear.exported.spec();
        let optimal = SharedImage::new(context, ImageSpec { tiling: Tiling::Optimal, ..spec })?;
        let layout = linear.exported.row_layout(0, 0)?;
        let texels = PitchedTexels::new(linear.mapped.slice(layout.offset..)?, layout.row_pitch, layout.rows);
        let (there, back) = (context.pattern(), context.pattern().other());
        linear.exported.write_all(there)?;
        stream.copy_to_array(optimal.array.level(0)?, texels)?;
        stream.synchronize()?;
        optimal.exported.verify_all(there, "the texels of the linear image")?;
        optimal.exported.write_all(back)?;
        stream.copy_from_array(texels, optimal.array.level(0)?)?;
        stream.synchronize()?;
        linear.exported.verify_all(back, "the texels of the optimal image")
    })
}
