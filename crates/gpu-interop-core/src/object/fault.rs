//! What went wrong on a stream that its driver does not know of.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};

/// The first fault since the last report. Shared with those who may note one: functions that run in stream order, and
/// bridges of timelines.
#[derive(Debug, Default)]
pub(crate) struct StreamFaults {
    any: AtomicBool,
    first: Mutex<Option<Error>>,
}

impl StreamFaults {
    /// Notes a fault, for the stream's next synchronisation.
    pub(crate) fn report(&self, error: Error) {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.any.store(true, Ordering::Release);
    }

    /// Reports what was noted, once.
    pub(super) fn take(&self) -> Result<()> {
        if !self.any.swap(false, Ordering::Acquire) {
            return Ok(());
        }
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }
}
