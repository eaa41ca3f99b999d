//! Reports as one HTML page: no network, no scripts, one file.
//!
//! From summary to detail: machines, failures, the matrix of scenario groups and machines, and
//! the scenarios of each group. The templates escape all text.

mod bench;
mod capabilities;
mod cases;
mod machines;
mod matrix;

use std::cmp::Reverse;

use gpu_interop_conformance::Outcome;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::merge::Merged;
use super::{CaseReport, Report};

const STYLE: &str = include_str!("style.css");

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
        verdict.push_str(&format!("; {} could not be read", merged.not_read.len()));
    }
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "gpu-interop conformance: " (verdict) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "gpu-interop conformance" }
                    p class="verdict" { (verdict) }
                }
                main {
                    @if !merged.not_read.is_empty() {
                        section aria-labelledby="missing" {
                            h2 id="missing" { "What could not be read" }
                            ul {
                                @for missing in &merged.not_read {
                                    li { code { (missing.source) } ": " (missing.reason) }
                                }
                            }
                        }
                    }
                    @if !runs.is_empty() {
                        (machines::section(&runs))
                        (cases::attention(&runs))
                        (matrix::section(&runs))
                        (cases::section(&runs))
                        (capabilities::section(&runs))
                    }
                    @for (bench, number) in merged.benches.iter().zip(1..) {
                        (bench::section(bench, number))
                    }
                }
                footer { p { "Made by " (merged.tool.name) " " (merged.tool.version) "." } }
            }
        }
    };
    page.into_string()
}

/// One report of a run, and its number on the page.
#[derive(Debug, Clone, Copy)]
struct Run<'a> {
    number: usize,
    source: &'a str,
    report: &'a Report,
}

impl<'a> Run<'a> {
    /// The results of one group.
    fn group(self, group: &str) -> impl Iterator<Item = &'a CaseReport> {
        self.report.results.iter().filter(move |case| case.group() == group)
    }

    /// The results of one scenario, one an exporter.
    fn scenario(self, id: &str) -> impl Iterator<Item = &'a CaseReport> {
        self.report.results.iter().filter(move |case| case.id == id)
    }
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

/// All groups, in the order of the longest report, then those of other reports.
fn groups<'a>(runs: &[Run<'a>]) -> Vec<&'a str> {
    let mut runs = runs.to_vec();
    runs.sort_by_key(|run| Reverse(run.report.results.len()));
    in_order(runs.iter().flat_map(|run| run.report.results.iter().map(CaseReport::group)))
}

/// The distinct values, in order of first occurrence.
fn in_order<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = Vec::new();
    for value in values {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

/// The outcome in words.
fn words(outcome: Outcome) -> String {
    outcome.name().replace('_', " ")
}

/// The symbol of an outcome.
fn sign(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "✓",
        Outcome::Failed | Outcome::Crashed | Outcome::TimedOut => "✗",
        Outcome::UnexpectedPass => "!",
        Outcome::ExpectedFailure => "≈",
        Outcome::Unsupported => "–",
        Outcome::Skipped => "○",
    }
}

/// The outcomes among some results with their counts, the worst first.
fn tally<'a>(cases: impl Iterator<Item = &'a CaseReport>) -> Vec<(Outcome, usize)> {
    const WORST_FIRST: [Outcome; 8] = [
        Outcome::Crashed,
        Outcome::Failed,
        Outcome::TimedOut,
        Outcome::UnexpectedPass,
        Outcome::ExpectedFailure,
        Outcome::Passed,
        Outcome::Skipped,
        Outcome::Unsupported,
    ];
    let outcomes: Vec<Outcome> = cases.map(|case| case.outcome).collect();
    let count = |outcome: Outcome| outcomes.iter().filter(|found| **found == outcome).count();
    WORST_FIRST.iter().map(|outcome| (*outcome, count(*outcome))).filter(|(_, count)| *count > 0).collect()
}

/// The counts, a line each.
fn counts(tally: &[(Outcome, usize)]) -> Markup {
    html! {
        @for (outcome, count) in tally {
            span class={ "count " (outcome) } { (sign(*outcome)) " " (count) " " (words(*outcome)) }
        }
    }
}
