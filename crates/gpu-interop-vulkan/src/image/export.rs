//! Images that other APIs can import.

use gpu_interop_core::{Error, MemoryHandleKind, MipmappedArrayDesc, Result};
use gpu_interop_core::{MemoryHandle, MemoryImport};

use super::{ImageSpec, OwnedImage, Unbound};
use crate::export::exportable_as;
use crate::handles;
use crate::interop::VulkanInterop;
use crate::memory::{Memory, Sharing};
use crate::placement::MemoryPlacement;
use crate::tracking::State;

/// What an [`ExportableImage`] is created with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageOptions {
    /// What the image is.
    pub image: ImageSpec,
    /// Whether to make a dedicated allocation. Made anyway where the driver demands one.
    pub dedicated: bool,
    /// How many bytes of the memory lie before the image, rounded up to what the driver demands. An importer finds the
    /// image by [`OwnedImage::offset`], which [`OwnedImage::array_desc`] and [`OwnedImage::subresource_layout`] count in.
    /// Not with a dedicated allocation, which begins with its image.
    pub offset: u64,
    /// Where the memory should be. Only linear tiling makes sense in host memory, and devices may offer no other there.
    pub memory: MemoryPlacement,
    /// What the image is exported as. [`MemoryHandleKind::DmaBufFd`] needs `VK_EXT_external_memory_dma_buf` enabled.
    pub handle: MemoryHandleKind,
}

impl ImageOptions {
    /// This image at the beginning of memory of the device's own, exported as an opaque fd or an NT handle, with a dedicated allocation only if the driver
    /// demands one.
    #[must_use]
    pub fn new(image: ImageSpec) -> Self {
        Self { image, dedicated: false, offset: 0, memory: MemoryPlacement::DeviceLocal, handle: handles::MEMORY }
    }

    /// Asks for a dedicated allocation.
    #[must_use]
    pub fn dedicated(mut self, dedicated: bool) -> Self {
        self.dedicated = dedicated;
        self
    }

    /// Leaves at least so many bytes of the memory before the image.
    #[must_use]
    pub fn offset(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }

    /// Says where the memory should be.
    #[must_use]
    pub fn memory(mut self, memory: MemoryPlacement) -> Self {
        self.memory = memory;
        self
    }

    /// Says what the image is exported as.
    #[must_use]
    pub fn handle(mut self, handle: MemoryHandleKind) -> Self {
        self.handle = handle;
        self
    }
}

/// An image whose memory can be exported. Destroyed when dropped; what was exported stays valid on its own.
#[derive(Debug, Clone)]
pub struct ExportableImage {
    image: OwnedImage,
    handle: MemoryHandleKind,
}

const OPERATION: &str = "ExportableImage::new";

/// Where an image begins in its memory, bytes.
fn offset_in_memory(options: &ImageOptions, alignment: u64, dedicated_demanded: bool) -> Result<u64> {
    if options.offset == 0 {
        return Ok(0);
    }
    if options.dedicated {
        return Err(Error::invalid(
            OPERATION,
            "a dedicated allocation begins with its image; leave one of the two out",
        )
        .with_context("offset", options.offset));
    }
    if dedicated_demanded {
        let message = "the driver demands a dedicated allocation for such an image, which begins with it";
        return Err(Error::unsupported(OPERATION, message).with_context("offset", options.offset));
    }
    options.offset.checked_next_multiple_of(alignment).ok_or_else(|| past_any_memory(options.offset))
}

fn past_any_memory(offset: u64) -> Error {
    Error::invalid(OPERATION, "no memory is so great that an image could begin there").with_context("offset", offset)
}

