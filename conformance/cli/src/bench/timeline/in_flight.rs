//! Frames per second with one, two and three frames in flight.
//!
//! Each frame is 3840x2160 RGBA8 and occupies a slot of shared memory while in flight. Vulkan waits until the device
//! has read the slot's previous frame, writes the frame, and signals. The device waits, copies it to its own
//! memory, and signals. Two timelines order this; the host enqueues frames ahead and waits only for
//! completed ones. The device also stores the last word of each frame, which the host verifies at the end.

use std::cell::Cell;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use gpu_interop::vulkan::HeadlessContext;
use gpu_interop::{ExportableMemory, MappedBuffer, Stream};
use gpu_interop_conformance::{Verdict, ensure_eq};

use super::counter::LibraryCounter;
use super::exporter::Exporter;
use crate::bench::frame::{Frame, VulkanFrame};
use crate::bench::machine::{Machine, PATIENCE, too_much};
use crate::bench::record::{Comparison, Quantity, Recorder};
use crate::bench::rounds::{Effort, Variant};

const SIZE: u64 = Frame::K4.size;
/// Frames in flight, by quantity.
const DEPTHS: [usize; 3] = [1, 2, 3];
const RATES: [Quantity; 3] = [
    Quantity { suffix: ".1", unit: "frames/s" },
    Quantity { suffix: ".2", unit: "frames/s" },
    Quantity { suffix: ".3", unit: "frames/s" },
];
/// Maximum number of submissions ahead, so that launch queues do not fill up.
const AHEAD: usize = 8;

pub(in crate::bench) fn graphics(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    run(machine, recorder, name, machine.graphics_queue()?)
}

pub(in crate::bench) fn transfer(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    run(machine, recorder, name, machine.transfer_queue()?)
}

fn run(machine: &Machine, recorder: &mut Recorder, name: &str, context: &HeadlessContext) -> Verdict {
    // One frame on a CPU takes as long as all on a GPU.
    let frames = if machine.is_gpu() { 30 } else { 4 };
    let pipeline = &Pipeline::new(machine, context, frames)?;
    let exporter = Exporter::Vulkan(context);
    let native = Counters::new(|| LibraryCounter::native(machine, exporter));
    let bridge = Counters::new(|| LibraryCounter::bridge(machine, exporter));
    let mut variants = Vec::new();
    if let Some(counters) = recorder.side("every native variant", &native) {
        variants.push(Variant::new("native", || pipeline.rates(counters)));
    }
    if let Some(counters) = recorder.side("every bridge variant", &bridge) {
        variants.push(Variant::new("bridge", || pipeline.rates(counters)));
    }
    let comparisons = [0, 1, 2].map(|depth| Comparison::new(depth, "bridge", "native"));
    let effort = Effort { least: 5, most: 100, ..Effort::within(Duration::from_secs(2)) };
    recorder.measure(name, effort, &RATES, &mut variants, &comparisons)
}

struct Counters {
    /// The number of frames written by Vulkan.
    ready: LibraryCounter,
    /// The number of frames read by the device.
    done: LibraryCounter,
}

impl Counters {
    fn new(make: impl Fn() -> Verdict<LibraryCounter>) -> Verdict<Self> {
        Ok(Self { ready: make()?, done: make()? })
    }
}

/// The memory of a frame in flight.
struct Slot<'a> {
    vulkan: VulkanFrame<'a>,
    imported: MappedBuffer,
    own: ExportableMemory,
}

struct Pipeline<'a> {
    context: &'a HeadlessContext,
    stream: &'a Stream,
    slots: Vec<Slot<'a>>,
    /// The last word of each frame of a batch, stored by the device.
    notes: ExportableMemory,
    frames: usize,
    /// The word of the latest frame.
    word: Cell<u32>,
}

impl<'a> Pipeline<'a> {
    fn new(machine: &'a Machine, context: &'a HeadlessContext, frames: usize) -> Verdict<Self> {
        let device = &machine.device;
        let slot = |_| {
            let vulkan = VulkanFrame::new(context, SIZE)?;
            let imported = device.import_memory(vulkan.shared.import_request()?)?.map_buffer(0..SIZE)?;
            Ok(Slot { vulkan, imported, own: device.allocate_exportable(SIZE).map_err(too_much)? })
        };
        let slots = (0..DEPTHS.len()).map(slot).collect::<Verdict<_>>()?;
        let notes = device.allocate_exportable(frames as u64 * 4).map_err(too_much)?;
        Ok(Self { context, stream: &machine.stream, slots, notes, frames, word: Cell::new(0) })
    }

    /// One batch for each depth.
    fn rates(&self, counters: &Counters) -> Verdict<Vec<Option<f64>>> {
        DEPTHS.into_iter().map(|depth| Ok(Some(self.rate(counters, depth)?))).collect()
    }

    /// Frames per second with `depth` of them in flight.
    fn rate(&self, Counters { ready, done }: &Counters, depth: usize) -> Verdict<f64> {
        let first = self.word.get() + 1;
        // For each slot, the time when the device has read it.
        let mut read: VecDeque<u64> = std::iter::repeat_n(done.last(), depth).collect();
        let mut submissions = VecDeque::new();
        let start = Instant::now();
        for frame in 0..self.frames {
            if submissions.len() == AHEAD {
                submissions
                    .pop_front()
                    .map_or(Ok(()), |oldest: gpu_interop::vulkan::Submission| oldest.wait(PATIENCE))?;
            }
            self.word.set(self.word.get() + 1);
            let (slot, word) = (&self.slots[frame % depth], self.word.get());
            let (written, taken) = (ready.next(), done.next());
            let free = read.pop_front().unwrap_or_default();
            read.push_back(taken);
            let (waits, signals) = ([done.exported.op(free)?], [ready.exported.op(written)?]);
            submissions
                .push_back(self.context.submit(&waits, &signals, |recording| slot.vulkan.show(recording, word))?);
            self.stream.wait_timeline(&ready.follower, written)?;
            self.stream.copy(slot.own.slice(..SIZE)?, slot.imported.slice(..)?)?;
            let note = frame as u64 * 4;
            self.stream.copy(self.notes.slice(note..note + 4)?, slot.own.slice(SIZE - 4..SIZE)?)?;
            self.stream.signal_timeline(&done.follower, taken)?;
        }
        self.stream.synchronize()?;
        let elapsed = start.elapsed();
        submissions.iter().try_for_each(|submission| submission.wait(PATIENCE))?;
        self.check(first)?;
        Ok(self.frames as f64 / elapsed.as_secs_f64())
    }

    /// Fails unless every frame arrived, in order.
    fn check(&self, first: u32) -> Verdict {
        let mut found = vec![0; self.frames * 4];
        self.stream.read(self.notes.slice(..found.len() as u64)?, &mut found)?;
        for (word, found) in (first..).zip(found.as_chunks::<4>().0) {
            ensure_eq!(u32::from_ne_bytes(*found), word, "the last word of a frame in flight");
        }
        Ok(())
    }
}
