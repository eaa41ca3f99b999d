//! [`ExporterTimeline`] of the host backend's timelines, the exporter side of a
//! [`Timeline`](gpu_interop_core::Timeline).

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use gpu_interop_core::{
    Error, ExporterTimeline, Result, SemaphoreHandleKind, SemaphoreImport, SemaphorePayload, TimelineWaiter,
};

use crate::semaphore::HostSemaphore;
use crate::shared_semaphore::SharedSemaphore;
use crate::sys::{self, CannotSleep, Word};

impl ExporterTimeline for HostSemaphore {
    fn value(&self) -> Result<u64> {
        self.expect("HostSemaphore::value", SemaphorePayload::Timeline)?;
        Ok(Self::value(self))
    }

    fn signal(&self, value: u64) -> Result<()> {
        self.signal_value(value)
    }

    fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
        self.wait_value(value, timeout)
    }

    fn handle_kind(&self) -> Option<SemaphoreHandleKind> {
        (self.payload() == SemaphorePayload::Timeline).then_some(sys::TIMELINE_SEMAPHORE)
    }

    fn export(&self) -> Result<SemaphoreImport> {
        self.import_request()
    }

    fn waiter(&self) -> Result<Box<dyn TimelineWaiter>> {
        Ok(Box::new(Waiter::default()))
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "timeline {:p} of the host", std::ptr::from_ref(self.shared()))
    }
}

/// Waiter that sleeps on the words of several semaphores at once.
#[derive(Debug, Default)]
struct Waiter {
    interrupted: AtomicU32,
    /// True if the system does not support sleeping on several words.
    polls: AtomicBool,
}

/// Maximum number of timelines to sleep on; larger sets are polled.
const MAX_TIMELINES: usize = 127;
const POLL_PAUSE: Duration = Duration::from_micros(500);

fn shared(timeline: &dyn ExporterTimeline) -> Option<&SharedSemaphore> {
    let timeline: &dyn Any = timeline;
    timeline.downcast_ref().map(HostSemaphore::shared)
}

impl TimelineWaiter for Waiter {
    fn serves(&self, timeline: &dyn ExporterTimeline) -> bool {
        shared(timeline).is_some()
    }

    fn wait_any(&self, waits: &[(&dyn ExporterTimeline, u64)], timeout: Duration) -> Result<()> {
        const OPERATION: &str = "HostSemaphore::wait_any";
        let foreign = || Error::invalid(OPERATION, "the timeline does not belong to the host backend");
        let semaphores = waits.iter().map(|(timeline, value)| Ok((shared(*timeline).ok_or_else(foreign)?, *value)));
        let semaphores: Vec<_> = semaphores.collect::<Result<_>>()?;
        let polls = self.polls.load(Ordering::Relaxed) || semaphores.len() > MAX_TIMELINES;
        let timeout = if polls { timeout.min(POLL_PAUSE) } else { timeout };
        let mut words = Vec::with_capacity(semaphores.len() + 1);
        words.push(Word { word: &self.interrupted, expected: 0, shared: false });
        if !polls {
            for (semaphore, _) in &semaphores {
                let (word, expected) = semaphore.enter_wait();
                words.push(Word { word, expected, shared: true });
            }
        }
        // Checked after the words were read: later signals change the words.
        let slept = if semaphores.iter().any(|(semaphore, value)| semaphore.value() >= *value) {
            Ok(())
        } else {
            sys::sleep_on_all(&words, timeout)
        };
        if !polls {
            semaphores.iter().for_each(|(semaphore, _)| semaphore.leave_wait());
        }
        self.interrupted.store(0, Ordering::SeqCst);
        // The caller checks its timelines after every result: woken, value changed, interrupted, timed out.
        if slept == Err(CannotSleep) {
            self.polls.store(true, Ordering::Relaxed);
            std::thread::sleep(timeout.min(POLL_PAUSE));
        }
        Ok(())
    }

    fn interrupt(&self) {
        self.interrupted.store(1, Ordering::SeqCst);
        sys::wake(&self.interrupted, false);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    fn timelines() -> [HostSemaphore; 3] {
        [5, 0, 0].map(|value| HostSemaphore::timeline(value).expect("create"))
    }

    #[test]
    fn a_signal_of_any_timeline_ends_a_wait() {
        for polls in [false, true] {
            let waiter = Waiter::default();
            waiter.polls.store(polls, Ordering::Relaxed);
            let all = timelines();
            let waits: Vec<(&dyn ExporterTimeline, u64)> =
                all.iter().zip([6, 7, 8]).map(|(timeline, value)| (timeline as &dyn ExporterTimeline, value)).collect();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(50));
                    all[2].signal_value(8).expect("signal");
                });
                let start = Instant::now();
                while HostSemaphore::value(&all[2]) < 8 {
                    waiter.wait_any(&waits, LONG).expect("waits");
                }
                assert!(start.elapsed() < LONG, "{polls}: the signal did not wake the waiter");
            });
            // A value that is already reached ends the wait at once.
            let start = Instant::now();
            waiter.wait_any(&[(&all[0], 5)], LONG).expect("waits");
            assert!(start.elapsed() < LONG, "{polls}");
        }
    }

    #[test]
    fn an_interruption_ends_exactly_one_wait() {
        let (waiter, [timeline, ..]) = (Waiter::default(), timelines());
        let start = Instant::now();
        waiter.interrupt();
        waiter.wait_any(&[(&timeline, 6)], LONG).expect("waits");
        let interrupted = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                interrupted.store(true, Ordering::SeqCst);
                waiter.interrupt();
            });
            // A polling waiter returns repeatedly.
            while !interrupted.load(Ordering::SeqCst) {
                waiter.wait_any(&[(&timeline, 6)], LONG).expect("waits");
            }
        });
        assert!(start.elapsed() < LONG, "the interruption did not end a wait");
        // The interruption may have come between two waits.
        waiter.wait_any(&[(&timeline, 6)], Duration::from_millis(1)).expect("waits");
        assert_eq!(waiter.interrupted.load(Ordering::SeqCst), 0, "an interruption ended two waits");
    }

    #[test]
    fn a_binary_semaphore_is_not_a_timeline() {
        let binary = HostSemaphore::binary().expect("create");
        let timeline: &dyn ExporterTimeline = &binary;
        assert!(timeline.value().is_err() && timeline.handle_kind().is_none());
    }
}
