//! Reports of several runs in one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Report, Tool};
use crate::bench::BenchReport;

/// The schema version of merged reports. Incremented with each incompatible change.
pub const MERGED_SCHEMA: u32 = 2;

/// Reports of several runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Merged {
    /// The schema version.
    #[schemars(range(min = MERGED_SCHEMA, max = MERGED_SCHEMA))]
    pub schema: u32,
    /// The program that merged them.
    pub tool: Tool,
    /// The reports of `conformance run`, in command-line order.
    pub reports: Vec<Sourced<Report>>,
    /// The reports of `conformance bench`.
    pub benches: Vec<Sourced<BenchReport>>,
    /// Files that could not be read, shards that could not be joined, and devices without a run.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub not_read: Vec<NotRead>,
}

/// A file that is missing or not a report, shards that could not be joined, or a device of `--device all` on which the run
/// was impossible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotRead {
    /// The file or files, as in [`Sourced::source`], or the device.
    pub source: String,
    /// The reason.
    pub reason: String,
}

/// A report and its origin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sourced<T> {
    /// The file, relative to the folder that contains all of them. Empty for a report that was not read from a file.
    pub source: String,
    /// The report.
    pub report: T,
}

impl Merged {
    /// No reports.
    pub(crate) fn empty() -> Self {
        Self {
            schema: MERGED_SCHEMA,
            tool: Tool::this(),
            reports: Vec::new(),
            benches: Vec::new(),
            not_read: Vec::new(),
        }
    }

    /// The measurements of this process.
    #[cfg(unix)]
    pub(crate) fn single_bench(report: BenchReport) -> Self {
        Self { benches: vec![Sourced { source: String::new(), report }], ..Self::empty() }
    }

    /// The names of what is missing or incomplete. `None` if nothing is.
    pub(crate) fn missing(&self) -> Option<String> {
        let names: Vec<&str> = self.not_read.iter().map(|missing| missing.source.as_str()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// The reports of this process's run, with the numbers of their devices, and the devices without a run.
    pub(crate) fn of_devices(reports: Vec<(usize, Report)>, not_read: Vec<NotRead>) -> Self {
        let only = reports.len() + not_read.len() == 1;
        let source = |number| if only { String::new() } else { format!("device {number}") };
        let sourced = |(number, report)| Sourced { source: source(number), report };
        Self { reports: reports.into_iter().map(sourced).collect(), not_read, ..Self::empty() }
    }
}
