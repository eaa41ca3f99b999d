//! Stream faults unknown to the driver.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use crate::bridge::{Forecast, Side};
use crate::error::{Error, Result};
use crate::sync::{AtomicBool, Mutex, lock};

/// First fault of a stream since the last report. Shared with the sources of faults: host functions and bridges of
/// timelines.
#[derive(Debug, Default)]
pub(crate) struct StreamFaults {
    any: AtomicBool,
    /// Latencies of its signals over bridges.
    pub(crate) forecast: Forecast,
    state: Mutex<FaultState>,
}

#[derive(Debug, Default)]
struct FaultState {
    first: Option<Error>,
    /// Timeline whose failure was recorded last.
    failed: Weak<Side>,
}

impl StreamFaults {
    /// Records a fault for the stream's next synchronisation.
    pub(crate) fn report(&self, error: Error) {
        lock(&self.state).first.get_or_insert(error);
        self.any.store(true, Ordering::Release);
    }

    /// Records the failure of a timeline, once for each timeline, however many waits and signals it affects.
    pub(crate) fn report_timeline(&self, timeline: &Arc<Side>, error: &Error) {
        {
            let mut state = lock(&self.state);
            if std::ptr::eq(state.failed.as_ptr(), Arc::as_ptr(timeline)) {
                return;
            }
            state.failed = Arc::downgrade(timeline);
        }
        self.report(error.with_message(error.message()));
    }

    /// Returns the recorded fault, once.
    pub(crate) fn take(&self) -> Result<()> {
        if !self.any.swap(false, Ordering::Acquire) {
            return Ok(());
        }
        lock(&self.state).first.take().map_or(Ok(()), Err)
    }
}
