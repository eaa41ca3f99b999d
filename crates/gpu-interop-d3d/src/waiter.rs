//! Host waits for several fences at once, and the events that fences signal.

use std::any::Any;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::sync::Mutex;
use std::time::Duration;

use gpu_interop_core::sync::lock;
use gpu_interop_core::{Error, ErrorKind, ExporterTimeline, Result, TimelineWaiter};
use windows::Win32::Foundation::{HANDLE, WAIT_OBJECT_0, WAIT_TIMEOUT};
use windows::Win32::System::Threading::{CreateEventW, SetEvent, WaitForSingleObject};
use windows::core::PCWSTR;

use crate::fence::Fence;
use crate::{d3d11, d3d12};

fn fence(timeline: &dyn ExporterTimeline) -> Option<&Fence> {
    let timeline: &dyn Any = timeline;
    let newer = || timeline.downcast_ref().map(d3d12::ExportableFence::fence);
    timeline.downcast_ref().map(d3d11::ExportableFence::fence).or_else(newer)
}

/// Waits for fences of any device of this process. All fences, and `interrupt`, signal one event.
#[derive(Debug)]
pub(crate) struct Waiter {
    event: Event,
    registrations: Mutex<Vec<Registration>>,
}

/// A registration of the event with a fence, so that the same value is not registered twice. Keeps the fence alive,
/// because a later fence could reuse its address.
#[derive(Debug)]
struct Registration {
    fence: Fence,
    value: u64,
    /// Number of calls since the last one that waited for this value.
    idle: u32,
}

/// Number of calls after which an unused registration is removed. Large enough that calls which alternate between
/// fences seldom register twice; small enough that unused fences are released soon.
const IDLE_CALLS: u32 = 100;

impl Registration {
    /// Reports whether to keep the registration. A fence that reached the value, or failed, does not signal the event
    /// again.
    fn is_active(&self) -> bool {
        self.idle == 0 || (self.idle < IDLE_CALLS && self.fence.value().is_ok_and(|present| present < self.value))
    }
}

impl Waiter {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { event: Event::new()?, registrations: Mutex::default() })
    }
}

impl TimelineWaiter for Waiter {
    fn serves(&self, timeline: &dyn ExporterTimeline) -> bool {
        fence(timeline).is_some()
    }

    fn wait_any(&self, waits: &[(&dyn ExporterTimeline, u64)], timeout: Duration) -> Result<()> {
        let mut registrations = lock(&self.registrations);
        registrations.iter_mut().for_each(|registration| registration.idle = registration.idle.saturating_add(1));
        for &(timeline, value) in waits {
            let foreign = || Error::invalid("TimelineWaiter::wait_any", "the timeline is not a Direct3D fence");
            let fence = fence(timeline).ok_or_else(foreign)?;
            if fence.value()? >= value {
                return Ok(());
            }
            if let Some(known) = registrations
                .iter_mut()
                .find(|registration| registration.value == value && registration.fence.is_same(fence))
            {
                known.idle = 0;
                continue;
            }
            fence.notify(value, &self.event)?;
            registrations.push(Registration { fence: fence.clone(), value, idle: 0 });
        }
        registrations.retain(Registration::is_active);
        drop(registrations);
        // A registration of an earlier call may have signalled the event; an early return is allowed.
        self.event.wait(timeout).map(drop)
    }

    fn interrupt(&self) {
        self.event.set();
    }
}

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
