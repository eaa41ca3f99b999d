//! Notices of reached values, for asyncio. One thread waits for all timelines of a Vulkan device, and ends when there is
//! none.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use gpu_interop::sync::lock;
use gpu_interop::{Error, ErrorKind, ExporterTimeline, Result, Timeline, TimelineWaiter};
use gpu_interop_core::{FORKED, ProcessMark};

/// Called once, on the thread, with the timeline's failure if there is one.
pub(crate) type Notice = Box<dyn FnOnce(Option<Error>) + Send>;

#[derive(Debug)]
pub(crate) struct Watcher {
    state: Mutex<State>,
    /// The process that made this: its thread does not exist in a process forked from it.
    process: ProcessMark,
}

impl Default for Watcher {
    fn default() -> Self {
        Self { state: Mutex::default(), process: ProcessMark::of_this_process() }
    }
}

#[derive(Debug, Default)]
struct State {
    entries: BTreeMap<u64, Entry>,
    next: u64,
    /// Set while the thread runs.
    thread: Option<Arc<dyn TimelineWaiter>>,
}

struct Entry {
    timeline: Arc<Timeline>,
    value: u64,
    notice: Notice,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("value", &self.value).finish_non_exhaustive()
    }
}

/// Time that the thread waits for a next entry.
const LINGER: Duration = Duration::from_secs(1);

/// Longest time until the failure of a timeline is noticed that its waiter does not report.
const CHECK: Duration = Duration::from_millis(100);

/// Set at the exit of the interpreter.
static ENDED: AtomicBool = AtomicBool::new(false);

/// Number of notices that may be running code of Python.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Longest time that the exit of the interpreter waits for a running notice.
const PATIENCE: Duration = Duration::from_secs(1);

/// Runs a notice's code of Python, unless the interpreter ends.
pub(crate) fn unless_ended(code: impl FnOnce()) {
    // SeqCst, here and in `end_notices`: either this thread reads that the interpreter ends, or that one that a notice runs.
    RUNNING.fetch_add(1, Ordering::SeqCst);
    let run = if ENDED.load(Ordering::SeqCst) { Ok(()) } else { catch_unwind(AssertUnwindSafe(code)) };
    RUNNING.fetch_sub(1, Ordering::SeqCst);
    // A panic, such as `PanicException` that code of Python raised again, does not end the caller's thread.
    // Dropping its payload could panic.
    std::mem::forget(run);
}

/// Waits for running notices, and prevents later ones. Before Python 3.14, a thread that runs code of Python while the
/// interpreter is finalised is unwound, which ends the process with a fatal error. Called without the GIL.
pub(crate) fn end_notices() {
    ENDED.store(true, Ordering::SeqCst);
    let deadline = Instant::now() + PATIENCE;
    while RUNNING.load(Ordering::SeqCst) != 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_micros(100));
    }
}

impl Watcher {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Registers a notice, and starts the thread. Returns its number.
    pub(crate) fn watch(this: &Arc<Self>, timeline: Arc<Timeline>, value: u64, notice: Notice) -> Result<u64> {
        // Before the lock, which the thread may have held during the fork.
        if !this.process.is_this_process() {
            return Err(Error::new(ErrorKind::System, "Timeline.reached", FORKED));
        }
        let mut state = this.lock();
        state.next += 1;
        let ticket = state.next;
        let running = state.thread.clone();
        let waiter = match &running {
            Some(waiter) => waiter.clone(),
            None => Arc::from(timeline.exporter().waiter()?),
        };
        state.entries.insert(ticket, Entry { timeline, value, notice });
        if running.is_some() {
            drop(state);
            waiter.interrupt();
            return Ok(ticket);
        }
        let (watcher, thread_waiter) = (this.clone(), waiter.clone());
        let thread = std::thread::Builder::new().name("gpu-interop asyncio".into());
        if let Err(error) = thread.spawn(move || watcher.run(&*thread_waiter)) {
            let _entry = state.entries.remove(&ticket);
            let message = "the process cannot start the thread that wakes asyncio; use host_wait instead";
            return Err(Error::new(ErrorKind::System, "Timeline.reached", message).with_source(error));
        }
        state.thread = Some(waiter);
        Ok(ticket)
    }

    /// Removes a notice.
    pub(crate) fn forget(&self, ticket: u64) {
        if !self.process.is_this_process() {
            return;
        }
        let entry = self.lock().entries.remove(&ticket);
        // Dropped without the lock.
        drop(entry);
    }

    /// The thread.
    fn run(&self, waiter: &dyn TimelineWaiter) {
        let mut idle = false;
        loop {
            let waits: Vec<_> = {
                let mut state = self.lock();
                if state.entries.is_empty() && idle {
                    state.thread = None;
                    return;
                }
                state.entries.values().map(|entry| (entry.timeline.clone(), entry.value)).collect()
            };
            idle = waits.is_empty();
            let waits: Vec<(&dyn ExporterTimeline, u64)> =
                waits.iter().map(|(timeline, value)| (&**timeline.exporter(), *value)).collect();
            if waiter.wait_any(&waits, if idle { LINGER } else { CHECK }).is_err() {
                // The value of each timeline has the error.
                std::thread::sleep(Duration::from_millis(1));
            }
            self.notify();
        }
    }

    /// Calls the notices whose value is reached, or whose timeline failed.
    fn notify(&self) {
        let mut ended = Vec::new();
        {
            let mut state = self.lock();
            let mut outcomes = Vec::new();
            for (ticket, entry) in &state.entries {
                // The blocking wait, with all its checks: of the watched process, and of the process's own identity.
                match entry.timeline.wait(entry.value, Duration::ZERO) {
                    Err(error) if error.kind() == ErrorKind::Timeout => {}
                    outcome => outcomes.push((*ticket, outcome.err())),
                }
            }
            for (ticket, error) in outcomes {
                ended.extend(state.entries.remove(&ticket).map(|entry| (entry, error)));
            }
        }
        for (entry, error) in ended {
            (entry.notice)(error);
        }
    }
}
