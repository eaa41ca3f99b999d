//! Runs on a simulator of CUDA's driver, with faults and delays.

use std::path::Path;
use std::process::{Command, Output};

use gpu_interop_conformance_cli::Report;

use super::{Tested, report, text};
use crate::conformance;

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

#[test]
fn a_run_without_what_it_requires_is_no_success() -> Tested {
    let run = |options: &[&str]| -> Tested<(Option<i32>, String, bool)> {
        let output = conformance(&[&["run", "--backend", "host", "--quiet"], options].concat())?;
        Ok((output.status.code(), String::from_utf8(output.stderr)?, output.stdout.is_empty()))
    };
    let native = ["--exporter", "native", "--filter", "identity.json"];
    for (required, part, before) in [
        ("cuda", "--require cuda: this run would use the backend host", true),
        ("vulkan", "--require vulkan: --exporter excludes it from this run", true),
        // The only case has no exporter.
        ("native", "--require native: no scenario ran with this exporter", false),
        ("host,native", "--require native: no scenario ran with this exporter", false),
        ("nothing", "--require nothing: unknown backend or exporter", true),
    ] {
        let (status, said, is_silent) = run(&[native.as_slice(), &["--require", required]].concat())?;
        assert!(status == Some(2) && said.contains(part), "{required}: {status:?}: {said}");
        assert_eq!(is_silent, before, "{required}: nothing runs if it cannot be met");
    }
    let both = ["--exporter", "native", "--filter", "{identity.json,memory.fill}", "--require", "host,native"];
    assert_eq!(run(&both)?.0, Some(0));
    Ok(())
}

/// The report of a run with these variables.
fn with(variables: &[(&str, &str)]) -> Tested<Report> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("run.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_conformance"));
    command.args(["run", "--exporter", "native", "--filter", "identity.json", "--json", text(&path)?]);
    command.env("GPU_INTEROP_CUDA_LIBRARY", "/nonexistent").env("GPU_INTEROP_HIP_LIBRARY", "/nonexistent");
    for name in ["GPU_INTEROP_BACKEND", "GPU_INTEROP_TIMELINE", "RUST_LOG"] {
        command.env_remove(name);
    }
    let output = command.envs(variables.iter().copied()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{variables:?}: {said}");
    report(&path)
}

#[test]
fn an_empty_variable_is_as_one_that_is_not_set() -> Tested {
    let unset = with(&[])?;
    assert_eq!(unset.backend.name, "host");
    for name in ["GPU_INTEROP_BACKEND", "GPU_INTEROP_TIMELINE", "GPU_INTEROP_NVML_LIBRARY", "RUST_LOG"] {
        let empty = with(&[(name, "")])?;
        assert_eq!((empty.backend, empty.device), (unset.backend.clone(), unset.device.clone()), "{name}");
        assert_eq!(empty.capabilities, unset.capabilities, "{name}");
    }
    Ok(())
}
