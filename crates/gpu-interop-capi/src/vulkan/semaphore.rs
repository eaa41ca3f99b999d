//! Semaphores of Vulkan.

use std::ffi::c_void;
use std::sync::Arc;

use gpu_interop::ErrorKind;
use gpu_interop::vulkan::ash::vk::{self, Handle as _};
use gpu_interop::vulkan::{ExportableSemaphore, OwnedSemaphore};

use crate::call::call;
use crate::exported_semaphore::is_timeline;
use crate::exporter::Exporter;
use crate::handle::{gpi_exported_semaphore, gpi_vulkan};
use crate::object;
use crate::pointer::Out;
use crate::release::{Release, gpi_release_function};
use crate::status::gpi_status;

/// Creates a Vulkan semaphore with a `GPI_PAYLOAD_*`, and writes it to `*semaphore`, owned by the caller. `initial` is the value
/// of a timeline. It is exportable where the device exports such semaphores; a timeline elsewhere needs a bridge, which
/// `gpi_timeline_create` chooses.
///
/// Errors: `GPI_ERROR_UNSUPPORTED` if the device exports no binary semaphores, or has no timelines.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_exported_semaphore_create_vulkan(
    vulkan: gpi_vulkan,
    payload: i32,
    initial: u64,
    semaphore: *mut gpi_exported_semaphore,
) -> gpi_status {
    call("gpi_exported_semaphore_create_vulkan", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "semaphore", semaphore) }?;
        let vulkan = object::get(operation, vulkan)?;
        out.set(object::add(match is_timeline(operation, payload)? {
            false => Exporter::Vulkan(ExportableSemaphore::binary(&vulkan)?),
            true => match ExportableSemaphore::timeline(&vulkan, initial) {
                Ok(exportable) => Exporter::Vulkan(exportable),
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    Exporter::VulkanTimeline(OwnedSemaphore::timeline(&vulkan, initial)?)
                }
                Err(error) => return Err(error),
            },
        }));
        Ok(())
    })
}

/// Wraps a timeline semaphore that the application created, and writes it to `*semaphore`, owned by the caller. Destroying it
/// does not destroy the `VkSemaphore`. `exportable` is 1 if it was created with `VkExportSemaphoreCreateInfo::handleTypes` that
/// contains OPAQUE_FD, on Windows OPAQUE_WIN32, and else 0: a bridge then carries its values.
///
/// `release(data)` is called once, when the library no longer uses the semaphore. If this function fails, it is not called.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` for a null semaphore; `GPI_ERROR_UNSUPPORTED` if the device has no timelines, or does not
/// export them.
///
/// # Safety
/// The semaphore is a timeline of this device, live until `release` is called; if `release` is null, until the compute
/// devices that use it are closed. Host signals through this object and signals of submitted work raise its value in order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_exported_semaphore_wrap_vulkan(
    vulkan: gpi_vulkan,
    vk_semaphore: u64,
    exportable: i32,
    release: gpi_release_function,
    data: *mut c_void,
    semaphore: *mut gpi_exported_semaphore,
) -> gpi_status {
    call("gpi_exported_semaphore_wrap_vulkan", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "semaphore", semaphore) }?;
        let (vulkan, raw) = (object::get(operation, vulkan)?, vk::Semaphore::from_raw(vk_semaphore));
        // SAFETY: the caller's promise.
        let owner = Arc::new(unsafe { Release::new(release, data) });
        // SAFETY: the caller's promises.
        let wrapped = unsafe {
            match exportable {
                0 => Exporter::VulkanTimeline(OwnedSemaphore::timeline_from_raw(&vulkan, raw, owner.clone())?),
                _ => Exporter::Vulkan(ExportableSemaphore::timeline_from_raw(&vulkan, raw, owner.clone())?),
            }
        };
        owner.arm();
        out.set(object::add(wrapped));
        Ok(())
    })
}
