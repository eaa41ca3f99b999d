//! The DRM modifiers that a device supports, by format.

use std::ffi::CStr;

use ash::vk;
use gpu_interop_core::format::{DrmFourcc, DrmModifier};
use gpu_interop_core::{Error, ErrorKind, MemoryHandleKind, Result};

use super::format::PictureFormat;
use crate::identity::has_extension;
use crate::image::ImageSpec;
use crate::interop::VulkanInterop;

/// A DRM modifier that a device supports for a format (`VkDrmFormatModifierPropertiesEXT`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModifierSupport {
    /// The modifier.
    pub modifier: DrmModifier,
    /// Number of memory planes, 1 to 4: those of the format, and one for each kind of compression metadata. 1 means that no
    /// compression metadata has a plane.
    pub memory_planes: usize,
    /// Features of images with the format and the modifier. `DISJOINT` allows memory planes in several dma-bufs.
    pub features: vk::FormatFeatureFlags,
}

/// The feature that a usage needs.
const NEEDS: [(vk::ImageUsageFlags, vk::FormatFeatureFlags); 6] = {
    use vk::{FormatFeatureFlags as Feature, ImageUsageFlags as Usage};
    [
        (Usage::TRANSFER_SRC, Feature::TRANSFER_SRC),
        (Usage::TRANSFER_DST, Feature::TRANSFER_DST),
        (Usage::SAMPLED, Feature::SAMPLED_IMAGE),
        (Usage::STORAGE, Feature::STORAGE_IMAGE),
        (Usage::COLOR_ATTACHMENT, Feature::COLOR_ATTACHMENT),
        (Usage::INPUT_ATTACHMENT, Feature::COLOR_ATTACHMENT),
    ]
};

impl ModifierSupport {
    /// The usages of an image that this modifier does not have.
    pub(crate) fn missing(&self, usage: vk::ImageUsageFlags) -> vk::ImageUsageFlags {
        let missing = NEEDS.iter().filter(|(bit, feature)| usage.contains(*bit) && !self.features.contains(*feature));
        missing.fold(vk::ImageUsageFlags::empty(), |all, (bit, _)| all | *bit)
    }
}

impl VulkanInterop {
    /// The DRM modifiers that the device knows for a format; whether it exports or imports such images depends on their
    /// usage and size.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the physical device lacks `VK_EXT_image_drm_format_modifier`.
    #[doc(alias("vkGetPhysicalDeviceFormatProperties2", "VkDrmFormatModifierPropertiesListEXT"))]
    pub fn drm_modifiers(&self, format: vk::Format) -> Result<Vec<DrmModifier>> {
        Ok(supported(self, "VulkanInterop::drm_modifiers", format)?.into_iter().map(|found| found.modifier).collect())
    }

    /// The DRM modifiers with which the device imports pictures of a format for a usage
    /// ([`ImportedPicture`](crate::ImportedPicture)), in the driver's order, which Vulkan gives no meaning. Pass them all to
    /// a producer that allocates, which chooses. Calls
    /// `vkGetPhysicalDeviceFormatProperties2`, and `vkGetPhysicalDeviceImageFormatProperties2` for each.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the physical device lacks `VK_EXT_image_drm_format_modifier` or
    /// `VK_EXT_external_memory_dma_buf`, or the format is none of
    /// [`ImportedPicture::formats`](crate::ImportedPicture::formats); [`ErrorKind::InvalidArgument`] for no usage. A format
    /// without modifiers is no error: the list is empty.
    #[doc(alias("vkGetPhysicalDeviceFormatProperties2", "VkDrmFormatModifierPropertiesListEXT"))]
    pub fn picture_modifiers(&self, format: DrmFourcc, usage: vk::ImageUsageFlags) -> Result<Vec<ModifierSupport>> {
        const OPERATION: &str = "VulkanInterop::picture_modifiers";
        let format = PictureFormat::new(OPERATION, format, None)?;
        let spec = picture_spec([1, 1], format.vulkan, usage, vk::ImageCreateFlags::empty());
        spec.query().check(OPERATION, true)?;
        let mut importable = Vec::new();
        for found in of_dma_bufs(self, OPERATION, format.vulkan)? {
            if !found.missing(usage).is_empty() {
                continue;
            }
            match self.image_support_with(MemoryHandleKind::DmaBufFd, &spec.query(), Some(found.modifier.0)) {
                Ok((features, _)) if features.importable => importable.push(found),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Unsupported => {}
                Err(error) => return Err(error),
            }
        }
        Ok(importable)
    }
}

