//! The whole suite through the C interface: a backend whose every call goes through the shared library of
//! `gpu-interop-capi`, as a C program would make it, to the host backend or, on its simulator, to CUDA's.
//!
//! With the suite's own arguments this program is the suite; without them it runs the tests, which start it as the
//! suite.

#![cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "the test runs on Linux"))]
#![allow(clippy::expect_used, clippy::panic, reason = "these are tests, also outside of the test functions")]

#[cfg(target_os = "linux")]
mod api;
#[cfg(target_os = "linux")]
mod backend;
#[cfg(target_os = "linux")]
mod convert;
#[cfg(target_os = "linux")]
mod device;
#[cfg(target_os = "linux")]
#[path = "../recorded.rs"]
mod recorded;
#[cfg(target_os = "linux")]
mod suite;

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    if gpu_interop_conformance_cli::is_called() {
        return gpu_interop_conformance_cli::main_of_test(&suite::suite());
    }
    gpu_interop_test_support::run_tests(suite::tests(), None)
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    ExitCode::SUCCESS
}
