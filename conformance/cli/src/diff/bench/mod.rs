//! Differences of measurements: the figures of `conformance bench` before and after a change.

mod noise;
mod show;

use std::collections::{BTreeMap, BTreeSet};

use clap::ValueEnum;
use gpu_interop_conformance::{Stop, Verdict};
use gpu_interop_conformance_bench::{BenchReport, Limit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::noise::{Change, Pair, Rule};
use super::Setting;
use super::compare::by_source;
use crate::report::{Emulated, Merged, Tool};

pub(super) use self::show::{page, text};

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
    medians: Vec<f64>,
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

/// The reports of one side, by their sources.
type Sources<'a> = BTreeMap<String, Vec<&'a BenchReport>>;

/// A figure of one source. Ratios have no variant and no unit, and come first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    source: String,
    is_measured: bool,
    name: String,
    variant: Option<String>,
    unit: Option<String>,
}

/// A figure in one run: its value, range, number of samples, and for ratios the limit.
struct Sample {
    value: f64,
    low: f64,
    high: f64,
    samples: Option<usize>,
    limit: Option<Limit>,
    holds: Option<bool>,
}

/// Compares measurements before a change with those after it.
///
/// # Errors
/// If a side has no measurements, or the sides have no source in common.
pub(in crate::diff) fn compare(before: &[&Merged], after: &[&Merged]) -> Verdict<BenchDifference> {
    let sources = |side| by_source(side, |merged: &Merged| &merged.benches, "bench");
    let (old, new) = (sources(before)?, sources(after)?);
    if old.keys().all(|source| !new.contains_key(source)) {
        return Err(Stop::failed("the sides have measurements of different sources; pass single reports".into()));
    }
    let (old_figures, new_figures) = (figures(&old), figures(&new));
    let same_device = devices(&old) == devices(&new);
    let runs = before.len().min(after.len());
    let pair = |key: &Key| {
        let (old, new) = (old_figures.get(key)?, new_figures.get(key)?);
        Pair::new(old, new, higher_is_better(key, old, new))
    };
    let rule = |of_ratios: bool| {
        let keys = new_figures.keys().filter(|key| key.is_measured != of_ratios);
        Rule::of(&keys.filter_map(pair).collect::<Vec<_>>(), runs, !of_ratios)
    };
    let (ratios, measurements) = (rule(true), rule(false));
    let mut all = failures(&old, &new);
    let keys: BTreeSet<&Key> = old_figures.keys().chain(new_figures.keys()).collect();
    for key in keys {
        let (old, new) = (old_figures.get(key), new_figures.get(key));
        let rule = if key.is_measured { &measurements } else { &ratios };
        let change = pair(key).filter(|_| same_device).and_then(|pair| rule.judge(&pair));
        let positive = old.zip(new).filter(|(old, new)| old.median > 0.0 && new.median > 0.0);
        let ratio = positive.map(|(old, new)| new.median / old.median);
        all.push(Figure {
            kind: kind(old, new, change),
            source: key.source.clone(),
            name: key.name.clone(),
            variant: key.variant.clone(),
            unit: key.unit.clone(),
            before: old.cloned(),
            after: new.cloned(),
            ratio: ratio.filter(|ratio| ratio.is_finite()),
            reason: None,
        });
    }
    // Stable: figures of one kind keep their order, ratios first.
    all.sort_by_key(|figure| (figure.kind.is_none(), figure.kind));
    let count =
        |kind: FigureKind| (kind.name().to_owned(), all.iter().filter(|figure| figure.kind == Some(kind)).count());
    let mut summary: BTreeMap<String, usize> = FigureKind::ALL.into_iter().map(count).collect();
    summary.insert("unchanged".into(), all.iter().filter(|figure| figure.kind.is_none()).count());
    let noise = if same_device {
        describe((before.len(), after.len()), &ratios, &measurements)
    } else {
        "limits only: the devices differ".into()
    };
    let machine = settings(&old, &new);
    let (before, after) = (Vec::new(), Vec::new());
    Ok(BenchDifference {
        schema: BENCH_DIFF_SCHEMA,
        tool: Tool::this(),
        before,
        after,
        machine,
        figures: all,
        summary,
        noise,
    })
}

