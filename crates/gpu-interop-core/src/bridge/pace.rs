//! Polling intervals of a bridge.
//!
//! A transfer takes tens of microseconds if both sides are ready; putting a thread to sleep and waking it takes as
//! long. The bridge therefore spins briefly after each event. Then it sleeps for a fixed fraction of the time waited so
//! far: the added latency is at most that fraction, and a wait of seconds costs at most a thousand polls a second.
//! Where nothing must be polled, the exporter wakes the bridge.

use std::time::Duration;

use crate::sync::Instant;

const SPIN: Duration = Duration::from_micros(400);
/// Divisor: the part of the time waited so far that may be slept.
const PART: u32 = 8;
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(1);
/// Longest sleep while a process is watched. Its end is detected after at most twice this time.
const WATCH: Duration = Duration::from_millis(50);
/// Time between two reads of all words of a busy bridge.
const ALL: Duration = Duration::from_millis(1);
/// Longest sleep where the exporter wakes the bridge.
const WOKEN: Duration = Duration::from_secs(1);

/// Next action of the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Spin,
    Sleep(Duration),
}

/// Schedule of the worker's polls.
#[derive(Debug)]
pub(super) struct Pace {
    since: Instant,
    watched: Instant,
    read_all: Instant,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), watched: Instant::now(), read_all: Instant::now() }
    }

    /// Restarts the schedule after an event.
    pub(super) fn restart(&mut self) {
        self.since = Instant::now();
    }

    /// `true` if watched processes are due for a check, also while another timeline keeps the bridge busy.
    pub(super) fn watches(&mut self) -> bool {
        is_due(&mut self.watched, WATCH)
    }

    /// `true` if all words are due to be read, as for [`Pace::watches`].
    pub(super) fn reads_all(&mut self) -> bool {
        is_due(&mut self.read_all, ALL)
    }

    /// Returns the next step. `polled`: words must be polled; `watched`: processes must be checked.
    pub(super) fn next(&self, polled: bool, watched: bool) -> Step {
        step(self.since.elapsed(), polled, watched)
    }
}

/// `true` if `interval` has elapsed since `last`, which is then now.
fn is_due(last: &mut Instant, interval: Duration) -> bool {
    let is_due = last.elapsed() >= interval;
    if is_due {
        *last = Instant::now();
    }
    is_due
}

fn step(waited: Duration, polled: bool, watched: bool) -> Step {
    if waited < SPIN {
        Step::Spin
    } else if polled {
        Step::Sleep((waited / PART).clamp(SHORTEST, LONGEST))
    } else {
        Step::Sleep(if watched { WATCH } else { WOKEN })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_grow_with_the_wait() {
        assert_eq!(step(Duration::ZERO, true, false), Step::Spin);
        assert_eq!(step(Duration::from_micros(800), true, true), Step::Sleep(Duration::from_micros(100)));
        assert_eq!(step(Duration::from_secs(5), true, false), Step::Sleep(LONGEST));
        assert_eq!(step(Duration::from_secs(5), false, true), Step::Sleep(WATCH));
        assert_eq!(step(Duration::from_millis(1), false, false), Step::Sleep(WOKEN));
    }
}
