//! Queries and synchronisation of streams.
//!
//! HIP 5.7 returns 900 for a stream's query and synchronisation while another thread captures in global mode,
//! regardless of the calling thread's mode (measured with 5.7.1; 5.2.3, 6.4.3 and 7.2.4 respect the mode). An event is
//! recorded and queried instead.

use std::time::{Duration, Instant};

use gpu_interop_core::{ErrorKind, Result};

use crate::call::status;
use crate::driver::Driver;
use crate::driver::Vendor;
use crate::functions::Handle;
use crate::graph::Recording;
use crate::status::Status;

/// First and longest pause between two queries of an event.
const PAUSES: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(1)];
/// Time within which an idle stream completes an event.
const PROMPT: Duration = Duration::from_millis(5);

impl<V: Vendor> Driver<V> {
    /// Returns whether a stream has no pending work (`cuStreamQuery`, `hipStreamQuery`). AMD's runtime may return
    /// "not ready" at the first query after new work although the work has completed.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Safety
    /// The stream is live, and its device is current.
    #[inline]
    pub unsafe fn is_idle(&self, stream: Handle) -> Result<bool> {
        // SAFETY: the caller's promise.
        match unsafe { status!(self.stream_query(stream)) } {
            (_, Status::NOT_READY) => Ok(false),
            (operation, rejected @ Status::CAPTURE_UNSUPPORTED) => {
                // SAFETY: the caller's promise.
                let marker = unsafe { Marker::record(self, stream) };
                let passed = marker.and_then(|marker| marker.map(|marker| marker.passes_within(PROMPT)).transpose());
                let passed = passed.inspect_err(|error| {
                    tracing::warn!(%error, "an event that replaces the query of a stream failed");
                });
                match passed {
                    Ok(Some(passed)) => Ok(passed),
                    Err(error) if error.kind() == ErrorKind::DeviceLost => Err(error),
                    _ => self.check(operation, rejected).map(|()| true),
                }
            }
            (operation, code) => self.check(operation, code).map(|()| true),
        }
    }
}

/// Waits until a stream has no pending work.
///
/// # Errors
/// The driver's error.
///
/// # Safety
/// As for [`Driver::is_idle`].
pub(crate) unsafe fn synchronize<V: Vendor>(driver: &Driver<V>, stream: Handle) -> Result<()> {
    // SAFETY: the caller's promise.
    let (operation, code) = unsafe { status!(driver.stream_synchronize(stream)) };
    if code != Status::CAPTURE_UNSUPPORTED {
        return driver.check(operation, code);
    }
    // SAFETY: the caller's promise.
    let marker = unsafe { Marker::record(driver, stream) };
    match marker.and_then(|marker| marker.map(|marker| marker.passes_within(Duration::MAX)).transpose()) {
        Ok(Some(_)) => Ok(()),
        Err(error) if error.kind() == ErrorKind::DeviceLost => Err(error),
        _ => driver.check(operation, code),
    }
}

/// Event recorded after all work enqueued on a stream so far.
struct Marker<'a, V: Vendor> {
    driver: &'a Driver<V>,
    event: Handle,
}

impl<'a, V: Vendor> Marker<'a, V> {
    /// Records the event. Returns `None` if the stream itself is capturing: the event would become part of the graph.
    ///
    /// # Safety
    /// As for [`Driver::is_idle`].
    #[cold]
    unsafe fn record(driver: &'a Driver<V>, stream: Handle) -> Result<Option<Self>> {
        // If this query fails, the stream may be capturing.
        // SAFETY: the caller's promise.
        if unsafe { Recording::of(driver, stream) }?.is_active() {
            return Ok(None);
        }
        let marker = Self { driver, event: driver.create_event()? };
        // SAFETY: both are live.
        unsafe { driver.record_event(marker.event, stream) }.map(|()| Some(marker))
    }

    fn passes_within(&self, limit: Duration) -> Result<bool> {
        let start = Instant::now();
        let [mut pause, longest] = PAUSES;
        // SAFETY: the event is live.
        while !unsafe { self.driver.has_passed(self.event) }? {
            if start.elapsed() >= limit {
                return Ok(false);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(longest);
        }
        Ok(true)
    }
}

impl<V: Vendor> Drop for Marker<'_, V> {
    fn drop(&mut self) {
        // SAFETY: live, and destroyed once.
        if let Err(error) = unsafe { self.driver.destroy_event(self.event) } {
            tracing::warn!(%error, "destroying an event failed");
        }
    }
}
