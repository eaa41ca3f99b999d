//! An RGBA8 frame that graphics draws, compute reads and writes, and graphics composes: by wgpu and by Vulkan.
//!
//! Graphics copies a picture to the frame, two kernels verify all of its texels and write new ones, and graphics copies
//! the frame to a buffer. All pictures differ, and the texels that come back are verified, too. The variants:
//! * `wgpu`: the adapter `gpu-interop-wgpu`, with a `SharedTexture` of the device's preferred tiling, and the
//!   application's commands in the submissions of the hand-over;
//! * `ash`: Vulkan with this project's exporter, with an image of the same tiling and a timeline in each direction;
//! * `fence`: as `ash` with full synchronisation, as other libraries do it: the host waits for Vulkan, and then for the
//!   stream;
//! * `readback`: wgpu without interop. The frame is copied to a mapped buffer, from there to the device, back to the
//!   host, and by `Queue::write_texture` to the frame.
//!
//! The frame itself is measured from the first submission to the end of the last, alone, and as the time for each of
//! 30 frames of which three are in flight.
//!
//! Needs the feature `wgpu`.

mod vulkan;
mod wgpu;

use std::cell::Cell;
use std::time::{Duration, Instant};

use gpu_interop::{BufferSlice, ExportableMemory, Feature, MappedMipmappedArray, Stream};
use gpu_interop_conformance::{Pattern, Stop, Verdict, ensure, ensure_eq};
use gpu_interop_kernels::{FILL_PATTERN, SURFACE_FILL, SURFACE_VERIFY, VERIFY_PATTERN};

use self::vulkan::{Order, Vulkan};
use self::wgpu::{Readback, Shared, WgpuSide};
use crate::machine::{Machine, too_much};
use crate::record::{Comparison, PEER, Recorder, TIME};
use crate::report::Limit;
use crate::rounds::{Effort, Variant};
use crate::sys::TexelKernels;

/// Limit of wgpu's cost relative to Vulkan.
const OVERHEAD: Limit = Limit::AtMost(1.05);
/// Limit of the gain over a copy through the host.
const GAIN: Limit = Limit::AtLeast(5.0);

pub(super) fn frame_720p(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    run(machine, recorder, name, [1280, 720], false)
}

pub(super) fn frame_4k(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    run(machine, recorder, name, [3840, 2160], true)
}

/// Frames of `size` texels. `has_limits` is for GPUs only: on a CPU all variants copy in the same memory.
fn run(machine: &Machine, recorder: &mut Recorder, name: &str, size: [u32; 2], has_limits: bool) -> Verdict {
    let context = machine.graphics_queue()?;
    let side = WgpuSide::new(context, &machine.device, size)?;
    let shared = Frames::new(Shared::new(machine, &side)?, size)?;
    let vulkan = |order| Frames::new(Vulkan::new(machine, context, size, order)?, size);
    let (vulkan, fence) = (vulkan(Order::Timelines)?, vulkan(Order::Host)?);
    let readback = Frames::new(Readback::new(machine, &side)?, size)?;
    let limit = |limit| Some(limit).filter(|_| has_limits && machine.is_judged());
    let comparisons = [
        Comparison { limit: limit(OVERHEAD), ..Comparison::new(0, "wgpu", "ash") },
        Comparison { limit: limit(PEER), ..Comparison::new(0, "wgpu", "fence") },
        Comparison { limit: limit(GAIN), ..Comparison::new(0, "readback", "wgpu") },
    ];
    let mut alone = variants(&shared, [&vulkan, &fence], &readback, 1);
    let effort = Effort { most: 400, ..Effort::within(Duration::from_millis(2000)) };
    recorder.measure(name, effort, &[TIME], &mut alone, &comparisons)?;
    let mut in_flight = variants(&shared, [&vulkan, &fence], &readback, BATCH);
    let effort = Effort { warm_up: 2, least: 9, budget: Duration::from_secs(3), ..Effort::exactly(100) };
    recorder.measure(&format!("{name}.in_flight"), effort, &[TIME], &mut in_flight, &comparisons)
}

/// Every variant, with this number of frames in a round.
fn variants<'a>(
    shared: &'a Frames<impl FrameVariant>,
    [vulkan, fence]: [&'a Frames<Vulkan<'a>>; 2],
    readback: &'a Frames<impl FrameVariant>,
    frames: u32,
) -> [Variant<'a>; 4] {
    [
        Variant::of_one("wgpu", move || shared.round(frames)),
        Variant::of_one("ash", move || vulkan.round(frames)),
        Variant::of_one("fence", move || fence.round(frames)),
        Variant::of_one("readback", move || readback.round(frames)),
    ]
}

