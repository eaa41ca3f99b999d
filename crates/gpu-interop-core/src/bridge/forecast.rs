//! Learned latencies: when the next value of a timeline or of a stream is expected.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Longest time that a thread spins for one value.
pub(super) const SPIN: Duration = Duration::from_micros(400);
/// Shortest spinning time after the expected one.
const SHORTEST_SPIN: Duration = Duration::from_micros(20);
/// Two looks at most this far apart determine the time of a value.
const PRECISE: Duration = Duration::from_micros(10);
/// Divisor: the part of a latency that is spun ahead of its end, up to [`LONGEST_MARGIN`].
const MARGIN: u32 = 16;
const LONGEST_MARGIN: Duration = Duration::from_micros(100);
/// Longest latency that is expected. After it, the thread sleeps without a forecast.
const LONGEST: Duration = Duration::from_millis(20);

/// Latencies of the values of one timeline or one stream.
///
/// It keeps a low latency, which a quicker value lowers at once and slower ones raise by a quarter of the difference: a
/// thread that sleeps until then seldom sleeps too long. The values are estimates; races between threads are harmless.
#[derive(Debug)]
pub(crate) struct Forecast {
    /// The low latency, nanoseconds.
    low: AtomicU64,
    /// Time to spin after the expected time, nanoseconds.
    spin: AtomicU64,
}

impl Default for Forecast {
    /// Without experience, a thread spins from the beginning.
    fn default() -> Self {
        Self { low: AtomicU64::new(0), spin: AtomicU64::new(nanoseconds(SPIN)) }
    }
}

impl Forecast {
    /// Time at which a thread starts to spin, if its sleeps end late by `lateness`.
    pub(super) fn due(&self, lateness: Duration) -> Duration {
        let low = self.low();
        low.saturating_sub((low / MARGIN).min(LONGEST_MARGIN)).saturating_sub(lateness)
    }

    /// Time for which it then spins.
    pub(super) fn spin(&self) -> Duration {
        Duration::from_nanos(self.spin.load(Ordering::Relaxed))
    }

    /// Learns that a value came after more than `lower` and at most `upper`.
    pub(super) fn observe(&self, lower: Duration, upper: Duration, lateness: Duration) {
        let (low, due) = (self.low(), self.due(lateness));
        let is_precise = upper.saturating_sub(lower) <= PRECISE;
        let next = match if is_precise { upper } else { lower } {
            latency if latency >= low => low + (latency - low) / 4,
            latency if is_precise => latency,
            // The thread overslept.
            latency => latency.max((low - low / 4).min(upper)),
        };
        self.low.store(nanoseconds(next.min(LONGEST)), Ordering::Relaxed);

        let (spin, past) = (self.spin(), upper.saturating_sub(due));
        // Spinning in vain lasts shorter the next time.
        let wanted = if past > SPIN { Duration::ZERO } else { past * 2 };
        let next = wanted.max(spin - spin / 8).clamp(SHORTEST_SPIN, SPIN);
        self.spin.store(nanoseconds(next), Ordering::Relaxed);
    }

    fn low(&self) -> Duration {
        Duration::from_nanos(self.low.load(Ordering::Relaxed))
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const NONE: Duration = Duration::ZERO;

    fn us(microseconds: u64) -> Duration {
        Duration::from_micros(microseconds)
    }

    /// A forecast after 40 precise observations.
    fn learned(latency: Duration) -> Forecast {
        let forecast = Forecast::default();
        (0..40).for_each(|_| forecast.observe(latency, latency, NONE));
        forecast
    }

    #[test]
    fn a_constant_latency_is_learned_up_to_the_margin() {
        assert_eq!((Forecast::default().due(NONE), Forecast::default().spin()), (NONE, SPIN));
        for latency in [us(20), us(100), us(1_000), us(10_000)] {
            let forecast = learned(latency);
            let margin = (latency / 16).min(us(100));
            let ahead = latency - forecast.due(NONE);
            assert!(ahead >= margin && ahead <= margin + us(1), "{latency:?}: {ahead:?} ahead");
            assert!(forecast.due(us(5)) + us(5) == forecast.due(NONE), "late sleeps end earlier");
            assert!(forecast.spin() <= (margin * 2).max(us(20)) + us(2), "{latency:?}: {:?}", forecast.spin());
        }
        assert!(learned(Duration::from_secs(5)).due(NONE) < us(20_000));
    }

    #[test]
    fn a_quicker_value_counts_at_once_and_slower_ones_slowly() {
        let forecast = learned(us(160));
        forecast.observe(us(79), us(80), NONE);
        assert_eq!(forecast.due(NONE), us(75));
        forecast.observe(us(160), us(160), NONE);
        assert_eq!(forecast.due(NONE), us(100) - us(100) / 16);
    }

    #[test]
    fn a_thread_that_overslept_wakes_earlier() {
        let forecast = learned(us(160));
        let before = forecast.due(NONE);
        forecast.observe(NONE, before, NONE);
        let after = forecast.due(NONE);
        assert!(after < before * 4 / 5 && after > before / 2, "{before:?} to {after:?}");
        // The bridge polled at 140 us, so the value came later.
        let forecast = learned(us(160));
        forecast.observe(us(140), us(155), NONE);
        assert!(forecast.due(NONE) >= us(130), "{:?}", forecast.due(NONE));
        // The value came before the next attempt.
        let forecast = learned(us(160));
        forecast.observe(NONE, us(40), NONE);
        assert!(forecast.due(NONE) < us(40));
    }

    #[test]
    fn spinning_lasts_as_long_as_recent_values_took() {
        let forecast = learned(us(100));
        assert!(forecast.spin() < us(30), "{:?}", forecast.spin());
        forecast.observe(us(249), us(250), NONE);
        assert!(forecast.spin() > us(300), "{:?}", forecast.spin());
        // Far too late: shorter each time.
        for _ in 0..60 {
            forecast.observe(us(5_000), us(5_600), NONE);
            forecast.observe(us(99), us(100), NONE);
        }
        assert!(forecast.spin() < us(30), "{:?}", forecast.spin());
    }
}
