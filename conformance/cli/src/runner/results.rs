//! Results of a run, as its cases end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gpu_interop_conformance::{Outcome, Stop};

use super::case::{Case, Ended, Run};
use super::discovery::discover;
use super::halt::Halt;
use super::journal::Journal;
use super::judge::judge;
use super::lost;
use super::place::Drivers;
use super::plan::Plan;
use super::progress::Progress;
use super::resume::Earlier;
use crate::report::{CaseReport, Environment, Stopped};

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
                Ended { kernel_log, sensors, ..Ended::left(Stop::Skipped(reason)) }
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
        let known = std::mem::take(&mut *self.results.lock().unwrap_or_else(PoisonError::into_inner));
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
        if let Some(place) = self.results.lock().unwrap_or_else(PoisonError::into_inner).get_mut(index) {
            *place = Some(result);
        }
    }

    fn lock_failed(&self) -> MutexGuard<'_, Vec<(usize, Run)>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
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
        if !self.plan.is_isolated() || !lost::is_suspect(ended) {
            return;
        }
        let (plan, before) = (self.plan, self.environment);
        let now = || discover(&before.backend.name, plan.device, &plan.exporters);
        self.halt.check_gpu(&self.case(index).name(), || lost::missing(before, now()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_flakes_run_more_often() {
        assert_eq!([0.001, 0.05, 0.3, 0.5, 0.9].map(retries_for), [0, 1, 3, 6, MOST_RETRIES]);
    }
}
