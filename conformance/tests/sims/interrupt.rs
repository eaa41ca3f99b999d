//! An interrupted run ends soon, and reports the finished scenarios.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use gpu_interop_conformance::Outcome;
use gpu_interop_conformance_cli::Report;
use libtest_mimic::{Failed, Trial};
use rustix::process::{Pid, Signal};

use crate::cuda::NATIVE_IMPORT;
use crate::run::{Run, check};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        Trial::test("an_interrupted_run_reports_what_has_finished", || interrupted(terminal)),
        Trial::test("a_run_that_is_told_to_end_reports_what_has_finished", || interrupted(scheduler)),
        Trial::test("a_failure_before_an_interruption_counts", failed_before),
        Trial::test("an_interrupted_repetition_is_not_in_the_journal", repetition),
        Trial::test("a_second_interruption_ends_the_run_at_once", twice),
    ]
}

/// Ctrl-C: every process of the terminal's foreground group receives it.
fn terminal(run: Pid) -> Result<(), Failed> {
    Ok(rustix::process::kill_process_group(run, Signal::INT)?)
}

fn scheduler(run: Pid) -> Result<(), Failed> {
    Ok(rustix::process::kill_process(run, Signal::TERM)?)
}

/// The end of a run that received `signal` after one scenario had ended, while another one hung.
fn run(
    run: Run,
    outcome: &str,
    signal: impl Fn(Pid) -> Result<(), Failed>,
) -> Result<(ExitStatus, String, String), Failed> {
    let folder = tempfile::tempdir()?;
    let json = folder.path().join("report.json");
    let mut command = run.exporter("native").command(&json)?;
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    let seen = lines.find_map(|line| line.ok().filter(|line| line.starts_with(outcome)));
    // The next scenario begins.
    std::thread::sleep(Duration::from_millis(500));
    let begin = Instant::now();
    signal(Pid::from_child(&child))?;
    let mut said = String::new();
    child.stderr.take().ok_or("no messages")?.read_to_string(&mut said)?;
    let status = child.wait()?;
    check(seen.is_some(), format!("no scenario `{outcome}`: {said}"))?;
    check(begin.elapsed() < Duration::from_secs(10), format!("it took {:?} to end", begin.elapsed()))?;
    Ok((status, said, std::fs::read_to_string(&json).unwrap_or_default()))
}

/// Two scenarios, of which the second one hangs.
fn hanging() -> Run {
    Run::cuda()
        .filter("memory.{read_device_local,write_device_local,round_trip}")
        .env("GPU_INTEROP_SIM_FAIL", &format!("{NATIVE_IMPORT}:2:hang"))
}

fn interrupted(signal: fn(Pid) -> Result<(), Failed>) -> Result<(), Failed> {
    let (status, said, report) = run(hanging(), "passed", signal)?;
    check(status.code() == Some(2) && said.contains("interrupted"), format!("{status}: {said}"))?;
    let report: Report = serde_json::from_str(&report)?;
    let ends: Vec<(Outcome, Option<&str>)> =
        report.results.iter().map(|case| (case.outcome, case.reason.as_deref())).collect();
    let left = (Outcome::Skipped, Some("interrupted"));
    check(ends == [(Outcome::Passed, None), left, left], format!("{ends:?}"))
}

fn failed_before() -> Result<(), Failed> {
    // The first one reads, and the second one fills.
    let both = Run::cuda().filter("memory.{read_device_local,fill}");
    let both = both.env("GPU_INTEROP_SIM_FAIL", "cuMemcpyDtoHAsync_v2:1:719,cuMemsetD8Async:1:hang");
    let (status, said, report) = run(both, "failed", scheduler)?;
    let report: Report = serde_json::from_str(&report)?;
    let ends: Vec<Outcome> = report.results.iter().map(|case| case.outcome).collect();
    check(ends == [Outcome::Failed, Outcome::Skipped], format!("{ends:?}"))?;
    check(status.code() == Some(1), format!("{status}: {said}"))
}

/// A case that failed once runs again when the run is interrupted. A continued run repeats it: the end of that repetition is
/// no result.
fn repetition() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (journal, counts) = (path("journal.jsonl"), path("counts"));
    std::fs::create_dir(&counts)?;
    let case = |option: &str| {
        let run = Run::cuda().filter("memory.round_trip").env("GPU_INTEROP_SIM_COUNTS", &counts).with_retries();
        run.arg(option).arg(&journal)
    };
    let fault = format!("{NATIVE_IMPORT}:1:1,{NATIVE_IMPORT}:2:hang");
    let first = case("--journal").env("GPU_INTEROP_SIM_FAIL", &fault);
    let (status, said, report) = run(first, "failed", scheduler)?;
    check(status.code() == Some(1), format!("{status}: {said}"))?;
    let report: Report = serde_json::from_str(&report)?;
    check(report.results[0].outcome == Outcome::Failed && report.stopped.is_some(), format!("{report:?}"))?;
    let lines = std::fs::read_to_string(&journal)?;
    check(lines.contains("{\"failed\":") && !lines.contains("{\"case\":"), &*lines)?;
    let json = folder.path().join("report.json");
    let status = case("--resume").exporter("native").command(&json)?.stdout(Stdio::null()).status()?;
    let report: Report = serde_json::from_str(&std::fs::read_to_string(&json)?)?;
    let [only] = report.results.as_slice() else { return Err(format!("{report:?}").into()) };
    let runs: Vec<Outcome> = only.attempts.iter().map(|attempt| attempt.outcome).collect();
    check(runs == [Outcome::Failed, Outcome::Passed] && only.outcome == Outcome::Flaky, format!("{only:?}"))?;
    check(status.code() == Some(0) && report.stopped.is_none(), format!("{status}: {report:?}"))
}

fn twice() -> Result<(), Failed> {
    // A hanging scenario in this process cannot be stopped.
    let both = |run: Pid| {
        terminal(run)?;
        std::thread::sleep(Duration::from_millis(300));
        terminal(run)
    };
    let (status, said, report) = run(hanging().in_one_process(), "passed", both)?;
    check(status.code() == Some(130) && report.is_empty(), format!("{status}: {said}, {report}"))
}
