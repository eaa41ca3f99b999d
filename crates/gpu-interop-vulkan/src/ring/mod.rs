//! Frames in flight between Vulkan and a compute device.

mod frame;
mod memory;
mod render;
mod slots;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use gpu_interop_core::{Device, Error, PlaneLayout, Result, Stream, Timeline, TimelineStrategy};

use self::slots::{Part, Slots};
use crate::context::HeadlessContext;
use crate::export::{BufferOptions, ExportableSemaphore};
use crate::image::ImageOptions;
use crate::interop::VulkanInterop;
use crate::semaphore::OwnedSemaphore;
use crate::timeline::shared_timeline;

pub use self::frame::Frame;
pub use self::memory::{FrameBuffer, FrameImage, FrameMemory, FramePicture};
pub use self::render::FrameSync;
pub use render::FrameGraphs;

/// A fixed number of frames in flight, each with its own buffers, images and timeline, on which Vulkan and a compute
/// device take turns.
///
/// [`acquire`](Self::acquire) limits how far the host is ahead: it blocks, with a timeout, until a frame is free and
/// its earlier work has completed. [`Frame`] enqueues the halves of both sides with their waits, signals and transfers
/// of ownership. Timelines are native where the compute device imports them, and bridged by a host thread elsewhere.
///
/// ```no_run
/// # use std::time::Duration;
/// # use gpu_interop_core::{Device, Result};
/// # use gpu_interop_vulkan::{BufferOptions, FrameRing, FrameRingOptions, HeadlessContext, ash::vk::BufferUsageFlags};
/// # fn frames(context: &HeadlessContext, device: &Device) -> Result<()> {
/// let buffer = BufferOptions::new(4096, BufferUsageFlags::TRANSFER_SRC | BufferUsageFlags::TRANSFER_DST);
/// let ring = FrameRing::new(context, device, &FrameRingOptions::new(3).buffer(buffer))?;
/// let stream = device.create_stream()?;
/// for number in 0..1_000 {
///     let mut frame = ring.acquire(Duration::from_secs(1))?;
///     frame.render(context, |commands, memory| commands.fill(memory.buffers()[0].buffer(), 0, 4096, number))?;
///     frame.compute(&stream, |stream, memory| stream.fill_u32(memory.buffers()[0].slice(2048..)?, !number))?;
/// }
/// # Ok(())
/// # }
/// ```
///
/// The context is a [`HeadlessContext::new`], or one on a queue of the application ([`HeadlessContext::on_queue`]);
/// `gpu_interop::device_for(context.identity())` opens the compute device of the same hardware.
///
/// # Results
/// Vulkan uses the data that compute wrote in a third half. Hold the frame until then, and submit the third half after
/// the next frames were rendered: the queue executes in submission order, and the third half blocks it until compute
/// has completed.
///
/// Before [`acquire`](Self::acquire), hold at most one frame less than the ring has, or it times out. To have all
/// frames in flight, finish the oldest one before `acquire`, as here and in `examples/frames_in_flight.rs`:
///
/// ```no_run
/// # use std::{collections::VecDeque, time::Duration};
/// # use gpu_interop_core::{Result, Stream};
/// # use gpu_interop_vulkan::{Frame, FrameRing, HeadlessContext, OwnedBuffer};
/// # fn frames(ring: &FrameRing, context: &HeadlessContext, stream: &Stream, target: &OwnedBuffer) -> Result<()> {
/// let finish = |mut frame: Frame| -> Result<()> {
///     // `target` is a buffer of `MemoryPlacement::HostVisible`.
///     let copied = frame
///         .render(context, |commands, memory| commands.copy(memory.buffers()[0].buffer(), 0, target, 0, 4096))?;
///     copied.wait(Duration::from_secs(1))?;
///     let mut bytes = [0; 4096];
///     target.read(0, &mut bytes)
/// };
/// let mut held = VecDeque::new();
/// for number in 0..1_000 {
///     if held.len() == ring.frames() {
///         held.pop_front().map_or(Ok(()), finish)?;
///     }
///     let mut frame = ring.acquire(Duration::from_secs(1))?;
///     frame.render(context, |commands, memory| commands.fill(memory.buffers()[0].buffer(), 0, 4096, number))?;
///     frame.compute(stream, |stream, memory| stream.fill_u32(memory.buffers()[0].slice(2048..)?, !number))?;
///     held.push_back(frame);
/// }
/// held.into_iter().try_for_each(finish)?;
/// stream.synchronize()?; // returns a failure of the stream's work
/// # Ok(())
/// # }
/// ```
///
/// # Threads and drops
/// Methods may be called from any thread, and frames move between threads. Dropping the ring or its frames, in any
/// order and with work pending, frees nothing too early: the last drop waits up to a second for Vulkan's pending work,
/// and leaks the objects of a frame whose work has not completed by then. A host function must not wait: there, a
/// thread waits instead, up to a minute, if the objects keep the Vulkan device alive ([`VulkanInterop::with_owner`],
/// contexts with a device of their own).
///
/// After a lost device, [`acquire`](Self::acquire) and the halves return the driver's error, or
/// [`ErrorKind::Timeout`](gpu_interop_core::ErrorKind::Timeout) where the timeline does not show the loss.
#[derive(Debug)]
pub struct FrameRing {
    slots: Arc<Slots>,
    interop: VulkanInterop,
    device: Device,
    first: FrameSide,
    strategy: TimelineStrategy,
}

