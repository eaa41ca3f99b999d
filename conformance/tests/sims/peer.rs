//! Vulkan CPU drivers, and the settings that give a simulator's device their identity.

use std::ffi::OsString;
use std::path::PathBuf;

use gpu_interop_conformance_cli::simulated_identity;
use libtest_mimic::{Completion, Failed};

/// Settings that give a simulator's device the exporter's identity.
pub(crate) type Peer = [(&'static str, OsString)];

/// Runs a test with Vulkan's CPU device, which ignores it if there is none.
pub(crate) fn with_vulkan(test: fn(&Peer) -> Result<(), Failed>) -> Result<Completion, Failed> {
    let settings = simulated_identity();
    if settings.is_empty() {
        return Ok(Completion::ignored_with("Vulkan has no device that is a CPU; install mesa-vulkan-drivers"));
    }
    test(&settings).map(|()| Completion::Completed)
}

/// SwiftShader's device, the same in every version.
pub(crate) const SWIFTSHADER_UUID: &str = "53776966745368616465725555494400";

pub(crate) const NO_SWIFTSHADER: &str =
    "no SwiftShader: name its libvk_swiftshader.so with SWIFTSHADER_LIBRARY (Debian has it in chromium-common)";

/// SwiftShader's library.
pub(crate) fn swiftshader_library() -> Option<PathBuf> {
    let named = std::env::var_os("SWIFTSHADER_LIBRARY").map(PathBuf::from);
    let installed = PathBuf::from("/usr/lib/chromium/libvk_swiftshader.so");
    named.or_else(|| installed.is_file().then_some(installed))
}
