//! A case, how it ended, and how expectations match it.

use std::time::{Duration, Instant};

use gpu_interop_conformance::{
    ErrorReport, ExporterName, ExporterReport, Machine, Outcome, Place, Recorded, Scenario, Stop, StopKind, Verdict,
    Version, execution,
};

use crate::evidence::{Around, KernelLine};
use crate::report::{Attempt, CallTrace, CaseReport, Emulated, Environment, case_name};

/// The exporter's name in expectations for scenarios without one.
pub(super) const NO_EXPORTER: &str = "none";

/// One scenario with one exporter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) exporter: Option<ExporterName>,
}

impl<'a> Case<'a> {
    /// `id@exporter`, or `id` alone.
    pub(crate) fn name(&self) -> String {
        case_name(self.scenario.id, self.exporter)
    }

    /// The part of the scenario's id before the first dot.
    pub(super) fn group(&self) -> &'a str {
        self.scenario.id.split('.').next().unwrap_or_default()
    }
}

/// The result of a case before expectations are applied.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    pub(super) reason: Option<String>,
    /// The library's error behind a failure.
    pub(super) error: Option<ErrorReport>,
    pub(super) log: Option<String>,
    pub(super) calls: Option<CallTrace>,
    pub(super) recorded: Recorded,
    pub(super) kernel_log: Vec<KernelLine>,
    pub(super) sensors: Option<Around>,
    /// The kernel reported an error of the GPU while the case ran.
    pub(super) is_gpu_error: bool,
    /// The time that the scenario took, if it ran to its end and its process did not fail afterwards.
    pub(super) took: Option<Duration>,
    /// `true` if the case did not run to its end, because the run stops.
    pub(super) is_left: bool,
}

/// One run of a case.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) ended: Ended,
    pub(super) took: Duration,
}

impl Run {
    /// As the journal has it: before expectations.
    pub(super) fn to_report(&self, case: &Case<'_>) -> CaseReport {
        let Ended { outcome, reason, error, log, calls, recorded, kernel_log, sensors, .. } = &self.ended;
        CaseReport {
            id: case.scenario.id.into(),
            exporter: case.exporter,
            outcome: *outcome,
            reason: reason.clone(),
            error: error.clone(),
            observed: recorded.observed.clone(),
            left_out: recorded.left_out.clone(),
            pairs: recorded.pairs,
            work: recorded.work,
            log: log.clone(),
            calls: calls.clone(),
            kernel_log: kernel_log.clone(),
            sensors: sensors.clone(),
            attempts: Vec::new(),
            flake_rate: None,
            duration_us: micros(self.took),
        }
    }

    /// Reverses [`Run::to_report`].
    pub(super) fn of_report(report: CaseReport) -> Self {
        let CaseReport {
            outcome,
            reason,
            error,
            observed,
            left_out,
            pairs,
            work,
            log,
            calls,
            kernel_log,
            sensors,
            duration_us,
            ..
        } = report;
        let recorded = Recorded { observed, left_out, pairs, work };
        Self {
            ended: Ended { error, log, calls, recorded, kernel_log, sensors, ..Ended::without_log(outcome, reason) },
            took: Duration::from_micros(duration_us),
        }
    }

    pub(super) fn attempt(&self) -> Attempt {
        let Ended { outcome, reason, error, log, calls, .. } = &self.ended;
        Attempt {
            outcome: *outcome,
            reason: reason.clone(),
            error: error.clone(),
            log: log.clone().filter(|log| !log.is_empty()),
            calls: calls.clone().filter(|_| outcome.is_failure()),
            duration_us: micros(self.took),
        }
    }
}

impl Ended {
    /// The duration of the case, which ended now.
    pub(super) fn took_since(&self, start: Instant) -> Duration {
        self.took.unwrap_or_else(|| start.elapsed())
    }

    pub(super) fn ran(ran: execution::Ran) -> Self {
        Self { recorded: ran.recorded, took: ran.took, ..Self::of(ran.verdict) }
    }

    pub(super) fn without_log(outcome: Outcome, reason: Option<String>) -> Self {
        Self {
            outcome,
            reason,
            error: None,
            log: None,
            calls: None,
            recorded: Recorded::default(),
            kernel_log: Vec::new(),
            sensors: None,
            is_gpu_error: false,
            took: None,
            is_left: false,
        }
    }

    /// The result of a case that the end of the run leaves out.
    pub(super) fn left(stop: Stop) -> Self {
        Self { is_left: true, ..Self::of(Err(stop)) }
    }

    pub(super) fn of(verdict: Verdict) -> Self {
        let Err(Stop { kind, reason, error }) = verdict else { return Self::without_log(Outcome::Passed, None) };
        let outcome = match kind {
            StopKind::Failed => Outcome::Failed,
            StopKind::Unsupported => Outcome::Unsupported,
            StopKind::Skipped => Outcome::Skipped,
        };
        Self { error, ..Self::without_log(outcome, Some(reason)) }
    }
}

/// A duration in microseconds, as reports have it.
pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The known driver versions of a run.
pub(super) struct Drivers {
    backend: Option<Version>,
    exporters: Vec<(ExporterName, Option<Version>, String)>,
}

impl Drivers {
    pub(super) fn of(environment: &Environment) -> Self {
        let version = |report: &ExporterReport| {
            let driver = report.available.as_ref().map_or("", |found| found.driver.as_str());
            (report.name, Version::of_driver(driver), driver.to_owned())
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
        let exporter = self.exporters.iter().find(|(name, ..)| Some(*name) == case.exporter);
        Place {
            machine: self.machine(environment),
            scenario: case.scenario,
            exporter: case.exporter.map_or(NO_EXPORTER, ExporterName::name),
            exporter_driver: exporter.and_then(|(_, version, _)| version.as_ref()),
            exporter_says: exporter.map_or("", |(.., driver)| driver),
        }
    }
}
