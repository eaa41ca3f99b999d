//! Schedule of a bridge's looks at its values.
//!
//! A transfer takes tens of microseconds if both sides are ready; putting a thread to sleep and waking it takes as
//! long. The bridge therefore sleeps until shortly before a value is expected ([`Forecast`]) and then spins, for as
//! long as recent values took. After that it sleeps for a fixed fraction of the time waited so far: the added latency is
//! at most that fraction, and a wait of seconds costs at most a thousand looks a second. Where nothing must be polled,
//! the exporter or a host function wakes the bridge.
//!
//! A thread that spins yields its processor at each look. Where other threads want it, a yield lasts as long as their time
//! slices, several milliseconds, but a thread that wakes runs at once: the bridge then naps instead of spinning.

use std::time::Duration;

use super::forecast::{Forecast, SPIN};
use crate::sync::Instant;

/// Divisor: the part of the time waited so far that may be slept.
const PART: u32 = 8;
const SHORTEST: Duration = Duration::from_micros(20);
/// Longest sleep while words are polled.
const LONGEST: Duration = Duration::from_millis(1);
/// Shortest nap that costs less processor time than spinning.
const SHORTEST_NAP: Duration = Duration::from_micros(15);
/// Shortest expected time that is worth a nap. Sleeps may end 40 us late, which is as long as a transfer takes.
const SHORTEST_DUE: Duration = Duration::from_micros(100);
/// Shortest yield that tells of other threads that want the processor.
const LONG_YIELD: Duration = Duration::from_micros(500);
/// Time for which a thread naps instead of spinning, after two such yields in a row.
const CONTENDED: Duration = Duration::from_millis(100);
/// Longest sleep while a process is watched. Its end is detected after at most twice this time.
const WATCH: Duration = Duration::from_millis(50);
/// Time between two reads of all words of a busy bridge.
const ALL: Duration = Duration::from_millis(1);
/// Longest sleep where the exporter wakes the bridge.
const WOKEN: Duration = Duration::from_secs(1);
/// Initial estimate of a sleep's lateness.
const LATENESS: Duration = Duration::from_micros(50);
/// Naps need timers that are more precise than those of other systems' condition variables.
const NAPS: bool = cfg!(unix);

/// Next action of the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Spin,
    /// Sleep until shortly before a value is expected.
    Nap(Duration),
    /// Sleep; the exporter ends it if one of its timelines is waited for.
    Sleep(Duration),
}

/// How the bridge notices a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notice {
    /// It looks.
    Poll,
    /// The exporter or a host function wakes it.
    Wake,
    /// It looks now and then, because another value must come first.
    Later,
}

/// Schedule of the worker's looks.
#[derive(Debug)]
pub(super) struct Pace {
    watched: Instant,
    read_all: Instant,
    /// Recent time between the end of a nap and the thread's next instruction.
    lateness: Duration,
    /// The last yield was long.
    yielded_long: bool,
    /// When the last of two long yields ended, if the thread naps since.
    contended: Option<Instant>,
}

