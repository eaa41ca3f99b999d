//! Running scenarios.

pub(crate) mod child;
mod isolated;
mod progress;

use std::cmp::Reverse;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use globset::GlobMatcher;

use crate::backend_under_test::BackendUnderTest;
use crate::expectations::{Expectations, Place};
use crate::exporter::ExporterName;
use crate::outcome::{Outcome, Verdict};
use crate::report::{CaseReport, Environment, Report, SCHEMA, Tool, case_name, summarize};
use crate::scenario::{Exporters, Scenario};

pub(crate) use isolated::{answer, discover};
pub(crate) use progress::Progress;

/// What to run and how.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u32,
    pub(crate) filter: Option<GlobMatcher>,
    pub(crate) exporters: Vec<ExporterName>,
    pub(crate) isolate: bool,
    pub(crate) timeout: Option<Duration>,
    /// How many scenarios may run at the same time. Only isolated ones do.
    pub(crate) jobs: NonZeroUsize,
    pub(crate) expectations: Expectations,
}

/// One scenario with one exporter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) exporter: Option<ExporterName>,
}

impl Plan {
    /// The cases that the filter lets through.
    pub(crate) fn cases<'a>(&self, scenarios: &'a [Scenario]) -> Vec<Case<'a>> {
        let wanted = |case: &Case<'_>| {
            let id = case.scenario.id;
            self.filter
                .as_ref()
                .is_none_or(|filter| filter.is_match(id) || filter.is_match(case_name(id, case.exporter)))
        };
        scenarios
            .iter()
            .flat_map(|scenario| {
                let exporters = match scenario.exporters {
                    Exporters::None => vec![None],
                    Exporters::Any => self.exporters.iter().copied().map(Some).collect(),
                };
                exporters.into_iter().map(move |exporter| Case { scenario, exporter })
            })
            .filter(wanted)
            .collect()
    }

    /// Expectations that match none of the cases.
    pub(crate) fn stale_expectations<'a>(&'a self, environment: &'a Environment, cases: &'a [Case<'_>]) -> Vec<String> {
        self.expectations.unmatched(|| cases.iter().map(|case| place(environment, case)))
    }

    /// Runs the cases. What scenarios measure, descriptors and memory above all, is their own process's, so isolated
    /// ones may run side by side, but for those that need the machine for themselves.
    pub(crate) fn run(
        &self,
        under_test: &Arc<BackendUnderTest>,
        environment: &Environment,
        cases: &[Case<'_>],
        progress: &Progress,
    ) -> Report {
        let start = Instant::now();
        let jobs = if self.isolate { self.jobs.get() } else { 1 };
        let run = |index: usize| {
            let result = self.run_case(under_test, environment, &cases[index]);
            progress.finished(&result);
            result
        };
        let (alone, mut together): (Vec<usize>, Vec<usize>) =
            (0..cases.len()).partition(|index| jobs > 1 && cases[*index].scenario.alone);
        if jobs > 1 {
            // The longest first, so that none of them runs on when all others have ended.
            together.sort_by_key(|index| Reverse(cases[*index].scenario.time_limit));
        }
        let mut results = side_by_side(jobs, &together, &run);
        results.extend(alone.into_iter().map(|index| (index, run(index))));
        results.sort_by_key(|(index, _)| *index);
        let results: Vec<CaseReport> = results.into_iter().map(|(_, result)| result).collect();
        Report {
            schema: SCHEMA,
            tool: Tool { name: "gpu-interop conformance".into(), version: env!("CARGO_PKG_VERSION").into() },
            seed: self.seed,
            backend: environment.backend.clone(),
            device: environment.device.clone(),
            capabilities: environment.capabilities.clone(),
            exporters: environment.exporters.clone(),
            summary: summarize(&results),
            results,
            duration_us: micros(start.elapsed()),
        }
    }

    fn run_case(&self, under_test: &Arc<BackendUnderTest>, environment: &Environment, case: &Case<'_>) -> CaseReport {
        let place = place(environment, case);
        let start = Instant::now();
        let ended = if let Some(reason) = self.expectations.unsupported(&place) {
            Ended::without_log(Outcome::Unsupported, Some(reason.to_owned()))
        } else if let Some(ended) = case.exporter.and_then(|name| not_available(environment, name)) {
            ended
        } else if self.isolate {
            isolated::run(under_test.name(), case, self.seed, self.timeout.unwrap_or(case.scenario.time_limit))
        } else {
            Ended::of(child::run(under_test, case.scenario, case.exporter, self.seed))
        };
        let (outcome, expected) = self.expectations.judge(&place, ended.outcome);
        let reason = match (expected, ended.reason) {
            (Some(expected), Some(reason)) => Some(format!("{expected} ({reason})")),
            (Some(expected), None) => Some(format!("passed, but was expected to fail: {expected}")),
            (None, reason) => reason,
        };
        CaseReport {
            id: case.scenario.id.into(),
            exporter: case.exporter,
            outcome,
            reason,
            log: ended.log.filter(|log| outcome.is_failure() && !log.is_empty()),
            duration_us: micros(start.elapsed()),
        }
    }
}

/// Calls `run` for each of `indices` from `jobs` threads, and returns the results with their indices.
fn side_by_side<T: Send>(jobs: usize, indices: &[usize], run: &(impl Fn(usize) -> T + Sync)) -> Vec<(usize, T)> {
    let next = AtomicUsize::new(0);
    let work = || {
        // Relaxed: each index is taken once, and nothing else depends on the order.
        let take = || indices.get(next.fetch_add(1, Ordering::Relaxed)).copied();
        std::iter::from_fn(take).map(|index| (index, run(index))).collect::<Vec<_>>()
    };
    if jobs <= 1 {
        return work();
    }
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

fn place<'a>(environment: &'a Environment, case: &Case<'a>) -> Place<'a> {
    Place {
        scenario: case.scenario.id,
        backend: &environment.backend.name,
        exporter: case.exporter.map_or("none", ExporterName::name),
        driver: &environment.backend.driver,
        device: &environment.device.name,
    }
}

/// How a case ended, before expectations.
#[derive(Debug)]
struct Ended {
    outcome: Outcome,
    reason: Option<String>,
    log: Option<String>,
}

impl Ended {
    fn without_log(outcome: Outcome, reason: Option<String>) -> Self {
        Self { outcome, reason, log: None }
    }

    fn of(verdict: Verdict) -> Self {
        use crate::outcome::Stop;
        match verdict {
            Ok(()) => Self::without_log(Outcome::Passed, None),
            Err(Stop::Failed(reason)) => Self::without_log(Outcome::Failed, Some(reason)),
            Err(Stop::Unsupported(reason)) => Self::without_log(Outcome::Unsupported, Some(reason)),
            Err(Stop::Skipped(reason)) => Self::without_log(Outcome::Skipped, Some(reason)),
        }
    }
}

/// The ending of every case of an exporter that cannot be opened: skipped if the machine lacks it, unsupported if the
/// device does, failed if it is broken.
fn not_available(environment: &Environment, name: ExporterName) -> Option<Ended> {
    environment.exporter(name)?.stop.clone().map(|stop| Ended::of(Err(stop)))
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
