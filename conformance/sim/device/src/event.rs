//! Events.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::objects::Objects;
use gpu_interop_sim_abi::lock;

/// Events by handle.
pub static EVENTS: Objects<Event> = Objects::new();

/// An event: its last record.
#[derive(Debug, Default)]
pub struct Event {
    last: Mutex<Option<Arc<Record>>>,
}

/// One record of an event.
#[derive(Debug, Default)]
pub struct Record {
    state: Mutex<RecordState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct RecordState {
    passed: bool,
    /// Number of waiting threads. Each notification is a system call, also without one.
    waiting: usize,
}

impl Event {
    pub(crate) fn set(&self, record: Arc<Record>) {
        *lock(&self.last) = Some(record);
    }

    /// The last record; `None` if the event was never recorded.
    pub fn last(&self) -> Option<Arc<Record>> {
        lock(&self.last).clone()
    }

    /// `true` if all work before the last record has run.
    pub fn is_complete(&self) -> bool {
        self.last().is_none_or(|record| lock(&record.state).passed)
    }
}

impl Record {
    pub(crate) fn pass(&self) {
        let mut state = lock(&self.state);
        state.passed = true;
        let waiting = state.waiting;
        drop(state);
        if waiting != 0 {
            self.changed.notify_all();
        }
    }

    /// Waits without a time limit.
    pub fn wait(&self) {
        let mut state = lock(&self.state);
        state.waiting += 1;
        while !state.passed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
    }
}
