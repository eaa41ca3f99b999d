//! What went wrong on a stream that its driver does not know of.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use crate::bridge::Side;
use crate::error::{Error, Result};
use crate::sync::{AtomicBool, Mutex, lock};

/// The first fault since the last report. Shared with those who may note one: functions that run in stream order, and
/// bridges of timelines.
#[derive(Debug, Default)]
pub(crate) struct StreamFaults {
    any: AtomicBool,
    record_failure: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    first: Option<Error>,
    /// The timeline whose failure was noted last.
    failed: Weak<Side>,
}

impl StreamFaults {
    /// Notes a fault, for the stream's next synchronisation.
    pub(crate) fn report(&self, error: Error) {
        lock(&self.record_failure).first.get_or_insert(error);
        self.any.store(true, Ordering::Release);
    }

    /// Notes that a timeline failed the stream. Of each timeline the stream is told once, whatever it had to do with it.
    pub(crate) fn report_timeline(&self, timeline: &Arc<Side>, error: &Error) {
        {
            let mut record_failure = lock(&self.record_failure);
            if std::ptr::eq(record_failure.failed.as_ptr(), Arc::as_ptr(timeline)) {
                return;
            }
            record_failure.failed = Arc::downgrade(timeline);
        }
        self.report(error.with_message(error.message()));
    }

    /// Reports what was noted, once.
    pub(crate) fn take(&self) -> Result<()> {
        if !self.any.swap(false, Ordering::Acquire) {
            return Ok(());
        }
        lock(&self.record_failure).first.take().map_or(Ok(()), Err)
    }
}
