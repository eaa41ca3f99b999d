//! Threads that run units side by side.

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Turns of units, a number of which may be taken at the same time.
struct Turns {
    free: Mutex<usize>,
    freed: Condvar,
}

/// The turn of a unit. The next unit runs once this is dropped, which may be before the last scenario of this one, if that
/// mostly waits, and before its process has exited: that takes as long as several short scenarios.
pub(super) struct Turn<'a>(&'a Turns);

impl Turns {
    fn new(free: usize) -> Self {
        Self { free: Mutex::new(free), freed: Condvar::new() }
    }

    fn take(&self) -> Turn<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self.freed.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

/// Calls `run` for each unit, with one of this number of turns, and with the result of `prepare`, which another thread
/// calls for the next units meanwhile. That thread calls `last` at the end, and this function returns its result.
pub(super) fn side_by_side<T: Sync, P: Send, R: Send>(
    turns: usize,
    units: &[T],
    prepare: &(impl Fn(&T) -> P + Sync),
    run: &(impl Fn(&T, P, Turn<'_>) + Sync),
    last: impl FnOnce() -> R + Send,
) -> R {
    // One more waits for its place in the queue.
    let (sender, receiver) = sync_channel(turns / 2);
    let workers = 3 * turns;
    let turns = &Turns::new(turns);
    let receiver = Arc::new(Mutex::new(receiver));
    // The scope propagates a worker's panic.
    std::thread::scope(|scope| {
        // Two thirds of them wait for last scenarios that mostly wait, and for processes that exit.
        for _ in 0..workers {
            let receiver = receiver.clone();
            scope.spawn(move || {
                let next = || receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
                loop {
                    let turn = turns.take();
                    let Ok((unit, prepared)) = next() else { break };
                    run(unit, prepared, turn);
                }
            });
        }
        // If all workers have panicked, no unit is sent any more.
        drop(receiver);
        for unit in units {
            if sender.send((unit, prepare(unit))).is_err() {
                break;
            }
        }
        drop(sender);
        last()
    })
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn each_unit_runs_once_with_what_was_prepared_for_it() {
        for jobs in [1, 2, 5] {
            let (units, ran) = (Vec::from_iter(0..20), Mutex::new(Vec::new()));
            let run = |unit: &i32, prepared: i32, _: Turn<'_>| ran.lock().expect("no panic").push((*unit, prepared));
            let last = side_by_side(jobs, &units, &|unit| 10 * unit, &run, || "last");
            let mut ran = ran.into_inner().expect("no panic");
            ran.sort_unstable();
            assert_eq!((ran, last), (units.iter().map(|unit| (*unit, 10 * unit)).collect(), "last"), "{jobs}");
        }
    }

    /// Also with units that no worker takes any more.
    #[test]
    fn a_panic_of_each_worker_is_passed_on() {
        let units: Vec<i32> = (0..20).collect();
        let ended = AtomicBool::new(false);
        let run = |_: &i32, (): (), _: Turn<'_>| {
            ended.store(true, Ordering::Relaxed);
            panic!("planted")
        };
        let ran = catch_unwind(AssertUnwindSafe(|| side_by_side(2, &units, &|_| (), &run, || ())));
        assert!(ran.is_err() && ended.load(Ordering::Relaxed));
    }

    /// At most as many at once as there are turns; a unit that has dropped its turn does not count.
    #[test]
    fn the_next_unit_begins_when_a_turn_ends() {
        for jobs in [1, 3] {
            let (units, with_turn, at_once) = (Vec::from_iter(0..12), AtomicUsize::new(0), AtomicUsize::new(0));
            let (begun, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let run = |_: &i32, (): (), turn: Turn<'_>| {
                at_once.fetch_add(1, Ordering::SeqCst);
                assert!(with_turn.fetch_add(1, Ordering::SeqCst) < jobs);
                let number = begun.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(1));
                with_turn.fetch_sub(1, Ordering::SeqCst);
                drop(turn);
                // As a process that exits after another unit has begun.
                let deadline = Instant::now() + Duration::from_secs(10);
                while jobs == 1 && number + 1 < units.len() && begun.load(Ordering::SeqCst) == number + 1 {
                    assert!(Instant::now() < deadline, "no unit has begun after the end of a turn");
                    std::thread::yield_now();
                }
                most.fetch_max(at_once.fetch_sub(1, Ordering::SeqCst), Ordering::SeqCst);
            };
            side_by_side(jobs, &units, &|_| (), &run, || ());
            assert_eq!(begun.into_inner(), units.len());
            let most = most.into_inner();
            assert!(most <= 3 * jobs && (jobs > 1 || most > 1), "{most} with {jobs} turns");
        }
    }
}
