//! The report of a run.

pub(crate) mod html;
pub(crate) mod junit;
mod markdown;
pub(crate) mod merge;
pub(crate) mod shards;
pub(crate) mod text;

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;

use chrono::{DateTime, Utc};
use gpu_interop::{BackendInfo, Capabilities, DeviceIdentity, LoadAttempt};
use gpu_interop_conformance::{
    Discovery, ErrorReport, ExporterName, ExporterReport, NO_LAYER, Observation, Outcome, Pairs, Work,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::drivers::emulate;
use crate::evidence::{Around, Host, KernelLine};

pub use crate::call_trace::{Call, CallTrace, Returned};
pub use gpu_interop_conformance::{Emulated, Tool};
pub use merge::{MERGED_SCHEMA, Merged, NotRead, Sourced};

/// The schema version of reports. Incremented with each incompatible change.
pub const SCHEMA: u32 = 2;

/// The report of a run on one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// The schema version.
    #[schemars(range(min = SCHEMA, max = SCHEMA))]
    pub schema: u32,
    /// The program that wrote the report.
    pub tool: Tool,
    /// The start of the run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started: Option<DateTime<Utc>>,
    /// The seed of the data.
    pub seed: u32,
    /// The name of the build under test, if it was given.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub build: Option<String>,
    /// The number of runs of each scenario, each with the next seed. A passed scenario passed every time.
    pub repeat: NonZeroU32,
    /// The backend under test.
    pub backend: BackendInfo,
    /// Set if the vendor's own runtime ran on an emulated kernel driver.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub emulated: Option<Emulated>,
    /// The device under test.
    pub device: DeviceIdentity,
    /// The computer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub host: Option<Host>,
    /// The device's capabilities.
    pub capabilities: Capabilities,
    /// The requested exporters, available or not.
    pub exporters: Vec<ExporterReport>,
    /// The list that selected the cases, if any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cases: Option<CaseList>,
    /// Set if the run is one shard of several.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub shard: Option<Shard>,
    /// The shards that `merge` joined to this report; `device` is that of the first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub shards: Vec<JoinedShard>,
    /// The times at which the run was continued after it had been killed.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub resumed: Vec<DateTime<Utc>>,
    /// Set if the run stopped before its last case.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stopped: Option<Stopped>,
    /// One entry for each scenario and exporter, in the order of `conformance list`.
    pub results: Vec<CaseReport>,
    /// Messages of the kernel during the run that belong to no one case.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub kernel_log: Vec<KernelLine>,
    /// The count of each outcome, 0 included.
    pub summary: BTreeMap<String, usize>,
    /// Duration of the run, microseconds.
    pub duration_us: u64,
}

impl Report {
    /// Fails if a number that later counts as a position or a size cannot be one.
    fn check(&self) -> Result<(), String> {
        self.shard.as_ref().map_or(Ok(()), |shard| shard.check(self.results.len()))
    }
}

/// One scenario with one exporter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaseReport {
    /// The scenario's id.
    pub id: String,
    /// The exporter; absent for scenarios without one.
    pub exporter: Option<ExporterName>,
    /// The outcome.
    pub outcome: Outcome,
    /// The reason of an outcome other than `passed`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// The library's error behind a failure: its kind, operation and code.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<ErrorReport>,
    /// Results of raw driver calls, for comparison. The outcome depends on the library's only.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub observed: Vec<Observation>,
    /// Omitted parts, with reasons: formats or shapes that one side lacks.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub left_out: Vec<String>,
    /// Pairs of operations of the two sides whose data was compared, of those that are possible.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pairs: Option<Pairs>,
    /// The work of a case that passed, to compare with that of another run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub work: Option<Work>,
    /// The end of its process's output, if it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub log: Option<String>,
    /// Its driver calls, if it failed in a run with `--verbose`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub calls: Option<CallTrace>,
    /// Messages of the kernel during the case.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub kernel_log: Vec<KernelLine>,
    /// The GPU's sensors before and after a scenario that runs alone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sensors: Option<Around>,
    /// Every run of a case that failed and ran again, in order: the first one as the others of its group, the rest
    /// alone. Empty if it ran once.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub attempts: Vec<Attempt>,
    /// The share of its runs that fail, as a `[[flaky]]` expectation declares it. Such a case does not fail the run if it
    /// is flaky.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub flake_rate: Option<f64>,
    /// Duration, microseconds; of the last run of a flaky case. The start and the exit of the process are left out, unless the
    /// case crashed, timed out or was stopped.
    pub duration_us: u64,
}

impl CaseReport {
    /// `id@exporter`, or `id` alone.
    #[must_use]
    pub fn name(&self) -> String {
        case_name(&self.id, self.exporter)
    }

    /// The scenario's group: the part of its id before the first dot.
    #[must_use]
    pub fn group(&self) -> &str {
        self.id.split('.').next().unwrap_or_default()
    }
}

/// The beginning of the part of a failure's reason that names the scenarios before it in its process.
pub(crate) const HISTORY: &str = "[its process had run ";

/// `id@exporter`, or `id` alone.
pub(crate) fn case_name(id: &str, exporter: Option<ExporterName>) -> String {
    exporter.map_or_else(|| id.to_owned(), |exporter| format!("{id}@{exporter}"))
}

/// The backend, device and exporters of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The backend.
    pub backend: BackendInfo,
    /// Set if the vendor's own runtime is on an emulated kernel driver.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub emulated: Option<Emulated>,
    /// The device under test.
    pub device: DeviceIdentity,
    /// All devices of the backend.
    pub devices: Vec<DeviceIdentity>,
    /// The device's capabilities.
    pub capabilities: Capabilities,
    /// The requested exporters.
    pub exporters: Vec<ExporterReport>,
    /// Backends that were tried before it.
    pub passed_over: Vec<LoadAttempt>,
}

impl Environment {
    /// The environment as discovered by this process.
    pub(crate) fn found(discovery: Discovery) -> Self {
        let Discovery { backend, device, devices, capabilities, exporters } = discovery;
        let emulated = emulate::detect(&backend);
        Self { backend, emulated, device, devices, capabilities, exporters, passed_over: Vec::new() }
    }

    /// The exporter of this name.
    #[must_use]
    pub fn exporter(&self, name: ExporterName) -> Option<&ExporterReport> {
        self.exporters.iter().find(|exporter| exporter.name == name)
    }

    /// `true` unless Vulkan's exporter has no validation layer.
    pub(crate) fn is_validated(&self) -> bool {
        let detail = self.exporter(ExporterName::Vulkan).and_then(|exporter| exporter.available.as_ref());
        detail.is_none_or(|detail| !detail.driver.contains(NO_LAYER))
    }
}

/// The count of each outcome.
pub(crate) fn summarize(results: &[CaseReport]) -> BTreeMap<String, usize> {
    let mut summary: BTreeMap<String, usize> =
        Outcome::ALL.iter().map(|outcome| (outcome.name().to_owned(), 0)).collect();
    for result in results {
        *summary.entry(result.outcome.name().to_owned()).or_default() += 1;
    }
    summary
}

/// A report of a run, for tests.
#[cfg(test)]
pub(crate) fn example() -> Report {
    serde_json::from_str(include_str!("../../../results/host-lavapipe.json")).expect("a report")
}

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
