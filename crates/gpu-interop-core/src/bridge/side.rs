//! The exporter's side of a timeline: values, failure, and the watched process. Also stream faults that are unknown to
//! the driver.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};

use super::forecast::Forecast;
use crate::callback::caught;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{AtomicBool, AtomicU64, Mutex, unpoisoned};
use crate::sys::Guarded;
use crate::timeline::ExporterTimeline;

pub(crate) use watched::Watched;

/// An exporter's timeline, shared by its object and the bridge's thread.
#[derive(Debug)]
pub(crate) struct BridgedTimeline {
    pub(crate) exporter: Guarded<Arc<dyn ExporterTimeline>>,
    /// Failure of the timeline. Every later operation returns it.
    failure: OnceLock<Error>,
    /// Greatest value that this process signalled through the timeline's object, or the exporter's value when the
    /// object was created. The exporter may have signalled greater values.
    pub(crate) last_signalled: AtomicU64,
    /// Greatest value that a stream has waited for; `u64::MAX` once the waits were released.
    waited: AtomicU64,
    /// Greatest value observed.
    seen: AtomicU64,
    /// Greatest value that a stream had waited for when the waits were released.
    release_waits: OnceLock<u64>,
    /// Shared with the streams that waited for a native timeline.
    pub(crate) released: Arc<ReleasedWaits>,
    /// The watched process, which signals the timeline.
    pub(super) process: OnceLock<Watched>,
    /// Latencies of the timeline's values.
    pub(super) forecast: Forecast,
}

impl BridgedTimeline {
    /// Wraps an exporter's timeline whose value is `value`.
    pub(crate) fn new(exporter: Arc<dyn ExporterTimeline>, value: u64) -> Self {
        Self {
            exporter: Guarded::new(exporter),
            failure: OnceLock::new(),
            last_signalled: AtomicU64::new(value),
            waited: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            release_waits: OnceLock::new(),
            released: Arc::default(),
            process: OnceLock::new(),
            forecast: Forecast::default(),
        }
    }

    /// Returns the failure of the timeline, if any.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        match self.failure.get() {
            None => Ok(()),
            Some(failure) => Err(failure.duplicate()),
        }
    }

    /// `true` if the timeline has failed.
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.get().is_some()
    }

    /// Marks the timeline as failed. The first error is kept.
    pub(crate) fn fail(&self, error: &Error) {
        let message = format!("the timeline failed before: {}", error.message());
        if self.failure.set(error.with_message(message)).is_ok() {
            log!(error, %error, "a timeline failed; its waits are released");
        }
    }

    /// Returns the current value.
    ///
    /// # Errors
    /// The failure of the timeline, new or recorded. [`ErrorKind::Overtaken`] if the value has decreased: a driver has
    /// set the timeline to the value of an overtaken signal.
    pub(crate) fn value(&self) -> Result<u64> {
        self.check()?;
        let value = || self.record_failure(catch_panics(|| self.exporter.value()));
        let first = value()?;
        if first >= self.seen.fetch_max(first, Ordering::AcqRel) {
            return Ok(first);
        }
        // Another thread may have observed a greater value since the read. A second read returns at least that value,
        // unless the timeline decreased.
        let seen = self.seen.load(Ordering::Acquire);
        match value()? {
            second if second >= seen => Ok(second),
            second => Err(Error::new(
                ErrorKind::Overtaken,
                "Timeline::value",
                "the timeline decreased: a stream's signal followed a greater one; use one timeline for each direction",
            )
            .with_context("value", second)
            .with_context("previous value", seen)),
        }
    }

    /// Greatest value observed so far, without a call of the exporter.
    pub(crate) fn seen(&self) -> u64 {
        self.seen.load(Ordering::Acquire)
    }

    /// Records that the timeline was observed at `value`.
    pub(crate) fn observe(&self, value: u64) {
        self.seen.fetch_max(value, Ordering::AcqRel);
    }

    /// Marks the timeline as failed if the exporter failed.
    fn record_failure<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.fail(error);
        }
        result
    }

    /// Raises the timeline to `value` for a stream's signal. Returns `false` if the timeline has already reached the
    /// value, or if pending work of the exporter may signal a greater value first.
    ///
    /// # Errors
    /// As [`Side::value`].
    pub(crate) fn raise(&self, value: u64) -> Result<bool> {
        self.check()?;
        match self.reach(value) {
            Err(error) if error.kind() == ErrorKind::Overtaken => Ok(false),
            reached => self.record_failure(reached),
        }
    }

    /// Records that a stream is about to wait for `value`. If this returns no failure, a later or concurrent
    /// [`Side::release_waits`] releases the wait.
    ///
    /// # Errors
    /// The failure of the timeline.
    #[inline]
    pub(crate) fn begin_wait(&self, value: u64) -> Result<()> {
        // A thread that observes the value stored by `release_waits` also observes the failure, which was recorded
        // earlier.
        if self.waited.load(Ordering::Acquire) < value {
            self.waited.fetch_max(value, Ordering::AcqRel);
        }
        self.check()
    }

    /// Raises the failed timeline to the greatest value that a stream waits for. Returns `false` if the timeline has
    /// already reached this value.
    ///
    /// # Errors
    /// Errors of the exporter. [`ErrorKind::Overtaken`] if the exporter rejects the signal because its pending work may
    /// signal a greater value first. This work or a later call then releases the streams.
    pub(crate) fn release_waits(&self) -> Result<bool> {
        let value = *self.release_waits.get_or_init(|| self.waited.swap(u64::MAX, Ordering::AcqRel));
        // Before the timeline is raised: streams that wait for greater values run without their data.
        if let (Some(failure), None) = (self.failure.get(), self.released.0.get()) {
            let reached = catch_panics(|| self.exporter.value())?.max(self.seen());
            // Another thread may have recorded an equal or smaller value.
            let _ = self.released.0.set((failure.duplicate(), reached));
        }
        self.reach(value)
    }

    /// Raises the timeline to `value`, also after a failure. Returns `false` if the timeline has already reached the
    /// value.
    fn reach(&self, value: u64) -> Result<bool> {
        catch_panics(|| {
            if self.exporter.value()? >= value {
                return Ok(false);
            }
            let reached_meanwhile = |error: &Error| {
                matches!(error.kind(), ErrorKind::Overtaken | ErrorKind::InvalidArgument)
                    && self.exporter.value().is_ok_and(|current| current >= value)
            };
            match self.exporter.signal(value) {
                Err(error) if reached_meanwhile(&error) => Ok(false),
                signalled => signalled.map(|()| true),
            }
        })
    }
}

