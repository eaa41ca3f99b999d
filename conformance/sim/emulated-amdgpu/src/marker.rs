//! The function by which a process detects that its kernel driver is emulated, so that reports are marked.

use std::ffi::{CStr, c_char};

/// The name of this driver in reports.
const NAME: &CStr = c"gpu-interop-emulated-amdgpu";

/// The name of the emulated driver, a static string.
#[unsafe(no_mangle)]
pub extern "C" fn gpu_interop_emulated_driver() -> *const c_char {
    NAME.as_ptr()
}
