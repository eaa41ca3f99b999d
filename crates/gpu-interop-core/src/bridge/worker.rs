//! A bridge's thread: when it runs, sleeps and ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::pace::{Pace, Step};
use super::pending::{Pending, Request};
use super::side::catch_panics;
use super::threads::Threads;
use super::words::Words;
use crate::error::Result;
use crate::sync::{AtomicBool, Condvar, Mutex, MutexGuard, lock, sleep, yield_now};
use crate::timeline::{ExporterTimeline, TimelineWaiter};

/// What the thread is doing, for those who want something of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Sleep {
    /// It will look at the orders by itself.
    #[default]
    Awake,
    /// It waits for orders.
    Parked,
    /// It waits for the exporter.
    Waiting,
}

#[derive(Debug, Default)]
struct State {
    requests: Vec<Request>,
    /// How many timelines use this bridge.
    users: usize,
    sleep: Sleep,
    running: bool,
    /// Streams that wait are let go.
    cancelled: bool,
    /// The words are nobody's any more: the thread ends.
    abandoned: bool,
}

/// One bridge: a thread that carries values between streams of one device and the timelines of one exporter.
///
/// The thread starts with the first order, parks when nothing is outstanding, and ends once nothing is outstanding and
/// no timeline uses the bridge any more. It makes no call of the compute driver.
#[derive(Debug)]
pub(crate) struct Worker {
    waiter: Box<dyn TimelineWaiter>,
    words: Arc<Words>,
    state: Mutex<State>,
    parked: Condvar,
    /// There is something to look at: so that a spinning thread need not lock the state. Written under its lock, so that
    /// whoever takes it back sees what it was set for.
    changed: AtomicBool,
}

impl Worker {
    pub(super) fn new(waiter: Box<dyn TimelineWaiter>, words: Arc<Words>) -> Self {
        Self { waiter, words, state: Mutex::default(), parked: Condvar::new(), changed: AtomicBool::new(false) }
    }

    pub(super) fn serves(&self, timeline: &dyn ExporterTimeline) -> bool {
        self.waiter.serves(timeline)
    }

    /// Counts a timeline that uses this bridge.
    pub(super) fn join(&self) {
        lock(&self.state).users += 1;
    }

    /// Undoes [`Machine::join`].
    pub(super) fn leave(&self) {
        self.update(|state| state.users -= 1);
    }

    /// Makes sure that the thread runs: `spawn` starts one that calls [`Machine::run`].
    ///
    /// # Errors
    /// What `spawn` answers.
    pub(super) fn ensure_running(&self, spawn: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut state = lock(&self.state);
        if !state.running {
            spawn()?;
            state.running = true;
        }
        Ok(())
    }

    /// Hands over an order. The thread runs, and the caller is a user.
    pub(super) fn submit(&self, request: Request) {
        self.update(|state| state.requests.push(request));
    }

    /// Lets go every stream that waits, now and later: the device is being closed. Those streams signal nothing any more.
    pub(super) fn cancel(&self) {
        self.update(|state| state.cancelled = true);
    }

    /// Gives up: streams may still write to their words, but nobody looks at them any more.
    pub(super) fn abandon(&self) {
        self.update(|state| state.abandoned = true);
    }

    /// Makes the thread look around. Does not block.
    pub(super) fn wake(&self) {
        self.update(|_| {});
    }

    /// Changes the state, and makes the thread look at it.
    fn update(&self, change: impl FnOnce(&mut State)) {
        let sleep = {
            let mut state = lock(&self.state);
            change(&mut state);
            self.changed.store(true, Ordering::Relaxed);
            state.sleep
        };
        match sleep {
            Sleep::Awake => {}
            Sleep::Parked => self.parked.notify_one(),
            Sleep::Waiting => self.waiter.interrupt(),
        }
    }

    /// The thread.
    pub(super) fn run(&self) {
        let mut pending = Pending::default();
        let mut pace = Pace::new();
        loop {
            if self.take(&mut pending) == Take::End {
                return;
            }
            pace.restart();
            while !pending.is_empty() {
                if pending.is_watched() && pace.watches() {
                    pending.check_processes();
                }
                if pending.settle(&self.words) {
                    pace.restart();
                    continue;
                }
                if self.changed.load(Ordering::Relaxed) {
                    break;
                }
                match pace.next(pending.is_polled(), pending.is_watched()) {
                    Step::Spin => yield_now(),
                    Step::Sleep(pause) => self.sleep(&pending, pause),
                }
            }
        }
    }

    /// Takes new orders, and waits for some if nothing is outstanding.
    fn take(&self, pending: &mut Pending) -> Take {
        let mut state = lock(&self.state);
        loop {
            self.changed.store(false, Ordering::Relaxed);
            state.requests.drain(..).for_each(|request| pending.add(request));
            if state.cancelled {
                pending.cancel();
            }
            if !pending.is_empty() && !state.abandoned {
                return Take::Requests;
            }
            if state.users == 0 {
                state.running = false;
                return Take::End;
            }
            state.sleep = Sleep::Parked;
            state = self.parked.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
            state.sleep = Sleep::Awake;
        }
    }

    /// Parks until somebody wakes this thread or the pause is over.
    #[cfg(not(loom))]
    fn nap<'a>(&'a self, state: MutexGuard<'a, State>, pause: std::time::Duration) -> MutexGuard<'a, State> {
        self.parked.wait_timeout(state, pause).unwrap_or_else(std::sync::PoisonError::into_inner).0
    }

    /// Loom knows no time: the pause is over once others have run.
    #[cfg(loom)]
    fn nap<'a>(&'a self, state: MutexGuard<'a, State>, _pause: std::time::Duration) -> MutexGuard<'a, State> {
        drop(state);
        yield_now();
        lock(&self.state)
    }

    fn sleep(&self, pending: &Pending, pause: std::time::Duration) {
        let wanted = pending.wanted();
        {
            let mut state = lock(&self.state);
            // Who set it before saw a thread that was awake, and interrupts nothing.
            if self.changed.load(Ordering::Relaxed) {
                return;
            }
            if wanted.is_empty() {
                // Nothing of the exporter is waited for, and its driver may wait busily: NVIDIA's does at first.
                state.sleep = Sleep::Parked;
                self.nap(state, pause).sleep = Sleep::Awake;
                return;
            }
            state.sleep = Sleep::Waiting;
        }
        let waited = catch_panics(|| self.waiter.wait_any(&wanted, pause));
        lock(&self.state).sleep = Sleep::Awake;
        if let Err(error) = waited {
            // If a timeline is the reason, it says so when it is asked next. This is for the case that none does.
            tracing::debug!(%error, "waiting for an exporter's timelines failed");
            sleep(pause.min(std::time::Duration::from_millis(1)));
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Take {
    Requests,
    End,
}

/// Starts the thread of a bridge.
///
/// # Errors
/// [`ErrorKind::System`](crate::ErrorKind::System) if the process may have no more threads.
pub(super) fn spawn(worker: Arc<Worker>, threads: &Threads) -> Result<()> {
    threads.spawn("gpu-interop bridge", move || {
        crate::object::without_driver_calls(move || {
            worker.run();
            // Maybe the last to hold it, and with it the exporter's waiter.
            drop(worker);
        });
    })
}
