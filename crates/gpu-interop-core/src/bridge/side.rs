//! The exporter's side of a timeline, and what went wrong with it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use super::process::Watched;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::AtomicU64;
use crate::timeline::ExporterTimeline;

/// A timeline of an exporter, shared by its object and the thread that bridges it.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) exporter: Arc<dyn ExporterTimeline>,
    /// Why it will not go on, as everybody is told who asks.
    failure: OnceLock<Error>,
    /// The greatest value that a stream waits for, or did; the greatest of all once they were let go.
    waited: AtomicU64,
    /// The greatest value that was ever seen.
    seen: AtomicU64,
    /// What streams waited for at most when they were let go.
    release_waits: OnceLock<u64>,
    /// The process that signals it, if that is watched.
    pub(super) process: OnceLock<Watched>,
}

impl Side {
    pub(crate) fn new(exporter: Arc<dyn ExporterTimeline>) -> Self {
        Self {
            exporter,
            failure: OnceLock::new(),
            waited: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            release_waits: OnceLock::new(),
            process: OnceLock::new(),
        }
    }

    /// Fails once the timeline has.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        match self.failure.get() {
            None => Ok(()),
            Some(failure) => Err(failure.with_message(failure.message())),
        }
    }

    /// Whether the timeline has failed.
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.get().is_some()
    }

    /// Why the timeline failed, if it did.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.check().err()
    }

    /// Notes that the timeline will not go on. The first reason counts.
    pub(crate) fn fail(&self, error: &Error) {
        if self.failure.set(error.with_message(format!("the timeline failed before: {error}"))).is_ok() {
            tracing::error!(%error, "a timeline failed; what waits for it is let go");
        }
    }

    /// The present value, after a look whether there is still somebody who raises it.
    ///
    /// # Errors
    /// Whatever made the timeline fail, now or before. [`ErrorKind::Overtaken`] where the timeline is not as far as it was:
    /// a driver has set it back to a signal that came too late.
    pub(crate) fn value(&self) -> Result<u64> {
        self.check()?;
        let value = || self.record_failure(catch_panics(|| self.exporter.value()));
        let first = value()?;
        if first >= self.seen.fetch_max(first, Ordering::AcqRel) {
            return Ok(first);
        }
        // Another thread may have seen more meanwhile. What is read now is as far as that, or the timeline went back.
        let seen = self.seen.load(Ordering::Acquire);
        match value()? {
            second if second >= seen => Ok(second),
            second => Err(Error::new(
                ErrorKind::Overtaken,
                "Timeline::value",
                "the timeline went back: a stream's signal came after a greater one; use one timeline a direction",
            )
            .with_context("value", second)
            .with_context("it was", seen)),
        }
    }

    /// Notes that somebody saw the timeline at `value`.
    pub(crate) fn observe(&self, value: u64) {
        self.seen.fetch_max(value, Ordering::AcqRel);
    }

    /// Notes a failure of the exporter.
    fn record_failure<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.fail(error);
        }
        result
    }

    /// Raises the value to `value`, unless it has come as far or further by itself. Whether that had to be done.
    ///
    /// # Errors
    /// As [`Side::look`].
    pub(crate) fn raise(&self, value: u64) -> Result<bool> {
        self.check()?;
        self.record_failure(self.reach(value))
    }

    /// Notes that a stream is about to wait for `value`. This fails once the timeline has, or else [`Side::let_go`] knows
    /// of the wait: also if both happen at the same time.
    ///
    /// # Errors
    /// Why the timeline failed.
    #[inline]
    pub(crate) fn begin_wait(&self, value: u64) -> Result<()> {
        // Whoever finds what `let_go` has left here sees the failure before it.
        if self.waited.load(Ordering::Acquire) < value {
            self.waited.fetch_max(value, Ordering::AcqRel);
        }
        self.check()
    }

    /// Raises the failed timeline to the last value that a stream waits for. Whether it was not there.
    ///
    /// # Errors
    /// What the exporter answers.
    pub(crate) fn release_waits(&self) -> Result<bool> {
        self.reach(*self.release_waits.get_or_init(|| self.waited.swap(u64::MAX, Ordering::AcqRel)))
    }

    /// Raises the value to `value`, unless it has come further by itself, whether or not the timeline has failed. Whether
    /// that had to be done.
    fn reach(&self, value: u64) -> Result<bool> {
        catch_panics(|| {
            if self.exporter.value()? >= value {
                return Ok(false);
            }
            match self.exporter.signal(value) {
                // It may have come further by itself before that has an effect.
                Err(error) if error.kind() == ErrorKind::Overtaken => Ok(false),
                // Somebody else raised it meanwhile.
                Err(error) if error.kind() == ErrorKind::InvalidArgument && self.exporter.value()? >= value => {
                    Ok(false)
                }
                signalled => signalled.map(|()| true),
            }
        })
    }
}

/// Lets go of a timeline. If it is the last to do so the exporter's destructor runs, which is the application's.
pub(crate) fn release(side: Arc<Side>) {
    if let Err(error) = catch_panics(|| {
        drop(side);
        Ok(())
    }) {
        tracing::error!(%error, "an exporter's timeline could not be dropped");
    }
}

/// Calls into an exporter, whose panic must not take the bridge's thread with it: streams would wait for ever.
pub(super) fn catch_panics<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|payload| {
        // Dropping the payload could panic again.
        std::mem::forget(payload);
        Err(Error::new(ErrorKind::Driver, "ExporterTimeline", "the exporter's side of the timeline panicked"))
    })
}
