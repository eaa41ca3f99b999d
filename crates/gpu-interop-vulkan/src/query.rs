//! Queries of the handle types that a device can share, made before anything is created.
//!
//! A successful creation does not replace these queries: some drivers create a semaphore that they cannot export, and
//! fail at the export or not at all.

use ash::vk;
use gpu_interop_core::{Error, ErrorKind, MemoryHandleKind, Result, SemaphoreHandleKind, SemaphorePayload};

use crate::error::Checked;
use crate::interop::VulkanInterop;

/// Support for one kind of handle. `K` is [`MemoryHandleKind`] or [`SemaphoreHandleKind`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExternalFeatures<K> {
    /// Objects can be created for export as this kind (`..._FEATURE_EXPORTABLE_BIT`).
    pub exportable: bool,
    /// Handles of this kind can be imported (`..._FEATURE_IMPORTABLE_BIT`).
    pub importable: bool,
    /// Memory of this kind must be a dedicated allocation (`..._FEATURE_DEDICATED_ONLY_BIT`). Never set for
    /// semaphores.
    pub dedicated_only: bool,
    /// Kinds that an object can be created for together with this one.
    pub compatible: Vec<K>,
}

/// Vulkan's flag for a kind of memory handle, `None` where Vulkan has none.
#[must_use]
pub const fn memory_handle_type(kind: MemoryHandleKind) -> Option<vk::ExternalMemoryHandleTypeFlags> {
    use vk::ExternalMemoryHandleTypeFlags as Flags;
    Some(match kind {
        MemoryHandleKind::OpaqueFd => Flags::OPAQUE_FD,
        MemoryHandleKind::OpaqueWin32 => Flags::OPAQUE_WIN32,
        MemoryHandleKind::OpaqueWin32Kmt => Flags::OPAQUE_WIN32_KMT,
        MemoryHandleKind::D3d12Heap => Flags::D3D12_HEAP,
        MemoryHandleKind::D3d12Resource => Flags::D3D12_RESOURCE,
        MemoryHandleKind::D3d11Resource => Flags::D3D11_TEXTURE,
        MemoryHandleKind::D3d11ResourceKmt => Flags::D3D11_TEXTURE_KMT,
        MemoryHandleKind::DmaBufFd => Flags::DMA_BUF_EXT,
        _ => return None,
    })
}

/// Vulkan's flag for a kind of semaphore handle, `None` where Vulkan has none: a keyed mutex belongs to memory
/// there. Binary and timeline semaphores share a flag and differ by the semaphore's own type.
#[must_use]
pub const fn semaphore_handle_type(kind: SemaphoreHandleKind) -> Option<vk::ExternalSemaphoreHandleTypeFlags> {
    use vk::ExternalSemaphoreHandleTypeFlags as Flags;
    Some(match kind {
        SemaphoreHandleKind::OpaqueFd | SemaphoreHandleKind::TimelineFd => Flags::OPAQUE_FD,
        SemaphoreHandleKind::OpaqueWin32 | SemaphoreHandleKind::TimelineWin32 => Flags::OPAQUE_WIN32,
        SemaphoreHandleKind::OpaqueWin32Kmt => Flags::OPAQUE_WIN32_KMT,
        // One flag has both names in vulkan_core.h.
        SemaphoreHandleKind::D3d12Fence | SemaphoreHandleKind::D3d11Fence => Flags::D3D12_FENCE,
        _ => return None,
    })
}

/// Creation parameters of an image, for [`VulkanInterop::image_features`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageQuery {
    /// The texel format.
    pub format: vk::Format,
    /// 1D, 2D or 3D.
    pub image_type: vk::ImageType,
    /// Linear or optimal.
    pub tiling: vk::ImageTiling,
    /// The image's usage; at least one bit.
    pub usage: vk::ImageUsageFlags,
    /// The image's creation flags.
    pub flags: vk::ImageCreateFlags,
}

