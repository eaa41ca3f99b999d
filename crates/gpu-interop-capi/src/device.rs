//! Devices.

use std::ffi::c_char;

use gpu_interop::{Device, Error};

use crate::call::call;
use crate::handle::{gpi_backend, gpi_device};
use crate::identity::gpi_identity;
use crate::object;
use crate::pointer::{self, Out};
use crate::status::gpi_status;
use crate::text;

/// Properties of a device.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gpi_device_info {
    /// Identity of the device.
    pub identity: gpi_identity,
    /// "cuda", "hip" or "host".
    pub backend: [c_char; 32],
    /// Architecture that compiled images must be built for, such as "gfx90a:sramecc+:xnack-"; empty if the driver compiles
    /// code itself, as CUDA's does.
    pub architecture: [c_char; 128],
    /// The driver's context (`CUcontext`), valid while the device is open; 0 for backends without contexts.
    pub context: u64,
    /// Position in the backend's order: CUDA's and HIP's device ordinal.
    pub ordinal: u32,
    /// 0.
    pub reserved: u32,
}

/// Opens the device at `ordinal`, counted from 0, and writes it to `*device`, owned by the caller.
///
/// Errors: `GPI_ERROR_NO_DEVICE` if there is no such device; otherwise the driver's error.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_device_open(backend: gpi_backend, ordinal: u32, device: *mut gpi_device) -> gpi_status {
    call("gpi_device_open", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "device", device) }?;
        let backend = object::get(operation, backend)?;
        let ordinal = usize::try_from(ordinal).unwrap_or(usize::MAX);
        out.set(object::add(Device::open(&*backend.backend, ordinal)?));
        Ok(())
    })
}

/// Opens the device of a backend that `identity` describes, and writes it to `*device`, owned by the caller.
///
/// Errors: `GPI_ERROR_NO_DEVICE` if no device is known to be the same; the message lists the available devices.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_device_open_matching(
    backend: gpi_backend,
    identity: *const gpi_identity,
    device: *mut gpi_device,
) -> gpi_status {
    call("gpi_device_open_matching", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "device", device) }?;
        // SAFETY: the caller's promise; every byte is valid in every field.
        let identity = unsafe { pointer::read(operation, "identity", identity) }?.checked(operation)?;
        let backend = object::get(operation, backend)?;
        out.set(object::add(Device::open_matching(&*backend.backend, &identity)?));
        Ok(())
    })
}

/// Opens the device that `exporter` describes on the backend that supports it: an NVIDIA GPU through CUDA, an AMD GPU through
/// HIP, a CPU renderer's device on the CPU. The environment variable GPU_INTEROP_BACKEND restricts the backends. Writes it to
/// `*device`, owned by the caller.
///
/// Errors: `GPI_ERROR_NO_DEVICE` if no backend has the device; the message has the failure of each backend.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_device_open_for(exporter: *const gpi_identity, device: *mut gpi_device) -> gpi_status {
    call("gpi_device_open_for", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "device", device) }?;
        // SAFETY: the caller's promise; every byte is valid in every field.
        let exporter = unsafe { pointer::read(operation, "exporter", exporter) }?.checked(operation)?;
        out.set(object::add(gpu_interop::device_for(&exporter)?));
        Ok(())
    })
}

/// Describes a device.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_device_get_info(device: gpi_device, info: *mut gpi_device_info) -> gpi_status {
    call("gpi_device_get_info", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "info", info) }?;
        let device = object::get(operation, device)?;
        let ordinal = device.ordinal().and_then(|ordinal| u32::try_from(ordinal).ok());
        out.set(gpi_device_info {
            identity: device.identity().into(),
            backend: text::to_array(&device.backend().name),
            architecture: text::to_array(device.architecture().unwrap_or_default()),
            context: device.context().map_or(0, |context| context.get() as u64),
            ordinal: ordinal.ok_or_else(|| Error::invalid(operation, "the device has no ordinal"))?,
            reserved: 0,
        });
        Ok(())
    })
}

/// Frees objects that were destroyed while work used them and whose work has completed. Called implicitly when an object is
/// destroyed and when a stream is created or synchronised. Needed only for the release functions of borrowed objects.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_device_collect(device: gpi_device) -> gpi_status {
    call("gpi_device_collect", |operation| {
        object::get(operation, device)?.collect();
        Ok(())
    })
}

/// Destroys the handle. The device is closed with the last object made from it. The destruction of that one waits for pending
/// work: after a second it is cancelled, and after another one its objects are leaked.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_device_destroy(device: gpi_device) -> gpi_status {
    call("gpi_device_destroy", |operation| object::remove(operation, device).map(drop))
}
