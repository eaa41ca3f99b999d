//! Compares the cases, machines and options of runs before and after a change.

use std::collections::{BTreeMap, BTreeSet};

use gpu_interop_conformance::{ExporterReport, Outcome, Stop, Verdict};
use serde_json::Value;

use super::noise::{Rule, Speed, Timed};
use super::reason::{steady, without_history, without_numbers};
use super::{Change, DIFF_SCHEMA, Difference, Kind, NOT_COMPARED, Setting, State};
use crate::evidence::Host;
use crate::report::{CaseReport, Emulated, Merged, Report, Sourced, Tool};

/// `true` if the durations of cases are compared, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timing {
    Compared,
    Ignored,
}

/// A case: the source of its report, and its name.
type Key = (String, String);
/// The results of each case, one a run.
type Cases<'a> = BTreeMap<Key, Vec<&'a CaseReport>>;

/// Compares runs before a change with those after it. Cases are matched by name, and the reports of several devices by
/// their sources.
///
/// # Errors
/// If a side has no report of a run, or the sides have no source in common.
pub(crate) fn compare(before: &[&Merged], after: &[&Merged], timing: Timing) -> Verdict<Difference> {
    let sources = |side| by_source(side, |merged: &Merged| &merged.reports, "run");
    let (old, new) = (sources(before)?, sources(after)?);
    if old.keys().all(|source| !new.contains_key(source)) {
        let list = |all: &BTreeMap<String, Vec<&Report>>| all.keys().cloned().collect::<Vec<_>>().join(", ");
        return Err(Stop::failed(format!(
            "the sides have reports of different sources: {} before, {} after; compare the report of one device with \
             that of another by passing single reports",
            list(&old),
            list(&new)
        )));
    }
    let machine = old
        .iter()
        .filter_map(|(source, reports)| Some((reports.first()?, new.get(source)?.first()?)))
        .flat_map(|(old, new)| differences(old, new))
        .collect();
    let (old_cases, new_cases) = (cases(&old), cases(&new));
    let runs = (before.len(), after.len());
    let comparable = match timing {
        Timing::Ignored => Err(NOT_COMPARED.to_owned()),
        Timing::Compared => comparable(&old, &new),
    };
    let timed = |key: &Key| timed(old_cases.get(key)?, new_cases.get(key)?);
    let rule = comparable.map(|()| Rule::of(&new_cases.keys().filter_map(timed).collect::<Vec<_>>(), runs));
    let mut changes = Vec::new();
    let gone = old_cases.keys().filter(|key| !new_cases.contains_key(*key));
    let mut unchanged = 0;
    for key in new_cases.keys().chain(gone) {
        let empty = Vec::new();
        let (old, new) = (old_cases.get(key).unwrap_or(&empty), new_cases.get(key).unwrap_or(&empty));
        let speed = || rule.as_ref().ok().and_then(|rule| rule.judge(&timed(key)?));
        let kind = kind(old, new).or_else(|| {
            speed().map(|speed| match speed {
                Speed::Slower => Kind::Slower,
                Speed::Faster => Kind::Faster,
            })
        });
        match kind {
            None => unchanged += 1,
            Some(kind) => {
                let (source, case) = key.clone();
                changes.push(Change { kind, source, case, before: states(old), after: states(new) });
            }
        }
    }
    changes.sort_by(|one, other| (one.kind, &one.source, &one.case).cmp(&(other.kind, &other.source, &other.case)));
    let count = |kind: Kind| (kind.name().to_owned(), changes.iter().filter(|change| change.kind == kind).count());
    let mut summary: BTreeMap<String, usize> = Kind::ALL.into_iter().map(count).collect();
    summary.insert("unchanged".into(), unchanged);
    let durations = match rule {
        Ok(rule) => rule.describe(),
        Err(reason) => reason,
    };
    let (before, after) = (Vec::new(), Vec::new());
    Ok(Difference { schema: DIFF_SCHEMA, tool: Tool::this(), before, after, machine, changes, summary, durations })
}

/// The reports of a side by their sources, one a run. The source of a single report does not matter.
///
/// # Errors
/// If a file has no report of `command`.
pub(super) fn by_source<'a, T>(
    side: &[&'a Merged],
    reports: fn(&Merged) -> &Vec<Sourced<T>>,
    command: &str,
) -> Verdict<BTreeMap<String, Vec<&'a T>>> {
    let mut all = BTreeMap::<String, Vec<&T>>::new();
    for merged in side {
        match reports(merged).as_slice() {
            [] => return Err(Stop::failed(format!("a file has no report of `conformance {command}`"))),
            [only] => all.entry(String::new()).or_default().push(&only.report),
            several => {
                for Sourced { source, report } in several {
                    all.entry(source.clone()).or_default().push(report);
                }
            }
        }
    }
    Ok(all)
}

