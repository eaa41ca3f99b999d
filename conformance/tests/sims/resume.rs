//! A run that was killed at any moment continues from its journal, with the report of a run that was not killed.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gpu_interop_conformance_cli::{Merged, Report};
use libtest_mimic::{Failed, Trial};
use serde_json::Value;

use crate::run::{Run, check};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        Trial::test("a_run_killed_at_20_random_moments_continues", killed),
        Trial::test("a_journal_is_of_one_run", other_run),
        Trial::test("a_lost_gpu_is_no_end_of_a_journal", after_a_lost_gpu),
        Trial::test("failures_before_a_continuation_count", failures_before),
        Trial::test("an_error_of_a_later_device_loses_no_report", later_device),
    ]
}

const FILTER: &str = "{identity.{json,stable},map.{offsets,twice},memory.{fill,round_trip},stream.in_order}";
/// Fails in every run of some scenarios.
const FAULT: &str = "cuMemsetD8Async:*:1";

/// Each scenario in a process of its own: the reason of a failure names those that ran before in its process.
fn command(folder: &Path, options: &[&str]) -> Result<Command, Failed> {
    let run = Run::cuda().exporter("native").filter(FILTER).with_retries().arg("--isolate-each");
    let mut command = run.env("GPU_INTEROP_SIM_FAIL", FAULT).command(&folder.join("report.json"))?;
    command.args(["--retries", "1"]).args(options).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command)
}

fn report(folder: &Path) -> Result<Value, Failed> {
    let mut report = serde_json::from_str(&std::fs::read_to_string(folder.join("report.json"))?)?;
    without_times(&mut report);
    Ok(report)
}

/// Removes everything that is a time, and the kernel's log, to which other programs write.
fn without_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for name in ["duration_us", "started", "resumed", "kernel_log"] {
                fields.remove(name);
            }
            if let Some(Value::String(log)) = fields.get_mut("log") {
                *log = log.lines().map(without_time).collect::<Vec<_>>().join("\n");
            }
            fields.values_mut().for_each(without_times);
        }
        Value::Array(values) => values.iter_mut().for_each(without_times),
        _ => {}
    }
}

/// A line of a log without the time at its beginning.
fn without_time(line: &str) -> &str {
    match line.split_once("Z ") {
        Some((time, rest)) if time.chars().all(|letter| letter.is_ascii_digit() || "-:T.".contains(letter)) => rest,
        _ => line,
    }
}

/// The lines of a journal.
fn lines_of(journal: &Path) -> String {
    std::fs::read_to_string(journal).unwrap_or_default()
}

/// `true` if the lines of a journal have the result of a case.
fn has_case(lines: &str) -> bool {
    lines.contains("\"case\"")
}

fn killed() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    // Not the time to build the simulator.
    let mut whole = command(folder.path(), &[])?;
    let start = Instant::now();
    let status = whole.status()?;
    let (took, whole) = (start.elapsed(), report(folder.path())?);
    check(status.code() == Some(1), format!("{status}"))?;
    let failed = whole["summary"]["failed"].as_u64().unwrap_or_default();
    check(failed > 0 && whole["summary"]["passed"].as_u64() > Some(0), whole.to_string())?;
    let mut continued = 0;
    for moment in 0..20 {
        let folder = tempfile::tempdir()?;
        let journal = folder.path().join("journal.jsonl");
        let file = journal.to_string_lossy();
        let mut child = command(folder.path(), &["--journal", &file])?.spawn()?;
        let share = f64::from(u32::try_from(RandomState::new().build_hasher().finish() >> 32)?) / f64::from(u32::MAX);
        // Half of the moments are in the whole run, half of them soon after its first case.
        let part = if moment % 2 == 0 { took } else { took / 4 };
        while moment % 2 == 1 && !has_case(&lines_of(&journal)) && child.try_wait()?.is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(part.mul_f64(share));
        child.kill()?;
        child.wait()?;
        let left = lines_of(&journal);
        continued += usize::from(has_case(&left) && !folder.path().join("report.json").exists());
        let status = command(folder.path(), &["--resume", &file])?.status()?;
        let resumed = report(folder.path())?;
        check(status.code() == Some(1), format!("{status}: {left}"))?;
        check(resumed == whole, format!("{moment}, at {share:.3}: {left}\n{resumed:#}\nis not\n{whole:#}"))?;
        // Nothing is left to run.
        let lines = std::fs::read_to_string(&journal)?.lines().count();
        command(folder.path(), &["--resume", &file])?.status()?;
        let more = std::fs::read_to_string(&journal)?.lines().count() - lines;
        check(more == 1 && report(folder.path())? == whole, format!("{more} more lines"))?;
    }
    check(continued > 3, format!("only {continued} runs were killed between the first case and the last"))
}

