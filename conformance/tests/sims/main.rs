//! The whole suite on the real backends, with libraries in the drivers' place that do on the CPU what a GPU does:
//! asynchronously, and with a real Vulkan driver for the CPU as the exporter.
//!
//! This program is three things. With the suite's own arguments it is the suite, whose CUDA backend has the host backend's
//! semaphores to import; with `hip-calls` it is a program that calls HIP by itself, with
//! `nvsci-calls` one that looks behind what the library makes of NvSci; without them it is the tests, which
//! start it as the others.
#![allow(clippy::expect_used, clippy::panic, reason = "these are tests, also outside of the test functions")]

#[path = "../../drivers/built.rs"]
mod built;
mod calls;
mod cuda;
mod device;
mod expectations;
mod hip;
mod hip_calls;
mod hip_on_cuda;
mod interrupt;
mod library;
mod nvsci;
mod nvsci_calls;
mod peer;
mod run;

use std::process::ExitCode;

use gpu_interop_conformance::{BackendUnderTest, Suite, host_semaphore};
use libtest_mimic::Arguments;

const SUITE_COMMANDS: [&str; 7] = ["run", "bench", "doctor", "child", "discover", "peer", "raw-cuda"];

fn main() -> ExitCode {
    let first = std::env::args().nth(1).unwrap_or_default();
    if SUITE_COMMANDS.contains(&first.as_str()) {
        return Suite::standard().with_backend(BackendUnderTest::cuda().with_semaphores(host_semaphore)).main();
    }
    if first == hip_calls::COMMAND {
        return hip_calls::main();
    }
    if first == nvsci_calls::COMMAND {
        return nvsci_calls::main();
    }
    let tests = [
        cuda::tests(),
        hip::tests(),
        hip_on_cuda::tests(),
        hip_calls::tests(),
        nvsci::tests(),
        nvsci_calls::tests(),
        calls::tests(),
        device::tests(),
        expectations::tests(),
        interrupt::tests(),
    ];
    let tests = tests.into_iter().flatten().collect();
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}
