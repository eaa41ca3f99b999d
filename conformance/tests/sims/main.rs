//! The whole suite on the real backends, with libraries in the drivers' place that do on the CPU what a GPU does:
//! asynchronously, and with a real Vulkan driver for the CPU as the exporter.
//!
//! This program is two things. With the suite's own arguments it is the suite, whose CUDA backend has the host backend's
//! semaphores to import; without them it is the tests, which start it as the suite.
#![cfg_attr(not(target_os = "linux"), allow(dead_code, unused_imports))]
#![allow(clippy::expect_used, clippy::panic, reason = "these are tests, also outside of the test functions")]

mod library;
mod peer;
mod run;

use std::process::ExitCode;

use gpu_interop_conformance::{BackendUnderTest, Outcome, Suite, host_semaphore};
use libtest_mimic::{Arguments, Completion, Failed, Trial};

use run::{Run, check};

const SUITE_COMMANDS: [&str; 6] = ["run", "doctor", "child", "discover", "peer", "raw-cuda"];

fn main() -> ExitCode {
    let first = std::env::args().nth(1).unwrap_or_default();
    if SUITE_COMMANDS.contains(&first.as_str()) {
        return Suite::standard().with_backend(BackendUnderTest::cuda().with_semaphores(host_semaphore)).main();
    }
    let tests = if cfg!(target_os = "linux") {
        vec![
            Trial::test("cuda_native", cuda_native),
            Trial::ignorable_test("cuda_vulkan", cuda_vulkan),
            Trial::test("cuda_faults_are_reported", cuda_faults),
            Trial::test("cuda_slow_calls_change_nothing", cuda_latency),
        ]
    } else {
        Vec::new()
    };
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}

/// What the real driver cannot do either, or what only a GPU can.
const NO_SEMAPHORES_OF_VULKAN: &str = "the device does not export this kind of semaphore";
const NO_NATIVE_FORMS: &str = "native memory has one form";
const NO_NATIVE_IMAGES: &str = "no images of this exporter";
const NO_SURFACES: &str = "surfaces: the driver (CUDA 13.0) has no cuSurfObjectCreate";
const NO_TEXTURES: &str = "textures: the driver (CUDA 13.0) has no cuTexObjectCreate";

fn cuda_native() -> Result<(), Failed> {
    let report = Run::cuda().exporter("native").whole().run()?;
    report.only_unsupported(&[NO_NATIVE_FORMS, NO_NATIVE_IMAGES, NO_SURFACES, NO_TEXTURES])?;
    // A GPU's own semaphores are the one thing that lavapipe cannot be asked for.
    report.passed("semaphore.", 20)?;
    report.passed("stream.", 10)?;
    report.passed("misbehaviour.", 10)?;
    report.nothing_alive()
}

fn cuda_vulkan() -> Result<Completion, Failed> {
    let Some(vulkan) = peer::vulkan()? else {
        return Ok(Completion::ignored_with("Vulkan has no device that is a CPU; install mesa-vulkan-drivers"));
    };
    let report = Run::cuda().exporter("vulkan").matching(&vulkan).whole().run()?;
    report.only_unsupported(&[NO_SEMAPHORES_OF_VULKAN, NO_SURFACES, NO_TEXTURES])?;
    report.passed("memory.", 5)?;
    report.passed("reverse.", 5)?;
    report.passed("image_", 40)?;
    report.nothing_alive()?;
    Ok(Completion::Completed)
}

/// The suite fails when the driver does, with what the driver answered, and nothing is lost on the way.
fn cuda_faults() -> Result<(), Failed> {
    for (fault, reason) in [
        ("cuImportExternalMemory:1:999", "CUDA_ERROR_UNKNOWN (999)"),
        ("cuImportExternalMemory:1:700", "CUDA_ERROR_ILLEGAL_ADDRESS (700)"),
        ("cuImportExternalMemory:1:54321", "code 54321"),
        ("cuImportExternalMemory:1:null", "null handle"),
        ("cuExternalMemoryGetMappedBuffer:1:1", "CUDA_ERROR_INVALID_VALUE (1)"),
        ("cuExternalMemoryGetMappedBuffer:1:null", "null handle"),
        ("cuMemcpyDtoHAsync_v2:1:719", "CUDA_ERROR_LAUNCH_FAILED (719)"),
        ("cuStreamCreate:2:2", "CUDA_ERROR_OUT_OF_MEMORY (2)"),
        ("cuMemCreate:1:2", "CUDA_ERROR_OUT_OF_MEMORY (2)"),
    ] {
        let report = Run::cuda().exporter("native").filter("memory.round_trip").env("SIM_FAIL", fault).run()?;
        let [case] = report.results.as_slice() else { return Err(format!("{fault}: {report:?}").into()) };
        let told = case.reason.as_deref().unwrap_or_default();
        check(case.outcome == Outcome::Failed && told.contains(reason), format!("{fault}: {case:?}"))?;
        report.nothing_alive()?;
    }
    Ok(())
}

/// Nothing depends on how long a call takes.
fn cuda_latency() -> Result<(), Failed> {
    let slow = "cuMemcpyHtoDAsync_v2:2000,cuStreamSynchronize:2000,cuImportExternalMemory:2000";
    let report = Run::cuda().exporter("native").filter("{memory,stream}.*").env("SIM_LATENCY", slow).run()?;
    report.only_unsupported(&[NO_NATIVE_FORMS])?;
    report.passed("stream.", 10)?;
    report.nothing_alive()
}
