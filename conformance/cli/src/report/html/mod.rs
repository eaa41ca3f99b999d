//! Reports as one HTML page: no network, no scripts, one file.
//!
//! From summary to detail: machines, failures, the matrix of scenario groups and machines, and
//! the scenarios of each group. The templates escape all text.

mod bench;
mod capabilities;
mod cases;
mod machines;
mod matrix;
mod number;
mod pacing;
mod run;

use gpu_interop_conformance::Outcome;
use maud::{DOCTYPE, Markup, PreEscaped, html};

pub(crate) use self::bench::section as bench_section;
pub(crate) use self::number::{number, quantity};
use self::run::Run;
pub(crate) use self::run::{bar, cell, counts, in_order, tally, words};

use super::merge::Merged;
use crate::output::visible;

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
                        (machines::section(&runs))
                        (cases::attention(&runs))
                        (matrix::section(&runs))
                        (cases::section(&runs))
                        (capabilities::section(&runs))
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
