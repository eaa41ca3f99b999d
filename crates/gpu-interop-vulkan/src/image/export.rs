//! Images that other APIs can import.

use gpu_interop_core::{Error, MemoryHandleKind, MipmappedArrayDesc, Result};
#[cfg(unix)]
use gpu_interop_core::{MemoryHandle, MemoryImport};

use super::{ImageSpec, ImageState, OwnedImage, Unbound};
use crate::export::exportable_as;
use crate::interop::VulkanInterop;
use crate::memory::{Memory, Sharing};
use crate::placement::MemoryPlacement;

/// What an [`ExportableImage`] is created with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageOptions {
    /// What the image is.
    pub image: ImageSpec,
    /// Whether to make a dedicated allocation. Made anyway where the driver demands one.
    pub dedicated: bool,
    /// Where the memory should be. Only linear tiling makes sense in host memory, and devices may offer no other there.
    pub memory: MemoryPlacement,
    /// What the image is exported as. [`MemoryHandleKind::DmaBufFd`] needs `VK_EXT_external_memory_dma_buf` enabled.
    pub handle: MemoryHandleKind,
}

impl ImageOptions {
    /// This image in the device's own memory, exported as an opaque fd, with a dedicated allocation only if the driver
    /// demands one.
    #[must_use]
    pub fn new(image: ImageSpec) -> Self {
        Self { image, dedicated: false, memory: MemoryPlacement::DeviceLocal, handle: MemoryHandleKind::OpaqueFd }
    }

    /// Asks for a dedicated allocation.
    #[must_use]
    pub fn dedicated(mut self, dedicated: bool) -> Self {
        self.dedicated = dedicated;
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

impl ExportableImage {
    /// Creates an image that can be exported. The device is asked first whether it can.
    ///
    /// Rests on `vkCreateImage` with `VkExternalMemoryImageCreateInfo` and `vkAllocateMemory` with
    /// `VkExportMemoryAllocateInfo`, plus `VkMemoryDedicatedAllocateInfo` for dedicated allocations.
    ///
    /// # Errors
    /// * `InvalidArgument`: extents, layers or levels that are 0, that no image of this view has, or more levels than
    ///   the extent allows; no usage. The driver was not called.
    /// * [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported): no array has the format, or the device
    ///   does not export such an image as this kind, has none so great, or no memory in that place.
    /// * `OutOfMemory`.
    pub fn new(interop: &VulkanInterop, options: &ImageOptions) -> Result<Self> {
        const OPERATION: &str = "ExportableImage::new";
        let features = options.image.check(OPERATION, interop, options.handle)?;
        let Some(types) = exportable_as(options.handle, &features) else {
            return Err(Error::unsupported(OPERATION, "such an image cannot be exported as this kind of handle")
                .with_device(interop.identity())
                .with_context("handle", options.handle)
                .with_context("image", format_args!("{:?}", options.image)));
        };
        let image = Unbound::new(interop, &options.image, types)?;
        let dedicated = options.dedicated || features.dedicated_only;
        let memory = Memory::new(interop, &image.needs(), &Sharing::Export(types), options.memory, dedicated)?;
        Ok(Self { image: image.bind(memory, ImageState::New)?, handle: options.handle })
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
    #[cfg(unix)]
    pub fn export(&self) -> Result<MemoryHandle> {
        self.image.inner.memory.export(self.handle)
    }

    /// Exports the memory as a complete request for an importer: handle, allocation size, dedicated flag, identity.
    ///
    /// # Errors
    /// As [`export`](Self::export).
    #[cfg(unix)]
    pub fn import_request(&self) -> Result<MemoryImport> {
        self.image.inner.memory.import_request(self.handle)
    }
}
