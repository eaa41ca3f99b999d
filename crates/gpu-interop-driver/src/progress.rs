//! How far a stream's work is.
//!
//! HIP 5.7 answers 900 to a stream's query and synchronisation while another thread records in global mode, whatever the
//! mode of the calling thread (seen with 5.7.1; 5.2.3, 6.4.3 and 7.2.4 heed it). An event is queried then.

use std::time::{Duration, Instant};

use gpu_interop_core::{ErrorKind, Result};

use crate::call::answer;
use crate::driver::Driver;
use crate::functions::Handle;
use crate::graph::Recording;
use crate::status::Status;
use crate::vendor::Vendor;

/// The first pause between two looks at an event, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(1)];
/// How soon a stream without work comes to an event.
const PROMPT: Duration = Duration::from_millis(5);

/// Whether a stream has no work left.
///
/// # Errors
/// What the driver answers.
///
/// # Safety
/// The stream is live, and its device is current.
#[inline]
pub(crate) unsafe fn is_idle<V: Vendor>(driver: &Driver<V>, stream: Handle) -> Result<bool> {
    // SAFETY: the caller's promise.
    match unsafe { answer!(driver.stream_query(stream)) } {
        (_, Status::NOT_READY) => Ok(false),
        (operation, refused @ Status::CAPTURE_UNSUPPORTED) => {
            // SAFETY: the caller's promise.
            let marker = unsafe { Marker::record(driver, stream) };
            let passed = marker.and_then(|marker| marker.map(|marker| marker.passes_within(PROMPT)).transpose());
            match passed {
                Ok(Some(passed)) => Ok(passed),
                Err(error) if error.kind() == ErrorKind::DeviceLost => Err(error),
                _ => driver.check(operation, refused).map(|()| true),
            }
        }
        (operation, code) => driver.check(operation, code).map(|()| true),
    }
}

/// Waits until a stream has no work left.
///
/// # Errors
/// What the driver answers.
///
/// # Safety
/// As for [`is_idle`].
pub(crate) unsafe fn synchronize<V: Vendor>(driver: &Driver<V>, stream: Handle) -> Result<()> {
    // SAFETY: the caller's promise.
    let (operation, code) = unsafe { answer!(driver.stream_synchronize(stream)) };
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

/// An event behind all that a stream had when it was recorded.
struct Marker<'a, V: Vendor> {
    driver: &'a Driver<V>,
    event: Handle,
}

impl<'a, V: Vendor> Marker<'a, V> {
    /// `None` on a stream that records itself: an event would be part of the graph, and say nothing.
    ///
    /// # Safety
    /// As for [`is_idle`].
    #[cold]
    unsafe fn record(driver: &'a Driver<V>, stream: Handle) -> Result<Option<Self>> {
        // Where the driver does not tell, the stream may record.
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
