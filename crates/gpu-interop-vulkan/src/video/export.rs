//! Exportable pictures.

use ash::vk;
use gpu_interop_core::{
    ArrayShape, Device, Error, ImportError, MappedMipmappedArray, MappedPlanes, MemoryHandle, MemoryHandleKind,
    MemoryImport, MipmappedArrayDesc, PlaneLayout, Result,
};

use super::spec::{PlaneStorage, VideoSpec};
use crate::export::{exportable_as, needs_modifier};
use crate::handles;
use crate::image::planar::{Planar, plane_aspect};
use crate::image::{ExportableImage, ImageOptions, OwnedImage};
use crate::interop::VulkanInterop;
use crate::placement::MemoryPlacement;
use crate::shape::array_usage;

/// Options of an [`ExportableVideo`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct VideoOptions {
    /// Description of the picture.
    pub video: VideoSpec,
    /// Placement of the memory.
    pub memory: MemoryPlacement,
    /// Handle kind of the exports. [`MemoryHandleKind::DmaBufFd`] needs `VK_EXT_external_memory_dma_buf` enabled.
    pub handle: MemoryHandleKind,
}

impl VideoOptions {
    /// Options for this picture in device-local memory, exported as opaque fds or NT handles.
    #[must_use]
    pub fn new(video: VideoSpec) -> Self {
        Self { video, memory: MemoryPlacement::DeviceLocal, handle: handles::MEMORY }
    }
}

setters! {
    VideoOptions {
        /// Sets the placement of the memory.
        memory: MemoryPlacement;
        /// Sets the handle kind of the exports.
        handle: MemoryHandleKind;
    }
}

/// A picture with luma and chroma in separate planes, whose memory can be exported. Its images are destroyed on drop;
/// exported handles stay valid.
///
/// As with [`OwnedImage`], new images have no layout: initialise the picture
/// ([`Recording::initialize_video`](crate::Recording::initialize_video)) and release it before the other API first uses it.
/// All images change owner together.
///
/// An NV12 picture from Vulkan to a compute device and back; each call of the context blocks until completion, so no
/// semaphore is needed:
///
/// ```no_run
/// # use gpu_interop_core::{Device, Result, VideoFormat};
/// # use gpu_interop_vulkan::{ExportableVideo, HeadlessContext, VideoOptions, VideoSpec, ash::vk::ImageUsageFlags};
/// # fn picture(context: &HeadlessContext, device: &Device) -> Result<()> {
/// // For `upload_video` and `download_video`.
/// let usage = ImageUsageFlags::TRANSFER_DST | ImageUsageFlags::TRANSFER_SRC;
/// let spec = VideoSpec::new(VideoFormat::Nv12, [1920, 1080], usage);
/// let video = ExportableVideo::new(context.interop(), &VideoOptions::new(spec))?;
/// context.initialize_video(&video)?;
/// // Planes without padding between rows: luma, and blue and red side by side.
/// let mut planes = [vec![16; 1920 * 1080], vec![128; 960 * 540 * 2]];
/// context.upload_video(&video, &planes)?;
/// context.release_video(&video)?;
///
/// let mapped = video.map(device)?; // once; the mapping stays valid
/// let stream = device.create_stream()?;
/// stream.fill(mapped.slice(0)?, 235)?; // luma, with the padding; kernels use `as_raw` and the pitch of `layout`
/// stream.synchronize()?;
///
/// context.acquire_video(&video)?;
/// context.download_video(&video, &mut planes)?;
/// # Ok(())
/// # }
/// ```
///
/// The size of a plane without padding is the [`size`](PlaneLayout::size) of its [`plane_layout`](Self::plane_layout), in
/// bytes; odd widths and heights of chroma are rounded up. In flight, initialise and release in recordings
/// ([`Recording`](crate::Recording)) and use timelines instead of blocking calls.
///
/// For pictures in a [`FrameRing`](crate::FrameRing), add one linear image for each plane
/// ([`FrameRingOptions::image`](crate::FrameRingOptions::image)), with the format
/// [`VideoFormat::plane_vulkan_number`](gpu_interop_core::VideoFormat::plane_vulkan_number) and the size
/// [`VideoFormat::plane_extent`](gpu_interop_core::VideoFormat::plane_extent). Their rows are at the pitch of
/// [`OwnedImage::subresource_layout`].
#[derive(Debug, Clone)]
pub struct ExportableVideo {
    pub(super) spec: VideoSpec,
    pub(super) images: Images,
    pub(super) handle: MemoryHandleKind,
    /// The modifier of an image tiled by it, and the number of its memory planes.
    #[cfg(unix)]
    pub(super) modifier: Option<crate::image::modifier::Chosen>,
}

