//! Pictures of other producers: images on their dma-bufs, with the layout that a DRM modifier names.

mod format;
mod import;
mod layout;
mod modifiers;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use ash::vk;
use gpu_interop_core::format::{DmaBufPicture, DmaBufPlane, DrmFourcc, DrmModifier};
use gpu_interop_core::handle::cannot_duplicate;
use gpu_interop_core::{Error, ImportError, Result, VideoFormat};

use crate::image::OwnedImage;
use crate::image::planar::plane_aspect;
use crate::sync_file::{DmaBufAccess, dma_buf_fence, set_dma_buf_fence};

pub use modifiers::ModifierSupport;
pub(crate) use modifiers::{functions, list, supported};

/// The producer of a picture, which decides the queue family of ownership transfers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Producer {
    /// Another device, another driver, or no GPU at all: `VK_QUEUE_FAMILY_FOREIGN_EXT`. Always correct for dma-bufs. Needs
    /// `VK_EXT_queue_family_foreign`, which is one of
    /// [`optional_device_extensions`](crate::VulkanInterop::optional_device_extensions).
    #[default]
    Foreign,
    /// The same physical device and driver, such as a compositor on this GPU that uses Vulkan with the same driver:
    /// `VK_QUEUE_FAMILY_EXTERNAL`. Needs no extension.
    ///
    /// Both are the same if `deviceUUID` and `driverUUID` of `VkPhysicalDeviceIDProperties` are equal on both sides. The
    /// `main_device` of Wayland's `linux-dmabuf` names the device only, not the driver. `ExportableImage` and `ExportableVideo`
    /// release to `VK_QUEUE_FAMILY_EXTERNAL`: choose this for their pictures.
    SameDriver,
}

/// Options of an [`ImportedPicture`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PictureOptions {
    /// Vulkan's use of the image: transfers, `SAMPLED`, `STORAGE`, `COLOR_ATTACHMENT`, `INPUT_ATTACHMENT`.
    pub usage: vk::ImageUsageFlags,
    /// The image's format, if it is not the default one of the picture's code: one with the same texels, such as
    /// `B8G8R8A8_SRGB` for `AR24`. DRM's codes have no encoding.
    pub format: Option<vk::Format>,
    /// The producer.
    pub producer: Producer,
}

impl PictureOptions {
    /// Options for an image of this usage from a foreign producer.
    #[must_use]
    pub fn new(usage: vk::ImageUsageFlags) -> Self {
        Self { usage, format: None, producer: Producer::Foreign }
    }
}

setters! {
    PictureOptions {
        /// Sets the image's format.
        format: vk::Format;
        /// Sets the producer.
        producer: Producer;
    }
}

/// An image on the dma-bufs of a producer: a compositor, a camera, a decoder, another device. Destroyed on drop; the
/// producer's memory is unaffected.
///
/// Wayland and PipeWire pass a descriptor, an offset and a stride for each plane
/// ([`DmaBufPicture::new`]). VA-API passes dma-bufs and planes that index them ([`DmaBufPicture::from_objects`]). Planes in
/// one dma-buf become one allocation. Planes in several become a disjoint image, with an allocation for each.
///
/// ```no_run
/// use std::os::fd::OwnedFd;
///
/// use gpu_interop_core::Result;
/// use gpu_interop_core::format::{DmaBufPicture, DmaBufPlane, DrmFourcc, DrmModifier};
/// use gpu_interop_vulkan::ash::vk::ImageUsageFlags;
/// use gpu_interop_vulkan::{HeadlessContext, ImportedPicture, PictureOptions};
///
/// /// A buffer as `zwp_linux_dmabuf_v1` describes it, with one plane.
/// struct Buffer {
///     extent: [u32; 2],
///     format: u32,
///     modifier: [u32; 2],
///     fd: OwnedFd,
///     offset: u32,
///     stride: u32,
/// }
///
/// fn read(context: &HeadlessContext, buffer: Buffer) -> Result<Vec<u8>> {
///     let Buffer { extent: [width, height], format, modifier: [high, low], fd, offset, stride } = buffer;
///     let plane = DmaBufPlane::new(fd, offset.into(), stride.into());
///     let modifier = DrmModifier::from_halves(high, low);
///     let picture = DmaBufPicture::new(DrmFourcc(format), modifier, [width, height], vec![plane]);
///     let options = PictureOptions::new(ImageUsageFlags::TRANSFER_SRC);
///     // SAFETY: the compositor describes its own buffers.
///     let imported = unsafe { ImportedPicture::new(context.interop(), picture, &options) };
///     // A failed import returns the descriptors, for a copy on the CPU for example.
///     let imported = imported.map_err(|failure| failure.into_parts().0)?;
///
///     // The producer has finished writing.
///     context.acquire_image(imported.image())?;
///     let mut texels = vec![0; width as usize * height as usize * 4];
///     context.download_image(imported.image(), 0, 0, &mut texels)?;
///     context.release_image(imported.image())?;
///     Ok(texels)
/// }
/// ```
///
/// # Duties of the application
/// * **Wait for the producer.** Vulkan ignores the implicit fences of a dma-buf. Wait for [`fences`](ImportedPicture::fences) in
///   the submission ([`SyncFileSemaphore`](crate::SyncFileSemaphore) has an example), for the producer's own fence
///   ([`ImportedSemaphore::from_sync_file`](crate::ImportedSemaphore::from_sync_file)), or on the CPU: `poll` for `POLLIN` on the
///   [`dma_bufs`](ImportedPicture::dma_bufs) waits for their writers.
/// * **Acquire the image** before the first command ([`HeadlessContext::acquire_image`](crate::HeadlessContext::acquire_image),
///   [`OwnedImage::record_acquire`]), even to write it. The barrier names the queue family of the [`Producer`], and the layout
///   `GENERAL`.
/// * **Release the image** before the producer reads or writes it again, and let it wait for that
///   ([`add_fence`](ImportedPicture::add_fence)).
/// * **Ignore alpha** of the codes without it (`XR24`): their bits are undefined. Use a swizzle of `ONE` in image views.
///
/// # Planes apart
/// Drivers may not import a multi-planar picture: without the feature `DISJOINT` for planes in several dma-bufs
/// ([`ModifierSupport::features`]), or with an odd width or height. [`DmaBufPicture::into_planes`] makes a picture of each
/// plane, such as `R8` and `GR88` for NV12; devices import these.
#[derive(Debug, Clone)]
pub struct ImportedPicture {
    image: OwnedImage,
    code: DrmFourcc,
    modifier: DrmModifier,
    video: Option<VideoFormat>,
    producer: Producer,
    memory_planes: Vec<MemoryPlane>,
    /// A descriptor of each dma-buf.
    dma_bufs: Arc<[OwnedFd]>,
}