fn other_run() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let journal = folder.path().join("journal.jsonl");
    let file = journal.to_string_lossy();
    let run = |options: &[&str]| -> Result<(Option<i32>, String), Failed> {
        let mut command = Run::cuda().exporter("native").command(&folder.path().join("report.json"))?;
        let output = command.args(["--filter", "identity.*"]).args(options).output()?;
        Ok((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()))
    };
    let refused = |options: &[&str], part: &str| {
        let (status, said) = run(options)?;
        check(status == Some(2) && said.contains(part), format!("{options:?}: {status:?}: {said}"))
    };
    check(run(&["--journal", &file])?.0 == Some(0), "the first run")?;
    refused(&["--journal", &file], "has the journal of another run")?;
    refused(&["--resume", &file, "--seed", "2"], "--seed or --repeat differ")?;
    refused(&["--resume", &file, "--shard", "1/2"], "--shard differ")?;
    // A journal of another run stays as it is, also with half a line.
    let torn = std::fs::read_to_string(&journal)? + "{\"case\"";
    std::fs::write(&journal, &torn)?;
    refused(&["--resume", &file, "--seed", "2"], "--seed or --repeat differ")?;
    check(std::fs::read_to_string(&journal)? == torn, "the journal of another run was changed")?;
    std::fs::write(&journal, "{\n\"a\": 1\n}\n")?;
    refused(&["--resume", &file], "line 1 is not one of a journal")?;
    // Without a file a run begins.
    std::fs::remove_file(&journal)?;
    check(run(&["--resume", &file])?.0 == Some(0) && journal.exists(), "a run without a journal")
}

/// The reports of the other devices are written, and their failures determine the exit status.
fn later_device() -> Result<(), Failed> {
    for (fault, expected) in [("", 2), (FAULT, 1)] {
        let folder = tempfile::tempdir()?;
        let (journal, json) = (folder.path().join("journal.jsonl"), folder.path().join("report.json"));
        let run = |option: &str| -> Result<(Option<i32>, String, Merged), Failed> {
            let run = Run::cuda().exporter("native").filter("{identity.json,memory.fill}");
            let mut command =
                run.env("GPU_INTEROP_SIM_DEVICES", "3").env("GPU_INTEROP_SIM_FAIL", fault).command(&json)?;
            let output = command.args(["--device", "all", option]).arg(&journal).output()?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            Ok((output.status.code(), said, serde_json::from_str(&std::fs::read_to_string(&json)?)?))
        };
        let (status, said, whole) = run("--journal")?;
        check(whole.reports.len() == 3 && status.is_some_and(|status| status < 2), said)?;
        // The clock of the second device does not include the first.
        let (mut lines, mut last) = (String::new(), 0);
        for line in std::fs::read_to_string(&journal)?.lines() {
            let mut value: Value = serde_json::from_str(line)?;
            if value["case"]["device"] == 1 {
                last = value["case"]["at_us"].as_u64().ok_or("a time")?;
            }
            if value["run"]["device"] == 1 {
                value["run"]["report"]["seed"] = 7.into();
            }
            lines += &format!("{value}\n");
        }
        let took = whole.reports[1].report.duration_us;
        check(last > 0 && last <= took, format!("{last} of {took} us"))?;
        std::fs::write(&journal, lines)?;
        std::fs::remove_file(&json)?;
        let (status, said, merged) = run("--resume")?;
        check(status == Some(expected), format!("{status:?}: {said}"))?;
        check(
            said.contains("device 1: --resume")
                && !said.contains("device 1: device 1")
                && said.contains("--seed or --repeat differ"),
            said,
        )?;
        let sources: Vec<&str> = merged.reports.iter().map(|run| run.source.as_str()).collect();
        check(sources == ["device 0", "device 2"] && merged.not_read.len() == 1, format!("{merged:?}"))?;
        let missing = &merged.not_read[0];
        check(missing.source == "device 1" && missing.reason.starts_with("--resume"), format!("{missing:?}"))?;
    }
    Ok(())
}

