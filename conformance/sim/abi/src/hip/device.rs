//! Devices, and the current device of each thread.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::LazyLock;

use cubecl_hip_sys as hip;

use crate::hip::code_object::architecture;
use crate::hip::version::Era;
use crate::{code, settings, write_text};

thread_local! {
    /// The current device of this thread.
    static CURRENT: Cell<c_int> = Cell::new(initial());
}

/// The size of HIP 5's `hipDeviceProp_t`.
const PROPERTIES_5: usize = 792;
/// The offset of the architecture's name in HIP 5's `hipDeviceProp_t`.
const ARCHITECTURE_5: usize = 396;
/// The size in bytes of a device's name, and of its architecture's name, in both layouts.
const TEXT: c_int = 256;

/// Device operations of a HIP runtime that differ between simulators and shim. A failure is a HIP status code.
pub trait Runtime {
    /// Initialises the runtime, if necessary. Every function of HIP does this first.
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
    fn name(&self, device: c_int) -> Result<String, u32>;

    /// Domain, bus and device of a device's PCI address.
    fn pci(&self, device: c_int) -> Result<[c_int; 3], u32>;

    /// The UUID of a device: 16 characters. Other APIs report another UUID.
    fn uuid(&self, device: c_int) -> Result<[u8; 16], u32>;

    /// The LUID, which exists on Windows only.
    fn luid(&self, _device: c_int) -> Option<[u8; 8]> {
        None
    }

    /// An attribute by HIP's number.
    fn attribute(&self, device: c_int, number: c_uint) -> Result<c_int, u32>;

    /// Waits for all work of the current device.
    fn synchronize(&self) -> Result<(), u32>;

    /// `true` if a handle may be a stream, or is NULL (the default stream).
    fn has_stream(&self, stream: usize) -> bool;
}

/// The initial current device of each thread: `GPU_INTEROP_SIM_CURRENT`.
pub fn initial() -> c_int {
    static INITIAL: LazyLock<c_int> = LazyLock::new(|| settings::number("GPU_INTEROP_SIM_CURRENT", 0));
    *INITIAL
}

/// The number of this thread's current device.
pub fn current() -> c_int {
    CURRENT.try_with(Cell::get).unwrap_or(0)
}

/// Makes a device this thread's current one.
///
/// # Errors
/// [`code::INVALID_DEVICE`] if there is no such device, or the thread ends.
pub fn set_current(runtime: &impl Runtime, device: c_int) -> Result<(), u32> {
    check(runtime, device)?;
    CURRENT.try_with(|current| current.set(device)).map_err(|_| code::INVALID_DEVICE)
}

/// The current device, for `hipGetDevice`. Aborts if a caller did not restore it.
pub fn reported_current() -> c_int {
    // Callers query the current device before they change it, and restore it afterwards. Another device than the
    // initial one was therefore not restored.
    if initial() != 0 && current() != initial() {
        std::process::abort();
    }
    current()
}

/// Initialises the runtime. Before HIP 5.5, `early` replaces [`code::NO_DEVICE`].
fn ready(runtime: &impl Runtime, early: u32) -> Result<(), u32> {
    runtime.ready().map_err(|error| match (error, Era::now()) {
        (code::NO_DEVICE, Era::Early) => early,
        _ => error,
    })
}

/// Initialises the runtime for `hipDeviceSynchronize`.
///
/// # Errors
/// The code of the failed initialisation.
pub fn ready_to_synchronize(runtime: &impl Runtime) -> Result<(), u32> {
    ready(runtime, code::OUT_OF_MEMORY)
}

/// Fails unless the device exists.
///
/// # Errors
/// [`code::INVALID_DEVICE`], or the code of the failed initialisation.
pub fn check(runtime: &impl Runtime, device: c_int) -> Result<(), u32> {
    ready(runtime, code::INVALID_DEVICE)?;
    if (0..runtime.count()).contains(&device) { Ok(()) } else { Err(code::INVALID_DEVICE) }
}

/// Writes a text and a NUL to a caller's buffer of `length` bytes. A long text is truncated.
///
/// # Errors
/// [`code::INVALID_VALUE`] if the buffer is NULL or its length is 0.
///
/// # Safety
/// `target` is NULL, or points to `length` bytes.
pub unsafe fn give_text(target: *mut c_char, length: c_int, text: &str) -> Result<(), u32> {
    // SAFETY: the caller's promise.
    let written = !target.is_null() && unsafe { write_text(target, length, text) };
    if written { Ok(()) } else { Err(code::INVALID_VALUE) }
}

/// `true` if a text and its NUL fit into `length` bytes.
pub fn fits(text: &str, length: c_int) -> bool {
    usize::try_from(length).is_ok_and(|length| text.len() < length)
}

/// `hipGetDevicePropertiesR0600`: reports name, architecture, PCI address and LUID. Other fields are 0.
///
/// # Safety
/// `properties` is NULL or valid.
pub unsafe fn properties(
    runtime: &impl Runtime,
    properties: *mut hip::hipDeviceProp_tR0600,
    device: c_int,
) -> Result<(), u32> {
    check(runtime, device)?;
    code::reject_if(properties.is_null())?;
    let (name, [domain, bus, slot]) = (runtime.name(device)?, runtime.pci(device)?);
    // SAFETY: the caller's promise; both texts have `TEXT` bytes.
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

/// `hipGetDeviceProperties`, the unversioned symbol. It has the layout of HIP 5 in every version of HIP.
///
/// # Safety
/// `properties` is NULL, or points to 792 bytes, the size of that layout.
pub unsafe fn properties_5(runtime: &impl Runtime, properties: *mut c_void, device: c_int) -> Result<(), u32> {
    check(runtime, device)?;
    code::reject_if(properties.is_null())?;
    let name = runtime.name(device)?;
    // SAFETY: the caller's promise; both texts have `TEXT` bytes.
    unsafe {
        properties.cast::<u8>().write_bytes(0, PROPERTIES_5);
        give_text(properties.cast(), TEXT, &name)?;
        give_text(properties.byte_add(ARCHITECTURE_5).cast(), TEXT, &architecture())
    }
}