/// Failure of a native timeline whose waits the library released, and the value that it had reached before. Outlives the
/// timeline in the streams that waited for it.
#[derive(Debug, Default)]
pub(crate) struct ReleasedWaits(OnceLock<(Error, u64)>);

impl ReleasedWaits {
    /// The failure, if a wait for `value` was released by it.
    pub(crate) fn failure_of(&self, value: u64) -> Option<&Error> {
        self.0.get().filter(|(_, reached)| value > *reached).map(|(failure, _)| failure)
    }
}

/// Calls an exporter and converts a panic into an error. If the bridge's thread panicked, streams would wait forever.
pub(super) fn catch_panics<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    caught(call).unwrap_or_else(|| {
        Err(Error::new(ErrorKind::Driver, "ExporterTimeline", "the exporter's side of the timeline panicked"))
    })
}

/// First fault of a stream since the last report. Shared with the sources of faults: host functions and bridges of
/// timelines.
#[derive(Debug, Default)]
pub(crate) struct StreamFaults {
    any: AtomicBool,
    /// Latencies of the stream's signals over bridges.
    pub(crate) forecast: Forecast,
    state: Mutex<FaultState>,
}

#[derive(Debug, Default)]
struct FaultState {
    first: Option<Error>,
    /// Timeline whose failure was recorded last.
    failed: Weak<BridgedTimeline>,
}

impl StreamFaults {
    /// Records a fault for the stream's next synchronisation.
    pub(crate) fn report(&self, error: Error) {
        unpoisoned(self.state.lock()).first.get_or_insert(error);
        self.any.store(true, Ordering::Release);
    }

    /// Records the failure of a timeline. Each timeline is recorded once, even if its failure affects several waits and
    /// signals.
    pub(crate) fn report_timeline(&self, timeline: &Arc<BridgedTimeline>, error: &Error) {
        {
            let mut state = unpoisoned(self.state.lock());
            if std::ptr::eq(state.failed.as_ptr(), Arc::as_ptr(timeline)) {
                return;
            }
            state.failed = Arc::downgrade(timeline);
        }
        self.report(error.duplicate());
    }

    /// Takes the recorded fault.
    pub(crate) fn take(&self) -> Result<()> {
        if !self.any.swap(false, Ordering::Acquire) {
            return Ok(());
        }
        unpoisoned(self.state.lock()).first.take().map_or(Ok(()), Err)
    }
}

