//! Pictures on their way from Vulkan to a compute device.

mod copies;
mod layout;
#[cfg(unix)]
mod shared;
mod source;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ash::vk;
use gpu_interop_core::sync::lock;
use gpu_interop_core::{Device, Error, MappedPlanes, PlaneLayout, Result, Stream, TimelineStrategy};

use crate::context::{HeadlessContext, SemaphoreOp};
use crate::interop::VulkanInterop;
use crate::ring::{Frame, FrameRing, FrameRingOptions, FrameSide};
use crate::tracking::State;

pub use self::layout::picture_planes;
pub(crate) use self::layout::planes_size;
pub use self::source::{FeedImage, FeedSource, PictureWay};

/// Passes pictures to a compute device, as linear planes: without a copy where the compute device imports their dma-bufs,
/// otherwise by a copy on a queue of Vulkan. The host copies nothing and waits for nothing but a free frame.
///
/// ```no_run
/// # use gpu_interop_core::{Device, Result};
/// # use gpu_interop_vulkan::ash::vk::Format;
/// # use gpu_interop_vulkan::{FeedFences, HeadlessContext, OwnedImage, PictureFeed, PictureFeedOptions, PictureWay};
/// # fn frames(context: &HeadlessContext, device: &Device, image: &OwnedImage) -> Result<()> {
/// let options = PictureFeedOptions::new(Format::R8G8B8A8_UNORM, [3840, 2160]);
/// let feed = PictureFeed::new(device, &options)?;
/// let source = feed.source(context, image)?; // once for each image of the producer
/// if source.way() == PictureWay::Copied {
///     println!("{} bytes are copied for each frame: {}", source.copied_bytes(), source.reason());
/// }
/// let stream = device.create_stream()?;
/// for _ in 0..1_000 {
///     // The producer has written the image, or `FeedFences::waits` has its semaphore.
///     feed.to_compute(context, &source, &FeedFences::default(), &stream, |stream, planes| {
///         let rows = planes.slice(0)?;
///         // Kernels on the rows, at the pitch of `planes.layout(0)`.
///         # stream.fill_u32(rows, 0)?;
///         Ok(())
///     })?;
/// }
/// stream.synchronize()
/// # }
/// ```
///
/// # Ways
/// * [`PictureWay::Shared`]: the compute device reads the producer's memory. An [`ImportedPicture`](crate::ImportedPicture)
///   with the modifier `LINEAR` goes this way if the compute device imports dma-bufs
///   ([`MemoryHandleKind::DmaBufFd`](gpu_interop_core::MemoryHandleKind::DmaBufFd), as NVIDIA's embedded systems do), or if
///   it is an AMD GPU whose own driver produced the picture.
/// * [`PictureWay::Copied`]: everything else. Each frame in flight has a shared buffer, to which the context's queue copies
///   the planes. A [`QueueKind::TransferOnly`](crate::QueueKind::TransferOnly) queue copies beside the work of others.
///
/// [`FeedSource::way`] tells which one a picture takes, and [`FeedSource::reason`] why.
/// [`PictureFeedOptions::way`] demands one.
///
/// # Order and fences
/// [`FeedFences`] has the semaphores of the producer: those that the queue waits for before it reads the image, and those
/// that it signals once the image may be written again. An image that the other side owns, such as an imported one, is
/// acquired before the copy and released after it. Work on the planes follows the copy, and the next copy into the same
/// frame follows that work.
///
/// The context's queue family owns the images that it copies. For an image of another queue family, transfer the ownership
/// first; between two queues, pass semaphores.
///
/// # Threads and drops
/// As [`FrameRing`]. Sources keep their images, and enqueued work keeps the planes that it uses.
#[derive(Debug)]
pub struct PictureFeed {
    device: Device,
    options: PictureFeedOptions,
    planes: Vec<PlaneLayout>,
    /// Frames with a buffer each, for copies. Created for the first picture that is copied.
    copies: Mutex<Option<Arc<FrameRing>>>,
    /// Frames without memory, for pictures that are shared.
    shared: Mutex<Option<Arc<FrameRing>>>,
    /// Its address identifies the feed.
    mark: Arc<()>,
}

/// Options of a [`PictureFeed`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PictureFeedOptions {
    /// Format of the images: one of [`TexelFormat`](crate::TexelFormat), or the multi-planar one of a
    /// [`VideoFormat`](gpu_interop_core::VideoFormat).
    pub format: vk::Format,
    /// Width and height, texels.
    pub extent: [u32; 2],
    /// Number of frames in flight, 1 to [`FrameRingOptions::MAX_FRAMES`]; 3 by default.
    ///
    /// On an H200, 3 frames of 3840x2160 reach 0.96 (NV12) to 0.99 (RGBA8) of the rate of the transfer queue's copies alone.
    pub frames: usize,
    /// The way of all pictures; `None` shares the ones that can be shared, and copies the others.
    pub way: Option<PictureWay>,
    /// Longest wait for a free frame; a second by default.
    pub timeout: Duration,
    /// Strategy of the timelines, as [`FrameRingOptions::strategy`].
    pub strategy: Option<TimelineStrategy>,
}

