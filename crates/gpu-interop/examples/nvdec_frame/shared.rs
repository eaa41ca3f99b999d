//! The NV12 image of Vulkan that decoded pictures are copied to, and what Vulkan reads of it.

use std::error::Error;
use std::time::Duration;

use gpu_interop::vulkan::ash::vk::{BufferUsageFlags, ImageTiling, ImageUsageFlags};
use gpu_interop::vulkan::{
    ExportableVideo, HeadlessContext, MemoryPlacement, OwnedBuffer, OwnedSemaphore, SemaphoreOp, VideoOptions,
    VideoSpec, shared_timeline,
};
use gpu_interop::{
    ErrorKind, MappedMipmappedArray, MappedPlanes, PitchedTexels, PlaneLayout, Stream, Timeline, VideoFormat,
};

use crate::decoder::{Gpu, Picture};
use crate::note;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const PATIENCE: Duration = Duration::from_secs(10);

/// The image's planes on the compute side.
enum Planes {
    /// Of optimal tiling: one copy for each plane.
    Arrays(Vec<MappedMipmappedArray>),
    /// Of linear tiling: one copy for each row, because the decoder's pitch differs from the image's.
    Rows(MappedPlanes),
}

impl Planes {
    fn copy_from(&self, stream: &Stream, picture: &Picture) -> Result<()> {
        for (plane, from) in picture.planes.iter().enumerate() {
            match self {
                Self::Arrays(arrays) => {
                    let end = from.end().ok_or("a plane has an end")?;
                    let texels = picture.memory.slice(from.offset..end)?;
                    let texels = PitchedTexels::new(texels, from.pitch, from.extent[1].into());
                    stream.copy_to_array(arrays[plane].level(0)?, texels)?;
                }
                Self::Rows(planes) => {
                    for row in 0..from.extent[1] {
                        let start = from.row(row).ok_or("a plane has its rows")?;
                        let texels = picture.memory.slice(start..start + from.row_size())?;
                        stream.copy(planes.row(plane, row)?, texels)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The image, and a timeline for each direction: value n is the hand-over of picture n, from 1 on.
pub(crate) struct Shared<'a> {
    vulkan: &'a HeadlessContext,
    stream: &'a Stream,
    video: ExportableVideo,
    planes: Planes,
    /// The tightly packed planes, for the host.
    seen: OwnedBuffer,
    layouts: Vec<PlaneLayout>,
    released: (OwnedSemaphore, Timeline),
    decoded: (OwnedSemaphore, Timeline),
    value: u64,
}

impl<'a> Shared<'a> {
    /// Creates an image of optimal tiling, or of linear tiling if `linear` is set or arrays are unsupported.
    pub(crate) fn new(vulkan: &'a HeadlessContext, gpu: &'a Gpu, extent: [u32; 2], linear: bool) -> Result<Self> {
        let usage = ImageUsageFlags::TRANSFER_SRC | ImageUsageFlags::TRANSFER_DST | ImageUsageFlags::SAMPLED;
        let spec = VideoSpec::new(VideoFormat::Nv12, extent, usage);
        let video = |tiling| ExportableVideo::new(vulkan.interop(), &VideoOptions::new(spec.tiling(tiling)));
        let optimal = || {
            let video = video(ImageTiling::OPTIMAL)?;
            let arrays = video.map_arrays(&gpu.device)?;
            Ok((video, Planes::Arrays(arrays)))
        };
        let rows = || {
            let video = video(ImageTiling::LINEAR)?;
            let planes = video.map(&gpu.device)?;
            Ok((video, Planes::Rows(planes)))
        };
        let made: gpu_interop::Result<_> = if linear { rows() } else { optimal() };
        let (video, planes) = match made {
            Err(error) if !linear && error.kind() == ErrorKind::Unsupported => {
                note(format_args!("linear tiling: {error}"));
                rows()?
            }
            made => made?,
        };
        let layouts = VideoFormat::Nv12.layout(0, extent, 1, 4)?;
        let size = layouts.last().and_then(PlaneLayout::end).ok_or("a picture has planes")?;
        let usage = BufferUsageFlags::TRANSFER_DST;
        let seen = OwnedBuffer::new(vulkan.interop(), size, usage, MemoryPlacement::HostVisible)?;
        let timeline = || shared_timeline(vulkan.interop(), &gpu.device, 0);
        let shared = Self {
            vulkan,
            stream: &gpu.stream,
            video,
            planes,
            seen,
            layouts,
            released: timeline()?,
            decoded: timeline()?,
            value: 1,
        };
        vulkan.submit(&[], &[SemaphoreOp { semaphore: &shared.released.0, value: 1 }], |commands| {
            commands.initialize_video(&shared.video)?;
            commands.release_video(&shared.video)
        })?;
        Ok(shared)
    }

    /// The tiling and the timelines, in words.
    pub(crate) fn describe(&self) -> String {
        let tiling = if matches!(self.planes, Planes::Arrays(_)) { "optimal" } else { "linear" };
        format!("{tiling} tiling, timelines by strategy {}", self.decoded.1.strategy())
    }

    /// Copies a picture to the image, and returns its NV12 bytes as Vulkan reads them there.
    pub(crate) fn show(&mut self, picture: &Picture) -> Result<Vec<u8>> {
        let value = self.value;
        self.stream.wait_timeline(&self.released.1, value)?;
        self.planes.copy_from(self.stream, picture)?;
        self.stream.signal_timeline(&self.decoded.1, value)?;
        let (after, next) = (&self.decoded.0, &self.released.0);
        let copied = self.vulkan.submit(
            &[SemaphoreOp { semaphore: after, value }],
            &[SemaphoreOp { semaphore: next, value: value + 1 }],
            |commands| {
                commands.acquire_video(&self.video)?;
                for (plane, layout) in self.layouts.iter().enumerate() {
                    commands.copy_from_plane(&self.video, plane, &self.seen, layout.offset)?;
                }
                commands.release_video(&self.video)
            },
        )?;
        self.value += 1;
        copied.wait(PATIENCE)?;
        let mut bytes = Vec::new();
        for layout in &self.layouts {
            let mut plane = vec![0; usize::try_from(layout.size().ok_or("a plane has a size")?)?];
            self.seen.read(layout.offset, &mut plane)?;
            bytes.append(&mut plane);
        }
        Ok(bytes)
    }
}
