//! A case, and how it ended.

use gpu_interop_conformance::{ExporterName, Outcome, Recorded, Scenario, Stop, Verdict, execution};

use crate::evidence::{Around, KernelLine};
use crate::report::{CallTrace, case_name};

/// One scenario with one exporter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) exporter: Option<ExporterName>,
}

impl Case<'_> {
    /// `id@exporter`, or `id` alone.
    pub(super) fn name(&self) -> String {
        case_name(self.scenario.id, self.exporter)
    }
}

/// The result of a case before expectations are applied.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    pub(super) reason: Option<String>,
    pub(super) log: Option<String>,
    pub(super) calls: Option<CallTrace>,
    pub(super) recorded: Recorded,
    pub(super) kernel_log: Vec<KernelLine>,
    pub(super) sensors: Option<Around>,
}

impl Ended {
    pub(super) fn ran(ran: execution::Ran) -> Self {
        Self { recorded: ran.recorded, ..Self::of(ran.verdict) }
    }

    pub(super) fn without_log(outcome: Outcome, reason: Option<String>) -> Self {
        Self {
            outcome,
            reason,
            log: None,
            calls: None,
            recorded: Recorded::default(),
            kernel_log: Vec::new(),
            sensors: None,
        }
    }

    pub(super) fn of(verdict: Verdict) -> Self {
        match verdict {
            Ok(()) => Self::without_log(Outcome::Passed, None),
            Err(Stop::Failed(reason)) => Self::without_log(Outcome::Failed, Some(reason)),
            Err(Stop::Unsupported(reason)) => Self::without_log(Outcome::Unsupported, Some(reason)),
            Err(Stop::Skipped(reason)) => Self::without_log(Outcome::Skipped, Some(reason)),
        }
    }
}
