//! Images that the driver lays out by one of several DRM modifiers, exported as dma-bufs.

use ash::vk;
use gpu_interop_core::format::{DmaBufPicture, DmaBufPlane, DrmFourcc, DrmModifier, TexelRow};
use gpu_interop_core::{Error, ErrorKind, MemoryHandle, MemoryHandleKind, Result, VideoFormat};

use super::export::{ExportableImage, ImageOptions};
use super::planar::memory_plane_aspect;
use super::{ImageSpec, Modifiers, OwnedImage, Unbound};
use crate::error::Checked;
use crate::export::exportable_as;
use crate::format::TexelFormat;
use crate::interop::VulkanInterop;
use crate::memory::{Memory, Sharing};
use crate::picture::{ModifierSupport, functions, list, supported};
use crate::placement::MemoryPlacement;
use crate::tracking::State;

/// The modifier of an image, and the number of its memory planes.
pub(crate) type Chosen = (DrmModifier, usize);

/// Creates an image in one allocation that is exported as a dma-buf. The driver chooses one of the modifiers. `texel` is the
/// format of the texels, or of the luma.
pub(crate) fn with_modifiers(
    operation: &'static str,
    interop: &VulkanInterop,
    spec: &ImageSpec,
    texel: TexelFormat,
    placement: MemoryPlacement,
    modifiers: &[DrmModifier],
) -> Result<(OwnedImage, Chosen)> {
    spec.query().check(operation, true)?;
    let known = supported(interop, operation, spec.format)?;
    let functions = functions(interop, operation)?;
    let kind = MemoryHandleKind::DmaBufFd;
    let mut types = vk::ExternalMemoryHandleTypeFlags::empty();
    // See `ExportableImage::new`.
    let compressed = interop.is_nvidia_driver() && placement == MemoryPlacement::DeviceLocal;
    let (mut usable, mut dedicated) = (Vec::new(), compressed);
    let usable_by =
        |known: &&ModifierSupport| modifiers.contains(&known.modifier) && known.missing(spec.usage).is_empty();
    for ModifierSupport { modifier, .. } in known.iter().filter(usable_by) {
        let (features, limits) = match interop.image_support_with(kind, &spec.query(), Some(modifier.0)) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::Unsupported => continue,
            Err(error) => return Err(error),
        };
        let fits = spec.extent.width <= limits.max_extent.width && spec.extent.height <= limits.max_extent.height;
        if let Some(exportable) = exportable_as(kind, &features).filter(|_| fits) {
            types = exportable;
            dedicated |= features.dedicated_only;
            usable.push(modifier.0);
        }
    }
    if usable.is_empty() {
        let message = "the device exports no such picture as a dma-buf with any of the modifiers";
        return Err(Error::unsupported(operation, message)
            .with_device(interop.identity())
            .with_context("image", spec)
            .with_context("modifiers", list(modifiers))
            .with_context("known to the device", list(known.iter().map(|known| &known.modifier))));
    }
    let image = Unbound::create(interop, spec, texel, types, Modifiers::OneOf(&usable))?;
    let memory = Memory::new(interop, &image.needs(), &Sharing::Export(types), placement, dedicated)?;
    let image = image.bind(memory, 0, State::New)?;
    let mut properties = vk::ImageDrmFormatModifierPropertiesEXT::default();
    // SAFETY: the image is live, of this device, and tiled by a modifier; the function exists.
    unsafe { functions.get_image_drm_format_modifier_properties(image.as_raw(), &mut properties) }
        .checked("vkGetImageDrmFormatModifierPropertiesEXT")
        .map_err(|error| error.with_device(interop.identity()))?;
    let chosen = DrmModifier(properties.drm_format_modifier);
    match known.into_iter().find(|known| known.modifier == chosen) {
        Some(found) => Ok((image, (chosen, found.memory_planes))),
        None => {
            let message = "the driver chose a modifier that it does not report for the format";
            Err(Error::new(ErrorKind::Driver, operation, message).with_context("modifier", chosen))
        }
    }
}

/// Exports an image of [`with_modifiers`] as a picture of this format.
pub(crate) fn dma_buf_picture(
    operation: &'static str,
    image: &OwnedImage,
    format: DrmFourcc,
    (modifier, memory_planes): Chosen,
) -> Result<DmaBufPicture> {
    let memory = &image.inner.memory;
    let plane = |index| {
        let layout = image.aspect_layout(memory_plane_aspect(index));
        dma_buf_plane(operation, memory, layout.offset, layout.row_pitch)
    };
    let planes = (0..memory_planes).map(plane).collect::<Result<Vec<_>>>()?;
    // RADV of Mesa 22.3 reports every plane after the first like this.
    if (1..planes.len()).any(|index| planes[..index].iter().any(|other| other.offset == planes[index].offset)) {
        let remedy = match VideoFormat::from_drm(format) {
            Some(video) => {
                let codes: Vec<_> =
                    (0..video.planes()).filter_map(|plane| Some(video.plane_drm(plane)?.to_string())).collect();
                format!("create an image of each plane with ExportableImage::with_modifiers ({})", codes.join(", "))
            }
            None => "choose a modifier with one memory plane".to_owned(),
        };
        let message =
            format!("the driver reports the same offset for two memory planes; use a newer driver, or {remedy}");
        return Err(Error::new(ErrorKind::Driver, operation, message)
            .with_device(image.interop().identity())
            .with_context("modifier", modifier));
    }
    let vk::Extent3D { width, height, .. } = image.spec().extent;
    Ok(DmaBufPicture::new(format, modifier, [width, height], planes))
}