impl FrameRing {
    /// Creates the frames, imports their memory on `device`, and releases it to the compute side. Blocks until the
    /// context's queue has executed that. `device` must be on the same hardware as the context, and stays open as long
    /// as the ring or a frame lives.
    ///
    /// An application with its own device creates a context for one of its queues ([`HeadlessContext::on_queue`]),
    /// which must support transfers. The frames may be used on every queue of the device afterwards.
    ///
    /// # Errors
    /// * [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument): a number of frames of 0 or above
    ///   [`FrameRingOptions::MAX_FRAMES`].
    /// * [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported): one of the devices has no timelines, or
    ///   not with the requested strategy, or does not share such buffers or images.
    /// * Those of [`ExportableBuffer::new`](crate::ExportableBuffer::new),
    ///   [`ExportableImage::new`](crate::ExportableImage::new), the imports, and [`HeadlessContext::run`].
    pub fn new(context: &HeadlessContext, device: &Device, options: &FrameRingOptions) -> Result<Self> {
        const OPERATION: &str = "FrameRing::new";
        let interop = context.interop();
        let most = FrameRingOptions::MAX_FRAMES;
        if !(1..=most).contains(&options.frames) {
            return Err(Error::invalid(OPERATION, "the number of frames is out of range")
                .with_device(interop.identity())
                .with_context("frames", options.frames)
                .with_context("most", most));
        }
        let deadline: Arc<OnceLock<_>> = Arc::default();
        let part = |index| {
            let timeline = timeline(interop, device, options.strategy)?;
            let memory = FrameMemory::new(interop, device, options, index)?;
            Ok(Arc::new(Part::new(memory, timeline, deadline.clone())))
        };
        let parts = (0..options.frames).map(part).collect::<Result<Vec<_>>>()?;
        let strategy = parts.first().map_or(TimelineStrategy::HostBridge, |part| part.timeline.strategy());
        context.run(|recording| parts.iter().try_for_each(|part| part.memory.initialize(recording)))?;
        let (interop, device, first) = (interop.clone(), device.clone(), options.first);
        Ok(Self { slots: Arc::new(Slots::new(interop.clone(), parts)), interop, device, first, strategy })
    }

    /// Waits until a frame is free and all of its earlier work has completed, on both sides. Among several such frames,
    /// the one that was returned first is acquired.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`](gpu_interop_core::ErrorKind::Timeout) after `timeout`; the error lists the frames that
    /// the application holds and those with pending work. No frame is lost by it, and the call may be repeated.
    /// `Duration::ZERO` does not block. Otherwise the failure of a timeline, `DeviceLost`, or the failure of streams
    /// that could not signal, once every frame is lost by it ([`Frame::compute`]).
    pub fn acquire(&self, timeout: Duration) -> Result<Frame> {
        Ok(Frame::new(self.slots.clone(), self.slots.take(timeout)?, self.first))
    }

    /// Records the compute half of each frame as a graph ([`Device::record`]): `work` is called once for each frame,
    /// with a recording stream and the frame's memory. [`Frame::launch`] then enqueues it with one launch. Wait and
    /// signal of the frame are not part of the graph.
    ///
    /// # Errors
    /// Those of [`Device::record`] and `work`.
    pub fn record(&self, mut work: impl FnMut(&Stream, &FrameMemory) -> Result<()>) -> Result<FrameGraphs> {
        FrameGraphs::new(&self.slots, |memory| self.device.record(|stream| work(stream, memory)))
    }

