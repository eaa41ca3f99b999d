//! Outcomes of scenarios, and the time limits of their waits.

use std::fmt;
use std::time::Duration;

use gpu_interop::{Error, ErrorKind, ImportError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The time limit of a single wait for an event that should happen. Several of these fit into every scenario's time
/// limit, so that the scenario can report the failed wait before it is stopped.
pub(crate) const PATIENCE: Duration = Duration::from_secs(8);
/// A call that took longer waited for something. Generous, as a busy machine may stop a process for seconds.
pub(crate) const PROMPT: Duration = Duration::from_secs(20);
/// The time that a scenario waits to verify that an event does *not* happen.
pub(crate) const WATCH: Duration = Duration::from_millis(80);

/// The outcome of one scenario with one exporter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Every check passed.
    Passed,
    /// A check failed.
    Failed,
    /// Its process crashed.
    Crashed,
    /// It did not end in time.
    TimedOut,
    /// The device or exporter does not support it. Permanent.
    Unsupported,
    /// This machine lacks a requirement.
    Skipped,
    /// It failed, as expected.
    ExpectedFailure,
    /// It passed although an expectation declares a failure. Counts as a failure, because the expectation is stale.
    UnexpectedPass,
    /// It failed, and passed when it ran again alone. A run may count it as a failure.
    Flaky,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 9] = [
        Self::Passed,
        Self::Failed,
        Self::Crashed,
        Self::TimedOut,
        Self::UnexpectedPass,
        Self::Flaky,
        Self::ExpectedFailure,
        Self::Unsupported,
        Self::Skipped,
    ];

    /// `true` if a run with this outcome has failed, whatever its options.
    #[must_use]
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::Crashed | Self::TimedOut | Self::UnexpectedPass)
    }

    /// True if the scenario ran, as opposed to being skipped or unsupported.
    #[must_use]
    pub fn ran(self) -> bool {
        !matches!(self, Self::Unsupported | Self::Skipped)
    }

    /// The name in reports.
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
            Self::Flaky => "flaky",
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
    /// A check failed, or a call failed unexpectedly.
    #[error("{0}")]
    Failed(String),
    /// The device or exporter does not support it.
    #[error("unsupported: {0}")]
    Unsupported(String),
    /// This machine lacks a requirement.
    #[error("skipped: {0}")]
    Skipped(String),
}

impl Stop {
    /// Unsupported for an error of that kind, otherwise failed: for properties that only an attempt reveals.
    pub(crate) fn attempted(error: Error) -> Self {
        match error.kind() {
            ErrorKind::Unsupported => Self::Unsupported(error.to_string()),
            _ => error.into(),
        }
    }

    /// The reason.
    #[must_use]
    pub fn reason(&self) -> &str {
        let (Self::Failed(reason) | Self::Unsupported(reason) | Self::Skipped(reason)) = self;
        reason
    }
}

/// The result of a scenario: `Ok` if every check passed.
pub type Verdict<T = ()> = Result<T, Stop>;

// An unexpected error of any kind is a failure, because unsupported operations are known from the capabilities.
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

/// Errors of the suite's own calls, which fail the scenario.
macro_rules! failures {
    ($($error:ty),+) => { $(
        impl From<$error> for Stop {
            fn from(error: $error) -> Self {
                Self::Failed(error.to_string())
            }
        }
    )+ };
}
failures!(std::io::Error, std::num::TryFromIntError, serde_json::Error, libloading::Error);

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
        // A match, so that temporaries of both sides live to its end.
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

/// The result of a thread; a panic is a failure.
pub(crate) fn join<T>(handle: std::thread::ScopedJoinHandle<'_, Verdict<T>>) -> Verdict<T> {
    handle.join().unwrap_or_else(|_| Err(Stop::Failed("a thread panicked".into())))
}
