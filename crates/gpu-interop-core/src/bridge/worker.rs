//! Worker thread of a bridge: its state, sleep and end, and the count of these threads.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::StreamFaults;
use super::pace::{Pace, Step};
use super::pending::{Pending, Request};
use super::side::catch_panics;
use super::words::Words;
use crate::callback::caught;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{
    AtomicBool, AtomicUsize, Builder, Condvar, Instant, Mutex, MutexGuard, sleep, unpoisoned, yield_now,
};
use crate::sys::Guarded;
use crate::timeline::{ExporterTimeline, TimelineWaiter};

/// WorkerState of the thread, for threads that change its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Sleep {
    /// It reads the requests before it sleeps.
    #[default]
    Awake,
    /// It waits for requests.
    Parked,
    /// It waits for the exporter's timelines.
    Waiting,
}

/// Number of a sleep of the thread. The stream's earlier wait is pending, so its requests are not polled during the sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SkipUntilWake(u64);

#[derive(Debug, Default)]
struct WorkerState {
    requests: Vec<Request>,
    /// Number of timelines that use this bridge.
    users: usize,
    sleep: Sleep,
    /// Number of sleeps so far.
    sleeps: u64,
    /// Addresses of the streams that wait during this sleep.
    blocked: Vec<usize>,
    running: bool,
    /// Pending waits of streams are released.
    cancelled: bool,
    /// The device is closed and its words are leaked: the thread ends.
    abandoned: bool,
}

/// A bridge: a thread that transfers values between streams of one device and timelines of one exporter.
///
/// The thread starts with the first request, parks when nothing is pending, and ends once nothing is pending and no
/// timeline uses the bridge. It never calls the compute driver.
#[derive(Debug)]
pub(crate) struct Worker {
    waiter: Guarded<Box<dyn TimelineWaiter>>,
    words: Arc<Words>,
    state: Mutex<WorkerState>,
    parked: Condvar,
    /// Set when the state has changed, so that a spinning thread need not lock the state. Written under its lock, so
    /// that the thread that clears it observes the change.
    changed: AtomicBool,
}

impl Worker {
    pub(super) fn new(waiter: Box<dyn TimelineWaiter>, words: Arc<Words>) -> Self {
        Self {
            waiter: Guarded::new(waiter),
            words,
            state: Mutex::default(),
            parked: Condvar::new(),
            changed: AtomicBool::new(false),
        }
    }

    pub(super) fn serves(&self, timeline: &dyn ExporterTimeline) -> bool {
        self.waiter.serves(timeline)
    }

    /// Adds a timeline that uses this bridge.
    pub(super) fn join(&self) {
        unpoisoned(self.state.lock()).users += 1;
    }

    /// Undoes [`Worker::join`].
    pub(super) fn leave(&self) {
        self.update(|state| state.users -= 1);
    }

    /// Starts the thread unless it runs: `spawn` starts one that calls [`Worker::run`]. Called before the work of a
    /// request is enqueued on `stream`; returns whether the request needs no look at once.
    ///
    /// # Errors
    /// Errors of `spawn`.
    pub(super) fn ensure_running(
        &self,
        stream: &Arc<StreamFaults>,
        spawn: impl FnOnce() -> Result<()>,
    ) -> Result<Option<SkipUntilWake>> {
        let mut state = unpoisoned(self.state.lock());
        if !state.running {
            spawn()?;
            state.running = true;
        }
        Ok(state.skip(stream))
    }

    /// Adds a request. The thread runs, and the caller uses the bridge. `skip` is from before the request's work was
    /// enqueued: another thread may have enqueued a wait in between.
    pub(super) fn submit(&self, request: Request, skip: Option<SkipUntilWake>) {
        {
            let mut state = unpoisoned(self.state.lock());
            if skip.is_some() && state.skip(request.stream()) == skip {
                state.requests.push(request);
                self.changed.store(true, Ordering::Relaxed);
                return;
            }
        }
        self.update(|state| state.requests.push(request));
    }