    /// Buffers and images of each frame, by [`FrameMemory::index`].
    pub fn memory(&self) -> impl ExactSizeIterator<Item = &FrameMemory> {
        self.slots.parts.iter().map(|part| &part.memory)
    }

    /// Number of frames.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.slots.parts.len()
    }

    /// Strategy of the timelines.
    #[must_use]
    pub fn strategy(&self) -> TimelineStrategy {
        self.strategy
    }

    /// The compute device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The Vulkan device.
    #[must_use]
    pub fn interop(&self) -> &VulkanInterop {
        &self.interop
    }
}

/// A timeline of both sides, with the value 0.
fn timeline(
    interop: &VulkanInterop,
    device: &Device,
    strategy: Option<TimelineStrategy>,
) -> Result<(OwnedSemaphore, Timeline)> {
    match strategy {
        None => shared_timeline(interop, device, 0),
        Some(TimelineStrategy::HostBridge) => {
            let semaphore = OwnedSemaphore::timeline(interop, 0)?;
            let timeline = Timeline::with_strategy(device, Arc::new(semaphore.clone()), TimelineStrategy::HostBridge)?;
            Ok((semaphore, timeline))
        }
        Some(strategy) => {
            let exported = ExportableSemaphore::timeline(interop, 0)?;
            let semaphore = exported.semaphore().clone();
            Ok((semaphore, Timeline::with_strategy(device, Arc::new(exported), strategy)?))
        }
    }
}

/// One of the two sides that take turns on a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameSide {
    /// Vulkan's queues.
    Vulkan,
    /// Streams of the compute device.
    Compute,
}

impl FrameSide {
    fn other(self) -> Self {
        match self {
            Self::Vulkan => Self::Compute,
            Self::Compute => Self::Vulkan,
        }
    }
}

impl std::fmt::Display for FrameSide {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Vulkan => "Vulkan",
            Self::Compute => "compute",
        })
    }
}

/// Options of a [`FrameRing`](crate::FrameRing).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FrameRingOptions {
    /// Number of frames in flight, 1 to [`FrameRingOptions::MAX_FRAMES`].
    pub frames: usize,
    /// The side that begins each frame; Vulkan by default.
    pub first: FrameSide,
    /// The buffers of each frame.
    pub buffers: Vec<BufferOptions>,
    /// The images of each frame. The compute device maps those with optimal tiling as arrays, those with linear tiling
    /// as buffers.
    pub images: Vec<ImageOptions>,
    /// The pictures of each frame: planes in one buffer, at these places.
    pub pictures: Vec<Vec<PlaneLayout>>,
    /// Strategy of the timelines; `None` selects the fastest supported one, or that of the environment variable
    /// `GPU_INTEROP_TIMELINE`.
    pub strategy: Option<TimelineStrategy>,
}

impl FrameRingOptions {
    /// The greatest number of frames.
    pub const MAX_FRAMES: usize = 16;

    /// Options for this number of frames, which Vulkan begins, without buffers and images.
    #[must_use]
    pub fn new(frames: usize) -> Self {
        Self {
            frames,
            first: FrameSide::Vulkan,
            buffers: Vec::new(),
            images: Vec::new(),
            pictures: Vec::new(),
            strategy: None,
        }
    }

    /// Adds a buffer to each frame.
    #[must_use]
    pub fn buffer(mut self, buffer: BufferOptions) -> Self {
        self.buffers.push(buffer);
        self
    }

    /// Adds an image to each frame.
    #[must_use]
    pub fn image(mut self, image: ImageOptions) -> Self {
        self.images.push(image);
        self
    }

    /// Adds a picture with these planes to each frame, such as those of [`picture_planes`](crate::picture_planes).
    #[must_use]
    pub fn picture(mut self, planes: Vec<PlaneLayout>) -> Self {
        self.pictures.push(planes);
        self
    }
}

setters! {
    FrameRingOptions {
        /// Sets the side that begins each frame.
        first: FrameSide;
        /// Sets the strategy of the timelines.
        strategy: TimelineStrategy;
    }
}
