//! Objects of wgpu on memory of other producers.

use gpu_interop::vulkan::ash::vk;
use gpu_interop::vulkan::{BufferImportOptions, ImageImportOptions, ImportedBuffer, ImportedImage};
use gpu_interop::{Error, ImportError, MemoryImport, Result};
use wgpu::hal::api::Vulkan;

use super::{VulkanDevice, buffer_usage, image_flags, image_spec, wgpu_buffer, wgpu_texture};

#[cfg(unix)]
pub(crate) mod picture;

impl VulkanDevice {
    /// Imports an image. The caller has checked `desc` as wgpu does.
    pub(crate) fn import_texture(
        &self,
        operation: &'static str,
        device: &wgpu::Device,
        request: MemoryImport,
        desc: &wgpu::TextureDescriptor<'_>,
        options: &ImageImportOptions,
    ) -> Result<(wgpu::Texture, ImportedImage), ImportError<MemoryImport>> {
        if let Err(error) = check_image(operation, desc, options) {
            return Err(ImportError::new(error, request));
        }
        // SAFETY: the guard destroys nothing.
        let Some(hal) = (unsafe { device.as_hal::<Vulkan>() }) else {
            return Err(ImportError::new(changed(operation), request));
        };
        let imported = ImportedImage::new(&self.interop, request, options)?;
        let image = imported.image();
        // SAFETY: the image is of this device and has the properties of `desc` (`check_image`). It is acquired in `GENERAL`
        // before wgpu uses it.
        let texture = unsafe { wgpu_texture(device, &hal, desc, image) };
        Ok((texture, imported))
    }

    /// Imports a buffer. The caller has checked `desc` as wgpu does.
    pub(crate) fn import_buffer(
        &self,
        operation: &'static str,
        device: &wgpu::Device,
        request: MemoryImport,
        desc: &wgpu::BufferDescriptor<'_>,
        options: &BufferImportOptions,
    ) -> Result<(wgpu::Buffer, ImportedBuffer), ImportError<MemoryImport>> {
        if let Err(error) = check_buffer(operation, desc, options) {
            return Err(ImportError::new(error, request));
        }
        let imported = ImportedBuffer::new(&self.interop, request, options)?;
        let raw = imported.buffer();
        // SAFETY: the buffer is of this device and has the properties of `desc` (`check_buffer`), which the caller has
        // checked for usages that map. It is acquired before wgpu uses it.
        let buffer = unsafe { wgpu_buffer(device, desc, raw) };
        Ok((buffer, imported))
    }
}

/// Not reachable: the wgpu device was Vulkan's when the native device was read from it.
fn changed(operation: &'static str) -> Error {
    Error::invalid(operation, "the wgpu device has changed")
}

/// Checks that wgpu's description is that of the imported image.
fn check_image(
    operation: &'static str,
    desc: &wgpu::TextureDescriptor<'_>,
    options: &ImageImportOptions,
) -> Result<()> {
    let cube = matches!(options.image.view, vk::ImageViewType::CUBE | vk::ImageViewType::CUBE_ARRAY);
    let linear = options.image.tiling == vk::ImageTiling::LINEAR;
    let wanted = image_spec(operation, desc, cube, linear)?;
    let given = options.image;
    let same = given.view == wanted.view
        && given.extent == wanted.extent
        && given.layers == wanted.layers
        && given.levels == wanted.levels
        && given.format == wanted.format;
    if !same {
        let message =
            "wgpu's description differs from the image's; pass the same dimension, size, layers, levels and format";
        return Err(Error::invalid(operation, message)
            .with_context("wgpu", format_args!("{:?}, {:?}, {}", desc.size, desc.format, desc.mip_level_count))
            .with_context("image", given));
    }
    let usage = super::image_usage(desc.usage) & !given.usage;
    if !usage.is_empty() {
        let message = "the image was created without a usage of wgpu's description; omit it, or have the exporter create the \
                       image with it and state it in the options";
        return Err(Error::invalid(operation, message)
            .with_context("usage", format_args!("{:?}", desc.usage))
            .with_context("missing", format_args!("{usage:?}")));
    }
    let flags = image_flags(desc) & !given.flags;
    // A cube has the flag by its view.
    let flags = if cube { flags & !vk::ImageCreateFlags::CUBE_COMPATIBLE } else { flags };
    if !flags.is_empty() {
        let message = "the image was created without a flag that views of wgpu need; have the exporter create the image with \
                       it and state it in the options";
        return Err(Error::invalid(operation, message).with_context("missing", format_args!("{flags:?}")));
    }
    Ok(())
}

/// Checks that wgpu's description is that of the imported buffer.
fn check_buffer(
    operation: &'static str,
    desc: &wgpu::BufferDescriptor<'_>,
    options: &BufferImportOptions,
) -> Result<()> {
    let size = desc.size.checked_next_multiple_of(wgpu::COPY_BUFFER_ALIGNMENT);
    if size.is_none_or(|size| size > options.size) {
        let message = "the imported buffer is smaller than wgpu's, rounded up to whole words; import more, or pass a smaller \
                       size to wgpu";
        return Err(Error::invalid(operation, message)
            .with_context("wgpu", format_args!("{} bytes", desc.size))
            .with_context("imported", format_args!("{} bytes", options.size)));
    }
    let missing = buffer_usage(desc.usage) & !options.usage;
    if !missing.is_empty() {
        let message = "the imported buffer lacks a usage of wgpu's description; state it in the options";
        return Err(Error::invalid(operation, message)
            .with_context("usage", format_args!("{:?}", desc.usage))
            .with_context("missing", format_args!("{missing:?}")));
    }
    Ok(())
}
