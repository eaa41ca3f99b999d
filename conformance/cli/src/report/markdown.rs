//! Reports as a table in Markdown: one row a group of scenarios, one column a report.

use std::collections::BTreeSet;
use std::fmt::Write;

use gpu_interop_conformance::Outcome;

use super::text::mark;
use super::{CaseReport, Emulated, Merged, Report};

/// The outcomes that a cell names.
const SHOWN: [Outcome; 6] = [
    Outcome::Passed,
    Outcome::ExpectedFailure,
    Outcome::UnexpectedPass,
    Outcome::Failed,
    Outcome::Crashed,
    Outcome::TimedOut,
];

/// The table of all reports in `merged`.
pub(crate) fn table(merged: &Merged) -> String {
    let reports: Vec<&Report> = merged.reports.iter().map(|sourced| &sourced.report).collect();
    let groups: BTreeSet<&str> = reports.iter().flat_map(|report| &report.results).map(CaseReport::group).collect();
    let headings = reports.iter().map(|report| heading(report));
    let mut text = row("scenarios", headings);
    text.push_str(&row("---", reports.iter().map(|_| "---".into())));
    for wanted in groups {
        text.push_str(&row(
            &format!("`{wanted}.*`"),
            reports.iter().map(|report| cell(report, |case| case.group() == wanted)),
        ));
    }
    text.push_str(&row("**all**", reports.iter().map(|report| cell(report, |_| true))));
    text
}

/// Backend, mark, device, driver and the exporter beside it.
fn heading(report: &Report) -> String {
    let Report { backend, emulated, device, .. } = report;
    let mark = mark(backend, emulated.as_ref()).map(|mark| format!(" ({mark})")).unwrap_or_default();
    let driver = emulated.as_ref().and_then(Emulated::version).unwrap_or(&backend.driver);
    let mut heading = format!("{}{mark}<br>{}<br>{driver}", backend.name, device.name);
    let exporters = report.exporters.iter().filter(|exporter| exporter.name.name() != "native");
    for detail in exporters.filter_map(|exporter| exporter.available.as_ref()) {
        let driver = detail.driver.split(", validation").next().unwrap_or_default();
        let _ = write!(heading, "<br>with {driver}");
    }
    heading
}

/// The number of scenarios that passed, and counts of the other outcomes; a dash if none ran.
fn cell(report: &Report, wanted: impl Fn(&CaseReport) -> bool) -> String {
    let count = |outcome| report.results.iter().filter(|case| case.outcome == outcome && wanted(case)).count();
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

fn row(first: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {first} | {} |\n", cells.join(" | "))
}
