//! Events of streams.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use gpu_interop_core::sync::{lock, unpoisoned};
use gpu_interop_core::{Error, ErrorKind, Result};

/// Event: its latest record.
#[derive(Debug, Default)]
pub(crate) struct EventState {
    last: Mutex<Option<Arc<Record>>>,
}

impl EventState {
    /// Sets the latest record, which is already enqueued.
    pub(crate) fn set(&self, record: Arc<Record>) {
        *lock(&self.last) = Some(record);
    }

    /// Returns the latest record, if any.
    pub(crate) fn last_record(&self) -> Option<Arc<Record>> {
        lock(&self.last).clone()
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.last_record().is_none_or(|record| *lock(&record.passed))
    }
}

/// Record of an event. Waits refer to a record, because a later record of the same event on another stream is
/// independent of it.
#[derive(Debug, Default)]
pub(crate) struct Record {
    passed: Mutex<bool>,
    changed: Condvar,
}

impl Record {
    /// Marks the record as passed.
    pub(crate) fn pass(&self) {
        *lock(&self.passed) = true;
        self.changed.notify_all();
    }

    /// Blocks until the record has passed.
    pub(crate) fn wait(&self, cancelled: &AtomicBool) -> Result<()> {
        const SLICE: Duration = Duration::from_millis(20);
        let mut passed = lock(&self.passed);
        while !*passed {
            if cancelled.load(Ordering::Relaxed) {
                return Err(Error::new(
                    ErrorKind::Cancelled,
                    "HostBackend::wait_event",
                    "the device was closed while a stream waited",
                ));
            }
            passed = unpoisoned(self.changed.wait_timeout(passed, SLICE)).0;
        }
        Ok(())
    }
}
