//! The manifest of a package.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::report::{Report, Sourced, Tool, summarize};
use crate::sha256;

/// The schema version of manifests. Incremented with each incompatible change.
pub(super) const PACKAGE_SCHEMA: u32 = 1;

/// The manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) schema: u32,
    /// The program that made the package.
    pub(super) tool: Tool,
    pub(super) created: DateTime<Utc>,
    /// SHA-256 of that program's file.
    pub(super) command_sha256: String,
    /// The reports of runs.
    pub(super) reports: Vec<Summary>,
    /// All files but the manifest and the list of checksums.
    pub(super) files: Vec<Entry>,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) path: String,
    pub(super) bytes: usize,
    pub(super) sha256: String,
}

impl Entry {
    pub(super) fn of(path: &str, bytes: &[u8]) -> Self {
        Self { path: path.into(), bytes: bytes.len(), sha256: sha256::of(bytes) }
    }
}

/// The report of a run, in brief.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Summary {
    pub(super) path: String,
    /// The source within a merged report.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub(super) source: String,
    pub(super) backend: String,
    pub(super) driver: String,
    pub(super) device: String,
    pub(super) started: Option<DateTime<Utc>>,
    /// The count of each outcome.
    pub(super) outcomes: BTreeMap<String, usize>,
    /// SHA-256 of the command that made the report.
    pub(super) command_sha256: Option<String>,
}

impl Summary {
    pub(super) fn of(path: &str, sourced: &Sourced<Report>) -> Self {
        let Sourced { source, report } = sourced;
        Self {
            path: path.into(),
            source: source.clone(),
            backend: report.backend.name.clone(),
            driver: report.backend.driver.clone(),
            device: report.device.name.clone(),
            started: report.started,
            // Counted, not copied.
            outcomes: summarize(&report.results),
            command_sha256: report.host.as_ref().and_then(|host| host.command_sha256.clone()),
        }
    }
}