#[derive(Debug, Clone)]
pub(super) enum Images {
    Separate(Vec<ExportableImage>),
    Planar(OwnedImage),
}

const OPERATION: &str = "ExportableVideo::new";

impl ExportableVideo {
    /// Creates a picture that can be exported, after a query whether the device supports its images.
    ///
    /// NVIDIA's driver gets dedicated allocations for linear tiling in device-local memory, for the reason that
    /// [`ExportableImage::new`] states. Vulkan forbids those for disjoint images, so that such a picture is unsupported
    /// there.
    ///
    /// # Errors
    /// * `InvalidArgument`: an extent of 0, or one that the subsampling does not divide with [`PlaneStorage::Joint`] or
    ///   [`PlaneStorage::Disjoint`]; no usage.
    /// * [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported): the device does not have such images, not of
    ///   this size, or does not export them as this kind; it has no memory of this placement.
    /// * `OutOfMemory`.
    #[doc(alias(
        "vkCreateImage",
        "VkExternalMemoryImageCreateInfo",
        "vkGetImageMemoryRequirements2",
        "vkBindImageMemory",
        "vkBindImageMemory2",
        "vkAllocateMemory",
        "VkExportMemoryAllocateInfo"
    ))]
    pub fn new(interop: &VulkanInterop, options: &VideoOptions) -> Result<Self> {
        let VideoOptions { video: spec, memory, handle } = *options;
        spec.check_alone(OPERATION)?;
        let images = if spec.storage == PlaneStorage::Separate {
            let image = |plane| {
                let options = ImageOptions::new(spec.plane_image(plane)).memory(memory).handle(handle);
                ExportableImage::new(interop, &options).map_err(|error| error.with_context("plane", plane))
            };
            Images::Separate((0..spec.format.planes()).map(image).collect::<Result<_>>()?)
        } else {
            Images::Planar(planar(interop, options)?)
        };
        Ok(Self {
            spec,
            images,
            handle,
            #[cfg(unix)]
            modifier: None,
        })
    }

    /// The description that the picture was created with.
    #[must_use]
    pub fn spec(&self) -> &VideoSpec {
        &self.spec
    }

    /// The handle kind of the exports.
    #[must_use]
    pub fn handle_kind(&self) -> MemoryHandleKind {
        self.handle
    }

    /// Number of planes: 2 or 3.
    #[must_use]
    pub fn planes(&self) -> usize {
        self.spec.format.planes()
    }

    /// Number of images: one, or one for each plane with [`PlaneStorage::Separate`].
    #[must_use]
    pub fn image_count(&self) -> usize {
        match &self.images {
            Images::Separate(images) => images.len(),
            Images::Planar(_) => 1,
        }
    }

    /// The `VkImage` and the aspect of a plane, for the application's own commands. Valid as long as a clone of this object
    /// lives.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the picture lacks the plane.
    pub fn plane_image(&self, plane: usize) -> Result<(vk::Image, vk::ImageAspectFlags)> {
        let (image, aspect) = self.image_of("ExportableVideo::plane_image", plane)?;
        Ok((image.as_raw(), aspect))
    }

    /// Number of allocations: one with [`PlaneStorage::Joint`], otherwise one for each plane.
    #[must_use]
    pub fn memory_count(&self) -> usize {
        match &self.images {
            Images::Separate(images) => images.len(),
            Images::Planar(image) => image.memories().count(),
        }
    }

    /// Index of the allocation that contains a plane: the plane's number, or 0 if there is one allocation.
    #[must_use]
    pub fn memory_of(&self, plane: usize) -> usize {
        if self.memory_count() == 1 { 0 } else { plane }
    }

    /// Layout of a plane of linear tiling in its allocation (`vkGetImageSubresourceLayout`).
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) for optimal tiling;
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the picture lacks the plane.
    #[doc(alias = "vkGetImageSubresourceLayout")]
    pub fn plane_layout(&self, plane: usize) -> Result<PlaneLayout> {
        const OPERATION: &str = "ExportableVideo::plane_layout";
        let (image, _) = self.image_of(OPERATION, plane)?;
        if !self.is_linear() {
            let message = "only planes of linear tiling have a known layout; map these as arrays (map_arrays)";
            return Err(Error::unsupported(OPERATION, message));
        }
        Ok(match &self.images {
            Images::Separate(_) => {
                let layout = image.subresource_layout(0, 0)?;
                let extent = self.spec.format.plane_extent(plane, self.spec.extent);
                PlaneLayout::new(layout.offset, layout.row_pitch, extent, self.spec.format.texel(plane))
            }
            Images::Planar(image) => image.plane_layout(self.spec.format, plane),
        })
    }

    /// `true` for linear tiling, also by a modifier.
    fn is_linear(&self) -> bool {
        #[cfg(unix)]
        if let Some((modifier, _)) = self.modifier {
            return modifier == gpu_interop_core::format::DrmModifier::LINEAR;
        }
        self.spec.tiling == vk::ImageTiling::LINEAR
    }

    /// Description of a plane of optimal tiling as an array in its allocation.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) for linear tiling, and for
    /// [`PlaneStorage::Joint`]: the offset of a plane in such an image is unknown;
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the picture lacks the plane.
    pub fn plane_array(&self, plane: usize) -> Result<MipmappedArrayDesc> {
        const OPERATION: &str = "ExportableVideo::plane_array";
        let (image, _) = self.image_of(OPERATION, plane)?;
        if self.spec.tiling != vk::ImageTiling::OPTIMAL {
            let message = "planes of linear tiling cannot be mapped as arrays; map them as pitched memory (map)";
            return Err(Error::unsupported(OPERATION, message));
        }
        match self.spec.storage {
            PlaneStorage::Separate => image.array_desc(),
            PlaneStorage::Disjoint => {
                let [width, height] = self.spec.format.plane_extent(plane, self.spec.extent).map(u64::from);
                let desc = MipmappedArrayDesc::new(ArrayShape::D2 { width, height }, self.spec.format.texel(plane));
                Ok(desc.with_usage(array_usage(self.spec.usage)))
            }
            PlaneStorage::Joint => Err(Error::unsupported(
                OPERATION,
                "the planes of one allocation with optimal tiling cannot be mapped; use PlaneStorage::Separate, or linear \
                 tiling",
            )),
        }
    }

    /// Exports an allocation. Every call returns a new descriptor or handle, owned by the caller, that keeps the memory
    /// alive.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the picture lacks the allocation;
    /// otherwise as [`ExportableImage::export`].
    #[doc(alias("vkGetMemoryFdKHR", "vkGetMemoryWin32HandleKHR"))]
    pub fn export(&self, memory: usize) -> Result<MemoryHandle> {
        const OPERATION: &str = "ExportableVideo::export";
        match &self.images {
            Images::Separate(images) => images.get(memory).ok_or_else(|| self.missing(OPERATION, memory))?.export(),
            Images::Planar(image) => {
                image.memories().nth(memory).ok_or_else(|| self.missing(OPERATION, memory))?.export(self.handle)
            }
        }
    }

    /// Exports an allocation as an import request: handle, allocation size, dedicated flag, device identity, and for
    /// optimal tiling the plane's array ([`plane_array`](Self::plane_array)).
    ///
    /// # Errors
    /// As [`export`](Self::export).
    #[doc(alias("vkGetMemoryFdKHR", "vkGetMemoryWin32HandleKHR"))]
    pub fn import_request(&self, memory: usize) -> Result<MemoryImport> {
        const OPERATION: &str = "ExportableVideo::import_request";
        match &self.images {
            Images::Separate(images) => {
                images.get(memory).ok_or_else(|| self.missing(OPERATION, memory))?.import_request()
            }
            Images::Planar(image) => {
                let of_plane = image.memories().nth(memory).ok_or_else(|| self.missing(OPERATION, memory))?;
                let request = of_plane.import_request(self.handle)?;
                Ok(match self.plane_array(memory) {
                    // SAFETY: the memory was allocated for this plane alone, and the image was created with `ALIAS_BIT`:
                    // the plane has the layout of an image of its own.
                    Ok(desc) => unsafe { request.of_image(desc) },
                    Err(_) => request,
                })
            }
        }
    }

    /// Exports every allocation, imports them on `device`, and maps the planes as pitched memory.
    ///
    /// # Errors
    /// Those of [`plane_layout`](Self::plane_layout), [`import_request`](Self::import_request) and
    /// [`MappedPlanes::import`].
    pub fn map(&self, device: &Device) -> Result<MappedPlanes> {
        let planes = (0..self.planes())
            .map(|plane| Ok((self.memory_of(plane), self.plane_layout(plane)?)))
            .collect::<Result<_>>()?;
        let requests = (0..self.memory_count()).map(|memory| self.import_request(memory)).collect::<Result<_>>()?;
        MappedPlanes::import(device, requests, planes).map_err(|failure| failure.into_parts().0)
    }

    /// Exports every allocation, imports them on `device`, and maps each plane as an array.
    ///
    /// # Errors
    /// Those of [`plane_array`](Self::plane_array), [`import_request`](Self::import_request),
    /// [`Device::import_memory`] and
    /// [`ExternalMemory::map_mipmapped_array`](gpu_interop_core::ExternalMemory::map_mipmapped_array).
    pub fn map_arrays(&self, device: &Device) -> Result<Vec<MappedMipmappedArray>> {
        (0..self.planes())
            .map(|plane| {
                let desc = self.plane_array(plane)?;
                device.import_memory(self.import_request(plane)?).map_err(error)?.map_mipmapped_array(&desc)
            })
            .collect()
    }

    /// The device that the picture belongs to.
    #[must_use]
    pub fn interop(&self) -> &VulkanInterop {
        self.first_image().interop()
    }

    /// The image of the first plane.
    pub(crate) fn first_image(&self) -> &OwnedImage {
        match &self.images {
            // A format has at least two planes.
            Images::Separate(images) => images[0].image(),
            Images::Planar(image) => image,
        }
    }

    /// The images, which change owner together.
    pub(crate) fn images(&self) -> impl Iterator<Item = &OwnedImage> {
        let (separate, planar) = match &self.images {
            Images::Separate(images) => (images.as_slice(), None),
            Images::Planar(image) => (&[][..], Some(image)),
        };
        separate.iter().map(ExportableImage::image).chain(planar)
    }

    /// The image that contains a plane, and the aspect of the plane.
    pub(crate) fn image_of(
        &self,
        operation: &'static str,
        plane: usize,
    ) -> Result<(&OwnedImage, vk::ImageAspectFlags)> {
        match &self.images {
            _ if plane >= self.planes() => Err(Error::invalid(operation, "the picture has no such plane")
                .with_context("plane", plane)
                .with_context("planes", self.planes())),
            Images::Separate(images) => Ok((images[plane].image(), vk::ImageAspectFlags::COLOR)),
            Images::Planar(image) => Ok((image, plane_aspect(plane))),
        }
    }

    fn missing(&self, operation: &'static str, memory: usize) -> Error {
        Error::invalid(operation, "the picture has no such allocation")
            .with_context("allocation", memory)
            .with_context("allocations", self.memory_count())
    }
}

