//! Early ends of a run.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpu_interop_conformance::Stop;

use super::lost;
use crate::interrupt;
use crate::report::{Cause, Stopped};

/// The reason to start no more cases, if there is one.
#[derive(Debug)]
pub(super) struct Halt {
    stopped: Mutex<Option<Stopped>>,
    failures: AtomicUsize,
    most_failures: Option<NonZeroUsize>,
    /// Held during a check for a lost GPU.
    checking: Mutex<()>,
}

impl Halt {
    /// Stops after this number of failures, if any.
    pub(super) fn new(most_failures: Option<NonZeroUsize>) -> Self {
        Self { stopped: Mutex::default(), failures: AtomicUsize::new(0), most_failures, checking: Mutex::new(()) }
    }

    /// The result of each remaining case; `None` if the run continues.
    pub(super) fn stop(&self) -> Option<Stop> {
        if interrupt::is_interrupted() {
            return Some(interrupt::stop());
        }
        self.lock().as_ref().map(|stopped| Stop::Skipped(format!("not run: {stopped}")))
    }

    /// The cause of the early end, if any.
    pub(super) fn stopped(&self) -> Option<Stopped> {
        let interrupted = || Stopped { cause: Cause::Interrupted, reason: "interrupted".into() };
        self.lock().clone().or_else(|| interrupt::is_interrupted().then(interrupted))
    }

    /// `true` if the GPU is lost.
    pub(super) fn is_lost(&self) -> bool {
        self.lock().as_ref().is_some_and(|stopped| stopped.cause == Cause::GpuLost)
    }

    /// Counts a failure, and stops the run if it is the last permitted one.
    pub(super) fn count_failure(&self) {
        // Relaxed: only the count matters.
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(most) = self.most_failures.filter(|most| failures >= most.get()) {
            let reason = format!("{most} scenarios have failed (--max-failures)");
            self.lock().get_or_insert(Stopped { cause: Cause::MaxFailures, reason });
        }
    }

    /// Checks whether the GPU is lost after `case`, and stops the run if it is.
    pub(super) fn check_gpu(&self, case: &str, probe: impl Fn() -> Option<String>) {
        let _checking = self.checking.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_lost() || interrupt::is_interrupted() {
            return;
        }
        if let Some(why) = lost::confirmed(probe) {
            let reason = format!("the GPU is lost after {case}: {why}; reset it or restart the machine, then --resume");
            *self.lock() = Some(Stopped { cause: Cause::GpuLost, reason });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Stopped>> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