/// Frames in flight, each with its own texture.
const IN_FLIGHT: u32 = 3;
/// Frames in a round with several in flight.
const BATCH: u32 = 30;
/// Size in bytes of the first and of the last part of a frame that are verified after each round.
const PART: u64 = 4096;
/// Both parts of all frames of a round.
const PARTS: u64 = BATCH as u64 * 2 * PART;
/// The number of pictures that graphics draws in turn.
const PICTURES: u32 = 4;

/// The offset of the parts of a frame, bytes.
fn parts_offset(number: u32) -> u64 {
    u64::from(number % BATCH) * 2 * PART
}

/// The seed of the picture that graphics draws.
fn drawn(number: u32) -> u32 {
    number % PICTURES
}

/// The seed of the texels that compute writes.
fn answered(number: u32) -> u32 {
    PICTURES + number
}

/// A number of bytes for a slice, which is never that long on a host that cannot count it.
fn length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The texture of a frame.
fn slot(number: u32) -> usize {
    (number % IN_FLIGHT) as usize
}

/// Composed frames of graphics.
trait Composer {
    /// Blocks until the frame has been composed.
    fn wait(&self, number: u32) -> Verdict;

    /// The parts of the latest frames.
    fn parts(&self) -> Verdict<Vec<u8>>;

    /// All of the last composed frame.
    fn composed(&self) -> Verdict<Vec<u8>>;
}

/// A variant. Frames have increasing numbers.
trait FrameVariant {
    /// Draws a frame, and enqueues or submits everything that need not wait for graphics.
    fn begin(&self, number: u32) -> Verdict;

    /// Lets graphics compose the frame and copy its two parts to [`parts_offset`].
    fn finish(&self, number: u32) -> Verdict;

    /// The graphics side, which composes frames.
    fn composer(&self) -> &dyn Composer;

    fn texels(&self) -> &Texels<'_>;
}

/// The frames of a variant.
struct Frames<V> {
    variant: V,
    /// The number of the last frame.
    last: Cell<u32>,
}

impl<V: FrameVariant> Frames<V> {
    /// Verifies every texel of a few frames, and that the verification detects wrong ones.
    fn new(variant: V, [width, height]: [u32; 2]) -> Verdict<Self> {
        let frames = Self { variant, last: Cell::new(0) };
        for _ in 0..PICTURES {
            frames.round(1)?;
            let composed = frames.variant.composer().composed()?;
            Pattern::new(answered(frames.last.get())).verify(0, &composed, "a composed frame")?;
        }
        frames.variant.texels().expect_another_picture(true);
        let checked = frames.round(1);
        let found = frames.variant.texels().take_mismatches()?;
        ensure!(checked.is_err(), "the verification accepts another picture");
        ensure_eq!(found, width * height, "texels that differ from those of another picture");
        frames.variant.texels().expect_another_picture(false);
        Ok(frames)
    }

    /// The time of a frame in nanoseconds, with several in flight if there are several, and verified.
    fn round(&self, count: u32) -> Verdict<f64> {
        let first = self.last.get() + 1;
        let end = first + count;
        self.last.set(end - 1);
        let start = Instant::now();
        for number in first..end {
            if let Some(before) = number.checked_sub(IN_FLIGHT).filter(|before| *before >= first) {
                self.variant.composer().wait(before)?;
            }
            self.variant.begin(number)?;
            // Graphics composes a frame after it has drawn the next ones: a queue that waits draws nothing.
            if let Some(before) = number.checked_sub(IN_FLIGHT - 1).filter(|before| *before >= first) {
                self.variant.finish(before)?;
            }
        }
        for number in first.max(end.saturating_sub(IN_FLIGHT - 1))..end {
            self.variant.finish(number)?;
        }
        self.variant.composer().wait(end - 1)?;
        let elapsed = start.elapsed();
        self.check(first..end)?;
        Ok(elapsed.as_secs_f64() * 1e9 / f64::from(count))
    }

