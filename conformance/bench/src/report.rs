//! The report of a measurement run.

use chrono::{DateTime, Utc};
use gpu_interop::{BackendInfo, DeviceIdentity};
use gpu_interop_conformance::{Emulated, ExporterDetail, Stop, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema version of reports. Incremented with each incompatible change.
pub const BENCH_SCHEMA: u32 = 1;

/// The report of `conformance bench`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BenchReport {
    /// The schema version.
    #[schemars(extend("const" = BENCH_SCHEMA))]
    pub schema: u32,
    /// The program that wrote the report.
    pub tool: Tool,
    /// The backend.
    pub backend: BackendInfo,
    /// Set if the vendor's own runtime ran on an emulated kernel driver: the numbers are not a GPU's.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub emulated: Option<Emulated>,
    /// The device under test.
    pub device: DeviceIdentity,
    /// The Vulkan device on the other side, if any.
    pub exporter: Option<ExporterDetail>,
    /// The start of the run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started: Option<DateTime<Utc>>,
    /// The comparisons, in the order of measurement.
    pub ratios: Vec<Ratio>,
    /// The measurements.
    pub measurements: Vec<Measurement>,
    /// Requested measurements that were not possible.
    pub not_measured: Vec<NotMeasured>,
    /// Duration of the run, microseconds.
    pub duration_us: u64,
}

impl BenchReport {
    /// The number of ratios that keep to their limit, and the number of those with one.
    #[must_use]
    pub fn kept(&self) -> (usize, usize) {
        let judged = self.ratios.iter().filter_map(|ratio| ratio.holds);
        judged.fold((0, 0), |(kept, all), holds| (kept + usize::from(holds), all + 1))
    }
}

/// One quantity of one variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measurement {
    /// The measurement's name: `signal.1`, `memory.1MiB.import`.
    pub name: String,
    /// The variant: `raw`, `backend`, `library`, `cudarc`, `native`, `bridge`, `staged`, ...
    pub variant: String,
    /// `ns`, `GB/s`, `frames/s`, or `%` of one processor core.
    pub unit: String,
    /// The median sample.
    pub median: f64,
    /// The tenth percentile.
    pub p10: f64,
    /// The ninetieth percentile.
    pub p90: f64,
    /// The number of samples. Each may be the mean of several consecutive calls.
    pub samples: usize,
    /// Rounds that are not samples, because the processor core was busy. For measurements of samples on a free core only.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub left_out: Option<usize>,
    /// Samples on a busy core, where fewer than 15 rounds were on a free one: every round is a sample.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub on_busy_cores: Option<usize>,
    /// Durations of frames in the order of measurement, at most the first [`SERIES`]. Empty for other measurements.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub series: Vec<f64>,
}

/// The most samples in [`Measurement::series`].
pub const SERIES: usize = 512;

/// One comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// The comparison's name: `signal.1 library/raw`.
    pub name: String,
    /// The median of the ratios of the rounds.
    pub value: f64,
    /// Lower end of the 95 % interval of that median. Equal to `value` for measurements without rounds.
    pub low: f64,
    /// Upper end of that interval.
    pub high: f64,
    /// The project's limit; absent for comparisons without one.
    pub limit: Option<Limit>,
    /// `true` if the value is within the limit.
    pub holds: Option<bool>,
}

impl Ratio {
    /// A comparison, judged by its limit. The tuple is the 95 % interval.
    #[must_use]
    pub fn new(name: String, value: f64, (low, high): (f64, f64), limit: Option<Limit>) -> Self {
        Self { name, value, low, high, limit, holds: limit.map(|limit| limit.admits(value)) }
    }

    /// How much worse the value may become: 0.05 is 5 %. Negative beyond the limit, `None` without one.
    #[must_use]
    pub fn margin(&self) -> Option<f64> {
        Some(match self.limit? {
            Limit::AtMost(most) => most / self.value - 1.0,
            Limit::AtLeast(least) => self.value / least - 1.0,
        })
    }

    /// `within`, `under` or `over`; empty for a ratio without a limit.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        match (self.holds, self.limit) {
            (Some(true), _) => "within",
            (Some(false), Some(Limit::AtLeast(_))) => "under",
            (Some(false), _) => "over",
            (None, _) => "",
        }
    }
}

/// The limit of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// A cost: at most this.
    AtMost(f64),
    /// A throughput: at least this.
    AtLeast(f64),
}

impl Limit {
    /// `true` if a value is within the limit. NaN is not.
    #[must_use]
    pub fn admits(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "<= {most}"),
            Self::AtLeast(least) => write!(f, ">= {least}"),
        }
    }
}

/// A missing measurement and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotMeasured {
    /// A measurement (`frame.transfer`), or one variant of all of them (`every raw variant`).
    pub what: String,
    /// The reason: unsupported by the device, missing on this machine, or failed.
    #[serde(flatten)]
    pub stop: Stop,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_admit_their_own_value_and_no_nonsense() {
        assert!(Limit::AtMost(1.02).admits(1.02) && !Limit::AtMost(1.02).admits(1.021));
        assert!(Limit::AtLeast(0.99).admits(0.99) && !Limit::AtLeast(0.99).admits(0.989));
        for limit in [Limit::AtMost(1.0), Limit::AtLeast(1.0)] {
            assert!(!limit.admits(f64::NAN));
        }
    }

    #[test]
    fn the_verdict_says_which_side_was_missed() {
        let verdict = |value, limit| Ratio::new("r".into(), value, (value, value), limit).verdict();
        assert_eq!(verdict(1.0, Some(Limit::AtMost(1.02))), "within");
        assert_eq!(verdict(1.1, Some(Limit::AtMost(1.02))), "over");
        assert_eq!(verdict(0.5, Some(Limit::AtLeast(0.99))), "under");
        assert_eq!(verdict(9.0, None), "");
    }

    #[test]
    fn a_report_survives_json() {
        let report = BenchReport {
            schema: BENCH_SCHEMA,
            tool: Tool { name: "t".into(), version: "1".into() },
            backend: BackendInfo::new("host", "d"),
            emulated: None,
            device: DeviceIdentity::default(),
            exporter: None,
            started: None,
            ratios: vec![
                Ratio::new("signal.1 library/raw".into(), 1.25, (1.0, 1.5), Some(Limit::AtMost(1.02))),
                Ratio::new("frame.graphics staged/library".into(), 4.5, (4.0, 5.0), None),
            ],
            measurements: vec![Measurement {
                name: "signal.1".into(),
                variant: "raw".into(),
                unit: "ns".into(),
                median: 600.5,
                p10: 590.25,
                p90: 620.0,
                samples: 300,
                left_out: Some(20),
                on_busy_cores: None,
                series: vec![600.5, 599.0],
            }],
            not_measured: vec![NotMeasured {
                what: "frame.transfer".into(),
                stop: Stop::skipped("there is no such queue".into()),
            }],
            duration_us: 7,
        };
        let text = serde_json::to_string(&report).expect("to JSON");
        assert_eq!(serde_json::from_str::<BenchReport>(&text).expect("from JSON"), report);
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["ratios"][0]["limit"]["at_most"], 1.02);
        assert_eq!(value["ratios"][0]["holds"], false);
        assert!(value["ratios"][1]["limit"].is_null() && value["ratios"][1]["holds"].is_null());
        assert_eq!(value["not_measured"][0]["stop"], "skipped");
        assert_eq!(value["not_measured"][0]["reason"], "there is no such queue");
    }
}
