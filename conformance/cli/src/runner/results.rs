//! Results of a run, as its cases end: repetitions, and judgement with respect to expectations.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use gpu_interop::sync::lock;
use gpu_interop_conformance::{Expectations, Outcome, Place, Stop};

use super::case::{Case, Drivers, Ended, Run, micros};
use super::halt::{self, Halt};
use super::journal::{Earlier, Journal};
use super::progress::Progress;
use super::{Plan, discover};
use crate::report::{Attempt, CaseReport, Environment, Stopped};

/// The most runs of a case that an expectation declares flaky, after the first one.
const MOST_RETRIES: u32 = 20;
/// The probability at which a declared flake fails in all of its runs.
const UNLIKELY: f64 = 0.01;

/// The results of a run.
pub(super) struct Results<'a> {
    plan: &'a Plan,
    environment: &'a Environment,
    drivers: &'a Drivers,
    cases: &'a [Case<'a>],
    progress: &'a Progress,
    halt: &'a Halt,
    journal: Option<&'a Journal>,
    results: Mutex<Vec<Option<CaseReport>>>,
    /// Set if the end of the run has left a case out.
    has_left: AtomicBool,
    /// Cases that failed once and run again, with that run.
    failed: Mutex<Vec<(usize, Run)>>,
}

impl<'a> Results<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        environment: &'a Environment,
        drivers: &'a Drivers,
        cases: &'a [Case<'a>],
        progress: &'a Progress,
        halt: &'a Halt,
        journal: Option<&'a Journal>,
    ) -> Self {
        let results = Mutex::new(vec![None; cases.len()]);
        Self {
            plan,
            environment,
            drivers,
            cases,
            progress,
            halt,
            journal,
            results,
            has_left: AtomicBool::new(false),
            failed: Mutex::default(),
        }
    }

    /// Takes the result of an earlier process, or its first run of a case that runs again. `false` if the case did not
    /// run.
    pub(super) fn is_known(&self, index: usize, earlier: &mut Earlier) -> bool {
        let name = self.case(index).name();
        if let Some(result) = earlier.results.remove(&name) {
            if result.outcome.is_failure() {
                self.halt.count_failure();
            }
            self.progress.known();
            self.keep(index, result);
            return true;
        }
        let first = earlier.failed.remove(&name);
        let is_known = first.is_some();
        if let Some(first) = first {
            self.halt.count_failure();
            self.lock_failed().push((index, Run::of_report(first)));
        }
        is_known
    }

    /// The first run of a case has ended.
    pub(super) fn ended(&self, index: usize, ended: Ended, took: Duration) {
        let ended = if self.halt.is_lost() { self.after_loss(ended) } else { ended };
        // Relaxed: read after all threads have ended.
        self.has_left.fetch_or(ended.is_left, Ordering::Relaxed);
        let run = Run { ended, took };
        if !self.is_unexpected(index, &run.ended) {
            let is_final = !run.ended.is_left;
            return self.finish(index, vec![run], is_final);
        }
        self.check_gpu(index, &run.ended);
        self.halt.count_failure();
        if self.retries(index) == 0 || self.halt.is_lost() {
            return self.finish(index, vec![run], true);
        }
        if let Some(journal) = self.journal {
            journal.failed(self.plan.device, run.to_report(self.case(index)));
        }
        self.progress.failed(&self.case(index).name(), &run);
        self.lock_failed().push((index, run));
    }

    /// The result of a case that ended after the GPU was lost: a failure is not its own.
    fn after_loss(&self, ended: Ended) -> Ended {
        match (ended.outcome.is_failure(), self.halt.stop()) {
            (true, Some(stop)) => {
                let failure = ended.reason.as_deref().unwrap_or("no reason");
                let reason = format!("{} (it ran at that time, and {}: {failure})", stop.reason(), ended.outcome);
                let Ended { kernel_log, sensors, .. } = ended;
                Ended { kernel_log, sensors, ..Ended::left(Stop::skipped(reason)) }
            }
            _ => ended,
        }
    }

    /// Runs each failed case again, alone, until it passes or has no runs left. `again` runs one.
    pub(super) fn repeat(&self, halt: &Halt, again: impl Fn(usize) -> Run) {
        let mut failed = std::mem::take(&mut *self.lock_failed());
        failed.sort_by_key(|(index, _)| *index);
        for (index, first) in failed {
            let mut runs = vec![first];
            let mut is_final = true;
            for _ in 0..self.retries(index) {
                if self.halt.is_lost() || halt.stop().is_some() {
                    is_final = false;
                    break;
                }
                let run = again(index);
                if run.ended.is_left {
                    is_final = false;
                    break;
                }
                self.check_gpu(index, &run.ended);
                let is_last = run.ended.outcome == Outcome::Passed || self.halt.is_lost();
                runs.push(run);
                if is_last {
                    break;
                }
            }
            // A continued run repeats the case.
            self.has_left.fetch_or(!is_final, Ordering::Relaxed);
            self.finish(index, runs, is_final);
        }
    }

    /// All results, in the order of the cases. A case missing from the report would go unnoticed: it failed.
    pub(super) fn take(&self) -> Vec<CaseReport> {
        let known = std::mem::take(&mut *lock(&self.results));
        let lost = |index| self.judged(index, Vec::new());
        known.into_iter().enumerate().map(|(index, result)| result.unwrap_or_else(|| lost(index))).collect()
    }

    /// The cause of an early end that left cases out, or of a lost GPU.
    pub(super) fn stopped(&self) -> Option<Stopped> {
        let matters = self.has_left.load(Ordering::Relaxed) || self.halt.is_lost();
        self.halt.stopped().filter(|_| matters)
    }

    /// A case has no runs left in this process. `is_final` unless a continued run makes up for what this one leaves out.
    fn finish(&self, index: usize, runs: Vec<Run>, is_final: bool) {
        let result = self.judged(index, runs);
        self.progress.finished(&result);
        if let Some(journal) = self.journal.filter(|_| is_final) {
            journal.case(self.plan.device, result.clone());
        }
        self.keep(index, result);
    }

    fn keep(&self, index: usize, result: CaseReport) {
        if let Some(place) = lock(&self.results).get_mut(index) {
            *place = Some(result);
        }
    }

    fn lock_failed(&self) -> MutexGuard<'_, Vec<(usize, Run)>> {
        lock(&self.failed)
    }

    fn judged(&self, index: usize, runs: Vec<Run>) -> CaseReport {
        let case = self.case(index);
        judge(&self.plan.expectations, &self.drivers.place(self.environment, case), case, runs)
    }

    fn case(&self, index: usize) -> &Case<'a> {
        &self.cases[index]
    }

    /// `true` for a failure that no expectation declares.
    fn is_unexpected(&self, index: usize, ended: &Ended) -> bool {
        let place = self.drivers.place(self.environment, self.case(index));
        ended.outcome.is_failure() && self.plan.expectations.judge(&place, ended.outcome).0.is_failure()
    }

    /// How often a failed case runs again. A declared flake runs often enough to pass.
    fn retries(&self, index: usize) -> u32 {
        if self.plan.retries == 0 {
            return 0;
        }
        let place = self.drivers.place(self.environment, self.case(index));
        let flake = self.plan.expectations.flake(&place);
        flake.map_or(0, |flake| retries_for(flake.rate)).max(self.plan.retries)
    }

    /// Stops the run if the GPU is lost.
    fn check_gpu(&self, index: usize, ended: &Ended) {
        if !self.plan.is_isolated() || !halt::is_suspect(ended) {
            return;
        }
        let (plan, before) = (self.plan, self.environment);
        let now = || discover(&before.backend.name, plan.device, &plan.exporters);
        self.halt.check_gpu(&self.case(index).name(), || halt::missing(before, now()));
    }
}

