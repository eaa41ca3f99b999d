//! How far a stream's work is.
//!
//! HIP 5.7 answers 900 to a stream's query and synchronisation while another thread records in global mode, whatever the
//! mode of the calling thread (seen with 5.7.1; 5.2.3, 6.4.3 and 7.2.4 heed it). An event is queried then.

use std::time::{Duration, Instant};

use gpu_interop_core::{ErrorKind, Result};

use crate::driver::{Driver, not_null};
use crate::functions::{EVENT_DISABLE_TIMING, Handle};
use crate::status::Status;
use crate::trace::DriverFunction;
use crate::vendor::Vendor;

/// The first pause between two looks at an event, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(1)];
/// How soon a stream without work comes to an event.
const PROMPT: Duration = Duration::from_millis(5);

/// Calls a function of the driver that is always there. In an unsafe block.
macro_rules! answer {
    ($driver:ident.$function:ident($($argument:expr),*)) => {{
        let entry = &$driver.functions.$function;
        (entry.operation, entry.get().traced(entry.operation, ($($argument,)*)))
    }};
}

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

/// Whether a stream records a graph, or may: where the driver does not say, nothing is recorded on it.
///
/// # Safety
/// As for [`is_idle`].
unsafe fn records<V: Vendor>(driver: &Driver<V>, stream: Handle) -> Result<bool> {
    let entry = &driver.functions.stream_get_capture_info;
    let ask = entry.require(&driver.version)?;
    let (mut status, mut id, mut graph, mut nodes, mut count) = (0, 0, 0, std::ptr::null(), 0);
    let out = (stream, &raw mut status, &raw mut id, &raw mut graph, &raw mut nodes, &raw mut count);
    // SAFETY: the caller's promise; the pointers are valid for the call.
    driver.check(entry.operation, unsafe { ask.traced(entry.operation, out) })?;
    // `CU_STREAM_CAPTURE_STATUS_NONE`, `hipStreamCaptureStatusNone`.
    Ok(status != 0)
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
        // SAFETY: the caller's promise.
        if unsafe { records(driver, stream) }? {
            return Ok(None);
        }
        let mut event = 0;
        // SAFETY: the pointer is valid for the call; the device is current.
        let (operation, code) = unsafe { answer!(driver.event_create(&raw mut event, EVENT_DISABLE_TIMING)) };
        driver.check(operation, code)?;
        let marker = Self { driver, event: not_null(operation, event)? };
        // SAFETY: both are live.
        let (operation, code) = unsafe { answer!(driver.event_record(marker.event, stream)) };
        driver.check(operation, code).map(|()| Some(marker))
    }

    fn passes_within(&self, limit: Duration) -> Result<bool> {
        let start = Instant::now();
        let [mut pause, longest] = PAUSES;
        while !self.has_passed()? {
            if start.elapsed() >= limit {
                return Ok(false);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(longest);
        }
        Ok(true)
    }

    fn has_passed(&self) -> Result<bool> {
        let driver = self.driver;
        // SAFETY: the event is live.
        match unsafe { answer!(driver.event_query(self.event)) } {
            (_, Status::NOT_READY) => Ok(false),
            (operation, code) => driver.check(operation, code).map(|()| true),
        }
    }
}

impl<V: Vendor> Drop for Marker<'_, V> {
    fn drop(&mut self) {
        let driver = self.driver;
        // SAFETY: live, and destroyed once. The driver keeps what a pending event needs.
        let (operation, code) = unsafe { answer!(driver.event_destroy(self.event)) };
        if let Err(error) = driver.check(operation, code) {
            tracing::warn!(%error, "destroying an event failed");
        }
    }
}
