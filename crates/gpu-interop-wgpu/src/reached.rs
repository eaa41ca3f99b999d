//! Values of timelines as futures.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use gpu_interop::sync::lock;

use gpu_interop::{Error, ErrorKind, ExporterTimeline, Result, Timeline, TimelineWaiter};

/// A future that completes once a timeline has reached a value. Works with every executor.
///
/// All futures of an [`Interop`](crate::Interop) share one thread, which waits for all their timelines at once and ends
/// when there is none. Dropping a future cancels it.
///
/// The output is that of [`Timeline::wait`], without a timeout: the timeline's failure, if any, and
/// [`ErrorKind::Cancelled`] once a process that [`Timeline::watch_process`] watches has ended. A device that is lost
/// may never reach the value: bound the wait with the executor's timeout.
///
/// A waker that panics on the thread is reported through `tracing`; the other futures are woken all the same.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Reached {
    timeline: Arc<Timeline>,
    value: u64,
    watcher: Arc<Watcher>,
    /// The registration with the thread, if there is one.
    ticket: Option<u64>,
}

impl Reached {
    pub(crate) fn new(timeline: Arc<Timeline>, value: u64, watcher: Arc<Watcher>) -> Self {
        Self { timeline, value, watcher, ticket: None }
    }
}

impl Future for Reached {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(ended) = progress(&self.timeline, self.value) {
            return Poll::Ready(ended);
        }
        let (timeline, value, ticket) = (self.timeline.clone(), self.value, self.ticket);
        match Watcher::watch(&self.watcher, ticket, timeline, value, context.waker()) {
            Ok(ticket) => {
                self.ticket = Some(ticket);
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl Drop for Reached {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.watcher.forget(ticket);
        }
    }
}

/// Polls by the blocking wait with a timeout of 0, which has all checks.
fn progress(timeline: &Timeline, value: u64) -> Poll<Result<()>> {
    match timeline.wait(value, Duration::ZERO) {
        Err(error) if error.kind() == ErrorKind::Timeout => Poll::Pending,
        ended => Poll::Ready(ended),
    }
}

/// Calls code of the application on the thread of the futures: wakers, `tracing` subscribers, and destructors, which
/// may call subscribers. `None` if it panics, which must not end the thread.
fn shielded<T>(call: impl FnOnce() -> T) -> Option<T> {
    fn caught<T>(call: impl FnOnce() -> T) -> Option<T> {
        // Dropping the payload could panic.
        catch_unwind(AssertUnwindSafe(call)).map_err(std::mem::forget).ok()
    }
    let returned = caught(call);
    if returned.is_none() {
        caught(|| tracing::error!("code of the application panicked on the thread that wakes futures; it goes on"));
    }
    returned
}

/// Wakes the tasks of [`Reached`] futures.
#[derive(Debug, Default)]
pub(crate) struct Watcher {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: BTreeMap<u64, Entry>,
    next: u64,
    /// Set while the thread runs.
    thread: Option<Arc<dyn TimelineWaiter>>,
    /// The thread does not wait for further futures.
    closed: bool,
}

#[derive(Debug)]
struct Entry {
    timeline: Arc<Timeline>,
    value: u64,
    waker: Waker,
}

/// Time that the thread waits for a next future.
const LINGER: Duration = Duration::from_secs(1);

/// Longest time until the failure of a timeline is noticed that its waiter does not report.
const CHECK: Duration = Duration::from_millis(100);

impl Watcher {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Registers a future, or changes its waker, and starts the thread.
    fn watch(this: &Arc<Self>, ticket: Option<u64>, timeline: Arc<Timeline>, value: u64, waker: &Waker) -> Result<u64> {
        let waker = waker.clone();
        let mut state = this.lock();
        let ticket = ticket.unwrap_or_else(|| {
            state.next += 1;
            state.next
        });
        if let Some(entry) = state.entries.get_mut(&ticket) {
            let previous = std::mem::replace(&mut entry.waker, waker);
            drop(state);
            // As in `forget`.
            drop(previous);
            return Ok(ticket);
        }
        let waiter = match &state.thread {
            Some(waiter) => waiter.clone(),
            None => Arc::from(timeline.exporter().waiter()?),
        };
        state.entries.insert(ticket, Entry { timeline, value, waker });
        if state.thread.is_none() {
            let (watcher, thread_waiter) = (this.clone(), waiter.clone());
            let spawned = std::thread::Builder::new()
                .name("gpu-interop futures".into())
                .spawn(move || watcher.run(&*thread_waiter));
            if let Err(error) = spawned {
                let entry = state.entries.remove(&ticket);
                drop(state);
                drop(entry);
                let message = "the process cannot start the thread that wakes futures; wait on the host instead";
                return Err(Error::new(ErrorKind::System, "Reached::poll", message).with_source(error));
            }
            state.thread = Some(waiter);
        } else {
            drop(state);
            waiter.interrupt();
        }
        Ok(ticket)
    }

    /// Removes a future.
    fn forget(&self, ticket: u64) {
        let entry = self.lock().entries.remove(&ticket);
        // Dropped without the lock: a waker and a timeline run code of others.
        drop(entry);
    }

    /// Lets the thread end as soon as there are no futures.
    pub(crate) fn close(&self) {
        let waiter = {
            let mut state = self.lock();
            state.closed = true;
            state.thread.clone()
        };
        if let Some(waiter) = waiter {
            waiter.interrupt();
        }
    }

    /// The thread.
    fn run(&self, waiter: &dyn TimelineWaiter) {
        let mut idle = false;
        loop {
            let waits: Vec<_> = {
                let mut state = self.lock();
                if state.entries.is_empty() && (idle || state.closed) {
                    state.thread = None;
                    return;
                }
                state.entries.iter().map(|(id, entry)| (*id, entry.timeline.clone(), entry.value)).collect()
            };
            idle = waits.is_empty();
            shielded(|| wait_any(waiter, &waits, if idle { LINGER } else { CHECK }));
            for (ticket, timeline, value) in waits {
                // A panic wakes the future, whose own poll repeats the cause.
                if shielded(|| progress(&timeline, value).is_ready()).unwrap_or(true) {
                    self.wake(ticket);
                }
                shielded(|| drop(timeline));
            }
        }
    }

    /// Wakes a future, unless it has been dropped.
    fn wake(&self, ticket: u64) {
        let ended = self.lock().entries.remove(&ticket);
        let Some(Entry { waker, timeline, .. }) = ended else { return };
        shielded(|| waker.wake());
        shielded(|| drop(timeline));
    }
}

/// Waits until one of the timelines may have reached its value.
fn wait_any(waiter: &dyn TimelineWaiter, waits: &[(u64, Arc<Timeline>, u64)], timeout: Duration) {
    let waits: Vec<(&dyn ExporterTimeline, u64)> =
        waits.iter().map(|(_, timeline, value)| (&**timeline.exporter(), *value)).collect();
    if let Err(error) = waiter.wait_any(&waits, timeout) {
        std::thread::sleep(Duration::from_millis(1));
        // Each future waits for its timeline, which has the error.
        tracing::debug!(%error, "waiting for timelines of futures failed");
    }
}
