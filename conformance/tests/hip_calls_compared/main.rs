//! Scripts of HIP calls, whose results are compared with those of AMD's runtimes.
//!
//! The scripts are data (`scripts/*.calls`), and so are the results of several versions of AMD's runtimes on an
//! emulated kernel driver (`answers/VERSION.jsonl`). The simulator must return the same results for each version,
//! except for the differences in `differences.toml`, each with a reason. This runs on any Linux machine.
//!
//! With AMD's runtimes, the records are compared with the current results: `GPU_INTEROP_AMD_RUNTIMES` names the folder
//! in which `ci/amd-runtimes.sh` has set them up, and `GPU_INTEROP_EMULATED_AMDGPU` the library to preload. A version
//! that is not there is reported as ignored, never as passed; with `GPU_INTEROP_REQUIRE_AMD_RUNTIMES=1` it fails.
//! `GPU_INTEROP_RECORD=1` rewrites the records. `GPU_INTEROP_SCRIPTS=GLOB` selects scripts.

#![allow(clippy::expect_used, clippy::panic, reason = "these are tests, also outside of the test functions")]

#[cfg(target_os = "linux")]
mod answers;
#[cfg(target_os = "linux")]
mod compare;
#[cfg(target_os = "linux")]
mod language;
#[cfg(target_os = "linux")]
mod machine;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod runtime;

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    return compare::main();
    #[cfg(not(target_os = "linux"))]
    return ExitCode::SUCCESS;
}
