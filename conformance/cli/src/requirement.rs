//! The exit status of a run: `--require`, `--flaky`.

use clap::ValueEnum;
use gpu_interop_conformance::{BACKEND_NAMES, ExporterName, Outcome, Stop, Suite, Verdict, ensure};

use crate::cli::{FAILED, GPU_LOST};
use crate::report::{CaseReport, Cause, Environment, Report};

/// A requirement of `--require`.
pub(crate) enum Requirement {
    Backend(String),
    Exporter(ExporterName),
}

/// Parses requirements. Rejects unknown names.
pub(crate) fn parse(suite: &Suite, names: &[String]) -> Verdict<Vec<Requirement>> {
    names
        .iter()
        .map(|name| {
            if let Ok(exporter) = name.to_lowercase().parse::<ExporterName>() {
                return if ExporterName::of_this_system().contains(&exporter) {
                    Ok(Requirement::Exporter(exporter))
                } else {
                    Err(Stop::failed(format!(
                        "--require {name}: Direct3D is part of Windows, and this is another system"
                    )))
                };
            }
            let known = BACKEND_NAMES.iter().any(|backend| backend.to_string() == *name);
            if known || suite.backend(name).is_ok() {
                return Ok(Requirement::Backend(name.clone()));
            }
            Err(Stop::failed(format!("--require {name}: unknown backend or exporter")))
        })
        .collect()
}

/// Fails if a run in this environment cannot meet the requirements.
pub(crate) fn check(required: &[Requirement], environment: &Environment) -> Verdict {
    for requirement in required {
        match requirement {
            Requirement::Backend(name) if *name != environment.backend.name => {
                let why = environment.passed_over.iter().find(|attempt| attempt.target == *name);
                let why = why.map_or_else(
                    || format!("choose it with --backend {name} or GPU_INTEROP_BACKEND={name}"),
                    |attempt| attempt.reason.clone(),
                );
                return Err(Stop::failed(format!(
                    "--require {name}: this run would use the backend {}; {why}",
                    environment.backend.name
                )));
            }
            Requirement::Exporter(name) => match environment.exporter(*name) {
                Some(exporter) if exporter.available.is_some() => {}
                Some(exporter) => {
                    let why = exporter.stop.as_ref().map_or("no reason", Stop::reason);
                    return Err(Stop::failed(format!("--require {name}: the exporter cannot be used: {why}")));
                }
                None => {
                    return Err(Stop::failed(format!("--require {name}: --exporter excludes it from this run")));
                }
            },
            Requirement::Backend(_) => {}
        }
    }
    Ok(())
}

pub(crate) fn status_of(report: &Report, required: &[Requirement], flakes: Flakes) -> Verdict<u8> {
    if report.stopped.as_ref().is_some_and(|stopped| stopped.cause == Cause::GpuLost) {
        return Ok(GPU_LOST);
    }
    if report.results.iter().any(|case| flakes.fails(case)) {
        return Ok(FAILED);
    }
    if let Some(stopped) = &report.stopped {
        return Err(Stop::failed(format!("{stopped}; remaining scenarios count as skipped")));
    }
    let has_run = |exporter: Option<ExporterName>| {
        let is_of = |case: &&CaseReport| exporter.is_none() || case.exporter == exporter;
        let mut cases = report.results.iter().filter(is_of);
        // All cases of a shard may be unsupported: `merge --fail` judges the joined run.
        let is_left_to_others =
            report.shard.is_some() && cases.clone().all(|case| case.outcome == Outcome::Unsupported);
        is_left_to_others || cases.any(|case| case.outcome.ran())
    };
    ensure!(
        has_run(None),
        "nothing ran: every scenario was skipped or is unsupported, for the reasons above; `conformance doctor` says what to install"
    );
    for requirement in required {
        let Requirement::Exporter(name) = requirement else { continue };
        if !has_run(Some(*name)) {
            return Err(Stop::failed(format!("--require {name}: no scenario ran with this exporter")));
        }
    }
    Ok(0)
}

/// The effect of flaky cases on the exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Flakes {
    /// A flaky case fails the run, unless a `[[flaky]]` expectation declares it.
    Fail,
    /// Flaky cases are reported and do not fail the run. The default, as in deqp-runner.
    #[default]
    Report,
}

