//! The first page: machines, the newest run of each, and the outcomes of its groups of scenarios.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::history::{History, build, build_of, date};
use super::page::page;
use crate::output::counted;
use crate::report::html::{bar, cell, counts, tally};
use crate::report::{CaseReport, NotRead};

/// The page.
pub(super) fn render(machines: &[History<'_>], not_read: &[NotRead]) -> String {
    // Machines with measurements only have no groups.
    let with_runs: Vec<&History<'_>> = machines.iter().filter(|machine| !machine.runs.is_empty()).collect();
    let groups: BTreeSet<&str> = machines
        .iter()
        .filter_map(History::newest)
        .flat_map(|run| run.report.results.iter().map(CaseReport::group))
        .collect();
    let content = html! {
        section aria-labelledby="machines" {
            h2 id="machines" { "Machines" }
            div class="wide" {
                table class="sides" {
                    thead {
                        tr {
                            @for heading in ["machine", "newest results", "reports", "newest", "build"] {
                                th scope="col" { (heading) }
                            }
                        }
                    }
                    tbody { @for machine in machines { (row(machine)) } }
                }
            }
        }
        section aria-labelledby="groups" {
            h2 id="groups" { "Groups of scenarios in the newest runs" }
            div class="wide matrix" {
                table {
                    thead {
                        tr {
                            th scope="col" { "group" }
                            @for machine in &with_runs { th scope="col" { a href=(machine.file()) { (machine.name()) } } }
                        }
                    }
                    tbody {
                        @for group in groups {
                            tr {
                                th scope="row" { (group) }
                                @for machine in &with_runs {
                                    @let results = machine.newest().into_iter().flat_map(|run| &run.report.results);
                                    (cell(&tally(results.filter(|case| case.group() == group))))
                                }
                            }
                        }
                    }
                }
            }
        }
        @if !not_read.is_empty() {
            section aria-labelledby="missing" {
                h2 id="missing" { "Missing or incomplete" }
                ul { @for missing in not_read { li { code { (missing.source) } ": " (missing.reason) } } }
            }
        }
    };
    page("gpu-interop conformance: machines", &content)
}

/// The newest results of one machine.
fn row(machine: &History<'_>) -> Markup {
    let (run, bench) = (machine.newest(), machine.benches.last());
    let (failing, unsteady) = (machine.failing().len(), machine.unsteady().len());
    let reports = [(machine.runs.len(), "run"), (machine.benches.len(), "benchmark")];
    let reports = reports.into_iter().filter(|(count, _)| *count > 0).map(|(count, noun)| counted(count, noun));
    let (started, build) = match (run, bench) {
        (Some(run), _) => (run.report.started, build(&run.report)),
        (None, Some(bench)) => (bench.report.started, build_of(&bench.report.backend.driver)),
        (None, None) => (None, String::new()),
    };
    html! {
        tr class="machine" {
            th scope="row" { a href=(machine.file()) { (machine.name()) } }
            td {
                @if let Some(run) = run {
                    @let tally = tally(run.report.results.iter());
                    (bar(&tally))
                    div class="counts" { (counts(&tally)) }
                }
                @if failing + unsteady > 0 { div { (failing) " failing, " (unsteady) " unsteady" } }
                @if let Some(bench) = bench {
                    @let (kept, judged) = bench.report.kept();
                    div { (kept) " of " (counted(judged, "ratio")) " within the limit" }
                }
            }
            td data-side="reports" { (reports.collect::<Vec<_>>().join(", ")) }
            td data-side="newest" class="date" { (date(started)) }
            td data-side="build" { (build) }
        }
    }
}
