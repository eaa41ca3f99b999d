//! The `conformance` command: runs the suite in other processes, measures, and writes reports.
//!
//! [`main`] turns a [`Suite`] into a program. Scenarios run in other processes, so that a crashing driver is a result:
//! a group of them, such as `memory.*`, shares a process until one fails.
//!
//! # Guarantees
//! * A run fails if no scenario ran, or if a requirement is missing.
//!
//! # Requirements on the caller
//! * A program with its own backend returns [`main`] from `main`, as its first call, because it is started again for
//!   groups of scenarios.
//!
//! ```no_run
//! use std::process::ExitCode;
//! use std::sync::Arc;
//!
//! use gpu_interop::Backend;
//! use gpu_interop_conformance::{BackendUnderTest, Suite};
//!
//! fn main() -> ExitCode {
//!     let mine = BackendUnderTest::new("mine", || Ok(Arc::new(gpu_interop::host::HostBackend::new()) as Arc<dyn Backend>));
//!     gpu_interop_conformance_cli::main(&Suite::standard().with_backend(mine))
//! }
//! ```
//!
//! Linux and Windows.

#![doc(html_root_url = "../")]

mod baseline;
#[cfg(unix)]
mod bench;
mod call_trace;
mod cli;
mod diff;
mod doctor;
mod drivers;
mod evidence;
mod examined;
mod expectations_from;
mod files;
mod interrupt;
mod output;
mod package;
mod report;
mod requirement;
mod run;
mod runner;
mod selection;
mod sha256;
mod site;
mod subprocess;

use std::process::ExitCode;

use gpu_interop_conformance::Suite;

use crate::run::CommandHash;

#[cfg(target_os = "linux")]
pub use crate::drivers::simulate::simulated_identity;
pub use crate::evidence::{Around, Gpu, Host, KernelEvent, KernelLine, Sensors};
pub use crate::report::{
    Attempt, Call, CallTrace, CaseList, CaseReport, Cause, Emulated, Environment, JoinedShard, MERGED_SCHEMA, Merged,
    NotRead, Report, Returned, SCHEMA, Shard, Sourced, Stopped, Tool,
};
pub use gpu_interop_conformance_bench::{BENCH_SCHEMA, BenchReport, Limit, Measurement, NotMeasured, Ratio, SERIES};

/// Runs the command line of this process, and returns its exit status.
#[must_use]
pub fn main(suite: &Suite) -> ExitCode {
    cli::main(suite, CommandHash::Recorded)
}

/// As [`main`], for tests: reports omit [`Host::command_sha256`]. A test program is large, and runs the suite hundreds of
/// times; hashing it takes longer than most of these runs.
#[must_use]
pub fn main_of_test(suite: &Suite) -> ExitCode {
    cli::main(suite, CommandHash::Omitted)
}

/// `true` if the first argument of this process is one of the command's subcommands. For programs with further
/// functions, such as tests that start themselves.
#[must_use]
pub fn is_called() -> bool {
    cli::is_called()
}