impl PictureFeedOptions {
    /// Options for images of a format and an extent, texels.
    #[must_use]
    pub fn new(format: vk::Format, extent: [u32; 2]) -> Self {
        Self { format, extent, frames: 3, way: None, timeout: Duration::from_secs(1), strategy: None }
    }
}

setters! {
    PictureFeedOptions {
        /// Sets the number of frames in flight.
        frames: usize;
        /// Sets the way of all pictures.
        way: PictureWay;
        /// Sets the longest wait for a free frame.
        timeout: Duration;
        /// Sets the strategy of the timelines.
        strategy: TimelineStrategy;
    }
}

/// The producer's semaphores of one frame of a [`PictureFeed`].
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct FeedFences<'a> {
    /// What the queue waits for before it reads the image.
    pub waits: &'a [SemaphoreOp<'a>],
    /// What the queue signals once the image has been read: after the copy, or, if the picture is shared, after the work of
    /// the stream.
    pub signals: &'a [SemaphoreOp<'a>],
    /// `true` for the implicit fences of the dma-bufs.
    pub implicit: bool,
}

impl<'a> FeedFences<'a> {
    /// Semaphores to wait for, and semaphores to signal.
    #[must_use]
    pub fn new(waits: &'a [SemaphoreOp<'a>], signals: &'a [SemaphoreOp<'a>]) -> Self {
        Self { waits, signals, implicit: false }
    }

    /// The implicit fences of an [`ImportedPicture`](crate::ImportedPicture)'s dma-bufs: the copy waits for their writers, and
    /// later writers wait for the copy. Needs a source that is copied ([`PictureFeedOptions::way`]): a compute device has no
    /// fences that the kernel knows.
    #[must_use]
    pub fn implicit() -> Self {
        Self { implicit: true, ..Self::default() }
    }
}

impl PictureFeed {
    /// Prepares a feed for images of one format and extent. The frames and their memory are created with the first source
    /// that needs them.
    ///
    /// # Errors
    /// * [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument): an extent of 0.
    /// * [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported): the format has no linear planes.
    pub fn new(device: &Device, options: &PictureFeedOptions) -> Result<Self> {
        let planes = picture_planes(options.format, options.extent)?;
        let (copies, shared, mark) = Default::default();
        Ok(Self { device: device.clone(), options: options.clone(), planes, copies, shared, mark })
    }

