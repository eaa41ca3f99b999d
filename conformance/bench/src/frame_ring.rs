//! Three frames in flight by a `FrameRing`, and the limit of their rate.
//!
//! Vulkan copies each frame from its own memory to the ring's, as in [`frame`](super::frame). The device copies it to its
//! own memory, and processes it: fills of scratch memory that take [`PROCESSING`] in total. The variants:
//! * `ring`: both, three frames in flight. The last word of each frame is verified;
//! * `limit`: the smaller of both sides' own rates, measured one after the other without the other side:
//!   Vulkan's halves alone, and the same work of the stream without a ring.
//!
//! A hand-over on a graphics queue includes two switches of the GPU's contexts, which take the same time for every frame.
//! The ratio therefore depends on the processing time. `.over_limit` does not: it is the time for which a frame exceeds
//! the limit's. `.interval` is the time from one frame of the ring to the next, in which irregular frames show.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use gpu_interop::vulkan::{
    BufferOptions, FrameRing, FrameRingOptions, HeadlessContext, MemoryPlacement, OwnedBuffer, Recording, Submission,
};
use gpu_interop::{BufferSlice, ExportableMemory, Stream};
use gpu_interop_conformance::Verdict;

use super::frame::Frame;
use super::in_flight::verify_words;
use super::machine::{Machine, TRANSFER, WAIT_TIMEOUT, too_much};
use super::record::{Comparison, Quantity, Recorder};
use super::report::Limit;
use super::rounds::{Effort, Variant};

const IN_FLIGHT: usize = 3;
/// Processing time of a frame on a GPU: 100 frames a second.
const PROCESSING: Duration = Duration::from_millis(10);
/// Scratch memory of a GPU, bytes: each fill takes longer than its launch.
const SCRATCH: u64 = 256 << 20;

const QUANTITIES: [Quantity; 4] = [
    Quantity { suffix: "", unit: "frames/s" },
    Quantity { suffix: ".vulkan_alone", unit: "frames/s" },
    Quantity { suffix: ".compute_alone", unit: "frames/s" },
    Quantity { suffix: ".over_limit", unit: "ns" },
];
const ENOUGH: Limit = Limit::AtLeast(0.95);

pub(super) fn graphics(machine: &Machine, recorder: &mut Recorder, name: &str, frame: Frame) -> Verdict {
    run(machine, recorder, name, machine.graphics_queue()?, frame.size)
}

pub(super) fn transfer(machine: &Machine, recorder: &mut Recorder, name: &str, frame: Frame) -> Verdict {
    run(machine, recorder, name, machine.transfer_queue()?, frame.size)
}

fn run(machine: &Machine, recorder: &mut Recorder, name: &str, context: &HeadlessContext, size: u64) -> Verdict {
    let pipeline = &Pipeline::new(machine, context, size)?;
    // The latest rate of the ring and of the limit: both are measured in each round.
    let latest = &[Cell::new(None), Cell::new(None)];
    let mut variants = [
        Variant::new("ring", || {
            let rate = pipeline.ring_rate()?;
            latest[0].set(Some(rate));
            Ok(vec![Some(rate), None, None, latest[1].get().map(|limit: f64| 1e9 / rate - 1e9 / limit)])
        }),
        Variant::new("limit", || {
            let (vulkan, compute) = (pipeline.vulkan_rate()?, pipeline.compute_rate()?);
            latest[1].set(Some(vulkan.min(compute)));
            Ok(vec![Some(vulkan.min(compute)), Some(vulkan), Some(compute), None])
        }),
    ];
    let enough = machine.is_gpu().then_some(ENOUGH);
    let comparisons = [Comparison { limit: enough, ..Comparison::new(0, "ring", "limit") }];
    let effort = Effort { least: 5, budget: Duration::from_secs(3), ..Effort::exactly(20) };
    recorder.measure(name, effort, &QUANTITIES, &mut variants, &comparisons)?;
    // The first batch is the warm-up.
    let intervals: Vec<f64> = pipeline.intervals.borrow().iter().skip(1).flatten().copied().collect();
    recorder.summarize(&format!("{name}.interval"), "ring", "ns", &intervals);
    Ok(())
}

struct Pipeline<'a> {
    context: &'a HeadlessContext,
    stream: &'a Stream,
    ring: FrameRing,
    /// Vulkan's own memory, and the device's, of each frame in flight.
    locals: Vec<OwnedBuffer>,
    owns: Vec<ExportableMemory>,
    scratch: ExportableMemory,
    /// Number of fills that process a frame.
    fills: u32,
    /// The last word of each frame of a batch, stored by the device.
    notes: ExportableMemory,
    size: u64,
    frames: u32,
    /// The word of the latest frame.
    word: Cell<u32>,
    /// For each batch, nanoseconds between consecutive frames of the ring, once all its frames are in flight.
    intervals: RefCell<Vec<Vec<f64>>>,
}

