//! Pictures in dma-bufs as textures.

use gpu_interop::format::{DmaBufPicture, DrmFourcc, DrmModifier, TexelRow};
use gpu_interop::vulkan::{ModifierSupport, Producer};
use gpu_interop::{Error, ImportError, Result, VideoFormat};

use super::access::Imported;
use super::{ImportOptions, ImportedTexture, Importer};
use crate::interop::Graphics;
use crate::native::objects::Resource;
use crate::object::Handle;
use crate::{check, format};

const OPERATION: &str = "Importer::import_picture";

/// The format of wgpu for a picture's code, without the sRGB encoding; codes without alpha have that of the code with it.
/// `None` if wgpu lacks it, or for a multi-planar one.
#[must_use]
pub fn picture_format(code: DrmFourcc) -> Option<wgpu::TextureFormat> {
    let vulkan = TexelRow::of_drm(code.with_alpha())?.vulkan;
    format::of_vulkan(vulkan)
}

impl Importer {
    /// The DRM modifiers with which the device imports pictures of a format for a usage, in the driver's order, which Vulkan
    /// gives no meaning. Pass them all to a producer that allocates, which chooses. Those with a
    /// [`memory_planes`](ModifierSupport::memory_planes) of 1 have no planes of compression metadata. Calls
    /// `vkGetPhysicalDeviceFormatProperties2`, and `vkGetPhysicalDeviceImageFormatProperties2` for each.
    ///
    /// For a multi-planar format the list is that of Vulkan's multi-planar images, which
    /// [`import_picture`](Self::import_picture) does not make: use [`plane_modifiers`](Self::plane_modifiers).
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop::ErrorKind::Unsupported) if the device was created without the extensions for
    /// dma-bufs, or the format is unknown; [`ErrorKind::InvalidArgument`](gpu_interop::ErrorKind::InvalidArgument) for no usage.
    #[doc(alias("vkGetPhysicalDeviceFormatProperties2", "VkDrmFormatModifierPropertiesListEXT"))]
    pub fn picture_modifiers(&self, code: DrmFourcc, usage: wgpu::TextureUsages) -> Result<Vec<ModifierSupport>> {
        const OPERATION: &str = "Importer::picture_modifiers";
        self.graphics.native.vulkan(OPERATION)?.picture_modifiers(OPERATION, code, usage)
    }

    /// The DRM modifiers with which the device imports each plane of a picture for a usage, as a picture of its own
    /// (`DmaBufPicture::into_planes`), without compression metadata: for `NV12` those that `R8  ` and `GR88` have in common. For
    /// a format with one plane, those of [`picture_modifiers`](Self::picture_modifiers) with one memory plane. In the
    /// driver's order of the first plane's.
    ///
    /// # Errors
    /// As [`picture_modifiers`](Self::picture_modifiers).
    #[doc(alias("vkGetPhysicalDeviceFormatProperties2", "VkDrmFormatModifierPropertiesListEXT"))]
    pub fn plane_modifiers(&self, code: DrmFourcc, usage: wgpu::TextureUsages) -> Result<Vec<DrmModifier>> {
        const OPERATION: &str = "Importer::plane_modifiers";
        let native = self.graphics.native.vulkan(OPERATION)?;
        let modifiers = |code| {
            let found = native.picture_modifiers(OPERATION, code, usage)?;
            Ok(found.iter().filter(|found| found.memory_planes == 1).map(|found| found.modifier).collect())
        };
        Ok(common(plane_codes(code).into_iter().map(modifiers).collect::<Result<_>>()?))
    }

    /// Imports the dma-bufs of a picture as a texture, with the explicit layout of the picture's modifier. Calls `vkCreateImage`
    /// with `VkImageDrmFormatModifierExplicitCreateInfoEXT`, and `vkAllocateMemory` with `VkImportMemoryFdInfoKHR`.
    ///
    /// `desc` describes the picture for wgpu: its size, two dimensions, one level, one sample. The format is
    /// [`picture_format`], or one that differs in the encoding or the numeric type only, such as `Bgra8UnormSrgb` for `AR24`.
    ///
    /// On success the texture owns the picture's descriptors. On failure the picture is returned with its descriptors open.
    /// Use the texture in an [`Access`](super::Access) only.
    ///
    /// # Errors
    /// * [`ErrorKind::InvalidArgument`](gpu_interop::ErrorKind::InvalidArgument): `desc` is not valid for wgpu
    ///   ([`Interop::create_texture`](crate::Interop::create_texture) lists the checks), has another size or other texels than the
    ///   picture, several levels or layers; `RENDER_ATTACHMENT` without [`ImportOptions::never_discarded`]; the picture has no
    ///   plane, or not those of its format and modifier; a descriptor is closed or is not a dma-buf; a plane is not inside of its
    ///   dma-buf.
    /// * [`ErrorKind::Unsupported`](gpu_interop::ErrorKind::Unsupported): the device was created without the extensions for
    ///   dma-bufs, does not list the modifier for the format, or not for a usage; a code without a format of wgpu, such as a
    ///   multi-planar one; a view format other than
    ///   the texture's, because an image with a modifier has none: import the picture with the encoding that you need.
    /// * [`ErrorKind::ImportRejected`](gpu_interop::ErrorKind::ImportRejected) or
    ///   [`ErrorKind::OutOfMemory`](gpu_interop::ErrorKind::OutOfMemory): the driver rejected the import.
    ///
    /// # Safety
    /// The dma-bufs contain the picture as described, and nothing changes their size while the texture lives.
    #[doc(alias(
        "create_texture_from_hal",
        "texture_from_dmabuf_fd",
        "VkImageDrmFormatModifierExplicitCreateInfoEXT",
        "VkImportMemoryFdInfoKHR"
    ))]
    pub unsafe fn import_picture(
        &self,
        picture: DmaBufPicture,
        desc: &wgpu::TextureDescriptor<'_>,
        options: ImportOptions,
    ) -> Result<ImportedTexture, ImportError<DmaBufPicture>> {
        let graphics = &self.graphics;
        let native = check_picture(graphics, &picture, desc, options).and_then(|()| graphics.native.vulkan(OPERATION));
        let native = match native {
            Ok(native) => native,
            Err(error) => return Err(ImportError::new(error, picture)),
        };
        let producer = if options.same_driver { Producer::SameDriver } else { Producer::Foreign };
        let (texture, imported) = graphics.reported_later(|| {
            // SAFETY: the caller's promises; `check_picture` has checked the description.
            unsafe { native.import_picture(OPERATION, &graphics.device, picture, desc, producer) }
        })?;
        let (handle, resource) = (Handle::Texture(texture.clone()), Resource::VulkanImage(imported.image().clone()));
        let mut object = Imported::new(graphics, handle, resource);
        object.picture = Some(imported);
        Ok(ImportedTexture::new(texture, object))
    }
}

