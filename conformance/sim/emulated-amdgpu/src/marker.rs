//! The function by which a process knows that its kernel driver is emulated, so that no report passes for one of hardware.

use std::ffi::{CStr, c_char};

/// What reports call this driver.
const NAME: &CStr = c"gpu-interop-emulated-amdgpu";

/// The name of the emulated driver, a static string.
#[unsafe(no_mangle)]
pub extern "C" fn gpu_interop_emulated_driver() -> *const c_char {
    NAME.as_ptr()
}
