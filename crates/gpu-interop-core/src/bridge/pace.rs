//! How eagerly a bridge looks.
//!
//! A hand-over takes tens of microseconds if both sides are ready, and putting a thread to sleep and waking it takes as
//! long. So the bridge spins for a short while after anything happened. After that it sleeps for a fixed part of the
//! time that it has waited already: what comes late is late by at most that part, and a wait of seconds costs a thousand
//! looks a second at most. Where nothing has to be looked at, the exporter wakes it.

use std::time::Duration;

use crate::sync::Instant;

/// How long to look without a break.
const SPIN: Duration = Duration::from_micros(400);
/// What part of the time already waited may be slept.
const PART: u32 = 8;
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(1);
/// The longest sleep while a process is watched. Its end is noticed twice as late at most.
const WATCH: Duration = Duration::from_millis(50);
/// The longest sleep where the exporter wakes the bridge.
const WOKEN: Duration = Duration::from_secs(1);

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Spin,
    Sleep(Duration),
}

/// Decides when the bridge looks again.
#[derive(Debug)]
pub(super) struct Pace {
    since: Instant,
    watched: Instant,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), watched: Instant::now() }
    }

    /// Something happened.
    pub(super) fn restart(&mut self) {
        self.since = Instant::now();
    }

    /// Whether it is time to look after processes: also of one timeline while another keeps the bridge busy.
    pub(super) fn watches(&mut self) -> bool {
        let is_time = self.watched.elapsed() >= WATCH;
        if is_time {
            self.watched = Instant::now();
        }
        is_time
    }

    /// `polled`: words have to be looked at; `watched`: so have processes.
    pub(super) fn next(&self, polled: bool, watched: bool) -> Step {
        step(self.since.elapsed(), polled, watched)
    }
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
