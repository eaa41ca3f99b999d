//! The matrix of scenario groups and machines.

use gpu_interop_conformance::Outcome;
use maud::{Markup, html};

use super::machines;
use super::run::{Run, cell, groups, sign, tally, words};

/// One row a group, one column a report.
pub(super) fn section(runs: &[Run<'_>]) -> Markup {
    html! {
        section aria-labelledby="matrix" {
            h2 id="matrix" { "Groups of scenarios" }
            div class="wide" role="region" aria-labelledby="matrix" tabindex="0" {
                table class="matrix" {
                    thead {
                        tr {
                            th scope="col" { "group" }
                            @for run in runs { th scope="col" { (heading(*run)) } }
                        }
                    }
                    tbody {
                        @for group in groups(runs) {
                            tr {
                                th scope="row" { a href={ "#group-" (group) } { (group) } }
                                @for run in runs { (cell(&tally(run.group(group)))) }
                            }
                        }
                    }
                }
            }
            details class="group" {
                summary { h3 { "What the outcomes mean" } }
                dl class="meanings" {
                    @for outcome in Outcome::ALL {
                        dt { span class={ "chip " (outcome) } { (sign(outcome)) " " (words(outcome)) } }
                        dd { (meaning(outcome)) }
                    }
                }
            }
        }
    }
}

fn meaning(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "Everything that the scenario checks held.",
        Outcome::Failed => "Something that it checks did not hold.",
        Outcome::Crashed => "Its process crashed.",
        Outcome::TimedOut => "It did not end in time.",
        Outcome::UnexpectedPass => {
            "It passed although it is expected to fail. Counts as failed: the expectation is stale."
        }
        Outcome::Flaky => "It failed, and passed when it ran again alone. Counts as failed only on request.",
        Outcome::ExpectedFailure => "It failed, as a file of expectations says. Does not count as failed.",
        Outcome::Unsupported => "The device or the exporter says that it cannot do this.",
        Outcome::Skipped => "The machine lacks a requirement; the reason names the package to install.",
    }
}

pub(super) fn heading(run: Run<'_>) -> Markup {
    html! {
        span class="number" { (run.number) } " " (run.report.backend.name) (machines::mark(&run.report.backend, &run.report.emulated))
        small { (run.report.device.name) }
        small { (exporters(run)) }
    }
}

/// The exporters that were used.
fn exporters(run: Run<'_>) -> String {
    let used = run.report.exporters.iter().filter(|exporter| exporter.available.is_some());
    let names: Vec<&str> = used.map(|exporter| exporter.name.name()).collect();
    if names.is_empty() { "no exporter".into() } else { names.join(", ") }
}
