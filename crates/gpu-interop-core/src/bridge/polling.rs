//! A waiter for exporters that cannot wait for several timelines.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::error::Result;
use crate::timeline::{ExporterTimeline, TimelineWaiter};

/// A [`TimelineWaiter`] for timelines of any exporter. It does not wait for them, but returns after half a millisecond
/// for another look.
#[derive(Debug, Default)]
pub struct PollingWaiter {
    interrupted: Mutex<bool>,
    interruption: Condvar,
}

/// How long one sleeps.
const PAUSE: Duration = Duration::from_micros(500);

impl TimelineWaiter for PollingWaiter {
    fn serves(&self, _timeline: &dyn ExporterTimeline) -> bool {
        true
    }

    fn wait_any(&self, waits: &[(&dyn ExporterTimeline, u64)], timeout: Duration) -> Result<()> {
        let pause = if waits.is_empty() { timeout } else { timeout.min(PAUSE) };
        let interrupted = self.interrupted.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.interruption.wait_timeout_while(interrupted, pause, |interrupted| !*interrupted);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
        Ok(())
    }

    fn interrupt(&self) {
        *self.interrupted.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.interruption.notify_one();
    }
}
