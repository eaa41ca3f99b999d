//! Memory of another process, another device or another API as textures and buffers.

use gpu_interop::vulkan::{BufferImportOptions, ImageImportOptions};
use gpu_interop::{ImportError, MemoryImport, Result};

use super::access::Imported;
use super::{ImportOptions, ImportedBuffer, ImportedTexture, Importer};
use crate::check;
use crate::native::objects::Resource;
use crate::object::Handle;

impl Importer {
    /// Imports memory as a texture. Calls `vkAllocateMemory` with `VkImportMemoryFdInfoKHR` or
    /// `VkImportMemoryWin32HandleInfoKHR`.
    ///
    /// `image` describes the exporter's image: with any difference the texels are elsewhere. `desc` describes the same image for
    /// wgpu; its usages are some of the image's. Texels with optimal tiling have the same layout on both sides only for the same
    /// device with the same driver.
    ///
    /// On success the texture owns the handle. On failure the request is returned with its handle open. Use the texture in an
    /// [`Access`](super::Access) only; a Vulkan exporter has initialised and released the image by then.
    ///
    /// # Errors
    /// * [`ErrorKind::InvalidArgument`](gpu_interop::ErrorKind::InvalidArgument): `desc` is not valid for wgpu
    ///   ([`Interop::create_texture`](crate::Interop::create_texture) lists the checks), is another image than `image`, or has a
    ///   usage or view formats that `image` lacks; `RENDER_ATTACHMENT` without [`ImportOptions::never_discarded`]; a descriptor is
    ///   closed or cannot be GPU memory; the memory has another size than the image needs; a missing dedicated flag.
    /// * [`ErrorKind::Unsupported`](gpu_interop::ErrorKind::Unsupported): the device does not import this kind for such an image;
    ///   a usage or format that the wgpu device lacks.
    /// * [`ErrorKind::DeviceMismatch`](gpu_interop::ErrorKind::DeviceMismatch): the request names another exporter.
    /// * [`ErrorKind::ImportRejected`](gpu_interop::ErrorKind::ImportRejected) or
    ///   [`ErrorKind::OutOfMemory`](gpu_interop::ErrorKind::OutOfMemory): the driver rejected the import.
    #[doc(alias(
        "create_texture_from_hal",
        "VkImportMemoryFdInfoKHR",
        "VkImportMemoryWin32HandleInfoKHR",
        "vkGetMemoryFdPropertiesKHR"
    ))]
    pub fn import_texture(
        &self,
        request: MemoryImport,
        desc: &wgpu::TextureDescriptor<'_>,
        image: &ImageImportOptions,
        options: ImportOptions,
    ) -> Result<ImportedTexture, ImportError<MemoryImport>> {
        const OPERATION: &str = "Importer::import_texture";
        let graphics = &self.graphics;
        let check = || {
            check::texture(OPERATION, graphics, desc, options.never_discarded)?;
            let linear = image.image.tiling == gpu_interop::vulkan::ash::vk::ImageTiling::LINEAR;
            if linear && desc.usage.contains(wgpu::TextureUsages::RENDER_ATTACHMENT) {
                check::linear_attachment(OPERATION, &graphics.device)?;
            }
            graphics.native.vulkan(OPERATION)
        };
        let native = match check() {
            Ok(native) => native,
            Err(error) => return Err(ImportError::new(error, request)),
        };
        let (texture, imported) =
            graphics.reported_later(|| native.import_texture(OPERATION, &graphics.device, request, desc, image))?;
        let (handle, resource) = (Handle::Texture(texture.clone()), Resource::VulkanImage(imported.image().clone()));
        Ok(ImportedTexture::new(texture, Imported::new(graphics, handle, resource)))
    }

    /// Imports memory as a buffer. Calls `vkAllocateMemory` with `VkImportMemoryFdInfoKHR` or
    /// `VkImportMemoryWin32HandleInfoKHR`.
    ///
    /// `buffer` describes the imported buffer: its usage has those of `desc`, and, for a dedicated allocation of Vulkan, is the
    /// exporter's. Its size is that of `desc` or more, in whole words.
    ///
    /// On success the buffer owns the handle. On failure the request is returned with its handle open. Use the buffer in an
    /// [`Access`](super::Access) only; a Vulkan exporter has released it by then.
    ///
    /// # Errors
    /// * [`ErrorKind::InvalidArgument`](gpu_interop::ErrorKind::InvalidArgument): `desc` has no usage, an unknown one or one that
    ///   maps, or has a size of 0 or above the wgpu device's limit; `buffer` has a smaller size or lacks a usage; a buffer
    ///   larger than the allocation; a descriptor that is closed or cannot be GPU memory; a missing dedicated flag.
    /// * [`ErrorKind::Unsupported`](gpu_interop::ErrorKind::Unsupported): the device does not import this kind; a usage whose
    ///   feature the wgpu device lacks.
    /// * [`ErrorKind::DeviceMismatch`](gpu_interop::ErrorKind::DeviceMismatch): the request names another exporter.
    /// * [`ErrorKind::ImportRejected`](gpu_interop::ErrorKind::ImportRejected) or
    ///   [`ErrorKind::OutOfMemory`](gpu_interop::ErrorKind::OutOfMemory): the driver rejected the import.
    #[doc(alias(
        "create_buffer_from_hal",
        "VkImportMemoryFdInfoKHR",
        "VkImportMemoryWin32HandleInfoKHR",
        "vkGetMemoryFdPropertiesKHR"
    ))]
    pub fn import_buffer(
        &self,
        request: MemoryImport,
        desc: &wgpu::BufferDescriptor<'_>,
        buffer: &BufferImportOptions,
    ) -> Result<ImportedBuffer, ImportError<MemoryImport>> {
        const OPERATION: &str = "Importer::import_buffer";
        let graphics = &self.graphics;
        let checked = check::buffer(OPERATION, graphics, desc).and_then(|()| graphics.native.vulkan(OPERATION));
        let native = match checked {
            Ok(native) => native,
            Err(error) => return Err(ImportError::new(error, request)),
        };
        let (buffer, imported) =
            graphics.reported_later(|| native.import_buffer(OPERATION, &graphics.device, request, desc, buffer))?;
        let (handle, resource) = (Handle::Buffer(buffer.clone()), Resource::VulkanBuffer(imported.buffer().clone()));
        Ok(ImportedBuffer::new(buffer, Imported::new(graphics, handle, resource)))
    }
}
