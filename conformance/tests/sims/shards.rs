//! Shards, joined by `merge`, equal one run; lists of cases select what they name.

use std::path::Path;
use std::process::Output;

use gpu_interop_conformance_cli::{CaseReport, Cause, Merged, Report, Stopped};
use gpu_interop_test_support::this_program;
use libtest_mimic::{Failed, Trial};

use crate::run::{Run, check};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        Trial::test("four_shards_equal_one_run", four),
        Trial::test("a_lost_or_doubled_shard_is_found", proof),
        Trial::test("nothing_of_a_later_shard_is_lost", all_of_each),
        Trial::test("a_list_selects_cases", lists),
    ]
}

const FILTER: &str = "{identity,map,memory}.*";
/// Fails in every run of some scenarios.
const FAULT: &str = "cuMemsetD8Async:*:1";

fn run(folder: &Path, name: &str, options: &[&str]) -> Result<(Output, Report), Failed> {
    let json = folder.join(name);
    let run = Run::cuda().exporter("native").env("GPU_INTEROP_SIM_FAIL", FAULT);
    let output = run.command(&json)?.args(options).output()?;
    let text = std::fs::read_to_string(&json).unwrap_or_default();
    let error = |error| format!("{error}: {}", String::from_utf8_lossy(&output.stderr));
    let report = serde_json::from_str(&text).map_err(error)?;
    Ok((output, report))
}

fn merge(folder: &Path, names: &[String]) -> Result<(Option<i32>, String, Merged), Failed> {
    let json = folder.join("merged.json");
    let files = names.iter().map(|name| folder.join(name));
    let output = this_program()?.arg("merge").arg("--json").arg(&json).args(files).output()?;
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let merged = serde_json::from_str(&std::fs::read_to_string(&json)?)?;
    Ok((output.status.code(), said, merged))
}

/// Everything but times, the kernel's log, to which other programs write, and the names of scenarios that ran before in the
/// same process.
fn ends(report: &Report) -> Vec<CaseReport> {
    let plain = |case: &CaseReport| CaseReport {
        reason: case
            .reason
            .as_ref()
            .map(|reason| reason.split(" [its process had run").next().unwrap_or(reason).into()),
        duration_us: 0,
        kernel_log: Vec::new(),
        ..case.clone()
    };
    report.results.iter().map(plain).collect()
}

fn shards(folder: &Path) -> Result<Vec<String>, Failed> {
    let mut names = Vec::new();
    for index in 1..=4 {
        let (name, shard) = (format!("shard{index}.json"), format!("{index}/4"));
        let (_, report) = run(folder, &name, &["--filter", FILTER, "--shard", &shard])?;
        check(report.shard.as_ref().is_some_and(|shard| shard.positions.len() == report.results.len()), shard)?;
        names.push(name);
    }
    Ok(names)
}

fn four() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let (output, one) = run(folder.path(), "one.json", &["--filter", FILTER])?;
    check(output.status.code() == Some(1) && one.summary["failed"] > 0, format!("{:?}", one.summary))?;
    let names = shards(folder.path())?;
    let (status, said, merged) = merge(folder.path(), &names)?;
    check(status == Some(0) && merged.reports.len() == 1, said)?;
    let joined = &merged.reports[0].report;
    check(ends(joined) == ends(&one), format!("{joined:?}\nis not\n{one:?}"))?;
    check(joined.summary == one.summary && joined.shards.len() == 4 && joined.shard.is_none(), format!("{joined:?}"))?;
    let page = tempfile::tempdir()?;
    std::fs::create_dir(folder.path().join("night"))?;
    for name in &names {
        std::fs::rename(folder.path().join(name), folder.path().join("night").join(name))?;
    }
    let night = folder.path().join("night");
    let output = this_program()?.arg("site").arg(&night).arg("--output").arg(page.path()).output()?;
    std::fs::remove_dir_all(night)?;
    let said = String::from_utf8_lossy(&output.stdout);
    check(said.contains("1 machine, 1 report"), said.as_ref())?;
    // A joined report can be merged again.
    let (status, said, again) = merge(folder.path(), &["merged.json".to_owned()])?;
    check(status == Some(0) && again.reports == merged.reports, said)?;
    Ok(())
}

