//! Fences: work that is pending, then done, with or without an error.

use std::sync::{Arc, Mutex};

use rustix::fd::OwnedFd;
use rustix::io::Errno;

use crate::abi::Result;
use crate::lock;
use crate::sync::Signals;
use crate::sync::file::{SyncFile, finish};
use crate::sync::shared::Slot;

/// State of a fence, and the error of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Pending,
    Done(Option<Errno>),
}

#[derive(Debug, Clone)]
pub(crate) enum Fence {
    Signalled,
    /// Work of this process.
    Job(Arc<JobFence>),
    /// The fence of a sync file.
    File(Arc<SyncFile>),
    /// A fence in a shared syncobj.
    Shared(Slot),
    /// All of these.
    All(Arc<[Self]>),
}

impl Fence {
    pub(crate) fn state(&self) -> State {
        match self {
            Self::Signalled => State::Done(None),
            Self::Job(job) => job.state(),
            Self::File(file) => file.state(),
            Self::Shared(slot) => slot.state(),
            Self::All(fences) => fences.iter().fold(State::Done(None), |all, fence| match (all, fence.state()) {
                (State::Pending, _) | (_, State::Pending) => State::Pending,
                (State::Done(first), State::Done(other)) => State::Done(first.or(other)),
            }),
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.state() != State::Pending
    }

    /// `true` if another process may signal it.
    pub(crate) fn is_foreign(&self) -> bool {
        match self {
            Self::Signalled | Self::Job(_) => false,
            Self::File(_) | Self::Shared(_) => true,
            Self::All(fences) => fences.iter().any(Self::is_foreign),
        }
    }

    /// Makes an effect follow the fence, at once if it is done.
    pub(super) fn then(&self, hook: Hook, signals: &Arc<Signals>) -> Result<()> {
        match self {
            Self::Job(job) => job.then(hook),
            other => match other.state() {
                State::Done(error) => hook.run(error),
                State::Pending => return signals.relay(other.clone(), hook),
            },
        }
        Ok(())
    }
}

/// The effect of a fence outside of its process.
#[derive(Debug)]
pub(super) enum Hook {
    /// Signals the fence in a shared syncobj.
    Slot(Slot),
    /// Signals a sync file, by the end of its pipe.
    File(OwnedFd),
}

impl Hook {
    pub(super) fn run(self, error: Option<Errno>) {
        match self {
            Self::Slot(slot) => slot.signal(error),
            Self::File(end) => finish(end, error),
        }
    }
}

#[derive(Debug)]
struct Inner {
    state: State,
    hooks: Vec<Hook>,
}

/// The fence of work that this process executes.
#[derive(Debug)]
pub(crate) struct JobFence {
    inner: Mutex<Inner>,
    signals: Arc<Signals>,
}

impl JobFence {
    pub(crate) fn new(signals: &Arc<Signals>) -> Arc<Self> {
        let inner = Inner { state: State::Pending, hooks: Vec::new() };
        Arc::new(Self { inner: Mutex::new(inner), signals: Arc::clone(signals) })
    }

    pub(crate) fn state(&self) -> State {
        lock(&self.inner).state
    }

    pub(crate) fn is_done(&self) -> bool {
        self.state() != State::Pending
    }

    fn then(&self, hook: Hook) {
        let mut inner = lock(&self.inner);
        match inner.state {
            State::Pending => inner.hooks.push(hook),
            State::Done(error) => {
                drop(inner);
                hook.run(error);
            }
        }
    }

    /// Ends the work.
    pub(crate) fn signal(&self, error: Option<Errno>) {
        let hooks = {
            let mut inner = lock(&self.inner);
            inner.state = State::Done(error);
            std::mem::take(&mut inner.hooks)
        };
        hooks.into_iter().for_each(|hook| hook.run(error));
        self.signals.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_done_with_its_last_fence_and_has_the_first_error() {
        let signals = Arc::default();
        let [first, second] = [JobFence::new(&signals), JobFence::new(&signals)];
        let all =
            Fence::All([Fence::Job(Arc::clone(&first)), Fence::Signalled, Fence::Job(Arc::clone(&second))].into());
        second.signal(Some(Errno::IO));
        assert_eq!(all.state(), State::Pending);
        first.signal(None);
        assert_eq!(all.state(), State::Done(Some(Errno::IO)));
        assert!(!all.is_foreign());
    }
}
