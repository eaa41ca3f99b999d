//! Devices, and the current one.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_uint, c_void};

use cubecl_hip_sys as hip;

use super::code_object::architecture;
use super::era::Era;
use crate::{code, give, settings, write_text};

thread_local! {
    /// The current device of this thread.
    static CURRENT: Cell<c_int> = Cell::new(initial());
}

/// `hipDeviceProp_t` of HIP 5: its size, and the offset of the architecture.
const PROPERTIES_5: usize = 792;
const ARCHITECTURE_5: usize = 396;
/// Name and architecture have this many bytes in both layouts.
const TEXT: c_int = 256;

/// Device operations of a HIP runtime that differ between simulators and shim. A failure is a HIP status code.
pub trait Runtime {
    /// Initialises the runtime, as every function does.
    ///
    /// # Errors
    /// [`code::NO_DEVICE`], or the code of the failed initialisation.
    fn ready(&self) -> Result<(), u32>;

    /// `hipInit` before HIP 5.5.
    ///
    /// # Errors
    /// [`code::INVALID_DEVICE`] if HIP has no device, as measured with HIP 5.2.
    fn ready_early(&self) -> Result<(), u32> {
        self.ready().map_err(|error| if error == code::NO_DEVICE { code::INVALID_DEVICE } else { error })
    }

    /// The number of devices.
    fn count(&self) -> c_int;

    /// A device's name.
    ///
    /// # Errors
    /// The status code if it is unknown.
    fn name(&self, device: c_int) -> Result<String, u32>;

    /// Domain, bus and device of a device's PCI address.
    ///
    /// # Errors
    /// The status code if it is unknown.
    fn pci(&self, device: c_int) -> Result<[c_int; 3], u32>;

    /// The 16 characters that identify a device in HIP only.
    ///
    /// # Errors
    /// The status code if they are unknown.
    fn uuid(&self, device: c_int) -> Result<[u8; 16], u32>;

    /// The LUID, which exists on Windows only.
    fn luid(&self, _device: c_int) -> Option<[u8; 8]> {
        None
    }

    /// An attribute by HIP's number.
    ///
    /// # Errors
    /// The status code if it is unknown.
    fn attribute(&self, device: c_int, number: c_uint) -> Result<c_int, u32>;

    /// Waits for all work of the current device.
    ///
    /// # Errors
    /// The status code of the failed work.
    fn synchronize(&self) -> Result<(), u32>;

    /// Whether a handle may be a stream, or is NULL (the default stream).
    fn has_stream(&self, stream: usize) -> bool;
}

/// The initial current device of each thread: `GPU_INTEROP_SIM_CURRENT`.
#[must_use]
pub fn initial() -> c_int {
    settings::number("GPU_INTEROP_SIM_CURRENT", 0)
}

/// The number of this thread's current device.
#[must_use]
pub fn current() -> c_int {
    CURRENT.try_with(Cell::get).unwrap_or(0)
}

/// Fails unless the device exists.
fn check(runtime: &impl Runtime, device: c_int) -> Result<(), u32> {
    runtime.ready().map_err(|error| match (error, Era::now()) {
        (code::NO_DEVICE, Era::Early) => code::INVALID_DEVICE,
        _ => error,
    })?;
    if (0..runtime.count()).contains(&device) { Ok(()) } else { Err(code::INVALID_DEVICE) }
}

/// Writes a text for a function that takes a buffer and its length.
///
/// # Safety
/// The buffer is NULL, or has that length.
unsafe fn give_text(target: *mut c_char, length: c_int, text: &str) -> Result<(), u32> {
    // SAFETY: the caller's promise.
    let written = !target.is_null() && unsafe { write_text(target, length, text) };
    if written { Ok(()) } else { Err(code::INVALID_VALUE) }
}

/// Whether a text and its NUL fit.
fn fits(text: &str, length: c_int) -> bool {
    usize::try_from(length).is_ok_and(|length| text.len() < length)
}

// Implementations of the functions; `hip_entries!` exports a function for each, which keeps its safety requirements.

/// `hipInit`.
///
/// # Errors
/// The status code of the failure.
pub fn init(runtime: &impl Runtime, flags: c_uint) -> Result<(), u32> {
    if Era::now() == Era::Early {
        return runtime.ready_early();
    }
    if flags != 0 {
        return Err(code::INVALID_VALUE);
    }
    runtime.ready()
}

/// `hipGetDeviceCount`.
///
/// # Errors
/// The status code; the count is then 0.
///
/// # Safety
/// `count` is NULL or valid.
pub unsafe fn count(runtime: &impl Runtime, count: *mut c_int) -> Result<(), u32> {
    let ready = runtime.ready();
    // SAFETY: the caller's promise.
    unsafe { give(count, if ready.is_ok() { runtime.count() } else { 0 }) }?;
    ready
}

/// `hipDeviceGet`.
///
/// # Errors
/// The status code of the failure.
///
/// # Safety
/// `device` is NULL or valid.
pub unsafe fn get(runtime: &impl Runtime, device: *mut c_int, ordinal: c_int) -> Result<(), u32> {
    check(runtime, ordinal)?;
    if device.is_null() && Era::now() == Era::Early {
        return Err(code::INVALID_DEVICE);
    }
    // SAFETY: the caller's promise.
    unsafe { give(device, ordinal) }
}

