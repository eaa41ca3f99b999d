//! Images on imported memory.

use gpu_interop_core::{ImportError, MemoryImport, Result};

use super::{ImageSpec, OwnedImage, Unbound};
use crate::import::{self, Incoming};
use crate::interop::VulkanInterop;
use crate::placement::MemoryPlacement;
use crate::tracking::State;

const OPERATION: &str = "ImportedImage::new";

/// Options of an [`ImportedImage`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageImportOptions {
    /// Description of the image, equal to the exporter's; with any difference the texels are elsewhere.
    pub image: ImageSpec,
    /// Placement that the exporter used. Vulkan requires the same memory type on both sides; the same placement and
    /// image select the same type on the same device.
    pub memory: MemoryPlacement,
    /// The exporter's memory type, if known; overrides the selection by placement.
    pub memory_type: Option<u32>,
}

impl ImageImportOptions {
    /// Options for this image in device-local memory.
    #[must_use]
    pub fn new(image: ImageSpec) -> Self {
        Self { image, memory: MemoryPlacement::DeviceLocal, memory_type: None }
    }
}

setters! {
    ImageImportOptions {
        /// Sets the placement that the exporter used.
        memory: MemoryPlacement;
        /// Sets the memory type that the exporter used.
        memory_type: u32;
    }
}

/// An image on memory that was exported elsewhere. Destroyed on drop; the exporter's memory is unaffected.
#[derive(Debug, Clone)]
pub struct ImportedImage {
    image: OwnedImage,
}

impl ImportedImage {
    /// Imports memory and binds a new image to it at offset 0. Calls `vkAllocateMemory` with `VkImportMemoryFdInfoKHR`
    /// or `VkImportMemoryWin32HandleInfoKHR`. Optimal tiling has the same layout on both sides only for the same device
    /// with the same driver.
    ///
    /// The other API owns the image: acquire it before anything else, even to write it first. A Vulkan exporter has
    /// initialised and released it by then.
    ///
    /// On success the import owns the handle. On failure the request is returned with its handle open, whatever the
    /// driver did: the driver only gets a duplicate.
    ///
    /// # Errors
    /// The errors of [`ExportableImage::new`](crate::ExportableImage::new) for the image, and of
    /// [`ImportedBuffer::new`](crate::ImportedBuffer::new) for the memory.
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the request describes another
    /// image, or an offset other than 0.
    #[doc(alias(
        "VkImportMemoryFdInfoKHR",
        "VkImportMemoryWin32HandleInfoKHR",
        "vkGetMemoryFdPropertiesKHR",
        "vkGetMemoryWin32HandlePropertiesKHR"
    ))]
    pub fn new(
        interop: &VulkanInterop,
        request: MemoryImport,
        options: &ImageImportOptions,
    ) -> Result<Self, ImportError<MemoryImport>> {
        match import(interop, &request, options) {
            Ok(image) => Ok(Self { image }),
            Err(error) => Err(import::failed(error, interop, request)),
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
    let types = incoming.handle_type(&features).map_err(|error| error.with_context("image", options.image))?;
    let image = Unbound::new(interop, &options.image, types)?;
    let memory = incoming.allocate(&image.needs(), types, options.memory, options.memory_type)?;
    // The other API owns the image until it is acquired.
    image.bind(memory, 0, State::External)
}
