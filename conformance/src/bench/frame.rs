//! A frame of 3840x2160 RGBA8 from Vulkan to the device, from Vulkan's submission until it is in the device's own memory.
//!
//! Vulkan fills the frame with a new word each time; its first and last word are checked after each. The variants:
//! * `library`: zero-copy, ordered by timelines in both directions; the host waits for the end only;
//! * `raw`: the same with the driver called directly, on the same objects;
//! * `fence`: zero-copy through the library, ordered by the host, which waits for Vulkan's fence first;
//! * `staged`: what an application does without interop. Vulkan copies the frame to host memory, the host waits, and
//!   the device copies it from there.

use std::cell::Cell;
use std::time::{Duration, Instant};

use gpu_interop::vulkan::{
    BufferOptions, Context, ExportableBuffer, ExportableSemaphore, MemoryPlacement, OwnedBuffer, SemaphoreOp,
};
use gpu_interop::{BufferSlice, SemaphoreHandleKind, Stream};

use super::machine::{Machine, PATIENCE, TRANSFER, too_much};
use super::record::{Comparison, Recorder, TIME};
use super::report::Limit;
use super::rounds::{Effort, Variant};
use super::sys::{Lane, SemaphoreBatch, copy_from_staging};
use crate::ensure_eq;
use crate::outcome::{Stop, Verdict};

const SIZE: u64 = 3840 * 2160 * 4;
const LIMIT: Limit = Limit::AtMost(1.02);

/// Frames from Vulkan's graphics queue.
pub(super) fn graphics(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    run(machine, recorder, name, machine.vulkan.as_ref().map_err(Clone::clone)?)
}

/// Frames from a queue that only copies.
pub(super) fn transfer(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    run(machine, recorder, name, &machine.transfer_queue()?)
}

/// Timelines that a frame is handed over with, on Vulkan's side; imported, they are the two of the lane.
struct Timelines {
    /// Vulkan has written the frame.
    ready: ExportableSemaphore,
    /// The device has read it.
    done: ExportableSemaphore,
    lane: Lane,
}

impl Timelines {
    fn new(machine: &Machine, context: &Context) -> Verdict<Self> {
        if machine.under_test.semaphores().is_some() {
            return Err(Stop::Unsupported("this backend does not import Vulkan's semaphores".into()));
        }
        if let Some(reason) = machine.device.capabilities().semaphore(SemaphoreHandleKind::TimelineFd).reason() {
            return Err(Stop::Unsupported(format!("timeline semaphores: {reason}")));
        }
        let make = || ExportableSemaphore::timeline(context.interop(), 0);
        let (ready, done) = (make()?, make()?);
        let lane = Lane::new(&machine.device, [ready.export()?, done.export()?])?;
        Ok(Self { ready, done, lane })
    }
}

/// The frames of one queue.
struct Frames<'a> {
    stream: &'a Stream,
    context: &'a Context,
    shared: ExportableBuffer,
    source: BufferSlice<'a>,
    target: BufferSlice<'a>,
    /// The number of the latest frame, and its word.
    number: Cell<u32>,
}