impl Flakes {
    /// `true` if this case fails the run.
    pub(crate) fn fails(self, case: &CaseReport) -> bool {
        let counts = self == Self::Fail && case.flake_rate.is_none();
        case.outcome.is_failure() || (counts && case.outcome == Outcome::Flaky)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use gpu_interop::{BackendInfo, Capabilities, DeviceIdentity};
    use gpu_interop_conformance::{ExporterDetail, ExporterReport};

    use crate::cli::NOT_RUN;
    use crate::report::{SCHEMA, Shard, Stopped, Tool, summarize};

    use super::*;

    fn backend() -> BackendInfo {
        BackendInfo::new("host", "none")
    }

    fn case(id: &str, exporter: Option<ExporterName>, outcome: Outcome) -> CaseReport {
        CaseReport {
            id: id.into(),
            exporter,
            outcome,
            reason: None,
            error: None,
            observed: Vec::new(),
            left_out: Vec::new(),
            pairs: None,
            work: None,
            log: None,
            calls: None,
            kernel_log: Vec::new(),
            sensors: None,
            attempts: Vec::new(),
            flake_rate: None,
            duration_us: 0,
        }
    }

    fn report(results: Vec<CaseReport>) -> Report {
        Report {
            schema: SCHEMA,
            tool: Tool::this(),
            started: None,
            seed: 1,
            build: None,
            repeat: NonZeroU32::MIN,
            backend: backend(),
            emulated: None,
            device: DeviceIdentity::default(),
            host: None,
            capabilities: Capabilities::none(),
            exporters: Vec::new(),
            cases: None,
            shard: None,
            shards: Vec::new(),
            resumed: Vec::new(),
            stopped: None,
            summary: summarize(&results),
            results,
            kernel_log: Vec::new(),
            duration_us: 0,
        }
    }

    /// The command's exit status.
    fn status(results: Vec<CaseReport>, required: &[Requirement]) -> u8 {
        status_of(&report(results), required, Flakes::Report).unwrap_or(NOT_RUN)
    }

    /// The exit status of a run with this outcome only.
    fn alone(outcome: Outcome) -> u8 {
        match outcome {
            Outcome::Passed | Outcome::ExpectedFailure | Outcome::Flaky => 0,
            Outcome::Failed | Outcome::Crashed | Outcome::TimedOut | Outcome::UnexpectedPass => 1,
            Outcome::Unsupported | Outcome::Skipped => 2,
        }
    }

    #[test]
    fn every_outcome_has_its_exit_status() {
        for outcome in Outcome::ALL {
            assert_eq!(status(vec![case("a.b", None, outcome)], &[]), alone(outcome), "{outcome}");
        }
        assert_eq!(status(Vec::new(), &[]), 2, "a run of nothing");
    }

    /// Its other cases are in other shards.
    #[test]
    fn a_shard_may_have_nothing_to_run() {
        let native = [Requirement::Exporter(ExporterName::Native)];
        for outcome in Outcome::ALL {
            let mut run = report(vec![case("a.b", None, outcome)]);
            let shard = Shard { index: 1, count: 2, total: 2, cases_sha256: String::new(), positions: vec![0] };
            run.shard = Some(shard);
            let expected = if outcome == Outcome::Unsupported { 0 } else { alone(outcome) };
            for required in [&[], native.as_slice()] {
                assert_eq!(status_of(&run, required, Flakes::Report).unwrap_or(NOT_RUN), expected, "{outcome}");
            }
            run.results.push(case("a.c", Some(ExporterName::Native), Outcome::Skipped));
            let skipped = status_of(&run, &native, Flakes::Report).unwrap_or(NOT_RUN);
            assert_eq!(skipped, if outcome.is_failure() { 1 } else { 2 }, "{outcome}");
        }
    }

    #[test]
    fn one_failure_among_others_fails_the_run_wherever_it_is() {
        for outcome in Outcome::ALL {
            for index in 0..3 {
                let mut results = vec![case("a.b", None, Outcome::Passed); 3];
                results[index].outcome = outcome;
                let expected = u8::from(alone(outcome) == 1);
                assert_eq!(status(results, &[]), expected, "{outcome} at {index}");
                let mut idle = vec![case("a.b", None, Outcome::Skipped); 3];
                idle[index].outcome = outcome;
                assert_eq!(status(idle, &[]), alone(outcome), "{outcome} at {index} of what did not run");
            }
        }
    }

    /// A flaky case fails the run if requested, unless an expectation declares it.
    #[test]
    fn flaky_cases_fail_a_run_on_request() {
        let flaky = |flake_rate| CaseReport { flake_rate, ..case("a.b", None, Outcome::Flaky) };
        for (flake_rate, status) in [(None, 1), (Some(0.1), 0)] {
            let report = report(vec![case("c.d", None, Outcome::Passed), flaky(flake_rate)]);
            assert_eq!(status_of(&report, &[], Flakes::Fail), Ok(status));
            assert_eq!(status_of(&report, &[], Flakes::Report), Ok(0));
        }
    }

    /// A lost GPU takes precedence over failures; other early ends are no success.
    #[test]
    fn a_run_that_stopped_is_no_success() {
        for (cause, passed, failed) in
            [(Cause::GpuLost, 3, 3), (Cause::MaxFailures, NOT_RUN, 1), (Cause::Interrupted, NOT_RUN, 1)]
        {
            for (outcome, status) in [(Outcome::Passed, passed), (Outcome::Failed, failed)] {
                let mut report = report(vec![case("a.b", None, outcome)]);
                report.stopped = Some(Stopped { cause, reason: "a reason".into() });
                assert_eq!(status_of(&report, &[], Flakes::Report).unwrap_or(NOT_RUN), status, "{cause:?}, {outcome}");
            }
        }
    }

    /// Neither a case that did not run nor a case of another exporter satisfies `--require` of an exporter.
    #[test]
    fn a_requirement_is_met_only_by_what_ran() {
        let vulkan = || [Requirement::Exporter(ExporterName::Vulkan)];
        for outcome in Outcome::ALL {
            let with = |exporter| vec![case("a.b", None, Outcome::Passed), case("c.d", exporter, outcome)];
            let met = match outcome {
                Outcome::Passed | Outcome::ExpectedFailure | Outcome::Flaky => 0,
                Outcome::Unsupported | Outcome::Skipped => 2,
                _ => 1,
            };
            assert_eq!(status(with(Some(ExporterName::Vulkan)), &vulkan()), met, "{outcome}");
            for other in [None, Some(ExporterName::Native), Some(ExporterName::D3d12)] {
                let expected = if alone(outcome) == 1 { 1 } else { 2 };
                assert_eq!(status(with(other), &vulkan()), expected, "{outcome} with {other:?}");
            }
        }
        // Each of several.
        let both = [Requirement::Exporter(ExporterName::Vulkan), Requirement::Exporter(ExporterName::Native)];
        let passed = |exporter| case("c.d", Some(exporter), Outcome::Passed);
        assert_eq!(status(vec![passed(ExporterName::Vulkan), passed(ExporterName::Native)], &both), 0);
        assert_eq!(status(vec![passed(ExporterName::Vulkan)], &both), 2);
        assert_eq!(status(vec![passed(ExporterName::Native)], &both), 2);
    }

    #[test]
    fn a_backend_or_exporter_that_is_required_must_be_the_one_that_is_used() {
        let detail = ExporterDetail { device: DeviceIdentity::default(), driver: "one".into() };
        let exporter = |name, available, stop| ExporterReport { name, available, stop };
        let environment = Environment {
            backend: backend(),
            emulated: None,
            device: DeviceIdentity::default(),
            devices: Vec::new(),
            capabilities: Capabilities::none(),
            exporters: vec![
                exporter(ExporterName::Native, Some(detail), None),
                exporter(ExporterName::Vulkan, None, Some(Stop::skipped("no loader".into()))),
            ],
            passed_over: Vec::new(),
        };
        let check = |requirement| super::check(&[requirement], &environment);
        assert_eq!(check(Requirement::Backend("host".into())), Ok(()));
        assert_eq!(check(Requirement::Exporter(ExporterName::Native)), Ok(()));
        let rejected = |requirement, part: &str| match check(requirement) {
            Err(stop) if stop.is_failure() => assert!(stop.reason.contains(part), "{stop}"),
            other => panic!("{part}: {other:?}"),
        };
        rejected(Requirement::Backend("cuda".into()), "this run would use the backend host");
        rejected(Requirement::Exporter(ExporterName::Vulkan), "cannot be used: no loader");
        rejected(Requirement::Exporter(ExporterName::D3d12), "--exporter excludes it");
    }

    #[test]
    fn summaries_count_every_outcome() {
        let results: Vec<CaseReport> = Outcome::ALL
            .iter()
            .enumerate()
            .flat_map(|(count, outcome)| vec![case("a.b", None, *outcome); count + 1])
            .collect();
        let summary = summarize(&results);
        for (count, outcome) in Outcome::ALL.iter().enumerate() {
            assert_eq!(summary.get(outcome.name()), Some(&(count + 1)), "{outcome}");
        }
        assert_eq!(summary.len(), Outcome::ALL.len());
        assert!(summarize(&[]).values().all(|count| *count == 0));
    }
}
