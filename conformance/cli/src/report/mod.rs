//! What a run found.

mod calls;
mod emulated;
pub(crate) mod html;
pub(crate) mod junit;
pub(crate) mod merge;
pub(crate) mod schema;
pub(crate) mod text;

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use chrono::{DateTime, Utc};
use gpu_interop::{BackendInfo, Capabilities, DeviceIdentity, LoadAttempt};
use gpu_interop_conformance::{Discovery, ExporterName, ExporterReport, Observation, Outcome};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use calls::{Call, CallTrace, Returned};
pub use emulated::Emulated;
pub use merge::{MERGED_SCHEMA, Merged, NotRead, Sourced};

use crate::emulate;

/// The version of the report's form. Grows when a reader would have to change.
pub const SCHEMA: u32 = 1;

/// A whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// The version of this form.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: u32,
    /// What made the report.
    pub tool: Tool,
    /// When the run began.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started: Option<DateTime<Utc>>,
    /// The seed of the data.
    pub seed: u32,
    /// How often every scenario was run, each time with the next seed. One that passed did so every time.
    #[serde(default = "once")]
    pub repeat: NonZeroU32,
    /// The backend under test.
    pub backend: BackendInfo,
    /// Set where the vendor's own runtime ran on an emulated kernel driver.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub emulated: Option<Emulated>,
    /// Its device.
    pub device: DeviceIdentity,
    /// What the device says it can do.
    pub capabilities: Capabilities,
    /// Every exporter that was asked for, usable or not.
    pub exporters: Vec<ExporterReport>,
    /// One entry a scenario and exporter, in the order of the list of scenarios.
    pub results: Vec<CaseReport>,
    /// How many had which outcome; outcomes that did not occur are 0.
    pub summary: BTreeMap<String, usize>,
    /// Duration of the run, microseconds.
    pub duration_us: u64,
}

/// Reports of older versions do not say.
fn once() -> NonZeroU32 {
    NonZeroU32::MIN
}

/// The program that made a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl Tool {
    /// This program.
    pub(crate) fn this() -> Self {
        Self { name: "gpu-interop conformance".into(), version: env!("CARGO_PKG_VERSION").into() }
    }
}

/// One scenario with one exporter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaseReport {
    /// The scenario's id.
    pub id: String,
    /// The exporter; none for scenarios that need none.
    pub exporter: Option<ExporterName>,
    /// How it ended.
    pub outcome: Outcome,
    /// Why it did not pass.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// What calls did that go around the library, beside what the library did. Whatever a driver does here, the outcome is
    /// about the library.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub observed: Vec<Observation>,
    /// What it would also have done, had this machine had it: formats or shapes that one side lacks, with the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub left_out: Vec<String>,
    /// The end of what its process printed, if it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub log: Option<String>,
    /// The driver calls that it made, if it failed in a run with `--verbose`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub calls: Option<CallTrace>,
    /// Duration, microseconds. The first scenario of a process includes its start, half a second on some GPUs.
    pub duration_us: u64,
}

impl CaseReport {
    /// `id@exporter`, or `id` alone.
    #[must_use]
    pub fn name(&self) -> String {
        case_name(&self.id, self.exporter)
    }
}

/// `id@exporter`, or `id` alone.
pub(crate) fn case_name(id: &str, exporter: Option<ExporterName>) -> String {
    exporter.map_or_else(|| id.to_owned(), |exporter| format!("{id}@{exporter}"))
}

/// The backend, device and exporters that a run will use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The backend.
    pub backend: BackendInfo,
    /// Set where the vendor's own runtime is on an emulated kernel driver.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub emulated: Option<Emulated>,
    /// Its device.
    pub device: DeviceIdentity,
    /// Every device it has.
    pub devices: Vec<DeviceIdentity>,
    /// What the device says it can do.
    pub capabilities: Capabilities,
    /// Every exporter.
    pub exporters: Vec<ExporterReport>,
    /// Backends that were tried before this one.
    pub passed_over: Vec<LoadAttempt>,
}

impl Environment {
    /// What this process finds.
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
}

/// How many results had which outcome.
pub(crate) fn summarize(results: &[CaseReport]) -> BTreeMap<String, usize> {
    let mut summary: BTreeMap<String, usize> =
        Outcome::ALL.iter().map(|outcome| (outcome.name().to_owned(), 0)).collect();
    for result in results {
        *summary.entry(result.outcome.name().to_owned()).or_default() += 1;
    }
    summary
}
