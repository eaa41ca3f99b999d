//! Completion queries. If the query of a stream fails, an event is queried.

use crate::backend::{BackendDevice, RawEvent, RawStream};
use crate::error::{Error, ErrorKind, Result};

/// `true` if the error reports a lost device.
pub(super) fn is_lost(error: &Error) -> bool {
    error.kind() == ErrorKind::DeviceLost
}

/// `true` if a stream is idle. After a failed query it counts as busy, unless the device is lost.
///
/// # Safety
/// The stream is live and belongs to this device.
pub(super) unsafe fn is_idle(device: &dyn BackendDevice, raw: RawStream) -> bool {
    // SAFETY: the caller guarantees a live stream of this device.
    unsafe { device.query_stream(raw) }.unwrap_or_else(|error| {
        log!(warn, %error, "querying a stream failed; it counts as busy unless the device is lost");
        // SAFETY: the caller guarantees a live stream of this device.
        unsafe { confirms_loss(device, raw, &error) }
    })
}

/// `true` if all work enqueued on a stream so far has completed; if the query fails, an event is queried.
///
/// # Safety
/// As for [`is_idle`].
pub(super) unsafe fn has_run(device: &dyn BackendDevice, raw: RawStream) -> bool {
    // SAFETY: the caller guarantees a live stream of this device.
    match unsafe { device.query_stream(raw) } {
        Ok(idle) => return idle,
        // SAFETY: the caller guarantees a live stream of this device.
        Err(error) if unsafe { confirms_loss(device, raw, &error) } => return true,
        Err(error) => log!(warn, %error, "querying a stream failed; an event is queried"),
    }
    // SAFETY: the caller guarantees a live stream of this device.
    let Ok(event) = (unsafe { record(device, raw) }) else { return false };
    // SAFETY: the event was just recorded and has no other user.
    let passed = unsafe { device.query_event(event) }.unwrap_or(false);
    destroy(device, event);
    passed
}

/// `true` if the device is lost: `error`, of a stream query, and an event both report it.
///
/// # Safety
/// As for [`is_idle`].
unsafe fn confirms_loss(device: &dyn BackendDevice, raw: RawStream, error: &Error) -> bool {
    if !is_lost(error) {
        return false;
    }
    // SAFETY: the caller guarantees a live stream of this device.
    match unsafe { record(device, raw) } {
        Err(error) => is_lost(&error),
        Ok(event) => {
            destroy(device, event);
            false
        }
    }
}

/// Creates an event and records it on a stream.
///
/// # Safety
/// As for [`is_idle`].
pub(super) unsafe fn record(device: &dyn BackendDevice, raw: RawStream) -> Result<RawEvent> {
    let event = device.create_event()?;
    // SAFETY: the event was just created; the caller guarantees the stream.
    if let Err(error) = unsafe { device.record_event(event, raw) } {
        destroy(device, event);
        return Err(error);
    }
    Ok(event)
}

/// Destroys an event without other users.
pub(super) fn destroy(device: &dyn BackendDevice, event: RawEvent) {
    // SAFETY: the event is live and destroyed once; drivers keep the resources of a pending event.
    if let Err(error) = unsafe { device.destroy_event(event) } {
        log!(warn, %error, "destroying an event failed");
    }
}
