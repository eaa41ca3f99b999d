//! Runs cases: which processes run them, and how results become a report.

mod case;
mod discovery;
pub(crate) mod group;
mod halt;
mod journal;
mod judge;
mod lanes;
mod line;
mod lost;
mod place;
mod plan;
mod progress;
mod results;
mod resume;
mod units;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use chrono::{SubsecRound, Utc};
use gpu_interop_conformance::{BackendUnderTest, Beside, Scenario, Verdict, execution};

use crate::call_trace::{self, CallFile};
use crate::evidence::Evidence;
use crate::report::{Environment, Report, SCHEMA, Tool, summarize};

pub(crate) use case::Case;
pub(crate) use discovery::discover;
pub(crate) use journal::Journal;
pub(crate) use plan::{Isolation, Plan};
pub(crate) use progress::Progress;

use case::{Ended, micros};
use group::Held;
use halt::Halt;
use lanes::{Turn, side_by_side};
use place::Drivers;
use results::Results;
use units::{Machine, units};

/// The most processes that wait for the scenarios without busy ones beside them: each has contexts of the GPU.
const MOST_HELD: usize = 8;

impl Plan {
    /// Runs the cases. Scenarios measure descriptors and memory of their own process only, so several processes may run
    /// at once, as far as each scenario permits ([`Beside`]). At the end, failed cases run again alone.
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
        let mut report = self.begun(environment);
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
            self.run_units(self.options(under_test, &halt, evidence), Machine::of(environment), cases, &to_run, &ended);
            let options = self.options(under_test, &repetitions, evidence);
            results.repeat(&repetitions, |index| group::run_alone(options, cases[index]));
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

    /// The report of a run without results.
    fn begun(&self, environment: &Environment) -> Report {
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
    ) -> group::Options<'a> {
        let (seeds, timeout, calls) = (self.seeds, self.timeout, self.calls);
        group::Options { backend: under_test.name(), device: self.device, seeds, timeout, calls, halt, evidence }
    }

    /// Runs cases in other processes.
    fn run_units(
        &self,
        options: group::Options<'_>,
        machine: Machine,
        cases: &[Case<'_>],
        to_run: &[usize],
        ended: &(impl Fn(usize, Ended, Duration) + Sync),
    ) {
        let of = |unit: &[usize]| -> Vec<Case<'_>> { unit.iter().map(|index| cases[*index]).collect() };
        let hold = |unit: &Vec<usize>| Held::start(options, &of(unit));
        let run = |unit: &Vec<usize>, held: Option<Held<'_>>, turn: Option<Turn<'_>>| {
            group::run(options, &of(unit), held, turn, |place, end, took| ended(unit[place], end, took));
        };
        let jobs = self.jobs.get();
        let units = units(self.isolation, jobs, machine, cases, to_run);
        if jobs == 1 {
            // A process that starts would be beside scenarios that run alone.
            return units.iter().for_each(|unit| run(unit, None, None));
        }
        let in_turn = |unit: &Vec<usize>, held: Option<Held<'_>>, turn: Turn<'_>| run(unit, held, Some(turn));
        let beside = |kind| move |unit: &Vec<usize>| machine.beside(cases[unit[0]].scenario) == kind;
        let (mostly_wait, others): (Vec<_>, Vec<_>) = units.into_iter().partition(beside(Beside::All));
        let (busy, last): (Vec<_>, Vec<_>) = others.into_iter().partition(beside(Beside::Any));
        let (mut beside_waiting, alone): (Vec<_>, Vec<_>) = last.into_iter().partition(beside(Beside::Waiting));
        // Scenarios that count resources come last: most processes beside them have started by then.
        beside_waiting.sort_by_key(|unit| cases[unit[0]].scenario.counts_resources);
        // As many that mostly wait run beside the busy ones: left for later, the start of their drivers would delay those
        // that come last.
        let held = std::thread::scope(|scope| {
            scope.spawn(|| side_by_side(jobs, &mostly_wait, &|_| None, &in_turn, || ()));
            let hold_last = || beside_waiting.iter().chain(&alone).take(MOST_HELD).map(hold).collect::<Vec<_>>();
            let mut held = side_by_side(jobs, &busy, &hold, &in_turn, hold_last);
            // No process starts beside scenarios that measure the free memory of the GPU.
            held.iter_mut().flatten().for_each(|held| held.wait_until_open(Scenario::TIME_LIMIT));
            let held = Mutex::new(held.into_iter());
            let next = |_: &Vec<usize>| held.lock().unwrap_or_else(PoisonError::into_inner).next().flatten();
            side_by_side(1, &beside_waiting, &next, &in_turn, || ());
            held.into_inner().unwrap_or_else(PoisonError::into_inner)
        });
        for (unit, held) in alone.iter().zip(held.chain(std::iter::repeat_with(|| None))) {
            run(unit, held, None);
        }
    }

    /// Runs cases in this process.
    fn run_here(
        &self,
        options: group::Options<'_>,
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
