//! Plans and runs cases: which processes run them, and how results become a report.

mod case;
pub(crate) mod group;
mod progress;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use chrono::{SubsecRound, Utc};
use globset::GlobMatcher;
use gpu_interop_conformance::{
    BackendUnderTest, Expectations, ExporterName, ExporterReport, Exporters, Machine, Outcome, Place, Scenario, Seeds,
    Setup, Verdict, Version, execution, process,
};

use crate::call_trace::{self, CallFile};
use crate::evidence::Evidence;
use crate::interrupt;
use crate::report::{CaseReport, Emulated, Environment, Report, SCHEMA, Tool, case_name, summarize};

pub(crate) use case::Case;
pub(crate) use progress::Progress;

use self::case::Ended;

/// Time limit of discovery.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(60);

/// Discovers backend, devices and exporters in a child process: loading a driver may crash.
pub(crate) fn discover(backend: &str, device: usize, exporters: &[ExporterName]) -> Verdict<Environment> {
    let mut arguments: Vec<String> =
        ["discover", "--backend", backend, "--device", &device.to_string()].map(Into::into).into();
    for exporter in exporters {
        arguments.extend(["--exporter".into(), exporter.name().into()]);
    }
    process::ask(&format!("looking at backend {backend}"), &arguments, &[], DISCOVERY_LIMIT)
}

#[derive(Debug)]
pub(crate) struct Plan {
    /// The ordinal of the device under test.
    pub(crate) device: usize,
    pub(crate) seeds: Seeds,
    pub(crate) filter: Option<GlobMatcher>,
    pub(crate) exporters: Vec<ExporterName>,
    pub(crate) isolation: Isolation,
    pub(crate) timeout: Option<Duration>,
    /// The number of processes that run scenarios at the same time.
    pub(crate) jobs: NonZeroUsize,
    pub(crate) expectations: Expectations,
    /// `true` if reports have the driver calls of failed cases.
    pub(crate) calls: bool,
}

/// How scenarios are isolated from each other's crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// A few processes for many scenarios each, with a new one after each failure.
    Shared,
    /// A process for each scenario.
    Scenario,
    /// No isolation: all scenarios run in this process.
    None,
}

/// The number of scenarios that justify another process: starting a GPU's drivers takes longer than most scenarios.
const WORTH_A_PROCESS: usize = 20;

