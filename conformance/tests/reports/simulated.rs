//! Runs on a simulator of CUDA's driver, with faults and delays.

use std::path::Path;
use std::process::{Command, Output};

use gpu_interop_conformance_cli::Report;

use super::{Tested, report, text};

/// Arguments of a run.
const RUN: [&str; 9] = ["run", "--backend", "cuda", "--exporter", "native", "--jobs", "2", "--retries", "0"];
/// The scenarios, if a test names none.
const SCENARIOS: [&str; 2] = ["--filter", "{memory,identity}.*"];

/// A run with a report.
pub(crate) fn run(json: &Path, variables: &[(&str, &str)], more: &[&str]) -> Tested<Output> {
    let library = gpu_interop_test_support::build("gpu-interop-sim-cuda")?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_conformance"));
    let filter: &[&str] = if more.contains(&"--filter") { &[] } else { &SCENARIOS };
    command.args(RUN).args(filter).args(more).args(["--json", text(json)?]).env("GPU_INTEROP_CUDA_LIBRARY", library);
    command.env_remove("CUDA_VISIBLE_DEVICES").env_remove("GPU_INTEROP_BACKEND");
    Ok(command.envs(variables.iter().copied()).output()?)
}

/// The report of a run.
pub(crate) fn reported(json: &Path, variables: &[(&str, &str)], more: &[&str]) -> Tested<Report> {
    let output = run(json, variables, more)?;
    report(json).map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&output.stderr)).into())
}

/// A case's duration is independent of the other cases in its process, and of the start of processes.
#[test]
fn durations_leave_out_the_start_of_processes() -> Tested {
    const LATENCY_US: u64 = 1_500_000;
    let folder = tempfile::tempdir()?;
    let slow = format!("cuDevicePrimaryCtxRetain:{LATENCY_US}");
    let few = ["--filter", "memory.{round_trip,import_twice}"];
    let report = reported(&folder.path().join("slow.json"), &[("GPU_INTEROP_SIM_LATENCY", slow.as_str())], &few)?;
    let ran: Vec<_> = report.results.iter().filter(|case| case.outcome.ran()).collect();
    assert_eq!(ran.len(), 2, "{:?}", report.summary);
    assert!(report.duration_us > LATENCY_US, "{} us", report.duration_us);
    for case in ran {
        assert!((1..LATENCY_US / 2).contains(&case.duration_us), "{}: {} us", case.name(), case.duration_us);
    }
    Ok(())
}
