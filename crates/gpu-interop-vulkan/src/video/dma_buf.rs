//! Pictures as dma-bufs with DRM modifiers.

use ash::vk;
use gpu_interop_core::format::{DmaBufPicture, DrmModifier};
use gpu_interop_core::{Error, MemoryHandleKind, Result};

use super::export::{ExportableVideo, Images, VideoOptions};
use super::spec::PlaneStorage;
use crate::format::TexelFormat;
use crate::image::OwnedImage;
use crate::image::modifier::{dma_buf_picture, dma_buf_plane, with_modifiers};
use crate::interop::VulkanInterop;

const OPERATION: &str = "ExportableVideo::with_modifiers";

impl ExportableVideo {
    /// Creates one multi-planar image whose layout is one of these DRM modifiers, chosen by the driver, exported as a dma-buf
    /// ([`dma_buf_picture`](Self::dma_buf_picture)). Storage, tiling and handle kind of the options are ignored. With
    /// [`DrmModifier::LINEAR`], compute devices that import dma-bufs can map its planes. Releases go to
    /// `VK_QUEUE_FAMILY_EXTERNAL`, so an importer chooses [`Producer::SameDriver`](crate::Producer::SameDriver).
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) if the device lacks `VK_EXT_image_drm_format_modifier`, or it was not enabled, or none of
    /// the modifiers is supported for such a picture: the error lists those that the device knows for the format.
    /// Otherwise as [`new`](Self::new) with [`PlaneStorage::Joint`].
    pub fn with_modifiers(interop: &VulkanInterop, options: &VideoOptions, modifiers: &[DrmModifier]) -> Result<Self> {
        let spec = options.video.storage(PlaneStorage::Joint).tiling(vk::ImageTiling::LINEAR);
        spec.check_alone(OPERATION)?;
        let spec = spec.tiling(vk::ImageTiling::DRM_FORMAT_MODIFIER_EXT);
        let luma = TexelFormat::from_vulkan(vk::Format::from_raw(spec.format.plane_vulkan_number(0)))?;
        let (image, chosen) =
            with_modifiers(OPERATION, interop, &spec.planar_image(), luma, options.memory, modifiers)?;
        Ok(Self { spec, images: Images::Planar(image), handle: MemoryHandleKind::DmaBufFd, modifier: Some(chosen) })
    }

    /// The DRM modifier of a picture from [`with_modifiers`](Self::with_modifiers), and `LINEAR` for linear tiling.
    #[doc(alias = "vkGetImageDrmFormatModifierPropertiesEXT")]
    #[must_use]
    pub fn modifier(&self) -> Option<DrmModifier> {
        match self.modifier {
            Some((modifier, _)) => Some(modifier),
            None => (self.spec.tiling == vk::ImageTiling::LINEAR).then_some(DrmModifier::LINEAR),
        }
    }

    /// Exports the picture as dma-bufs: format, modifier, and a descriptor, offset, pitch and dedicated flag for each plane. The caller owns
    /// the descriptors.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) for a format without a DRM code and for optimal tiling;
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the picture was not created for dma-bufs; otherwise as
    /// [`export`](Self::export).
    pub fn dma_buf_picture(&self) -> Result<DmaBufPicture> {
        const OPERATION: &str = "ExportableVideo::dma_buf_picture";
        if self.handle != MemoryHandleKind::DmaBufFd {
            let message = "the picture was not created for dma-bufs; set VideoOptions::handle to DmaBufFd, or use \
                           with_modifiers";
            return Err(Error::invalid(OPERATION, message).with_context("handle", self.handle));
        }
        let Some(format) = self.spec.format.drm() else {
            let message = format!("DRM has no code for {}", self.spec.format);
            return Err(Error::unsupported(OPERATION, message));
        };
        let Some(modifier) = self.modifier() else {
            let message = "optimal tiling has no modifier; use with_modifiers, or linear tiling";
            return Err(Error::unsupported(OPERATION, message));
        };
        if let (Some(chosen), Images::Planar(image)) = (self.modifier, &self.images) {
            return dma_buf_picture(OPERATION, image, format, chosen);
        }
        let memories: Vec<_> = self.images().flat_map(OwnedImage::memories).collect();
        let plane = |index| {
            let layout = self.plane_layout(index)?;
            dma_buf_plane(OPERATION, memories[self.memory_of(index)], layout.offset, layout.pitch)
        };
        let planes = (0..self.planes()).map(plane).collect::<Result<_>>()?;
        Ok(DmaBufPicture::new(format, modifier, self.spec.extent, planes))
    }
}