/// `hipGetDevice`.
///
/// # Errors
/// The status code of the failure.
///
/// # Safety
/// `device` is NULL or valid.
pub unsafe fn get_current(runtime: &impl Runtime, device: *mut c_int) -> Result<(), u32> {
    runtime.ready()?;
    // Callers query the current device before they change it, so an earlier change must have been restored by now.
    if initial() != 0 && current() != initial() {
        std::process::abort();
    }
    // SAFETY: the caller's promise.
    unsafe { give(device, current()) }
}

/// `hipSetDevice`.
///
/// # Errors
/// The status code of the failure.
pub fn set_current(runtime: &impl Runtime, device: c_int) -> Result<(), u32> {
    check(runtime, device)?;
    CURRENT.try_with(|current| current.set(device)).map_err(|_| code::INVALID_DEVICE)
}

/// `hipDeviceGetName`.
///
/// # Errors
/// The status code of the failure.
///
/// # Safety
/// `text` is NULL, or has `length` bytes.
pub unsafe fn name(runtime: &impl Runtime, text: *mut c_char, length: c_int, device: c_int) -> Result<(), u32> {
    check(runtime, device)?;
    let name = runtime.name(device)?;
    if Era::now() == Era::Early && !fits(&name, length) {
        return Err(code::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    unsafe { give_text(text, length, &name) }
}

/// `hipDeviceGetPCIBusId`.
///
/// # Errors
/// The status code of the failure.
///
/// # Safety
/// `text` is NULL, or has `length` bytes.
pub unsafe fn pci(runtime: &impl Runtime, text: *mut c_char, length: c_int, device: c_int) -> Result<(), u32> {
    check(runtime, device)?;
    let [domain, bus, slot] = runtime.pci(device)?;
    let address = format!("{domain:04x}:{bus:02x}:{slot:02x}.0");
    // SAFETY: the caller's promise.
    unsafe { give_text(text, length, &address) }?;
    // Truncated nevertheless.
    if Era::now() == Era::Early || fits(&address, length) { Ok(()) } else { Err(code::INVALID_VALUE) }
}

/// `hipDeviceGetUuid`.
///
/// # Errors
/// The status code of the failure.
///
/// # Safety
/// `uuid` is NULL or valid.
pub unsafe fn uuid(runtime: &impl Runtime, uuid: *mut [u8; 16], device: c_int) -> Result<(), u32> {
    check(runtime, device)?;
    // SAFETY: the caller's promise.
    unsafe { give(uuid, runtime.uuid(device)?) }
}

/// `hipDeviceGetAttribute`.
///
/// # Errors
/// The status code of the failure.
///
/// # Safety
/// `value` is NULL or valid.
pub unsafe fn attribute(runtime: &impl Runtime, value: *mut c_int, number: c_uint, device: c_int) -> Result<(), u32> {
    check(runtime, device)?;
    // SAFETY: the caller's promise.
    unsafe { give(value, runtime.attribute(device, number)?) }
}

/// `hipDeviceSynchronize`.
///
/// # Errors
/// The status code of the call or of the failed work.
pub fn synchronize(runtime: &impl Runtime) -> Result<(), u32> {
    runtime.ready().map_err(|error| match (error, Era::now()) {
        (code::NO_DEVICE, Era::Early) => code::OUT_OF_MEMORY,
        _ => error,
    })?;
    runtime.synchronize()
}

/// `hipGetDevicePropertiesR0600`: name, architecture, PCI address and LUID; the rest is 0.
///
/// # Errors
/// The status code of the failure.
///
/// # Safety
/// `properties` is NULL or valid.
pub unsafe fn properties(
    runtime: &impl Runtime,
    properties: *mut hip::hipDeviceProp_tR0600,
    device: c_int,
) -> Result<(), u32> {
    check(runtime, device)?;
    if properties.is_null() {
        return Err(code::INVALID_VALUE);
    }
    let (name, [domain, bus, slot]) = (runtime.name(device)?, runtime.pci(device)?);
    // SAFETY: the caller's promise; both texts have so many bytes.
    unsafe {
        properties.write_bytes(0, 1);
        (&raw mut (*properties).pciDomainID).write(domain);
        (&raw mut (*properties).pciBusID).write(bus);
        (&raw mut (*properties).pciDeviceID).write(slot);
        if let Some(luid) = runtime.luid(device) {
            (&raw mut (*properties).luid).cast::<[u8; 8]>().write(luid);
            (&raw mut (*properties).luidDeviceNodeMask).write(1);
        }
        give_text((&raw mut (*properties).name).cast(), TEXT, &name)?;
        give_text((&raw mut (*properties).gcnArchName).cast(), TEXT, &architecture())
    }
}

/// `hipGetDeviceProperties`: the symbol without a version has the layout of HIP 5 in every version.
///
/// # Errors
/// The status code of the failure.
///
/// # Safety
/// `properties` is NULL, or as long as that layout.
pub unsafe fn properties_5(runtime: &impl Runtime, properties: *mut c_void, device: c_int) -> Result<(), u32> {
    check(runtime, device)?;
    if properties.is_null() {
        return Err(code::INVALID_VALUE);
    }
    let name = runtime.name(device)?;
    // SAFETY: the caller's promise; both texts have so many bytes.
    unsafe {
        properties.cast::<u8>().write_bytes(0, PROPERTIES_5);
        give_text(properties.cast(), TEXT, &name)?;
        give_text(properties.byte_add(ARCHITECTURE_5).cast(), TEXT, &architecture())
    }
}
