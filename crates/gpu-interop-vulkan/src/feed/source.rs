//! The producer's images, and the way that each takes.

use std::fmt;
use std::sync::Arc;

use ash::vk;
use gpu_interop_core::{ArrayFormat, Device, Error, MappedPlanes, PlaneLayout, Result, VideoFormat};

use super::{PictureFeed, PictureFeedOptions};
use crate::format::{ChannelOrder, TexelFormat};
use crate::image::OwnedImage;
use crate::interop::VulkanInterop;
#[cfg(unix)]
use crate::picture::ImportedPicture;
use crate::video::ExportableVideo;

const OPERATION: &str = "PictureFeed::source";

/// The way of a picture to the compute device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PictureWay {
    /// The compute device reads the producer's memory.
    Shared,
    /// A queue of Vulkan copies the planes to memory that the compute device shares.
    Copied,
}

impl fmt::Display for PictureWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Shared => "shared",
            Self::Copied => "copied",
        })
    }
}

/// An image that [`PictureFeed::source`](crate::PictureFeed::source) takes.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum FeedImage<'a> {
    /// An image of one plane: level 0 of layer 0 is passed.
    Image(&'a OwnedImage),
    /// Images of the planes.
    Video(&'a ExportableVideo),
    /// A picture on dma-bufs.
    #[cfg(unix)]
    Picture(&'a ImportedPicture),
}

impl<'a> From<&'a OwnedImage> for FeedImage<'a> {
    fn from(image: &'a OwnedImage) -> Self {
        Self::Image(image)
    }
}

impl<'a> From<&'a ExportableVideo> for FeedImage<'a> {
    fn from(video: &'a ExportableVideo) -> Self {
        Self::Video(video)
    }
}

#[cfg(unix)]
impl<'a> From<&'a ImportedPicture> for FeedImage<'a> {
    fn from(picture: &'a ImportedPicture) -> Self {
        Self::Picture(picture)
    }
}

/// An image plane to copy.
#[derive(Debug, Clone)]
pub(super) struct SourcePlane {
    pub(super) image: OwnedImage,
    pub(super) aspect: vk::ImageAspectFlags,
}

/// An image of the producer, with the way that its frames take.
#[derive(Debug)]
pub struct FeedSource {
    pub(super) planes: Vec<SourcePlane>,
    /// The imported planes, or why there are none.
    shared: Result<MappedPlanes, Error>,
    copied_bytes: u64,
    /// The mark of its feed.
    feed: Arc<()>,
    #[cfg(unix)]
    pub(super) picture: Option<ImportedPicture>,
}

impl FeedSource {
    pub(super) fn new(feed: &PictureFeed, image: &FeedImage<'_>) -> Result<Self> {
        let PictureFeed { device, planes: layouts, options, mark, .. } = feed;
        let (found, wanted) = (Shape::of(image)?, Shape::of_options(options)?);
        if found != wanted {
            let message = "the image has another format or extent than the feed; create a feed for it";
            return Err(Error::invalid(OPERATION, message).with_context("image", found).with_context("feed", wanted));
        }
        let shared = match options.way {
            Some(PictureWay::Copied) => Err(Error::unsupported(OPERATION, "the options demand a copy")),
            Some(PictureWay::Shared) => Ok(share(device, image)?),
            None => share(device, image),
        };
        let planes = planes(image)?;
        let copied_bytes = match &shared {
            Ok(_) => 0,
            Err(reason) => {
                let usage = vk::ImageUsageFlags::TRANSFER_SRC;
                if planes.iter().any(|plane| !plane.image.spec().usage.contains(usage)) {
                    let message = "the picture is copied, but its image was not created for TRANSFER_SRC";
                    return Err(Error::invalid(OPERATION, message).with_context("not shared because", reason.message()));
                }
                layouts.iter().filter_map(PlaneLayout::size).fold(0, u64::saturating_add)
            }
        };
        Ok(Self {
            planes,
            shared,
            copied_bytes,
            feed: mark.clone(),
            #[cfg(unix)]
            picture: match image {
                FeedImage::Picture(picture) => Some((*picture).clone()),
                _ => None,
            },
        })
    }

    /// The way of its frames.
    #[must_use]
    pub fn way(&self) -> PictureWay {
        match self.shared {
            Ok(_) => PictureWay::Shared,
            Err(_) => PictureWay::Copied,
        }
    }

    /// Why the picture takes its way, for logs.
    #[must_use]
    pub fn reason(&self) -> &str {
        match &self.shared {
            Ok(_) => "the compute device has imported the dma-bufs",
            Err(error) => error.message(),
        }
    }

