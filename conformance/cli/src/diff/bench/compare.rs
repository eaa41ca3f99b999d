//! Compares the figures of measurements before and after a change.

use std::collections::{BTreeMap, BTreeSet};

use gpu_interop_conformance::{Stop, Verdict};

use super::noise::{Change, Pair, Rule};
use super::report::{BENCH_DIFF_SCHEMA, BenchDifference, Figure, FigureKind, Value};
use crate::bench::{BenchReport, Limit};
use crate::diff::compare::by_source;
use crate::diff::report::Setting;
use crate::report::{Emulated, Merged, Tool};

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

/// Differences of the machines of the first reports, and of what they could not measure.
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
