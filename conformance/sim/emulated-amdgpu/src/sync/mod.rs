//! Fences of submitted work, and DRM's synchronisation objects (syncobjs), which contain fences.
//!
//! A [`Fence`] is pending, then done. A [`Payload`] has the rules of a syncobj: no fence, one fence, or a timeline of
//! points with a fence each. A [`Syncobj`] keeps its payload in this process until it is exported; then it is in a memfd,
//! which other processes map ([`shared`]). A sync file is a pipe ([`mod@file`]).
//!
//! Threads that wait for fences of this process sleep until one of them is signalled. Fences of other processes are
//! polled.

mod fence;
pub(crate) mod file;
mod object;
mod payload;
mod shared;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::abi::Result;
use crate::lock;
use crate::memory::Keeper;
use crate::queue::{poll_pause, spawn};
use crate::sync::fence::Hook;
pub(crate) use crate::sync::fence::{Fence, JobFence, State};
pub(crate) use crate::sync::object::Syncobj;
pub(crate) use crate::sync::payload::Payload;

/// Wakes the threads of a process that wait for fences and syncobjs.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    changes: Mutex<u64>,
    changed: Condvar,
    relay: Mutex<Relay>,
    keeper: Arc<Keeper>,
}

/// Fences that are signalled elsewhere, with the effects that they have here. A thread polls them.
#[derive(Debug, Default)]
struct Relay {
    pending: Vec<(Fence, Hook)>,
    running: bool,
}

/// Result of a check whether a wait has ended.
#[derive(Debug)]
pub(crate) enum Check<T> {
    Ready(T),
    /// [`Signals::notify`] follows a change.
    Sleep,
    /// A change may come from another process.
    Poll,
}

/// Longest sleep between two checks. A missed change delays a wait by no more.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// Time of `CLOCK_MONOTONIC`, in nanoseconds.
fn now() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

/// The time after which a wait ends without its condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Deadline(i64);

impl Deadline {
    pub(crate) const NEVER: Self = Self(i64::MAX);

    /// An absolute time of `CLOCK_MONOTONIC`, in nanoseconds.
    pub(crate) const fn at(nanoseconds: i64) -> Self {
        Self(nanoseconds)
    }

    pub(crate) fn after(time: Duration) -> Self {
        Self(now().saturating_add(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)))
    }

    /// Time until then; `None` if it has passed.
    fn remaining(self) -> Option<Duration> {
        u64::try_from(self.0.saturating_sub(now())).ok().filter(|left| *left > 0).map(Duration::from_nanos)
    }
}

impl Signals {
    pub(crate) fn new(keeper: &Arc<Keeper>) -> Arc<Self> {
        Arc::new(Self { keeper: Arc::clone(keeper), ..Self::default() })
    }

    fn changes(&self) -> MutexGuard<'_, u64> {
        lock(&self.changes)
    }

    /// Wakes all waits, which check again.
    pub(crate) fn notify(&self) {
        *self.changes() += 1;
        self.changed.notify_all();
    }

    /// Waits until a check is ready. `None` after the deadline.
    pub(crate) fn wait<T>(&self, deadline: Deadline, mut check: impl FnMut() -> Result<Check<T>>) -> Result<Option<T>> {
        let since = Instant::now();
        loop {
            let seen = *self.changes();
            let longest = match check()? {
                Check::Ready(found) => return Ok(Some(found)),
                Check::Sleep => LONGEST_SLEEP,
                Check::Poll => poll_pause(since.elapsed()),
            };
            let Some(left) = deadline.remaining() else { return Ok(None) };
            let changes = self.changes();
            let unchanged = |changes: &mut u64| *changes == seen;
            _ = self
                .changed
                .wait_timeout_while(changes, left.min(longest), unchanged)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until all fences are done. `false` after the deadline.
    pub(crate) fn wait_all(&self, fences: &[Fence], deadline: Deadline) -> bool {
        let check = || {
            let mut pending = fences.iter().filter(|fence| fence.state() == State::Pending).peekable();
            if pending.peek().is_none() {
                return Ok(Check::Ready(()));
            }
            Ok(if pending.any(Fence::is_foreign) { Check::Poll } else { Check::Sleep })
        };
        matches!(self.wait(deadline, check), Ok(Some(())))
    }

    /// Makes a fence that is signalled elsewhere have an effect here.
    fn relay(self: &Arc<Self>, fence: Fence, hook: Hook) -> Result<()> {
        let mut relay = lock(&self.relay);
        relay.pending.push((fence, hook));
        if !std::mem::replace(&mut relay.running, true) {
            let signals = Arc::clone(self);
            if let Err(error) = spawn("amdgpu-fences".to_owned(), move || signals.run_relay()) {
                relay.running = false;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Polls the relayed fences until all are done.
    fn run_relay(&self) {
        let check = || {
            let mut relay = lock(&self.relay);
            let pending = std::mem::take(&mut relay.pending);
            let mut done = Vec::new();
            for (fence, hook) in pending {
                match fence.state() {
                    State::Pending => relay.pending.push((fence, hook)),
                    State::Done(error) => done.push((hook, error)),
                }
            }
            relay.running = !relay.pending.is_empty();
            let ended = !relay.running;
            drop(relay);
            let any = !done.is_empty();
            done.into_iter().for_each(|(hook, error)| hook.run(error));
            if any {
                self.notify();
            }
            Ok(if ended { Check::Ready(()) } else { Check::Poll })
        };
        _ = self.wait(Deadline::NEVER, check);
    }
}

/// The error of work that was cancelled: its context caused a fault, or its process ended.
pub(crate) const CANCELLED: Errno = Errno::CANCELED;
