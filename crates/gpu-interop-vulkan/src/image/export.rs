//! Exportable images.

use ash::vk;
use gpu_interop_core::{Error, MemoryHandleKind, MipmappedArrayDesc, Result};
use gpu_interop_core::{MemoryHandle, MemoryImport};

use super::{ImageSpec, OwnedImage, Unbound};
use crate::export::{exportable_as, needs_modifier};
use crate::handles;
use crate::interop::VulkanInterop;
use crate::memory::{Memory, Sharing};
use crate::placement::MemoryPlacement;
use crate::tracking::State;

/// Options of an [`ExportableImage`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageOptions {
    /// Description of the image.
    pub image: ImageSpec,
    /// Requests a dedicated allocation. One is made anyway where the driver requires it, and with NVIDIA's for linear
    /// tiling in device-local memory (see [`ExportableImage::new`]).
    pub dedicated: bool,
    /// Minimum offset of the image in its memory, bytes, rounded up to the driver's alignment. An importer finds the
    /// image at [`OwnedImage::offset`], which [`OwnedImage::array_desc`] and [`OwnedImage::subresource_layout`]
    /// include. Must be 0 with a dedicated allocation.
    pub offset: u64,
    /// Placement of the memory. Host memory is useful with linear tiling only, and devices may support no other tiling
    /// there.
    pub memory: MemoryPlacement,
    /// Handle kind of the exports. [`MemoryHandleKind::DmaBufFd`] needs `VK_EXT_external_memory_dma_buf` enabled.
    pub handle: MemoryHandleKind,
}

impl ImageOptions {
    /// Options for this image at offset 0 of device-local memory, exported as an opaque fd or an NT handle, without a
    /// request for a dedicated allocation.
    #[must_use]
    pub fn new(image: ImageSpec) -> Self {
        Self { image, dedicated: false, offset: 0, memory: MemoryPlacement::DeviceLocal, handle: handles::MEMORY }
    }
}

setters! {
    ImageOptions {
        /// Requests a dedicated allocation.
        dedicated: bool;
        /// Sets the minimum offset of the image in its memory, bytes.
        offset: u64;
        /// Sets the placement of the memory.
        memory: MemoryPlacement;
        /// Sets the handle kind of the exports.
        handle: MemoryHandleKind;
    }
}

/// An image whose memory can be exported. Destroyed on drop; exported handles stay valid.
#[derive(Debug, Clone)]
pub struct ExportableImage {
    pub(super) image: OwnedImage,
    pub(super) handle: MemoryHandleKind,
    /// The modifier of an image tiled by it.
    #[cfg(unix)]
    pub(super) modifier: Option<super::modifier::Chosen>,
}

const OPERATION: &str = "ExportableImage::new";

fn offset_in_memory(options: &ImageOptions, alignment: u64, requires_dedicated: bool) -> Result<u64> {
    if options.offset == 0 {
        return Ok(0);
    }
    if options.dedicated {
        return Err(Error::invalid(
            OPERATION,
            "an image starts at offset 0 of a dedicated allocation; drop the offset or `dedicated`",
        )
        .with_context("offset", options.offset));
    }
    if requires_dedicated {
        let message = "the driver requires a dedicated allocation for this image, where the offset is 0";
        return Err(Error::unsupported(OPERATION, message).with_context("offset", options.offset));
    }
    options.offset.checked_next_multiple_of(alignment).ok_or_else(|| offset_overflow(options.offset))
}

fn offset_overflow(offset: u64) -> Error {
    Error::invalid(OPERATION, "the offset exceeds the largest possible allocation").with_context("offset", offset)
}