    /// Takes an image of the producer: an [`OwnedImage`](crate::OwnedImage), an
    /// [`ImportedPicture`](crate::ImportedPicture) or an [`ExportableVideo`](crate::ExportableVideo) of the context's device,
    /// which is on the same hardware as the compute device. Decides the way of its frames. To share a picture, its dma-bufs
    /// are imported on the compute device here; the source keeps duplicates of the descriptors.
    ///
    /// The first source of each way creates the frames. That blocks until the context's queue has executed their release.
    ///
    /// # Errors
    /// * [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument): other planes than those of the feed's
    ///   format and extent; an image to copy without `TRANSFER_SRC`; an image or, after the first source, a context of another
    ///   device.
    /// * With [`PictureFeedOptions::way`] of [`PictureWay::Shared`], the reason why the picture is not shared.
    /// * Those of [`FrameRing::new`].
    pub fn source<'a>(&self, context: &HeadlessContext, image: impl Into<FeedImage<'a>>) -> Result<FeedSource> {
        const OPERATION: &str = "PictureFeed::source";
        let image = image.into();
        let is_of = |interop: &VulkanInterop| interop.is_same_device(context.interop());
        let foreign = |message| Err(Error::invalid(OPERATION, message).with_device(context.identity()));
        if !is_of(image.interop()) {
            return foreign("the image belongs to another device than the context; import it there first");
        }
        let source = FeedSource::new(self, &image)?;
        let ring = match source.way() {
            PictureWay::Copied => self.copies(context)?,
            PictureWay::Shared => self.shared(context)?,
        };
        if is_of(ring.interop()) {
            return Ok(source);
        }
        foreign("the feed's earlier sources belong to another device; create a feed for each device")
    }

    /// Passes one frame: acquires a free frame of the feed, submits the copy behind the producer's fences, makes `stream` wait
    /// for it, and calls `work` with the planes. Work that `work` enqueues on `stream` runs after the copy. Later frames leave
    /// the planes unchanged until that work has completed. Blocks only until a frame is free; otherwise as
    /// [`Frame::compute`](crate::Frame::compute), also if `work` fails.
    ///
    /// # Errors
    /// * [`ErrorKind::Timeout`](gpu_interop_core::ErrorKind::Timeout) if no frame becomes free in
    ///   [`PictureFeedOptions::timeout`]. Nothing is submitted.
    /// * [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument): a source of another feed; implicit
    ///   fences of an image without dma-bufs or of a shared one, or beside semaphores; a shared picture whose image was not
    ///   released. Nothing is submitted.
    /// * Those of [`HeadlessContext::submit`] and [`ImportedPicture::fences`](crate::ImportedPicture::fences): nothing is
    ///   submitted. Those of [`ImportedPicture::add_fence`](crate::ImportedPicture::add_fence): the copy is submitted without
    ///   work of the stream, and the dma-buf has no fence of it.
    /// * Those of [`Frame::compute`](crate::Frame::compute), and of `work`. The producer's semaphores are signalled.
    /// * Of a shared picture also those of the signals, after the work was enqueued.
    #[doc(alias("vkCmdCopyImageToBuffer", "vkQueueSubmit"))]
    pub fn to_compute<T>(
        &self,
        context: &HeadlessContext,
        source: &FeedSource,
        fences: &FeedFences<'_>,
        stream: &Stream,
        work: impl FnOnce(&Stream, &MappedPlanes) -> Result<T>,
    ) -> Result<T> {
        const OPERATION: &str = "PictureFeed::to_compute";
        if fences.implicit && !(fences.waits.is_empty() && fences.signals.is_empty()) {
            let message =
                "implicit fences are passed without semaphores; pass FeedFences::implicit(), or the semaphores";
            return Err(Error::invalid(OPERATION, message));
        }
        if !source.is_of(&self.mark) {
            return Err(Error::invalid(
                OPERATION,
                "the source was taken by another feed; pass one of PictureFeed::source",
            ));
        }
        if let Some(planes) = source.planes() {
            if fences.implicit {
                let message = "a shared picture has no implicit fences of the compute device; set PictureFeedOptions::way to Copied";
                return Err(Error::invalid(OPERATION, message));
            }
            if source.images().any(|image| image.ownership().get() != State::External) {
                let message =
                    "the picture belongs to this device; release its image before the compute device reads it";
                return Err(Error::invalid(OPERATION, message));
            }
            let mut frame = self.shared(context)?.acquire(self.options.timeout)?;
            frame.render_between(context, fences.waits, &[], |_, _| Ok(()))?;
            let mut release = Release { frame, context, signals: fences.signals };
            let outcome = release.frame.compute(stream, |stream, _| {
                planes.memories().iter().try_for_each(|memory| stream.keep(memory))?;
                work(stream, planes)
            });
            let signalled = release.send();
            return outcome.and_then(|value| signalled.map(|()| value));
        }
        let mut frame = self.copies(context)?.acquire(self.options.timeout)?;
        if fences.implicit {
            copies::copy_between_implicit_fences(context, source, &mut frame)?;
        } else {
            copies::copy(context, source, &mut frame, fences.waits, fences.signals)?;
        }
        frame.compute(stream, |stream, memory| match memory.pictures().first() {
            Some(picture) => work(stream, picture.planes()),
            None => Err(Error::invalid(OPERATION, "the frame has no picture")),
        })
    }

    /// The frames of copies.
    fn copies(&self, context: &HeadlessContext) -> Result<Arc<FrameRing>> {
        self.ring(context, &self.copies, |options| options.picture(self.planes.clone()))
    }

    /// The frames of shared pictures.
    fn shared(&self, context: &HeadlessContext) -> Result<Arc<FrameRing>> {
        self.ring(context, &self.shared, |options| options)
    }

    /// A ring, created at its first use.
    fn ring(
        &self,
        context: &HeadlessContext,
        ring: &Mutex<Option<Arc<FrameRing>>>,
        with: impl FnOnce(FrameRingOptions) -> FrameRingOptions,
    ) -> Result<Arc<FrameRing>> {
        let mut ring = lock(ring);
        if let Some(ring) = &*ring {
            return Ok(ring.clone());
        }
        let options =
            FrameRingOptions { strategy: self.options.strategy, ..FrameRingOptions::new(self.options.frames) };
        let created = Arc::new(FrameRing::new(context, &self.device, &with(options))?);
        Ok(ring.insert(created).clone())
    }

    /// Layout of each plane of a copy: what [`picture_planes`] returns for the format.
    #[must_use]
    pub fn planes(&self) -> &[PlaneLayout] {
        &self.planes
    }

    /// The compute device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }
}

/// A frame of a shared picture, whose producer gets its signals also after an error or a panic of the work.
struct Release<'a> {
    frame: Frame,
    context: &'a HeadlessContext,
    /// Those that are not submitted yet.
    signals: &'a [SemaphoreOp<'a>],
}

impl Release<'_> {
    /// Submits the signals, behind the work if it was enqueued.
    fn send(&mut self) -> Result<()> {
        let signals = std::mem::take(&mut self.signals);
        if signals.is_empty() {
            return Ok(());
        }
        let submitted = match self.frame.turn() {
            FrameSide::Vulkan => self.frame.render_between(self.context, &[], signals, |_, _| Ok(())),
            FrameSide::Compute => self.context.submit(&[], signals, |_| Ok(())),
        };
        submitted.map(drop)
    }
}

impl Drop for Release<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.send() {
            tracing::error!(%error, "the producer of a picture gets no signal");
        }
    }
}
