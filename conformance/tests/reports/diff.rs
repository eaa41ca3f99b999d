//! `conformance diff` finds planted changes, and no difference between equal runs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gpu_interop_conformance::Outcome;
use gpu_interop_conformance_cli::{CaseReport, Report};
use serde_json::Value;

use super::{Tested, conformance, html, json, printed, simulated, text};

/// Writes reports as `PREFIX-NUMBER.json`.
fn written(folder: &Path, prefix: &str, reports: &[Report]) -> Tested<Vec<PathBuf>> {
    let write = |(number, report): (usize, &Report)| {
        let path = folder.join(format!("{prefix}-{number}.json"));
        std::fs::write(&path, serde_json::to_string(report)?)?;
        Ok(path)
    };
    reports.iter().enumerate().map(write).collect()
}

/// Arguments that compare two sides.
fn arguments(before: &[PathBuf], after: &[PathBuf], more: &[&str]) -> Vec<String> {
    let names = |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
    let more = more.iter().map(ToString::to_string).collect();
    [vec!["diff".into()], more, names(before), vec!["--".into()], names(after)].concat()
}

fn borrowed(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

/// The differences of two sides as JSON.
fn difference(folder: &Path, before: &[PathBuf], after: &[PathBuf]) -> Tested<Value> {
    let file = folder.join("difference.json");
    printed(&borrowed(&arguments(before, after, &["--json", text(&file)?])))?;
    json(&file)
}

/// The kinds and cases of differences.
fn found(difference: &Value) -> BTreeSet<(String, String)> {
    let of = |field: &Value| field.as_str().unwrap_or_default().to_owned();
    let changes = difference["changes"].as_array().into_iter().flatten();
    changes.map(|change| (of(&change["kind"]), of(&change["case"]))).collect()
}

/// The host backend's results in three runs.
fn runs_of_the_host(folder: &Path, count: usize) -> Tested<Vec<Report>> {
    let run = |number| {
        let path = folder.join(format!("run-{number}.json"));
        let filter = "{memory,map,import,identity}.*";
        printed(&["run", "--backend", "host", "--exporter", "native", "--filter", filter, "--json", text(&path)?])?;
        super::report(&path)
    };
    (0..count).map(run).collect()
}

/// Reports of both sides, in which changes are planted.
struct Planter {
    before: Vec<Report>,
    after: Vec<Report>,
    /// Passed cases without a planted change.
    free: Vec<String>,
    planted: BTreeSet<(String, String)>,
}

impl Planter {
    fn new(before: Vec<Report>, after: Vec<Report>) -> Self {
        let passed = |case: &&CaseReport| case.outcome == Outcome::Passed;
        let free = before[0].results.iter().filter(passed).map(CaseReport::name).collect();
        Self { before, after, free, planted: BTreeSet::new() }
    }

    /// Plants one change.
    fn plant(&mut self, kind: &str, before: impl Fn(&mut CaseReport), after: impl Fn(&mut CaseReport)) -> Tested {
        let name = self.free.pop().ok_or("too few cases")?;
        for (side, change) in [(&mut self.before, &before as &dyn Fn(&mut CaseReport)), (&mut self.after, &after)] {
            for case in side.iter_mut().flat_map(|report| &mut report.results).filter(|case| case.name() == name) {
                change(case);
            }
        }
        self.planted.insert((kind.into(), name));
        Ok(())
    }

    /// Removes a case from one side.
    fn remove(&mut self, kind: &str, from_before: bool) -> Tested<String> {
        let name = self.free.pop().ok_or("too few cases")?;
        let side = if from_before { &mut self.before } else { &mut self.after };
        side.iter_mut().for_each(|report| report.results.retain(|case| case.name() != name));
        self.planted.insert((kind.into(), name.clone()));
        Ok(name)
    }
}

fn unchanged(_: &mut CaseReport) {}

fn ends(outcome: Outcome, reason: &'static str) -> impl Fn(&mut CaseReport) {
    move |case| {
        case.outcome = outcome;
        case.reason = (!reason.is_empty()).then(|| reason.to_owned());
    }
}

fn takes(more_ms: u64) -> impl Fn(&mut CaseReport) {
    move |case| case.duration_us += more_ms * 1000
}

#[test]
fn planted_changes_are_found_and_no_others() -> Tested {
    let folder = tempfile::tempdir()?;
    let mut after = runs_of_the_host(folder.path(), 6)?;
    let before = after.split_off(3);
    let mut planter = Planter::new(before, after);
    for outcome in [Outcome::Failed, Outcome::Crashed, Outcome::TimedOut, Outcome::UnexpectedPass] {
        planter.plant("new", unchanged, ends(outcome, "it broke"))?;
    }
    planter.plant("new", ends(Outcome::Skipped, "no package"), ends(Outcome::Failed, "it broke"))?;
    planter.plant("new", ends(Outcome::ExpectedFailure, "known"), ends(Outcome::Failed, "it broke"))?;
    planter.plant("flaky", unchanged, ends(Outcome::Flaky, "failed in 1 of 2 runs: it broke"))?;
    planter.plant(
        "flaky",
        ends(Outcome::Failed, "it broke"),
        ends(Outcome::Flaky, "failed in 1 of 2 runs: it broke"),
    )?;
    planter.plant("new", ends(Outcome::Flaky, "failed in 1 of 2 runs: it broke"), ends(Outcome::Failed, "it broke"))?;
    for outcome in [Outcome::Failed, Outcome::Crashed, Outcome::TimedOut] {
        planter.plant("fixed", ends(outcome, "it broke"), unchanged)?;
    }
    planter.plant("changed", ends(Outcome::Failed, "it broke"), ends(Outcome::Crashed, "it broke"))?;
    planter.plant("changed", ends(Outcome::Failed, "code 719"), ends(Outcome::Failed, "code 700"))?;
    planter.plant("changed", ends(Outcome::Failed, "word 7 differs"), ends(Outcome::Failed, "the import fails"))?;
    planter.plant("changed", unchanged, ends(Outcome::ExpectedFailure, "known"))?;
    planter.plant("changed", ends(Outcome::Skipped, "no Vulkan"), ends(Outcome::Skipped, "no device"))?;
    planter.plant("changed", unchanged, |case| case.left_out.push("the format r8: no such format".into()))?;
    planter.plant("stopped", unchanged, ends(Outcome::Skipped, "no package"))?;
    planter.plant("stopped", unchanged, ends(Outcome::Unsupported, "no such feature"))?;
    planter.plant("stopped", ends(Outcome::Failed, "it broke"), ends(Outcome::Unsupported, "no such feature"))?;
    planter.plant("started", ends(Outcome::Skipped, "no package"), unchanged)?;
    planter.plant("started", ends(Outcome::Unsupported, "no such feature"), unchanged)?;
    for more in [20_000, 30_000, 60_000] {
        planter.plant("slower", unchanged, takes(more))?;
    }
    planter.plant("faster", takes(20_000), unchanged)?;
    planter.plant("faster", takes(60_000), unchanged)?;
    for _ in 0..2 {
        planter.remove("missing", false)?;
        planter.remove("added", true)?;
    }
    let failing = planter.remove("new", true)?;
    for case in planter.after.iter_mut().flat_map(|report| &mut report.results).filter(|case| case.name() == failing) {
        ends(Outcome::Failed, "it broke")(case);
    }
    assert_eq!(planter.planted.len(), 33);
    // Cases that stay unsteady are no differences.
    for after in [ends(Outcome::Flaky, "failed in 2 of 3 runs: it broke"), ends(Outcome::Passed, "")] {
        let kept = planter.planted.clone();
        planter.plant("", ends(Outcome::Flaky, "failed in 1 of 2 runs: it broke"), after)?;
        planter.planted = kept;
    }
    let folder = folder.path();
    let (before, after) = (written(folder, "before", &planter.before)?, written(folder, "after", &planter.after)?);
    let all = difference(folder, &before, &after)?;
    assert_eq!(found(&all), planter.planted);
    // The same with one run on each side, but for durations.
    let timed = |(kind, _): &(String, String)| kind == "slower" || kind == "faster";
    let single = found(&difference(folder, &before[..1], &after[..1])?);
    assert!(single.is_subset(&planter.planted), "{single:?}");
    assert!(planter.planted.difference(&single).all(timed), "{single:?}");
    check_formats(folder, &before, &after, &all)
}

/// Text and page have every difference; the exit status follows `--gate`.
fn check_formats(folder: &Path, before: &[PathBuf], after: &[PathBuf], all: &Value) -> Tested {
    let page = folder.join("difference.html");
    let said = printed(&borrowed(&arguments(before, after, &["--html", text(&page)?])))?;
    let page = html::parse(&std::fs::read_to_string(&page)?)?;
    let rows: Vec<String> = page.with_class("change").iter().map(|row| row.text()).collect();
    for (kind, case) in found(all) {
        assert!(said.lines().any(|line| line.starts_with(&format!("{kind:<9} {case}: "))), "{kind} {case}: {said}");
        assert_eq!(rows.iter().filter(|row| row.starts_with(&case)).count(), 1, "{case}");
    }
    let status = |after: &[PathBuf], gate: &str| -> Tested<Option<i32>> {
        Ok(conformance(&borrowed(&arguments(before, after, &["--gate", gate])))?.status.code())
    };
    for gate in ["new", "flaky", "stopped", "missing", "changed", "slower", "fixed", "started", "added", "faster"] {
        assert_eq!((status(after, gate)?, status(before, gate)?), (Some(1), Some(0)), "{gate}");
    }
    assert_eq!((status(after, "new,missing")?, status(after, "no-kind")?), (Some(1), Some(2)));
    Ok(())
}

#[test]
fn twenty_equal_runs_do_not_differ() -> Tested {
    let folder = tempfile::tempdir()?;
    // Every process fails at its first fill: reasons, histories of processes and crashes occur.
    let faults = [("GPU_INTEROP_SIM_FAIL", "cuMemsetD8Async:1:1,cuMemcpyDtoHAsync_v2:2:abort")];
    let run = |number| simulated::reported(&folder.path().join(format!("{number}.json")), &faults, &[]);
    let runs: Vec<Report> = (0..20).map(run).collect::<Tested<_>>()?;
    let failures = |report: &Report| report.results.iter().filter(|case| case.outcome.is_failure()).count();
    assert!(failures(&runs[0]) > 0, "{:?}", runs[0].summary);
    let paths = written(folder.path(), "equal", &runs)?;
    for pair in paths.windows(2) {
        let pair = difference(folder.path(), &pair[..1], &pair[1..])?;
        assert_eq!(found(&pair), BTreeSet::new(), "{pair:#}");
    }
    for six in paths.chunks_exact(6) {
        for before in [1, 3] {
            let several = difference(folder.path(), &six[..before], &six[before..])?;
            assert_eq!(found(&several), BTreeSet::new(), "{several:#}");
        }
    }
    Ok(())
}

#[test]
fn a_slower_driver_is_found() -> Tested {
    let folder = tempfile::tempdir()?;
    let run = |name: &str, variables: &[(&str, &str)]| {
        let path = folder.path().join(name);
        let few = ["--filter", "memory.{read_device_local,write_device_local}"];
        simulated::reported(&path, variables, &few).map(|_| path)
    };
    let slow = [("GPU_INTEROP_SIM_LATENCY", "cuMemcpyDtoHAsync_v2:400000")];
    let before = [run("a1", &[])?, run("a2", &[])?];
    let after = [run("b1", &slow)?, run("b2", &slow)?];
    let kinds: BTreeSet<String> =
        found(&difference(folder.path(), &before, &after)?).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, BTreeSet::from(["slower".to_owned()]));
    Ok(())
}

