//! The runs of each machine in the order of time; failing and unsteady cases; the page of all cases on all machines.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use gpu_interop::{BackendInfo, DeviceIdentity};
use gpu_interop_conformance::{Outcome, Version};
use gpu_interop_conformance_bench::BenchReport;
use maud::{Markup, html};

use super::{Collected, Found, page};
use crate::output::counted;
use crate::report::html::words;
use crate::report::{CaseReport, Emulated, Report, text};

/// A machine: a backend and a device. Devices without a UUID are the same if their names are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    backend: String,
    device: String,
    mark: &'static str,
    uuid: String,
}

impl Key {
    fn of(backend: &BackendInfo, emulated: Option<&Emulated>, device: &DeviceIdentity) -> Self {
        Self {
            backend: backend.name.clone(),
            device: device.name.clone(),
            mark: text::mark(backend, emulated).unwrap_or_default(),
            uuid: device.uuid.as_ref().map(ToString::to_string).unwrap_or_default(),
        }
    }
}

/// All runs of one machine, the oldest first.
#[derive(Debug)]
pub(super) struct History<'a> {
    /// From 1.
    pub(super) number: usize,
    key: Key,
    pub(super) runs: Vec<&'a Found<Report>>,
    pub(super) benches: Vec<&'a Found<BenchReport>>,
    /// The results of each run, by the names of cases.
    index: Vec<BTreeMap<String, &'a CaseReport>>,
}

/// A case that fails in the newest run that has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failing {
    pub(super) case: String,
    /// The index of the first run since which it fails.
    pub(super) since: usize,
    /// The index of the last run before that in which it did not fail.
    pub(super) last_good: Option<usize>,
}

/// A case whose outcome is not determined by the build.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unsteady {
    pub(super) case: String,
    /// Runs in which it was flaky, or failed although it passed in another run of the same build.
    pub(super) failed: usize,
    /// Runs in which it ran.
    pub(super) ran: usize,
}

