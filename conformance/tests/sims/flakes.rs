//! Failures that occur in some runs only, failures in every run, and a lost GPU: faults that the simulator counts over
//! all processes of a run.

use std::io::Write;
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gpu_interop::ErrorKind;
use gpu_interop_conformance::Outcome;
use gpu_interop_conformance_cli::{Cause, Report};
use libtest_mimic::{Failed, Trial};
use tempfile::TempDir;

use crate::cuda::NATIVE_IMPORT;
use crate::run::{Run, check};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        Trial::test("a_fault_in_one_of_three_runs_is_flaky", one_of_three),
        Trial::test("a_fault_in_every_run_is_a_failure", constant),
        Trial::test("without_a_fault_nothing_is_flaky", unplanted),
        Trial::test("without_retries_nothing_is_flaky", no_retries),
        Trial::test("flaky_cases_are_in_every_report", reports),
        Trial::test("flaky_cases_fail_a_run_on_request_unless_declared", declared),
        Trial::test("new_flakes_are_in_no_baseline", new_flakes),
        Trial::test("a_declared_flake_runs_as_often_as_its_rate_needs", rate),
        Trial::test("crashes_and_hangs_may_be_flaky", other_ends),
        Trial::test("a_run_stops_after_its_number_of_failures", max_failures),
        Trial::test("a_run_stops_when_the_gpu_is_lost", lost),
        Trial::test("a_failure_in_one_process_does_not_run_again", one_process),
        Trial::test("an_expected_failure_does_not_run_again", expected_failure),
        Trial::test("no_case_runs_again_on_a_lost_gpu", not_again_when_lost),
        Trial::test("a_lost_context_is_not_a_lost_gpu", lost_context),
        Trial::test("a_message_of_the_kernel_is_a_sign_of_a_lost_gpu", lost_by_message),
    ]
}

/// One scenario with one import, and two others of its group.
const GROUP: &str = "memory.{read_device_local,round_trip,write_device_local}";
const CASES: usize = 3;

/// A finished run.
struct Ended {
    output: Output,
    report: Report,
    text: String,
    folder: TempDir,
}

impl Ended {
    fn count(&self, outcome: Outcome) -> usize {
        let count = self.report.results.iter().filter(|case| case.outcome == outcome).count();
        assert_eq!(self.report.summary.get(outcome.name()), Some(&count));
        count
    }

    fn status(&self, status: i32) -> Result<(), Failed> {
        check(self.output.status.code() == Some(status), format!("{}: {}", self.output.status, self.text))
    }

    fn file(&self, name: &str) -> Result<String, Failed> {
        Ok(std::fs::read_to_string(self.folder.path().join(name))?)
    }
}

/// Runs the group with faults that are counted over all processes.
fn run(fault: &str, options: &[&str]) -> Result<Ended, Failed> {
    run_filtered(GROUP, fault, options)
}

fn run_filtered(filter: &str, fault: &str, options: &[&str]) -> Result<Ended, Failed> {
    let folder = tempfile::tempdir()?;
    let counts = folder.path().join("counts");
    std::fs::create_dir(&counts)?;
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let run = Run::cuda().exporter("native").filter(filter).env("GPU_INTEROP_SIM_FAIL", fault);
    let run = run.env("GPU_INTEROP_SIM_COUNTS", &path(&counts)).with_retries();
    let json = folder.path().join("report.json");
    let mut command = run.command(&json)?;
    command.args(["--junit", &path(&folder.path().join("junit.xml"))]);
    let output = command.args(["--html", &path(&folder.path().join("page.html"))]).args(options).output()?;
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let report = std::fs::read_to_string(&json).unwrap_or_default();
    let report = serde_json::from_str(&report).map_err(|error| format!("{error}: {}\n{text}", output.status))?;
    Ok(Ended { output, report, text, folder })
}

/// The first import of the run fails.
fn first() -> String {
    format!("{NATIVE_IMPORT}:1:999")
}

