//! What went wrong on a stream that its driver does not know of.

use std::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::sync::{AtomicBool, Mutex, lock};

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
        lock(&self.first).get_or_insert(error);
        self.any.store(true, Ordering::Release);
    }

    /// Reports what was noted, once.
    pub(crate) fn take(&self) -> Result<()> {
        if !self.any.swap(false, Ordering::Acquire) {
            return Ok(());
        }
        lock(&self.first).take().map_or(Ok(()), Err)
    }
}