impl ExportableImage {
    /// Creates an image that can be exported, after a query whether the device supports it.
    ///
    /// Calls `vkCreateImage` with `VkExternalMemoryImageCreateInfo` and `vkAllocateMemory` with
    /// `VkExportMemoryAllocateInfo`, plus `VkMemoryDedicatedAllocateInfo` for dedicated allocations.
    ///
    /// Measured with NVIDIA's driver 580.159 on an H100, for images with linear tiling in device-local memory that is
    /// not dedicated: once Vulkan has written uniform or slowly changing texels, and an importer has written others,
    /// Vulkan reads wrong ones. Random texels are right, and so is dedicated memory. Compressed memory would explain
    /// it. So with that driver such an image gets a dedicated allocation, and an offset is an error.
    ///
    /// # Errors
    /// * `InvalidArgument`: extents, layers or levels of 0, or impossible for this view, or more levels than the extent
    ///   allows; no usage; an offset in a dedicated allocation, or one that overflows. Fails before the allocation.
    /// * [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported): no array has the format; the device does
    ///   not export such an image as this kind, or not of this size; it has no memory of this placement; the image
    ///   needs a dedicated allocation but an offset was requested.
    /// * `OutOfMemory`.
    #[doc(alias(
        "vkCreateImage",
        "VkExternalMemoryImageCreateInfo",
        "vkGetImageMemoryRequirements2",
        "vkBindImageMemory",
        "vkAllocateMemory",
        "VkExportMemoryAllocateInfo"
    ))]
    pub fn new(interop: &VulkanInterop, options: &ImageOptions) -> Result<Self> {
        let remedy = |error| needs_modifier(error, options.handle, "ExportableImage::with_modifiers");
        let features = options.image.check(OPERATION, interop, options.handle).map_err(remedy)?;
        let types = exportable_as(options.handle, &features).ok_or_else(|| {
            let message = "the device cannot export this image as this kind of handle";
            remedy(Error::unsupported(OPERATION, message).with_device(interop.identity()))
                .with_context("handle", options.handle)
                .with_context("image", options.image)
        })?;
        let image = Unbound::new(interop, &options.image, types)?;
        let needs = image.needs();
        let linear = options.image.tiling == vk::ImageTiling::LINEAR && options.memory == MemoryPlacement::DeviceLocal;
        let compressed = linear && interop.is_nvidia_driver();
        let dedicated = options.dedicated || features.dedicated_only || compressed;
        let requires_dedicated = features.dedicated_only || needs.requires_dedicated || compressed;
        let offset = offset_in_memory(options, needs.requirements.alignment, requires_dedicated)
            .map_err(|error| error.with_device(interop.identity()))?;
        let Some(needs) = needs.after(offset) else { return Err(offset_overflow(options.offset)) };
        let memory = Memory::new(interop, &needs, &Sharing::Export(types), options.memory, dedicated)?;
        Ok(Self {
            image: image.bind(memory, offset, State::New)?,
            handle: options.handle,
            #[cfg(unix)]
            modifier: None,
        })
    }

    /// The image itself.
    #[must_use]
    pub fn image(&self) -> &OwnedImage {
        &self.image
    }

    /// The handle kind of the exports.
    #[must_use]
    pub fn handle_kind(&self) -> MemoryHandleKind {
        self.handle
    }

    /// Shorthand for [`OwnedImage::array_desc`]: the description that an importer needs, in addition to
    /// [`import_request`](Self::import_request), to map the image.
    ///
    /// # Errors
    /// Those of [`OwnedImage::array_desc`].
    pub fn array_desc(&self) -> Result<MipmappedArrayDesc> {
        self.image.array_desc()
    }

    /// Exports the memory. Every call returns a new descriptor or handle, owned by the caller, that keeps the memory
    /// alive even after this image is destroyed. Calls `vkGetMemoryFdKHR` or `vkGetMemoryWin32HandleKHR`.
    ///
    /// # Errors
    /// As [`ExportableBuffer::export`](crate::ExportableBuffer::export).
    #[doc(alias("vkGetMemoryFdKHR", "vkGetMemoryWin32HandleKHR"))]
    pub fn export(&self) -> Result<MemoryHandle> {
        self.image.inner.memory.export(self.handle)
    }

    /// Exports the memory as an import request: handle, allocation size, dedicated flag, device identity, and for
    /// optimal tiling the image ([`array_desc`](Self::array_desc)).
    ///
    /// # Errors
    /// As [`export`](Self::export).
    #[doc(alias("vkGetMemoryFdKHR", "vkGetMemoryWin32HandleKHR"))]
    pub fn import_request(&self) -> Result<MemoryImport> {
        let request = self.image.inner.memory.import_request(self.handle)?;
        Ok(match self.array_desc() {
            // SAFETY: the description is that of the created image, and the memory was allocated for this image alone.
            Ok(desc) => unsafe { request.of_image(desc) },
            // An image with linear tiling is not mapped as an array.
            Err(_) => request,
        })
    }
}

#[cfg(test)]
mod tests {
    use ash::vk;
    use gpu_interop_core::ErrorKind;

    use super::*;

    fn options(offset: u64) -> ImageOptions {
        let usage = vk::ImageUsageFlags::TRANSFER_DST;
        let image = ImageSpec::new(vk::ImageViewType::TYPE_2D, [4, 4, 1], vk::Format::R8_UNORM, usage);
        ImageOptions::new(image).offset(offset)
    }

    #[test]
    fn offsets_are_rounded_up_and_dedicated_allocations_have_none() {
        let kind = |found: Result<u64>| found.expect_err("rejected").kind();
        assert_eq!(offset_in_memory(&options(0).dedicated(true), 4096, true).expect("none"), 0);
        assert_eq!(offset_in_memory(&options(1), 4096, false).expect("rounded up"), 4096);
        assert_eq!(offset_in_memory(&options(8192), 4096, false).expect("as it is"), 8192);
        assert_eq!(kind(offset_in_memory(&options(1).dedicated(true), 4096, false)), ErrorKind::InvalidArgument);
        assert_eq!(kind(offset_in_memory(&options(1), 4096, true)), ErrorKind::Unsupported);
        assert_eq!(kind(offset_in_memory(&options(u64::MAX), 4096, false)), ErrorKind::InvalidArgument);
    }
}
