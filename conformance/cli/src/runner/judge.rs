//! Results that are known before a run, and results with respect to expectations.

use gpu_interop_conformance::{
    BackendUnderTest, Expectations, ExporterName, ExporterReport, Machine, Outcome, Place, Setup, Version,
};

use super::case::{Case, Ended, Run};
use super::{Plan, micros};
use crate::report::{Attempt, CaseReport, Emulated, Environment};

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
        attempts,
        flake_rate: flake.map(|flake| flake.rate),
        duration_us: took,
    }
}

/// The exporter's name in expectations for scenarios without one.
pub(super) const NO_EXPORTER: &str = "none";

/// The known driver versions of a run.
pub(super) struct Drivers {
    backend: Option<Version>,
    exporters: Vec<(ExporterName, Option<Version>)>,
}

impl Drivers {
    pub(super) fn of(environment: &Environment) -> Self {
        let version = |report: &ExporterReport| {
            (report.name, report.available.as_ref().and_then(|found| Version::of_driver(&found.driver)))
        };
        let exporters = environment.exporters.iter().map(version).collect();
        // The release of an emulated runtime is more precise than the backend's description.
        let release = environment.emulated.as_ref().and_then(Emulated::version).and_then(Version::of_driver);
        Self { backend: release.or_else(|| Version::of_driver(&environment.backend.driver)), exporters }
    }

    pub(super) fn machine<'a>(&'a self, environment: &'a Environment) -> Machine<'a> {
        Machine {
            backend: &environment.backend.name,
            driver: self.backend.as_ref(),
            emulated: environment.emulated.is_some(),
            device: &environment.device.name,
            os: std::env::consts::OS,
        }
    }

    pub(super) fn place<'a>(&'a self, environment: &'a Environment, case: &Case<'a>) -> Place<'a> {
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
