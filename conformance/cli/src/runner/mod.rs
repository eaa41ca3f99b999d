//! Runs cases: which processes run them, and how results become a report.

mod case;
mod groups;
mod halt;
mod journal;
pub(crate) mod process;
mod progress;
mod results;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{SubsecRound, Utc};
use globset::GlobMatcher;
use gpu_interop_conformance::{
    BackendUnderTest, Expectations, ExporterName, Exporters, Outcome, Place, Scenario, Seeds, Setup, Verdict,
    execution, process as child,
};

use crate::call_trace::{self, CallFile};
use crate::evidence::Evidence;
use crate::report::{Environment, Report, SCHEMA, Shard, Tool, case_name, summarize};
use crate::selection::CaseList;

pub(crate) use case::Case;
pub(crate) use journal::Journal;
pub(crate) use progress::Progress;

use case::{Drivers, Ended, NO_EXPORTER, micros};
use halt::Halt;
use results::Results;

/// Time limit of discovery.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(60);

/// Discovers backend, devices and exporters in a child process: loading a driver may crash.
pub(crate) fn discover(backend: &str, device: usize, exporters: &[ExporterName]) -> Verdict<Environment> {
    let mut arguments: Vec<String> =
        ["discover", "--backend", backend, "--device", &device.to_string()].map(Into::into).into();
    for exporter in exporters {
        arguments.extend(["--exporter".into(), exporter.name().into()]);
    }
    child::ask(&format!("looking at backend {backend}"), &arguments, &[], DISCOVERY_LIMIT)
}

/// The options of a run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The ordinal of the device under test.
    pub(crate) device: usize,
    pub(crate) seeds: Seeds,
    pub(crate) filter: Option<GlobMatcher>,
    /// The list of `--cases` or `--tier`.
    pub(crate) list: Option<CaseList>,
    pub(crate) exporters: Vec<ExporterName>,
    pub(crate) isolation: Isolation,
    pub(crate) timeout: Option<Duration>,
    /// The number of processes that run scenarios at the same time.
    pub(crate) jobs: NonZeroUsize,
    pub(crate) expectations: Arc<Expectations>,
    /// The number of repetitions of a case that fails unexpectedly; 0 without isolation.
    pub(crate) retries: u32,
    /// Stops the run after this number of failures.
    pub(crate) max_failures: Option<NonZeroUsize>,
    /// `true` if reports have the driver calls of failed cases.
    pub(crate) calls: bool,
    /// The shard that the cases are.
    pub(crate) shard: Option<Shard>,
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

