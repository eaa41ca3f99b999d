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
    passed: Mutex<bool>,
    changed: Condvar,
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
        self.last().is_none_or(|record| *lock(&record.passed))
    }
}

impl Record {
    pub(crate) fn pass(&self) {
        *lock(&self.passed) = true;
        self.changed.notify_all();
    }

    /// Waits without a time limit.
    pub fn wait(&self) {
        let mut passed = lock(&self.passed);
        while !*passed {
            passed = self.changed.wait(passed).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
