//! The import of a picture: checks of the device, then the image.

use std::os::fd::AsFd;

use ash::vk;
use gpu_interop_core::format::DmaBufPicture;
use gpu_interop_core::{Error, ErrorKind, MemoryHandleKind, Result, VideoFormat};

use super::format::PictureFormat;
use super::modifiers::{of_dma_bufs, picture_spec};
use super::{ImportedPicture, MemoryPlane, ModifierSupport, PictureOptions, Producer, functions, layout, list};
use crate::identity::has_extension;
use crate::image::OwnedImage;
use crate::image::picture::{Object, PictureImage};
use crate::interop::VulkanInterop;

const OPERATION: &str = "ImportedPicture::new";

/// An imported picture without its descriptors.
pub(super) struct Imported {
    image: OwnedImage,
    video: Option<VideoFormat>,
    producer: Producer,
    memory_planes: Vec<MemoryPlane>,
}

impl Imported {
    /// Keeps a descriptor of each dma-buf.
    pub(super) fn own(self, picture: DmaBufPicture) -> ImportedPicture {
        let Self { image, video, producer, memory_planes } = self;
        let mut dma_bufs = Vec::new();
        for (plane, place) in picture.planes.into_iter().zip(&memory_planes) {
            // Indices are in the order of the first planes.
            if place.object == dma_bufs.len() {
                dma_bufs.push(plane.fd);
            }
        }
        let (code, modifier) = (picture.format, picture.modifier);
        ImportedPicture { image, code, modifier, video, producer, memory_planes, dma_bufs: dma_bufs.into() }
    }
}

/// Adds the picture to an error.
pub(super) fn describe(error: Error, interop: &VulkanInterop, picture: &DmaBufPicture) -> Error {
    error
        .with_device(interop.identity())
        .with_context("format", picture.format)
        .with_context("modifier", picture.modifier)
        .with_context("extent", format_args!("{} x {}", picture.extent[0], picture.extent[1]))
}

pub(super) fn import(interop: &VulkanInterop, picture: &DmaBufPicture, options: &PictureOptions) -> Result<Imported> {
    let format = PictureFormat::new(OPERATION, picture.format, options.format)?;
    layout::check_description(OPERATION, picture, &format)?;
    let no_flags = vk::ImageCreateFlags::empty();
    picture_spec(picture.extent, format.vulkan, options.usage, no_flags).query().check(OPERATION, true)?;
    let modifier = modifier(interop, picture, &format, options)?;
    let objects = picture.objects()?;
    layout::check_planes(OPERATION, picture, &format, &objects)?;

    let disjoint = objects.iter().any(|object| object.index > 0);
    if disjoint && !modifier.features.contains(vk::FormatFeatureFlags::DISJOINT) {
        let message = "the planes are in several dma-bufs, which the device does not import as one image with this format and \
                       modifier; import each plane as a picture of its own (DmaBufPicture::into_planes)";
        return Err(
            Error::unsupported(OPERATION, message).with_context("features", format_args!("{:?}", modifier.features))
        );
    }
    let flags = if disjoint { vk::ImageCreateFlags::DISJOINT } else { no_flags };
    let spec = picture_spec(picture.extent, format.vulkan, options.usage, flags);
    let kind = MemoryHandleKind::DmaBufFd;
    let (features, limits) = interop.image_support_with(kind, &spec.query(), Some(picture.modifier.0))?;
    if !features.importable {
        let message = "the device does not import such an image as a dma-buf; use another modifier of \
                       VulkanInterop::picture_modifiers, or omit a usage";
        return Err(Error::unsupported(OPERATION, message));
    }
    if picture.extent[0] > limits.max_extent.width || picture.extent[1] > limits.max_extent.height {
        let limit = format!("{} x {}", limits.max_extent.width, limits.max_extent.height);
        let message = "the device has no such image with so large an extent; import a scaled picture";
        return Err(Error::unsupported(OPERATION, message).with_context("limit", limit));
    }
    functions(interop, OPERATION)?;
    let layouts: Vec<_> = picture
        .planes
        .iter()
        .map(|plane| vk::SubresourceLayout { offset: plane.offset, row_pitch: plane.pitch, ..Default::default() })
        .collect();
    let image = PictureImage {
        operation: OPERATION,
        interop,
        spec: &spec,
        texel: format.texel,
        modifier: picture.modifier.0,
        layouts: &layouts,
        other_family: other_family(interop, options.producer)?,
    };
    let files: Vec<Object<'_>> =
        picture.planes.iter().zip(&objects).map(|(plane, object)| (plane.fd.as_fd(), object.size)).collect();
    let dedicated = features.dedicated_only || picture.planes.iter().any(|plane| plane.dedicated);
    let image = match files.first() {
        Some(_) if disjoint && dedicated => {
            let message = "the device, or the dedicated flag of a plane, demands a dedicated allocation, which Vulkan forbids for \
                           planes in several dma-bufs; import each plane as a picture of its own (DmaBufPicture::into_planes)";
            return Err(Error::unsupported(OPERATION, message));
        }
        Some(_) if disjoint => image.disjoint(&files)?,
        Some(file) => image.joint(*file, dedicated)?,
        // `check_description` has rejected it.
        None => return Err(Error::invalid(OPERATION, "the picture has no plane")),
    };
    let planes = picture.planes.iter().zip(&objects).map(|(plane, object)| MemoryPlane {
        object: object.index,
        offset: plane.offset,
        pitch: plane.pitch,
        dedicated: plane.dedicated,
    });
    Ok(Imported { image, video: format.video, producer: options.producer, memory_planes: planes.collect() })
}

