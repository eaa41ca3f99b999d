//! Events.

use crate::call::call;
use crate::handle::{gpi_device, gpi_event, gpi_stream};
use crate::object;
use crate::pointer::Out;
use crate::status::gpi_status;

/// Creates an event without timing, and writes it to `*event`, owned by the caller.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_event_create(device: gpi_device, event: *mut gpi_event) -> gpi_status {
    call("gpi_event_create", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "event", event) }?;
        out.set(object::add(object::get(operation, device)?.create_event()?));
        Ok(())
    })
}

/// Writes to `*complete` 1 if all work before the event's last record has completed or it was never recorded, else 0. Does not
/// block.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_event_query(event: gpi_event, complete: *mut i32) -> gpi_status {
    call("gpi_event_query", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "complete", complete) }?;
        out.set(i32::from(object::get(operation, event)?.is_complete()?));
        Ok(())
    })
}

/// Writes the driver's event (`CUevent`), valid while the event lives, to `*raw`.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_event_get_raw(event: gpi_event, raw: *mut u64) -> gpi_status {
    call("gpi_event_get_raw", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "raw", raw) }?;
        out.set(object::get(operation, event)?.as_raw().get() as u64);
        Ok(())
    })
}

/// Records an event after all work enqueued on the stream so far.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` for an event of another device; otherwise the driver's error.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_stream_record_event(stream: gpi_stream, event: gpi_event) -> gpi_status {
    call("gpi_stream_record_event", |operation| {
        object::get(operation, stream)?.record(&*object::get(operation, event)?)
    })
}

/// Makes later work of the stream wait for an event's last record.
///
/// Errors: as `gpi_stream_record_event`.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_stream_wait_event(stream: gpi_stream, event: gpi_event) -> gpi_status {
    call("gpi_stream_wait_event", |operation| {
        object::get(operation, stream)?.wait_event(&*object::get(operation, event)?)
    })
}

/// Destroys the event, which may be pending.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_event_destroy(event: gpi_event) -> gpi_status {
    call("gpi_event_destroy", |operation| object::remove(operation, event).map(drop))
}
