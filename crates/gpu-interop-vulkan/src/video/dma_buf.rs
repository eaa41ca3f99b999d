//! Pictures as dma-bufs with DRM modifiers.

use ash::vk;
use gpu_interop_core::format::{DmaBufPicture, DmaBufPlane, DrmModifier};
use gpu_interop_core::{Error, ErrorKind, MemoryHandle, MemoryHandleKind, Result};

use super::export::{ExportableVideo, Images, VideoOptions};
use super::spec::PlaneStorage;
use crate::error::Checked;
use crate::export::exportable_as;
use crate::image::OwnedImage;
use crate::image::planar::{Planar, memory_plane_aspect};
use crate::interop::VulkanInterop;
use crate::memory::Memory;
use crate::picture::{ModifierSupport, functions, list, supported};
use crate::placement::MemoryPlacement;

const OPERATION: &str = "ExportableVideo::with_modifiers";

impl ExportableVideo {
    /// Creates one multi-planar image whose layout is one of these DRM modifiers, chosen by the driver, exported as a dma-buf
    /// ([`dma_buf_picture`](Self::dma_buf_picture)). Storage, tiling and handle kind of the options are ignored. With
    /// [`DrmModifier::LINEAR`], compute devices that import dma-bufs can map its planes.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the device lacks `VK_EXT_image_drm_format_modifier`, or it was not enabled, or none of
    /// the modifiers is supported for such a picture: the error lists those that the device knows for the format.
    /// Otherwise as [`new`](Self::new) with [`PlaneStorage::Joint`].
    pub fn with_modifiers(interop: &VulkanInterop, options: &VideoOptions, modifiers: &[DrmModifier]) -> Result<Self> {
        let spec = options.video.storage(PlaneStorage::Joint).tiling(vk::ImageTiling::LINEAR);
        spec.check_alone(OPERATION)?;
        let spec = spec.tiling(vk::ImageTiling::DRM_FORMAT_MODIFIER_EXT);
        let image = spec.planar_image();
        image.query().check(OPERATION, true)?;
        let known = supported(interop, OPERATION, image.format)?;
        let functions = functions(interop, OPERATION)?;
        let kind = MemoryHandleKind::DmaBufFd;
        let mut types = vk::ExternalMemoryHandleTypeFlags::empty();
        // See `ExportableImage::new`.
        let compressed = interop.is_nvidia_driver() && options.memory == MemoryPlacement::DeviceLocal;
        let (mut usable, mut dedicated) = (Vec::new(), compressed);
        for ModifierSupport { modifier, .. } in known.iter().filter(|known| modifiers.contains(&known.modifier)) {
            let (features, limits) = match interop.image_support_with(kind, &image.query(), Some(modifier.0)) {
                Ok(found) => found,
                Err(error) if error.kind() == ErrorKind::Unsupported => continue,
                Err(error) => return Err(error),
            };
            let fits = spec.extent[0] <= limits.max_extent.width && spec.extent[1] <= limits.max_extent.height;
            if let Some(exportable) = exportable_as(kind, &features).filter(|_| fits) {
                types = exportable;
                dedicated |= features.dedicated_only;
                usable.push(modifier.0);
            }
        }
        if usable.is_empty() {
            let message = "the device exports no such picture as a dma-buf with any of the modifiers";
            return Err(Error::unsupported(OPERATION, message)
                .with_device(interop.identity())
                .with_context("picture", format_args!("{spec:?}"))
                .with_context("modifiers", list(modifiers))
                .with_context("known to the device", list(known.iter().map(|known| &known.modifier))));
        }
        let planar = Planar {
            spec: &image,
            format: spec.format,
            types,
            placement: options.memory,
            dedicated,
            modifiers: &usable,
        };
        let image = planar.joint(interop)?;
        let mut properties = vk::ImageDrmFormatModifierPropertiesEXT::default();
        // SAFETY: the image is live, of this device, and tiled by a modifier; the function exists.
        unsafe { functions.get_image_drm_format_modifier_properties(image.as_raw(), &mut properties) }
            .checked("vkGetImageDrmFormatModifierPropertiesEXT")
            .map_err(|error| error.with_device(interop.identity()))?;
        let chosen = DrmModifier(properties.drm_format_modifier);
        let Some(found) = known.into_iter().find(|known| known.modifier == chosen) else {
            let message = "the driver chose a modifier that it does not report for the format";
            return Err(Error::new(ErrorKind::Driver, OPERATION, message).with_context("modifier", chosen));
        };
        Ok(Self { spec, images: Images::Planar(image), handle: kind, modifier: Some((chosen, found.memory_planes)) })
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
    /// [`ErrorKind::Unsupported`] for a format without a DRM code and for optimal tiling;
    /// [`ErrorKind::InvalidArgument`] if the picture was not created for dma-bufs; otherwise as
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
        let plane = |memory, offset, pitch| match self.export(memory)? {
            MemoryHandle::DmaBufFd(fd) => Ok(DmaBufPlane::new(fd, offset, pitch).dedicated(self.is_dedicated(memory))),
            other => Err(Error::new(ErrorKind::Driver, OPERATION, "the export is not a dma-buf")
                .with_context("handle", other.kind())),
        };
        let planes = match (self.modifier, &self.images) {
            (Some((_, count)), Images::Planar(image)) => (0..count)
                .map(|index| {
                    let layout = image.aspect_layout(memory_plane_aspect(index));
                    plane(0, layout.offset, layout.row_pitch)
                })
                .collect::<Result<_>>()?,
            _ => (0..self.planes())
                .map(|index| {
                    let layout = self.plane_layout(index)?;
                    plane(self.memory_of(index), layout.offset, layout.pitch)
                })
                .collect::<Result<_>>()?,
        };
        Ok(DmaBufPicture::new(format, modifier, self.spec.extent, planes))
    }

    /// `true` if this allocation is dedicated.
    fn is_dedicated(&self, memory: usize) -> bool {
        let mut memories = self.images().flat_map(OwnedImage::memories);
        memories.nth(memory).is_some_and(Memory::is_dedicated)
    }
}