/// The image of a picture.
pub(super) fn picture_spec(
    [width, height]: [u32; 2],
    format: vk::Format,
    usage: vk::ImageUsageFlags,
    flags: vk::ImageCreateFlags,
) -> ImageSpec {
    ImageSpec::new(vk::ImageViewType::TYPE_2D, [width, height, 1], format, usage)
        .tiling(vk::ImageTiling::DRM_FORMAT_MODIFIER_EXT)
        .flags(flags)
}

/// The modifiers for messages.
pub(crate) fn list<'a>(modifiers: impl IntoIterator<Item = &'a DrmModifier>) -> String {
    let all: Vec<_> = modifiers.into_iter().map(ToString::to_string).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

const MODIFIERS: Extension = (vk::EXT_IMAGE_DRM_FORMAT_MODIFIER_NAME, "has no images with DRM modifiers");
const DMA_BUFS: Extension = (vk::EXT_EXTERNAL_MEMORY_DMA_BUF_NAME, "does not import dma-bufs");

/// An extension, and what a device lacks without it.
type Extension = (&'static CStr, &'static str);

/// The modifiers of a format on a device that imports dma-bufs.
pub(super) fn of_dma_bufs(
    interop: &VulkanInterop,
    operation: &'static str,
    format: vk::Format,
) -> Result<Vec<ModifierSupport>> {
    check(interop, operation, &[MODIFIERS, DMA_BUFS], "copy the picture on the CPU, or install a newer driver")?;
    Ok(listed(interop, format))
}

/// The modifiers that the device knows for a format.
pub(crate) fn supported(
    interop: &VulkanInterop,
    operation: &'static str,
    format: vk::Format,
) -> Result<Vec<ModifierSupport>> {
    check(interop, operation, &[MODIFIERS], "use linear tiling and opaque handles")?;
    Ok(listed(interop, format))
}

/// Fails with the remedy if the physical device lacks an extension.
fn check(interop: &VulkanInterop, operation: &'static str, needed: &[Extension], remedy: &str) -> Result<()> {
    interop.check_process(operation)?;
    for (name, what) in needed {
        // SAFETY: the physical device belongs to the live instance (`VulkanInterop::new`).
        if !unsafe { has_extension(interop.instance(), interop.physical_device(), name) } {
            let message = format!("the device {what} ({}); {remedy}", name.to_string_lossy());
            return Err(Error::unsupported(operation, message).with_device(interop.identity()));
        }
    }
    Ok(())
}

/// The modifiers of a format on a device with `VK_EXT_image_drm_format_modifier`.
fn listed(interop: &VulkanInterop, format: vk::Format) -> Vec<ModifierSupport> {
    let (instance, physical_device) = (interop.instance(), interop.physical_device());
    let query = |list: &mut vk::DrmFormatModifierPropertiesListEXT<'_>| {
        let mut properties = vk::FormatProperties2::default().push_next(list);
        // SAFETY: the instance is 1.1 or later, and the device has the extension of the structure, whose array, if any, has
        // the stated length.
        unsafe { instance.get_physical_device_format_properties2(physical_device, format, &mut properties) };
    };
    let mut list = vk::DrmFormatModifierPropertiesListEXT::default();
    query(&mut list);
    let mut found = vec![vk::DrmFormatModifierPropertiesEXT::default(); list.drm_format_modifier_count as usize];
    let mut list = vk::DrmFormatModifierPropertiesListEXT::default().drm_format_modifier_properties(&mut found);
    query(&mut list);
    let count = list.drm_format_modifier_count as usize;
    found.truncate(count);
    let support = |found: vk::DrmFormatModifierPropertiesEXT| ModifierSupport {
        modifier: DrmModifier(found.drm_format_modifier),
        memory_planes: found.drm_format_modifier_plane_count.clamp(1, 4) as usize,
        features: found.drm_format_modifier_tiling_features,
    };
    found.into_iter().map(support).collect()
}

/// The functions of the extension, if it is enabled.
pub(crate) fn functions(
    interop: &VulkanInterop,
    operation: &'static str,
) -> Result<ash::ext::image_drm_format_modifier::Device> {
    let name = c"vkGetImageDrmFormatModifierPropertiesEXT";
    // SAFETY: instance and device are live and belong together (`VulkanInterop::new`).
    let found = unsafe { interop.instance().get_device_proc_addr(interop.device().handle(), name.as_ptr()) };
    if found.is_none() {
        let message = "the device was created without VK_EXT_image_drm_format_modifier; enable it (see \
                       VulkanInterop::optional_device_extensions)";
        return Err(Error::unsupported(operation, message).with_device(interop.identity()));
    }
    Ok(ash::ext::image_drm_format_modifier::Device::new(interop.instance(), interop.device()))
}
