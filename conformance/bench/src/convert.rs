//! Rates of the conversion kernels on pictures of 3840x2160, and of 960x540 on a CPU, and of copies of the same bytes.
//!
//! Bytes are counted as the kernels must move them: each sample and texel once, read or written. `copy` reads and writes
//! pictures of both formats. On a GPU there are eight pictures, more than its caches hold, of incompressible data.
//!
//! The sources are never overwritten. At the end, every byte of one result of each direction is compared with the CPU
//! version's.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use gpu_interop::{MappedBuffer, Stream};
use gpu_interop_conformance::{Pattern, Verdict, ensure};
use gpu_interop_kernels::convert::{
    Conversion, Converter, Layout, Matrix, Plane, Range, RgbOrder, RgbPicture, Siting, YuvFormat, YuvPicture, cpu,
};

use super::machine::{Machine, Source};
use super::record::{Comparison, Quantity, Recorder};
use super::report::Limit;
use super::rounds::{Effort, Variant};

const RATE: Quantity = Quantity { suffix: "", unit: "GB/s" };
/// Of the rate of copies, which is that of the memory.
const LEAST: Limit = Limit::AtLeast(0.5);
const CONVERSION: Conversion = Conversion { matrix: Matrix::Bt709, range: Range::Limited, siting: Siting::Left };

pub(super) fn nv12(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    run(machine, recorder, name, YuvFormat::Nv12)
}

pub(super) fn p010(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    run(machine, recorder, name, YuvFormat::P010)
}

fn run(machine: &Machine, recorder: &mut Recorder, name: &str, format: YuvFormat) -> Verdict {
    let (extent, count) = if machine.is_gpu() { ([3840, 2160], 8) } else { ([960, 540], 1) };
    let sizes = Sizes::of(format, extent);
    let one = sizes.both();
    let source = Source::dedicated(machine, count * 2 * one, 0)?;
    let memory = &machine.device.import_memory(source.request()?)?.map_buffer(..)?;
    let stream = &machine.stream;
    let pictures = &Pictures { memory, stream, converter: Converter::load(&machine.device)?, sizes, count };
    let data = Pattern::new(1).bytes(0, usize::try_from(one)?);
    for number in 0..count {
        stream.write(memory.slice(pictures.start(number)..pictures.results(number))?, &data)?;
    }
    let time = |conversions: u64, run: &dyn Fn(u64) -> Verdict| -> Verdict<Duration> {
        let start = Instant::now();
        (0..conversions).try_for_each(|number| run(number % count))?;
        stream.synchronize()?;
        Ok(start.elapsed())
    };
    let to_rgba = |number| pictures.to_rgba(number);
    time(1, &to_rgba)?;
    // All pictures four times on a GPU, and one on an emulated one.
    let conversions = if time(1, &to_rgba)? < Duration::from_millis(5) { 4 * count } else { 1 };
    let rate = |bytes: u64, run: &dyn Fn(u64) -> Verdict| -> Verdict<f64> {
        Ok((bytes * conversions) as f64 / time(conversions, run)?.as_secs_f64() / 1e9)
    };
    let mut variants = [
        Variant::of_one("to_rgba", || rate(one, &to_rgba)),
        Variant::of_one("to_yuv", || rate(one, &|number| pictures.to_yuv(number))),
        Variant::of_one("copy", || rate(2 * one, &|number| pictures.copy(number))),
    ];
    let limited = |over| {
        let comparison = Comparison::new(0, over, "copy");
        if machine.is_judged() { comparison.limit(LEAST) } else { comparison }
    };
    let effort = Effort { least: 5, most: 300, ..Effort::within(Duration::from_secs(2)) };
    recorder.measure(name, effort, &[RATE], &mut variants, &[limited("to_rgba"), limited("to_yuv")])?;
    pictures.check(&data)
}

/// The layout of a picture without padding, and bytes of luma, of luma and chroma, and of RGBA.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    layout: Layout,
    luma: u64,
    yuv: u64,
    rgba: u64,
}

