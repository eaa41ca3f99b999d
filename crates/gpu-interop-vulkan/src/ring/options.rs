//! Options of a ring.

use gpu_interop_core::TimelineStrategy;

use crate::export::BufferOptions;
use crate::image::ImageOptions;

/// One of the two sides that take turns on a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameSide {
    /// Vulkan's queues.
    Vulkan,
    /// Streams of the compute device.
    Compute,
}

impl FrameSide {
    pub(super) fn other(self) -> Self {
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
        Self { frames, first: FrameSide::Vulkan, buffers: Vec::new(), images: Vec::new(), strategy: None }
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
}

setters! {
    FrameRingOptions {
        /// Sets the side that begins each frame.
        first: FrameSide;
        /// Sets the strategy of the timelines.
        strategy: TimelineStrategy;
    }
}
