//! The suite on AMD's own runtime over the emulated kernel driver: what passes, and that every report says EMULATED.
//!
//! Needs Debian's libamdhip64-5. Where it is not installed the tests are ignored, but with `CI` set they fail. This program
//! is also the suite that they start.
#![allow(clippy::expect_used, clippy::panic, reason = "these are tests, also outside of the test functions")]

#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod linux;

use std::process::ExitCode;

use gpu_interop_conformance::Suite;
use libtest_mimic::Arguments;

fn main() -> ExitCode {
    if gpu_interop_conformance_cli::is_called() {
        return gpu_interop_conformance_cli::main(&Suite::standard());
    }
    #[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
    let tests = linux::tests();
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")))]
    let tests = Vec::new();
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}
