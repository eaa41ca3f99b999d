//! The first page: machines, the newest run of each, and the outcomes of its groups of scenarios.

use std::collections::BTreeSet;

use maud::html;

use super::history::{History, build, date};
use super::page::page;
use crate::report::html::{counts, tally};
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
                table {
                    thead {
                        tr {
                            @for heading in ["machine", "runs", "benchmarks", "newest run", "build", "outcomes", "failing", "unsteady"] {
                                th scope="col" { (heading) }
                            }
                        }
                    }
                    tbody {
                        @for machine in machines {
                            tr class="machine" {
                                th scope="row" { a href=(machine.file()) { (machine.name()) } }
                                td { (machine.runs.len()) }
                                td { (machine.benches.len()) }
                                @match machine.newest() {
                                    Some(run) => {
                                        td class="date" { (date(run.report.started)) }
                                        td { (build(&run.report)) }
                                        td { div class="counts" { (counts(&tally(run.report.results.iter()))) } }
                                    }
                                    None => { td {} td {} td {} }
                                }
                                td { (machine.failing().len()) }
                                td { (machine.unsteady().len()) }
                            }
                        }
                    }
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
                                    @let tally = tally(results.filter(|case| case.group() == group));
                                    @match tally.first() {
                                        Some((worst, _)) => { td class=(worst) { (counts(&tally)) } }
                                        None => { td class="absent" { "not in this report" } }
                                    }
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
