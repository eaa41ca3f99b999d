//! The transfer of an RGBA8 frame: from Vulkan's submission until it is in the device's own memory.
//!
//! The frame is in Vulkan's own memory, like one just rendered. Each has a new word at its start and
//! end, which are verified. The variants:
//! * `native`, `bridge`: zero-copy, ordered by a timeline in each direction ([`timeline`](super::timeline)); the host
//!   waits only for the end;
//! * `raw`: as `native`, with the driver called directly;
//! * `fence`: zero-copy with full synchronisation, as other libraries do it: the host waits for Vulkan's fence, and for
//!   the stream before Vulkan's next frame;
//! * `staged`: without interop. Vulkan copies the frame to host memory, the host waits, and
//!   the device copies it from there.

use std::cell::Cell;
use std::time::{Duration, Instant};

use gpu_interop::vulkan::{
    BufferOptions, ExportableBuffer, HeadlessContext, MemoryPlacement, OwnedBuffer, Recording, SemaphoreOp,
};
use gpu_interop::{BufferSlice, Stream};
use gpu_interop_conformance::{Verdict, ensure_eq};

use super::machine::{Machine, TRANSFER, WAIT_TIMEOUT, too_much};
use super::record::{Comparison, PEER, Recorder, TIME};
use super::report::Limit;
use super::rounds::{Effort, Variant};
use super::sys::{Answer, SemaphoreBatch, copy_from_staging};
use super::timeline::{Counter, Exporter, LibraryCounter, RawCounter};

/// The size of a frame, bytes, and the minimum gain of interop over a copy through host memory.
///
/// The minimum is far below what was measured (7.4 to 11.3 on transfer queues of several H100s): the gain depends on the speed
/// of the host's memory. [`OVERHEAD`] limits the native frame itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) size: u64,
    gain: Option<Limit>,
}

impl Frame {
    pub(super) const P1080: Self = Self { size: 1920 * 1080 * 4, gain: None };
    pub(super) const K4: Self = Self { size: 3840 * 2160 * 4, gain: Some(Limit::AtLeast(4.0)) };
    pub(super) const K8: Self = Self { size: 7680 * 4320 * 4, gain: None };
}

const OVERHEAD: Limit = Limit::AtMost(1.02);

pub(super) fn graphics(machine: &Machine, recorder: &mut Recorder, name: &str, frame: Frame) -> Verdict {
    run(machine, recorder, name, machine.graphics_queue()?, frame)
}

pub(super) fn transfer(machine: &Machine, recorder: &mut Recorder, name: &str, frame: Frame) -> Verdict {
    run(machine, recorder, name, machine.transfer_queue()?, frame)
}

fn run(machine: &Machine, recorder: &mut Recorder, name: &str, context: &HeadlessContext, frame: Frame) -> Verdict {
    let Frame { size, gain } = frame;
    let vulkan = VulkanFrame::new(context, size)?;
    let staging = OwnedBuffer::new(context.interop(), size, TRANSFER, MemoryPlacement::HostVisible);
    let staging = &staging.map_err(too_much)?;
    let imported = machine.device.import_memory(vulkan.shared.import_request()?)?.map_buffer(0..size)?;
    let own = machine.device.allocate_exportable(size).map_err(too_much)?;
    let (source, target) = (imported.slice(..)?, own.slice(..size)?);
    let frames = &Frames { stream: &machine.stream, vulkan, source, target, number: Cell::new(0) };

    let exporter = Exporter::Vulkan(context);
    let by_hand = RawCounter::raw(machine, exporter);
    let native = LibraryCounter::native(machine, exporter);
    let bridge = LibraryCounter::bridge(machine, exporter);
    let native = recorder.side("every native variant", &native);
    let mut variants = Vec::new();
    if let (Some(raw), Ok(counter)) = (recorder.side("every raw variant", &machine.raw), &by_hand) {
        let mut batch = SemaphoreBatch::new(counter.follower.semaphores())?;
        let answer = Answer { copy: (target, source), fill: None };
        variants.push(Variant::of_one("raw", move || {
            second(|| {
                frames.ordered(counter, |values| {
                    raw.answer(counter.follower.stream(), &mut batch, values, &answer, || Ok(()))
                })
            })
        }));
    }
    if let Some(counter) = native {
        variants.push(Variant::of_one("native", || second(|| frames.with_library(counter))));
    }
    if let Some(counter) = recorder.side("every bridge variant", &bridge) {
        variants.push(Variant::of_one("bridge", || second(|| frames.with_library(counter))));
    }
    variants.push(Variant::of_one("fence", || second(|| frames.with_fence())));
    variants.push(Variant::of_one("staged", || second(|| frames.staged(staging))));
    let peer = machine.is_judged().then_some(PEER);
    let comparisons = [
        Comparison::new(0, "native", "raw").limit(OVERHEAD),
        Comparison { limit: peer, ..Comparison::new(0, "native", "fence") },
        Comparison { limit: peer, ..Comparison::new(0, "bridge", "fence") },
        Comparison { limit: gain, ..Comparison::new(0, "staged", "native") },
        Comparison::new(0, "staged", "bridge"),
        Comparison::new(0, "staged", "fence"),
        Comparison::new(0, "bridge", "native"),
    ];
    let effort = Effort { most: 400, ..Effort::within(Duration::from_millis(1500)) };
    recorder.measure(name, effort, &[TIME], &mut variants, &comparisons)
}

