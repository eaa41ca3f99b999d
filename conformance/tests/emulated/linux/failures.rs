//! Failures of the kernel driver below AMD's own runtime: each case ends with correct data, or with an error that names
//! the failure.

use std::collections::BTreeSet;
use std::fs;

use gpu_interop_conformance::Outcome;
use gpu_interop_conformance_cli::{CaseReport, Report};
use libtest_mimic::Failed;

use super::suite::{check, emulated};

/// Imports of real Vulkan memory with verified data, and two streams that depend on each other.
const CASES: &str = "{memory.round_trip,stream.events}";

/// Expected end of a run.
#[derive(Debug, Clone, Copy)]
enum End {
    /// The runtime retries, and every case passes.
    Passed,
    /// Each case passes, or fails with an error that names the function and contains this text.
    Error(&'static str),
    /// The device cannot be used. The run reports this text, and writes no report.
    Unusable(&'static str),
    /// The runtime aborts the process. That is the result of each case, and the run continues.
    Aborted,
}

/// Error of a wait for work that the GPU does not execute.
const PENDING: &str = "Stream::synchronize_timeout: timeout: ";

/// In one of so many runs the runtime must notice every page fault. On a busy machine, its thread for events may spin
/// without asking the kernel driver: the fault is missed, and the case ends as with a queue that hangs.
const MOST_RUNS: u32 = 8;
/// In one of so many runs each case must notice that nothing waits. On a busy machine the emulated GPU may reach a marker after
/// the last query.
const MOST_RUNS_WITHOUT_WAITS: u32 = 3;

/// The faults are those of the emulated kernel driver's `faults.rs`. The numbers are of gfx908 on runtime 5.2.3.
const FAULTS: [(&str, End); 12] = [
    ("reset:5", End::Error(PENDING)),
    ("packet-hang:4", End::Error(PENDING)),
    ("page-fault:4", End::Aborted),
    ("ioctl-acquire-vm:1:EINVAL", End::Passed),
    ("ioctl-alloc:20:ENOMEM", End::Passed),
    ("ioctl-create-event:30:ENOMEM", End::Passed),
    ("ioctl-create-queue:4:ENOMEM", End::Passed),
    ("ioctl-wait-events:4:EIO", End::Passed),
    ("ioctl-import:1:EINVAL", End::Error("hipImportExternalMemory: import rejected: ")),
    ("ioctl-import:1:ENOMEM", End::Error("hipImportExternalMemory: import rejected: ")),
    ("vram-full:5", End::Error("out of memory: ")),
    ("vram-full:1", End::Unusable("hipMalloc: out of memory: ")),
];

/// Cases that check that a stream waits, each of which must fail if none does.
const WAITING: &str = "{capture.drop_with_work_pending,capture.queries,graph.dropped_pending,\
    heap.free_while_work_is_pending,lifetime.drop_everything_with_work_pending,lifetime.drop_with_work_pending,\
    lifetime.free_while_a_stream_waits,property.objects,stream.asynchronous,stream.events,stream.timeout,\
    stream.wait_value_32,stream.wait_value_64,stream.waits_apart,timeline.dropped_pending.bridge,\
    timeline.large_values.bridge,timeline.timeout.bridge,timeline.wait_before_signal.bridge}";

/// The control of the queries that these cases make. At the first query after new work, AMD's runtime returns "not
/// ready" even if the work has completed.
pub(super) fn skipped_waits_are_noticed() -> Result<(), Failed> {
    let mut missed: BTreeSet<_> = WAITING.trim_matches(['{', '}']).split(',').map(ToOwned::to_owned).collect();
    let mut text = String::new();
    for _ in 0..MOST_RUNS_WITHOUT_WAITS {
        let folder = tempfile::tempdir()?;
        let json = folder.path().join("report.json").display().to_string();
        let arguments =
            ["run", "--emulate", "amd", "--retries", "0", "--exporter", "vulkan", "--filter", WAITING, "--json", &json];
        (_, text) = emulated(&arguments, &[("GPU_INTEROP_SIM_AMDGPU_FAULTS", "skip-word-waits")])?;
        let report: Report = serde_json::from_str(&fs::read_to_string(&json)?)?;
        for case in report.results.iter().filter(|case| case.outcome == Outcome::Failed) {
            missed.remove(&case.id);
        }
        if missed.is_empty() {
            return Ok(());
        }
    }
    Err(format!("not noticed by {missed:?} in {MOST_RUNS_WITHOUT_WAITS} runs\n{text}").into())
}

/// Each fault with the test that meets it.
pub(super) fn of_the_kernel() -> impl Iterator<Item = (String, impl FnOnce() -> Result<(), Failed>)> {
    FAULTS.into_iter().map(|(fault, end)| (format!("emulated_kernel_failure_{fault}"), move || meet(fault, end)))
}

fn meet(fault: &str, end: End) -> Result<(), Failed> {
    let mut text = String::new();
    for _ in 0..MOST_RUNS {
        let cases;
        (cases, text) = run_with(fault, end)?;
        let missed = |case: &CaseReport| case.outcome == Outcome::Failed;
        if !matches!(end, End::Aborted) || !cases.iter().any(missed) {
            return Ok(());
        }
    }
    Err(format!("the fault was missed in each of {MOST_RUNS} runs: {text}").into())
}

/// Runs the cases once, and returns their results and the command's output.
fn run_with(fault: &str, end: End) -> Result<(Vec<CaseReport>, String), Failed> {
    let folder = tempfile::tempdir()?;
    let json = folder.path().join("report.json").display().to_string();
    let arguments = [
        "run",
        "--emulate",
        "amd",
        "--retries",
        "0",
        "--exporter",
        "vulkan",
        "--isolate-each",
        "--filter",
        CASES,
        "--json",
        &json,
    ];
    let variables = [("GPU_INTEROP_SIM_AMDGPU_DEVICES", "gfx908"), ("GPU_INTEROP_SIM_AMDGPU_FAULTS", fault)];
    let (output, text) = emulated(&arguments, &variables)?;
    let report: Option<Report> = fs::read_to_string(&json).ok().and_then(|text| serde_json::from_str(&text).ok());
    let Some(report) = report else {
        let End::Unusable(reason) = end else { return Err(format!("no report\n{text}").into()) };
        check(output.status.code() == Some(2) && text.contains(reason), text.clone())?;
        return Ok((Vec::new(), text));
    };
    let cases = report.results;
    check(cases.len() == 2, text.clone())?;
    let allowed = |case: &CaseReport| {
        let reason = case.reason.as_deref().unwrap_or_default();
        match (case.outcome, end) {
            (Outcome::Passed, _) | (Outcome::Crashed, End::Aborted) => true,
            (Outcome::Failed, End::Error(part)) => reason.contains(part),
            (Outcome::Failed, End::Aborted) => reason.contains(PENDING),
            _ => false,
        }
    };
    check(cases.iter().all(allowed), text.clone())?;
    let met = cases.iter().any(|case| case.outcome != Outcome::Passed);
    check(met != matches!(end, End::Passed), format!("the fault was expected to show: {text}"))?;
    Ok((cases, text))
}
