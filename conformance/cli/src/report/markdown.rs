//! Reports as tables in Markdown: outcomes of runs, and ratios of measurements.

use std::collections::BTreeSet;

use gpu_interop_conformance::Outcome;

use super::text::mark;
use super::{CaseReport, Emulated, Merged, Report};
use crate::output::{one_line, visible};
use gpu_interop_conformance_bench::{BenchReport, Ratio};

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
    visible(&tables.join("\n")).into_owned()
}

/// The Markdown of a cell. Its constructors escape Markdown's syntax in the text of others.
#[derive(Debug, Clone)]
struct Cell(String);

impl Cell {
    /// Plain text on one line, without the syntax of Markdown and HTML.
    fn text(text: &str) -> Self {
        let mut cell = String::with_capacity(text.len());
        let text = one_line(text);
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                // `<= 1` begins no tag.
                '<' if rest.peek().is_some_and(|next| !matches!(next, '=' | ' ')) => cell.push_str("&lt;"),
                '&' => cell.push_str("&amp;"),
                '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' => cell.extend(['\\', c]),
                _ => cell.push(c),
            }
        }
        Self(cell)
    }

    /// A name as code, or as plain text if it is none.
    fn code(name: &str) -> Self {
        let is_name = |c: char| c.is_alphanumeric() || " .,*_-/:@()".contains(c);
        if name.chars().all(is_name) { Self(format!("`{name}`")) } else { Self::text(name) }
    }

    /// Lines of a cell.
    fn lines(lines: impl IntoIterator<Item = Self>) -> Self {
        Self(lines.into_iter().map(|line| line.0).collect::<Vec<_>>().join("<br>"))
    }

    fn bold(self) -> Self {
        Self(format!("**{}**", self.0))
    }
}

/// One row a group of scenarios, one column a run.
fn outcomes(runs: &[&Report]) -> String {
    let groups: BTreeSet<&str> = runs.iter().flat_map(|run| &run.results).map(CaseReport::group).collect();
    let mut text = heading("scenarios", runs.iter().map(|run| machine(run)));
    for wanted in groups {
        let name = Cell::code(&format!("{wanted}.*"));
        text.push_str(&row(&name, runs.iter().map(|run| cell(run, |case| case.group() == wanted))));
    }
    text.push_str(&row(&Cell::text("all").bold(), runs.iter().map(|run| cell(run, |_| true))));
    text
}

/// One row a ratio with a limit.
fn ratios(bench: &BenchReport) -> String {
    let limited = bench.ratios.iter().filter_map(|ratio| Some((ratio, ratio.limit?)));
    let mut text = heading(&bench.device.name, ["ratio", "95 % interval", "limit"].into_iter().map(Cell::text));
    for (Ratio { name, value, low, high, .. }, limit) in limited {
        let cells = [format!("{value:.3}"), format!("{low:.3} to {high:.3}"), limit.to_string()];
        text.push_str(&row(&Cell::code(name), cells.iter().map(|cell| Cell::text(cell))));
    }
    text
}

/// Backend, mark, device, driver and exporter.
fn machine(run: &Report) -> Cell {
    let Report { backend, emulated, device, .. } = run;
    let mark = mark(backend, emulated.as_ref()).map(|mark| format!(" ({mark})")).unwrap_or_default();
    let driver = emulated.as_ref().and_then(Emulated::version).unwrap_or(&backend.driver);
    let mut lines = vec![format!("{}{mark}", backend.name), device.name.clone(), driver.to_owned()];
    let exporters = run.exporters.iter().filter(|exporter| exporter.name.name() != "native");
    for detail in exporters.filter_map(|exporter| exporter.available.as_ref()) {
        let driver = detail.driver.split(", validation").next().unwrap_or_default();
        lines.push(format!("with {driver}"));
    }
    Cell::lines(lines.iter().map(|line| Cell::text(line)))
}

/// The number of scenarios that passed, and counts of the other outcomes; a dash if none ran.
fn cell(run: &Report, wanted: impl Fn(&CaseReport) -> bool) -> Cell {
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
    Cell::text(&if counts.is_empty() { "–".into() } else { counts.join(", ") })
}

fn heading(first: &str, cells: impl Iterator<Item = Cell> + Clone) -> String {
    row(&Cell::text(first), cells.clone()) + &row(&Cell::text("---"), cells.map(|_| Cell::text("---")))
}

fn row(first: &Cell, cells: impl Iterator<Item = Cell>) -> String {
    let cells: Vec<String> = cells.map(|cell| cell.0).collect();
    format!("| {} | {} |\n", first.0, cells.join(" | "))
}
