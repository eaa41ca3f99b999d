//! Results that are known before a run, and results with respect to expectations.

use gpu_interop_conformance::{BackendUnderTest, Expectations, ExporterName, Outcome, Place, Setup};

use super::case::{Case, Ended, Run, micros};
use super::plan::Plan;
use crate::report::{Attempt, CaseReport, Environment};

impl Plan {
    /// The result of a case that is known without running it.
    pub(super) fn known_before(
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
}

/// The report of a case that ran these times, and has no runs left. The last run of several that failed may have passed.
pub(super) fn judge(expectations: &Expectations, place: &Place<'_>, case: &Case<'_>, mut runs: Vec<Run>) -> CaseReport {
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
        observed: ended.recorded.observed,
        left_out: ended.recorded.left_out,
        log: ended.log.filter(|log| outcome.is_failure() && !log.is_empty()),
        calls: ended.calls.filter(|_| outcome.is_failure()),
        kernel_log,
        sensors: ended.sensors,
        attempts,
        flake_rate: flake.map(|flake| flake.rate),
        duration_us: took,
    }
}

/// The result of every case of an unavailable exporter: skipped if the machine lacks it, unsupported if the
/// device does, failed if it is broken.
fn not_available(environment: &Environment, name: ExporterName) -> Option<Ended> {
    environment.exporter(name)?.stop.clone().map(|stop| Ended::of(Err(stop)))
}