impl Pace {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self { watched: now, read_all: now, lateness: LATENESS, yielded_long: false, contended: None }
    }

    /// The step, or a short nap in place of spinning while other threads want the processor.
    pub(super) fn adapted(&mut self, step: Step) -> Step {
        let Some(since) = self.contended.filter(|_| step == Step::Spin) else { return step };
        if since.elapsed() < CONTENDED {
            return Step::Nap(SHORTEST);
        }
        self.contended = None;
        step
    }

    /// Learns how long a yield took.
    pub(super) fn yielded(&mut self, taken: Duration) {
        let is_long = taken >= LONG_YIELD;
        if is_long && self.yielded_long && NAPS {
            self.contended = Some(Instant::now());
        }
        self.yielded_long = is_long;
    }

    /// `true` if watched processes are due for a check, also while another timeline keeps the bridge busy.
    pub(super) fn watches(&mut self) -> bool {
        is_due(&mut self.watched, WATCH)
    }

    /// `true` if all words are due to be read, as for [`Pace::watches`].
    pub(super) fn reads_all(&mut self) -> bool {
        is_due(&mut self.read_all, ALL)
    }

    /// Expected lateness of a nap.
    pub(super) fn lateness(&self) -> Duration {
        self.lateness
    }

    /// Learns how late a nap ended. One that was interrupted was not late.
    pub(super) fn napped(&mut self, pause: Duration, actual: Duration) {
        let Some(late) = actual.checked_sub(pause) else { return };
        // A thread that lost its processor for longer says nothing about the timer.
        let late = late.min(SPIN);
        self.lateness = match late.checked_sub(self.lateness) {
            Some(more) => self.lateness + more / 2,
            None => self.lateness - (self.lateness - late) / 8,
        };
    }

    /// Forgets a part of the lateness: a great one prevents naps, which measure it.
    pub(super) fn forget(&mut self) {
        self.lateness -= self.lateness / 64;
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

/// The next step for several values: the earliest one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    lateness: Duration,
    /// Time until the next look.
    pause: Duration,
    spins: bool,
    /// The pause ends shortly before an expected value, and no value has outlasted its expectation.
    naps: bool,
}

impl Plan {
    /// Begins a plan. `watched`: processes must be checked.
    pub(super) fn new(lateness: Duration, watched: bool) -> Self {
        Self { lateness, pause: if watched { WATCH } else { WOKEN }, spins: false, naps: true }
    }

    /// Adds a value that has been expected for `waited`.
    pub(super) fn add(&mut self, waited: Duration, forecast: &Forecast, notice: Notice) {
        if notice == Notice::Later {
            self.pause = self.pause.min(LONGEST);
            return;
        }
        let due = Some(forecast.due(self.lateness)).filter(|due| NAPS && *due >= SHORTEST_DUE).unwrap_or_default();
        match due.checked_sub(waited).filter(|left| *left >= SHORTEST_NAP) {
            // The value may come much earlier than expected: long naps have looks in between.
            Some(left) => self.pause = self.pause.min(left.min((waited / PART).clamp(SPIN, LONGEST))),
            None if waited < due + forecast.spin() => self.spins = true,
            None => {
                self.naps = false;
                if notice == Notice::Poll {
                    self.pause = self.pause.min((waited / PART).clamp(SHORTEST, LONGEST));
                }
            }
        }
    }

