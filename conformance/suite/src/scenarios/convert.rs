//! Conversions between RGBA and video pictures, compared with the CPU versions byte for byte.

use std::sync::atomic::{AtomicU8, Ordering};

use gpu_interop::vulkan::ash::vk;
use gpu_interop::vulkan::{ExportableVideo, VideoOptions, VideoSpec};
use gpu_interop::{MappedBuffer, Stream, VideoFormat};
use gpu_interop_kernels::convert::{
    Conversion, Converter, Layout, Matrix, Plane, Range, RgbOrder, RgbPicture, Siting, YuvFormat, YuvPicture, cpu,
    plane_sizes,
};

use super::expect_invalid;
use crate::context::Context;
use crate::ensure;
use crate::exporter::ExportedBuffer;
use crate::outcome::{Stop, Verdict};
use crate::pattern::compare;
use crate::scenario::scenarios;

scenarios! {
    all need [Kernels];
    "convert.nv12", Any,
        "NV12 to RGBA and back, and to BGRA, in every matrix, range and siting: each byte is the reference's.",
        |context| conversions(context, YuvFormat::Nv12);
    "convert.p010", Any,
        "P010 to RGBA and back, and to BGRA, in every matrix, range and siting: each byte is the reference's.",
        |context| conversions(context, YuvFormat::P010);
    "convert.sizes", Any,
        "Pictures of random sizes and pitches, odd ones too, are converted; the bytes between rows stay.", sizes;
    "convert.exported_picture", Any, "NV12 that the exporter wrote to its planes is converted where it is.",
        exported_picture, needs [MappedBuffer, exporter Images];
    "convert.misuse", Any, "Planes that do not fit are rejected by name; the stream converts afterwards.", misuse;
}

const ORDERS: [RgbOrder; 2] = [RgbOrder::Rgba, RgbOrder::Bgra];
/// Not a multiple of the blocks that a thread converts.
const SIZE: [u32; 2] = [198, 114];
const USUAL: Conversion = Conversion { matrix: Matrix::Bt709, range: Range::Limited, siting: Siting::Left };

fn every_conversion() -> impl Iterator<Item = Conversion> + Clone {
    [Matrix::Bt601, Matrix::Bt709, Matrix::Bt2020].into_iter().flat_map(|matrix| {
        [Range::Limited, Range::Full]
            .into_iter()
            .flat_map(move |range| [Siting::Left, Siting::Center].map(|siting| Conversion { matrix, range, siting }))
    })
}

fn converter(context: &Context) -> Verdict<Converter> {
    // SAFETY: a module of the backend under test, which has the kernels of `gpu-interop-kernels`.
    Ok(unsafe { Converter::from_module(&context.kernels()?) }?)
}

/// Rows without padding but for a multiple of 4 bytes.
fn layout(extent: [u32; 2], yuv: YuvFormat, rgb: RgbOrder) -> Layout {
    let (width, sample) = (extent[0], yuv.sample_size());
    let pitches = [width * sample, width.div_ceil(2) * 2 * sample, width * 4].map(|row| row.next_multiple_of(4));
    Layout { extent, yuv, rgb, pitches }
}

/// Luma, chroma and RGBA in memory of the exporter, each in an allocation of its own.
struct Pictures<'a> {
    context: &'a Context,
    layout: Layout,
    exported: Vec<Box<dyn ExportedBuffer>>,
    mapped: Vec<MappedBuffer>,
    sizes: [usize; 3],
}

impl<'a> Pictures<'a> {
    /// With the pattern in every plane, each with another part of it.
    fn new(context: &'a Context, layout: Layout) -> Verdict<Self> {
        let sizes = plane_sizes(&USUAL.yuv_to_rgba_numbers(&layout)).unwrap_or_default();
        let exported = sizes.iter().map(|size| context.buffer(*size)).collect::<Verdict<Vec<_>>>()?;
        let mapped = exported.iter().map(|buffer| context.import(&**buffer)).collect::<Verdict<_>>()?;
        let [luma, chroma, rgba] = sizes.map(usize::try_from);
        let pictures = Self { context, layout, exported, mapped, sizes: [luma?, chroma?, rgba?] };
        for (buffer, data) in pictures.exported.iter().zip(pictures.initial()?) {
            buffer.write(0, &data)?;
        }
        Ok(pictures)
    }

    fn initial(&self) -> Verdict<[Vec<u8>; 3]> {
        let mut level = 0;
        Ok(self.sizes.map(|size| {
            level += 1;
            self.context.pattern().level(level).bytes(0, size)
        }))
    }

