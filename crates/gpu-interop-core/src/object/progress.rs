//! Whether work has run. A driver that does not say so of a stream is asked of an event.

use crate::backend::{BackendDevice, RawEvent, RawStream};
use crate::error::{Error, ErrorKind, Result};

/// Whether a driver that answers this runs nothing any more.
pub(super) fn is_lost(error: &Error) -> bool {
    error.kind() == ErrorKind::DeviceLost
}

/// Whether a stream has nothing left to run. Where the driver does not say, something is left,
/// unless the device is lost.
///
/// # Safety
/// The stream is live, and of this device.
pub(super) unsafe fn is_idle(device: &dyn BackendDevice, raw: RawStream) -> bool {
    // SAFETY: the caller's promise.
    unsafe { device.query_stream(raw) }.unwrap_or_else(|error| {
        tracing::warn!(%error, "asking a stream failed; it counts as busy unless the device is lost");
        // SAFETY: the caller's promise.
        unsafe { confirms(device, raw, &error) }
    })
}

/// Whether everything enqueued on a stream so far has run, asked again if the driver does not say.
///
/// # Safety
/// As for [`is_idle`].
pub(super) unsafe fn has_run(device: &dyn BackendDevice, raw: RawStream) -> bool {
    // SAFETY: the caller's promise.
    match unsafe { device.query_stream(raw) } {
        Ok(idle) => return idle,
        // SAFETY: the caller's promise.
        Err(error) if unsafe { confirms(device, raw, &error) } => return true,
        Err(error) => tracing::warn!(%error, "asking a stream failed; an event is asked"),
    }
    // SAFETY: the caller's promise.
    let Ok(event) = (unsafe { record(device, raw) }) else { return false };
    // SAFETY: the event was just recorded, and nothing else knows it.
    let passed = unsafe { device.query_event(event) }.unwrap_or(false);
    destroy(device, event);
    passed
}

/// Whether a device is lost, whose stream answered `error`: if events are answered so, too.
///
/// # Safety
/// As for [`is_idle`].
unsafe fn confirms(device: &dyn BackendDevice, raw: RawStream, error: &Error) -> bool {
    if !is_lost(error) {
        return false;
    }
    // SAFETY: the caller's promise.
    match unsafe { record(device, raw) } {
        Err(error) => is_lost(&error),
        Ok(event) => {
            destroy(device, event);
            false
        }
    }
}

/// A new event, recorded on a stream.
///
/// # Safety
/// As for [`is_idle`].
pub(super) unsafe fn record(device: &dyn BackendDevice, raw: RawStream) -> Result<RawEvent> {
    let event = device.create_event()?;
    // SAFETY: the event was just created; the caller's promise.
    if let Err(error) = unsafe { device.record_event(event, raw) } {
        destroy(device, event);
        return Err(error);
    }
    Ok(event)
}

/// Destroys an event that nothing else knows.
pub(super) fn destroy(device: &dyn BackendDevice, event: RawEvent) {
    // SAFETY: live, and destroyed once; drivers keep what a pending one needs.
    if let Err(error) = unsafe { device.destroy_event(event) } {
        tracing::warn!(%error, "destroying an event failed");
    }
}
