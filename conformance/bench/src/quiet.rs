//! Detects another thread on the processor core of the calling thread.
//!
//! Most processors run two hardware threads on each core. While the second one is busy, a driver call takes up to
//! 1.7 times as long, and the library's part of it changes more than the driver's. On rented machines the second thread often
//! belongs to another tenant. On such a machine with an H200, a core was free 40 % of the time, in phases of 1 to 100 ms,
//! and the duration of a fixed loop predicted that of `cuEventRecord` (rank correlation 0.86): 0.86 µs and 140 ns on a free
//! core, 1.3 µs and 240 ns on a busy one.
//!
//! [`Core`] times such a loop before and after each variant, and moves the thread where the core stays busy. The loop does not
//! depend on the variants, so that this choice of rounds favours none of them. It shows neither shared caches nor the distance
//! to the GPU's socket: medians of different measurements remain comparable only roughly, other than ratios of one round.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Iterations of the loop: about a microsecond.
const ITERATIONS: u32 = 500;
/// A core is busy if the loop takes this much longer than on a free core. The clock's rate changes by a tenth; a second thread
/// costs at least 1.3.
const TOLERANCE: f64 = 1.2;
/// Durations whose median is one estimate. A single one may be too short by chance.
const WINDOW: usize = 9;
/// A shorter duration is forgotten by this part for each nanosecond in the loop: 3 % a second, for a clock that has become slower.
const AGEING: f64 = 0.03e-9;
/// Duration of the first estimate: several phases.
const CALIBRATION: Duration = Duration::from_millis(300);
/// Longest wait for a core to become free, before the thread moves to another processor.
const MAX_WAIT: Duration = Duration::from_millis(5);

/// A run of the loop.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timed {
    /// Its duration in nanoseconds.
    pub(super) taken: f64,
    /// The processor at its end.
    pub(super) processor: usize,
}

/// The core of the calling thread.
pub(super) struct Core<'a> {
    /// Runs the loop.
    time_loop: Box<dyn FnMut() -> Timed + 'a>,
    /// Moves this thread to another processor.
    move_on: Box<dyn FnMut() + 'a>,
    /// The processor of the last loop.
    processor: usize,
    /// The last durations, in a ring.
    last: [f64; WINDOW],
    next: usize,
    /// The shortest median of the last time: the loop's duration on a free core.
    free: f64,
    /// Longest wait for the core to become free.
    max_wait: Duration,
}

impl<'a> Core<'a> {
    /// Measures the loop for 0.3 s.
    pub(super) fn calibrated() -> Self {
        let time_loop = || {
            let start = Instant::now();
            work();
            Timed { taken: start.elapsed().as_secs_f64() * 1e9, processor: processor() }
        };
        let mut core = Core::new(time_loop, move_to_next_processor);
        let start = Instant::now();
        while start.elapsed() < CALIBRATION {
            core.is_free();
        }
        core
    }

    pub(super) fn new(time_loop: impl FnMut() -> Timed + 'a, move_on: impl FnMut() + 'a) -> Self {
        Self {
            time_loop: Box::new(time_loop),
            move_on: Box::new(move_on),
            processor: 0,
            last: [f64::INFINITY; WINDOW],
            next: 0,
            free: f64::INFINITY,
            max_wait: MAX_WAIT,
        }
    }

    /// `true` if the loop is as fast as on a free core, on the same processor as the last time.
    pub(super) fn is_free(&mut self) -> bool {
        let Timed { taken, processor } = (self.time_loop)();
        let has_stayed = std::mem::replace(&mut self.processor, processor) == processor;
        self.free *= 1.0 + AGEING * taken;
        self.last[self.next] = taken;
        self.next = (self.next + 1) % WINDOW;
        let mut sorted = self.last;
        sorted.sort_unstable_by(f64::total_cmp);
        self.free = self.free.min(sorted[WINDOW / 2]);
        has_stayed && taken <= self.free * TOLERANCE
    }

    /// Waits until the core is free, for at most `max_wait`. `false` if the thread has moved to another processor instead: the
    /// caches of that one are cold.
    pub(super) fn wait_until_free(&mut self) -> bool {
        let start = Instant::now();
        loop {
            if self.is_free() {
                return true;
            }
            if start.elapsed() >= self.max_wait {
                (self.move_on)();
                return false;
            }
        }
    }
}

/// Moves this thread to the next processor that it may use. It may still use all of them, and so may threads that it starts.
#[cfg(target_os = "linux")]
fn move_to_next_processor() {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

    let Ok(allowed) = sched_getaffinity(None) else { return };
    let here = sched_getcpu();
    let from_here = (here + 1..CpuSet::MAX_CPU).chain(0..here);
    let Some(next) = from_here.into_iter().find(|cpu| allowed.is_set(*cpu)) else { return };
    let mut only = CpuSet::new();
    only.set(next);
    // Neither can fail with the processors that the thread may use. If the first one does, the thread stays here.
    let _ = sched_setaffinity(None, &only);
    let _ = sched_setaffinity(None, &allowed);
}

#[cfg(not(target_os = "linux"))]
fn move_to_next_processor() {}