/// The device's support for the picture's modifier, if it has the usage and the number of planes.
fn modifier(
    interop: &VulkanInterop,
    picture: &DmaBufPicture,
    format: &PictureFormat,
    options: &PictureOptions,
) -> Result<ModifierSupport> {
    let known = of_dma_bufs(interop, OPERATION, format.vulkan)?;
    let Some(found) = known.iter().find(|known| known.modifier == picture.modifier) else {
        let message = if format.video.is_some() {
            "the device does not list the modifier for this format; have the producer allocate with one that it lists, or import \
             each plane as a picture of its own (DmaBufPicture::into_planes)"
        } else {
            "the device does not list the modifier for this format; have the producer allocate with one that it lists, or \
             convert the picture on the producer's device"
        };
        return Err(Error::unsupported(OPERATION, message)
            .with_context("image format", format_args!("{:?}", format.vulkan))
            .with_context("listed", list(known.iter().map(|known| &known.modifier))));
    };
    let missing = found.missing(options.usage);
    if !missing.is_empty() {
        let others = known.iter().filter(|known| known.missing(options.usage).is_empty());
        let message = "images with this modifier lack a usage of the options; omit it, or have the producer allocate with \
                       another modifier";
        return Err(Error::unsupported(OPERATION, message)
            .with_context("missing", format_args!("{missing:?}"))
            .with_context("modifiers with the usage", list(others.map(|known| &known.modifier))));
    }
    if found.memory_planes != picture.planes.len() {
        let message = format!(
            "a picture with this format and modifier has {} memory planes; pass as many, in the producer's order",
            found.memory_planes
        );
        return Err(Error::invalid(OPERATION, message).with_context("planes", picture.planes.len()));
    }
    Ok(*found)
}

/// The queue family of the producer.
fn other_family(interop: &VulkanInterop, producer: Producer) -> Result<u32> {
    match producer {
        Producer::SameDriver => Ok(vk::QUEUE_FAMILY_EXTERNAL),
        Producer::Foreign => {
            let (instance, physical_device) = (interop.instance(), interop.physical_device());
            // SAFETY: the physical device belongs to the live instance (`VulkanInterop::new`).
            let listed = unsafe { has_extension(instance, physical_device, vk::EXT_QUEUE_FAMILY_FOREIGN_NAME) };
            let message = "the device has no foreign queue families (VK_EXT_queue_family_foreign); set \
                           PictureOptions::producer to SameDriver if the same driver produces the picture";
            if listed {
                Ok(vk::QUEUE_FAMILY_FOREIGN_EXT)
            } else {
                Err(Error::new(ErrorKind::Unsupported, OPERATION, message))
            }
        }
    }
}
