//! The runs of a case that failed and ran again.

use gpu_interop_conformance::{ErrorReport, Outcome};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CallTrace;

/// One run of a case that ran several times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// Its outcome, before expectations.
    pub outcome: Outcome,
    /// The reason of an outcome other than `passed`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// The library's error behind a failure.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<ErrorReport>,
    /// The end of its process's output.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub log: Option<String>,
    /// Its driver calls, if it failed in a run with `--verbose`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub calls: Option<CallTrace>,
    /// Duration, microseconds.
    pub duration_us: u64,
}

impl Attempt {
    /// The runs in words: `failed in 1 of 2 runs`.
    pub(crate) fn counted(attempts: &[Self]) -> String {
        let failed = attempts.iter().filter(|attempt| attempt.outcome.is_failure()).count();
        format!("failed in {failed} of {} runs", attempts.len())
    }

    /// Its heading among others: number, outcome and reason.
    pub(crate) fn heading(&self, number: usize) -> String {
        let reason = self.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        format!("run {number}: {}{reason}", self.outcome)
    }
}
