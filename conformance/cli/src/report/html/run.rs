//! One run on the page: its results, counted and in words.

use std::cmp::Reverse;

use gpu_interop_conformance::Outcome;
use maud::{Markup, html};

use crate::report::{CaseReport, Report};

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

/// A bar with one part for each outcome, proportional to its count. The counts beside it repeat it as text.
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
