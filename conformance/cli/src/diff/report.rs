//! Differences as data.

use std::collections::BTreeMap;
use std::fmt;

use clap::ValueEnum;
use gpu_interop_conformance::Outcome;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::report::Tool;

/// The schema version of differences. Incremented with each incompatible change.
pub(crate) const DIFF_SCHEMA: u32 = 1;

/// The differences of two runs, or of several runs before and after a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Difference {
    /// The schema version.
    #[schemars(extend("const" = DIFF_SCHEMA))]
    pub(crate) schema: u32,
    /// The program that compared them.
    pub(crate) tool: Tool,
    /// The files before the change.
    pub(crate) before: Vec<String>,
    /// The files after the change.
    pub(crate) after: Vec<String>,
    /// Differences of drivers, devices, capabilities and options.
    pub(crate) machine: Vec<Setting>,
    /// Differences of cases, the most severe kinds first.
    pub(crate) changes: Vec<Change>,
    /// The count of each kind, 0 included, and of cases without a difference.
    pub(crate) summary: BTreeMap<String, usize>,
    /// How durations were compared, or why not.
    pub(crate) durations: String,
}

/// The beginning of [`Difference::durations`] if no durations were compared.
pub(super) const NOT_COMPARED: &str = "not compared";

impl Difference {
    /// The rule for durations, if a case is slower; or the reason for not comparing them.
    pub(super) fn durations_note(&self) -> Option<&str> {
        let is_needed = self.durations.starts_with(NOT_COMPARED) || self.of(Kind::Slower).next().is_some();
        is_needed.then_some(self.durations.as_str())
    }

    /// The differences of one kind.
    pub(crate) fn of(&self, kind: Kind) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(move |change| change.kind == kind)
    }
}

/// A property of the machine or of the run that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Setting {
    /// The property: `driver`, `capability features.kernels`.
    pub(crate) what: String,
    /// Its value before; empty if it was absent.
    pub(crate) before: String,
    /// Its value after; empty if it is absent.
    pub(crate) after: String,
}

/// The kinds of differences of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Fails, and did not fail before.
    New,
    /// Flaky, and passed in every run before, or failed in every run before.
    Flaky,
    /// Does not run any more: unsupported or skipped.
    Stopped,
    /// Not in the reports any more.
    Missing,
    /// The same kind of outcome for another reason, or with other omissions.
    Changed,
    /// Takes longer, by more than the noise.
    Slower,
    /// Failed before, and does not fail.
    Fixed,
    /// Runs, and was unsupported or skipped before.
    Started,
    /// Not in the reports before.
    Added,
    /// Takes less time, by more than the noise.
    Faster,
}

impl Kind {
    /// Every kind, the most severe first.
    pub(crate) const ALL: [Self; 10] = [
        Self::New,
        Self::Flaky,
        Self::Stopped,
        Self::Missing,
        Self::Changed,
        Self::Slower,
        Self::Fixed,
        Self::Started,
        Self::Added,
        Self::Faster,
    ];

    /// The name in reports and options.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Flaky => "flaky",
            Self::Stopped => "stopped",
            Self::Missing => "missing",
            Self::Changed => "changed",
            Self::Slower => "slower",
            Self::Fixed => "fixed",
            Self::Started => "started",
            Self::Added => "added",
            Self::Faster => "faster",
        }
    }

    /// The meaning, for headings.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::New => "New failures",
            Self::Flaky => "Flaky: fail in some runs, and did not before",
            Self::Stopped => "Ran before, and are unsupported or skipped now",
            Self::Missing => "Missing: not in the reports any more",
            Self::Changed => "Same kind of outcome for another reason",
            Self::Slower => "Slower, by more than the noise",
            Self::Fixed => "Fixed",
            Self::Started => "Were unsupported or skipped before, and run now",
            Self::Added => "Added: not in the reports before",
            Self::Faster => "Faster, by more than the noise",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A difference of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Change {
    /// The kind.
    pub(crate) kind: Kind,
    /// The source of the report within merged reports: `device 1`. Empty for a single report.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub(crate) source: String,
    /// The case: `memory.fill@vulkan`.
    pub(crate) case: String,
    /// The distinct results before; empty if it was absent.
    pub(crate) before: Vec<State>,
    /// The distinct results after; empty if it is absent.
    pub(crate) after: Vec<State>,
}

impl Change {
    /// `source: case`, or the case alone.
    pub(crate) fn name(&self) -> String {
        if self.source.is_empty() { self.case.clone() } else { format!("{}: {}", self.source, self.case) }
    }
}

/// A result, and the number of runs with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct State {
    /// The outcome.
    pub(crate) outcome: Outcome,
    /// The reason, without the history of its process.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) reason: Option<String>,
    /// Omitted parts, with reasons.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(crate) left_out: Vec<String>,
    /// The number of runs.
    pub(crate) runs: usize,
    /// The durations, microseconds.
    pub(crate) durations_us: Vec<u64>,
}
