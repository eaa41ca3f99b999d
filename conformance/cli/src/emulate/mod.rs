//! `--emulate amd`: AMD's own HIP runtime on an emulated kernel driver, on a machine without an AMD GPU.
//!
//! The commands that load a backend call [`EmulateArgs::enter`] first. It finds the emulated driver and the runtime,
//! and replaces this process by itself with both in its environment, because a library can only be preloaded when a
//! process starts. Nothing is downloaded or built: a missing part is an error that names the package or the command.
//!
//! The runtime and the libraries above the kernel driver are AMD's. [`detect`] states in every report that the kernel
//! driver is emulated, also if it was preloaded by hand.

mod detect;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod driver;
mod emulation;
mod manifest;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod program;
#[cfg_attr(
    not(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")),
    allow(dead_code, reason = "elsewhere only versions are read")
)]
mod runtime;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod start;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod vulkan;

use std::path::PathBuf;

use clap::Args;
use gpu_interop_conformance::Verdict;

pub(crate) use detect::detect;
pub(crate) use emulation::Session;

use self::emulation::{BACKEND, Emulation};

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
}

impl EmulateArgs {
    /// Starts the requested emulation: this process is replaced by itself, and calls this function again.
    ///
    /// # Errors
    /// If something is missing, or this is another system than Linux on x86-64.
    pub(crate) fn enter(&self) -> Verdict<Option<Session>> {
        let Some(emulation) = &self.emulate else { return Ok(None) };
        #[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
        return start::enter(emulation, self.emulate_root.as_deref()).map(Some);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drivers::parse;

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
}
