//! Frames in flight between Vulkan's queue and a stream, each with its own memory and timeline.

pub(super) mod endings;
pub(super) mod flow;

use gpu_interop::vulkan::ash::vk::BufferUsageFlags;
use gpu_interop::vulkan::{
    BufferOptions, Frame, FrameRing, FrameRingOptions, HeadlessContext, MemoryPlacement, OwnedBuffer, OwnedSemaphore,
    SemaphoreOp, Submission,
};
use gpu_interop::{MappedBuffer, Stream};

use crate::context::Context;
use crate::exporter::ExportedBuffer;
use crate::outcome::{Stop, Verdict, WAIT_TIMEOUT};
use crate::pattern::Pattern;

/// Frames in flight.
const IN_FLIGHT: usize = 3;
/// Size of the buffer of a frame, bytes.
const SIZE: usize = 8192;
const BYTES: u64 = SIZE as u64;
const USAGE: BufferUsageFlags =
    BufferUsageFlags::from_raw(BufferUsageFlags::TRANSFER_SRC.as_raw() | BufferUsageFlags::TRANSFER_DST.as_raw());

fn vulkan(context: &Context) -> Verdict<&HeadlessContext> {
    let vulkan = context.exporter()?.vulkan();
    vulkan.ok_or_else(|| Stop::unsupported("the exporter is not Vulkan".into()))
}

/// The data of a frame.
fn of_frame(context: &Context, number: u64) -> Pattern {
    Pattern::new(context.pattern().seed() ^ u32::try_from(number).unwrap_or(0))
}

/// A ring with one buffer a frame, and separate host-visible buffers for each frame.
struct Rig<'a> {
    context: &'a Context,
    vulkan: &'a HeadlessContext,
    ring: FrameRing,
    stream: Stream,
    /// Sources and targets of Vulkan's copies, one of each a frame of the ring.
    sources: Vec<OwnedBuffer>,
    targets: Vec<OwnedBuffer>,
}

impl<'a> Rig<'a> {
    fn new(context: &'a Context) -> Verdict<Self> {
        Self::with(context, FrameRingOptions::new(IN_FLIGHT))
    }

    fn with(context: &'a Context, options: FrameRingOptions) -> Verdict<Self> {
        let vulkan = vulkan(context)?;
        let frames = options.frames;
        let options = options.buffer(BufferOptions::new(BYTES, USAGE));
        let ring = FrameRing::new(vulkan, context.device(), &options).map_err(Stop::attempted)?;
        let host = || OwnedBuffer::new(vulkan.interop(), BYTES, USAGE, MemoryPlacement::HostVisible);
        let hosts = || (0..frames).map(|_| host()).collect::<Result<Vec<_>, _>>();
        let (sources, targets) = (hosts()?, hosts()?);
        Ok(Self { context, vulkan, ring, stream: context.stream()?, sources, targets })
    }

    fn acquire(&self) -> Verdict<Frame> {
        Ok(self.ring.acquire(WAIT_TIMEOUT)?)
    }

    /// Vulkan's half: writes data to the frame. The frame's earlier work has completed, so its source is free.
    fn write(&self, frame: &mut Frame, data: &[u8]) -> Verdict<Submission> {
        let source = &self.sources[frame.index()];
        source.write(0, data)?;
        Ok(frame.render(self.vulkan, |recording, memory| {
            recording.copy(source, 0, memory.buffers()[0].buffer(), 0, BYTES)
        })?)
    }

    /// Vulkan's half: reads the frame, and returns it to the ring.
    fn read(&self, mut frame: Frame) -> Verdict<Vec<u8>> {
        let target = &self.targets[frame.index()];
        let submission = frame.render(self.vulkan, |recording, memory| {
            recording.copy(memory.buffers()[0].buffer(), 0, target, 0, BYTES)
        })?;
        submission.wait(WAIT_TIMEOUT)?;
        let mut found = vec![0; SIZE];
        target.read(0, &mut found)?;
        Ok(found)
    }

    /// The compute half: copies the frame to its place in a log.
    fn log(&self, frame: &mut Frame, log: &Log) -> Verdict {
        let start = frame.number() * BYTES;
        Ok(frame.compute(&self.stream, |stream, memory| {
            stream.copy(log.mapped.slice(start..start + BYTES)?, &memory.buffers()[0])
        })?)
    }
}

/// Memory for the contents of several frames, as the device found them.
struct Log {
    buffer: Box<dyn ExportedBuffer>,
    mapped: MappedBuffer,
}

impl Log {
    fn new(context: &Context, frames: usize) -> Verdict<Self> {
        let (buffer, mapped) = context.zeroed(frames * SIZE)?;
        Ok(Self { buffer, mapped })
    }

    /// Fails unless each frame has its own data.
    fn verify(&self, context: &Context) -> Verdict {
        for (number, found) in (0..).zip(self.buffer.contents()?.chunks_exact(SIZE)) {
            of_frame(context, number).verify(0, found, format_args!("frame {number}, as the stream found it"))?;
        }
        Ok(())
    }
}

/// A Vulkan queue that waits, and everything submitted to it later with it.
struct ClosedQueue {
    timeline: OwnedSemaphore,
    submission: Submission,
}

impl ClosedQueue {
    fn new(vulkan: &HeadlessContext) -> Verdict<Self> {
        let timeline = OwnedSemaphore::timeline(vulkan.interop(), 0).map_err(Stop::attempted)?;
        let waits = [SemaphoreOp { semaphore: &timeline, value: 1 }];
        let submission = vulkan.submit(&waits, &[], |_| Ok(()))?;
        Ok(Self { timeline, submission })
    }

    fn open(&self) -> Verdict {
        self.timeline.signal(1)?;
        Ok(self.submission.wait(WAIT_TIMEOUT)?)
    }
}

impl Drop for ClosedQueue {
    /// Opens it also after a failure, which other scenarios of the process must survive.
    fn drop(&mut self) {
        let _ = self.timeline.signal(1);
    }
}