/// The figures of one side in all runs.
fn figures(sources: &Sources<'_>) -> BTreeMap<Key, Value> {
    let mut samples = BTreeMap::<Key, Vec<Sample>>::new();
    for (source, report) in sources.iter().flat_map(|(source, reports)| reports.iter().map(move |each| (source, each)))
    {
        for ratio in &report.ratios {
            let key =
                Key { source: source.clone(), is_measured: false, name: ratio.name.clone(), variant: None, unit: None };
            let (limit, holds) = (ratio.limit, ratio.holds);
            let sample = Sample { value: ratio.value, low: ratio.low, high: ratio.high, samples: None, limit, holds };
            samples.entry(key).or_default().push(sample);
        }
        for each in &report.measurements {
            let (variant, unit) = (Some(each.variant.clone()), Some(each.unit.clone()));
            let key = Key { source: source.clone(), is_measured: true, name: each.name.clone(), variant, unit };
            let (value, low, high) = (each.median, each.p10, each.p90);
            let sample = Sample { value, low, high, samples: Some(each.samples), limit: None, holds: None };
            samples.entry(key).or_default().push(sample);
        }
    }
    samples.into_iter().map(|(key, samples)| (key, value(&samples))).collect()
}

/// The value of a figure in several runs, of which there is at least one.
fn value(samples: &[Sample]) -> Value {
    let medians: Vec<f64> = samples.iter().map(|sample| sample.value).collect();
    let mut sorted = medians.clone();
    sorted.sort_by(f64::total_cmp);
    let (lower, upper) = (sorted.get((sorted.len() - 1) / 2), sorted.get(sorted.len() / 2));
    let judged = samples.iter().filter_map(|sample| sample.holds);
    Value {
        median: lower.zip(upper).map_or(f64::NAN, |(lower, upper)| f64::midpoint(*lower, *upper)),
        low: samples.iter().map(|sample| sample.low).fold(f64::INFINITY, f64::min),
        high: samples.iter().map(|sample| sample.high).fold(f64::NEG_INFINITY, f64::max),
        medians,
        samples: samples.iter().try_fold(0, |sum: usize, sample| Some(sum.saturating_add(sample.samples?))),
        limit: samples.iter().rev().find_map(|sample| sample.limit),
        kept: samples.iter().any(|sample| sample.holds.is_some()).then(|| judged.filter(|holds| *holds).count()),
    }
}

/// `true` for rates, and for ratios that must be at least their limit.
fn higher_is_better(key: &Key, old: &Value, new: &Value) -> bool {
    match &key.unit {
        Some(unit) => unit.ends_with("/s"),
        None => matches!(new.limit.or(old.limit), Some(Limit::AtLeast(_))),
    }
}

/// The kind of a figure's difference.
fn kind(old: Option<&Value>, new: Option<&Value>, change: Option<Change>) -> Option<FigureKind> {
    let (Some(old), Some(new)) = (old, new) else {
        return Some(if old.is_some() { FigureKind::Missing } else { FigureKind::Added });
    };
    // The number of runs that keep the limit, among all of them.
    if let (Some(before), Some(after)) = (old.kept, new.kept) {
        let clear = |value: &Value| match value.limit {
            Some(limit) => limit.admits(value.low) == limit.admits(value.high),
            None => false,
        };
        if before == old.medians.len() && after == 0 && (clear(new) || change == Some(Change::Worse)) {
            return Some(FigureKind::Missed);
        }
        if before == 0 && after == new.medians.len() && (clear(old) || change == Some(Change::Better)) {
            return Some(FigureKind::Kept);
        }
    }
    let directed = old.samples.is_some() || new.limit.or(old.limit).is_some();
    change.map(|change| match change {
        _ if !directed => FigureKind::Changed,
        Change::Worse => FigureKind::Worse,
        Change::Better => FigureKind::Better,
    })
}