    /// Releases every current and later wait of a stream, because the device is being closed. Later signals of those
    /// streams are discarded.
    pub(super) fn cancel(&self) {
        self.update(|state| state.cancelled = true);
    }

    /// Ends the thread with requests pending: streams may still write to their words, which are no longer read.
    pub(super) fn abandon(&self) {
        self.update(|state| state.abandoned = true);
    }

    /// Wakes the thread. Does not block.
    pub(super) fn wake(&self) {
        self.update(|_| {});
    }

    /// Changes the state and wakes the thread.
    fn update(&self, change: impl FnOnce(&mut WorkerState)) {
        let sleep = {
            let mut state = unpoisoned(self.state.lock());
            change(&mut state);
            self.changed.store(true, Ordering::Relaxed);
            // One wake-up is enough.
            std::mem::take(&mut state.sleep)
        };
        match sleep {
            Sleep::Awake => {}
            Sleep::Parked => self.parked.notify_one(),
            Sleep::Waiting => {
                if caught(|| self.waiter.interrupt()).is_none() {
                    log!(error, "an exporter's waiter panicked; its thread notices the change after its pause");
                }
            }
        }
    }

    /// Body of the thread.
    pub(super) fn run(&self) {
        let mut pending = Pending::default();
        let mut pace = Pace::new();
        loop {
            if self.take(&mut pending) == Take::End {
                // The words of requests that are pending, because the bridge was abandoned, stay in use.
                return;
            }
            while !pending.is_empty() {
                if pending.is_watched() && pace.watches() {
                    pending.check_processes();
                }
                if pending.settle(&self.words, pace.reads_all()) {
                    pace.forget();
                    continue;
                }
                if self.changed.load(Ordering::Relaxed) {
                    break;
                }
                match pace.adapted(pending.plan(pace.lateness()).step()) {
                    Step::Spin => {
                        let start = Instant::now();
                        yield_now();
                        pace.yielded(start.elapsed());
                    }
                    Step::Nap(pause) => {
                        let start = Instant::now();
                        self.park(&pending, pause);
                        pace.napped(pause, start.elapsed());
                    }
                    Step::Sleep(_) if pending.settle(&self.words, true) => {}
                    Step::Sleep(pause) => self.sleep(&pending, pause),
                }
            }
        }
    }

    /// Takes new requests; waits for them if nothing is pending.
    fn take(&self, pending: &mut Pending) -> Take {
        let mut state = unpoisoned(self.state.lock());
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
            state.blocked.clear();
            state = unpoisoned(self.parked.wait(state));
            state.sleep = Sleep::Awake;
        }
    }

    /// Parks until this thread is woken or the pause has elapsed.
    #[cfg(not(loom))]
    fn nap<'a>(
        &'a self,
        state: MutexGuard<'a, WorkerState>,
        pause: std::time::Duration,
    ) -> MutexGuard<'a, WorkerState> {
        unpoisoned(self.parked.wait_timeout(state, pause)).0
    }

    /// Loom does not model time: the pause ends once other threads have run.
    #[cfg(loom)]
    fn nap<'a>(
        &'a self,
        state: MutexGuard<'a, WorkerState>,
        _pause: std::time::Duration,
    ) -> MutexGuard<'a, WorkerState> {
        drop(state);
        yield_now();
        unpoisoned(self.state.lock())
    }

    /// Begins a sleep unless the state has changed: a change made while the thread was awake interrupts nothing.
    fn begin_sleep(&self, pending: &Pending, sleep: Sleep) -> Option<MutexGuard<'_, WorkerState>> {
        let mut state = unpoisoned(self.state.lock());
        if self.changed.load(Ordering::Relaxed) {
            return None;
        }
        state.sleep = sleep;
        state.sleeps += 1;
        state.blocked.clear();
        state.blocked.extend(pending.blocked().map(|stream| Arc::as_ptr(stream).addr()));
        Some(state)
    }

    /// Sleeps until this thread is woken or the pause has elapsed.
    fn park(&self, pending: &Pending, pause: std::time::Duration) {
        if let Some(state) = self.begin_sleep(pending, Sleep::Parked) {
            self.nap(state, pause).sleep = Sleep::Awake;
        }
    }

    /// As [`Worker::park`]; the exporter's timelines end the sleep, too.
    fn sleep(&self, pending: &Pending, pause: std::time::Duration) {
        let wanted = pending.wanted();
        if wanted.is_empty() {
            // No wait for the exporter is pending, and a driver may spin in its wait: NVIDIA's does at first.
            return self.park(pending, pause);
        }
        if self.begin_sleep(pending, Sleep::Waiting).is_none() {
            return;
        }
        let waited = catch_panics(|| self.waiter.wait_any(&wanted, pause));
        unpoisoned(self.state.lock()).sleep = Sleep::Awake;
        if let Err(error) = waited {
            // A failed timeline returns its error at the next query. The pause covers the case that none has failed.
            log!(debug, %error, "waiting for an exporter's timelines failed; retrying");
            sleep(pause.min(std::time::Duration::from_millis(1)));
        }
    }
}