/// The number of the current processor.
fn processor() -> usize {
    #[cfg(target_os = "linux")]
    return rustix::thread::sched_getcpu();
    #[cfg(not(target_os = "linux"))]
    0
}

/// Independent chains of multiplications, shifts and additions, which fill a core's execution units: a second thread takes
/// its share of these.
fn work() {
    let mut chains: [u64; 6] = black_box([1, 2, 3, 4, 5, 6]);
    for _ in 0..ITERATIONS {
        let [a, b, c, d, e, f] = &mut chains;
        *a = a.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        *b = b.wrapping_mul(0xD134_2543_DE82_EF95) ^ 1;
        *c ^= *c << 13;
        *d = d.rotate_left(7).wrapping_add(*c);
        *e ^= *e >> 9;
        *f = f.wrapping_add(*e | 1);
    }
    black_box(chains);
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn on_one(taken: f64) -> Timed {
        Timed { taken, processor: 0 }
    }

    #[test]
    fn a_loop_slower_than_the_usual_one_shows_a_busy_core() {
        // Within a tenth by the clock's rate; half as long again by a second thread; once too short by chance.
        let mut durations = [[1000.0, 1090.0, 1010.0].repeat(6), vec![700.0, 1050.0, 1500.0, 1300.0, 1190.0]].concat();
        durations.reverse();
        let mut core = Core::new(|| on_one(durations.pop().expect("a duration")), || {});
        for _ in 0..18 {
            core.is_free();
        }
        let rest: Vec<bool> = (0..5).map(|_| core.is_free()).collect();
        assert_eq!(rest, [true, true, false, false, true]);
    }

    #[test]
    fn a_core_that_becomes_free_later_changes_the_judgement() {
        let mut duration = 1500.0;
        let time_loop = || {
            duration = if duration > 1000.0 { duration - 10.0 } else { duration };
            on_one(duration)
        };
        let mut core = Core::new(time_loop, || {});
        // Busy from the start: nothing else is known.
        let first: Vec<bool> = (0..WINDOW).map(|_| core.is_free()).collect();
        assert!(first[WINDOW - 1], "{first:?}");
        for _ in 0..100 {
            core.is_free();
        }
        assert!(core.free <= 1001.0, "{}", core.free);
    }

    #[test]
    fn the_thread_moves_from_a_core_that_stays_busy() {
        let (calls, moves) = (Cell::new(0), Cell::new(0));
        let time_loop = || {
            calls.set(calls.get() + 1);
            let is_free = calls.get() < 20 || calls.get() == 40 || moves.get() == 1;
            on_one(if is_free { 1000.0 } else { 2000.0 })
        };
        let mut core = Core::new(time_loop, || moves.set(moves.get() + 1));
        for _ in 0..20 {
            core.is_free();
        }
        // On a machine that stops this thread for a while, too.
        core.max_wait = Duration::from_secs(20);
        assert!(core.wait_until_free(), "free in time");
        core.max_wait = MAX_WAIT;
        assert_eq!((calls.get(), moves.get()), (40, 0));
        let start = Instant::now();
        assert!(!core.wait_until_free(), "moved");
        assert!(start.elapsed() >= MAX_WAIT);
        assert!(core.wait_until_free(), "the other core is free");
        assert_eq!(moves.get(), 1);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_that_has_moved_may_use_the_same_processors() {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu};

        let allowed = sched_getaffinity(None).expect("the processors of this thread");
        let moved = (0..100).any(|_| {
            let here = sched_getcpu();
            move_to_next_processor();
            sched_getcpu() != here
        });
        assert_eq!(moved, allowed.count() > 1);
        let after = sched_getaffinity(None).expect("the processors of this thread");
        assert!((0..CpuSet::MAX_CPU).all(|cpu| allowed.is_set(cpu) == after.is_set(cpu)));
    }

    #[test]
    fn a_round_on_two_processors_is_not_on_a_free_core() {
        let mut processors = [3, 3, 3, 4, 4].into_iter();
        let time_loop = || Timed { taken: 1000.0, processor: processors.next().expect("a processor") };
        let mut core = Core::new(time_loop, || {});
        core.is_free();
        assert_eq!([(); 4].map(|()| core.is_free()), [true, true, false, true]);
    }

    /// A clock that stays slower is the usual one after a while.
    #[test]
    fn a_short_duration_is_forgotten() {
        let mut calls = 0;
        let time_loop = || {
            calls += 1;
            on_one(if calls <= 20 { 1e6 } else { 1.3e6 })
        };
        let mut core = Core::new(time_loop, || {});
        let free = (0..10_000).map(|_| core.is_free()).collect::<Vec<_>>();
        let busy = free.iter().filter(|free| !**free).count();
        // 3 % for each second in the loop, until 1.2 times the shortest duration is 1.3 ms.
        assert!((1900..2200).contains(&busy), "{busy}");
        assert!(free[9999]);
    }

    #[test]
    fn the_loop_does_not_vanish() {
        let start = Instant::now();
        for _ in 0..1000 {
            work();
        }
        assert!(start.elapsed() > Duration::from_micros(50), "{:?}", start.elapsed());
    }
}
