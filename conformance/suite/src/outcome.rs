//! How a scenario can end.

use std::fmt;

use gpu_interop::{Error, ImportError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The outcome of one scenario with one exporter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Everything it checks held.
    Passed,
    /// Something it checks did not hold.
    Failed,
    /// Its process died.
    Crashed,
    /// It did not end in time.
    TimedOut,
    /// The device or exporter says that it cannot do this. Permanent.
    Unsupported,
    /// This machine lacks something that it needs.
    Skipped,
    /// It failed, and an expectation says that it does for now.
    ExpectedFailure,
    /// It passed although an expectation says that it fails. Counts as a failure: the expectation is stale.
    UnexpectedPass,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 8] = [
        Self::Passed,
        Self::Failed,
        Self::Crashed,
        Self::TimedOut,
        Self::UnexpectedPass,
        Self::ExpectedFailure,
        Self::Unsupported,
        Self::Skipped,
    ];

    /// Whether a run with this outcome has failed.
    #[must_use]
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::Crashed | Self::TimedOut | Self::UnexpectedPass)
    }

    /// Whether the scenario ran, as opposed to being found impossible.
    #[must_use]
    pub fn ran(self) -> bool {
        !matches!(self, Self::Unsupported | Self::Skipped)
    }

    /// The name as reports write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Crashed => "crashed",
            Self::TimedOut => "timed_out",
            Self::Unsupported => "unsupported",
            Self::Skipped => "skipped",
            Self::ExpectedFailure => "expected_failure",
            Self::UnexpectedPass => "unexpected_pass",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why a scenario stopped before its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "stop", content = "reason", rename_all = "snake_case")]
pub enum Stop {
    /// A check did not hold, or something failed that should not.
    #[error("{0}")]
    Failed(String),
    /// The device or exporter cannot do this.
    #[error("unsupported: {0}")]
    Unsupported(String),
    /// This machine lacks something.
    #[error("skipped: {0}")]
    Skipped(String),
}

impl Stop {
    /// The reason alone.
    #[must_use]
    pub fn reason(&self) -> &str {
        let (Self::Failed(reason) | Self::Unsupported(reason) | Self::Skipped(reason)) = self;
        reason
    }
}

/// What a scenario returns: `Ok` if everything it checks held.
pub type Verdict<T = ()> = Result<T, Stop>;

// An error that a scenario did not ask for is a failure, whatever its kind: what a device cannot do is known from its
// capabilities before it is tried.
impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl<R: fmt::Debug> From<ImportError<R>> for Stop {
    fn from(error: ImportError<R>) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

#[cfg(unix)]
impl From<rustix::io::Errno> for Stop {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Failed(std::io::Error::from(errno).to_string())
    }
}

/// Stops the scenario as failed unless a condition holds.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::Stop::Failed(format!($($message)+)));
        }
    };
}

/// Stops the scenario as failed unless two values are equal.
#[macro_export]
macro_rules! ensure_eq {
    ($actual:expr, $expected:expr, $($message:tt)+) => {
        // A match, so that temporaries of either side live to its end.
        match (&$actual, &$expected) {
            (actual, expected) => {
                if actual != expected {
                    let what = format!($($message)+);
                    return Err($crate::Stop::Failed(format!("{what}: expected {expected:?}, found {actual:?}")));
                }
            }
        }
    };
}