/// Checks that wgpu would create the texture, and that it is the picture.
fn check_picture(
    graphics: &Graphics,
    picture: &DmaBufPicture,
    desc: &wgpu::TextureDescriptor<'_>,
    options: ImportOptions,
) -> Result<()> {
    check_code(picture.format)?;
    format::row(OPERATION, desc.format)?;
    check::texture(OPERATION, graphics, desc, options.never_discarded)?;
    check_texels(picture.format, desc.format)?;
    check_shape(picture.extent, desc)?;
    if let Some(view) = desc.view_formats.iter().find(|view| **view != desc.format) {
        let message = "a picture has no views of other formats; import it with the encoding that you need";
        return Err(Error::unsupported(OPERATION, message).with_context("view format", format_args!("{view:?}")));
    }
    if picture.modifier == DrmModifier::LINEAR && desc.usage.contains(wgpu::TextureUsages::RENDER_ATTACHMENT) {
        check::linear_attachment(OPERATION, &graphics.device)?;
    }
    Ok(())
}

/// The codes of the planes as pictures of their own, each once.
fn plane_codes(code: DrmFourcc) -> Vec<DrmFourcc> {
    let Some(video) = VideoFormat::from_drm(code) else { return vec![code] };
    let mut codes: Vec<_> = (0..video.planes()).filter_map(|plane| video.plane_drm(plane)).collect();
    codes.dedup();
    codes
}

/// The modifiers that all lists have, in the order of the first one.
fn common(lists: Vec<Vec<DrmModifier>>) -> Vec<DrmModifier> {
    let all = lists.into_iter().reduce(|mut common, list| {
        common.retain(|modifier| list.contains(modifier));
        common
    });
    all.unwrap_or_default()
}

/// Rejects multi-planar formats.
fn check_code(code: DrmFourcc) -> Result<()> {
    if VideoFormat::from_drm(code).is_none() {
        return Ok(());
    }
    let message = "a multi-planar picture is imported plane by plane; import each picture of DmaBufPicture::into_planes, \
                   and convert the colours in the shader";
    Err(Error::unsupported(OPERATION, message).with_context("format", code))
}

/// Rejects codes that wgpu has no format for, and a format with channels of other sizes. The import compares the rest.
fn check_texels(code: DrmFourcc, format: wgpu::TextureFormat) -> Result<()> {
    let Some(own) = picture_format(code) else {
        let message = "wgpu has no format with the texels of this picture; have the producer use another code";
        return Err(Error::unsupported(OPERATION, message).with_context("format", code));
    };
    let packed = |format| format == wgpu::TextureFormat::Rgb10a2Unorm;
    if packed(own) == packed(format) {
        return Ok(());
    }
    let message = "the texture has other texels than the picture; pass the format of picture_format, or one that differs in the \
                   encoding or the numeric type only";
    Err(Error::invalid(OPERATION, message)
        .with_context("picture", code)
        .with_context("of the picture", format_args!("{own:?}"))
        .with_context("texture", format_args!("{format:?}")))
}