impl ExportableImage {
    /// Creates an image that can be exported. The device is asked first whether it can.
    ///
    /// Rests on `vkCreateImage` with `VkExternalMemoryImageCreateInfo` and `vkAllocateMemory` with
    /// `VkExportMemoryAllocateInfo`, plus `VkMemoryDedicatedAllocateInfo` for dedicated allocations.
    ///
    /// # Errors
    /// * `InvalidArgument`: extents, layers or levels that are 0, that no image of this view has, or more levels than
    ///   the extent allows; no usage. The driver was not called. Also an offset in a dedicated allocation, or past the
    ///   end of any memory.
    /// * [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported): no array has the format, or the device
    ///   does not export such an image as this kind, has none so great, or no memory in that place, or demands a
    ///   dedicated allocation where an offset was asked for.
    /// * `OutOfMemory`.
    pub fn new(interop: &VulkanInterop, options: &ImageOptions) -> Result<Self> {
        let features = options.image.check(OPERATION, interop, options.handle)?;
        let Some(types) = exportable_as(options.handle, &features) else {
            return Err(Error::unsupported(OPERATION, "such an image cannot be exported as this kind of handle")
                .with_device(interop.identity())
                .with_context("handle", options.handle)
                .with_context("image", format_args!("{:?}", options.image)));
        };
        let image = Unbound::new(interop, &options.image, types)?;
        let dedicated = options.dedicated || features.dedicated_only;
        let needs = image.needs();
        let demanded = features.dedicated_only || needs.requires_dedicated;
        let offset = offset_in_memory(options, needs.requirements.alignment, demanded)
            .map_err(|error| error.with_device(interop.identity()))?;
        let Some(needs) = needs.after(offset) else { return Err(past_any_memory(options.offset)) };
        let memory = Memory::new(interop, &needs, &Sharing::Export(types), options.memory, dedicated)?;
        Ok(Self { image: image.bind(memory, offset, State::New)?, handle: options.handle })
    }

    /// The image itself.
    #[must_use]
    pub fn image(&self) -> &OwnedImage {
        &self.image
    }

    /// What it is exported as.
    #[must_use]
    pub fn handle_kind(&self) -> MemoryHandleKind {
        self.handle
    }

    /// Shorthand for [`OwnedImage::array_desc`]: what an importer maps, beside
    /// [`import_request`](Self::import_request).
    ///
    /// # Errors
    /// Those of [`OwnedImage::array_desc`].
    pub fn array_desc(&self) -> Result<MipmappedArrayDesc> {
        self.image.array_desc()
    }

    /// Exports the memory. Every call gives a new descriptor, owned by the caller, that keeps the memory alive even
    /// after this image is gone. Rests on `vkGetMemoryFdKHR`.
    ///
    /// # Errors
    /// As [`ExportableBuffer::export`](crate::ExportableBuffer::export).
    pub fn export(&self) -> Result<MemoryHandle> {
        self.image.inner.memory.export(self.handle)
    }

    /// Exports the memory as a complete request for an importer: handle, allocation size, dedicated flag, identity, and
    /// for optimal tiling the image ([`array_desc`](Self::array_desc)).
    ///
    /// # Errors
    /// As [`export`](Self::export).
    pub fn import_request(&self) -> Result<MemoryImport> {
        let request = self.image.inner.memory.import_request(self.handle)?;
        Ok(match self.array_desc() {
            // SAFETY: the description is made of what this image was created with, and the memory was allocated for it alone.
            Ok(desc) => unsafe { request.of_image(desc) },
            // One of linear tiling is no array.
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
        let kind = |found: Result<u64>| found.expect_err("refused").kind();
        assert_eq!(offset_in_memory(&options(0).dedicated(true), 4096, true).expect("none"), 0);
        assert_eq!(offset_in_memory(&options(1), 4096, false).expect("rounded up"), 4096);
        assert_eq!(offset_in_memory(&options(8192), 4096, false).expect("as it is"), 8192);
        assert_eq!(kind(offset_in_memory(&options(1).dedicated(true), 4096, false)), ErrorKind::InvalidArgument);
        assert_eq!(kind(offset_in_memory(&options(1), 4096, true)), ErrorKind::Unsupported);
        assert_eq!(kind(offset_in_memory(&options(u64::MAX), 4096, false)), ErrorKind::InvalidArgument);
    }
}
