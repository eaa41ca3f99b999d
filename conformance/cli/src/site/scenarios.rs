//! The page of all cases on all machines over time.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::history::{History, build};
use super::page::page;
use crate::output::counted;
use crate::report::CaseReport;
use crate::report::html::words;

/// The greatest number of runs in a strip.
const MOST: usize = 60;
/// The width of a run in a strip.
const CELL: usize = 8;

/// The number of boxes in a row of a heat map, and their sides.
const COLUMNS: usize = 24;
const SIDE: usize = 13;

/// The page.
pub(super) fn render(machines: &[History<'_>]) -> String {
    let machines: Vec<&History<'_>> = machines.iter().filter(|machine| !machine.runs.is_empty()).collect();
    let mut seen = BTreeSet::new();
    let cases: Vec<String> =
        machines.iter().flat_map(|machine| machine.cases()).filter(|case| seen.insert(case.clone())).collect();
    let content = html! {
        (legend("One box for each run, the newest on the right."))
        div class="wide matrix" {
            table {
                thead {
                    tr {
                        th scope="col" { "case" }
                        @for machine in &machines { th scope="col" { a href=(machine.file()) { (machine.name()) } } }
                    }
                }
                tbody {
                    @for case in &cases {
                        tr class="case" {
                            th scope="row" { code { (case) } }
                            @for machine in &machines { td { (strip(machine, case)) } }
                        }
                    }
                }
            }
        }
    };
    page("gpu-interop conformance: scenarios", &content)
}

/// The meaning of the boxes.
pub(super) fn legend(boxes: &str) -> Markup {
    html! {
        p class="note" {
            (boxes) " Green: passed. Red: failed. Violet: flaky, or passed "
            "unexpectedly. Yellow: expected failure. Blue: skipped. Grey: unsupported. Light grey: not in the report."
        }
    }
}

/// One box a case, in rows.
pub(super) fn heat_map(cases: &[(&str, &CaseReport)]) -> Markup {
    let (width, height) = (COLUMNS * SIDE, cases.len().div_ceil(COLUMNS) * SIDE);
    html! {
        svg class="strip" viewBox=(format!("0 0 {width} {height}")) width=(width) height=(height) aria-hidden="true" {
            @for (place, (name, case)) in cases.iter().enumerate() {
                rect class=(case.outcome) x=(place % COLUMNS * SIDE) y=(place / COLUMNS * SIDE) width=(SIDE) height=(SIDE) {
                    title { (name) ": " (words(case.outcome)) }
                }
            }
        }
    }
}

/// One box a run.
pub(super) fn strip(machine: &History<'_>, case: &str) -> Markup {
    let results = machine.results(case);
    let first = results.len().saturating_sub(MOST);
    let width = (results.len() - first) * CELL;
    let class = |result: &Option<&CaseReport>| result.map_or("absent", |case| case.outcome.name());
    let newest = results.iter().flatten().last().map(|case| words(case.outcome)).unwrap_or_default();
    html! {
        svg class="strip" width=(width) height="16" viewBox=(format!("0 0 {width} 16")) role="img"
            aria-label=(format!("{}, the newest: {newest}", counted(results.iter().flatten().count(), "run")))
        {
            @for (place, (result, run)) in results.iter().zip(&machine.runs).skip(first).enumerate() {
                rect class=(class(result)) x=(place * CELL) y="0" width=(CELL) height="16" {
                    title { (build(&run.report)) ": " (class(result)) }
                }
            }
        }
    }
}