    fn check(&self, numbers: std::ops::Range<u32>) -> Verdict {
        ensure_eq!(self.variant.texels().mismatches()?, 0, "texels that differ from what graphics drew");
        let parts = self.variant.composer().parts()?;
        let part_of = |number: u32, index: u64| {
            let start = length(parts_offset(number) + index * PART);
            parts.get(start..).and_then(|rest| rest.get(..length(PART))).unwrap_or_default()
        };
        let size = self.variant.texels().size();
        for number in numbers {
            let pattern = Pattern::new(answered(number));
            for (index, offset) in [(0, 0), (1, size - PART)] {
                let part = part_of(number, index);
                ensure_eq!(part.len() as u64, PART, "bytes of a part");
                pattern.verify(offset, part, "what came back from compute")?;
            }
        }
        Ok(())
    }
}

/// A frame in compute.
#[derive(Clone, Copy)]
enum Mapping<'a> {
    Array(&'a MappedMipmappedArray),
    /// From the first texel, with the distance between rows in bytes.
    Linear(BufferSlice<'a>, u64),
}

/// The kernels, and the counter of wrong texels.
struct Texels<'a> {
    stream: &'a Stream,
    kernels: TexelKernels<'a>,
    size: [u32; 2],
    /// The device's own memory: for copies of arrays without kernels for surfaces, and without interop.
    own: ExportableMemory,
    expects_another: Cell<bool>,
}

impl<'a> Texels<'a> {
    /// `arrays` are those of the frames, if they are arrays.
    fn new(machine: &'a Machine, size: [u32; 2], arrays: &[&MappedMipmappedArray]) -> Verdict<Self> {
        let device = &machine.device;
        let module = device.load_module(machine.under_test.kernels(device)?)?;
        let linear = [module.kernel(VERIFY_PATTERN.name)?, module.kernel(FILL_PATTERN.name)?];
        let of_surfaces = if device.capabilities().feature(Feature::Surfaces).is_supported() && !arrays.is_empty() {
            let surfaces = arrays.iter().map(|array| array.surface(0)).collect::<gpu_interop::Result<_>>()?;
            Some(([module.kernel(SURFACE_VERIFY.name)?, module.kernel(SURFACE_FILL.name)?], surfaces))
        } else {
            None
        };
        let counter = device.allocate_exportable(4096).map_err(too_much)?;
        machine.stream.fill_u32(counter.slice(..)?, 0)?;
        let kernels = TexelKernels::new(&machine.stream, linear, of_surfaces, counter)?;
        let bytes = u64::from(size[0]) * u64::from(size[1]) * 4;
        let own = device.allocate_exportable(bytes).map_err(too_much)?;
        Ok(Self { stream: &machine.stream, kernels, size, own, expects_another: Cell::new(false) })
    }

    /// Enqueues the work on a frame.
    fn work(&self, number: u32, mapping: Mapping<'_>) -> Verdict {
        let another = u32::from(self.expects_another.get());
        let seeds = [(drawn(number) + another) % PICTURES, answered(number)];
        let stream = self.stream;
        match mapping {
            Mapping::Array(_) if self.kernels.has_surfaces() => self.kernels.on_surface(slot(number), self.size, seeds),
            Mapping::Array(array) => {
                stream.copy_from_array(self.own()?, array.level(0)?)?;
                self.kernels.on_buffer(self.own()?, seeds)?;
                Ok(stream.copy_to_array(array.level(0)?, self.own()?)?)
            }
            Mapping::Linear(texels, pitch) => {
                if pitch != u64::from(self.size[0]) * 4 {
                    return Err(Stop::unsupported(format!("rows of {} texels have gaps: {pitch} bytes", self.size[0])));
                }
                ensure!(texels.size() >= self.size(), "the mapping is smaller than the frame");
                self.kernels.on_buffer(texels.slice(..self.size())?, seeds)
            }
        }
    }

    /// The device's own memory for a frame.
    fn own(&self) -> Verdict<BufferSlice<'_>> {
        Ok(self.own.slice(..self.size())?)
    }

    /// Bytes of a frame.
    fn size(&self) -> u64 {
        u64::from(self.size[0]) * u64::from(self.size[1]) * 4
    }

    /// Makes the kernels expect a wrong picture, to verify that they detect it.
    fn expect_another_picture(&self, another: bool) {
        self.expects_another.set(another);
    }

    /// The number of wrong texels so far.
    fn mismatches(&self) -> Verdict<u32> {
        let mut word = [0; 4];
        self.stream.read(self.kernels.counter()?, &mut word)?;
        Ok(u32::from_ne_bytes(word))
    }

    /// The same, and starts from 0 again.
    fn take_mismatches(&self) -> Verdict<u32> {
        let found = self.mismatches()?;
        self.stream.fill_u32(self.kernels.counter()?, 0)?;
        Ok(found)
    }
}