/// The number of further runs after which a case that fails at this rate has most likely passed once.
fn retries_for(rate: f64) -> u32 {
    let (mut retries, mut all_fail) = (0, rate);
    while all_fail > UNLIKELY && retries < MOST_RETRIES {
        retries += 1;
        all_fail *= rate;
    }
    retries
}

/// The report of a case that ran these times, and has no runs left. The last run of several that failed may have passed.
fn judge(expectations: &Expectations, place: &Place<'_>, case: &Case<'_>, mut runs: Vec<Run>) -> CaseReport {
    let attempts: Vec<Attempt> = if runs.len() > 1 { runs.iter().map(Run::attempt).collect() } else { Vec::new() };
    let kernel_log = runs.iter().flat_map(|run| run.ended.kernel_log.iter().cloned()).collect();
    let flake = expectations.flake(place);
    let is_flaky = attempts.last().is_some_and(|last| last.outcome == Outcome::Passed);
    let decisive = if is_flaky { runs.pop() } else { runs.into_iter().next() };
    let (ended, took) = decisive.map_or_else(
        || (Ended::without_log(Outcome::Failed, Some(format!("the suite has lost {}", case.scenario.id))), 0),
        |Run { ended, took }| (ended, micros(took)),
    );
    let (outcome, expected) = if is_flaky { (Outcome::Flaky, None) } else { expectations.judge(place, ended.outcome) };
    let reason = if is_flaky {
        let first = attempts.iter().find_map(|attempt| attempt.reason.as_deref()).unwrap_or("no reason");
        Some(format!("{}: {first}", Attempt::counted(&attempts)))
    } else {
        ended.reason
    };
    let declared = flake.as_ref().filter(|_| outcome == Outcome::Flaky || outcome.is_failure());
    let expected = expected.or_else(|| declared.map(|flake| flake.reason.clone()));
    let reason = match (expected, reason) {
        (Some(expected), Some(reason)) => Some(format!("{expected} ({reason})")),
        (Some(expected), None) => Some(format!("passed, but was expected to fail: {expected}")),
        (None, reason) => reason,
    };
    CaseReport {
        id: case.scenario.id.into(),
        exporter: case.exporter,
        outcome,
        reason,
        error: ended.error,
        observed: ended.recorded.observed,
        left_out: ended.recorded.left_out,
        pairs: ended.recorded.pairs,
        work: ended.recorded.work,
        log: ended.log.filter(|log| outcome.is_failure() && !log.is_empty()),
        calls: ended.calls.filter(|_| outcome.is_failure()),
        kernel_log,
        sensors: ended.sensors,
        attempts,
        flake_rate: flake.map(|flake| flake.rate),
        duration_us: took,
    }
}