/// Place of a memory plane.
#[derive(Debug, Clone, Copy)]
struct MemoryPlane {
    /// Index of its dma-buf.
    object: usize,
    offset: u64,
    pitch: u64,
    dedicated: bool,
}

impl ImportedPicture {
    /// Imports the dma-bufs of a picture and binds a new image to them, with the explicit layout of the picture. Calls
    /// `vkCreateImage` with `VkImageDrmFormatModifierExplicitCreateInfoEXT`, then for each dma-buf
    /// `vkGetMemoryFdPropertiesKHR` and `vkAllocateMemory` with `VkImportMemoryFdInfoKHR`, and `vkBindImageMemory` or, with
    /// several dma-bufs, `vkBindImageMemory2`.
    ///
    /// The allocation is dedicated if a plane has the flag, or the device or the driver requires it.
    ///
    /// On success the import owns the picture's descriptors: it keeps one of each dma-buf for the fences
    /// ([`dma_bufs`](Self::dma_bufs)), and closes the others. The driver owns duplicates. On failure the picture is returned
    /// with its descriptors open, whatever the driver did.
    ///
    /// # Errors
    /// Errors of one plane name it.
    /// * `InvalidArgument`: an extent of 0, or one that the subsampling does not divide; the number of planes is not that of
    ///   format and modifier; a descriptor is closed or is not a dma-buf; a plane starts or ends past its dma-buf, overlaps
    ///   another one, or has a pitch below the size of a row; an offset or pitch is not a multiple of the texel's size; no
    ///   usage; another format with other texels; the dma-buf is smaller than the driver needs. The driver has imported
    ///   nothing.
    /// * `InvalidArgument` from `vkCreateImage` (`VK_ERROR_INVALID_DRM_FORMAT_MODIFIER_PLANE_LAYOUT_EXT`): the driver needs
    ///   another alignment.
    /// * [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported): an unknown format; the modifier `INVALID`; a
    ///   modifier that the device does not list for the format, or not for the usage: the error lists the others; planes in
    ///   several dma-bufs without the feature `DISJOINT`, or with the dedicated flag; an extent beyond the device's limit; a missing extension.
    /// * `ImportRejected` or `OutOfMemory`: the driver rejected the import.
    ///
    /// # Safety
    /// The dma-bufs contain the picture as described, and nothing changes their size while the image lives. Whether the
    /// device may access them is checked by the driver. If the [`Producer`] is foreign, the device was created with
    /// `VK_EXT_queue_family_foreign`: Vulkan cannot report it.
    #[doc(alias(
        "VkImageDrmFormatModifierExplicitCreateInfoEXT",
        "VkImportMemoryFdInfoKHR",
        "VkBindImagePlaneMemoryInfo",
        "vkGetMemoryFdPropertiesKHR"
    ))]
    pub unsafe fn new(
        interop: &crate::VulkanInterop,
        picture: DmaBufPicture,
        options: &PictureOptions,
    ) -> Result<Self, ImportError<DmaBufPicture>> {
        match import::import(interop, &picture, options) {
            Ok(imported) => Ok(imported.own(picture)),
            Err(error) => Err(ImportError::new(import::describe(error, interop, &picture), picture)),
        }
    }

    /// The dma-bufs, in the order of their first planes. The descriptors are this object's, and open as long as it lives.
    #[must_use]
    pub fn dma_bufs(&self) -> &[OwnedFd] {
        &self.dma_bufs
    }

    /// The implicit fence of each dma-buf that an access must wait for, as [`dma_buf_fence`](crate::dma_buf_fence).
    ///
    /// # Errors
    /// Those of [`dma_buf_fence`](crate::dma_buf_fence).
    #[doc(alias = "DMA_BUF_IOCTL_EXPORT_SYNC_FILE")]
    pub fn fences(&self, access: DmaBufAccess) -> Result<Vec<OwnedFd>> {
        self.dma_bufs.iter().map(|dma_buf| dma_buf_fence(dma_buf, access)).collect()
    }

    /// Adds the fence of a sync file to each dma-buf, as [`set_dma_buf_fence`](crate::set_dma_buf_fence).
    ///
    /// # Errors
    /// Those of [`set_dma_buf_fence`](crate::set_dma_buf_fence); earlier dma-bufs then have the fence.
    #[doc(alias = "DMA_BUF_IOCTL_IMPORT_SYNC_FILE")]
    pub fn add_fence(&self, access: DmaBufAccess, sync_file: impl AsFd) -> Result<()> {
        self.dma_bufs.iter().try_for_each(|dma_buf| set_dma_buf_fence(dma_buf, access, sync_file.as_fd()))
    }

    /// Every format that pictures of this crate have, by DRM's code.
    /// [`VulkanInterop::picture_modifiers`](crate::VulkanInterop::picture_modifiers) reports which of them a device imports.
    pub fn formats() -> impl Iterator<Item = DrmFourcc> {
        format::codes()
    }

    /// The image itself. The other side owns it: acquire it first.
    #[must_use]
    pub fn image(&self) -> &OwnedImage {
        &self.image
    }

    /// The format's code, as the producer described it.
    #[must_use]
    pub fn format(&self) -> DrmFourcc {
        self.code
    }

    /// The multi-planar format; `None` for a format of one plane.
    #[must_use]
    pub fn video_format(&self) -> Option<VideoFormat> {
        self.video
    }

    /// The modifier.
    #[must_use]
    pub fn modifier(&self) -> DrmModifier {
        self.modifier
    }

    /// Number of memory planes, 1 to 4.
    #[must_use]
    pub fn memory_planes(&self) -> usize {
        self.memory_planes.len()
    }

    /// The producer, as in the options of the import.
    #[must_use]
    pub fn producer(&self) -> Producer {
        self.producer
    }

    /// The picture as the producer described it, with new descriptors that the caller owns: for another API or process.
    ///
    /// # Errors
    /// [`ErrorKind::System`](gpu_interop_core::ErrorKind::System) if a descriptor cannot be duplicated.
    pub fn description(&self) -> Result<DmaBufPicture> {
        let plane = |plane: &MemoryPlane| {
            let fd = self.dma_bufs[plane.object].try_clone();
            let fd = fd.map_err(|source| cannot_duplicate("ImportedPicture::description", source))?;
            Ok(DmaBufPlane::new(fd, plane.offset, plane.pitch).dedicated(plane.dedicated))
        };
        let vk::Extent3D { width, height, .. } = self.image.spec().extent;
        let planes = self.memory_planes.iter().map(plane).collect::<Result<_>>()?;
        Ok(DmaBufPicture::new(self.code, self.modifier, [width, height], planes))
    }

    /// `true` if the image is disjoint: each memory plane has an allocation of its own.
    #[must_use]
    pub fn is_disjoint(&self) -> bool {
        self.image.spec().flags.contains(vk::ImageCreateFlags::DISJOINT)
    }

    /// Number of planes of the format: 1, or 2 or 3 for a multi-planar one.
    #[must_use]
    pub fn planes(&self) -> usize {
        self.video.map_or(1, VideoFormat::planes)
    }

    /// The aspect of a plane of the format, for copies and views: `COLOR`, or `PLANE_0` to `PLANE_2`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the picture lacks the plane.
    pub fn plane_aspect(&self, plane: usize) -> Result<vk::ImageAspectFlags> {
        if plane >= self.planes() {
            return Err(Error::invalid("ImportedPicture::plane_aspect", "the picture has no such plane")
                .with_context("plane", plane)
                .with_context("planes", self.planes()));
        }
        Ok(if self.video.is_some() { plane_aspect(plane) } else { vk::ImageAspectFlags::COLOR })
    }
}
