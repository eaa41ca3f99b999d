//! The producer's images, and the way that each takes.

use std::fmt;

use ash::vk;
use gpu_interop_core::{Device, Error, MappedPlanes, PlaneLayout, Result};

use crate::image::OwnedImage;
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
    #[cfg(unix)]
    pub(super) picture: Option<ImportedPicture>,
}

impl FeedSource {
    pub(super) fn new(
        device: &Device,
        layouts: &[PlaneLayout],
        way: Option<PictureWay>,
        image: &FeedImage<'_>,
    ) -> Result<Self> {
        let found = planes(image)?;
        let shape =
            |(plane, extent, texel): &(SourcePlane, [u32; 2], _)| (*extent, *texel, plane.image.spec().extent.depth);
        let wanted: Vec<_> = layouts.iter().map(|layout| (layout.extent, layout.texel, 1)).collect();
        if found.iter().map(shape).collect::<Vec<_>>() != wanted {
            let describe = |extent: [u32; 2], texel| format!("{} x {} of {texel}", extent[0], extent[1]);
            let list = |all: Vec<String>| all.join(", ");
            let message = "the image has other planes than the feed; create a feed of its format and extent";
            return Err(Error::invalid(OPERATION, message)
                .with_context("image", list(found.iter().map(|(_, extent, texel)| describe(*extent, *texel)).collect()))
                .with_context(
                    "feed",
                    list(layouts.iter().map(|plane| describe(plane.extent, plane.texel)).collect()),
                ));
        }
        let shared = match way {
            Some(PictureWay::Copied) => Err(Error::unsupported(OPERATION, "the options demand a copy")),
            _ => share(device, image),
        };
        let shared = match (way, shared) {
            (Some(PictureWay::Shared), Err(error)) => return Err(error),
            (_, shared) => shared,
        };
        let planes: Vec<_> = found.into_iter().map(|(plane, ..)| plane).collect();
        let usage = vk::ImageUsageFlags::TRANSFER_SRC;
        if let (Err(reason), Some(_)) = (&shared, planes.iter().find(|plane| !plane.image.spec().usage.contains(usage)))
        {
            return Err(Error::invalid(
                OPERATION,
                "the picture is copied, but its image was not created for TRANSFER_SRC",
            )
            .with_context("not shared because", reason.message()));
        }
        let copied_bytes = match shared {
            Ok(_) => 0,
            Err(_) => layouts.iter().filter_map(PlaneLayout::size).fold(0, u64::saturating_add),
        };
        Ok(Self {
            planes,
            shared,
            copied_bytes,
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

type Found = (SourcePlane, [u32; 2], gpu_interop_core::ArrayFormat);

/// The planes of an image, with extent and texel of each.
fn planes(image: &FeedImage<'_>) -> Result<Vec<Found>> {
    let whole = |image: &OwnedImage| {
        let vk::Extent3D { width, height, .. } = image.spec().extent;
        let plane = SourcePlane { image: image.clone(), aspect: vk::ImageAspectFlags::COLOR };
        (plane, [width, height], image.format().array)
    };
    match image {
        FeedImage::Image(image) => Ok(vec![whole(image)]),
        FeedImage::Video(video) => {
            let format = video.spec().format;
            let plane = |plane| {
                let (image, aspect) = video.image_of(OPERATION, plane)?;
                let extent = format.plane_extent(plane, video.spec().extent);
                Ok((SourcePlane { image: image.clone(), aspect }, extent, format.texel(plane)))
            };
            (0..video.planes()).map(plane).collect()
        }
        #[cfg(unix)]
        FeedImage::Picture(picture) => match picture.video_format() {
            None => Ok(vec![whole(picture.image())]),
            Some(format) => {
                let vk::Extent3D { width, height, .. } = picture.image().spec().extent;
                let plane = |plane| {
                    let aspect = picture.plane_aspect(plane)?;
                    let extent = format.plane_extent(plane, [width, height]);
                    Ok((SourcePlane { image: picture.image().clone(), aspect }, extent, format.texel(plane)))
                };
                (0..picture.planes()).map(plane).collect()
            }
        },
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