impl VulkanInterop {
    /// Queries the device's support for buffers of this usage shared as `kind`. Calls
    /// `vkGetPhysicalDeviceExternalBufferProperties`.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if Vulkan has no such kind of handle, or the usage is unknown, of video, or needs a
    /// feature or an extension that the device lacks; [`ErrorKind::InvalidArgument`] for no usage. A kind that only the
    /// device lacks is no error: all features are `false`.
    #[doc(alias = "vkGetPhysicalDeviceExternalBufferProperties")]
    pub fn buffer_features(
        &self,
        kind: MemoryHandleKind,
        usage: vk::BufferUsageFlags,
    ) -> Result<ExternalFeatures<MemoryHandleKind>> {
        const OPERATION: &str = "VulkanInterop::buffer_features";
        self.check_process(OPERATION)?;
        self.check_buffer_usage(OPERATION, usage)?;
        let info =
            vk::PhysicalDeviceExternalBufferInfo::default().usage(usage).handle_type(memory_flag(OPERATION, kind)?);
        let mut properties = vk::ExternalBufferProperties::default();
        // SAFETY: `VulkanInterop::new` checked that the device is Vulkan 1.1, and its caller promised the same of the
        // instance, so the function exists; both structures are complete, and the device has the usage.
        unsafe {
            self.instance().get_physical_device_external_buffer_properties(
                self.physical_device(),
                &info,
                &mut properties,
            );
        }
        Ok(memory_features(&properties.external_memory_properties))
    }

    /// Queries the device's support for such an image shared as `kind`, also for images that this crate does not create.
    /// Calls `vkGetPhysicalDeviceImageFormatProperties2`.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if Vulkan has no such kind of handle, or the device does not support the image or cannot
    /// share it as this kind; for formats, tilings, usages and flags that are not those of Vulkan 1.1, except the usages and
    /// flags of extensions that are on and have functions; for DRM modifiers. [`ErrorKind::InvalidArgument`] for no usage or
    /// an unknown type; [`ErrorKind::OutOfMemory`].
    #[doc(alias = "vkGetPhysicalDeviceImageFormatProperties2")]
    pub fn image_features(
        &self,
        kind: MemoryHandleKind,
        image: &ImageQuery,
    ) -> Result<ExternalFeatures<MemoryHandleKind>> {
        self.image_support(kind, image).map(|(features, _)| features)
    }

    /// As [`image_features`](Self::image_features), with the limits of such an image.
    pub(crate) fn image_support(
        &self,
        kind: MemoryHandleKind,
        image: &ImageQuery,
    ) -> Result<(ExternalFeatures<MemoryHandleKind>, vk::ImageFormatProperties)> {
        self.image_support_with(kind, image, None)
    }

    /// As [`image_support`](Self::image_support), for tiling by a DRM modifier, which the device must know.
    pub(crate) fn image_support_with(
        &self,
        kind: MemoryHandleKind,
        image: &ImageQuery,
        modifier: Option<u64>,
    ) -> Result<(ExternalFeatures<MemoryHandleKind>, vk::ImageFormatProperties)> {
        const OPERATION: &str = "VulkanInterop::image_features";
        self.check_process(OPERATION)?;
        image.check_defined(OPERATION, self, modifier.is_some())?;
        if modifier.is_none() && !image.is_planar() {
            self.check_format_features(OPERATION, image)?;
        }
        let mut external_info =
            vk::PhysicalDeviceExternalImageFormatInfo::default().handle_type(memory_flag(OPERATION, kind)?);
        let mut modifier_info = vk::PhysicalDeviceImageDrmFormatModifierInfoEXT::default()
            .drm_format_modifier(modifier.unwrap_or_default())
            .sharing_mode(vk::SharingMode::EXCLUSIVE);
        let mut info = vk::PhysicalDeviceImageFormatInfo2::default()
            .format(image.format)
            .ty(image.image_type)
            .tiling(image.tiling)
            .usage(image.usage)
            .flags(image.flags)
            .push_next(&mut external_info);
        if modifier.is_some() {
            info = info.push_next(&mut modifier_info);
        }
        let mut external = vk::ExternalImageFormatProperties::default();
        let mut properties = vk::ImageFormatProperties2::default().push_next(&mut external);
        // SAFETY: as in `buffer_features`; the parameters are valid, and the modifier is chained for its tiling.
        unsafe {
            self.instance().get_physical_device_image_format_properties2(self.physical_device(), &info, &mut properties)
        }
        .checked("vkGetPhysicalDeviceImageFormatProperties2")
        .map_err(|error| {
            error
                .with_device(self.identity())
                .with_context("handle", kind)
                .with_context("format", format_args!("{:?}", image.format))
                .with_context("tiling", format_args!("{:?}", image.tiling))
                .with_context("usage", format_args!("{:?}", image.usage))
        })?;
        let limits = properties.image_format_properties;
        Ok((memory_features(&external.external_memory_properties), limits))
    }

