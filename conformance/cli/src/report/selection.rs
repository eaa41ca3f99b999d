//! The cases of a run: a list in a file, and a shard of them.

use chrono::{DateTime, Utc};
use gpu_interop::DeviceIdentity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The list that selected the cases of a run: `--cases` or `--tier`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaseList {
    /// The tier, such as `core-1`, or the file's name.
    pub name: String,
    /// SHA-256 of the list's file, hexadecimal.
    pub sha256: String,
}

/// The shard of a run: `--shard`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Shard {
    /// Its number, from 1.
    pub index: usize,
    /// The number of shards.
    pub count: usize,
    /// The number of cases of all shards.
    pub total: usize,
    /// SHA-256 of the names of the cases of all shards, in order, each followed by a newline; hexadecimal.
    pub cases_sha256: String,
    /// The place of each result among the cases of all shards, from 0.
    pub positions: Vec<usize>,
}

impl Shard {
    /// Fails if the numbers contradict each other or the number of results.
    pub(super) fn check(&self, results: usize) -> Result<(), String> {
        let Self { index, count, total, positions, .. } = self;
        if !(1..=*count).contains(index) {
            return Err(format!("`shard`: there is no number {index} among {count}"));
        }
        if positions.len() != results {
            return Err(format!("`shard`: {results} results for {} positions", positions.len()));
        }
        match positions.iter().find(|position| *position >= total) {
            Some(position) => Err(format!("`shard`: there is no position {position} among {total} cases")),
            None => Ok(()),
        }
    }
}

/// One of the shards that a report was joined from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JoinedShard {
    /// Its number, from 1.
    pub index: usize,
    /// The device that it ran on.
    pub device: DeviceIdentity,
    /// The start of its run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started: Option<DateTime<Utc>>,
    /// Duration of its run, microseconds.
    pub duration_us: u64,
}
