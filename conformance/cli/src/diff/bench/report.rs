//! Differences of measurements as data.

use std::collections::BTreeMap;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diff::report::Setting;
use crate::report::Tool;
use gpu_interop_conformance_bench::Limit;

/// The schema version of differences of measurements. Incremented with each incompatible change.
pub(crate) const BENCH_DIFF_SCHEMA: u32 = 1;

/// The differences of two reports of `conformance bench`, or of several before and after a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct BenchDifference {
    /// The schema version.
    #[schemars(extend("const" = BENCH_DIFF_SCHEMA))]
    pub(crate) schema: u32,
    /// The program that compared them.
    pub(crate) tool: Tool,
    /// The files before the change.
    pub(crate) before: Vec<String>,
    /// The files after the change.
    pub(crate) after: Vec<String>,
    /// Differences of drivers, devices, and reasons of missing measurements.
    pub(crate) machine: Vec<Setting>,
    /// Every figure: those with a difference first, the most severe kinds first.
    pub(crate) figures: Vec<Figure>,
    /// The count of each kind, 0 included, and of figures without a difference.
    pub(crate) summary: BTreeMap<String, usize>,
    /// How figures were compared, or why not.
    pub(crate) noise: String,
}

impl BenchDifference {
    /// The figures of one kind; of `None`, those without a difference.
    pub(super) fn of(&self, kind: Option<FigureKind>) -> impl Iterator<Item = &Figure> {
        self.figures.iter().filter(move |figure| figure.kind == kind)
    }
}

/// The kinds of differences of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FigureKind {
    /// The measurement fails, and did not fail before.
    Failed,
    /// The limit was kept in every run before, and is missed in every run after, by more than the noise.
    Missed,
    /// Not in the reports any more.
    Missing,
    /// Higher cost or lower rate, by more than the noise.
    Worse,
    /// A ratio without a limit that differs by more than the noise.
    Changed,
    /// The limit was missed in every run before, and is kept in every run after, by more than the noise.
    Kept,
    /// Lower cost or higher rate, by more than the noise.
    Better,
    /// Not in the reports before.
    Added,
}

impl FigureKind {
    /// Every kind, the most severe first.
    pub(crate) const ALL: [Self; 8] =
        [Self::Failed, Self::Missed, Self::Missing, Self::Worse, Self::Changed, Self::Kept, Self::Better, Self::Added];

    /// The name in reports and options.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Missed => "missed",
            Self::Missing => "missing",
            Self::Worse => "worse",
            Self::Changed => "changed",
            Self::Kept => "kept",
            Self::Better => "better",
            Self::Added => "added",
        }
    }

    /// The meaning, for headings.
    pub(super) fn meaning(self) -> &'static str {
        match self {
            Self::Failed => "Failed measurements",
            Self::Missed => "Limits newly missed",
            Self::Missing => "Missing: not in the reports any more",
            Self::Worse => "Worse, by more than the noise",
            Self::Changed => "Ratios without a limit that changed by more than the noise",
            Self::Kept => "Limits newly kept",
            Self::Better => "Better, by more than the noise",
            Self::Added => "Added: not in the reports before",
        }
    }
}

/// A ratio or a measurement on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Figure {
    /// The kind of the difference; absent without one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) kind: Option<FigureKind>,
    /// The source of the report within merged reports. Empty for a single report.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub(crate) source: String,
    /// The name of the measurement or ratio.
    pub(crate) name: String,
    /// The variant; absent for ratios.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) variant: Option<String>,
    /// The unit; absent for ratios.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) unit: Option<String>,
    /// The value before.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) before: Option<Value>,
    /// The value after.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) after: Option<Value>,
    /// The median after, divided by that before. Absent if a side lacks it, or a value is not positive.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) ratio: Option<f64>,
    /// The reason of a failed measurement.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) reason: Option<String>,
}

impl Figure {
    /// The source, the name and the variant.
    pub(super) fn title(&self) -> String {
        let source = if self.source.is_empty() { String::new() } else { format!("{}: ", self.source) };
        let variant = self.variant.as_ref().map(|variant| format!(" {variant}")).unwrap_or_default();
        format!("{source}{}{variant}", self.name)
    }
}

/// A figure in the runs of one side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Value {
    /// The median of the runs' medians.
    pub(crate) median: f64,
    /// The least 10th percentile of the rounds of all runs; for a ratio the least end of its 95 % interval.
    pub(crate) low: f64,
    /// The greatest 90th percentile, or the greatest end of the interval.
    pub(crate) high: f64,
    /// The median of each run.
    pub(crate) medians: Vec<f64>,
    /// The number of samples in all runs; absent for ratios.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) samples: Option<usize>,
    /// The limit of a ratio in the newest run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) limit: Option<Limit>,
    /// The number of runs that keep the limit; absent without a limit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) kept: Option<usize>,
}