impl<'a> Pipeline<'a> {
    fn new(machine: &'a Machine, context: &'a HeadlessContext, size: u64) -> Verdict<Self> {
        let (device, stream) = (&machine.device, &machine.stream);
        // One frame on a CPU takes as long as all on a GPU.
        let (frames, scratch) = if machine.is_gpu() { (20, SCRATCH) } else { (6, size) };
        let options = FrameRingOptions::new(IN_FLIGHT).buffer(BufferOptions::new(size, TRANSFER));
        let ring = FrameRing::new(context, device, &options).map_err(too_much)?;
        let local = |_| OwnedBuffer::new(context.interop(), size, TRANSFER, MemoryPlacement::DeviceLocal);
        let locals = (0..IN_FLIGHT).map(local).collect::<Result<Vec<_>, _>>().map_err(too_much)?;
        let own = |size| device.allocate_exportable(size).map_err(too_much);
        let owns = (0..IN_FLIGHT).map(|_| own(size)).collect::<Verdict<_>>()?;
        let intervals = RefCell::default();
        let (scratch, notes) = (own(scratch)?, own(u64::from(frames) * 4)?);
        locals.iter().try_for_each(|local| context.fill(local, 0, size, 0))?;
        let fills = if machine.is_gpu() { number_of_fills(stream, &scratch)? } else { 1 };
        Ok(Self {
            context,
            stream,
            ring,
            locals,
            owns,
            scratch,
            fills,
            notes,
            size,
            frames,
            word: Cell::new(0),
            intervals,
        })
    }

    fn next(&self) -> u32 {
        self.word.set(self.word.get() + 1);
        self.word.get()
    }

    /// Vulkan's half: a new frame in its own memory, copied to the shared one.
    fn show(&self, recording: &mut Recording<'_>, index: usize, shared: &OwnedBuffer) -> gpu_interop::Result<()> {
        let (local, word) = (&self.locals[index], self.word.get());
        recording.fill(local, 0, 4, word)?;
        recording.fill(local, self.size - 4, 4, word)?;
        recording.copy(local, 0, shared, 0, self.size)
    }

    /// The compute half: copies the frame, notes its last word, and processes it.
    fn process(&self, number: u32, index: usize, shared: Option<BufferSlice<'_>>) -> gpu_interop::Result<()> {
        // Allocations are larger than a frame where the driver rounds sizes up.
        let own = |index: usize| self.owns[index % IN_FLIGHT].slice(..self.size);
        let (stream, target) = (self.stream, own(index)?);
        // Without a ring from another frame's memory: the same work.
        let source = shared.map_or_else(|| own(index + 1), Ok)?;
        stream.copy(target, source)?;
        let note = u64::from(number) * 4;
        stream.copy(self.notes.slice(note..note + 4)?, target.slice(self.size - 4..)?)?;
        (0..self.fills).try_for_each(|_| stream.fill_u32(&self.scratch, number))
    }

    fn per_second(&self, start: Instant) -> f64 {
        f64::from(self.frames) / start.elapsed().as_secs_f64()
    }

    fn ring_rate(&self) -> Verdict<f64> {
        let first = self.word.get() + 1;
        self.stream.synchronize()?;
        let start = Instant::now();
        let (mut last, mut intervals) = (None, Vec::new());
        for number in 0..self.frames {
            self.next();
            let mut frame = self.ring.acquire(WAIT_TIMEOUT)?;
            if number as usize >= IN_FLIGHT {
                let now = Instant::now();
                let interval = last.replace(now).map(|last| now.duration_since(last).as_secs_f64() * 1e9);
                intervals.extend(interval);
            }
            let index = frame.index();
            frame
                .render(self.context, |recording, memory| self.show(recording, index, memory.buffers()[0].buffer()))?;
            frame
                .compute(self.stream, |_, memory| self.process(number, index, Some(memory.buffers()[0].slice(..)?)))?;
        }
        self.stream.synchronize()?;
        let rate = self.per_second(start);
        self.intervals.borrow_mut().push(intervals);
        verify_words(self.stream, &self.notes, usize::try_from(self.frames)?, first)?;
        Ok(rate)
    }

    /// Vulkan's halves alone: each frame is dropped after its first half.
    fn vulkan_rate(&self) -> Verdict<f64> {
        let mut last: Option<Submission> = None;
        let start = Instant::now();
        for _ in 0..self.frames {
            self.next();
            let mut frame = self.ring.acquire(WAIT_TIMEOUT)?;
            let index = frame.index();
            last =
                Some(frame.render(self.context, |recording, memory| {
                    self.show(recording, index, memory.buffers()[0].buffer())
                })?);
        }
        last.map_or(Ok(()), |last| last.wait(WAIT_TIMEOUT))?;
        Ok(self.per_second(start))
    }

    /// The stream's work alone, all of it enqueued at once.
    fn compute_rate(&self) -> Verdict<f64> {
        let start = Instant::now();
        (0..self.frames).try_for_each(|number| self.process(number, number as usize % IN_FLIGHT, None))?;
        self.stream.synchronize()?;
        Ok(self.per_second(start))
    }
}

/// The number of fills that take [`PROCESSING`].
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Rounded and limited.
fn number_of_fills(stream: &Stream, scratch: &ExportableMemory) -> Verdict<u32> {
    const TRIES: u32 = 16;
    let mut each = Duration::ZERO;
    // The first round warms up.
    for _ in 0..2 {
        stream.synchronize()?;
        let start = Instant::now();
        (0..TRIES).try_for_each(|word| stream.fill_u32(scratch, word))?;
        stream.synchronize()?;
        each = start.elapsed() / TRIES;
    }
    Ok((PROCESSING.as_secs_f64() / each.as_secs_f64()).round().clamp(1.0, 500.0) as u32)
}