fn run(machine: &Machine, recorder: &mut Recorder, name: &str, context: &Context) -> Verdict {
    let shared = ExportableBuffer::new(context.interop(), &BufferOptions::new(SIZE, TRANSFER)).map_err(too_much)?;
    context.release(shared.buffer())?;
    let imported = machine.device.import_memory(shared.import_request()?)?.map_buffer(0, SIZE)?;
    let own = machine.device.allocate_exportable(SIZE).map_err(too_much)?;
    let frames = Frames {
        stream: &machine.stream,
        context,
        shared,
        source: imported.slice(..)?,
        target: own.slice(..SIZE)?,
        number: Cell::new(0),
    };
    let local = OwnedBuffer::new(context.interop(), SIZE, TRANSFER, MemoryPlacement::DeviceLocal)?;
    let staging = OwnedBuffer::new(context.interop(), SIZE, TRANSFER, MemoryPlacement::HostVisible)?;
    let timelines = Timelines::new(machine, context);

    let frames = &frames;
    // The latest value of `done`: those who use no timelines leave it as it is.
    let done = Cell::new(0);
    let mut variants = Vec::new();
    if let Some(timelines) = recorder.side(&format!("{name} with timelines"), &timelines) {
        let done = &done;
        if let Some(raw) = recorder.side("every raw variant", &machine.raw) {
            let (ready_at, done_at) = timelines.lane.semaphores().split_at(1);
            let (mut ready_batch, mut done_batch) = (SemaphoreBatch::new(ready_at)?, SemaphoreBatch::new(done_at)?);
            variants.push(Variant::of_one("raw", move || {
                second(|| {
                    frames.with_timelines(timelines, done, |value| {
                        let (ready, done) = ((&mut ready_batch, value), (&mut done_batch, value));
                        raw.take_frame(timelines.lane.stream(), ready, done, frames.target, frames.source)
                    })
                })
            }));
        }
        let [ready, finished] = timelines.lane.batch::<2>()?;
        let stream = timelines.lane.stream();
        variants.push(Variant::of_one("library", move || {
            second(|| {
                frames.with_timelines(timelines, done, |value| {
                    stream.wait(&[ready.wait_value(value)])?;
                    stream.copy(frames.target, frames.source)?;
                    stream.signal(&[finished.signal_value(value)])?;
                    Ok(stream.synchronize()?)
                })
            })
        }));
    }
    variants.push(Variant::of_one("fence", || second(|| frames.with_fence())));
    variants.push(Variant::of_one("staged", || second(|| frames.staged(&local, &staging))));
    let comparisons = [
        Comparison::new(0, "library", "raw").limit(LIMIT),
        Comparison::new(0, "staged", "library"),
        Comparison::new(0, "staged", "fence"),
    ];
    let effort = Effort { most: 400, ..Effort::within(Duration::from_secs(3)) };
    recorder.measure(name, effort, &[TIME], &mut variants, &comparisons)
}

/// Of two frames the second: how long the first takes depends on the variant that had its turn before, because the GPU's
/// contexts are in another state after a copy through the host.
fn second(mut frame: impl FnMut() -> Verdict<f64>) -> Verdict<f64> {
    frame()?;
    frame()
}

impl Frames<'_> {
    /// Vulkan waits until the last frame was read, writes, and signals; `take` is the device's side.
    fn with_timelines(
        &self,
        timelines: &Timelines,
        done: &Cell<u64>,
        take: impl FnOnce(u64) -> Verdict,
    ) -> Verdict<f64> {
        let word = self.next();
        let value = u64::from(word);
        let waits = [SemaphoreOp { semaphore: timelines.done.semaphore(), value: done.get() }];
        let signals = [SemaphoreOp { semaphore: timelines.ready.semaphore(), value }];
        let start = Instant::now();
        let submission = self.context.submit(&waits, &signals, |recording| {
            recording.acquire(self.shared.buffer())?;
            recording.fill(self.shared.buffer(), 0, SIZE, word)?;
            recording.release(self.shared.buffer())
        })?;
        take(value)?;
        let taken = start.elapsed();
        done.set(value);
        submission.wait(PATIENCE)?;
        self.check(taken, word)
    }

    /// The host waits for Vulkan, then for the device.
    fn with_fence(&self) -> Verdict<f64> {
        let word = self.next();
        let start = Instant::now();
        self.context.run(|recording| {
            recording.acquire(self.shared.buffer())?;
            recording.fill(self.shared.buffer(), 0, SIZE, word)?;
            recording.release(self.shared.buffer())
        })?;
        self.stream.copy(self.target, self.source)?;
        self.stream.synchronize()?;
        self.check(start.elapsed(), word)
    }

    /// Through host memory.
    fn staged(&self, local: &OwnedBuffer, staging: &OwnedBuffer) -> Verdict<f64> {
        let word = self.next();
        let start = Instant::now();
        self.context.run(|recording| {
            recording.fill(local, 0, SIZE, word)?;
            recording.copy(local, 0, staging, 0, SIZE)
        })?;
        copy_from_staging(self.stream, self.target, staging)?;
        self.check(start.elapsed(), word)
    }

    fn next(&self) -> u32 {
        self.number.set(self.number.get() + 1);
        self.number.get()
    }

    /// The time in nanoseconds, if the frame has arrived.
    fn check(&self, taken: Duration, word: u32) -> Verdict<f64> {
        let mut found = [0; 4];
        for place in [0, SIZE - 4] {
            self.stream.read(self.target.slice(place..place + 4)?, &mut found)?;
            ensure_eq!(u32::from_ne_bytes(found), word, "the word at byte {place} of a frame");
        }
        Ok(taken.as_secs_f64() * 1e9)
    }
}