impl Plan {
    /// The cases that match the filter.
    pub(crate) fn cases<'a>(&self, scenarios: &'a [Scenario]) -> Vec<Case<'a>> {
        let wanted = |case: &Case<'_>| {
            self.filter.as_ref().is_none_or(|filter| {
                let matches = |id| filter.is_match(id) || filter.is_match(case_name(id, case.exporter));
                case.scenario.names().any(matches)
            })
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

    /// Expectations for this machine that match no scenario at all.
    pub(crate) fn stale_expectations(&self, environment: &Environment, scenarios: &[Scenario]) -> Vec<String> {
        let everything = || {
            scenarios.iter().flat_map(|scenario| {
                let exporters = match scenario.exporters {
                    Exporters::None => vec![NO_EXPORTER],
                    Exporters::Any => ExporterName::ALL.iter().map(|exporter| exporter.name()).collect(),
                };
                let cases = move |exporter| scenario.names().map(move |id| (id, exporter));
                exporters.into_iter().flat_map(cases)
            })
        };
        let drivers = Drivers::of(environment);
        self.expectations.stale(&drivers.machine(environment), everything)
    }

    /// Runs the cases. Scenarios measure descriptors and memory of their own process only, so several
    /// processes may run at once, except scenarios marked `alone`.
    pub(crate) fn run(
        &self,
        under_test: &Arc<BackendUnderTest>,
        environment: &Environment,
        cases: &[Case<'_>],
        progress: &Progress,
        evidence: &Evidence,
    ) -> Report {
        let (started, start) = (Utc::now().trunc_subsecs(0), Instant::now());
        let results = Mutex::new(Vec::with_capacity(cases.len()));
        let drivers = Drivers::of(environment);
        let finished = |index: usize, ended: Ended, took: Duration| {
            let result = self.judge(&drivers.place(environment, &cases[index]), &cases[index], ended, took);
            progress.finished(&result);
            results.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
        };
        let mut to_run = Vec::with_capacity(cases.len());
        for (index, case) in cases.iter().enumerate() {
            match self.known_before(under_test, environment, &drivers.place(environment, case), case) {
                Some(ended) => finished(index, ended, Duration::ZERO),
                None => to_run.push(index),
            }
        }
        if self.isolation == Isolation::None {
            self.run_here(under_test, cases, &to_run, evidence, finished);
        } else {
            let (seeds, timeout, calls) = (self.seeds, self.timeout, self.calls);
            let options =
                group::Options { backend: under_test.name(), device: self.device, seeds, timeout, calls, evidence };
            let run = |unit: &Vec<usize>| {
                let cases: Vec<Case<'_>> = unit.iter().map(|index| cases[*index]).collect();
                group::run(options, &cases, |place, ended, took| finished(unit[place], ended, took));
            };
            let jobs = self.jobs.get();
            let (alone, together): (Vec<_>, Vec<_>) =
                self.units(cases, &to_run).into_iter().partition(|unit| jobs > 1 && cases[unit[0]].scenario.alone);
            side_by_side(jobs, &together, &run);
            alone.iter().for_each(run);
        }
        // A case missing from the report would go unnoticed.
        for (index, case) in cases.iter().enumerate() {
            let is_known = results.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|known| known.0 == index);
            if !is_known {
                let reason = format!("the suite has lost {}", case.scenario.id);
                finished(index, Ended::without_log(Outcome::Failed, Some(reason)), Duration::ZERO);
            }
        }
        let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.sort_by_key(|(index, _)| *index);
        let results: Vec<CaseReport> = results.into_iter().map(|(_, result)| result).collect();
        Report {
            schema: SCHEMA,
            tool: Tool::this(),
            started: Some(started),
            seed: self.seeds.first,
            build: None,
            repeat: self.seeds.count,
            backend: environment.backend.clone(),
            emulated: environment.emulated.clone(),
            device: environment.device.clone(),
            capabilities: environment.capabilities.clone(),
            exporters: environment.exporters.clone(),
            summary: summarize(&results),
            results,
            host: None,
            kernel_log: evidence.kernel_log.rest(),
            duration_us: micros(start.elapsed()),
        }
    }

    /// Runs cases in this process.
    fn run_here(
        &self,
        under_test: &Arc<BackendUnderTest>,
        cases: &[Case<'_>],
        to_run: &[usize],
        evidence: &Evidence,
        finished: impl Fn(usize, Ended, Duration),
    ) {
        // Tracing is best effort.
        let file = self.calls.then(CallFile::new).and_then(Result::ok);
        if let Some(Ok(file)) = file.as_ref().map(CallFile::duplicate) {
            call_trace::record_to(file);
        }
        for (place, index) in to_run.iter().enumerate() {
            let (case, start) = (&cases[*index], Instant::now());
            if interrupt::is_interrupted() {
                finished(*index, Ended::of(Err(interrupt::stop())), Duration::ZERO);
                continue;
            }
            let window = evidence.begin(case.name());
            let ran = execution::run(under_test, case.scenario, case.exporter, self.device, self.seeds);
            let mut ended = Ended { kernel_log: window.end(), ..Ended::ran(ran) };
            if ended.outcome.is_failure() {
                ended.calls = file.as_ref().and_then(|file| file.trace(place).ok());
            }
            call_trace::next_scenario();
            finished(*index, ended, start.elapsed());
        }
    }

    /// Distributes cases over processes: one exporter a process, a group such as `memory.*` together, except scenarios
    /// marked `own_process`. Twice as many units as parallel processes balance the load, unless there are few cases.
    fn units(&self, cases: &[Case<'_>], indices: &[usize]) -> Vec<Vec<usize>> {
        let (mut units, mut groups) = (Vec::new(), BTreeMap::<_, BTreeMap<&str, Vec<usize>>>::new());
        for index in indices {
            let case = &cases[*index];
            let scenario = case.scenario;
            if scenario.own_process || self.isolation != Isolation::Shared {
                units.push(vec![*index]);
                continue;
            }
            let group = scenario.id.split('.').next().unwrap_or_default();
            let key = (scenario.alone, scenario.signals_by_host, scenario.many_streams, case.exporter);
            groups.entry(key).or_default().entry(group).or_default().push(*index);
        }
        for ((alone, ..), groups) in groups {
            let mut groups: Vec<_> = groups.into_values().collect();
            let worth = groups.iter().map(Vec::len).sum::<usize>().div_ceil(WORTH_A_PROCESS);
            let mut shared = vec![Vec::new(); if alone { 1 } else { worth.min(2 * self.jobs.get()) }];
            // The largest group first, each to the smallest unit.
            groups.sort_by_key(|group| Reverse(group.len()));
            for group in groups {
                if let Some(least) = shared.iter_mut().min_by_key(|unit| unit.len()) {
                    least.extend(group);
                }
            }
            units.extend(shared.into_iter().filter(|unit| !unit.is_empty()));
        }
        units
    }

    /// The result of a case that is known without running it.
    fn known_before(
        &self,
        backend: &BackendUnderTest,
        environment: &Environment,
        place: &Place<'_>,
        case: &Case<'_>,
    ) -> Option<Ended> {
        if let Some(reason) = self.expectations.unsupported(place) {
            return Some(Ended::without_log(Outcome::Unsupported, Some(reason)));
        }
        if let Some(ended) = case.exporter.and_then(|name| not_available(environment, name)) {
            return Some(ended);
        }
        let setup = Setup {
            backend,
            capabilities: &environment.capabilities,
            devices: Some((&environment.device, &environment.devices)),
            exporter: case.exporter,
        };
        let reason = case.scenario.unsupported(&setup)?;
        Some(Ended::without_log(Outcome::Unsupported, Some(reason)))
    }

    /// The report of a finished case.
    fn judge(&self, place: &Place<'_>, case: &Case<'_>, ended: Ended, took: Duration) -> CaseReport {
        let (outcome, expected) = self.expectations.judge(place, ended.outcome);
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
            observed: ended.recorded.observed,
            left_out: ended.recorded.left_out,
            log: ended.log.filter(|log| outcome.is_failure() && !log.is_empty()),
            calls: ended.calls.filter(|_| outcome.is_failure()),
            kernel_log: ended.kernel_log,
            sensors: ended.sensors,
            duration_us: micros(took),
        }
    }
}

