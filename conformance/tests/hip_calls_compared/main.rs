//! Calls of HIP's functions, one script of calls at a time, compared with what AMD's runtimes answer.
//!
//! The scripts are data (`scripts/*.calls`), and so is what AMD's runtimes of several versions answered, above a kernel
//! driver that is emulated (`answers/VERSION.jsonl`). The library that simulates the runtime must answer alike in each
//! version, but for `differences.toml`, which has a reason for each. This runs anywhere on Linux.
//!
//! Where AMD's runtimes are, the answers are compared with what these say now, so that the record is no hearsay:
//! `GPU_INTEROP_AMD_RUNTIMES=5.2.3=FOLDER,...` names the folders of their libraries and `GPU_INTEROP_EMULATED_AMDGPU` the
//! library to preload. A version that is not named is reported as ignored, never as passed;
//! `GPU_INTEROP_REQUIRE_AMD_RUNTIMES=1` has it fail. `GPU_INTEROP_RECORD=1` writes the record anew.
//! `GPU_INTEROP_SCRIPTS=GLOB` leaves scripts out, everywhere.
#![allow(clippy::expect_used, clippy::panic, reason = "these are tests, also outside of the test functions")]

#[cfg(target_os = "linux")]
mod answers;
#[cfg(target_os = "linux")]
mod compare;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod language;
#[cfg(target_os = "linux")]
mod machine;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod runtime;
#[cfg(target_os = "linux")]
mod structs;

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    return compare::main();
    #[cfg(not(target_os = "linux"))]
    return ExitCode::SUCCESS;
}
