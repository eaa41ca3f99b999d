//! Exportable images.

use gpu_interop::vulkan::ash::vk::{self, Handle as _};
use gpu_interop::vulkan::{ExportableImage, ImageOptions, ImageSpec};

use super::buffer::{gpi_vulkan_memory_info, placement};
use crate::call::call;
use crate::handle::{gpi_vulkan, gpi_vulkan_image};
use crate::import_memory::{gpi_memory_import, memory_kind};
use crate::object;
use crate::pointer::{self, Out};
use crate::status::gpi_status;

/// Properties of an image to create. Set everything to 0 first. The enums and flags are those of Vulkan.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gpi_vulkan_image_options {
    /// `VkImageViewType`: dimensions, cube, array of these.
    pub view: i32,
    /// `VkFormat`.
    pub format: i32,
    /// Width, height and depth of level 0 in texels. An unused dimension is 1.
    pub extent: [u32; 3],
    /// Number of array layers; six per cube. 0 is 1, or 6 for a cube.
    pub layers: u32,
    /// Number of mip levels. 0 is 1.
    pub levels: u32,
    /// `VkImageUsageFlags`.
    pub usage: u32,
    /// `VkImageTiling`: `OPTIMAL` (0), mapped as an array, or `LINEAR` (1), mapped as a buffer.
    pub tiling: i32,
    /// `VkImageCreateFlags` beside those of the view: `MUTABLE_FORMAT`, `2D_ARRAY_COMPATIBLE`.
    pub flags: u32,
    /// Minimum offset of the image in its memory, in bytes.
    pub offset: u64,
    /// 1 requests a dedicated allocation, 0 leaves it to the driver.
    pub dedicated: i32,
    /// `GPI_VULKAN_DEVICE_LOCAL` or `GPI_VULKAN_HOST_VISIBLE`.
    pub placement: i32,
    /// The `GPI_MEMORY_*` of the exports; 0 is an opaque fd, on Windows an NT handle.
    pub kind: i32,
    /// Must be 0.
    pub reserved: u32,
}

/// Layout of one mip level and layer of an image with linear tiling, with the image's offset in its memory.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gpi_vulkan_row_layout {
    /// Offset of the first texel in the memory, in bytes.
    pub offset: u64,
    /// Bytes from row to row.
    pub row_pitch: u64,
    /// Bytes from slice to slice of an image of three dimensions; else 0.
    pub depth_pitch: u64,
    /// Bytes from layer to layer of an image with several layers; else 0.
    pub array_pitch: u64,
    /// Size in bytes, with padding.
    pub size: u64,
}

/// Creates an image whose memory can be exported, and writes it to `*image`, owned by the caller. It has no layout: record
/// `gpi_vulkan_record_image_initialize` and then `gpi_vulkan_record_image_release` before the other side uses it.
///
/// Errors: `GPI_ERROR_UNSUPPORTED` if no array has the format, or the device does not export such an image;
/// `GPI_ERROR_INVALID_ARGUMENT` for impossible dimensions, levels or layers, or no usage; `GPI_ERROR_OUT_OF_MEMORY`.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_vulkan_image_create(
    vulkan: gpi_vulkan,
    options: *const gpi_vulkan_image_options,
    image: *mut gpi_vulkan_image,
) -> gpi_status {
    call("gpi_vulkan_image_create", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "image", image) }?;
        // SAFETY: the caller's promise.
        let options = unsafe { pointer::read(operation, "options", options) }?;
        let vulkan = object::get(operation, vulkan)?;
        let (view, format) = (vk::ImageViewType::from_raw(options.view), vk::Format::from_raw(options.format));
        let usage = vk::ImageUsageFlags::from_raw(options.usage);
        let mut spec = ImageSpec::new(view, options.extent, format, usage)
            .tiling(vk::ImageTiling::from_raw(options.tiling))
            .flags(vk::ImageCreateFlags::from_raw(options.flags))
            .levels(options.levels.max(1));
        if options.layers != 0 {
            spec = spec.layers(options.layers);
        }
        let mut wanted = ImageOptions::new(spec)
            .offset(options.offset)
            .dedicated(options.dedicated != 0)
            .memory(placement(operation, options.placement)?);
        if options.kind != 0 {
            wanted = wanted.handle(memory_kind(operation, options.kind)?);
        }
        out.set(object::add(ExportableImage::new(&vulkan, &wanted)?));
        Ok(())
    })
}

/// Describes an image.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_vulkan_image_get_info(
    image: gpi_vulkan_image,
    info: *mut gpi_vulkan_memory_info,
) -> gpi_status {
    call("gpi_vulkan_image_get_info", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "info", info) }?;
        let exported = object::get(operation, image)?;
        let image = exported.image();
        out.set(gpi_vulkan_memory_info {
            object: image.as_raw().as_raw(),
            memory: image.memory().as_raw(),
            allocation_size: image.allocation_size(),
            offset: image.offset(),
            mapped: image.mapped_ptr().map_or(std::ptr::null_mut(), |pointer| pointer.as_ptr().cast()),
            dedicated: i32::from(image.is_dedicated()),
            reserved: 0,
        });
        Ok(())
    })
}

/// Writes the layout of a mip level and layer of an image with linear tiling.
///
/// Errors: `GPI_ERROR_UNSUPPORTED` for optimal tiling; `GPI_ERROR_INVALID_ARGUMENT` if the image lacks the level or the
/// layer.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_vulkan_image_get_row_layout(
    image: gpi_vulkan_image,
    level: u32,
    layer: u32,
    layout: *mut gpi_vulkan_row_layout,
) -> gpi_status {
    call("gpi_vulkan_image_get_row_layout", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "layout", layout) }?;
        let found = object::get(operation, image)?.image().subresource_layout(level, layer)?;
        out.set(gpi_vulkan_row_layout {
            offset: found.offset,
            row_pitch: found.row_pitch,
            depth_pitch: found.depth_pitch.unwrap_or(0),
            array_pitch: found.array_pitch.unwrap_or(0),
            size: found.size,
        });
        Ok(())
    })
}

/// Exports the memory as a complete description to import, with the image for optimal tiling, and writes it to `*import`. Every
/// call writes a new handle, owned by the caller, that keeps the memory alive.
///
/// Errors: as `gpi_vulkan_buffer_export`.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_vulkan_image_export(
    image: gpi_vulkan_image,
    import: *mut gpi_memory_import,
) -> gpi_status {
    call("gpi_vulkan_image_export", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "import", import) }?;
        out.set(gpi_memory_import::of(object::get(operation, image)?.import_request()?));
        Ok(())
    })
}

/// Destroys the image and its memory: no submitted work may use them any more. Imports and handles of the memory stay valid.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_vulkan_image_destroy(image: gpi_vulkan_image) -> gpi_status {
    call("gpi_vulkan_image_destroy", |operation| object::remove(operation, image).map(drop))
}
