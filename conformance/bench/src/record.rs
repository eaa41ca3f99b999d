//! Turns samples into measurements and ratios.

use gpu_interop_conformance::{Stop, Verdict};

use super::quiet::Core;
use super::report::{Limit, Measurement, NotMeasured, Ratio, SERIES};
use super::rounds::{Cores, Effort, Measured, Samples, Variant, take_turns};
use super::stats;

/// A quantity that each round measures.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quantity {
    /// The suffix of the measurement's name: empty, or with a leading dot.
    pub(super) suffix: &'static str,
    pub(super) unit: &'static str,
}

/// The name prefix of frame measurements. Frame durations are plotted in order.
const PACED: &str = "frame.";
/// The name suffix of the time by which a duration exceeds another. It is not the duration of a frame.
const EXCESS: &str = ".over_limit";

/// The duration of a call.
pub(super) const TIME: Quantity = Quantity { suffix: "", unit: "ns" };

/// The greatest ratio of this library's cost to a peer's cost: 1 plus the resolution of a ratio, 2 % ([`stats`]).
pub(super) const PEER: Limit = Limit::AtMost(1.02);

/// Compares one quantity of two variants: `over` divided by `under`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Comparison {
    /// The index of the quantity.
    pub(super) quantity: usize,
    pub(super) over: &'static str,
    pub(super) under: &'static str,
    pub(super) limit: Option<Limit>,
}

impl Comparison {
    pub(super) fn new(quantity: usize, over: &'static str, under: &'static str) -> Self {
        Self { quantity, over, under, limit: None }
    }

    pub(super) fn limit(self, limit: Limit) -> Self {
        Self { limit: Some(limit), ..self }
    }
}

/// The results of a run so far.
#[derive(Default)]
pub(super) struct Recorder {
    pub(super) quick: bool,
    /// The core of this thread. The first measurement that needs it calibrates it.
    pub(super) core: Option<Core<'static>>,
    pub(super) measurements: Vec<Measurement>,
    pub(super) ratios: Vec<Ratio>,
    pub(super) not_measured: Vec<NotMeasured>,
}

