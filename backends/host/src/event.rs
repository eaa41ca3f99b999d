//! Events.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use gpu_interop_core::{Error, ErrorKind, Result};

/// A point in a stream's work. Each record has a number; the event is complete when the last one has passed.
#[derive(Debug, Default)]
pub(crate) struct EventState {
    recorded: AtomicU64,
    passed: Mutex<u64>,
    changed: Condvar,
}

impl EventState {
    /// The number of a new record.
    pub(crate) fn record(&self) -> u64 {
        self.recorded.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The number of the last record.
    pub(crate) fn last_record(&self) -> u64 {
        self.recorded.load(Ordering::Acquire)
    }

    /// The stream reached record `number`.
    pub(crate) fn pass(&self, number: u64) {
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        *passed = number.max(*passed);
        self.changed.notify_all();
    }

    pub(crate) fn is_complete(&self) -> bool {
        *self.passed.lock().unwrap_or_else(PoisonError::into_inner) >= self.last_record()
    }

    /// Blocks until record `number` has passed.
    pub(crate) fn wait(&self, number: u64, cancelled: &AtomicBool) -> Result<()> {
        const SLICE: Duration = Duration::from_millis(20);
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        while *passed < number {
            if cancelled.load(Ordering::Relaxed) {
                return Err(Error::new(
                    ErrorKind::Cancelled,
                    "HostBackend::wait_event",
                    "the device was closed while a stream waited",
                ));
            }
            passed = self.changed.wait_timeout(passed, SLICE).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}