    fn planes(&self) -> Verdict<(YuvPicture<'_>, RgbPicture<'_>)> {
        let plane = |index: usize| -> Verdict<Plane<'_>> {
            let slice = self.mapped[index].slice(..self.sizes[index] as u64)?;
            Ok(Plane::new(slice, self.layout.pitches[index].into()))
        };
        let yuv = YuvPicture { format: self.layout.yuv, luma: plane(0)?, chroma: plane(1)? };
        Ok((yuv, RgbPicture { order: self.layout.rgb, texels: plane(2)? }))
    }

    /// Converts the pattern to RGBA, and the result back. The exporter sees what the CPU versions write.
    fn convert(&self, converter: &Converter, stream: &Stream, conversion: &Conversion) -> Verdict {
        let (yuv, rgb) = self.planes()?;
        converter.yuv_to_rgba(stream, conversion, self.layout.extent, &yuv, &rgb)?;
        stream.synchronize()?;
        let mut expected = self.initial()?;
        convert_on_cpu(&mut expected, |planes| {
            cpu::yuv_to_rgba(planes, &conversion.yuv_to_rgba_numbers(&self.layout));
        });
        self.verify(&expected, &format!("to {:?}, {conversion:?}", self.layout.rgb))?;
        converter.rgba_to_yuv(stream, conversion, self.layout.extent, &rgb, &yuv)?;
        stream.synchronize()?;
        convert_on_cpu(&mut expected, |planes| {
            cpu::rgba_to_yuv(planes, &conversion.rgba_to_yuv_numbers(&self.layout));
        });
        self.verify(&expected, &format!("back to {:?}, {conversion:?}", self.layout.yuv))?;
        for (buffer, data) in self.exported.iter().zip(self.initial()?) {
            buffer.write(0, &data)?;
        }
        Ok(())
    }

    fn verify(&self, expected: &[Vec<u8>; 3], what: &str) -> Verdict {
        for ((buffer, expected), plane) in self.exported.iter().zip(expected).zip(["luma", "chroma", "RGBA"]) {
            let mut found = vec![0; expected.len()];
            buffer.read(0, &mut found)?;
            compare(&found, expected, format_args!("{plane} {what}, {:?}", self.layout))?;
        }
        Ok(())
    }
}