impl Plan {
    /// The cases that match the filter and are in the list.
    pub(crate) fn cases<'a>(&self, scenarios: &'a [Scenario]) -> Vec<Case<'a>> {
        let is_listed = |case: &Case<'_>| self.list.as_ref().is_none_or(|list| list.has(case.scenario, case.exporter));
        let matches = |case: &Case<'_>| {
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
            .filter(|case| is_listed(case) && matches(case))
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
                exporters.into_iter().map(|exporter| (scenario.id, exporter))
            })
        };
        let drivers = Drivers::of(environment);
        self.expectations.stale(&drivers.machine(environment), everything)
    }

    /// `true` if scenarios run in other processes.
    fn is_isolated(&self) -> bool {
        self.isolation != Isolation::None
    }

    /// Runs the cases. Scenarios measure descriptors and memory of their own process only, so several processes run at once;
    /// exclusive scenarios run one at a time. At the end, failed cases run again alone.
    ///
    /// # Errors
    /// If the journal is of another run.
    pub(crate) fn run(
        &self,
        under_test: &Arc<BackendUnderTest>,
        environment: &Environment,
        cases: &[Case<'_>],
        progress: &Progress,
        journal: Option<&Journal>,
        evidence: &Evidence,
    ) -> Verdict<Report> {
        let (start, drivers, halt) = (Instant::now(), Drivers::of(environment), Halt::new(self.max_failures));
        let mut report = self.empty_report(environment);
        let names: Vec<String> = cases.iter().map(Case::name).collect();
        let mut earlier =
            journal.map(|journal| journal.begin(self.device, &report, &names)).transpose()?.unwrap_or_default();
        report.started = earlier.started.or(report.started);
        report.resumed = std::mem::take(&mut earlier.resumed);
        report.duration_us = earlier.took_us;
        let results = Results::new(self, environment, &drivers, cases, progress, &halt, journal);
        let ended = |index, ended, took| results.ended(index, ended, took);
        let mut to_run = Vec::with_capacity(cases.len());
        for (index, case) in cases.iter().enumerate() {
            if results.is_known(index, &mut earlier) {
                continue;
            }
            match self.known_before(under_test, environment, &drivers.place(environment, case), case) {
                Some(known) => ended(index, known, Duration::ZERO),
                None => to_run.push(index),
            }
        }
        // Failures so far are not a reason to leave out their repetitions.
        let repetitions = Halt::new(None);
        if self.is_isolated() {
            let options = self.options(under_test, &halt, evidence);
            let groups = groups::groups(self.isolation, environment.is_validated(), cases, &to_run);
            groups::run_all(self.jobs, cases, groups, &|group| {
                let of_group: Vec<Case<'_>> = group.iter().map(|index| cases[*index]).collect();
                process::run(options, &of_group, |place, end, took| ended(group[place], end, took));
            });
            let options = self.options(under_test, &repetitions, evidence);
            results.repeat(&repetitions, |index| process::run_alone(options, cases[index]));
        } else {
            self.run_here(self.options(under_test, &halt, evidence), under_test, cases, &to_run, &ended);
        }
        report.stopped = results.stopped();
        report.results = results.take();
        report.summary = summarize(&report.results);
        report.kernel_log = evidence.kernel_log.rest();
        report.duration_us = report.duration_us.saturating_add(micros(start.elapsed()));
        Ok(report)
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
        // Skipped if the machine lacks the exporter, unsupported if the device does, failed if it is broken.
        if let Some(stop) = case.exporter.and_then(|name| environment.exporter(name)?.stop.clone()) {
            return Some(Ended::of(Err(stop)));
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

    /// The report of a run without results.
    fn empty_report(&self, environment: &Environment) -> Report {
        Report {
            schema: SCHEMA,
            tool: Tool::this(),
            started: Some(Utc::now().trunc_subsecs(0)),
            seed: self.seeds.first,
            build: None,
            repeat: self.seeds.count,
            backend: environment.backend.clone(),
            emulated: environment.emulated.clone(),
            device: environment.device.clone(),
            host: None,
            capabilities: environment.capabilities.clone(),
            exporters: environment.exporters.clone(),
            cases: self.list.as_ref().map(|list| list.about().clone()),
            shard: self.shard.clone(),
            shards: Vec::new(),
            resumed: Vec::new(),
            stopped: None,
            summary: summarize(&[]),
            results: Vec::new(),
            kernel_log: Vec::new(),
            duration_us: 0,
        }
    }

    fn options<'a>(
        &self,
        under_test: &'a BackendUnderTest,
        halt: &'a Halt,
        evidence: &'a Evidence,
    ) -> process::Options<'a> {
        let (seeds, timeout, calls) = (self.seeds, self.timeout, self.calls);
        process::Options { backend: under_test.name(), device: self.device, seeds, timeout, calls, halt, evidence }
    }

    /// Runs cases in this process.
    fn run_here(
        &self,
        options: process::Options<'_>,
        under_test: &Arc<BackendUnderTest>,
        cases: &[Case<'_>],
        to_run: &[usize],
        ended: &impl Fn(usize, Ended, Duration),
    ) {
        // Tracing is best effort.
        let file = self.calls.then(CallFile::new).and_then(Result::ok);
        if let Some(Ok(file)) = file.as_ref().map(CallFile::duplicate) {
            call_trace::record_to(file);
        }
        for (place, index) in to_run.iter().enumerate() {
            let (case, start) = (&cases[*index], Instant::now());
            if let Some(stop) = options.halt.stop() {
                ended(*index, Ended::left(stop), Duration::ZERO);
                continue;
            }
            let window = options.evidence.begin(case.name());
            let ran = execution::run(under_test, case.scenario, case.exporter, self.device, self.seeds);
            let mut end = Ended { kernel_log: window.end(), ..Ended::ran(ran) };
            if end.outcome.is_failure() {
                end.calls = file.as_ref().and_then(|file| file.trace(place).ok());
            }
            call_trace::next_scenario();
            let took = end.took_since(start);
            ended(*index, end, took);
        }
    }
}