/// `--max-failures` counts those in the journal: results, and first runs of cases that run again.
fn failures_before() -> Result<(), Failed> {
    for retries in ["0", "1"] {
        let folder = tempfile::tempdir()?;
        let (journal, json) = (folder.path().join("journal.jsonl"), folder.path().join("report.json"));
        let run = |fault: &str| -> Result<Report, Failed> {
            let run = Run::cuda().exporter("native").filter("memory.{read_device_local,round_trip,write_device_local}");
            let run = run.env("GPU_INTEROP_SIM_FAIL", fault).with_retries();
            let mut command = run.command(&json)?;
            command.args(["--retries", retries, "--max-failures", "1", "--resume"]).arg(&journal).output()?;
            Ok(serde_json::from_str(&std::fs::read_to_string(&json)?)?)
        };
        let stopped = run("cuMemImportFromShareableHandle:*:1")?;
        check(stopped.summary["failed"] == 1 && stopped.summary["skipped"] == 2, format!("{stopped:?}"))?;
        if retries == "1" {
            // As if killed before the repetition.
            let lines = std::fs::read_to_string(&journal)?;
            let kept: Vec<&str> = lines.lines().filter(|line| !line.starts_with("{\"case\":")).collect();
            check(kept.len() == 2, &*lines)?;
            std::fs::write(&journal, kept.join("\n") + "\n")?;
        }
        let resumed = run("")?;
        let flaky = u64::from(retries == "1");
        check(resumed.summary["flaky"] as u64 == flaky && resumed.summary["skipped"] == 2, format!("{resumed:?}"))?;
    }
    Ok(())
}

/// After a restart of the machine the rest runs, but not the case that lost the GPU.
fn after_a_lost_gpu() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (journal, counts, json) = (path("journal.jsonl"), path("counts"), folder.path().join("report.json"));
    std::fs::create_dir(&counts)?;
    let run = |fault: &str| -> Result<(Option<i32>, Report), Failed> {
        let run = Run::cuda().exporter("native").filter("memory.{read_device_local,round_trip,write_device_local}");
        let run = run.env("GPU_INTEROP_SIM_COUNTS", &counts).env("GPU_INTEROP_SIM_FAIL", fault).with_retries();
        let mut command = run.command(&json)?;
        let status = command.args(["--resume", &journal]).output()?.status;
        Ok((status.code(), serde_json::from_str(&std::fs::read_to_string(&json)?)?))
    };
    let (status, lost) = run("*:100+:719")?;
    check(status == Some(3) && lost.summary["failed"] == 1, format!("{status:?}: {lost:?}"))?;
    let (status, resumed) = run("")?;
    check(status == Some(1) && resumed.stopped.is_none(), format!("{status:?}: {resumed:?}"))?;
    check(resumed.summary["failed"] == 1 && resumed.summary["passed"] == 2, format!("{resumed:?}"))?;
    check(resumed.resumed.len() == 1 && resumed.started == lost.started, format!("{resumed:?}"))
}
