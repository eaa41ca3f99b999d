//! Memory of another Vulkan device, or of another API, as an image.

use gpu_interop_core::{ImportError, MemoryImport, Result};

use super::{ImageSpec, OwnedImage, Unbound};
use crate::import_memory::{self, Incoming};
use crate::interop::VulkanInterop;
use crate::placement::MemoryPlacement;
use crate::tracking::State;

const OPERATION: &str = "ImportedImage::new";

/// What an [`ImportedImage`] is created with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageImportOptions {
    /// What the image is: all of it as the exporter has it, or the texels are elsewhere.
    pub image: ImageSpec,
    /// Where the exporter placed the memory. Vulkan demands that both sides use one memory type, and the same
    /// placement and image choose the same type on the same device.
    pub memory: MemoryPlacement,
    /// The exporter's memory type, if it is known; it goes before the choice by placement.
    pub memory_type: Option<u32>,
}

impl ImageImportOptions {
    /// This image, in memory that is the device's own.
    #[must_use]
    pub fn new(image: ImageSpec) -> Self {
        Self { image, memory: MemoryPlacement::DeviceLocal, memory_type: None }
    }

    /// Says where the exporter placed the memory.
    #[must_use]
    pub fn memory(mut self, memory: MemoryPlacement) -> Self {
        self.memory = memory;
        self
    }

    /// Says which memory type the exporter used.
    #[must_use]
    pub fn memory_type(mut self, index: u32) -> Self {
        self.memory_type = Some(index);
        self
    }
}

/// An image on memory that was exported elsewhere. Destroyed when dropped, which leaves the exporter's memory alone.
#[derive(Debug, Clone)]
pub struct ImportedImage {
    image: OwnedImage,
}

impl ImportedImage {
    /// Imports memory and binds a new image to it at offset 0. Rests on `vkAllocateMemory` with
    /// `VkImportMemoryFdInfoKHR`. Optimal tiling means the same on both sides only if they are the same device with the
    /// same driver.
    ///
    /// The image belongs to the other side at first: acquire it before anything else, also to be the first to write it.
    /// The other side, if it is Vulkan, has initialised and released it by then.
    ///
    /// On success the handle belongs to the import. On failure the request comes back with its handle open, whatever
    /// the driver did: it only ever gets a duplicate.
    ///
    /// # Errors
    /// Those of [`ExportableImage::new`](crate::ExportableImage::new) for the image, and those of
    /// [`ImportedBuffer::new`](crate::ImportedBuffer::new) for the memory.
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the request says that the memory holds
    /// another image, or the same one at another offset than 0.
    pub fn new(
        interop: &VulkanInterop,
        request: MemoryImport,
        options: &ImageImportOptions,
    ) -> Result<Self, ImportError<MemoryImport>> {
        match import(interop, &request, options) {
            // The request's own descriptor is closed here; the driver has a duplicate.
            Ok(image) => Ok(Self { image }),
            Err(error) => Err(import_memory::failed(error, interop, request)),
        }
    }

    /// The image itself.
    #[must_use]
    pub fn image(&self) -> &OwnedImage {
        &self.image
    }
}

fn import(interop: &VulkanInterop, request: &MemoryImport, options: &ImageImportOptions) -> Result<OwnedImage> {
    let incoming = Incoming::new(OPERATION, interop, request)?;
    let features = options.image.check(OPERATION, interop, incoming.kind())?;
    options.image.check_exported(OPERATION, interop, request.image())?;
    let types = incoming
        .handle_type(&features)
        .map_err(|error| error.with_context("image", format_args!("{:?}", options.image)))?;
    let image = Unbound::new(interop, &options.image, types)?;
    let memory = incoming.allocate(&image.needs(), types, options.memory, options.memory_type)?;
    // Whoever has the memory has the image, until it is acquired.
    image.bind(memory, 0, State::External)
}