impl WorkerState {
    /// The current sleep, if it began while the stream waited.
    fn skip(&self, stream: &Arc<StreamFaults>) -> Option<SkipUntilWake> {
        let sleeps = self.sleep != Sleep::Awake && self.blocked.contains(&Arc::as_ptr(stream).addr());
        sleeps.then_some(SkipUntilWake(self.sleeps))
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Take {
    Requests,
    End,
}

/// Starts the worker thread of a bridge.
///
/// # Errors
/// [`ErrorKind::System`](crate::ErrorKind::System) if the process cannot start another thread.
pub(super) fn spawn(worker: Arc<Worker>, threads: &Threads) -> Result<()> {
    threads.spawn("gpu-interop bridge", move || {
        crate::callback::without_driver_calls(move || {
            worker.run();
            // May drop the last reference, and with it the exporter's waiter.
            drop(worker);
        });
    })
}

/// Number of such threads. A thread counts until it has dropped all its references.
#[derive(Debug, Clone)]
pub(crate) struct Threads {
    count: Arc<AtomicUsize>,
    process: u32,
}

impl Default for Threads {
    fn default() -> Self {
        Self { count: Arc::default(), process: std::process::id() }
    }
}

/// Counts one thread until dropped.
#[derive(Debug)]
struct Counted(Threads);

impl Threads {
    /// `true` if the threads belong to this process, not to a parent that forked.
    pub(crate) fn belong_to_this_process(&self) -> bool {
        self.process == std::process::id()
    }

    /// `true` if all threads have ended: nothing is pending and no exporter is in use.
    pub(crate) fn have_ended(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Starts a thread that runs `work`.
    ///
    /// # Errors
    /// [`ErrorKind::System`] if the process cannot start another thread.
    pub(crate) fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let counted = self.count();
        let started = Builder::new().name(name.into()).spawn(move || {
            #[cfg(target_os = "linux")]
            precise_sleeps();
            work();
            drop(counted);
        });
        started.map(drop).map_err(|error| {
            Error::new(ErrorKind::System, "Timeline", "cannot start the thread that transfers its values")
                .with_source(error)
        })
    }

    fn count(&self) -> Counted {
        self.count.fetch_add(1, Ordering::Relaxed);
        Counted(self.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Release);
    }
}

/// Reduces the timer slack: by default Linux extends sleeps by up to 50 microseconds to coalesce wake-ups.
#[cfg(target_os = "linux")]
fn precise_sleeps() {
    let slack = std::num::NonZeroU64::new(1_000);
    if let Err(errno) = rustix::thread::set_current_timer_slack(slack) {
        log!(debug, %errno, "a timeline's sleeps are less precise");
    }
}