#[cfg(test)]
mod tests {
    use gpu_interop_conformance::{Exporters, Machine, Scenario};

    use super::*;
    use crate::evidence::KernelLine;

    const SCENARIO: Scenario = Scenario::new("a.b", Exporters::None, "", |_| Ok(()));
    const MACHINE: Machine<'_> = Machine { backend: "x", driver: None, emulated: false, device: "y", os: "linux" };
    const EXPECTED: &str = "[[expected_failure]]\nscenario = 'a.b'\nreason = 'known'\nlink = 'l'\n";
    const FLAKE: &str = "[[flaky]]\nscenario = 'a.b'\nreason = 'seen'\nlink = 'l'\nrate = 0.25\n";

    /// A run with this outcome, whose texts and duration have a number.
    fn run(number: u64, outcome: Outcome) -> Run {
        let line = KernelLine { text: format!("line {number}"), event: None, during: Vec::new() };
        let reason = (outcome != Outcome::Passed).then(|| format!("reason {number}"));
        let log = Some(format!("log {number}"));
        let ended = Ended { log, kernel_log: vec![line], ..Ended::without_log(outcome, reason) };
        Run { ended, took: Duration::from_micros(number) }
    }

    fn judged(expectations: &str, outcomes: &[Outcome]) -> CaseReport {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), expectations).expect("written");
        let expectations = Expectations::read(&[file.path()], false).expect("valid");
        let place =
            Place { machine: MACHINE, scenario: &SCENARIO, exporter: "none", exporter_driver: None, exporter_says: "" };
        let runs = (1..).zip(outcomes).map(|(number, outcome)| run(number, *outcome)).collect();
        judge(&expectations, &place, &Case { scenario: &SCENARIO, exporter: None }, runs)
    }

    #[test]
    fn a_case_is_judged_by_its_runs_and_its_expectations() {
        use Outcome::{
            Crashed, ExpectedFailure, Failed, Flaky, Passed, Skipped, TimedOut, UnexpectedPass, Unsupported,
        };
        for (expectations, runs, outcome, reason, took) in [
            ("", [Passed].as_slice(), Passed, None, 1),
            ("", &[Failed], Failed, Some("reason 1"), 1),
            ("", &[Skipped], Skipped, Some("reason 1"), 1),
            ("", &[Unsupported], Unsupported, Some("reason 1"), 1),
            ("", &[Failed, Passed], Flaky, Some("failed in 1 of 2 runs: reason 1"), 2),
            ("", &[Failed, Crashed, Passed], Flaky, Some("failed in 2 of 3 runs: reason 1"), 3),
            // Its first run is the one beside the others of its group.
            ("", &[Failed, Crashed, TimedOut], Failed, Some("reason 1"), 1),
            ("", &[TimedOut, Failed], TimedOut, Some("reason 1"), 1),
            // No run has passed.
            ("", &[Failed, Skipped], Failed, Some("reason 1"), 1),
            ("", &[Failed, Unsupported], Failed, Some("reason 1"), 1),
            (EXPECTED, &[Failed], ExpectedFailure, Some("known [l] (reason 1)"), 1),
            (EXPECTED, &[Crashed], ExpectedFailure, Some("known [l] (reason 1)"), 1),
            (EXPECTED, &[TimedOut], ExpectedFailure, Some("known [l] (reason 1)"), 1),
            (EXPECTED, &[Skipped], Skipped, Some("reason 1"), 1),
            (EXPECTED, &[Passed], UnexpectedPass, Some("passed, but was expected to fail: known [l]"), 1),
            (FLAKE, &[Passed], Passed, None, 1),
            (FLAKE, &[Failed, Passed], Flaky, Some("seen [l] (failed in 1 of 2 runs: reason 1)"), 2),
            (FLAKE, &[Failed, Failed], Failed, Some("seen [l] (reason 1)"), 1),
            (FLAKE, &[Skipped], Skipped, Some("reason 1"), 1),
        ] {
            let case = judged(expectations, runs);
            assert_eq!((case.outcome, case.reason.as_deref(), case.duration_us), (outcome, reason, took), "{runs:?}");
            let attempts: Vec<Outcome> = case.attempts.iter().map(|attempt| attempt.outcome).collect();
            assert_eq!(attempts, if runs.len() > 1 { runs } else { &[] }, "{runs:?}");
            // The kernel's messages of every run, the log of a failure only.
            assert_eq!(case.kernel_log.len(), runs.len(), "{runs:?}");
            assert_eq!(case.log.is_some(), outcome.is_failure(), "{runs:?}");
            assert_eq!(case.flake_rate, (expectations == FLAKE).then_some(0.25), "{runs:?}");
        }
    }

    #[test]
    fn a_case_without_a_run_has_failed() {
        let lost = judged("", &[]);
        assert_eq!((lost.outcome, lost.reason.as_deref()), (Outcome::Failed, Some("the suite has lost a.b")));
    }

    #[test]
    fn frequent_flakes_run_more_often() {
        assert_eq!([0.001, 0.05, 0.3, 0.5, 0.9].map(retries_for), [0, 1, 3, 6, MOST_RETRIES]);
    }
}