/// Exports memory as the dma-buf of a plane.
pub(crate) fn dma_buf_plane(operation: &'static str, memory: &Memory, offset: u64, pitch: u64) -> Result<DmaBufPlane> {
    match memory.export(MemoryHandleKind::DmaBufFd)? {
        MemoryHandle::DmaBufFd(fd) => Ok(DmaBufPlane::new(fd, offset, pitch).dedicated(memory.is_dedicated())),
        other => Err(Error::new(ErrorKind::Driver, operation, "the export is not a dma-buf")
            .with_context("handle", other.kind())),
    }
}

impl ExportableImage {
    /// Creates an image whose layout is one of these DRM modifiers, chosen by the driver, exported as a dma-buf
    /// ([`dma_buf_picture`](Self::dma_buf_picture)). Tiling, handle kind, offset and dedicated flag of the options are ignored.
    /// Releases go to `VK_QUEUE_FAMILY_EXTERNAL`, so an importer chooses [`Producer::SameDriver`](crate::Producer::SameDriver).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] unless the image has two dimensions, one layer, one level and no flags.
    /// [`ErrorKind::Unsupported`] if the device lacks `VK_EXT_image_drm_format_modifier`, or it was not enabled, or none of
    /// the modifiers is supported for such an image: the error lists those that the device knows for the format.
    /// Otherwise as [`new`](Self::new).
    #[doc(alias("VkImageDrmFormatModifierListCreateInfoEXT", "vkGetImageDrmFormatModifierPropertiesEXT"))]
    pub fn with_modifiers(interop: &VulkanInterop, options: &ImageOptions, modifiers: &[DrmModifier]) -> Result<Self> {
        const OPERATION: &str = "ExportableImage::with_modifiers";
        let spec = options.image.tiling(vk::ImageTiling::DRM_FORMAT_MODIFIER_EXT);
        options.image.shape()?;
        let is_plain = spec.view == vk::ImageViewType::TYPE_2D && spec.levels == 1 && spec.layers == 1;
        if !is_plain || !spec.flags.is_empty() {
            let message = "a picture on a dma-buf has two dimensions, one layer, one level and no flags";
            return Err(Error::invalid(OPERATION, message).with_context("image", spec));
        }
        let texel = spec.texel_format()?;
        let (image, chosen) = with_modifiers(OPERATION, interop, &spec, texel, options.memory, modifiers)?;
        Ok(Self { image, handle: MemoryHandleKind::DmaBufFd, modifier: Some(chosen) })
    }

    /// The DRM modifier of an image from [`with_modifiers`](Self::with_modifiers).
    #[must_use]
    pub fn modifier(&self) -> Option<DrmModifier> {
        self.modifier.map(|(modifier, _)| modifier)
    }

    /// Exports an image from [`with_modifiers`](Self::with_modifiers) as a dma-buf: format, modifier, and a descriptor, offset,
    /// pitch and dedicated flag for each memory plane. The caller owns the descriptors.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for an image that is not from [`with_modifiers`](Self::with_modifiers);
    /// [`ErrorKind::Unsupported`] for a format without a DRM code; otherwise as [`export`](Self::export).
    #[doc(alias("vkGetImageSubresourceLayout", "vkGetMemoryFdKHR"))]
    pub fn dma_buf_picture(&self) -> Result<DmaBufPicture> {
        const OPERATION: &str = "ExportableImage::dma_buf_picture";
        let Some(chosen) = self.modifier else {
            let message = "the image has no modifier; create it with ExportableImage::with_modifiers";
            return Err(Error::invalid(OPERATION, message));
        };
        let TexelFormat { array, order, .. } = self.image.format();
        // DRM's codes have no encoding.
        let same = TexelRow::all().iter().filter(|row| row.array == array && row.order == order);
        let Some(code) = same.filter_map(|row| row.drm).next() else {
            let message = format!("DRM has no code for {:?}", self.image.spec().format);
            return Err(Error::unsupported(OPERATION, message));
        };
        dma_buf_picture(OPERATION, &self.image, code, chosen)
    }
}
