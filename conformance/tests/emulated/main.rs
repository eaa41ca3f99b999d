//! The suite on AMD's own runtime and the emulated kernel driver: expected results, and the mark EMULATED in every
//! report.
//!
//! Requires Debian's libamdhip64-5. Without it the tests are ignored, or fail if `CI` is set. The same program is the
//! suite that the tests start.

#![allow(clippy::expect_used, clippy::panic, reason = "these are tests, also outside of the test functions")]

#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod linux;

use std::process::ExitCode;

use gpu_interop_conformance::Suite;
use gpu_interop_test_support::run_tests;

/// Number of parallel tests. Those of GPUs that hang, which come first, mostly wait.
const THREADS: usize = 4;

fn main() -> ExitCode {
    if gpu_interop_conformance_cli::is_called() {
        return gpu_interop_conformance_cli::main_of_test(&Suite::standard());
    }
    #[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
    let tests = linux::tests();
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")))]
    let tests = Vec::new();
    run_tests(tests, Some(THREADS))
}