    /// Rejects usages that the device lacks for images of this format and tiling. NVIDIA's driver reports images of linear
    /// tiling as possible for `COLOR_ATTACHMENT`, which no format has there; draws to two of them hung a GPU.
    fn check_format_features(&self, operation: &'static str, image: &ImageQuery) -> Result<()> {
        use vk::{FormatFeatureFlags as Feature, ImageUsageFlags as Usage};
        // Drivers answer for the others.
        if !image.usage.intersects(Usage::STORAGE | Usage::COLOR_ATTACHMENT) {
            return Ok(());
        }
        // SAFETY: the physical device belongs to the live instance, and the format is defined.
        let properties =
            unsafe { self.instance().get_physical_device_format_properties(self.physical_device(), image.format) };
        let has = match image.tiling {
            vk::ImageTiling::LINEAR => properties.linear_tiling_features,
            _ => properties.optimal_tiling_features,
        };
        let needs = [(Usage::STORAGE, Feature::STORAGE_IMAGE), (Usage::COLOR_ATTACHMENT, Feature::COLOR_ATTACHMENT)];
        let missing =
            needs.into_iter().find(|(usage, feature)| image.usage.contains(*usage) && !has.contains(*feature));
        let Some((usage, _)) = missing else { return Ok(()) };
        let message = "the device has no images of this format and tiling for a usage of the image; omit the usage, or choose \
                       another format or tiling";
        Err(Error::unsupported(operation, message)
            .with_device(self.identity())
            .with_context("usage", format_args!("{usage:?}"))
            .with_context("format", format_args!("{:?}", image.format))
            .with_context("tiling", format_args!("{:?}", image.tiling)))
    }

    /// Queries the device's support for semaphores shared as `kind`. Calls
    /// `vkGetPhysicalDeviceExternalSemaphoreProperties`, with `VkSemaphoreTypeCreateInfo` for timeline kinds.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if Vulkan has no such kind of handle. A kind that only the device lacks is no error:
    /// all features are `false`.
    #[doc(alias = "vkGetPhysicalDeviceExternalSemaphoreProperties")]
    pub fn semaphore_features(&self, kind: SemaphoreHandleKind) -> Result<ExternalFeatures<SemaphoreHandleKind>> {
        const OPERATION: &str = "VulkanInterop::semaphore_features";
        self.check_process(OPERATION)?;
        let handle_type = semaphore_handle_type(kind).ok_or_else(|| no_such_handle(OPERATION, kind))?;
        let timeline = kind.payload() == SemaphorePayload::Timeline;
        if timeline && !self.has_timelines() {
            return Ok(ExternalFeatures {
                exportable: false,
                importable: false,
                dedicated_only: false,
                compatible: Vec::new(),
            });
        }
        let properties = self.query_semaphore(handle_type, kind.payload());
        let has = |bit| properties.external_semaphore_features.contains(bit);
        Ok(ExternalFeatures {
            exportable: has(vk::ExternalSemaphoreFeatureFlags::EXPORTABLE),
            importable: has(vk::ExternalSemaphoreFeatureFlags::IMPORTABLE),
            dedicated_only: false,
            compatible: SemaphoreHandleKind::ALL
                .iter()
                .copied()
                .filter(|other| other.payload() == kind.payload())
                .filter(|other| {
                    semaphore_handle_type(*other).is_some_and(|bit| properties.compatible_handle_types.contains(bit))
                })
                .collect(),
        })
    }