/// The results of every case, by its name.
fn cases<'a>(reports: &BTreeMap<String, Vec<&'a Report>>) -> Cases<'a> {
    let mut all = Cases::new();
    for (source, reports) in reports {
        for case in reports.iter().flat_map(|report| &report.results) {
            all.entry((source.clone(), case.name())).or_default().push(case);
        }
    }
    all
}

/// Fails if durations cannot be compared: the devices or the number of repetitions differ.
fn comparable(before: &BTreeMap<String, Vec<&Report>>, after: &BTreeMap<String, Vec<&Report>>) -> Result<(), String> {
    for (source, reports) in before {
        let all = reports.iter().chain(after.get(source).into_iter().flatten());
        let devices: BTreeSet<&str> = all.clone().map(|report| report.device.name.as_str()).collect();
        if devices.len() > 1 {
            return Err(format!("{NOT_COMPARED}: the devices differ"));
        }
        if all.map(|report| report.repeat).collect::<BTreeSet<_>>().len() > 1 {
            return Err(format!("{NOT_COMPARED}: the numbers of repetitions differ"));
        }
    }
    Ok(())
}

/// The durations of a case that passed everywhere.
fn timed(before: &[&CaseReport], after: &[&CaseReport]) -> Option<Timed> {
    let passed = before.iter().chain(after).all(|case| case.outcome == Outcome::Passed);
    let durations = |side: &[&CaseReport]| side.iter().map(|case| case.duration_us).collect::<Vec<_>>();
    passed.then(|| Timed::new(&durations(before), &durations(after)))?
}

/// The kind of a difference in outcomes; `None` if there is none.
fn kind(before: &[&CaseReport], after: &[&CaseReport]) -> Option<Kind> {
    let fails = |case: &&CaseReport| case.outcome.is_failure();
    let flaky = |case: &&CaseReport| case.outcome == Outcome::Flaky;
    let ran = |case: &&CaseReport| case.outcome.ran();
    if before.is_empty() {
        return Some(match (after.iter().any(fails), after.iter().any(flaky)) {
            (true, _) => Kind::New,
            (_, true) => Kind::Flaky,
            _ => Kind::Added,
        });
    }
    if after.is_empty() {
        return Some(Kind::Missing);
    }
    let (failed, fail) = (before.iter().any(fails), after.iter().any(fails));
    if fail && !failed {
        return Some(Kind::New);
    }
    let (was_unsteady, is_flaky) = (before.iter().any(flaky) || failed, after.iter().any(flaky) && !fail);
    // A failure that has become flaky is not fixed.
    if is_flaky && (!was_unsteady || before.iter().all(fails)) {
        return Some(Kind::Flaky);
    }
    if before.iter().all(fails) && !fail {
        return Some(if after.iter().any(ran) { Kind::Fixed } else { Kind::Stopped });
    }
    match (before.iter().any(ran), after.iter().any(ran)) {
        (true, false) => Some(Kind::Stopped),
        (false, true) => Some(Kind::Started),
        // A case that was flaky, or failed in some of the runs before, may pass in those after.
        _ if was_unsteady && !fail => None,
        _ => has_changed(before, after).then_some(Kind::Changed),
    }
}

/// `true` if no result after equals one before. The errors of the library are compared by kind, operation and code. Other
/// results are compared by their reasons, without the parts that differ between equal runs.
fn has_changed(before: &[&CaseReport], after: &[&CaseReport]) -> bool {
    if before.iter().chain(after).all(|case| case.error.is_some()) {
        let distinct =
            |side: &[&CaseReport]| side.iter().map(|case| (case.outcome, case.error.clone())).collect::<BTreeSet<_>>();
        return distinct(before).is_disjoint(&distinct(after));
    }
    let distinct = |side: &[&CaseReport], form: fn(&str) -> String| {
        side.iter().map(|case| signature(case, form)).collect::<BTreeSet<_>>()
    };
    let mut form: fn(&str) -> String = steady;
    let differs = |side: &[&CaseReport]| distinct(side, steady).len() > distinct(side, without_numbers).len();
    // The numbers in the reason differ between equal runs.
    if differs(before) || differs(after) {
        form = without_numbers;
    }
    distinct(before, form).is_disjoint(&distinct(after, form))
}

/// The outcome, its reason, and the omitted parts.
fn signature(case: &CaseReport, form: fn(&str) -> String) -> (Outcome, String, Vec<String>) {
    let reason = case.reason.as_deref().map(form).unwrap_or_default();
    (case.outcome, reason, case.left_out.iter().map(|text| form(text)).collect())
}

