//! The exporter's side of semaphores.

use std::sync::Arc;
use std::time::Duration;

use gpu_interop::host::HostSemaphore;
use gpu_interop::{Error, Result};

use crate::call::call;
use crate::callback_timeline::{CallbackTimeline, gpi_timeline_functions};
use crate::exporter::Exporter;
use crate::handle::gpi_exported_semaphore;
use crate::import_semaphore::gpi_semaphore_import;
use crate::object;
use crate::pointer::{self, Out};
use crate::status::gpi_status;

/// Payload of a semaphore: signalled or not; one wait consumes one signal.
pub const GPI_PAYLOAD_BINARY: i32 = 1;
/// Payload of a semaphore: a 64-bit counter that only grows.
pub const GPI_PAYLOAD_TIMELINE: i32 = 2;

/// Rejects payloads that no exporter of this library creates.
pub(crate) fn is_timeline(operation: &'static str, payload: i32) -> Result<bool> {
    match payload {
        GPI_PAYLOAD_BINARY => Ok(false),
        GPI_PAYLOAD_TIMELINE => Ok(true),
        _ => Err(Error::invalid(operation, "unknown payload; pass a GPI_PAYLOAD_*").with_context("payload", payload)),
    }
}

/// Creates a semaphore of the host backend (shared memory, also between processes), and writes it to `*semaphore`, owned by the
/// caller. `initial` is the value of a timeline; a binary semaphore is created unsignalled.
///
/// Errors: `GPI_ERROR_SYSTEM` or `GPI_ERROR_OUT_OF_MEMORY` if the system cannot create shared memory.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_exported_semaphore_create_host(
    payload: i32,
    initial: u64,
    semaphore: *mut gpi_exported_semaphore,
) -> gpi_status {
    call("gpi_exported_semaphore_create_host", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "semaphore", semaphore) }?;
        let created = match is_timeline(operation, payload)? {
            true => HostSemaphore::timeline(initial),
            false => HostSemaphore::binary(),
        };
        out.set(object::add(Exporter::Host(created?)));
        Ok(())
    })
}

/// Wraps a timeline of another API that the application implements by functions, and writes it to `*semaphore`, owned by the
/// caller. If this function fails, `functions->release` is not called.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` for a null function.
///
/// # Safety
/// The functions keep the contract of `gpi_timeline_functions`, until `release` is called; if it is null, to the end of the
/// process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_exported_semaphore_wrap_functions(
    functions: *const gpi_timeline_functions,
    semaphore: *mut gpi_exported_semaphore,
) -> gpi_status {
    call("gpi_exported_semaphore_wrap_functions", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "semaphore", semaphore) }?;
        // SAFETY: the caller's promises.
        let timeline = unsafe { CallbackTimeline::new(operation, pointer::read(operation, "functions", functions)?) }?;
        timeline.arm();
        out.set(object::add(Exporter::Callbacks(Arc::new(timeline))));
        Ok(())
    })
}

/// Exports the semaphore as a description that a device imports. Every call writes a new handle, owned by the caller: import
/// it, close it with `gpi_semaphore_import_close`, or send it to another process.
///
/// Errors: `GPI_ERROR_UNSUPPORTED` for a timeline that only a bridge carries; otherwise the driver's error.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_exported_semaphore_export(
    semaphore: gpi_exported_semaphore,
    import: *mut gpi_semaphore_import,
) -> gpi_status {
    call("gpi_exported_semaphore_export", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "import", import) }?;
        let request = object::get(operation, semaphore)?.import_request(operation)?;
        out.set(gpi_semaphore_import::of(request));
        Ok(())
    })
}

/// Writes the current value of a timeline to `*value`.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` for a binary semaphore; otherwise the exporter's error.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_exported_semaphore_get_value(
    semaphore: gpi_exported_semaphore,
    value: *mut u64,
) -> gpi_status {
    call("gpi_exported_semaphore_get_value", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "value", value) }?;
        out.set(object::get(operation, semaphore)?.timeline(operation)?.value()?);
        Ok(())
    })
}

/// Signals from the host: raises a timeline to `value`, or signals a binary semaphore of the host backend, which ignores
/// `value`.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` for a value not greater than the current one, or a binary semaphore that is signalled
/// already; `GPI_ERROR_UNSUPPORTED` for a binary semaphore of Vulkan.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_exported_semaphore_signal(semaphore: gpi_exported_semaphore, value: u64) -> gpi_status {
    call("gpi_exported_semaphore_signal", |operation| object::get(operation, semaphore)?.signal(operation, value))
}

/// Blocks until a timeline is at least `value`, or a binary semaphore of the host backend is signalled, which this resets. At
/// most `timeout_ns` nanoseconds.
///
/// Errors: `GPI_ERROR_TIMEOUT`; `GPI_ERROR_UNSUPPORTED` for a binary semaphore of Vulkan; otherwise the exporter's error.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_exported_semaphore_wait(
    semaphore: gpi_exported_semaphore,
    value: u64,
    timeout_ns: u64,
) -> gpi_status {
    call("gpi_exported_semaphore_wait", |operation| {
        object::get(operation, semaphore)?.wait(operation, value, Duration::from_nanos(timeout_ns))
    })
}

/// Writes the `VkSemaphore`, valid while the semaphore lives, to `*vk_semaphore`.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` if the semaphore is not Vulkan's.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_exported_semaphore_get_vulkan(
    semaphore: gpi_exported_semaphore,
    vk_semaphore: *mut u64,
) -> gpi_status {
    call("gpi_exported_semaphore_get_vulkan", |operation| {
        use gpu_interop::vulkan::ash::vk::Handle as _;
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "vk_semaphore", vk_semaphore) }?;
        let semaphore = object::get(operation, semaphore)?;
        let raw = semaphore.vulkan().ok_or_else(|| Error::invalid(operation, "the semaphore is not Vulkan's"))?;
        out.set(raw.as_raw().as_raw());
        Ok(())
    })
}

/// Destroys the handle. A semaphore that Vulkan created here is destroyed unless a timeline uses it: no submitted work may use
/// it any more. Handles that were exported stay valid.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_exported_semaphore_destroy(semaphore: gpi_exported_semaphore) -> gpi_status {
    call("gpi_exported_semaphore_destroy", |operation| object::remove(operation, semaphore).map(drop))
}
