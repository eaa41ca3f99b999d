//! Whether another thread uses the processor core of the calling thread.
//!
//! Most processors run two hardware threads on each core. While the second one is busy, a driver call takes up to
//! 1.7 times as long, and the library's part of it changes more than the driver's. On rented machines the second thread often
//! belongs to another tenant. On such a machine with an H200, a core was free 40 % of the time, in phases of 1 to 100 ms,
//! and the duration of a fixed loop predicted that of `cuEventRecord` (rank correlation 0.86): 0.86 µs and 140 ns on a free
//! core, 1.3 µs and 240 ns on a busy one.
//!
//! [`Core`] times such a loop before and after each variant, and moves the thread where the core stays busy. The loop does not
//! depend on the variants, so that this choice of rounds favours none of them.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Iterations of the loop: about a microsecond.
const ITERATIONS: u32 = 500;
/// A core is busy if the loop takes this much longer than on a free core. The clock's rate changes by a tenth; a second thread
/// costs at least 1.3.
const TOLERANCE: f64 = 1.2;
/// Durations whose median is one estimate. A single one may be too short by chance.
const WINDOW: usize = 9;
/// Duration of the first estimate: several phases.
const CALIBRATION: Duration = Duration::from_millis(300);
/// Longest wait for a core to become free, before the thread moves to another one.
const PATIENCE: Duration = Duration::from_millis(5);

/// The core of the calling thread.
pub(super) struct Core<'a> {
    /// Runs the loop and returns its duration in nanoseconds.
    time_loop: Box<dyn FnMut() -> f64 + 'a>,
    /// Moves this thread to another core.
    move_on: Box<dyn FnMut() + 'a>,
    /// The last durations, in a ring.
    last: [f64; WINDOW],
    next: usize,
    /// The shortest median so far: the loop's duration on a free core.
    free: f64,
}

impl Core<'static> {
    /// Measures the loop for 0.3 s.
    pub(super) fn calibrated() -> Self {
        let time_loop = || {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64() * 1e9
        };
        let mut core = Core::new(time_loop, move_to_next_processor);
        let start = Instant::now();
        while start.elapsed() < CALIBRATION {
            core.is_free();
        }
        core
    }
}

impl<'a> Core<'a> {
    pub(super) fn new(time_loop: impl FnMut() -> f64 + 'a, move_on: impl FnMut() + 'a) -> Self {
        let move_on = Box::new(move_on);
        Self { time_loop: Box::new(time_loop), move_on, last: [f64::INFINITY; WINDOW], next: 0, free: f64::INFINITY }
    }

    /// `true` if the loop is as fast as on a free core.
    pub(super) fn is_free(&mut self) -> bool {
        let taken = (self.time_loop)();
        self.last[self.next] = taken;
        self.next = (self.next + 1) % WINDOW;
        let mut sorted = self.last;
        sorted.sort_unstable_by(f64::total_cmp);
        self.free = self.free.min(sorted[WINDOW / 2]);
        taken <= self.free * TOLERANCE
    }

    /// Waits until the core is free, at most 5 ms. `false` if the thread has moved to another core instead: the caches of
    /// that one are cold.
    pub(super) fn wait_until_free(&mut self) -> bool {
        let start = Instant::now();
        loop {
            if self.is_free() {
                return true;
            }
            if start.elapsed() >= PATIENCE {
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
    // Where one of them fails, the thread stays, and the rounds on this core are left out.
    let _ = sched_setaffinity(None, &only);
    let _ = sched_setaffinity(None, &allowed);
}

#[cfg(not(target_os = "linux"))]
fn move_to_next_processor() {}

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

    #[test]
    fn a_loop_slower_than_the_usual_one_shows_a_busy_core() {
        // Within a tenth by the clock's rate; half as long again by a second thread; once too short by chance.
        let mut durations = [[1000.0, 1090.0, 1010.0].repeat(6), vec![700.0, 1050.0, 1500.0, 1300.0, 1190.0]].concat();
        durations.reverse();
        let mut core = Core::new(|| durations.pop().expect("a duration"), || {});
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
            duration
        };
        let mut core = Core::new(time_loop, || {});
        // Busy from the start: nothing else is known.
        let first: Vec<bool> = (0..WINDOW).map(|_| core.is_free()).collect();
        assert!(first[WINDOW - 1], "{first:?}");
        for _ in 0..100 {
            core.is_free();
        }
        assert!(core.free <= 1000.0, "{}", core.free);
    }

    #[test]
    fn the_thread_moves_from_a_core_that_stays_busy() {
        let (calls, moves) = (Cell::new(0), Cell::new(0));
        let time_loop = || {
            calls.set(calls.get() + 1);
            if calls.get() < 20 || calls.get() == 40 || moves.get() == 1 { 1000.0 } else { 2000.0 }
        };
        let mut core = Core::new(time_loop, || moves.set(moves.get() + 1));
        for _ in 0..20 {
            core.is_free();
        }
        assert!(core.wait_until_free(), "free in time");
        assert_eq!((calls.get(), moves.get()), (40, 0));
        let start = Instant::now();
        assert!(!core.wait_until_free(), "moved");
        assert!(start.elapsed() >= PATIENCE);
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
    fn the_loop_does_not_vanish() {
        let start = Instant::now();
        for _ in 0..1000 {
            work();
        }
        assert!(start.elapsed() > Duration::from_micros(50), "{:?}", start.elapsed());
    }
}
