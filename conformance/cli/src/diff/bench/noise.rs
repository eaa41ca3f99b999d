//! Figures that changed by more than the noise.
//!
//! Every figure has a range: from the 10th to the 90th percentile of its rounds, or the 95 % interval of a ratio; of
//! several runs the union. A figure changes if the ranges before and after are apart by more than a factor, and the noise.
//! The noise is measured: with several runs on each side it is the deviation of the medians among the runs of one side.
//! With a single run on a side it is the change that most figures stay below, so that changes of many figures count as
//! noise. A change of all measurements alike is one of the machine's speed: it is taken out and reported.
//!
//! The constants come from 41 runs of the host backend on two processors that were busy with builds: of 640 pairs of sides
//! with one, two or three runs each, one had a figure that exceeded them.

use super::Value;

/// The number of figures from which on their differences are a measure of the noise.
const ENOUGH: usize = 10;
/// A measurement with fewer samples on a side is not judged.
const LEAST_SAMPLES: usize = 5;

/// A figure on both sides as a cost: a higher value is worse.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    before: Range,
    after: Range,
    /// The greater deviation among the runs of one side, as a logarithm.
    spread: f64,
}

#[derive(Debug, Clone, Copy)]
struct Range {
    median: f64,
    low: f64,
    high: f64,
}

impl Pair {
    /// `None` for figures that cannot be judged: a value is not positive, or there are few samples.
    pub(super) fn new(before: &Value, after: &Value, higher_is_better: bool) -> Option<Self> {
        let range = |value: &Value| {
            let positive = value.low.is_finite() && value.low > 0.0 && value.high.is_finite();
            let enough = value.samples.is_none_or(|samples| samples >= LEAST_SAMPLES);
            let Value { median, low, high, .. } = *value;
            let cost = if higher_is_better {
                Range { median: 1.0 / median, low: 1.0 / high, high: 1.0 / low }
            } else {
                Range { median, low, high }
            };
            (positive && enough).then_some(cost)
        };
        let spread = |value: &Value| {
            let least = value.medians.iter().copied().fold(f64::INFINITY, f64::min);
            let most = value.medians.iter().copied().fold(0.0, f64::max);
            (most / least).ln()
        };
        Some(Self { before: range(before)?, after: range(after)?, spread: spread(before).max(spread(after)) })
    }

    /// The logarithm of the change of the median.
    fn change(&self) -> f64 {
        (self.after.median / self.before.median).ln()
    }
}

/// The direction of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Worse,
    Better,
}

/// The rule for the measurements of two sides, or for their ratios.
#[derive(Debug)]
pub(super) struct Rule {
    /// The logarithm of the least factor between the ranges.
    least: f64,
    /// The logarithm of the median change, which is taken out.
    shift: f64,
}

impl Rule {
    /// The rule for these figures, with the smaller number of runs on a side. `shifts`: a change of all figures alike is
    /// one of the machine.
    pub(super) fn of(pairs: &[Pair], runs: usize, shifts: bool) -> Self {
        let mut changes: Vec<f64> = pairs.iter().map(Pair::change).collect();
        if changes.len() < ENOUGH {
            let factor: f64 = match runs {
                ..=1 => 5.0,
                2 => 3.0,
                _ => 1.5,
            };
            return Self { least: factor.ln(), shift: 0.0 };
        }
        let shift = if shifts { rank(&mut changes, 0.5) } else { 0.0 };
        let mut spreads: Vec<f64> = pairs.iter().map(|pair| pair.spread).collect();
        let mut sizes: Vec<f64> = changes.iter().map(|change| (change - shift).abs()).collect();
        let (factor, noise): (f64, f64) = match runs {
            ..=1 => (2.0, 2.0 * rank(&mut sizes, 0.9)),
            2 => (1.25, 2.0 * rank(&mut spreads, 0.95)),
            _ => (1.1, rank(&mut spreads, 0.9)),
        };
        Self { least: factor.ln() + noise, shift }
    }

    /// The change of a figure; `None` within the noise.
    pub(super) fn judge(&self, pair: &Pair) -> Option<Change> {
        let Pair { before, after, .. } = pair;
        let apart = |lower: &Range, upper: &Range| (upper.low / lower.high).ln();
        if apart(before, after) - self.shift > self.least {
            return Some(Change::Worse);
        }
        (apart(after, before) + self.shift > self.least).then_some(Change::Better)
    }

    /// The least factor between the ranges.
    pub(super) fn factor(&self) -> f64 {
        self.least.exp()
    }

    /// The factor that is taken out, if it matters.
    pub(super) fn shift(&self) -> Option<f64> {
        (self.shift.abs() > 0.05).then(|| self.shift.exp())
    }
}