/// Of a scenario's runs, the first of every three fails.
fn one_of_three() -> Result<(), Failed> {
    let ended = run_filtered("memory.round_trip", &format!("{NATIVE_IMPORT}:1%3:999"), &[])?;
    check(ended.count(Outcome::Flaky) == 1, &*ended.text)?;
    ended.status(0)?;
    let flaky = ended.report.results.iter().find(|case| case.outcome == Outcome::Flaky).ok_or("none")?;
    let outcomes: Vec<Outcome> = flaky.attempts.iter().map(|attempt| attempt.outcome).collect();
    check(outcomes == [Outcome::Failed, Outcome::Passed], format!("{flaky:?}"))?;
    let reason = flaky.reason.as_deref().unwrap_or_default();
    check(reason.starts_with("failed in 1 of 2 runs: ") && reason.contains("CUDA_ERROR_UNKNOWN"), reason)?;
    let Some(error) = &flaky.attempts[0].error else { return Err(format!("no error: {flaky:?}").into()) };
    let is_planted =
        error.kind == ErrorKind::ImportRejected && error.operation == NATIVE_IMPORT && error.code == Some(999);
    check(is_planted && flaky.error.is_none(), format!("{flaky:?}"))
}

fn constant() -> Result<(), Failed> {
    for (fault, failed) in [(format!("{NATIVE_IMPORT}:*:999"), CASES), (format!("{NATIVE_IMPORT}:1+:1"), CASES)] {
        let ended = run(&fault, &[])?;
        check(ended.count(Outcome::Failed) == failed && ended.count(Outcome::Flaky) == 0, &*ended.text)?;
        ended.status(1)?;
        for case in &ended.report.results {
            let again = case.attempts.iter().filter(|attempt| attempt.outcome == Outcome::Failed).count();
            check(again == 3 && case.attempts.len() == 3, format!("{case:?}"))?;
        }
    }
    Ok(())
}

fn unplanted() -> Result<(), Failed> {
    for _ in 0..5 {
        let ended = run("", &[])?;
        check(ended.count(Outcome::Passed) == CASES, &*ended.text)?;
        check(ended.report.results.iter().all(|case| case.attempts.is_empty()), &*ended.text)?;
        ended.status(0)?;
    }
    Ok(())
}

fn no_retries() -> Result<(), Failed> {
    let ended = run(&first(), &["--retries", "0"])?;
    check(ended.count(Outcome::Failed) == 1 && ended.count(Outcome::Flaky) == 0, &*ended.text)?;
    check(ended.report.results.iter().all(|case| case.attempts.is_empty()), &*ended.text)?;
    ended.status(1)?;
    // Neither does a declared flake run again.
    let folder = tempfile::tempdir()?;
    let ended = run(&first(), &["--retries", "0", "--expectations", &expectations(folder.path(), "0.5")?])?;
    check(ended.count(Outcome::Failed) == 1 && ended.count(Outcome::Flaky) == 0, &*ended.text)?;
    ended.status(1)
}

/// Nor in one process: its first run is its result.
fn one_process() -> Result<(), Failed> {
    let run = Run::cuda().exporter("native").filter(GROUP).env("GPU_INTEROP_SIM_FAIL", &first());
    let ended = run.in_one_process().with_retries().run()?;
    let failed: Vec<_> = ended.results.iter().filter(|case| case.outcome == Outcome::Failed).collect();
    let [only] = failed.as_slice() else { return Err(ended.text().into()) };
    let reason = only.reason.as_deref().unwrap_or_default();
    check(reason.contains("(999)") && only.attempts.is_empty(), format!("{only:?}"))
}

/// Its first run says enough, and a pass of the second one would make it a flake.
fn expected_failure() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("expected.toml");
    std::fs::write(
        &file,
        "[[expected_failure]]\nscenario = 'memory.round_trip'\nreason = 'known'\nlink = 'https://x'",
    )?;
    let ended = run_filtered("memory.round_trip", &first(), &["--expectations", &file.to_string_lossy()])?;
    check(ended.count(Outcome::ExpectedFailure) == 1, &*ended.text)?;
    check(ended.report.results[0].attempts.is_empty(), &*ended.text)?;
    ended.status(0)
}

/// A failed case waits for its repetition when a later one loses the GPU: its first run is its result, and a continued run
/// repeats it.
fn not_again_when_lost() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let journal = folder.path().join("journal.jsonl");
    // The discovery and the processes of both cases start; no later process does.
    let fault = format!("{NATIVE_IMPORT}:1:1,{NATIVE_IMPORT}:2:719,cuInit:6+:100");
    let ended = run(&fault, &["--journal", &journal.to_string_lossy()])?;
    ended.status(3)?;
    check(ended.count(Outcome::Failed) == 2 && ended.count(Outcome::Skipped) == 1, &*ended.text)?;
    check(ended.report.results.iter().all(|case| case.attempts.is_empty()), &*ended.text)?;
    let lines = std::fs::read_to_string(&journal)?;
    let count = |start: &str| lines.lines().filter(|line| line.starts_with(start)).count();
    check(count("{\"failed\":") == 1 && count("{\"case\":") == 1, &*lines)
}