    pub(super) fn step(self) -> Step {
        match self {
            Self { spins: true, .. } => Step::Spin,
            Self { naps: true, pause, .. } => Step::Nap(pause),
            Self { pause, .. } => Step::Sleep(pause),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const NONE: Duration = Duration::ZERO;

    fn us(microseconds: u64) -> Duration {
        Duration::from_micros(microseconds)
    }

    fn step(values: &[(Duration, &Forecast, Notice)], watched: bool) -> Step {
        let mut plan = Plan::new(NONE, watched);
        values.iter().for_each(|(waited, forecast, notice)| plan.add(*waited, forecast, *notice));
        plan.step()
    }

    #[cfg(unix)]
    fn learned(latency: Duration) -> Forecast {
        let forecast = Forecast::default();
        (0..60).for_each(|_| forecast.observe(latency, latency, NONE));
        forecast
    }

    #[test]
    fn sleeps_grow_with_the_wait() {
        let unknown = Forecast::default();
        let alone = |waited, notice, watched| step(&[(waited, &unknown, notice)], watched);
        assert_eq!(alone(NONE, Notice::Poll, false), Step::Spin);
        assert_eq!(alone(us(399), Notice::Wake, false), Step::Spin);
        assert_eq!(alone(us(800), Notice::Poll, true), Step::Sleep(us(100)));
        assert_eq!(alone(Duration::from_secs(5), Notice::Poll, false), Step::Sleep(LONGEST));
        assert_eq!(alone(Duration::from_secs(5), Notice::Wake, true), Step::Sleep(WATCH));
        assert_eq!(alone(us(1_000), Notice::Wake, false), Step::Sleep(WOKEN));
    }

    #[test]
    #[cfg(unix)]
    fn naps_end_before_the_earliest_expected_value() {
        let (soon, late, unknown) = (learned(us(160)), learned(us(3_200)), Forecast::default());
        let nap = |step| match step {
            Step::Nap(pause) => pause,
            other => panic!("{other:?}"),
        };
        let at = |waited| [(waited, &soon, Notice::Poll), (waited, &late, Notice::Wake)];
        let first = nap(step(&at(NONE), false));
        assert!(first > us(148) && first <= us(150), "{first:?}");
        let second = nap(step(&at(us(100)), false));
        assert!(second > us(48) && second <= us(50), "{second:?}");
        assert_eq!(step(&at(us(140)), false), Step::Spin, "too short for a nap");
        assert_eq!(step(&at(us(155)), false), Step::Spin);
        // A look at least every 400 microseconds, or an eighth of the time waited so far.
        assert_eq!(nap(step(&[(NONE, &late, Notice::Wake)], false)), us(400));
        assert_eq!(nap(step(&[(us(2_000), &learned(us(15_000)), Notice::Wake)], false)), us(400));
        assert_eq!(nap(step(&[(us(4_800), &learned(us(15_000)), Notice::Wake)], false)), us(600));
        // One value outlasts its expectation: the exporter must be able to end the sleep.
        assert_eq!(
            step(&[(us(600), &late, Notice::Wake), (us(600), &soon, Notice::Wake)], false),
            Step::Sleep(us(400))
        );
        assert_eq!(step(&[(NONE, &late, Notice::Wake), (NONE, &unknown, Notice::Poll)], false), Step::Spin);
        // A value behind another one does not keep the thread awake.
        assert_eq!(nap(step(&[(us(800), &unknown, Notice::Later), (NONE, &soon, Notice::Wake)], false)), first);
    }

    #[test]
    #[cfg(unix)]
    fn a_thread_naps_where_others_want_its_processor() {
        let mut pace = Pace::new();
        let mut after = |yields: &[Duration]| {
            yields.iter().for_each(|taken| pace.yielded(*taken));
            let step = pace.adapted(Step::Spin);
            assert_eq!(pace.adapted(Step::Sleep(us(100))), Step::Sleep(us(100)));
            if step != Step::Spin {
                // The time is over.
                pace.contended = Instant::now().checked_sub(CONTENDED);
                assert_eq!(pace.adapted(Step::Spin), Step::Spin);
            }
            step
        };
        assert_eq!(after(&[LONG_YIELD]), Step::Spin, "one yield may be long for another reason");
        assert_eq!(after(&[us(1), LONG_YIELD]), Step::Spin);
        assert_eq!(after(&[LONG_YIELD]), Step::Nap(SHORTEST));
        assert_eq!(after(&[LONG_YIELD]), Step::Nap(SHORTEST), "the others still want it");
        assert_eq!(after(&[us(1), LONG_YIELD]), Step::Spin);
    }

    #[test]
    fn late_naps_end_earlier() {
        let mut pace = Pace::new();
        for _ in 0..60 {
            pace.napped(us(100), us(108));
        }
        assert!(pace.lateness() >= us(8) && pace.lateness() < us(9), "{:?}", pace.lateness());
        // Interrupted.
        pace.napped(us(100), us(20));
        assert!(pace.lateness() >= us(8));
        pace.napped(us(100), us(140));
        assert!(pace.lateness() > us(20), "{:?}", pace.lateness());
        // A thread without a processor does not prevent naps for long.
        pace.napped(us(100), Duration::from_secs(1));
        assert!(pace.lateness() < us(220), "{:?}", pace.lateness());
        let before = pace.lateness();
        pace.forget();
        assert!(pace.lateness() < before);
    }
}
