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

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
        let place = Place { machine: MACHINE, scenario: &SCENARIO, exporter: "none", exporter_driver: None };
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
}
