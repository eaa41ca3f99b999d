//! `run --baseline`: failures known from an earlier report do not fail the run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gpu_interop_conformance::{Outcome, Stop, Verdict};

use crate::diff::{Change, Difference, Kind, Timing, compare, line};
use crate::output::say;
use crate::report::{Merged, case_name, merge};
use crate::requirement::Flakes;

/// An earlier report.
#[derive(Debug)]
pub(crate) struct Baseline {
    path: PathBuf,
    report: Merged,
}

/// The kinds of differences that a run prints.
const SHOWN: [Kind; 5] = [Kind::New, Kind::Flaky, Kind::Stopped, Kind::Changed, Kind::Fixed];

impl Baseline {
    /// Reads a report of `run` or `merge`.
    ///
    /// # Errors
    /// If it cannot be read, or has no report of a run.
    pub(crate) fn read(path: &Path) -> Verdict<Self> {
        let report = merge::read(path)?;
        if report.reports.is_empty() {
            return Err(Stop::failed(format!("--baseline {}: it has no report of `conformance run`", path.display())));
        }
        Ok(Self { path: path.to_owned(), report })
    }

    /// Prints the differences of a run from the baseline, and returns the run with known failures as expected ones:
    /// for the exit status and for CI systems.
    ///
    /// # Errors
    /// If the baseline is of other devices.
    pub(crate) fn apply(&self, run: &Merged, flakes: Flakes) -> Verdict<Merged> {
        let of_baseline = |stop: Stop| Stop::failed(format!("--baseline {}: {}", self.path.display(), stop.reason()));
        let difference = compare(&[&self.report], &[run], Timing::Ignored).map_err(of_baseline)?;
        let judged = self.without_known_failures(&difference, run, flakes);
        let mut counts = Vec::new();
        for kind in SHOWN {
            let changes: Vec<&Change> = difference.of(kind).collect();
            changes.iter().for_each(|change| say!("{}", line(change)));
            if !changes.is_empty() {
                counts.push(format!("{} {kind}", changes.len()));
            }
        }
        let failures = |merged: &Merged| {
            let results = merged.reports.iter().flat_map(|sourced| &sourced.report.results);
            results.filter(|case| flakes.fails(case)).count()
        };
        let known = failures(run) - failures(&judged);
        counts.push(format!("{known} known failures"));
        say!("baseline {}: {}", self.path.display(), counts.join(", "));
        Ok(judged)
    }

    /// The run, with failures of the baseline as expected failures.
    fn without_known_failures(&self, difference: &Difference, run: &Merged, flakes: Flakes) -> Merged {
        let new: BTreeSet<(&str, &str)> = [Kind::New, Kind::Flaky]
            .into_iter()
            .flat_map(|kind| difference.of(kind))
            .map(|change| (change.source.as_str(), change.case.as_str()))
            .collect();
        let mut judged = run.clone();
        let only = judged.reports.len() == 1;
        for sourced in &mut judged.reports {
            let source = if only { "" } else { sourced.source.as_str() };
            for case in &mut sourced.report.results {
                let name = case_name(&case.id, case.exporter);
                if flakes.fails(case) && !new.contains(&(source, name.as_str())) {
                    let reason = case.reason.take().unwrap_or_default();
                    let outcome = std::mem::replace(&mut case.outcome, Outcome::ExpectedFailure);
                    let path = self.path.display();
                    case.reason = Some(format!("{outcome}, as in the baseline {path}: {reason}"));
                }
            }
        }
        judged
    }
}
