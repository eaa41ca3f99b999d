//! Runs that stopped before their last case.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a run stopped before its last case. The remaining cases are `skipped`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stopped {
    /// The cause.
    pub cause: Cause,
    /// The reason, for people.
    pub reason: String,
}

/// The cause of an early end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The GPU is lost: a new process cannot open it any more.
    GpuLost,
    /// As many cases failed as `--max-failures` allows.
    MaxFailures,
    /// SIGINT or SIGTERM.
    Interrupted,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}
