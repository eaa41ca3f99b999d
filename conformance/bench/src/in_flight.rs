//! Frames per second with one, two and three frames in flight.
//!
//! Each frame is 3840x2160 RGBA8 and occupies a slot of shared memory while in flight. Vulkan waits until the device
//! has read the slot's previous frame, writes the new frame, and signals. The device waits for that signal, copies the
//! frame to its own memory, and signals. Two timelines order these steps. The host enqueues frames ahead, at most
//! [`MAX_AHEAD`] submissions. The device also stores the last word of each frame. The host verifies the words at the
//! end.
//!
//! [`Pipeline`] is shared with [`video`](super::video).

use std::cell::Cell;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use gpu_interop::vulkan::{HeadlessContext, Recording, Submission};
use gpu_interop::{BufferSlice, ExportableMemory, MappedBuffer, Stream};
use gpu_interop_conformance::{Verdict, ensure_eq};

use super::frame::{Frame, VulkanFrame};
use super::machine::{Machine, WAIT_TIMEOUT, too_much};
use super::record::{Comparison, Quantity, Recorder};
use super::rounds::{Effort, Variant};
use super::timeline::{Exporter, LibraryCounter};

const SIZE: u64 = Frame::K4.size;
/// Frames in flight, by quantity.
const DEPTHS: [usize; 3] = [1, 2, 3];
const RATES: [Quantity; 3] = [
    Quantity { suffix: ".1", unit: "frames/s" },
    Quantity { suffix: ".2", unit: "frames/s" },
    Quantity { suffix: ".3", unit: "frames/s" },
];
/// Maximum number of submissions ahead, so that launch queues do not fill up.
const MAX_AHEAD: usize = 8;

pub(super) fn graphics(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    run(machine, recorder, name, machine.graphics_queue()?)
}

pub(super) fn transfer(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    run(machine, recorder, name, machine.transfer_queue()?)
}

fn run(machine: &Machine, recorder: &mut Recorder, name: &str, context: &HeadlessContext) -> Verdict {
    // A frame on a CPU takes as long as 30 frames on a GPU.
    let frames = if machine.is_gpu() { 30 } else { 4 };
    let device = &machine.device;
    let slot = |_| {
        let vulkan = VulkanFrame::new(context, SIZE)?;
        let imported = device.import_memory(vulkan.shared.import_request()?)?.map_buffer(0..SIZE)?;
        Ok(Slot { vulkan, imported, own: device.allocate_exportable(SIZE).map_err(too_much)? })
    };
    let slots = (0..DEPTHS.len()).map(slot).collect::<Verdict<_>>()?;
    let slots = Slots { stream: &machine.stream, slots };
    let pipeline = Pipeline::new(machine, context, frames)?;
    let rate = |timelines, depth| pipeline.rate(&slots, depth, timelines).map(Some);
    let rates = |timelines| DEPTHS.into_iter().map(|depth| rate(timelines, depth)).collect();
    let exporter = Exporter::Vulkan(context);
    let native = Timelines::new(|| LibraryCounter::native(machine, exporter));
    let bridge = Timelines::new(|| LibraryCounter::bridge(machine, exporter));
    let mut variants = Vec::new();
    if let Some(timelines) = recorder.side("every native variant", &native) {
        variants.push(Variant::new("native", || rates(timelines)));
    }
    if let Some(timelines) = recorder.side("every bridge variant", &bridge) {
        variants.push(Variant::new("bridge", || rates(timelines)));
    }
    let comparisons = [0, 1, 2].map(|depth| Comparison::new(depth, "bridge", "native"));
    let effort = Effort { least: 5, most: 100, ..Effort::within(Duration::from_secs(2)) };
    recorder.measure(name, effort, &RATES, &mut variants, &comparisons)
}

/// The shared memory of a frame in flight.
struct Slot<'a> {
    vulkan: VulkanFrame<'a>,
    imported: MappedBuffer,
    own: ExportableMemory,
}

struct Slots<'a> {
    stream: &'a Stream,
    slots: Vec<Slot<'a>>,
}

impl FrameSlots for Slots<'_> {
    fn show(&self, recording: &mut Recording<'_>, slot: usize, word: u32) -> gpu_interop::Result<()> {
        self.slots[slot].vulkan.show(recording, word)
    }

    fn take(&self, slot: usize, note: BufferSlice<'_>) -> Verdict {
        let Slot { imported, own, .. } = &self.slots[slot];
        self.stream.copy(own.slice(..SIZE)?, imported.slice(..)?)?;
        Ok(self.stream.copy(note, own.slice(SIZE - 4..SIZE)?)?)
    }
}

