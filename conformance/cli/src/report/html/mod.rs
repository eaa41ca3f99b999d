//! Reports as one HTML page: no network, no scripts, one file.
//!
//! From summary to detail: what differs between devices of one kind, machines, failures, the matrix of scenario groups and
//! machines, and the scenarios of each group. The templates escape all text.

mod bench;
mod cases;
mod machines;

use std::cmp::Reverse;

use gpu_interop_conformance::Outcome;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{CaseReport, Merged, Report};
use crate::output::visible;

pub(crate) use self::bench::section as bench_section;

const STYLE: &str = include_str!("style.css");

/// The head of every page: its title, the common style, and further ones.
pub(crate) fn head(title: &str, styles: &[&str]) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) }
            style {
                (PreEscaped(STYLE))
                @for style in styles { (PreEscaped(style)) }
            }
        }
    }
}

/// The page.
pub(crate) fn render(merged: &Merged) -> String {
    let runs: Vec<Run<'_>> = merged
        .reports
        .iter()
        .zip(1..)
        .map(|(sourced, number)| Run { number, source: &sourced.source, report: &sourced.report })
        .collect();
    let mut verdict = verdict(&runs);
    if !merged.not_read.is_empty() {
        verdict.push_str(&format!("; {} missing or incomplete", merged.not_read.len()));
    }
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head(&format!("gpu-interop conformance: {verdict}"), &[]))
            body {
                header {
                    h1 { "gpu-interop conformance" }
                    p class="verdict" { (verdict) }
                }
                main {
                    @if !merged.not_read.is_empty() {
                        section aria-labelledby="missing" {
                            h2 id="missing" { "Missing or incomplete" }
                            ul {
                                @for missing in &merged.not_read {
                                    li { code { (missing.source) } ": " (missing.reason) }
                                }
                            }
                        }
                    }
                    @if !runs.is_empty() {
                        (cases::differences(&runs))
                        (machines::section(&runs))
                        (cases::attention(&runs))
                        (machines::matrix(&runs))
                        (cases::section(&runs))
                        (machines::capabilities(&runs))
                    }
                    @for (bench, number) in merged.benches.iter().zip(1..) {
                        (bench::section(&bench.report, &bench.source, number))
                    }
                }
                footer { p { "Made by " (merged.tool.name) " " (merged.tool.version) "." } }
            }
        }
    };
    visible(&page.into_string()).into_owned()
}

/// The summary of all runs.
fn verdict(runs: &[Run<'_>]) -> String {
    if runs.is_empty() {
        return "measurements".into();
    }
    let count = |judge: fn(Outcome) -> bool| {
        runs.iter().filter(|run| run.report.results.iter().any(|case| judge(case.outcome))).count()
    };
    let (failed, ran) = (count(Outcome::is_failure), count(Outcome::ran));
    let mut text = match (failed, runs.len()) {
        (0, 1) => "nothing failed".to_owned(),
        (0, all) => format!("nothing failed in {all} reports"),
        (_, 1) => "failed".to_owned(),
        (failed, all) => format!("{failed} of {all} reports have failures"),
    };
    if ran < runs.len() {
        let idle = runs.len() - ran;
        text.push_str(&format!("; {idle} ran nothing"));
    }
    if runs.iter().any(|run| run.report.backend.simulated) {
        text.push_str("; some SIMULATED");
    }
    if runs.iter().any(|run| run.report.emulated.is_some()) {
        text.push_str("; some EMULATED");
    }
    text
}

/// One report of a run, and its number on the page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) number: usize,
    pub(super) source: &'a str,
    pub(super) report: &'a Report,
}

impl<'a> Run<'a> {
    pub(super) fn group(self, group: &str) -> impl Iterator<Item = &'a CaseReport> {
        self.report.results.iter().filter(move |case| case.group() == group)
    }

    /// The results of one scenario, one an exporter.
    pub(super) fn scenario(self, id: &str) -> impl Iterator<Item = &'a CaseReport> {
        self.report.results.iter().filter(move |case| case.id == id)
    }
}