fn proof() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let names = shards(folder.path())?;
    let refused = |names: &[String], part: &str| {
        let (status, said, merged) = merge(folder.path(), names)?;
        check(status == Some(2) && said.contains(part), format!("{part}: {status:?}: {said}"))?;
        check(merged.not_read.len() == 1 && merged.reports.len() == names.len(), format!("{:?}", merged.not_read))
    };
    refused(&names[1..], "these are missing: 1")?;
    refused(&[&names[..], &names[..1]].concat(), "these are there more than once: 1")?;
    let spoil = |name: &str, change: fn(&mut Report)| -> Result<(), Failed> {
        let mut report: Report = serde_json::from_str(&std::fs::read_to_string(folder.path().join(&names[1]))?)?;
        change(&mut report);
        Ok(std::fs::write(folder.path().join(name), serde_json::to_string(&report)?)?)
    };
    let with = |spoilt: &str| [&names[..1], &[spoilt.to_owned()], &names[2..]].concat();
    spoil("less.json", |report| drop(report.results.pop()))?;
    // Not even a report.
    let (status, said, merged) = merge(folder.path(), &with("less.json"))?;
    check(status == Some(2) && said.contains("less.json: `shard`: ") && said.contains(" results for "), said)?;
    check(merged.not_read.len() == 2 && merged.reports.len() == names.len() - 1, format!("{:?}", merged.not_read))?;
    spoil("other.json", |report| report.results[0].id = "memory.other".into())?;
    refused(&with("other.json"), "are not those that were distributed")?;
    spoil("lost.json", |report| {
        report.results.pop();
        if let Some(shard) = &mut report.shard {
            shard.positions.pop();
        }
    })?;
    refused(&with("lost.json"), "cases are in no shard")?;
    spoil("twice.json", |report| {
        let case = report.results[0].clone();
        report.results.push(case);
        if let Some(shard) = &mut report.shard {
            shard.positions.push(shard.positions[0]);
        }
    })?;
    refused(&with("twice.json"), "is in more than one shard")
}

/// Early ends, messages of the kernel and continuations of each shard; shards of different commands are not one run.
fn all_of_each() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let names = shards(folder.path())?;
    let paths: Vec<_> = names.iter().map(|name| folder.path().join(name)).collect();
    let mut reports = Vec::new();
    for path in &paths {
        reports.push(serde_json::from_str::<Report>(&std::fs::read_to_string(path)?)?);
    }
    let write = |index: usize, report: &Report| {
        std::fs::write(&paths[index], serde_json::to_string(report).unwrap_or_default())
    };
    for (number, report) in reports.iter_mut().enumerate() {
        report.kernel_log = serde_json::from_str(&format!(r#"[{{"text": "message {number}"}}]"#))?;
        report.resumed = vec![format!("2026-03-0{}T00:00:00Z", 4 - number).parse()?];
        let cause = if number == 2 { Cause::GpuLost } else { Cause::MaxFailures };
        report.stopped = (number > 0).then(|| Stopped { cause, reason: "an end".into() });
        write(number, report)?;
    }
    let (status, said, merged) = merge(folder.path(), &names)?;
    check(status == Some(0) && merged.reports.len() == 1, said)?;
    let joined = &merged.reports[0].report;
    let messages: Vec<&str> = joined.kernel_log.iter().map(|line| line.text.as_str()).collect();
    check(messages == ["message 0", "message 1", "message 2", "message 3"], format!("{messages:?}"))?;
    check(joined.resumed.len() == 4 && joined.resumed.is_sorted(), format!("{:?}", joined.resumed))?;
    let expected = Stopped { cause: Cause::GpuLost, reason: "shard 3: an end".into() };
    check(joined.stopped == Some(expected), format!("{:?}", joined.stopped))?;
    let output = this_program()?.args(["merge", "--fail"]).args(&paths).output()?;
    check(output.status.code() == Some(3), output.status.to_string())?;

    let build = |report: &mut Report| report.build = Some("other".into());
    let tool = |report: &mut Report| report.tool.version = "0.0.0".into();
    let command = |report: &mut Report| {
        if let Some(host) = &mut report.host {
            host.command_sha256 = Some("0".repeat(64));
        }
    };
    for change in [build, tool, command] {
        let mut other = reports[1].clone();
        change(&mut other);
        write(1, &other)?;
        let (status, said, merged) = merge(folder.path(), &names)?;
        let reason = "these are missing: 2; shards of the same cases have another --build, command or version";
        check(status == Some(2) && said.contains(reason) && merged.reports.len() == 4, said)?;
    }
    Ok(())
}

fn lists() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("cases.txt");
    std::fs::write(&file, "# a list\nmemory.round_trip@native\nidentity.json # one\nmap.offsets@vulkan\n")?;
    let path = file.to_string_lossy();
    let (output, report) = run(folder.path(), "list.json", &["--cases", &path])?;
    let names: Vec<String> = report.results.iter().map(CaseReport::name).collect();
    check(names == ["identity.json", "memory.round_trip@native"], format!("{names:?}"))?;
    let list = report.cases.ok_or("no list in the report")?;
    check(list.name == "cases.txt" && list.sha256.len() == 64, format!("{list:?}"))?;
    check(output.status.code().is_some_and(|status| status < 2), String::from_utf8_lossy(&output.stderr))?;
    // Tiers combine with shards.
    let (_, report) = run(folder.path(), "tier.json", &["--tier", "core-1", "--shard", "1/40"])?;
    check(report.cases.is_some_and(|list| list.name == "core-1"), format!("{:?}", report.shard))?;
    std::fs::write(&file, "memory.fill\nno.such\n")?;
    let mut command = Run::cuda().exporter("native").command(&folder.path().join("none.json"))?;
    let output = command.args(["--cases", &path]).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    check(output.status.code() == Some(2) && said.contains("cases.txt: unknown cases: line 2: `no.such`"), said)
}