/// Slots of shared memory, and the work of Vulkan and of the device on a frame.
pub(super) trait FrameSlots {
    /// Records Vulkan's work: writes a frame that ends with this word.
    fn show(&self, recording: &mut Recording<'_>, slot: usize, word: u32) -> gpu_interop::Result<()>;

    /// Enqueues the device's work: reads the frame, and copies its last word to `note`.
    fn take(&self, slot: usize, note: BufferSlice<'_>) -> Verdict;
}

/// The timelines that order Vulkan's and the device's work.
pub(super) struct Timelines {
    /// The number of frames written by Vulkan.
    ready: LibraryCounter,
    /// The number of frames read by the device.
    done: LibraryCounter,
}

impl Timelines {
    pub(super) fn new(make: impl Fn() -> Verdict<LibraryCounter>) -> Verdict<Self> {
        Ok(Self { ready: make()?, done: make()? })
    }
}

/// Batches of frames in flight.
pub(super) struct Pipeline<'a> {
    context: &'a HeadlessContext,
    stream: &'a Stream,
    /// The last word of each frame of a batch, stored by the device.
    notes: ExportableMemory,
    /// The number of frames of a batch.
    frames: usize,
    /// The last word of the latest frame.
    word: Cell<u32>,
}

impl<'a> Pipeline<'a> {
    pub(super) fn new(machine: &'a Machine, context: &'a HeadlessContext, frames: usize) -> Verdict<Self> {
        let notes = machine.device.allocate_exportable(frames as u64 * 4).map_err(too_much)?;
        Ok(Self { context, stream: &machine.stream, notes, frames, word: Cell::new(0) })
    }

    /// Frames per second, with `depth` frames in flight. Fails unless the device read every frame, in order.
    pub(super) fn rate(
        &self,
        slots: &impl FrameSlots,
        depth: usize,
        Timelines { ready, done }: &Timelines,
    ) -> Verdict<f64> {
        let first = self.word.get() + 1;
        // For each slot, the value of `done` that signals that the device has read the slot's frame.
        let mut read: VecDeque<u64> = std::iter::repeat_n(done.last(), depth).collect();
        let mut submissions = Submissions::default();
        let start = Instant::now();
        for frame in 0..self.frames {
            let slot = frame % depth;
            submissions.limit()?;
            self.word.set(self.word.get() + 1);
            let (written, taken) = (ready.next(), done.next());
            let free = read.pop_front().unwrap_or_default();
            read.push_back(taken);
            let (waits, signals) = ([done.exported.op(free)?], [ready.exported.op(written)?]);
            let show = |recording: &mut Recording<'_>| slots.show(recording, slot, self.word.get());
            submissions.0.push_back(self.context.submit(&waits, &signals, show)?);
            self.stream.wait_timeline(&ready.follower, written)?;
            let note = frame as u64 * 4;
            slots.take(slot, self.notes.slice(note..note + 4)?)?;
            self.stream.signal_timeline(&done.follower, taken)?;
        }
        self.stream.synchronize()?;
        let elapsed = start.elapsed();
        submissions.wait()?;
        verify_words(self.stream, &self.notes, self.frames, first)?;
        Ok(self.frames as f64 / elapsed.as_secs_f64())
    }

    /// Frames per second of Vulkan alone.
    pub(super) fn vulkan_rate(&self, slots: &impl FrameSlots, depth: usize) -> Verdict<f64> {
        let mut submissions = Submissions::default();
        let start = Instant::now();
        for slot in (0..depth).cycle().take(self.frames) {
            submissions.limit()?;
            let show = |recording: &mut Recording<'_>| slots.show(recording, slot, self.word.get());
            submissions.0.push_back(self.context.submit(&[], &[], show)?);
        }
        submissions.wait()?;
        Ok(self.frames as f64 / start.elapsed().as_secs_f64())
    }
}

/// Fails unless the device stored the words of `frames` consecutive frames from `first` on.
pub(super) fn verify_words(stream: &Stream, notes: &ExportableMemory, frames: usize, first: u32) -> Verdict {
    let mut found = vec![0; frames * 4];
    stream.read(notes.slice(..found.len() as u64)?, &mut found)?;
    for (word, found) in (first..).zip(found.as_chunks::<4>().0) {
        ensure_eq!(u32::from_ne_bytes(*found), word, "the word of a frame in flight");
    }
    Ok(())
}

/// Pending submissions of Vulkan, oldest first.
#[derive(Default)]
struct Submissions(VecDeque<Submission>);

impl Submissions {
    /// Waits for the oldest submission if [`MAX_AHEAD`] are pending.
    fn limit(&mut self) -> Verdict {
        if self.0.len() == MAX_AHEAD {
            self.0.pop_front().map_or(Ok(()), |oldest| oldest.wait(WAIT_TIMEOUT))?;
        }
        Ok(())
    }

    fn wait(&self) -> Verdict {
        Ok(self.0.iter().try_for_each(|submission| submission.wait(WAIT_TIMEOUT))?)
    }
}