#[cfg(target_os = "linux")]
mod watched {
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    /// A pidfd, readable once the process has ended.
    #[derive(Debug)]
    pub(crate) struct Watched(OwnedFd);

    impl Watched {
        /// Opens the process with this id (`pidfd_open`).
        pub(super) fn open(id: u32) -> std::io::Result<Self> {
            let pid = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or(std::io::ErrorKind::NotFound)?;
            Ok(Self(pidfd_open(pid, PidfdFlags::empty())?))
        }

        pub(super) fn has_ended(&self) -> bool {
            let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
            let now = Timespec::try_from(Duration::ZERO).ok();
            poll(&mut polled, now.as_ref()).is_ok_and(|ready| ready > 0)
        }
    }
}

#[cfg(windows)]
mod watched {
    use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};

    use windows_sys::Win32::Foundation::WAIT_OBJECT_0;
    use windows_sys::Win32::System::Threading::{OpenProcess, PROCESS_SYNCHRONIZE, WaitForSingleObject};

    /// A process handle, signalled once the process has ended.
    #[derive(Debug)]
    pub(crate) struct Watched(OwnedHandle);

    impl Watched {
        /// Opens the process with this id (`OpenProcess`).
        pub(super) fn open(id: u32) -> std::io::Result<Self> {
            // SAFETY: the call takes no pointers.
            let process = unsafe { OpenProcess(PROCESS_SYNCHRONIZE, 0, id) };
            if process.is_null() {
                return Err(std::io::Error::last_os_error());
            }
            // SAFETY: a new handle that this function owns.
            Ok(Self(unsafe { OwnedHandle::from_raw_handle(process) }))
        }

        pub(super) fn has_ended(&self) -> bool {
            // SAFETY: the handle is open, with the right to wait for it.
            unsafe { WaitForSingleObject(self.0.as_raw_handle(), 0) == WAIT_OBJECT_0 }
        }
    }
}

#[cfg(not(any(target_os = "linux", windows)))]
mod watched {
    /// Uninhabited: processes cannot be watched on this system.
    #[derive(Debug)]
    pub(crate) enum Watched {}

    impl Watched {
        pub(super) fn open(_id: u32) -> std::io::Result<Self> {
            Err(std::io::ErrorKind::Unsupported.into())
        }

        pub(super) fn has_ended(&self) -> bool {
            match *self {}
        }
    }
}

const OPERATION: &str = "Timeline::watch_process";

/// The error of opening the process `id`.
fn unwatched(id: u32, error: std::io::Error) -> Error {
    let (kind, message) = match error.kind() {
        // ENOSYS.
        std::io::ErrorKind::Unsupported if cfg!(target_os = "linux") => (
            ErrorKind::Unsupported,
            "this kernel has no pidfd_open, which needs Linux 5.3 and may be missing in a sandbox; abandon the timeline \
             when the process ends",
        ),
        std::io::ErrorKind::Unsupported => (
            ErrorKind::Unsupported,
            "processes can be watched on Linux and Windows only; abandon the timeline when the process ends",
        ),
        _ => (ErrorKind::System, "the process cannot be watched; it may have ended"),
    };
    Error::new(kind, OPERATION, message).with_context("id", id).with_source(error)
}

impl BridgedTimeline {
    /// Fails the timeline once process `id` has ended.
    pub(crate) fn watch_process(&self, id: u32) -> Result<()> {
        let process = Watched::open(id).map_err(|error| unwatched(id, error))?;
        self.process
            .set(process)
            .map_err(|_| Error::invalid(OPERATION, "the timeline already watches a process").with_context("id", id))
    }

    /// `true` if a process is watched.
    pub(crate) fn is_watched(&self) -> bool {
        self.process.get().is_some()
    }

    /// Fails the timeline if the watched process has ended and signalled no value since the last observation. A process
    /// may signal its last value just before its end.
    pub(crate) fn check_process(&self) {
        if self.process.get().is_some_and(Watched::has_ended) {
            let seen = self.seen();
            if self.value().is_ok_and(|value| value > seen) {
                return;
            }
            self.fail(&Error::new(
                ErrorKind::Cancelled,
                OPERATION,
                "the process that signals the timeline has ended; import a timeline of a new one",
            ));
        }
    }
}

#[cfg(all(test, target_os = "linux", not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_pidfd_open_is_named() {
        let error = unwatched(7, rustix::io::Errno::NOSYS.into());
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains("pidfd_open") && error.message().contains("Linux 5.3"), "{error}");
        assert_eq!(unwatched(7, rustix::io::Errno::SRCH.into()).kind(), ErrorKind::System);
    }
}
