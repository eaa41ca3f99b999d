//! Interruptions of waits for timelines.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use gpu_interop_core::ExporterTimeline;
use gpu_interop_core::sync::lock;

/// A timeline whose next value each wait includes, and which an interruption signals.
#[derive(Debug)]
pub(crate) struct Wake<T> {
    timeline: T,
    interruptions: Mutex<Interruptions>,
    /// Ends a nap.
    interrupted: Condvar,
}

#[derive(Debug, Default)]
struct Interruptions {
    /// The value of the timeline.
    sent: u64,
    /// The value of the timeline at the end of the last wait.
    seen: u64,
}

impl<T: ExporterTimeline> Wake<T> {
    /// `timeline` is new, and its value 0.
    pub(crate) fn new(timeline: T) -> Self {
        Self { timeline, interruptions: Mutex::default(), interrupted: Condvar::new() }
    }

    pub(crate) fn timeline(&self) -> &T {
        &self.timeline
    }

    /// The value that ends the next wait.
    pub(crate) fn next(&self) -> u64 {
        self.interruptions().seen + 1
    }

    /// Sleeps for `duration`, or until an interruption.
    pub(crate) fn nap(&self, duration: Duration) {
        let pending = |interruptions: &mut Interruptions| interruptions.sent == interruptions.seen;
        // The guard is dropped: the next wait sees the interruption.
        drop(self.interrupted.wait_timeout_while(self.interruptions(), duration, pending));
    }

    /// A wait has ended.
    pub(crate) fn ended(&self) {
        let mut interruptions = self.interruptions();
        interruptions.seen = interruptions.sent;
    }

    pub(crate) fn interrupt(&self) {
        let mut interruptions = self.interruptions();
        // An interruption that no wait has seen yet is enough.
        if interruptions.sent > interruptions.seen {
            return;
        }
        interruptions.sent += 1;
        if let Err(error) = self.timeline.signal(interruptions.sent) {
            // The device is lost, so the wait has already ended.
            tracing::debug!(%error, "cannot interrupt a wait for timelines");
        }
        self.interrupted.notify_one();
    }

    fn interruptions(&self) -> MutexGuard<'_, Interruptions> {
        lock(&self.interruptions)
    }
}
