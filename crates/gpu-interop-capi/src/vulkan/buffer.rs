//! Exportable buffers.

use std::ffi::c_void;

use gpu_interop::vulkan::ash::vk::{self, Handle as _};
use gpu_interop::vulkan::{BufferOptions, ExportableBuffer, MemoryPlacement};
use gpu_interop::{Error, Result};

use super::{GPI_VULKAN_DEVICE_LOCAL, GPI_VULKAN_HOST_VISIBLE};
use crate::call::call;
use crate::handle::{gpi_vulkan, gpi_vulkan_buffer};
use crate::import_memory::{gpi_memory_import, memory_kind};
use crate::object;
use crate::pointer::{self, Out};
use crate::status::gpi_status;

/// Properties of a buffer to create. Set everything to 0 first.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gpi_vulkan_buffer_options {
    /// Size in bytes. The allocation may be larger.
    pub size: u64,
    /// `VkBufferUsageFlags`.
    pub usage: u32,
    /// 1 requests a dedicated allocation, 0 leaves it to the driver.
    pub dedicated: i32,
    /// `GPI_VULKAN_DEVICE_LOCAL` or `GPI_VULKAN_HOST_VISIBLE`.
    pub placement: i32,
    /// The `GPI_MEMORY_*` of the exports; 0 is an opaque fd, on Windows an NT handle.
    pub kind: i32,
}

/// Properties of a Vulkan buffer or image.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gpi_vulkan_memory_info {
    /// `VkBuffer` or `VkImage`, valid while the object lives.
    pub object: u64,
    /// `VkDeviceMemory`, valid while the object lives.
    pub memory: u64,
    /// Size of the allocation in bytes, which an importer needs.
    pub allocation_size: u64,
    /// Offset of the object in its memory, in bytes.
    pub offset: u64,
    /// Address of the first byte of host-visible memory; else null.
    pub mapped: *mut c_void,
    /// 1 if the allocation is dedicated, else 0.
    pub dedicated: i32,
    /// 0.
    pub reserved: u32,
}

/// The placement of a number.
pub(super) fn placement(operation: &'static str, placement: i32) -> Result<MemoryPlacement> {
    match placement {
        GPI_VULKAN_DEVICE_LOCAL => Ok(MemoryPlacement::DeviceLocal),
        GPI_VULKAN_HOST_VISIBLE => Ok(MemoryPlacement::HostVisible),
        _ => {
            let error = Error::invalid(operation, "unknown placement; pass GPI_VULKAN_DEVICE_LOCAL or _HOST_VISIBLE");
            Err(error.with_context("placement", placement))
        }
    }
}

/// Creates a buffer whose memory can be exported, and writes it to `*buffer`, owned by the caller. Vulkan owns its contents:
/// release it (`gpi_vulkan_record_buffer_release`) before the other side uses it, even if that writes first.
///
/// Errors: `GPI_ERROR_UNSUPPORTED` if the device does not export such buffers; `GPI_ERROR_INVALID_ARGUMENT` for a size of 0 or no
/// usage; `GPI_ERROR_OUT_OF_MEMORY`.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_vulkan_buffer_create(
    vulkan: gpi_vulkan,
    options: *const gpi_vulkan_buffer_options,
    buffer: *mut gpi_vulkan_buffer,
) -> gpi_status {
    call("gpi_vulkan_buffer_create", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "buffer", buffer) }?;
        // SAFETY: the caller's promise.
        let options = unsafe { pointer::read(operation, "options", options) }?;
        let vulkan = object::get(operation, vulkan)?;
        let mut wanted = BufferOptions::new(options.size, vk::BufferUsageFlags::from_raw(options.usage))
            .dedicated(options.dedicated != 0)
            .memory(placement(operation, options.placement)?);
        if options.kind != 0 {
            wanted = wanted.handle(memory_kind(operation, options.kind)?);
        }
        out.set(object::add(ExportableBuffer::new(&vulkan, &wanted)?));
        Ok(())
    })
}

/// Describes a buffer.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_vulkan_buffer_get_info(
    buffer: gpi_vulkan_buffer,
    info: *mut gpi_vulkan_memory_info,
) -> gpi_status {
    call("gpi_vulkan_buffer_get_info", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "info", info) }?;
        let exported = object::get(operation, buffer)?;
        let buffer = exported.buffer();
        out.set(gpi_vulkan_memory_info {
            object: buffer.as_raw().as_raw(),
            memory: buffer.memory().as_raw(),
            allocation_size: buffer.allocation_size(),
            offset: 0,
            mapped: buffer.mapped_ptr().map_or(std::ptr::null_mut(), |pointer| pointer.as_ptr().cast()),
            dedicated: i32::from(buffer.is_dedicated()),
            reserved: 0,
        });
        Ok(())
    })
}

/// Exports the memory as a complete description to import, and writes it to `*import`. Every call writes a new handle, owned by
/// the caller, that keeps the memory alive.
///
/// Errors: `GPI_ERROR_SYSTEM` if the process is out of descriptors; otherwise the driver's error.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_vulkan_buffer_export(
    buffer: gpi_vulkan_buffer,
    import: *mut gpi_memory_import,
) -> gpi_status {
    call("gpi_vulkan_buffer_export", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "import", import) }?;
        out.set(gpi_memory_import::of(object::get(operation, buffer)?.import_request()?));
        Ok(())
    })
}

/// Destroys the buffer and its memory: no submitted work may use them any more. Imports and handles of the memory stay valid.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_vulkan_buffer_destroy(buffer: gpi_vulkan_buffer) -> gpi_status {
    call("gpi_vulkan_buffer_destroy", |operation| object::remove(operation, buffer).map(drop))
}