/// Text, JUnit, page, merged page and Markdown.
fn reports() -> Result<(), Failed> {
    let ended = run(&first(), &[])?;
    let text = &ended.text;
    check(text.contains("1 flaky") && text.contains("run 1: failed: ") && text.contains("run 2: passed"), &**text)?;
    let junit = ended.file("junit.xml")?;
    check(junit.contains("<flakyFailure") && junit.contains("failures=\"0\""), &*junit)?;
    let page = ended.file("page.html")?;
    check(page.contains("1 flaky") && page.contains("failed in 1 of 2 runs") && page.contains("attempts"), &*page)?;
    let [report, merged] = ["report.json", "merged.md"].map(|name| ended.folder.path().join(name));
    let merge = |options: &[&str]| -> Result<Option<i32>, Failed> {
        let mut command = gpu_interop_test_support::this_program()?;
        Ok(command.arg("merge").arg(&report).arg("--markdown").arg(&merged).args(options).output()?.status.code())
    };
    check(merge(&["--fail"])? == Some(0), "a flaky case fails a merge")?;
    check(merge(&["--fail", "--flaky", "fail"])? == Some(1), "a flaky case does not fail a merge on request")?;
    let merged = ended.file("merged.md")?;
    check(merged.contains(&format!("{} passed", CASES - 1)) || merged.contains("1 flaky"), &*merged)?;
    let failed = run(&first(), &["--flaky", "fail"])?.file("junit.xml")?;
    check(failed.contains("failures=\"1\"") && failed.contains("<flakyFailure"), failed)
}

fn expectations(folder: &Path, rate: &str) -> Result<String, Failed> {
    let file = folder.join("flaky.toml");
    let entry = "[[flaky]]\nscenario = 'memory.*'\nreason = 'seen before'\nlink = 'https://x'";
    std::fs::write(&file, format!("{entry}\nrate = {rate}"))?;
    Ok(file.to_string_lossy().into_owned())
}

fn declared() -> Result<(), Failed> {
    run(&first(), &["--flaky", "fail"])?.status(1)?;
    let folder = tempfile::tempdir()?;
    let file = expectations(folder.path(), "0.3")?;
    let ended = run(&first(), &["--flaky", "fail", "--expectations", &file])?;
    ended.status(0)?;
    let flaky = ended.report.results.iter().find(|case| case.outcome == Outcome::Flaky).ok_or("none")?;
    let reason = flaky.reason.as_deref().unwrap_or_default();
    check(reason.starts_with("seen before [https://x] (failed in 1 of 2 runs: "), reason)?;
    check(ended.report.results.iter().all(|case| case.flake_rate == Some(0.3)), format!("{flaky:?}"))?;
    // A failure in every run is no flake.
    run(&format!("{NATIVE_IMPORT}:*:999"), &["--expectations", &file])?.status(1)
}

/// A flake that the baseline lacks fails a run on request, as a new failure does; one that it has does not.
fn new_flakes() -> Result<(), Failed> {
    let of = |ended: &Ended| ended.folder.path().join("report.json").to_string_lossy().into_owned();
    let (clean, flaky) = (run("", &[])?, run(&first(), &[])?);
    let failed = run(&format!("{NATIVE_IMPORT}:*:999"), &[])?;
    for (baseline, effect, status) in
        [(&clean, "fail", 1), (&clean, "report", 0), (&flaky, "fail", 0), (&flaky, "report", 0), (&failed, "fail", 1)]
    {
        let ended = run(&first(), &["--baseline", &of(baseline), "--flaky", effect])?;
        check(ended.count(Outcome::Flaky) == 1, &*ended.text)?;
        ended.status(status)?;
        let junit = ended.file("junit.xml")?;
        check(junit.contains(&format!("failures=\"{status}\"")), junit)?;
    }
    Ok(())
}

/// With a rate of 0.5, a case that fails six times is flaky.
fn rate() -> Result<(), Failed> {
    let six: Vec<String> = (1..=6).map(|number| format!("{NATIVE_IMPORT}:{number}:999")).collect();
    let (six, one) = (six.join(","), "memory.round_trip");
    run_filtered(one, &six, &[])?.status(1)?;
    let folder = tempfile::tempdir()?;
    let ended = run_filtered(one, &six, &["--expectations", &expectations(folder.path(), "0.5")?])?;
    check(ended.count(Outcome::Flaky) == 1 && ended.report.results[0].attempts.len() == 7, &*ended.text)?;
    ended.status(0)
}

