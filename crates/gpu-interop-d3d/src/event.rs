//! Windows events, which fences signal to wake threads.

use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::time::Duration;

use gpu_interop_core::{Error, ErrorKind, Result};
use windows::Win32::Foundation::{HANDLE, WAIT_OBJECT_0, WAIT_TIMEOUT};
use windows::Win32::System::Threading::{CreateEventW, SetEvent, WaitForSingleObject};
use windows::core::PCWSTR;

/// An auto-reset event, initially not signalled.
#[derive(Debug)]
pub(crate) struct Event(OwnedHandle);

impl Event {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: neither attributes nor a name are passed.
        let handle = unsafe { CreateEventW(None, false, false, PCWSTR::null()) };
        let handle = handle.map_err(|error| call_error("CreateEventW", &error))?;
        // SAFETY: the handle was just created and has no other owner.
        Ok(Self(unsafe { OwnedHandle::from_raw_handle(handle.0) }))
    }

    /// Valid as long as `self`.
    pub(crate) fn as_raw(&self) -> HANDLE {
        HANDLE(self.0.as_raw_handle())
    }

    /// Blocks until the event is signalled, and resets it; returns false after `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) -> Result<bool> {
        const OPERATION: &str = "WaitForSingleObject";
        // SAFETY: the event is open.
        match unsafe { WaitForSingleObject(self.as_raw(), milliseconds(Some(timeout))) } {
            WAIT_OBJECT_0 => Ok(true),
            WAIT_TIMEOUT => Ok(false),
            _ => Err(call_error(OPERATION, &windows::core::Error::from_thread())),
        }
    }

    /// Signals the event.
    pub(crate) fn set(&self) {
        // SAFETY: the event is open.
        if let Err(error) = unsafe { SetEvent(self.as_raw()) } {
            tracing::debug!(%error, "an event could not be signalled");
        }
    }
}

fn call_error(operation: &'static str, error: &windows::core::Error) -> Error {
    Error::new(ErrorKind::System, operation, "the operating system returned an error")
        .with_code(error.code().0.into(), None)
        .with_context("reason", error.message())
}

/// `INFINITE`.
const INFINITE: u32 = u32::MAX;

/// Converts a timeout to whole milliseconds, rounded up so that no wait ends early; `None` is infinite. Timeouts of
/// more than 49 days become the longest finite one.
pub(crate) fn milliseconds(timeout: Option<Duration>) -> u32 {
    let Some(timeout) = timeout else { return INFINITE };
    u32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(INFINITE).min(INFINITE - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_rounded_up_and_stay_finite() {
        let cases = [
            (Some(Duration::ZERO), 0),
            (Some(Duration::from_nanos(1)), 1),
            (Some(Duration::from_millis(7)), 7),
            (Some(Duration::from_micros(7001)), 8),
            (Some(Duration::from_millis(u32::MAX.into())), u32::MAX - 1),
            (Some(Duration::MAX), u32::MAX - 1),
            (None, u32::MAX),
        ];
        for (timeout, expected) in cases {
            assert_eq!(milliseconds(timeout), expected, "{timeout:?}");
        }
    }
}