/// Calls `run` for each unit from `jobs` threads.
fn side_by_side<T: Sync>(jobs: usize, units: &[T], run: &(impl Fn(&T) + Sync)) {
    let next = AtomicUsize::new(0);
    // Relaxed: each unit is taken once; no other data depends on the order.
    let take = || units.get(next.fetch_add(1, Ordering::Relaxed));
    let work = || std::iter::from_fn(take).for_each(run);
    if jobs <= 1 {
        return work();
    }
    // The scope propagates a worker's panic.
    std::thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(work))));
}

/// The exporter's name in expectations for scenarios without one.
const NO_EXPORTER: &str = "none";

/// The known driver versions of a run.
struct Drivers {
    backend: Option<Version>,
    exporters: Vec<(ExporterName, Option<Version>)>,
}

impl Drivers {
    fn of(environment: &Environment) -> Self {
        let version = |report: &ExporterReport| {
            (report.name, report.available.as_ref().and_then(|found| Version::of_driver(&found.driver)))
        };
        let exporters = environment.exporters.iter().map(version).collect();
        // The release of an emulated runtime is more precise than the backend's description.
        let release = environment.emulated.as_ref().and_then(Emulated::version).and_then(Version::of_driver);
        Self { backend: release.or_else(|| Version::of_driver(&environment.backend.driver)), exporters }
    }

    fn machine<'a>(&'a self, environment: &'a Environment) -> Machine<'a> {
        Machine {
            backend: &environment.backend.name,
            driver: self.backend.as_ref(),
            emulated: environment.emulated.is_some(),
            device: &environment.device.name,
            os: std::env::consts::OS,
        }
    }

    fn place<'a>(&'a self, environment: &'a Environment, case: &Case<'a>) -> Place<'a> {
        let exporter = self.exporters.iter().find(|(name, _)| Some(*name) == case.exporter);
        Place {
            machine: self.machine(environment),
            scenario: case.scenario,
            exporter: case.exporter.map_or(NO_EXPORTER, ExporterName::name),
            exporter_driver: exporter.and_then(|(_, version)| version.as_ref()),
        }
    }
}

/// The result of every case of an unavailable exporter: skipped if the machine lacks it, unsupported if the
/// device does, failed if it is broken.
fn not_available(environment: &Environment, name: ExporterName) -> Option<Ended> {
    environment.exporter(name)?.stop.clone().map(|stop| Ended::of(Err(stop)))
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