fn other_ends() -> Result<(), Failed> {
    for (answer, outcome) in [("abort", Outcome::Crashed), ("hang", Outcome::TimedOut)] {
        let ended = run(&format!("{NATIVE_IMPORT}:1:{answer}"), &["--timeout", "12"])?;
        check(ended.count(Outcome::Flaky) == 1 && ended.count(Outcome::Passed) == CASES - 1, &*ended.text)?;
        let flaky = ended.report.results.iter().find(|case| case.outcome == Outcome::Flaky).ok_or("none")?;
        check(flaky.attempts[0].outcome == outcome, format!("{flaky:?}"))?;
        let reason = flaky.attempts[0].reason.as_deref().unwrap_or_default();
        check(outcome == Outcome::Crashed || reason.starts_with("did not end within 12s"), reason)?;
    }
    Ok(())
}

fn max_failures() -> Result<(), Failed> {
    let fault = format!("{NATIVE_IMPORT}:*:1");
    let ended = run(&fault, &["--max-failures", "2"])?;
    check(ended.count(Outcome::Failed) == 2 && ended.count(Outcome::Skipped) == 1, &*ended.text)?;
    check(ended.report.stopped.as_ref().is_some_and(|stop| stop.cause == Cause::MaxFailures), &*ended.text)?;
    check(ended.text.contains("STOPPED: 2 scenarios have failed"), &*ended.text)?;
    ended.status(1)?;
    // The last case may be the last permitted failure.
    let ended = run(&fault, &["--max-failures", "3"])?;
    check(ended.count(Outcome::Failed) == 3 && ended.report.stopped.is_none(), &*ended.text)?;
    // A run that stopped because of flaky cases is incomplete.
    let ended = run(&format!("{NATIVE_IMPORT}:1:1"), &["--max-failures", "1"])?;
    check(ended.count(Outcome::Flaky) == 1 && ended.count(Outcome::Skipped) == 2, &*ended.text)?;
    ended.status(2)
}

/// From some call on, every call of every process fails.
fn lost() -> Result<(), Failed> {
    let ended = run("*:100+:719", &[])?;
    ended.status(3)?;
    let stopped = ended.report.stopped.clone().ok_or("the run did not stop")?;
    check(stopped.cause == Cause::GpuLost, format!("{stopped:?}"))?;
    check(ended.count(Outcome::Failed) == 1 && ended.count(Outcome::Skipped) >= 1, &*ended.text)?;
    check(ended.text.contains("STOPPED: the GPU is lost after memory."), &*ended.text)?;
    let left = ended.report.results.iter().filter(|case| case.outcome == Outcome::Skipped);
    for case in left {
        let reason = case.reason.as_deref().unwrap_or_default();
        check(reason.starts_with("not run: the GPU is lost"), reason)?;
    }
    Ok(())
}

/// From some call on, every call of one process fails.
fn lost_context() -> Result<(), Failed> {
    let ended = run(&format!("{NATIVE_IMPORT}:2:719"), &[])?;
    check(ended.count(Outcome::Flaky) == 1 && ended.report.stopped.is_none(), &*ended.text)?;
    ended.status(0)
}

/// A case fails for a reason that no lost GPU has; no process after it can open the GPU. The kernel's message is the sign.
fn lost_by_message() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("kernel.log");
    let fault = format!("{NATIVE_IMPORT}:1:1,cuInit:5+:100");
    let (one, log_path) = ("memory.round_trip", log.to_string_lossy().into_owned());
    for (message, status) in [("eth0: link up", 1), ("NVRM: Xid (PCI:0000:01:00): 79, x", 3)] {
        std::fs::write(&log, "")?;
        let is_over = AtomicBool::new(false);
        let ended = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let file = std::fs::OpenOptions::new().append(true).open(&log);
                    let _ = file.and_then(|mut file| writeln!(file, "{message}"));
                    std::thread::sleep(Duration::from_millis(10));
                }
            });
            let ended = run_filtered(one, &fault, &["--retries", "0", "--kernel-log", &log_path]);
            is_over.store(true, Ordering::Relaxed);
            ended
        })?;
        ended.status(status)?;
        check(ended.count(Outcome::Failed) == 1, &*ended.text)?;
    }
    Ok(())
}