impl<'a> History<'a> {
    /// The machines of all reports.
    pub(super) fn of(collected: &'a Collected) -> Vec<Self> {
        let mut machines = BTreeMap::<Key, (Vec<&Found<Report>>, Vec<&Found<BenchReport>>)>::new();
        for run in &collected.runs {
            let Report { backend, emulated, device, .. } = &run.report;
            machines.entry(Key::of(backend, emulated.as_ref(), device)).or_default().0.push(run);
        }
        for bench in &collected.benches {
            let BenchReport { backend, emulated, device, .. } = &bench.report;
            machines.entry(Key::of(backend, emulated.as_ref(), device)).or_default().1.push(bench);
        }
        let numbered = machines.into_iter().zip(1..);
        numbered
            .map(|((key, (mut runs, mut benches)), number)| {
                runs.sort_by(|a, b| (a.report.started, &a.file).cmp(&(b.report.started, &b.file)));
                benches.sort_by(|a, b| (a.report.started, &a.file).cmp(&(b.report.started, &b.file)));
                let by_name = |run: &&'a Found<Report>| {
                    run.report.results.iter().map(|case| (case.name(), case)).collect::<BTreeMap<_, _>>()
                };
                let index = runs.iter().map(by_name).collect();
                Self { number, key, runs, benches, index }
            })
            .collect()
    }

    /// Backend, device and mark.
    pub(super) fn name(&self) -> String {
        let Key { backend, device, mark, uuid } = &self.key;
        let mark = if mark.is_empty() { String::new() } else { format!(" ({mark})") };
        // The beginning tells cards of one model apart.
        let uuid = uuid.get(..8).map(|beginning| format!(", {beginning}")).unwrap_or_default();
        format!("{backend}{mark}: {device}{uuid}")
    }

    /// The file of its page.
    pub(super) fn file(&self) -> String {
        format!("machine-{}.html", self.number)
    }

    pub(super) fn newest(&self) -> Option<&'a Found<Report>> {
        self.runs.last().copied()
    }

    /// The names of all cases, in the order of the newest run, then of earlier ones.
    pub(super) fn cases(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let names = self.runs.iter().rev().flat_map(|run| run.report.results.iter().map(CaseReport::name));
        names.filter(|name| seen.insert(name.clone())).collect()
    }

    /// The result of a case in every run; `None` for a run without it.
    pub(super) fn results(&self, case: &str) -> Vec<Option<&'a CaseReport>> {
        self.index.iter().map(|results| results.get(case).copied()).collect()
    }

    /// The cases that fail now.
    pub(super) fn failing(&self) -> Vec<Failing> {
        let of = |case: String| {
            let results = self.results(&case);
            let known: Vec<(usize, Outcome)> = results
                .iter()
                .enumerate()
                .filter_map(|(index, result)| Some((index, result.as_ref()?.outcome)))
                .filter(|(_, outcome)| outcome.ran())
                .collect();
            let (_, newest) = known.last()?;
            // A flaky run says nothing about the build in which a case began to fail in every run.
            let known: Vec<(usize, bool)> = known
                .iter()
                .filter(|(_, outcome)| *outcome != Outcome::Flaky)
                .map(|(index, outcome)| (*index, outcome.is_failure()))
                .filter(|_| newest.is_failure())
                .collect();
            let since = known.iter().rev().take_while(|(_, fails)| *fails).last()?.0;
            let last_good = known.iter().rev().find(|(_, fails)| !fails).map(|(index, _)| *index);
            Some(Failing { case, since, last_good })
        };
        self.cases().into_iter().filter_map(of).collect()
    }

    /// The cases with different outcomes in runs of one build.
    pub(super) fn unsteady(&self) -> Vec<Unsteady> {
        let builds: Vec<String> = self.runs.iter().map(|run| build(&run.report)).collect();
        let of = |case: String| {
            let results = self.results(&case);
            let outcomes: Vec<(&str, Outcome)> = results
                .iter()
                .zip(&builds)
                .filter_map(|(result, build)| Some((build.as_str(), result.as_ref()?.outcome)))
                .filter(|(_, outcome)| outcome.ran())
                .collect();
            let passed: BTreeSet<&str> =
                outcomes.iter().filter(|(_, outcome)| *outcome == Outcome::Passed).map(|(build, _)| *build).collect();
            let failed = outcomes.iter().filter(|(build, outcome)| is_flake(*outcome, passed.contains(build))).count();
            (failed > 0).then_some(Unsteady { case, failed, ran: outcomes.len() })
        };
        let mut all: Vec<Unsteady> = self.cases().into_iter().filter_map(of).collect();
        all.sort_by(|a, b| (b.failed * a.ran.max(1)).cmp(&(a.failed * b.ran.max(1))));
        all
    }
}

/// `true` for an outcome that the build does not determine.
fn is_flake(outcome: Outcome, passed_otherwise: bool) -> bool {
    outcome == Outcome::Flaky || outcome.is_failure() && passed_otherwise
}

/// The build under test: its given name, or else the driver's version.
pub(super) fn build(report: &Report) -> String {
    let driver = report.emulated.as_ref().and_then(Emulated::version).unwrap_or(&report.backend.driver);
    report.build.clone().unwrap_or_else(|| build_of(driver))
}

/// The build of a driver without a given name: its version.
pub(super) fn build_of(driver: &str) -> String {
    Version::text_in(driver).unwrap_or(driver).to_owned()
}

/// A time for readers.
pub(super) fn date(started: Option<DateTime<Utc>>) -> String {
    started.map_or_else(|| "unknown time".into(), |time| time.format("%Y-%m-%d %H:%M UTC").to_string())
}

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
            @for (index, (name, case)) in cases.iter().enumerate() {
                rect class=(case.outcome) x=(index % COLUMNS * SIDE) y=(index / COLUMNS * SIDE) width=(SIDE) height=(SIDE) {
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
            @for (index, (result, run)) in results.iter().zip(&machine.runs).skip(first).enumerate() {
                rect class=(class(result)) x=(index * CELL) y="0" width=(CELL) height="16" {
                    title { (build(&run.report)) ": " (class(result)) }
                }
            }
        }
    }
}
