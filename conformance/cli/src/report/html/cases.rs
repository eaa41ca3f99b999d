//! The cases of a page: every scenario with its results.

use std::collections::BTreeMap;
use std::time::Duration;

use maud::{Markup, html};

use super::{Run, counts, groups, in_order, sign, tally, words};
use crate::evidence::KernelLine;
use crate::report::{Attempt, CallTrace, CaseReport, Observation, Report};

/// A scenario's result in one report, with one exporter.
type Found<'a> = (Run<'a>, &'a CaseReport);

/// Cases with another outcome in another report of a device of the same kind with the same driver; empty without such.
pub(super) fn differences(runs: &[Run<'_>]) -> Markup {
    let kind = |run: &Run<'_>| {
        let Report { backend, device, emulated, .. } = run.report;
        (backend.name.clone(), backend.driver.clone(), device.name.clone(), emulated.clone())
    };
    let mut differing: Vec<Vec<Found<'_>>> = Vec::new();
    for kind_of in in_order(runs.iter().map(kind)) {
        let alike: Vec<Run<'_>> = runs.iter().copied().filter(|run| kind(run) == kind_of).collect();
        let mut cases: BTreeMap<_, Vec<Found<'_>>> = BTreeMap::new();
        for run in alike {
            for case in &run.report.results {
                cases.entry((case.id.as_str(), case.exporter)).or_default().push((run, case));
            }
        }
        let differs = |found: &Vec<Found<'_>>| found.windows(2).any(|two| two[0].1.outcome != two[1].1.outcome);
        differing.extend(cases.into_values().filter(differs));
    }
    html! {
        @if !differing.is_empty() {
            section aria-labelledby="differences" {
                h2 id="differences" { "What differs between devices of one kind" }
                ul class="differences" {
                    @for found in differing {
                        li {
                            @for (run, case) in &found { (chip(*run, case)) " " }
                            @if let Some((_, case)) = found.first() {
                                a href={ "#scenario-" (case.id) } { code { (case.id) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The failures of all reports; empty if there are none.
pub(super) fn attention(runs: &[Run<'_>]) -> Markup {
    let failed: Vec<Found<'_>> = runs
        .iter()
        .flat_map(|run| run.report.results.iter().map(|case| (*run, case)))
        .filter(|(_, case)| case.outcome.is_failure())
        .collect();
    html! {
        @if !failed.is_empty() {
            section aria-labelledby="failures" {
                h2 id="failures" { "What failed" }
                ul class="failures" {
                    @for (run, case) in failed {
                        li {
                            (chip(run, case)) " " a href={ "#scenario-" (case.id) } { code { (case.id) } }
                            @if let Some(reason) = &case.reason { " " (reason) }
                        }
                    }
                }
            }
        }
    }
}

/// All groups, collapsed unless one has a failure.
pub(super) fn section(runs: &[Run<'_>]) -> Markup {
    html! {
        section aria-labelledby="scenarios" {
            h2 id="scenarios" { "Scenarios" }
            p class="note" {
                "Numbers are those of the reports above. Open a group, then a scenario with a triangle, for reasons, "
                "logs and observations."
            }
            @for group in groups(runs) { (of_group(runs, group)) }
        }
    }
}

fn of_group(runs: &[Run<'_>], group: &str) -> Markup {
    let tally = tally(runs.iter().flat_map(|run| run.group(group)));
    let failed = tally.iter().any(|(outcome, _)| outcome.is_failure());
    let scenarios = in_order(runs.iter().flat_map(|run| run.group(group).map(|case| case.id.as_str())));
    html! {
        details class="group" open[failed] {
            summary { h3 { (group) } span class="counts" { (counts(&tally)) } }
            // Inside the group: a link to it opens the group.
            div id={ "group-" (group) } {
                @for id in scenarios { (scenario(runs, id)) }
            }
        }
    }
}

/// One scenario, in all reports and with every exporter.
fn scenario(runs: &[Run<'_>], id: &str) -> Markup {
    let found: Vec<Found<'_>> = runs.iter().flat_map(|run| run.scenario(id).map(|case| (*run, case))).collect();
    let line = html! {
        code { (id) } " "
        span class="chips" { @for (run, case) in &found { (chip(*run, case)) } }
    };
    let failed = found.iter().any(|(_, case)| case.outcome.is_failure());
    html! {
        @if found.iter().all(|(_, case)| is_plain(case)) {
            div class="scenario" id={ "scenario-" (id) } { (line) }
        } @else {
            details class="scenario" open[failed] {
                summary { (line) }
                div id={ "scenario-" (id) } { (remarks(&found)) }
            }
        }
    }
}

/// Report number, exporter, outcome and duration.
fn chip(run: Run<'_>, case: &CaseReport) -> Markup {
    let took = Duration::from_micros(case.duration_us);
    html! {
        span class={ "chip " (case.outcome) } {
            // Phones show no more of a case that did not fail.
            b { (side(run, case)) " " (sign(case.outcome)) } " " (words(case.outcome))
            @if case.outcome.ran() { " " small { (format!("{took:.1?}")) } }
        }
    }
}

/// The report's number and the exporter.
fn side(run: Run<'_>, case: &CaseReport) -> Markup {
    html! { (run.number) @if let Some(exporter) = case.exporter { " " (exporter) } }
}

/// `true` if the case has no more than an outcome and a duration.
fn is_plain(case: &CaseReport) -> bool {
    case.reason.is_none()
        && case.log.is_none()
        && case.observed.is_empty()
        && case.left_out.is_empty()
        && case.pairs.is_none()
        && case.calls.is_none()
        && case.kernel_log.is_empty()
        && case.sensors.is_none()
        && case.attempts.is_empty()
}

/// Reasons, observations and logs, each once where several reports agree.
fn remarks(found: &[Found<'_>]) -> Markup {
    let shown = found.iter().filter(|(_, case)| !is_plain(case));
    let mut alike: Vec<(Vec<Markup>, &CaseReport)> = Vec::new();
    for (run, case) in shown {
        let side = side(*run, case);
        match alike.iter_mut().find(|(_, other)| says_the_same(other, case)) {
            Some((sides, _)) => sides.push(side),
            None => alike.push((vec![side], case)),
        }
    }
    html! {
        @for (sides, case) in alike {
            div class="remark" {
                p {
                    @for side in sides { span class="number" { (side) } " " }
                    (words(case.outcome))
                    @if let Some(reason) = &case.reason { ": " (reason) }
                }
                @if let Some(pairs) = case.pairs {
                    p { (pairs.covered) " of " (pairs.possible) " pairs of operations of the two sides" }
                }
                @if !case.left_out.is_empty() {
                    p { "Left out:" }
                    ul { @for what in &case.left_out { li { (what) } } }
                }
                @if !case.observed.is_empty() { (observed(&case.observed)) }
                @if let Some(log) = &case.log { pre { (log) } }
                @if !case.kernel_log.is_empty() { p { "Messages of the kernel:" } (kernel(&case.kernel_log)) }
                @if let Some(around) = &case.sensors {
                    p { "The GPU before: " (around.before) "; after: " (around.after) }
                }
                @if let Some(calls) = &case.calls { (driver_calls(calls)) }
                @if !case.attempts.is_empty() { (attempts(&case.attempts)) }
            }
        }
    }
}

fn says_the_same(a: &CaseReport, b: &CaseReport) -> bool {
    let said = |case: &CaseReport| (case.outcome, case.reason.clone(), case.log.clone());
    said(a) == said(b)
        && a.observed == b.observed
        && a.left_out == b.left_out
        && a.pairs == b.pairs
        && a.calls == b.calls
        && a.attempts == b.attempts
        && a.kernel_log == b.kernel_log
        && a.sensors == b.sensors
}

/// Messages of the kernel, with their meanings.
pub(super) fn kernel(lines: &[KernelLine]) -> Markup {
    html! {
        ul class="kernel" {
            @for line in lines {
                li {
                    code { (line.text) }
                    @if let Some(event) = &line.event {
                        @if event.other_process { " (" (event.meaning) ")" } @else { " " strong { (event.meaning) } }
                    }
                    @if !line.during.is_empty() { " during " (line.during.join(", ")) }
                }
            }
        }
    }
}

/// Collapsed: there may be hundreds.
fn driver_calls(calls: &CallTrace) -> Markup {
    let mut lines = calls.lines();
    html! {
        details class="calls" {
            summary { (lines.next().unwrap_or_default()) }
            pre { @for line in lines { (line) "\n" } }
        }
    }
}

/// The runs of a case that ran again.
fn attempts(attempts: &[Attempt]) -> Markup {
    html! {
        ul class="attempts" {
            @for attempt in attempts {
                li {
                    (sign(attempt.outcome)) " " (words(attempt.outcome))
                    " " small { (format!("{:.1?}", Duration::from_micros(attempt.duration_us))) }
                    @if let Some(reason) = &attempt.reason { ": " (reason) }
                    @if let Some(log) = &attempt.log { pre { (log) } }
                    @if let Some(calls) = &attempt.calls { (driver_calls(calls)) }
                }
            }
        }
    }
}

fn observed(rows: &[Observation]) -> Markup {
    html! {
        div class="wide" tabindex="0" role="region" aria-label="observed" {
            table {
                thead {
                    tr { @for of in ["call", "the driver alone", "the library"] { th scope="col" { (of) } } }
                }
                tbody {
                    @for Observation { call, raw, library } in rows {
                        tr { td { (call) } td { (raw) } td { (library) } }
                    }
                }
            }
        }
    }
}