/// Runs a CPU version on luma, chroma and RGBA.
fn convert_on_cpu(planes: &mut [Vec<u8>; 3], run: impl FnOnce(cpu::Planes<'_>)) {
    let atomic = planes.each_ref().map(|plane| plane.iter().copied().map(AtomicU8::new).collect::<Vec<_>>());
    run(atomic.each_ref().map(Vec::as_slice));
    *planes = atomic.map(|plane| plane.iter().map(|byte| byte.load(Ordering::Relaxed)).collect());
}

fn conversions(context: &Context, yuv: YuvFormat) -> Verdict {
    let (converter, stream) = (converter(context)?, context.stream()?);
    for rgb in ORDERS {
        let pictures = Pictures::new(context, layout(SIZE, yuv, rgb))?;
        for conversion in every_conversion() {
            pictures.convert(&converter, &stream, &conversion)?;
        }
    }
    Ok(())
}

fn sizes(context: &Context) -> Verdict {
    let (converter, stream) = (converter(context)?, context.stream()?);
    // One texel, one block of a thread and a texel more or less, and one row or column.
    let fixed = [[1, 1], [2, 2], [3, 2], [4, 2], [5, 3], [64, 1], [1, 9]];
    let random = |at: u64| 1 + u32::from(context.pattern().byte(at));
    let all = fixed.into_iter().chain((0..6).map(|n| [random(2 * n), random(2 * n + 1).div_ceil(4)]));
    for ((index, extent), conversion) in (0..).zip(all).zip(every_conversion().cycle()) {
        for (yuv, rgb) in [(YuvFormat::Nv12, ORDERS[index % 2]), (YuvFormat::P010, ORDERS[(index + 1) % 2])] {
            // Padding of a block of a thread, or of a texel, with which the kernels access single samples.
            let padding = if index % 4 < 2 { 16 } else { 4 };
            let mut layout = layout(extent, yuv, rgb);
            layout.pitches = layout.pitches.map(|row| row.next_multiple_of(16) + padding);
            Pictures::new(context, layout)?.convert(&converter, &stream, &conversion)?;
        }
    }
    Ok(())
}

fn exported_picture(context: &Context) -> Verdict {
    let vulkan = context.exporter()?.vulkan();
    let vulkan = vulkan.ok_or_else(|| Stop::unsupported("the exporter is not Vulkan".into()))?;
    let usage = vk::ImageUsageFlags::TRANSFER_SRC | vk::ImageUsageFlags::TRANSFER_DST;
    let options = VideoOptions::new(VideoSpec::new(VideoFormat::Nv12, SIZE, usage));
    let video = ExportableVideo::new(vulkan.interop(), &options).map_err(Stop::attempted)?;
    let tight = layout(SIZE, YuvFormat::Nv12, RgbOrder::Bgra);
    let [width, height] = SIZE.map(|size| size as usize);
    let picture = [(1, width * height), (2, width * height / 2)]
        .map(|(level, size)| context.pattern().level(level).bytes(0, size));
    vulkan.run(|recording| recording.initialize_video(&video))?;
    vulkan.upload_video(&video, &picture)?;
    vulkan.release_video(&video)?;

    let planes = video.map(context.device())?;
    let target = context.buffer(u64::from(tight.pitches[2]) * u64::from(SIZE[1]))?;
    let mapped = context.import(&*target)?;
    let (converter, stream) = (converter(context)?, context.stream()?);
    let yuv = YuvPicture::of_planes(YuvFormat::Nv12, &planes)?;
    let rgb = RgbPicture { order: tight.rgb, texels: Plane::new(&mapped, tight.pitches[2].into()) };
    converter.yuv_to_rgba(&stream, &USUAL, SIZE, &yuv, &rgb)?;
    stream.synchronize()?;

    // Rows of the reference are padded to a multiple of 4 bytes.
    let [luma, chroma] = picture.map(|plane| {
        let padded = plane.chunks(width).flat_map(|row| {
            let mut row = row.to_vec();
            row.resize(tight.pitches[0] as usize, 0);
            row
        });
        padded.collect::<Vec<u8>>()
    });
    let mut expected = [luma, chroma, vec![0; width * height * 4]];
    convert_on_cpu(&mut expected, |planes| cpu::yuv_to_rgba(planes, &USUAL.yuv_to_rgba_numbers(&tight)));
    compare(&target.contents()?, &expected[2], "the converted picture")
}

fn misuse(context: &Context) -> Verdict {
    let (converter, stream) = (converter(context)?, context.stream()?);
    let pictures = Pictures::new(context, layout([64, 16], YuvFormat::P010, RgbOrder::Rgba))?;
    let (yuv, rgb) = pictures.planes()?;
    let both = |extent, yuv: &YuvPicture<'_>, rgb: &RgbPicture<'_>, plane: &str, what: &str| -> Verdict {
        for (direction, result) in [
            ("to RGBA", converter.yuv_to_rgba(&stream, &USUAL, extent, yuv, rgb)),
            ("from RGBA", converter.rgba_to_yuv(&stream, &USUAL, extent, rgb, yuv)),
        ] {
            let error = expect_invalid(result, &format!("{what}, {direction}"))?;
            ensure!(error.to_string().contains(plane), "{what}: the error does not name {plane}: {error}");
        }
        Ok(())
    };
    for extent in [[0, 16], [64, 0], [65_537, 1]] {
        both(extent, &yuv, &rgb, "width", "a size out of range")?;
    }
    both([64, 17], &yuv, &rgb, "plane: luma", "a row past the end")?;
    let slice = |plane: usize, start: u64| pictures.mapped[plane].slice(start..pictures.sizes[plane] as u64);
    let row = pictures.layout.pitches.map(u64::from);
    let chroma = |rows| YuvPicture { chroma: rows, ..yuv };
    let texels = |rows| RgbPicture { texels: rows, ..rgb };
    both([64, 16], &chroma(Plane::new(slice(1, 4)?, row[1])), &rgb, "plane: chroma", "a row past the end")?;
    both([64, 16], &chroma(Plane::new(slice(1, 0)?, row[1] - 4)), &rgb, "plane: chroma", "rows that overlap")?;
    both([32, 8], &chroma(Plane::new(slice(1, 2)?, row[1])), &rgb, "plane: chroma", "half a pair")?;
    both([64, 16], &yuv, &texels(Plane::new(slice(2, 0)?, row[2] + 4)), "plane: rgba", "a pitch past the end")?;
    both([32, 8], &yuv, &texels(Plane::new(slice(2, 0)?, row[2] + 2)), "plane: rgba", "half a texel")?;
    both([32, 8], &yuv, &texels(Plane::new(slice(2, 0)?, 1 << 32)), "plane: rgba", "a pitch of 4 GiB")?;
    pictures.convert(&converter, &stream, &USUAL)
}
