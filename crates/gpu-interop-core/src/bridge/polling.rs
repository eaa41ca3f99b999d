//! Waiter for exporters that cannot wait for several timelines at once.

use std::any::{Any, TypeId};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::error::Result;
use crate::timeline::{ExporterTimeline, TimelineWaiter};

/// A polling [`TimelineWaiter`] for timelines of any exporter: returns after half a millisecond, and the caller queries
/// the values.
#[derive(Debug)]
pub struct PollingWaiter {
    timelines: TypeId,
    interrupted: Mutex<bool>,
    interruption: Condvar,
}

/// Polling interval.
const PAUSE: Duration = Duration::from_micros(500);

impl PollingWaiter {
    /// Creates a waiter for timelines of this type; other types may have a better one.
    #[must_use]
    pub fn new(timelines: TypeId) -> Self {
        Self { timelines, interrupted: Mutex::default(), interruption: Condvar::new() }
    }
}

impl TimelineWaiter for PollingWaiter {
    fn serves(&self, timeline: &dyn ExporterTimeline) -> bool {
        let timeline: &dyn Any = timeline;
        timeline.type_id() == self.timelines
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

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::time::Instant;

    use super::*;

    #[derive(Debug)]
    struct Timeline<const TYPE: usize>;

    impl<const TYPE: usize> ExporterTimeline for Timeline<TYPE> {
        fn value(&self) -> Result<u64> {
            Ok(0)
        }

        fn signal(&self, _value: u64) -> Result<()> {
            Ok(())
        }

        fn wait(&self, _value: u64, _timeout: Duration) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn timelines_of_other_types_are_not_served() {
        let (one, two) = (Timeline::<1>, Timeline::<2>);
        let waiter = one.waiter().expect("a waiter");
        assert!(waiter.serves(&one) && waiter.serves(&Timeline::<1>) && !waiter.serves(&two));
        assert!(two.waiter().expect("a waiter").serves(&two));
    }

    #[test]
    fn an_interruption_ends_exactly_one_wait() {
        const LONG: Duration = Duration::from_secs(20);
        let waiter = PollingWaiter::new(TypeId::of::<Timeline<1>>());
        let start = Instant::now();
        waiter.interrupt();
        waiter.wait_any(&[], LONG).expect("waits");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                waiter.interrupt();
            });
            waiter.wait_any(&[], LONG).expect("waits");
        });
        // The waiter returns soon for a poll.
        waiter.wait_any(&[(&Timeline::<1>, 1)], LONG).expect("waits");
        assert!(start.elapsed() < LONG, "the interruption was lost");
        let (start, short) = (Instant::now(), Duration::from_millis(20));
        waiter.wait_any(&[], short).expect("waits");
        assert!(start.elapsed() >= short, "the interruption ended two waits");
    }
}