impl Recorder {
    /// Measures the variants in turn. Records their medians, and each comparison of which both variants were measured.
    pub(super) fn measure(
        &mut self,
        name: &str,
        effort: Effort,
        quantities: &[Quantity],
        variants: &mut [Variant<'_>],
        comparisons: &[Comparison],
    ) -> Verdict {
        let effort = if self.quick { effort.quick() } else { effort };
        let Measured { samples, cores } = take_turns(effort, quantities.len(), variants, &mut self.core)?;
        let first = self.measurements.len();
        self.keep(name, quantities, &samples, comparisons);
        for measurement in &mut self.measurements[first..] {
            match cores {
                Cores::Any => (),
                Cores::Free { left_out } => measurement.left_out = Some(left_out),
                Cores::Busy { busy } => measurement.on_busy_cores = Some(busy),
            }
        }
        Ok(())
    }

    fn keep(&mut self, name: &str, quantities: &[Quantity], samples: &[Samples], comparisons: &[Comparison]) {
        for (index, quantity) in quantities.iter().enumerate() {
            let name = format!("{name}{}", quantity.suffix);
            for each in samples {
                self.summarize(&name, each.variant, quantity.unit, &each.quantities[index]);
            }
        }
        for comparison in comparisons {
            let of = |variant| samples.iter().find(|each| each.variant == variant);
            let (Some(over), Some(under)) = (of(comparison.over), of(comparison.under)) else { continue };
            let index = comparison.quantity;
            let Some(ratio) = stats::paired_ratio(&over.quantities[index], &under.quantities[index]) else { continue };
            let name = format!("{name}{} {}/{}", quantities[index].suffix, comparison.over, comparison.under);
            self.ratios.push(Ratio::new(name, ratio.value, (ratio.low, ratio.high), comparison.limit));
        }
    }

    /// Adds a measurement of these samples, if there are any. Frame measurements also keep the samples.
    pub(super) fn summarize(&mut self, name: &str, variant: &str, unit: &str, samples: &[f64]) {
        let Some(summary) = stats::summarize(samples) else { return };
        // Every unit has a coarser resolution than a tenth.
        let rounded = |value: &f64| (value * 10.0).round() / 10.0;
        let is_paced = name.starts_with(PACED) && !name.ends_with(EXCESS) && unit == TIME.unit;
        self.measurements.push(Measurement {
            name: name.into(),
            variant: variant.into(),
            unit: unit.into(),
            median: summary.median,
            p10: summary.p10,
            p90: summary.p90,
            samples: summary.samples,
            left_out: None,
            on_busy_cores: None,
            series: samples.iter().take(if is_paced { SERIES } else { 0 }).map(rounded).collect(),
        });
    }

    /// Adds a single measurement.
    pub(super) fn note(&mut self, name: &str, variant: &str, unit: &str, value: f64) {
        self.measurements.push(Measurement {
            name: name.into(),
            variant: variant.into(),
            unit: unit.into(),
            median: value,
            p10: value,
            p90: value,
            samples: 1,
            left_out: None,
            on_busy_cores: None,
            series: Vec::new(),
        });
    }

    /// Adds a comparison of two numbers from different rounds.
    pub(super) fn compare(&mut self, name: String, over: f64, under: f64, limit: Option<Limit>) {
        let value = over / under;
        if !value.is_finite() {
            return;
        }
        self.ratios.push(Ratio::new(name, value, (value, value), limit));
    }

    pub(super) fn median(&self, name: &str, variant: &str) -> Option<f64> {
        let wanted = |each: &&Measurement| each.name == name && each.variant == variant;
        self.measurements.iter().find(wanted).map(|each| each.median)
    }

    pub(super) fn ratio(&self, name: &str) -> Option<f64> {
        self.ratios.iter().find(|ratio| ratio.name == name).map(|ratio| ratio.value)
    }

    /// Adds a quantity that could not be measured. The same quantity and reason are added once.
    pub(super) fn skip(&mut self, what: impl Into<String>, stop: Stop) {
        let gap = NotMeasured { what: what.into(), stop };
        if !self.not_measured.contains(&gap) {
            self.not_measured.push(gap);
        }
    }

    /// Returns the side if it was opened. Records the reason if it was not.
    pub(super) fn side<'a, T>(&mut self, what: &str, side: &'a Verdict<T>) -> Option<&'a T> {
        match side {
            Ok(side) => Some(side),
            Err(stop) => {
                self.skip(what, stop.clone());
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: [Quantity; 2] = [Quantity { suffix: ".a", unit: "ns" }, Quantity { suffix: ".b", unit: "ns" }];

    #[test]
    fn quantities_and_comparisons_keep_their_names() {
        let samples = [
            Samples { variant: "raw", quantities: vec![vec![10.0, 20.0, 30.0], vec![1.0, 1.0, 1.0]] },
            Samples { variant: "library", quantities: vec![vec![11.0, 22.0, 33.0], vec![2.0, 2.0, 2.0]] },
            Samples { variant: "cudarc", quantities: vec![vec![30.0, 30.0, 30.0], vec![]] },
        ];
        let comparisons = [
            Comparison::new(0, "library", "raw").limit(Limit::AtMost(1.05)),
            Comparison::new(1, "library", "raw"),
            Comparison::new(1, "cudarc", "raw"),
            Comparison::new(0, "library", "absent"),
        ];
        let mut recorder = Recorder::default();
        recorder.keep("memory", &STEPS, &samples, &comparisons);
        assert!(recorder.measurements.iter().all(|each| each.series.is_empty()));
        let names: Vec<String> =
            recorder.measurements.iter().map(|each| format!("{} {}", each.name, each.variant)).collect();
        let expected = ["memory.a raw", "memory.a library", "memory.a cudarc", "memory.b raw", "memory.b library"];
        assert_eq!(names, expected);
        assert_eq!(recorder.median("memory.a", "library"), Some(22.0));
        assert_eq!(recorder.median("memory.b", "cudarc"), None);
        let ratios: Vec<(&str, f64, Option<bool>)> =
            recorder.ratios.iter().map(|ratio| (ratio.name.as_str(), ratio.value, ratio.holds)).collect();
        assert_eq!(ratios, [("memory.a library/raw", 1.1, Some(false)), ("memory.b library/raw", 2.0, None)]);
    }

    #[test]
    fn the_series_of_frames_is_kept_in_order_and_bounded() {
        let mut recorder = Recorder::default();
        let falling: Vec<f64> = (0..600).rev().map(f64::from).collect();
        recorder.summarize("frame.ring.4K.interval", "ring", "ns", &falling);
        recorder.summarize("frame.none", "ring", "ns", &[]);
        recorder.summarize("frame.ring.4K.over_limit", "ring", "ns", &falling);
        recorder.summarize("frame.ring.4K", "ring", "frames/s", &falling);
        let with_series = recorder.measurements.iter().filter(|each| !each.series.is_empty());
        let [only] = with_series.collect::<Vec<_>>()[..] else { panic!("{:?}", recorder.measurements) };
        assert_eq!((only.samples, only.series.len(), only.series[0], only.series[511]), (600, SERIES, 599.0, 88.0));
    }

    #[test]
    fn a_missing_side_is_reported_once() {
        let mut recorder = Recorder::default();
        let absent: Verdict<()> = Err(Stop::unsupported("no driver".into()));
        assert!(recorder.side("raw", &absent).is_none());
        assert!(recorder.side("raw", &absent).is_none());
        assert_eq!(recorder.not_measured.len(), 1);
    }
}
