//! Reports as text.

use std::fmt::Write;
use std::time::Duration;

use comfy_table::Table;
use comfy_table::presets::UTF8_BORDERS_ONLY;

use gpu_interop::{BackendInfo, DeviceIdentity};
use gpu_interop_conformance::{Outcome, Pairs, Stop};

use crate::evidence::KernelLine;
use crate::output::counted;

use super::{CallTrace, CaseReport, Emulated, Environment, Observation, Report};

/// The first lines of a report: backend, device, driver.
pub(crate) fn subject(backend: &BackendInfo, emulated: Option<&Emulated>, device: &DeviceIdentity) -> String {
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    if backend.simulated {
        let _ = writeln!(text, "SIMULATED: this run says nothing about a vendor's driver");
    }
    if let Some(emulated) = emulated {
        let _ = writeln!(text, "{emulated}");
    }
    let _ = writeln!(text, "backend   {}: {}", backend.name, backend.driver);
    if let Some(library) = &backend.library {
        let _ = writeln!(text, "library   {}", library.display());
    }
    let _ = writeln!(text, "device    {device}");
    text
}

/// The mark of a run without a vendor's driver and hardware; `None` on real hardware.
pub(crate) fn mark(backend: &BackendInfo, emulated: Option<&Emulated>) -> Option<&'static str> {
    match (backend.simulated, emulated) {
        (true, _) => Some("SIMULATED"),
        (false, Some(_)) => Some("EMULATED"),
        (false, None) => None,
    }
}

/// The heading of a run: backend, device, exporters.
pub(crate) fn heading(environment: &Environment) -> String {
    let mut text = subject(&environment.backend, environment.emulated.as_ref(), &environment.device);
    for exporter in &environment.exporters {
        let _ = match (&exporter.available, &exporter.stop) {
            (Some(detail), _) => writeln!(text, "exporter  {}: {} ({})", exporter.name, detail.driver, detail.device),
            (None, stop) => {
                let reason = stop.as_ref().map_or("no reason", Stop::reason);
                writeln!(text, "exporter  {}: not used: {reason}", exporter.name)
            }
        };
    }
    for attempt in &environment.passed_over {
        let _ = writeln!(text, "not used  {attempt}");
    }
    text
}

/// One finished scenario.
pub(crate) fn line(case: &CaseReport) -> String {
    let mut text = format!(
        "{:<16} {:<42} {:>9}",
        case.outcome,
        case.name(),
        format!("{:.1?}", Duration::from_micros(case.duration_us))
    );
    if let Some(reason) = case.reason.as_deref().filter(|_| case.outcome != Outcome::Passed) {
        text.push_str("  ");
        text.push_str(reason);
    }
    text
}

/// The observations and omissions of a case; empty for most.
pub(crate) fn observations(case: &CaseReport) -> String {
    let mut text = String::new();
    for Observation { call, raw, library } in &case.observed {
        let _ = writeln!(text, "    | {call}\n    |   the driver alone: {raw}\n    |   the library:      {library}");
    }
    if let Some(Pairs { covered, possible }) = case.pairs {
        let _ = writeln!(text, "    | {covered} of {possible} pairs of operations");
    }
    for what in &case.left_out {
        let _ = writeln!(text, "    | left out: {what}");
    }
    text
}

/// The driver calls of a failed case; empty for most.
pub(crate) fn calls(calls: Option<&CallTrace>) -> String {
    calls.into_iter().flat_map(CallTrace::lines).map(|line| format!("    : {line}\n")).collect()
}

fn log_and_calls(log: Option<&str>, trace: Option<&CallTrace>) -> String {
    let mut text: String = log.iter().flat_map(|log| log.lines()).map(|log| format!("    | {log}\n")).collect();
    text.push_str(&calls(trace));
    text
}

/// The runs of a case that ran again; empty for most.
pub(crate) fn attempts(case: &CaseReport) -> String {
    let mut text = String::new();
    for (number, attempt) in (1..).zip(&case.attempts) {
        let _ = writeln!(text, "    {}", attempt.heading(number));
        text.push_str(&log_and_calls(attempt.log.as_deref(), attempt.calls.as_ref()));
    }
    text
}

/// Messages of the kernel; empty for most cases.
pub(crate) fn kernel(lines: &[KernelLine]) -> String {
    let meaning =
        |line: &KernelLine| line.event.as_ref().map(|event| format!(" [{}]", event.meaning)).unwrap_or_default();
    lines.iter().map(|line| format!("    # kernel: {}{}\n", line.text, meaning(line))).collect()
}

/// The summary of a run: counts, and each failure with its log and driver calls.
pub(crate) fn summary(report: &Report, as_table: bool) -> String {
    let mut text = String::new();
    for case in report.results.iter().filter(|case| case.outcome.is_failure() || case.outcome == Outcome::Flaky) {
        let _ = writeln!(text, "\n{}", line(case));
        if case.attempts.is_empty() {
            text.push_str(&log_and_calls(case.log.as_deref(), case.calls.as_ref()));
        }
        text.push_str(&kernel(&case.kernel_log));
        text.push_str(&attempts(case));
    }
    let pairs: Vec<Pairs> = report.results.iter().filter_map(|case| case.pairs).collect();
    if !pairs.is_empty() {
        let sum = |count: fn(&Pairs) -> u32| pairs.iter().map(count).map(u64::from).sum::<u64>();
        let (covered, possible) = (sum(|pairs| pairs.covered), sum(|pairs| pairs.possible));
        let _ = writeln!(text, "{covered} of {possible} pairs of operations of the two sides were compared");
    }
    for (outcome, label) in [(Outcome::Skipped, "skipped"), (Outcome::Unsupported, "unsupported")] {
        let mut reasons: Vec<(&str, usize)> = Vec::new();
        for case in report.results.iter().filter(|case| case.outcome == outcome) {
            let reason = case.reason.as_deref().unwrap_or("no reason");
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, count)) => *count += 1,
                None => reasons.push((reason, 1)),
            }
        }
        for (reason, count) in reasons {
            let _ = writeln!(text, "{count} {label}: {reason}");
        }
    }
    if let Some(stopped) = &report.stopped {
        let _ = writeln!(text, "STOPPED: {stopped}");
    }
    let counts = Outcome::ALL.map(|outcome| (outcome.name(), report.summary.get(outcome.name()).copied().unwrap_or(0)));
    let seconds = Duration::from_micros(report.duration_us);
    if as_table {
        let mut table = Table::new();
        table.load_style(UTF8_BORDERS_ONLY);
        table.set_header(counts.map(|(name, _)| name));
        table.add_row(counts.map(|(_, count)| count.to_string()));
        let _ = writeln!(text, "{table}");
        let _ = writeln!(text, "{} in {seconds:.1?}, {}", scenarios(report), seeds(report));
    } else {
        let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
        let _ = writeln!(text, "{}; {} in {seconds:.1?}, {}", counts.join(", "), scenarios(report), seeds(report));
    }
    text
}

/// The outcomes that occurred, with their counts.
pub(crate) fn counts(report: &Report) -> String {
    let count =
        |outcome: Outcome| (outcome.name(), report.results.iter().filter(|case| case.outcome == outcome).count());
    let counts: Vec<String> = Outcome::ALL
        .map(count)
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    if counts.is_empty() { "no results".into() } else { counts.join(", ") }
}

fn scenarios(report: &Report) -> String {
    counted(report.results.len(), "scenario")
}

pub(crate) fn seeds(report: &Report) -> String {
    match report.repeat.get() {
        1 => format!("seed {}", report.seed),
        count => format!("{count} times each, seeds {} and on", report.seed),
    }
}