#[test]
fn reports_of_other_devices_are_compared_without_durations() -> Tested {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results");
    let [h100, h200] = ["h100", "h200-x2-device-0"].map(|name| folder.join(format!("cuda-580.159.04-{name}.json")));
    let said = printed(&["diff", text(&h200)?, text(&h100)?])?;
    assert!(said.contains("machine   device: NVIDIA H200 -> NVIDIA H100"), "{said}");
    assert!(said.contains("durations: not compared: the devices differ"), "{said}");
    Ok(())
}

#[test]
fn equal_rewordings_are_one_line_and_the_rule_for_durations_needs_a_slower_case() -> Tested {
    let folder = tempfile::tempdir()?;
    let before = runs_of_the_host(folder.path(), 1)?;
    let mut planter = Planter::new(before.clone(), before);
    let mut names = Vec::new();
    for _ in 0..3 {
        let [before, after] = ["no memory of this exporter at 0x7f0012345678", "memory of Vulkan only"];
        planter.plant("changed", ends(Outcome::Unsupported, before), ends(Outcome::Unsupported, after))?;
        names.extend(
            planter
                .planted
                .iter()
                .map(|(_, name)| name.clone())
                .filter(|name| !names.contains(name))
                .collect::<Vec<_>>(),
        );
    }
    planter.plant("changed", ends(Outcome::Unsupported, "no images"), ends(Outcome::Unsupported, "no image"))?;
    // The same texts, but other outcomes.
    for _ in 0..2 {
        planter.plant("changed", ends(Outcome::Failed, "it broke"), ends(Outcome::Crashed, "it broke"))?;
    }
    let said = |planter: &Planter| -> Tested<String> {
        let [before, after] = [("before", &planter.before), ("after", &planter.after)]
            .map(|(side, reports)| written(folder.path(), side, reports));
        printed(&borrowed(&arguments(&before?, &after?, &[])))
    };
    let text = said(&planter)?;
    let changed: Vec<&str> = text.lines().filter(|line| line.starts_with("changed ")).collect();
    assert_eq!(changed.len(), 4, "{text}");
    let joined =
        changed.iter().find(|line| line.contains(" and 2 more: unsupported: no memory")).ok_or_else(|| text.clone())?;
    assert!(names.iter().any(|name| joined.starts_with(&format!("changed   {name} and"))), "{joined}");
    assert!(joined.ends_with("0x7f0012345678 -> unsupported: memory of Vulkan only"), "{joined}");
    assert!(text.ends_with("\n") && text.contains("6 changed, ") && !text.contains("durations:"), "{text}");
    planter.plant("slower", unchanged, takes(60_000))?;
    let text = said(&planter)?;
    assert!(text.contains("\ndurations: 1 against 1 runs: "), "{text}");
    Ok(())
}

#[test]
fn what_cannot_be_compared_is_refused() -> Tested {
    let folder = tempfile::tempdir()?;
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/host-lavapipe.json");
    let host = text(&host)?;
    let other = folder.path().join("other.json");
    std::fs::write(&other, "{}")?;
    for arguments in [
        ["diff", host, host, host].as_slice(),
        &["diff", host],
        &["diff", host, "/nonexistent.json"],
        &["diff", host, text(&other)?],
    ] {
        assert_eq!(conformance(arguments)?.status.code(), Some(2), "{arguments:?}");
    }
    Ok(())
}
