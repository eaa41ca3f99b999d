//! Exports of the application's own memory and semaphores.

use gpu_interop::vulkan::RawMemory;
use gpu_interop::vulkan::ash::vk::{self, Handle as _};

use crate::call::call;
use crate::handle::gpi_vulkan;
use crate::import_memory::{gpi_memory_import, memory_kind};
use crate::import_semaphore::{gpi_semaphore_import, semaphore_kind};
use crate::object;
use crate::pointer::Out;
use crate::status::gpi_status;

/// Exports memory that the application allocated as a complete description to import: handle, size, dedicated flag, device.
/// Writes it to `*import`, whose new handle belongs to the caller and keeps the memory alive. `size` is
/// `VkMemoryAllocateInfo::allocationSize`, `dedicated` is 1 if the memory was allocated with `VkMemoryDedicatedAllocateInfo`
/// and else 0, `kind` is `GPI_MEMORY_OPAQUE_FD`, `GPI_MEMORY_DMABUF_FD` or `GPI_MEMORY_OPAQUE_WIN32`.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` for null memory or a size of 0; `GPI_ERROR_UNSUPPORTED` for another kind; otherwise the
/// driver's error.
///
/// # Safety
/// The memory is live, of this device, and was allocated with this size and dedicated flag and with
/// `VkExportMemoryAllocateInfo::handleTypes` that contains the kind. On Windows, no NT handle was exported from it before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_vulkan_export_memory(
    vulkan: gpi_vulkan,
    vk_device_memory: u64,
    size: u64,
    dedicated: i32,
    kind: i32,
    import: *mut gpi_memory_import,
) -> gpi_status {
    call("gpi_vulkan_export_memory", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "import", import) }?;
        let memory = RawMemory::new(vk::DeviceMemory::from_raw(vk_device_memory), size)
            .dedicated(dedicated != 0)
            .handle(memory_kind(operation, kind)?);
        // SAFETY: the caller's promises.
        let request = unsafe { object::get(operation, vulkan)?.export_memory(&memory) }?;
        out.set(gpi_memory_import::of(request));
        Ok(())
    })
}

/// Exports a semaphore that the application created as a complete description to import, and writes it to `*import`, whose new
/// handle belongs to the caller. `kind` is `GPI_SEMAPHORE_TIMELINE_FD` or `GPI_SEMAPHORE_TIMELINE_WIN32` for a timeline, else
/// `GPI_SEMAPHORE_OPAQUE_FD` or `GPI_SEMAPHORE_OPAQUE_WIN32`.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` for a null semaphore; `GPI_ERROR_UNSUPPORTED` if the device does not export such
/// semaphores; otherwise the driver's error.
///
/// # Safety
/// The semaphore is live, of this device, a timeline exactly if `kind` is, and was created with
/// `VkExportSemaphoreCreateInfo::handleTypes` that contains OPAQUE_FD or OPAQUE_WIN32. On Windows, no NT handle was exported
/// from it before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_vulkan_export_semaphore(
    vulkan: gpi_vulkan,
    vk_semaphore: u64,
    kind: i32,
    import: *mut gpi_semaphore_import,
) -> gpi_status {
    call("gpi_vulkan_export_semaphore", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "import", import) }?;
        let (semaphore, kind) = (vk::Semaphore::from_raw(vk_semaphore), semaphore_kind(operation, kind)?);
        // SAFETY: the caller's promises.
        let request = unsafe { object::get(operation, vulkan)?.export_semaphore(semaphore, kind) }?;
        out.set(gpi_semaphore_import::of(request));
        Ok(())
    })
}
