//! Medians, spread, and ratios with a resolution of 2 %.
//!
//! # Why the median of paired ratios
//! A driver call of 600 ns is sometimes interrupted for a thousand times as long, and a processor's clock drifts by
//! several percent within a second. Interruptions distort means, drift distorts minima. The variants alternate, one
//! round at a time, so that both sides of a ratio are measured within a millisecond and at the same clock rate. The
//! ratio is computed for each round, where drift cancels. The report has the median of these ratios, which
//! interrupted rounds do not affect. A ratio of two medians would keep the drift between
//! the middle rounds. Swapping the two sides inverts the median of ratios, but not a mean of ratios.
//!
//! The interval is the 95 % confidence interval of the median, from the ranks of the ratios. It shows how
//! well the run resolved the ratio. If it is wider than the distance to the limit, the verdict is chance, and a
//! run with more rounds is needed.

/// Statistics of a list of samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Summary {
    pub(super) median: f64,
    pub(super) p10: f64,
    pub(super) p90: f64,
    pub(super) samples: usize,
}

/// The median ratio of paired samples, and the 95 % interval of that median.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PairedRatio {
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// `None` without samples.
pub(super) fn summarize(samples: &[f64]) -> Option<Summary> {
    let sorted = sorted(samples);
    let at = |quantile| self::quantile(&sorted, quantile);
    Some(Summary { median: at(0.5)?, p10: at(0.1)?, p90: at(0.9)?, samples: sorted.len() })
}

/// The ratios `over / under` of paired samples. `None` for lists of different lengths, empty lists, and zeros.
pub(super) fn paired_ratio(over: &[f64], under: &[f64]) -> Option<PairedRatio> {
    if over.len() != under.len() {
        return None;
    }
    let ratios: Vec<f64> = over.iter().zip(under).map(|(over, under)| over / under).collect();
    if !ratios.iter().all(|ratio| ratio.is_finite()) {
        return None;
    }
    let sorted = sorted(&ratios);
    let (low, high) = median_ranks(sorted.len());
    Some(PairedRatio { value: quantile(&sorted, 0.5)?, low: *sorted.get(low)?, high: *sorted.get(high)? })
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// A quantile, interpolated linearly.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Between 0 and the number of samples.
fn quantile(sorted: &[f64], quantile: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let rank = quantile.clamp(0.0, 1.0) * last as f64;
    let below = rank.floor() as usize;
    let (low, high) = (*sorted.get(below)?, *sorted.get((below + 1).min(last))?);
    Some(low + (high - low) * (rank - below as f64))
}

/// The ranks that enclose the median with a probability of 95 %: the number of samples below it is
/// binomial, with mean n/2 and standard deviation √n/2.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Between 0 and the number of samples.
fn median_ranks(count: usize) -> (usize, usize) {
    let n = count as f64;
    let low = ((n - 1.96 * n.sqrt()) / 2.0).floor().max(0.0) as usize;
    (low, count.saturating_sub(1 + low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_known_lists() {
        assert_eq!(summarize(&[]), None);
        assert_eq!(summarize(&[7.0]), Some(Summary { median: 7.0, p10: 7.0, p90: 7.0, samples: 1 }));
        // 0 to 10, out of order: every tenth is a sample.
        let eleven = [10.0, 0.0, 9.0, 1.0, 8.0, 2.0, 7.0, 3.0, 6.0, 4.0, 5.0];
        assert_eq!(summarize(&eleven), Some(Summary { median: 5.0, p10: 1.0, p90: 9.0, samples: 11 }));
        // Between two samples.
        let even = summarize(&[1.0, 2.0, 3.0, 4.0]).expect("samples");
        assert_eq!(even.median, 2.5);
        assert!((even.p10 - 1.3).abs() < 1e-12 && (even.p90 - 3.7).abs() < 1e-12, "{even:?}");
    }

    #[test]
    fn one_interrupted_round_moves_nothing() {
        let mut samples = vec![600.0; 99];
        samples.push(600_000.0);
        let summary = summarize(&samples).expect("samples");
        assert_eq!((summary.median, summary.p10, summary.p90), (600.0, 600.0, 600.0));
    }

    #[test]
    fn drift_cancels_in_a_paired_ratio() {
        // The clock slows down to half its rate during the run; one side always costs 1.02 of the other.
        let under: Vec<f64> = (0..100).map(|round| 600.0 + 3.0 * f64::from(round)).collect();
        let over: Vec<f64> = under.iter().map(|cost| cost * 1.02).collect();
        let ratio = paired_ratio(&over, &under).expect("pairs");
        for value in [ratio.value, ratio.low, ratio.high] {
            assert!((value - 1.02).abs() < 1e-9, "{ratio:?}");
        }
        let inverse = paired_ratio(&under, &over).expect("pairs");
        assert!((inverse.value * ratio.value - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_interval_holds_the_middle_ranks() {
        // The 41st to the 60th of 100 samples, all of a handful.
        assert_eq!(median_ranks(100), (40, 59));
        assert_eq!(median_ranks(3), (0, 2));
        let over: Vec<f64> = (1..=100).map(f64::from).collect();
        let ratio = paired_ratio(&over, &[1.0; 100]).expect("pairs");
        assert_eq!((ratio.value, ratio.low, ratio.high), (50.5, 41.0, 60.0));
    }

    #[test]
    fn samples_without_a_partner_have_no_ratio() {
        assert_eq!(paired_ratio(&[1.0, 2.0], &[1.0]), None);
        assert_eq!(paired_ratio(&[], &[]), None);
        assert_eq!(paired_ratio(&[1.0, 2.0], &[1.0, 0.0]), None);
    }
}