    /// Bytes that a queue of Vulkan copies for each frame; 0 for a shared picture.
    #[must_use]
    pub fn copied_bytes(&self) -> u64 {
        self.copied_bytes
    }

    /// `true` if the feed with this mark took the source.
    pub(super) fn is_of(&self, mark: &Arc<()>) -> bool {
        Arc::ptr_eq(&self.feed, mark)
    }

    /// The images, each once.
    pub(super) fn images(&self) -> impl Iterator<Item = &OwnedImage> {
        let of_first = |(index, plane): &(usize, &SourcePlane)| {
            self.planes.iter().position(|other| other.image.as_raw() == plane.image.as_raw()) == Some(*index)
        };
        self.planes.iter().enumerate().filter(of_first).map(|(_, plane)| &plane.image)
    }

    /// The planes in the producer's memory.
    pub(super) fn planes(&self) -> Option<&MappedPlanes> {
        self.shared.as_ref().ok()
    }
}

/// Format and extent of a picture. Encodings, such as sRGB, are not distinguished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    texels: Texels,
    /// Width, height, depth.
    extent: [u32; 3],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Texels {
    One(ArrayFormat, ChannelOrder),
    Planes(VideoFormat),
}

impl Texels {
    fn of(format: TexelFormat) -> Self {
        Self::One(format.array, format.order)
    }
}

impl Shape {
    fn of_options(options: &PictureFeedOptions) -> Result<Self> {
        let texels = match VideoFormat::from_vulkan_number(options.format.as_raw()) {
            Some(video) => Texels::Planes(video),
            None => Texels::of(TexelFormat::from_vulkan(options.format)?),
        };
        let [width, height] = options.extent;
        Ok(Self { texels, extent: [width, height, 1] })
    }

    fn of(image: &FeedImage<'_>) -> Result<Self> {
        let texels = match image {
            FeedImage::Image(image) if image.spec().query().is_planar() => {
                let message =
                    "the image has several planes; pass the ImportedPicture or the ExportableVideo that it is of";
                return Err(Error::invalid(OPERATION, message));
            }
            FeedImage::Image(image) => Texels::of(image.format()),
            FeedImage::Video(video) => {
                let [width, height] = video.spec().extent;
                return Ok(Self { texels: Texels::Planes(video.spec().format), extent: [width, height, 1] });
            }
            #[cfg(unix)]
            FeedImage::Picture(picture) => match picture.video_format() {
                Some(video) => Texels::Planes(video),
                None => Texels::of(picture.image().format()),
            },
        };
        let vk::Extent3D { width, height, depth } = image.first().spec().extent;
        Ok(Self { texels, extent: [width, height, depth] })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [width, height, depth] = self.extent;
        write!(f, "{width} x {height} x {depth} of ")?;
        match self.texels {
            Texels::One(array, order) => write!(f, "{array}, {order:?}"),
            Texels::Planes(video) => write!(f, "{video}"),
        }
    }
}

impl FeedImage<'_> {
    /// The image of the first plane.
    fn first(&self) -> &OwnedImage {
        match self {
            Self::Image(image) => image,
            Self::Video(video) => video.first_image(),
            #[cfg(unix)]
            Self::Picture(picture) => picture.image(),
        }
    }

    pub(super) fn interop(&self) -> &VulkanInterop {
        self.first().interop()
    }
}

/// The planes of an image, in the order of its format.
fn planes(image: &FeedImage<'_>) -> Result<Vec<SourcePlane>> {
    let plane = |image: &OwnedImage, aspect| SourcePlane { image: image.clone(), aspect };
    match image {
        FeedImage::Image(image) => Ok(vec![plane(image, vk::ImageAspectFlags::COLOR)]),
        FeedImage::Video(video) => {
            let all = (0..video.planes()).map(|index| video.image_of(OPERATION, index));
            all.map(|found| found.map(|(image, aspect)| plane(image, aspect))).collect()
        }
        #[cfg(unix)]
        FeedImage::Picture(picture) => {
            (0..picture.planes()).map(|index| Ok(plane(picture.image(), picture.plane_aspect(index)?))).collect()
        }
    }
}

/// Imports the memory of a picture on the compute device, or says why that cannot be.
fn share(device: &Device, image: &FeedImage<'_>) -> Result<MappedPlanes> {
    match image {
        #[cfg(unix)]
        FeedImage::Picture(picture) => super::shared::import(device, picture),
        _ => {
            let _ = device;
            Err(Error::unsupported(OPERATION, "only pictures on dma-bufs are shared, because their layout is known"))
        }
    }
}
