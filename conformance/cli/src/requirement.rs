//! The backends and exporters that a run must use (`--require`), and the exit status.

use gpu_interop_conformance::{BACKEND_NAMES, ExporterName, Outcome, Stop, Suite, Verdict};

use crate::exit_status::{FAILED, GPU_LOST};
use crate::flakes::Flakes;
use crate::report::{CaseReport, Cause, Environment, Report};
use gpu_interop_conformance::ensure;

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

#[cfg(test)]
mod tests;