/// The second of two frames: the first one's duration depends on the previous variant, because the state of the GPU's
/// contexts differs after a copy through the host.
fn second(mut frame: impl FnMut() -> Verdict<f64>) -> Verdict<f64> {
    frame()?;
    frame()
}

/// A frame on Vulkan's side: its own memory and the shared one.
pub(super) struct VulkanFrame<'a> {
    pub(super) context: &'a HeadlessContext,
    pub(super) shared: ExportableBuffer,
    local: OwnedBuffer,
}

impl<'a> VulkanFrame<'a> {
    /// A frame of `size` bytes, owned by the device until [`VulkanFrame::show`] acquires it.
    pub(super) fn new(context: &'a HeadlessContext, size: u64) -> Verdict<Self> {
        let shared = ExportableBuffer::new(context.interop(), &BufferOptions::new(size, TRANSFER)).map_err(too_much)?;
        let local = OwnedBuffer::new(context.interop(), size, TRANSFER, MemoryPlacement::DeviceLocal);
        let local = local.map_err(too_much)?;
        context.fill(&local, 0, size, 0)?;
        context.release(shared.buffer())?;
        Ok(Self { context, shared, local })
    }

    fn size(&self) -> u64 {
        self.local.size()
    }

    /// Writes a new frame to Vulkan's own memory.
    fn draw(&self, recording: &mut Recording<'_>, word: u32) -> gpu_interop::Result<()> {
        recording.fill(&self.local, 0, 4, word)?;
        recording.fill(&self.local, self.size() - 4, 4, word)
    }

    /// Writes a new frame and releases it to the device.
    pub(super) fn show(&self, recording: &mut Recording<'_>, word: u32) -> gpu_interop::Result<()> {
        self.draw(recording, word)?;
        recording.acquire(self.shared.buffer())?;
        recording.copy(&self.local, 0, self.shared.buffer(), 0, self.size())?;
        recording.release(self.shared.buffer())
    }
}

struct Frames<'a> {
    stream: &'a Stream,
    vulkan: VulkanFrame<'a>,
    source: BufferSlice<'a>,
    target: BufferSlice<'a>,
    /// The number of the last frame, and its word.
    number: Cell<u32>,
}

impl Frames<'_> {
    /// Vulkan waits until the last frame has been read, writes, and signals. `take` is the device's side: it waits for
    /// the first value, signals the second, and blocks until the work has completed.
    fn ordered<Follower>(&self, counter: &Counter<Follower>, take: impl FnOnce([u64; 2]) -> Verdict) -> Verdict<f64> {
        let word = self.next();
        let waits: [SemaphoreOp<'_>; 1] = [counter.exported.op(counter.last())?];
        let (ready, done) = (counter.next(), counter.next());
        let signals = [counter.exported.op(ready)?];
        let start = Instant::now();
        let submission = self.vulkan.context.submit(&waits, &signals, |recording| self.vulkan.show(recording, word))?;
        take([ready, done])?;
        let taken = start.elapsed();
        submission.wait(WAIT_TIMEOUT)?;
        self.check(taken, word)
    }

    fn with_library(&self, counter: &LibraryCounter) -> Verdict<f64> {
        self.ordered(counter, |[ready, done]| {
            self.stream.wait_timeline(&counter.follower, ready)?;
            self.stream.copy(self.target, self.source)?;
            self.stream.signal_timeline(&counter.follower, done)?;
            Ok(self.stream.synchronize()?)
        })
    }

    /// The host waits for Vulkan, then for the device.
    fn with_fence(&self) -> Verdict<f64> {
        let word = self.next();
        let start = Instant::now();
        self.vulkan.context.run(|recording| self.vulkan.show(recording, word))?;
        self.stream.copy(self.target, self.source)?;
        self.stream.synchronize()?;
        self.check(start.elapsed(), word)
    }

    /// Through host memory.
    fn staged(&self, staging: &OwnedBuffer) -> Verdict<f64> {
        let (word, vulkan) = (self.next(), &self.vulkan);
        let start = Instant::now();
        vulkan.context.run(|recording| {
            vulkan.draw(recording, word)?;
            recording.copy(&vulkan.local, 0, staging, 0, vulkan.size())
        })?;
        copy_from_staging(self.stream, self.target, staging)?;
        self.check(start.elapsed(), word)
    }

    fn next(&self) -> u32 {
        self.number.set(self.number.get() + 1);
        self.number.get()
    }

    /// The duration in nanoseconds, if the frame has arrived.
    fn check(&self, taken: Duration, word: u32) -> Verdict<f64> {
        let mut found = [0; 4];
        for offset in [0, self.target.size() - 4] {
            self.stream.read(self.target.slice(offset..offset + 4)?, &mut found)?;
            ensure_eq!(u32::from_ne_bytes(found), word, "the word at byte {offset} of a frame");
        }
        Ok(taken.as_secs_f64() * 1e9)
    }
}
