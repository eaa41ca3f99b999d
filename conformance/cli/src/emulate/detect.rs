//! Detects an emulated kernel driver below this process.

use gpu_interop::BackendInfo;

use super::emulation::BACKEND;
use super::{manifest, runtime};
use crate::report::Emulated;

/// The emulation below a backend that this process has loaded; `None` for a GPU, and for a simulator, which needs no
/// kernel driver and has its own mark.
///
/// An emulated driver exports a function that returns its name. Looked up in the whole process, so that a report states
/// the emulation even if the driver was preloaded by other means than `--emulate`.
pub(crate) fn detect(backend: &BackendInfo) -> Option<Emulated> {
    let kernel_driver = kernel_driver().filter(|_| backend.name == BACKEND && !backend.simulated)?;
    let library = backend.library.as_deref();
    Some(Emulated {
        kernel_driver,
        runtime: library.and_then(runtime::version_of_library),
        release: library.and_then(manifest::release_of),
    })
}

/// The name of the emulated kernel driver in this process.
#[cfg(unix)]
pub(super) fn kernel_driver() -> Option<String> {
    use std::ffi::{CStr, c_char};

    /// Exported only by emulated kernel drivers.
    const MARKER: &[u8] = b"gpu_interop_emulated_driver\0";

    let process = libloading::os::unix::Library::this();
    // SAFETY: the function has this type in every library that exports it; the project reserves names that begin with
    // `gpu_interop_`.
    let name = unsafe { process.get::<unsafe extern "C" fn() -> *const c_char>(MARKER) }.ok()?;
    // SAFETY: the function has no arguments and may be called at any time.
    let name = unsafe { name() };
    if name.is_null() {
        return Some("unnamed".into());
    }
    // SAFETY: not null, and then a static NUL-terminated string.
    Some(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
}

/// Emulated drivers do not exist on this system.
#[cfg(not(unix))]
pub(super) fn kernel_driver() -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_function_nothing_is_emulated() {
        let backend = BackendInfo::new("hip", "HIP 5.2");
        assert_eq!(detect(&backend), None);
    }
}
