//! Outcomes of scenarios, and the time limits of their waits.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gpu_interop::{Error, ErrorKind, ImportError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::Work;

/// The time limit of a single wait for an event that should happen. Several of these fit into every scenario's time
/// limit, so that the scenario can report the failed wait before it is stopped.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(8);
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
#[error("{kind}{reason}")]
pub struct Stop {
    /// The kind of the end.
    #[serde(rename = "stop")]
    pub kind: StopKind,
    /// The reason, for people.
    pub reason: String,
    /// The library's error behind it, if any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<ErrorReport>,
}

/// How a scenario stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopKind {
    /// A check failed, or a call failed unexpectedly.
    Failed,
    /// The device or exporter does not support it.
    Unsupported,
    /// This machine lacks a requirement.
    Skipped,
}

/// The beginning of a stop in words.
impl fmt::Display for StopKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Failed => "",
            Self::Unsupported => "unsupported: ",
            Self::Skipped => "skipped: ",
        })
    }
}

/// An error of the library in a report, without its text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ErrorReport {
    /// Its kind, such as `device_lost`.
    pub kind: ErrorKind,
    /// The function that failed: the driver's, or the library's.
    pub operation: String,
    /// The number that the driver returned, if it was called.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<i64>,
}

impl From<&Error> for ErrorReport {
    fn from(error: &Error) -> Self {
        Self { kind: error.kind(), operation: error.operation().into(), code: error.code().map(|code| code.value) }
    }
}

impl Stop {
    fn new(kind: StopKind, reason: String) -> Self {
        Self { kind, reason, error: None }
    }

    /// A check failed, or a call failed unexpectedly.
    #[must_use]
    pub fn failed(reason: String) -> Self {
        Self::new(StopKind::Failed, reason)
    }

    /// The device or exporter does not support the scenario.
    #[must_use]
    pub fn unsupported(reason: String) -> Self {
        Self::new(StopKind::Unsupported, reason)
    }

    /// This machine lacks a requirement.
    #[must_use]
    pub fn skipped(reason: String) -> Self {
        Self::new(StopKind::Skipped, reason)
    }

    /// Unsupported for an error of that kind, failed for others: for properties that only an attempt reveals.
    pub(crate) fn attempted(error: Error) -> Self {
        match error.kind() {
            ErrorKind::Unsupported => Self::unsupported(error.to_string()),
            _ => error.into(),
        }
    }

    /// Adds the library's error behind it.
    pub(crate) fn with_error(mut self, error: &Error) -> Self {
        self.error = Some(error.into());
        self
    }

    /// Adds to a failure what was being done.
    pub(crate) fn during(mut self, what: impl fmt::Display) -> Self {
        if self.is_failure() {
            self.reason = format!("{what}: {}", self.reason);
        }
        self
    }

    /// The reason.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// `true` if it is a failure.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        self.kind == StopKind::Failed
    }
}

/// The result of a scenario: `Ok` if every check passed.
pub type Verdict<T = ()> = Result<T, Stop>;

// An unexpected error of any kind is a failure, because unsupported operations are known from the capabilities.
impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::failed(error.to_string()).with_error(&error)
    }
}

impl<R: fmt::Debug> From<ImportError<R>> for Stop {
    fn from(error: ImportError<R>) -> Self {
        Self::failed(error.to_string()).with_error(error.error())
    }
}

/// Errors of the suite's own calls, which fail the scenario.
macro_rules! failures {
    ($($error:ty),+) => { $(
        impl From<$error> for Stop {
            fn from(error: $error) -> Self {
                Self::failed(error.to_string())
            }
        }
    )+ };
}
failures!(std::io::Error, std::num::TryFromIntError, serde_json::Error, libloading::Error);

#[cfg(unix)]
impl From<rustix::io::Errno> for Stop {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::failed(std::io::Error::from(errno).to_string())
    }
}

/// The work of the scenarios of this process: conditions, bytes of data, and the sum of the checksums.
static CHECKED: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

/// Counts a checked condition, for so many bytes of data or none.
fn count(bytes: usize, checksum: u32) {
    // Relaxed: the counters order nothing else.
    for (counter, more) in CHECKED.iter().zip([1, bytes as u64, checksum.into()]) {
        counter.fetch_add(more, Ordering::Relaxed);
    }
}

/// Counts a checked condition.
#[doc(hidden)]
pub fn checked() {
    count(0, 0);
}

/// Counts a checked condition, for so many bytes of data or none, with the checksum of the parts: the expected data, or what
/// describes it.
pub(crate) fn checked_bytes(length: usize, parts: &[&[u8]]) {
    let mut hasher = crc32fast::Hasher::new();
    parts.iter().for_each(|part| hasher.update(part));
    count(length, hasher.finalize());
}

/// The checks since the last call.
pub(crate) fn take_checked() -> Work {
    let [checks, bytes, data] = CHECKED.each_ref().map(|counter| counter.swap(0, Ordering::Relaxed));
    Work { checks, bytes, data }
}

/// Stops the scenario as failed unless a condition holds.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        $crate::checked();
        if !$condition {
            return Err($crate::Stop::failed(format!($($message)+)));
        }
    };
}

/// Stops the scenario as failed unless two values are equal.
#[macro_export]
macro_rules! ensure_eq {
    ($actual:expr, $expected:expr, $($message:tt)+) => {
        $crate::checked();
        // A match, so that temporaries of both sides live to its end.
        match (&$actual, &$expected) {
            (actual, expected) => {
                if actual != expected {
                    let what = format!($($message)+);
                    return Err($crate::Stop::failed(format!("{what}: expected {expected:?}, found {actual:?}")));
                }
            }
        }
    };
}

/// The result of a thread; a panic is a failure.
pub(crate) fn join<T>(handle: std::thread::ScopedJoinHandle<'_, Verdict<T>>) -> Verdict<T> {
    handle.join().unwrap_or_else(|_| Err(Stop::failed("a thread panicked".into())))
}
