//! Values of timelines as futures.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use gpu_interop::{Error, ErrorKind, ExporterTimeline, Result, Timeline, TimelineWaiter};

/// A future that completes once a timeline has reached a value. Works with every executor.
///
/// All futures of an [`Interop`](crate::Interop) share one thread, which waits for all their timelines at once and ends
/// when there is none. Dropping a future cancels it.
///
/// The output is the timeline's failure, if any. A device that is lost may never reach the value: bound the wait with
/// the executor's timeout.
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
        match self.timeline.value() {
            Ok(value) if value >= self.value => return Poll::Ready(Ok(())),
            Ok(_) => {}
            Err(error) => return Poll::Ready(Err(error)),
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
                state.entries.values().map(|entry| (entry.timeline.clone(), entry.value)).collect()
            };
            idle = waits.is_empty();
            let waits: Vec<(&dyn ExporterTimeline, u64)> =
                waits.iter().map(|(timeline, value)| (&**timeline.exporter(), *value)).collect();
            if let Err(error) = waiter.wait_any(&waits, if idle { LINGER } else { CHECK }) {
                // Each future polls the value of its timeline, which has the error.
                tracing::debug!(%error, "waiting for timelines of futures failed");
                std::thread::sleep(Duration::from_millis(1));
            }
            self.wake_reached();
        }
    }

    /// Wakes the futures whose value is reached, or whose timeline failed.
    fn wake_reached(&self) {
        let reached = |entry: &Entry| entry.timeline.value().map_or(true, |value| value >= entry.value);
        let mut ended = Vec::new();
        {
            let mut state = self.lock();
            let tickets: Vec<_> = state.entries.iter().filter(|(_, entry)| reached(entry)).map(|(id, _)| *id).collect();
            ended.extend(tickets.into_iter().filter_map(|ticket| state.entries.remove(&ticket)));
        }
        for Entry { waker, .. } in ended {
            waker.wake();
        }
    }
}