impl Sizes {
    fn of(yuv: YuvFormat, extent: [u32; 2]) -> Self {
        let row = extent[0] * yuv.sample_size();
        let layout = Layout { extent, yuv, rgb: RgbOrder::Rgba, pitches: [row, row, 4 * extent[0]] };
        let [luma, _, rgba] = layout.pitches.map(|pitch| u64::from(pitch) * u64::from(extent[1]));
        Self { layout, luma, yuv: luma + luma / 2, rgba }
    }

    /// A picture in both formats.
    fn both(self) -> u64 {
        self.yuv + self.rgba
    }
}

/// Pictures in one mapping: luma and chroma, RGBA, and the same of the results.
struct Pictures<'a> {
    memory: &'a MappedBuffer,
    stream: &'a Stream,
    converter: Converter,
    sizes: Sizes,
    count: u64,
}

impl Pictures<'_> {
    fn start(&self, number: u64) -> u64 {
        number * 2 * self.sizes.both()
    }

    fn results(&self, number: u64) -> u64 {
        self.start(number) + self.sizes.both()
    }

    fn plane(&self, range: std::ops::Range<u64>, index: usize) -> Verdict<Plane<'_>> {
        Ok(Plane::new(self.memory.slice(range)?, self.sizes.layout.pitches[index].into()))
    }

    fn yuv(&self, start: u64) -> Verdict<YuvPicture<'_>> {
        let chroma = start + self.sizes.luma;
        let (luma, chroma) = (self.plane(start..chroma, 0)?, self.plane(chroma..start + self.sizes.yuv, 1)?);
        Ok(YuvPicture { format: self.sizes.layout.yuv, luma, chroma })
    }

    fn rgb(&self, start: u64) -> Verdict<RgbPicture<'_>> {
        let texels = self.plane(start + self.sizes.yuv..start + self.sizes.both(), 2)?;
        Ok(RgbPicture { order: self.sizes.layout.rgb, texels })
    }

    fn to_rgba(&self, number: u64) -> Verdict {
        let (source, target) = (self.yuv(self.start(number))?, self.rgb(self.results(number))?);
        Ok(self.converter.yuv_to_rgba(self.stream, &CONVERSION, self.sizes.layout.extent, &source, &target)?)
    }

    fn to_yuv(&self, number: u64) -> Verdict {
        let (source, target) = (self.rgb(self.start(number))?, self.yuv(self.results(number))?);
        Ok(self.converter.rgba_to_yuv(self.stream, &CONVERSION, self.sizes.layout.extent, &source, &target)?)
    }

    fn copy(&self, number: u64) -> Verdict {
        let (start, results) = (self.start(number), self.results(number));
        let target = self.memory.slice(results..results + self.sizes.both())?;
        Ok(self.stream.copy(target, self.memory.slice(start..results)?)?)
    }

    /// Converts the last pictures again, and compares every byte.
    fn check(&self, data: &[u8]) -> Verdict {
        let last = self.count - 1;
        self.to_rgba(last)?;
        self.to_yuv(last)?;
        let mut found = vec![0; data.len()];
        let results = self.results(last);
        self.stream.read(self.memory.slice(results..results + found.len() as u64)?, &mut found)?;
        let layout = &self.sizes.layout;
        let atomic = || data.iter().copied().map(AtomicU8::new).collect::<Vec<_>>();
        let (source, target) = (atomic(), atomic());
        let (luma, yuv) = (usize::try_from(self.sizes.luma)?, usize::try_from(self.sizes.yuv)?);
        let ([from_luma, to_luma], [from_chroma, to_chroma], [from_rgba, to_rgba]) = (
            [&source, &target].map(|bytes| &bytes[..luma]),
            [&source, &target].map(|bytes| &bytes[luma..yuv]),
            [&source, &target].map(|bytes| &bytes[yuv..]),
        );
        cpu::yuv_to_rgba([from_luma, from_chroma, to_rgba], &CONVERSION.yuv_to_rgba_numbers(layout));
        cpu::rgba_to_yuv([to_luma, to_chroma, from_rgba], &CONVERSION.rgba_to_yuv_numbers(layout));
        let differing =
            found.iter().zip(&target).filter(|(found, byte)| **found != byte.load(Ordering::Relaxed)).count();
        ensure!(differing == 0, "{differing} bytes differ from the CPU versions' results");
        Ok(())
    }
}