/// Checks size, dimension, levels and layers.
fn check_shape(extent: [u32; 2], desc: &wgpu::TextureDescriptor<'_>) -> Result<()> {
    let wgpu::Extent3d { width, height, depth_or_array_layers } = desc.size;
    let flat = desc.dimension == wgpu::TextureDimension::D2 && depth_or_array_layers == 1 && desc.mip_level_count == 1;
    if flat && [width, height] == extent {
        return Ok(());
    }
    let message =
        "the texture is not the picture; describe it with the picture's size, two dimensions, one layer and one level";
    Err(Error::invalid(OPERATION, message)
        .with_context("texture", format_args!("{:?}, {:?}", desc.size, desc.dimension))
        .with_context("levels", desc.mip_level_count)
        .with_context("picture", format_args!("{} x {}", extent[0], extent[1])))
}

#[cfg(test)]
mod tests {
    use gpu_interop::ErrorKind;

    use super::*;

    #[test]
    fn codes_have_formats_of_wgpu() {
        use wgpu::TextureFormat as Format;
        for (code, format) in [
            ("AR24", Some(Format::Bgra8Unorm)),
            ("XR24", Some(Format::Bgra8Unorm)),
            ("XB24", Some(Format::Rgba8Unorm)),
            ("AB30", Some(Format::Rgb10a2Unorm)),
            ("AB4H", Some(Format::Rgba16Float)),
            ("R8  ", Some(Format::R8Unorm)),
            ("GR88", Some(Format::Rg8Unorm)),
            ("R16 ", Some(Format::R16Unorm)),
            ("GR32", Some(Format::Rg16Unorm)),
            // wgpu has no such order of channels.
            ("XR30", None),
            ("NV12", None),
        ] {
            assert_eq!(picture_format(DrmFourcc::from_code(code)), format, "{code}");
        }
    }

    #[test]
    fn a_texture_has_the_shape_of_the_picture() {
        let desc = wgpu::TextureDescriptor {
            label: None,
            size: wgpu::Extent3d { width: 64, height: 32, depth_or_array_layers: 1 },
            mip_level_count: 1,
            sample_count: 1,
            dimension: wgpu::TextureDimension::D2,
            format: wgpu::TextureFormat::Rgba8Unorm,
            usage: wgpu::TextureUsages::COPY_SRC,
            view_formats: &[],
        };
        check_shape([64, 32], &desc).expect("the same");
        let layers = wgpu::Extent3d { depth_or_array_layers: 2, ..desc.size };
        for (extent, desc) in [
            ([64, 31], desc.clone()),
            ([63, 32], desc.clone()),
            ([64, 32], wgpu::TextureDescriptor { mip_level_count: 2, ..desc.clone() }),
            ([64, 32], wgpu::TextureDescriptor { size: layers, ..desc.clone() }),
            ([64, 32], wgpu::TextureDescriptor { dimension: wgpu::TextureDimension::D3, ..desc.clone() }),
        ] {
            let error = check_shape(extent, &desc).expect_err("another shape");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        }
    }

    #[test]
    fn a_texture_has_the_channels_of_the_picture() {
        use wgpu::TextureFormat as Format;
        let check = |code, format| check_texels(DrmFourcc::from_code(code), format).map_err(|error| error.kind());
        assert_eq!(check("AR24", Format::Bgra8UnormSrgb), Ok(()));
        assert_eq!(check("AB30", Format::Rgb10a2Unorm), Ok(()));
        assert_eq!(check("AB30", Format::Rgba8Unorm), Err(ErrorKind::InvalidArgument));
        assert_eq!(check("AB24", Format::Rgb10a2Unorm), Err(ErrorKind::InvalidArgument));
        assert_eq!(check("XR30", Format::Bgra8Unorm), Err(ErrorKind::Unsupported));
        assert_eq!(check("YUYV", Format::Rgba8Unorm), Err(ErrorKind::Unsupported));
    }

    #[test]
    fn planes_have_modifiers_in_common() {
        let codes = |code| plane_codes(DrmFourcc::from_code(code));
        assert_eq!(codes("NV12"), ["R8  ", "GR88"].map(DrmFourcc::from_code));
        assert_eq!(codes("P010"), ["R16 ", "GR32"].map(DrmFourcc::from_code));
        assert_eq!(codes("YU12"), [DrmFourcc::from_code("R8  ")]);
        assert_eq!(codes("XR24"), [DrmFourcc::from_code("XR24")]);
        let of = |list: &[u64]| list.iter().copied().map(DrmModifier).collect::<Vec<_>>();
        assert_eq!(common(vec![of(&[5, 0, 7, 2]), of(&[0, 1, 2, 5])]), of(&[5, 0, 2]));
        assert_eq!(common(vec![of(&[3, 1])]), of(&[3, 1]));
    }

    #[test]
    fn planes_are_imported_apart() {
        for code in ["NV12", "P010", "YU12"] {
            let error = check_code(DrmFourcc::from_code(code)).expect_err("several planes");
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains("into_planes"), "{error}");
        }
        check_code(DrmFourcc::from_code("XR24")).expect("one plane");
    }
}
