//! Waits for memory that changes without notification: spins first, then sleeps for increasing times.

use std::time::{Duration, Instant};

/// The state of one wait.
#[derive(Debug)]
pub(crate) struct Backoff {
    since: Instant,
    rounds: u32,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self { since: Instant::now(), rounds: 0 }
    }

    /// Resets the wait after progress.
    pub(crate) fn reset(&mut self) {
        *self = Self::new();
    }

    /// Time without progress.
    pub(crate) fn waited(&self) -> Duration {
        self.since.elapsed()
    }

    /// Waits for a step.
    pub(crate) fn pause(&mut self) {
        self.rounds = self.rounds.saturating_add(1);
        if self.rounds < 64 {
            std::hint::spin_loop();
            return;
        }
        match pause(self.waited()) {
            None => std::thread::yield_now(),
            Some(pause) => std::thread::sleep(pause),
        }
    }
}

/// Sleep time after waiting for this long; `None` means no sleep.
fn pause(waited: Duration) -> Option<Duration> {
    let micros = Duration::from_micros;
    match waited {
        short if short < micros(20) => None,
        short if short < micros(2_000) => Some(micros(20)),
        medium if medium < micros(50_000) => Some(micros(60)),
        long if long < micros(250_000) => Some(micros(200)),
        _ => Some(micros(1000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_have_a_limit() {
        let pauses = [1, 100, 10_000, 1_000_000, 100_000_000].map(|micros| pause(Duration::from_micros(micros)));
        assert!(pauses.is_sorted(), "{pauses:?}");
        assert_eq!((pauses[0], pauses[4]), (None, Some(Duration::from_millis(1))));
    }
}