/// The distinct results of a case on one side, in the order of the runs.
fn states(side: &[&CaseReport]) -> Vec<State> {
    let mut all: Vec<State> = Vec::new();
    for case in side {
        let reason = case.reason.as_deref().map(|reason| without_history(reason).to_owned());
        let same = |state: &&mut State| {
            state.outcome == case.outcome && state.reason == reason && state.left_out == case.left_out
        };
        match all.iter_mut().find(same) {
            Some(state) => {
                state.runs += 1;
                state.durations_us.push(case.duration_us);
            }
            None => all.push(State {
                outcome: case.outcome,
                reason,
                left_out: case.left_out.clone(),
                runs: 1,
                durations_us: vec![case.duration_us],
            }),
        }
    }
    all
}

/// The properties that differ.
pub(super) fn differences(before: &Report, after: &Report) -> Vec<Setting> {
    // Reports of earlier versions do not describe the computer.
    let with_host = before.host.is_some() && after.host.is_some();
    let (old, new) = (settings(before, with_host), settings(after, with_host));
    let names = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name)));
    let value = |all: &BTreeMap<String, String>, name: &String| all.get(name).cloned().unwrap_or_default();
    names
        .map(|name| Setting { what: name.clone(), before: value(&old, name), after: value(&new, name) })
        .filter(|setting| setting.before != setting.after)
        .collect()
}

/// The properties of a run, by name.
fn settings(report: &Report, with_host: bool) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut add = |name: &str, value: String| drop(all.insert(name.to_owned(), value));
    add("backend", report.backend.name.clone());
    add("driver", report.backend.driver.clone());
    add("simulated", report.backend.simulated.to_string());
    add("emulated", report.emulated.as_ref().map(Emulated::to_string).unwrap_or_default());
    add("device", report.device.name.clone());
    add("program", format!("{} {}", report.tool.name, report.tool.version));
    add("seed", report.seed.to_string());
    add("repeat", report.repeat.to_string());
    add("cases", report.cases.as_ref().map(|list| format!("{} {}", list.name, list.sha256)).unwrap_or_default());
    add("stopped", report.stopped.as_ref().map(ToString::to_string).unwrap_or_default());
    if let Some(host) = report.host.as_ref().filter(|_| with_host) {
        of_host(host, &mut add);
    }
    for ExporterReport { name, available, stop } in &report.exporters {
        let state = match (available, stop) {
            (Some(detail), _) => format!("{} ({})", detail.driver, detail.device.name),
            (None, Some(stop)) => format!("not used: {}", stop.reason()),
            (None, None) => "not used".into(),
        };
        add(&format!("exporter {name}"), state);
    }
    if let Ok(capabilities) = serde_json::to_value(&report.capabilities) {
        flatten("capability ", &capabilities, &mut add);
    }
    all
}

/// The software of the computer, and the GPU's firmware and modes.
fn of_host(host: &Host, add: &mut impl FnMut(&str, String)) {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let state = |value: Option<bool>| value.map(|on| on.to_string()).unwrap_or_default();
    add("os", host.os.clone());
    add("kernel", text(&host.kernel));
    add("distribution", text(&host.distribution));
    add("processor", text(&host.processor));
    add("container", text(&host.container));
    add("command", text(&host.command_sha256));
    for (kind, all) in [("module", &host.kernel_modules), ("package", &host.packages)] {
        for (name, version) in all {
            add(&format!("{kind} {name}"), version.clone());
        }
    }
    if let Some(gpu) = &host.gpu {
        add("GPU firmware", text(&gpu.firmware));
        add("GSP firmware", text(&gpu.gsp_firmware));
        add("ECC", state(gpu.ecc));
        add("MIG", state(gpu.mig));
        add("compute mode", text(&gpu.compute_mode));
        add("partition", text(&gpu.partition));
    }
}