/// All groups, in the order of the longest report, then those of other reports.
pub(super) fn groups<'a>(runs: &[Run<'a>]) -> Vec<&'a str> {
    let mut runs = runs.to_vec();
    runs.sort_by_key(|run| Reverse(run.report.results.len()));
    in_order(runs.iter().flat_map(|run| run.report.results.iter().map(CaseReport::group)))
}

/// The distinct values, in order of first occurrence.
pub(crate) fn in_order<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = Vec::new();
    for value in values {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

pub(crate) fn words(outcome: Outcome) -> String {
    outcome.name().replace('_', " ")
}

pub(super) fn sign(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "✓",
        Outcome::Failed | Outcome::Crashed | Outcome::TimedOut => "✗",
        Outcome::UnexpectedPass => "!",
        Outcome::Flaky => "↻",
        Outcome::ExpectedFailure => "≈",
        Outcome::Unsupported => "–",
        Outcome::Skipped => "○",
    }
}

/// The outcomes among some results with their counts, the worst first.
pub(crate) fn tally<'a>(cases: impl Iterator<Item = &'a CaseReport>) -> Vec<(Outcome, usize)> {
    const WORST_FIRST: [Outcome; 9] = [
        Outcome::Crashed,
        Outcome::Failed,
        Outcome::TimedOut,
        Outcome::UnexpectedPass,
        Outcome::Flaky,
        Outcome::ExpectedFailure,
        Outcome::Passed,
        Outcome::Skipped,
        Outcome::Unsupported,
    ];
    let outcomes: Vec<Outcome> = cases.map(|case| case.outcome).collect();
    let count = |outcome: Outcome| outcomes.iter().filter(|found| **found == outcome).count();
    WORST_FIRST.iter().map(|outcome| (*outcome, count(*outcome))).filter(|(_, count)| *count > 0).collect()
}

/// The cell of a table with these outcomes: a bar and counts; red if a case failed.
pub(crate) fn cell(tally: &[(Outcome, usize)]) -> Markup {
    html! {
        @match tally.first() {
            Some((worst, _)) => td class=[worst.is_failure().then_some(worst)] { (bar(tally)) (counts(tally)) },
            None => td class="absent" { "absent" },
        }
    }
}

/// A bar with one part for each outcome, proportional to its count. The counts repeat it as text.
pub(crate) fn bar(tally: &[(Outcome, usize)]) -> Markup {
    let all: usize = tally.iter().map(|(_, count)| count).sum();
    let parts = tally.iter().scan(0, |end, (outcome, count)| {
        *end += count;
        Some((outcome, *end - count, count))
    });
    html! {
        svg class="bar" viewBox=(format!("0 0 {all} 1")) preserveAspectRatio="none" aria-hidden="true" {
            @for (outcome, x, width) in parts { rect class=(outcome) x=(x) width=(width) height="1" {} }
        }
    }
}

/// The counts, a line each.
pub(crate) fn counts(tally: &[(Outcome, usize)]) -> Markup {
    html! {
        @for (outcome, count) in tally {
            span class={ "count " (outcome) } { (sign(*outcome)) " " (count) " " (words(*outcome)) }
        }
    }
}

/// A value with significant digits and a suitable unit.
pub(crate) fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "" => number(value),
        "ns" if value.abs() >= 1e9 => format!("{} s", number(value / 1e9)),
        "ns" if value.abs() >= 1e6 => format!("{} ms", number(value / 1e6)),
        "ns" if value.abs() >= 1e3 => format!("{} µs", number(value / 1e3)),
        _ => format!("{} {unit}", number(value)),
    }
}

/// A value with about three digits.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_units_that_fit() {
        assert_eq!(quantity(612.4, "ns"), "612 ns");
        assert_eq!(quantity(364_000.0, "ns"), "364 µs");
        assert_eq!(quantity(1_536_000.0, "ns"), "1.536 ms");
        assert_eq!(quantity(2.5e9, "ns"), "2.500 s");
        assert_eq!((quantity(-1_061_066.0, "ns"), quantity(1.02, "")), ("-1.061 ms".into(), "1.020".into()));
        assert_eq!(quantity(3200.5, "GB/s"), "3200 GB/s");
    }
}
