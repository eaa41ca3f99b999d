//! Backends.

use std::ffi::c_char;

use gpu_interop::{BackendChoice, Selection};

use crate::call::call;
use crate::handle::gpi_backend;
use crate::identity::gpi_identity;
use crate::names::in_c;
use crate::object;
use crate::pointer::{self, Out};
use crate::status::gpi_status;
use crate::text;

/// Name and driver of a backend.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gpi_backend_info {
    /// "cuda", "hip" or "host".
    pub name: [c_char; 32],
    /// Driver version in the vendor's notation.
    pub driver: [c_char; 256],
    /// Path of the loaded library; empty if there is none.
    pub library: [c_char; 512],
    /// 1 if the driver is a simulator, a shim, a fake or a mock; else 0.
    pub simulated: i32,
    /// Number of devices.
    pub device_count: u32,
    /// Backends that were tried first, one per line, each with the reason why it was not used.
    pub passed_over: [c_char; 2048],
}

/// Loads a backend that has at least one device, and writes it to `*backend`, owned by the caller.
///
/// `name` is "cuda", "hip", "host" or "auto" (the first that has a device; the CPU last). A null `name` reads the environment
/// variable GPU_INTEROP_BACKEND, and is "auto" if that is not set.
///
/// The CPU never replaces a GPU silently: `passed_over` of `gpi_backend_get_info` has the backends that were tried first, with
/// their reasons, and each one whose driver is there but failed is a message of level `GPI_LOG_WARN`.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` for another name; `GPI_ERROR_NO_DEVICE` with every backend that was tried; for a
/// named backend the error of loading it.
///
/// # Safety
/// `name` is null or a text that ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_backend_load(name: *const c_char, backend: *mut gpi_backend) -> gpi_status {
    call("gpi_backend_load", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "backend", backend) }?;
        let choice = if name.is_null() {
            BackendChoice::from_env()?
        } else {
            // SAFETY: the caller's promise.
            unsafe { pointer::utf8(operation, "name", name) }?.parse()?
        };
        out.set(object::add(gpu_interop::select(choice)?));
        Ok(())
    })
}

/// Describes a backend.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_backend_get_info(backend: gpi_backend, info: *mut gpi_backend_info) -> gpi_status {
    call("gpi_backend_get_info", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "info", info) }?;
        let Selection { backend, passed_over, .. } = &*object::get(operation, backend)?;
        let (about, devices) = (backend.info(), backend.devices()?.len());
        let library = about.library.as_deref().map(|path| path.display().to_string()).unwrap_or_default();
        let passed_over: Vec<String> = passed_over.iter().map(|attempt| in_c(&attempt.to_string())).collect();
        out.set(gpi_backend_info {
            name: text::to_array(&about.name),
            driver: text::to_array(&about.driver),
            library: text::to_array(&library),
            simulated: i32::from(about.simulated),
            device_count: u32::try_from(devices).unwrap_or(u32::MAX),
            passed_over: text::to_array(&passed_over.join("\n")),
        });
        Ok(())
    })
}

/// Writes the identity of the device at `ordinal`, counted from 0, in the driver's order.
///
/// Errors: `GPI_ERROR_NO_DEVICE` if there is no such device.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_backend_get_device(
    backend: gpi_backend,
    ordinal: u32,
    identity: *mut gpi_identity,
) -> gpi_status {
    call("gpi_backend_get_device", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "identity", identity) }?;
        let devices = object::get(operation, backend)?.backend.devices()?;
        let found = usize::try_from(ordinal).ok().and_then(|index| devices.get(index)).ok_or_else(|| {
            let message = "the backend has no device of this ordinal; gpi_backend_info has the number of devices";
            gpu_interop::Error::new(gpu_interop::ErrorKind::NoDevice, operation, message)
                .with_context("ordinal", ordinal)
                .with_context("devices", devices.len())
        })?;
        out.set(found.into());
        Ok(())
    })
}

/// Destroys the handle. Devices opened through it stay open.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_backend_destroy(backend: gpi_backend) -> gpi_status {
    call("gpi_backend_destroy", |operation| object::remove(operation, backend).map(drop))
}
