//! Reports as tables in Markdown: outcomes of runs, and ratios of measurements.

use std::collections::BTreeSet;
use std::fmt::Write;

use gpu_interop_conformance::Outcome;

use super::text::mark;
use super::{CaseReport, Emulated, Merged, Report};
use crate::bench::{BenchReport, Ratio};

/// The outcomes that a cell names.
const SHOWN: [Outcome; 7] = [
    Outcome::Passed,
    Outcome::Flaky,
    Outcome::ExpectedFailure,
    Outcome::UnexpectedPass,
    Outcome::Failed,
    Outcome::Crashed,
    Outcome::TimedOut,
];

/// A table of the runs, if there are any, and one of each measurement.
pub(crate) fn render(merged: &Merged) -> String {
    let runs: Vec<&Report> = merged.reports.iter().map(|sourced| &sourced.report).collect();
    let tables = (!runs.is_empty()).then(|| outcomes(&runs)).into_iter();
    let tables: Vec<String> = tables.chain(merged.benches.iter().map(|sourced| ratios(&sourced.report))).collect();
    tables.join("\n")
}

/// One row a group of scenarios, one column a run.
fn outcomes(runs: &[&Report]) -> String {
    let groups: BTreeSet<&str> = runs.iter().flat_map(|run| &run.results).map(CaseReport::group).collect();
    let mut text = heading("scenarios", runs.iter().map(|run| machine(run)));
    for wanted in groups {
        text.push_str(&row(&format!("`{wanted}.*`"), runs.iter().map(|run| cell(run, |case| case.group() == wanted))));
    }
    text.push_str(&row("**all**", runs.iter().map(|run| cell(run, |_| true))));
    text
}

/// One row a ratio with a limit.
fn ratios(bench: &BenchReport) -> String {
    let limited = bench.ratios.iter().filter_map(|ratio| Some((ratio, ratio.limit?)));
    let mut text = heading(&bench.device.name, ["ratio", "95 % interval", "limit"].map(String::from).into_iter());
    for (Ratio { name, value, low, high, .. }, limit) in limited {
        let cells = [format!("{value:.3}"), format!("{low:.3} to {high:.3}"), limit.to_string()];
        text.push_str(&row(&format!("`{name}`"), cells.into_iter()));
    }
    text
}

/// Backend, mark, device, driver and the exporter beside it.
fn machine(run: &Report) -> String {
    let Report { backend, emulated, device, .. } = run;
    let mark = mark(backend, emulated.as_ref()).map(|mark| format!(" ({mark})")).unwrap_or_default();
    let driver = emulated.as_ref().and_then(Emulated::version).unwrap_or(&backend.driver);
    let mut text = format!("{}{mark}<br>{}<br>{driver}", backend.name, device.name);
    let exporters = run.exporters.iter().filter(|exporter| exporter.name.name() != "native");
    for detail in exporters.filter_map(|exporter| exporter.available.as_ref()) {
        let driver = detail.driver.split(", validation").next().unwrap_or_default();
        let _ = write!(text, "<br>with {driver}");
    }
    text
}

/// The number of scenarios that passed, and counts of the other outcomes; a dash if none ran.
fn cell(run: &Report, wanted: impl Fn(&CaseReport) -> bool) -> String {
    let count = |outcome| run.results.iter().filter(|case| case.outcome == outcome && wanted(case)).count();
    let counts: Vec<String> = SHOWN
        .into_iter()
        .map(|outcome| (outcome, count(outcome)))
        .filter(|(_, count)| *count > 0)
        .map(|(outcome, count)| match outcome {
            Outcome::Passed => count.to_string(),
            other => format!("{count} {}", other.name().replace('_', " ")),
        })
        .collect();
    if counts.is_empty() { "–".into() } else { counts.join(", ") }
}

fn heading(first: &str, cells: impl Iterator<Item = String> + Clone) -> String {
    row(first, cells.clone()) + &row("---", cells.map(|_| "---".into()))
}

fn row(first: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {first} | {} |\n", cells.join(" | "))
}
