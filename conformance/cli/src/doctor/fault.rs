//! Faults of a machine, each with its cause and its remedy.

use std::fmt;

use serde::Serialize;

/// The severity of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Severity {
    /// A GPU or a driver cannot be used, or not as intended.
    Error,
    /// It may be used otherwise than intended.
    Warning,
    /// A permanent limit of the machine.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

/// A fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Fault {
    /// A stable name: `icd_library_missing`.
    pub(super) id: &'static str,
    pub(super) severity: Severity,
    /// The cause: files, values and versions.
    pub(super) cause: String,
    /// One line: what to do.
    pub(super) remedy: String,
}

impl Fault {
    pub(super) fn error(id: &'static str, cause: String, remedy: impl Into<String>) -> Self {
        Self { id, severity: Severity::Error, cause, remedy: remedy.into() }
    }

    pub(super) fn warning(id: &'static str, cause: String, remedy: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(id, cause, remedy) }
    }

    pub(super) fn note(id: &'static str, cause: String, remedy: impl Into<String>) -> Self {
        Self { severity: Severity::Note, ..Self::error(id, cause, remedy) }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<9} {}: {}\n          remedy: {}", self.severity, self.id, self.cause, self.remedy)
    }
}