/// The value below which a share of the values is; 0 for none.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Between 0 and the number of values.
fn rank(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = (share * values.len() as f64) as usize;
    values.get(place.min(values.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(median: f64, spread: f64) -> Value {
        let (low, high) = (median * (1.0 - spread), median * (1.0 + spread));
        Value { median, medians: vec![median], low, high, samples: Some(100), limit: None, kept: None }
    }

    fn pair(before: f64, after: f64) -> Pair {
        Pair::new(&value(before, 0.05), &value(after, 0.05), false).expect("values are positive")
    }

    /// Twenty figures with differences of up to 2 %.
    fn calm() -> Vec<Pair> {
        (0..20).map(|n| pair(100.0, 100.0 + f64::from(n % 5) - 2.0)).collect()
    }

    #[test]
    fn ranges_that_are_apart_are_a_change() {
        for (runs, within, beyond) in [(1, 2.2, 2.6), (2, 1.35, 1.4), (3, 1.2, 1.25)] {
            let rule = Rule::of(&calm(), runs, true);
            assert!(calm().iter().all(|pair| rule.judge(pair).is_none()));
            assert_eq!(rule.judge(&pair(100.0, 100.0 * within)), None, "{runs} runs");
            assert_eq!(rule.judge(&pair(100.0, 100.0 * beyond)), Some(Change::Worse), "{runs} runs");
            assert_eq!(rule.judge(&pair(100.0 * beyond, 100.0)), Some(Change::Better), "{runs} runs");
        }
    }

    #[test]
    fn rates_are_better_if_they_are_higher() {
        let rule = Rule::of(&calm(), 3, true);
        let rate = |before, after| Pair::new(&value(before, 0.05), &value(after, 0.05), true).expect("positive");
        assert_eq!(rule.judge(&rate(100.0, 200.0)), Some(Change::Better));
        assert_eq!(rule.judge(&rate(200.0, 100.0)), Some(Change::Worse));
    }

    #[test]
    fn one_run_has_the_changes_of_most_figures_as_noise() {
        let noisy: Vec<Pair> = (0..20).map(|n| pair(100.0, if n % 3 == 0 { 150.0 } else { 100.0 })).collect();
        assert_eq!(Rule::of(&noisy, 1, true).judge(&pair(100.0, 400.0)), None);
        // Several runs show that these are changes.
        let rule = Rule::of(&noisy, 3, true);
        let changed = noisy.iter().filter(|pair| rule.judge(pair) == Some(Change::Worse)).count();
        assert_eq!(changed, 7);
    }

    #[test]
    fn several_runs_have_their_deviation_as_noise() {
        let deviating = Value { medians: vec![100.0, 150.0, 120.0], ..value(120.0, 0.05) };
        let noisy: Vec<Pair> = (0..20).filter_map(|_| Pair::new(&deviating, &value(120.0, 0.05), false)).collect();
        let rule = Rule::of(&noisy, 3, true);
        assert_eq!(rule.judge(&pair(100.0, 170.0)), None);
        assert_eq!(rule.judge(&pair(100.0, 200.0)), Some(Change::Worse));
    }

    #[test]
    fn a_change_of_all_measurements_is_taken_out() {
        let shifted: Vec<Pair> = (0..20).map(|_| pair(100.0, 150.0)).collect();
        let rule = Rule::of(&shifted, 3, true);
        assert_eq!(rule.judge(&pair(100.0, 150.0)), None);
        assert_eq!(rule.judge(&pair(100.0, 300.0)), Some(Change::Worse));
        assert!(rule.shift().is_some_and(|shift| (shift - 1.5).abs() < 0.01));
        assert_eq!(Rule::of(&shifted, 3, false).judge(&pair(100.0, 150.0)), Some(Change::Worse));
    }

    #[test]
    fn few_figures_need_a_large_change() {
        let rule = Rule::of(&calm()[..3], 1, true);
        assert_eq!(rule.judge(&pair(100.0, 400.0)), None);
        assert_eq!(rule.judge(&pair(100.0, 600.0)), Some(Change::Worse));
    }

    #[test]
    fn figures_without_a_range_are_not_judged() {
        assert!(Pair::new(&value(0.0, 0.0), &value(1.0, 0.0), false).is_none());
        assert!(Pair::new(&value(f64::NAN, 0.0), &value(1.0, 0.0), false).is_none());
        let once = Value { samples: Some(1), ..value(1.0, 0.0) };
        assert!(Pair::new(&once, &value(1.0, 0.0), false).is_none());
    }
}
