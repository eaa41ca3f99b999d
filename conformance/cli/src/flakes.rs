//! `--flaky`: the effect of flaky cases on the exit status.

use clap::ValueEnum;
use gpu_interop_conformance::Outcome;

use crate::report::CaseReport;

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