/// The error of a failed import, without the request.
fn error(failure: ImportError<MemoryImport>) -> Error {
    failure.into_parts().0
}

/// Creates a multi-planar image.
fn planar(interop: &VulkanInterop, options: &VideoOptions) -> Result<OwnedImage> {
    let VideoOptions { video, memory: placement, handle } = *options;
    let remedy = |error| needs_modifier(error, handle, "ExportableVideo::with_modifiers");
    let features = video.check_planar(OPERATION, interop, handle).map_err(remedy)?;
    let unsupported = |message: &str| {
        remedy(Error::unsupported(OPERATION, message).with_device(interop.identity()))
            .with_context("handle", handle)
            .with_context("picture", format_args!("{video:?}"))
    };
    let Some(types) = exportable_as(handle, &features) else {
        return Err(unsupported(
            "the device cannot export this image as this kind of handle; use PlaneStorage::Separate, or another kind",
        ));
    };
    let linear = video.tiling == vk::ImageTiling::LINEAR && placement == MemoryPlacement::DeviceLocal;
    // See `ExportableImage::new`.
    let compressed = linear && interop.is_nvidia_driver();
    let disjoint = video.storage == PlaneStorage::Disjoint;
    if compressed && disjoint {
        return Err(unsupported(
            "NVIDIA's driver needs dedicated allocations for linear images in device-local memory, which Vulkan forbids for \
             disjoint ones; use PlaneStorage::Separate",
        ));
    }
    let spec = video.planar_image();
    let dedicated = features.dedicated_only || compressed;
    let image = Planar { spec: &spec, format: video.format, types, placement, dedicated };
    if disjoint { image.disjoint(OPERATION, interop) } else { image.joint(interop) }
}