/// Measurements that fail in every run after, and in none before.
fn failures(old: &Sources<'_>, new: &Sources<'_>) -> Vec<Figure> {
    let failed = |report: &BenchReport| -> BTreeMap<String, String> {
        let gaps = report.not_measured.iter().filter(|gap| gap.stop.is_failure());
        gaps.map(|gap| (gap.what.clone(), gap.stop.reason().to_owned())).collect()
    };
    let mut all = Vec::new();
    for (source, reports) in new {
        let after: Vec<_> = reports.iter().map(|report| failed(report)).collect();
        let before: Vec<_> = old.get(source).into_iter().flatten().map(|report| failed(report)).collect();
        for (name, reason) in after.first().into_iter().flatten() {
            if after.iter().all(|run| run.contains_key(name)) && !before.iter().any(|run| run.contains_key(name)) {
                all.push(Figure {
                    kind: Some(FigureKind::Failed),
                    source: source.clone(),
                    name: name.clone(),
                    variant: None,
                    unit: None,
                    before: None,
                    after: None,
                    ratio: None,
                    reason: Some(reason.clone()),
                });
            }
        }
    }
    all
}

/// The names of all devices, by source.
fn devices<'a>(sources: &Sources<'a>) -> BTreeSet<(&'a str, &'a str)> {
    let all = sources.values().flatten();
    all.map(|report| (report.backend.name.as_str(), report.device.name.as_str())).collect()
}

/// Differences of the machines of the first reports, and of their missing measurements.
fn settings(old: &Sources<'_>, new: &Sources<'_>) -> Vec<Setting> {
    let of = |report: &BenchReport| -> BTreeMap<String, String> {
        let exporter = report.exporter.as_ref();
        let mut all = BTreeMap::from([
            ("backend".to_owned(), report.backend.name.clone()),
            ("driver".to_owned(), report.backend.driver.clone()),
            ("simulated".to_owned(), report.backend.simulated.to_string()),
            ("emulated".to_owned(), report.emulated.as_ref().map(Emulated::to_string).unwrap_or_default()),
            ("device".to_owned(), report.device.name.clone()),
            ("program".to_owned(), format!("{} {}", report.tool.name, report.tool.version)),
            ("vulkan".to_owned(), exporter.map(|detail| detail.driver.clone()).unwrap_or_default()),
        ]);
        let gaps = report.not_measured.iter().filter(|gap| !gap.stop.is_failure());
        all.extend(gaps.map(|gap| (format!("not measured: {}", gap.what), gap.stop.to_string())));
        all
    };
    let mut differences = Vec::new();
    for (source, reports) in old {
        let (Some(old), Some(new)) = (reports.first(), new.get(source).and_then(|reports| reports.first())) else {
            continue;
        };
        let (old, new) = (of(old), of(new));
        for name in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
            let value = |all: &BTreeMap<String, String>| all.get(name).cloned().unwrap_or_default();
            differences.push(Setting { what: name.clone(), before: value(&old), after: value(&new) });
        }
    }
    differences.retain(|setting| setting.before != setting.after);
    differences
}

/// The rules in words.
fn describe((before, after): (usize, usize), ratios: &Rule, measurements: &Rule) -> String {
    let mut text = format!(
        "{before} against {after} runs: a figure changes if the ranges of its rounds are apart by a factor of {:.2}, a \
         ratio if its intervals are apart by {:.2}",
        measurements.factor(),
        ratios.factor()
    );
    if let Some(shift) = measurements.shift() {
        text.push_str(&format!("; the median measurement costs {shift:.2} times as much, which is taken out"));
    }
    match before.min(after) {
        1 => text.push_str(
            "; with one run on a side, changes of more than a tenth of the figures count as noise, and three find them",
        ),
        2 => text.push_str("; three runs on each side find smaller changes"),
        _ => {}
    }
    text
}
