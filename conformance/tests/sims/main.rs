//! The whole suite on the real backends, with simulators of the drivers that execute a GPU's work on the CPU:
//! asynchronously, and with a real CPU Vulkan driver as exporter.
//!
//! This program has several functions. With the suite's own arguments it is the suite, whose CUDA backend can import
//! the host backend's semaphores; with `hip-calls` it calls HIP directly, with `hip-opaque` it imports the host
//! backend's memory and semaphores into HIP, with `nvsci-calls` it inspects the library's NvSci objects; without them
//! it runs the tests, which start it as the others.

#![allow(clippy::expect_used, clippy::panic, reason = "these are tests, also outside of the test functions")]

mod calls;
mod cuda;
#[cfg(windows)]
mod d3d;
#[cfg(unix)]
mod expectations;
#[cfg(target_os = "linux")]
mod flakes;
mod hip;
#[cfg(target_os = "linux")]
mod hip_calls;
#[cfg(target_os = "linux")]
mod hip_on_cuda;
#[cfg(windows)]
mod hip_opaque;
#[cfg(unix)]
mod interrupt;
#[cfg(target_os = "linux")]
mod misbehaviour;
#[cfg(target_os = "linux")]
mod nvsci;
#[cfg(target_os = "linux")]
mod nvsci_calls;
#[path = "../recorded.rs"]
mod recorded;
#[cfg(target_os = "linux")]
mod resume;
mod run;
#[cfg(target_os = "linux")]
mod shards;
#[cfg(target_os = "linux")]
mod vulkan;
mod work;

use std::process::ExitCode;

use gpu_interop_conformance::{BackendUnderTest, Suite, host_semaphore};
use gpu_interop_test_support::run_tests;

fn suite() -> Suite {
    Suite::standard().with_backend(BackendUnderTest::cuda().with_semaphores(host_semaphore))
}

fn main() -> ExitCode {
    if gpu_interop_conformance_cli::is_called() {
        return gpu_interop_conformance_cli::main_of_test(&suite());
    }
    let first = std::env::args().nth(1).unwrap_or_default();
    #[cfg(target_os = "linux")]
    if first == hip_calls::COMMAND {
        return hip_calls::main();
    }
    #[cfg(windows)]
    if first == hip_opaque::COMMAND {
        return hip_opaque::main();
    }
    #[cfg(target_os = "linux")]
    if first == nvsci_calls::COMMAND {
        return nvsci_calls::main();
    }
    let tests = [
        // The longest ones first, and those that mostly wait.
        #[cfg(target_os = "linux")]
        vulkan::tests(),
        #[cfg(unix)]
        interrupt::tests(),
        #[cfg(target_os = "linux")]
        flakes::tests(),
        calls::tests(),
        #[cfg(target_os = "linux")]
        nvsci_calls::tests(),
        #[cfg(target_os = "linux")]
        hip_on_cuda::tests(),
        #[cfg(target_os = "linux")]
        resume::tests(),
        cuda::tests(),
        #[cfg(windows)]
        d3d::tests(),
        hip::tests(),
        #[cfg(target_os = "linux")]
        hip_calls::tests(),
        #[cfg(windows)]
        hip_opaque::tests(),
        #[cfg(target_os = "linux")]
        nvsci::tests(),
        cuda::device_tests(),
        #[cfg(unix)]
        expectations::tests(),
        #[cfg(target_os = "linux")]
        shards::tests(),
        #[cfg(target_os = "linux")]
        misbehaviour::tests(),
    ];
    let tests = tests.into_iter().flatten().collect();
    // Most tests wait half of their time.
    run_tests(tests, Some(2 * std::thread::available_parallelism().map_or(1, usize::from)))
}