/// The leaves of a JSON value by their paths. A capability is a leaf.
fn flatten(path: &str, value: &Value, add: &mut impl FnMut(&str, String)) {
    match value {
        Value::Object(fields) if fields.get("support").is_some_and(Value::is_string) => {
            let text = |field| fields.get(field).and_then(Value::as_str).unwrap_or_default();
            let detail = text("detail");
            let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
            add(path, format!("{}{detail}", text("support")));
        }
        Value::Object(fields) => {
            for (name, inner) in fields {
                let separator = if path.ends_with(' ') { "" } else { "." };
                flatten(&format!("{path}{separator}{name}"), inner, add);
            }
        }
        Value::Null => {}
        Value::String(text) => add(path, text.clone()),
        other => add(path, other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use gpu_interop::ErrorKind;
    use gpu_interop_conformance::ErrorReport;

    use super::*;

    /// The kind of a difference between runs of `case` with these outcomes.
    fn between(case: &CaseReport, before: &[Outcome], after: &[Outcome]) -> Option<Kind> {
        let side = |outcomes: &[Outcome]| -> Vec<CaseReport> {
            outcomes.iter().map(|outcome| CaseReport { outcome: *outcome, ..case.clone() }).collect()
        };
        let (before, after) = (side(before), side(after));
        kind(&before.iter().collect::<Vec<_>>(), &after.iter().collect::<Vec<_>>())
    }

    #[test]
    fn every_change_of_an_outcome_has_its_kind() {
        let case = &crate::report::example().results[0];
        use Outcome::{
            Crashed, ExpectedFailure, Failed, Flaky, Passed, Skipped, TimedOut, UnexpectedPass, Unsupported,
        };
        for (before, after, expected) in [
            (Passed, Passed, None),
            (Passed, Failed, Some(Kind::New)),
            (Passed, Crashed, Some(Kind::New)),
            (Passed, TimedOut, Some(Kind::New)),
            (Passed, UnexpectedPass, Some(Kind::New)),
            (Flaky, Failed, Some(Kind::New)),
            (ExpectedFailure, UnexpectedPass, Some(Kind::New)),
            (Skipped, Failed, Some(Kind::New)),
            (Passed, Flaky, Some(Kind::Flaky)),
            (Skipped, Flaky, Some(Kind::Flaky)),
            (Failed, Flaky, Some(Kind::Flaky)),
            (Flaky, Flaky, None),
            (Flaky, Passed, None),
            (Passed, Skipped, Some(Kind::Stopped)),
            (Passed, Unsupported, Some(Kind::Stopped)),
            (Failed, Skipped, Some(Kind::Stopped)),
            (Flaky, Unsupported, Some(Kind::Stopped)),
            (Failed, Passed, Some(Kind::Fixed)),
            (Crashed, ExpectedFailure, Some(Kind::Fixed)),
            (Skipped, Passed, Some(Kind::Started)),
            (Unsupported, ExpectedFailure, Some(Kind::Started)),
            (Failed, Crashed, Some(Kind::Changed)),
            (Skipped, Unsupported, Some(Kind::Changed)),
            (Passed, ExpectedFailure, Some(Kind::Changed)),
        ] {
            assert_eq!(between(case, &[before], &[after]), expected, "{before} -> {after}");
        }
        for (before, after, expected) in [
            (&[][..], &[Passed][..], Some(Kind::Added)),
            (&[], &[Passed, Flaky], Some(Kind::Flaky)),
            (&[], &[Passed, Failed], Some(Kind::New)),
            (&[Passed], &[], Some(Kind::Missing)),
            (&[Passed, Failed], &[Passed, Failed], None),
            (&[Passed, Passed], &[Passed, Failed], Some(Kind::New)),
            (&[Passed, Failed], &[Passed, Passed], None),
            (&[Passed, Failed], &[Passed, Flaky], None),
            (&[Failed, Failed], &[Passed, Flaky], Some(Kind::Flaky)),
            (&[Failed, Failed], &[Passed, Skipped], Some(Kind::Fixed)),
        ] {
            assert_eq!(between(case, before, after), expected, "{before:?} -> {after:?}");
        }
    }

    #[test]
    fn capabilities_whose_kind_or_text_changed_are_named() {
        let report = crate::report::example();
        assert_eq!(differences(&report, &report), []);
        let changed = |field: &str, value: &str| -> Vec<Setting> {
            let mut changed = serde_json::to_value(&report).expect("JSON");
            changed["capabilities"]["memory"]["dma_buf_fd"][field] = value.into();
            differences(&report, &serde_json::from_value(changed).expect("a report"))
        };
        for (field, value, after) in [
            ("support", "driver_too_old", "driver_too_old: the host backend"),
            ("detail", "another reason", "unsupported: another reason"),
        ] {
            let found = changed(field, value);
            let [only] = found.as_slice() else { panic!("{field}: {found:?}") };
            assert_eq!(only.what, "capability memory.dma_buf_fd");
            assert!(
                only.before.starts_with("unsupported: the host backend") && only.after.starts_with(after),
                "{only:?}"
            );
        }
    }

    #[test]
    fn errors_are_compared_by_kind_operation_and_code() {
        let failed = |reason: &str, code: i64| CaseReport {
            outcome: Outcome::Failed,
            reason: Some(reason.into()),
            error: Some(ErrorReport { kind: ErrorKind::Driver, operation: "cuMemAlloc".into(), code: Some(code) }),
            ..crate::report::example().results[0].clone()
        };
        let (before, reworded, other) = (failed("a reason", 1), failed("in other words", 1), failed("a reason", 2));
        assert_eq!(kind(&[&before], &[&reworded]), None);
        assert_eq!(kind(&[&before], &[&other]), Some(Kind::Changed));
        let untyped = CaseReport { error: None, ..before.clone() };
        assert_eq!(kind(&[&untyped], &[&before]), None, "the reasons are equal");
        assert_eq!(kind(&[&untyped], &[&reworded]), Some(Kind::Changed));
    }
}