    /// Queries the features of a semaphore with this payload; for a timeline, the device has them.
    pub(crate) fn query_semaphore(
        &self,
        handle_type: vk::ExternalSemaphoreHandleTypeFlags,
        payload: SemaphorePayload,
    ) -> vk::ExternalSemaphoreProperties<'static> {
        let mut semaphore_type = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let mut info = vk::PhysicalDeviceExternalSemaphoreInfo::default().handle_type(handle_type);
        if payload == SemaphorePayload::Timeline {
            info = info.push_next(&mut semaphore_type);
        }
        let mut properties = vk::ExternalSemaphoreProperties::default();
        // SAFETY: as in `buffer_features`; the timeline structure is chained only if the device supports it.
        unsafe {
            self.instance().get_physical_device_external_semaphore_properties(
                self.physical_device(),
                &info,
                &mut properties,
            );
        }
        properties
    }
}

fn memory_flag(operation: &'static str, kind: MemoryHandleKind) -> Result<vk::ExternalMemoryHandleTypeFlags> {
    memory_handle_type(kind).ok_or_else(|| no_such_handle(operation, kind))
}

fn no_such_handle(operation: &'static str, kind: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Unsupported, operation, format!("Vulkan has no handle of this kind: {kind}"))
}

fn memory_features(properties: &vk::ExternalMemoryProperties) -> ExternalFeatures<MemoryHandleKind> {
    let has = |bit| properties.external_memory_features.contains(bit);
    ExternalFeatures {
        exportable: has(vk::ExternalMemoryFeatureFlags::EXPORTABLE),
        importable: has(vk::ExternalMemoryFeatureFlags::IMPORTABLE),
        dedicated_only: has(vk::ExternalMemoryFeatureFlags::DEDICATED_ONLY),
        compatible: MemoryHandleKind::ALL
            .iter()
            .copied()
            .filter(|kind| {
                memory_handle_type(*kind).is_some_and(|bit| properties.compatible_handle_types.contains(bit))
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_map_to_the_flags_of_the_vulkan_headers() {
        // VkExternalMemoryHandleTypeFlagBits, vulkan_core.h.
        let memory = |kind| memory_handle_type(kind).map(|bit: vk::ExternalMemoryHandleTypeFlags| bit.as_raw());
        assert_eq!(memory(MemoryHandleKind::OpaqueFd), Some(0x1));
        assert_eq!(memory(MemoryHandleKind::OpaqueWin32), Some(0x2));
        assert_eq!(memory(MemoryHandleKind::OpaqueWin32Kmt), Some(0x4));
        assert_eq!(memory(MemoryHandleKind::D3d11Resource), Some(0x8));
        assert_eq!(memory(MemoryHandleKind::D3d11ResourceKmt), Some(0x10));
        assert_eq!(memory(MemoryHandleKind::D3d12Heap), Some(0x20));
        assert_eq!(memory(MemoryHandleKind::D3d12Resource), Some(0x40));
        assert_eq!(memory(MemoryHandleKind::DmaBufFd), Some(0x200));
        assert_eq!(memory(MemoryHandleKind::NvSciBuf), None);
        // VkExternalSemaphoreHandleTypeFlagBits.
        let semaphore =
            |kind| semaphore_handle_type(kind).map(|bit: vk::ExternalSemaphoreHandleTypeFlags| bit.as_raw());
        assert_eq!(semaphore(SemaphoreHandleKind::OpaqueFd), Some(0x1));
        assert_eq!(semaphore(SemaphoreHandleKind::TimelineFd), Some(0x1));
        assert_eq!(semaphore(SemaphoreHandleKind::OpaqueWin32), Some(0x2));
        assert_eq!(semaphore(SemaphoreHandleKind::TimelineWin32), Some(0x2));
        assert_eq!(semaphore(SemaphoreHandleKind::OpaqueWin32Kmt), Some(0x4));
        assert_eq!(semaphore(SemaphoreHandleKind::D3d12Fence), Some(0x8));
        assert_eq!(semaphore(SemaphoreHandleKind::D3d11Fence), Some(0x8));
        assert_eq!(semaphore(SemaphoreHandleKind::D3d11KeyedMutex), None);
        assert_eq!(semaphore(SemaphoreHandleKind::NvSciSync), None);
    }
}
