//! `--emulate amd`: AMD's own HIP runtime on an emulated kernel driver, on a machine without an AMD GPU.
//!
//! The commands that load a backend call [`EmulateArgs::enter`] first. It finds the emulated driver and the runtime,
//! and replaces this process by itself with both in its environment, because a library can only be preloaded when a
//! process starts. Nothing is downloaded or built: a missing part is an error that names the package or the command.
//!
//! The runtime and the libraries above the kernel driver are AMD's. [`detect`] states in every report that the kernel
//! driver is emulated, also if it was preloaded by hand.

#[cfg_attr(
    not(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")),
    allow(dead_code, reason = "elsewhere only versions are read")
)]
mod runtime;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod start;

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use gpu_interop::BackendInfo;
use gpu_interop_conformance::Verdict;

use crate::report::Emulated;

/// The options of the emulation, shared by the commands that load a backend.
#[derive(Debug, Args)]
pub(crate) struct EmulateArgs {
    /// Use AMD's own HIP runtime on an emulated kernel driver: `amd`, or `amd:VERSION`, such as amd:5.2.3. Needs no AMD
    /// GPU. Linux on x86-64. The report says EMULATED.
    #[arg(long, value_name = "RUNTIME")]
    emulate: Option<Emulation>,
    /// The folder with the runtimes that `ci/amd-runtimes.sh` has set up; default: `target/amd`.
    #[arg(long, value_name = "FOLDER", env = "GPU_INTEROP_AMD_RUNTIMES")]
    emulate_root: Option<PathBuf>,
    /// The Vulkan driver beside the emulation; default: RADV if it is installed, otherwise lavapipe.
    #[arg(long, value_name = "DRIVER", requires = "emulate")]
    emulate_vulkan: Option<VulkanDriver>,
}

/// A Vulkan driver of Mesa.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum VulkanDriver {
    /// The driver for AMD GPUs, on the emulated GPU.
    Radv,
    /// The driver for CPUs, whose device gets the PCI address of the emulated GPU.
    Lavapipe,
}

impl EmulateArgs {
    /// Starts the requested emulation: this process is replaced by itself, and calls this function again.
    ///
    /// # Errors
    /// If something is missing, or this is another system than Linux on x86-64.
    pub(crate) fn enter(&self) -> Verdict<Option<Session>> {
        let Some(emulation) = &self.emulate else { return Ok(None) };
        #[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
        return start::enter(emulation, self.emulate_root.as_deref(), self.emulate_vulkan).map(Some);
        #[cfg(not(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")))]
        return Err(gpu_interop_conformance::Stop::unsupported(format!(
            "{emulation}: AMD's kernel driver is emulated on Linux on x86-64 only"
        )));
    }

    /// The option as given, and its backend.
    pub(crate) fn backend(&self) -> Option<(String, &'static str)> {
        self.emulate.as_ref().map(|emulation| (emulation.to_string(), BACKEND))
    }
}

/// The backend on the emulation.
const BACKEND: &str = "hip";

/// The vendor in `--emulate`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Emulation {
    /// The release of the runtime, or its first numbers; `None` for any.
    version: Option<String>,
}

impl FromStr for Emulation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (vendor, version) = text.split_once(':').map_or((text, None), |(vendor, version)| (vendor, Some(version)));
        if vendor != "amd" {
            return Err(format!("`{vendor}` is not emulated; use amd, or amd:VERSION"));
        }
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        match version {
            Some(version) if !version.split('.').all(is_number) => {
                Err(format!("`{version}` is no version: numbers with points between them, as 5.2.3"))
            }
            version => Ok(Self { version: version.map(ToOwned::to_owned) }),
        }
    }
}

impl std::fmt::Display for Emulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("--emulate amd")?;
        self.version.iter().try_for_each(|version| write!(f, ":{version}"))
    }
}

/// The emulation of this process. Removes its temporary files when dropped.
#[derive(Debug)]
pub(crate) struct Session {
    folder: PathBuf,
}

impl Drop for Session {
    fn drop(&mut self) {
        // If the removal fails, two small files remain.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

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
        release: library.and_then(runtime::release_of),
    })
}

/// The name of the emulated kernel driver in this process.
#[cfg(unix)]
fn kernel_driver() -> Option<String> {
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
fn kernel_driver() -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use crate::drivers::parse;

    use super::*;

    #[test]
    fn a_runtime_is_named_with_or_without_its_version() {
        for (text, version) in [("amd", None), ("amd:5.2.3", Some("5.2.3")), ("amd:7", Some("7"))] {
            let args = parse::<EmulateArgs>(&["--emulate", text]).expect(text);
            let emulation = args.emulate.expect("an emulation");
            assert_eq!(emulation.version.as_deref(), version);
            assert_eq!(emulation.to_string(), format!("--emulate {text}"));
        }
        for (text, part) in [
            ("nvidia", "`nvidia` is not emulated"),
            ("amd:", "`` is no version"),
            ("amd:5.", "`5.` is no version"),
            ("amd:latest", "`latest` is no version"),
            ("amd:../x", "`../x` is no version"),
        ] {
            let error = parse::<EmulateArgs>(&["--emulate", text]).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn without_the_function_nothing_is_emulated() {
        let backend = BackendInfo::new("hip", "HIP 5.2");
        assert_eq!(detect(&backend), None);
    }
}
