//! Timelines: counters that streams and an exporter share.

use std::ffi::c_char;
use std::time::Duration;

use gpu_interop::{Error, Timeline, TimelineStrategy};

use crate::call::call;
use crate::handle::{gpi_device, gpi_exported_semaphore, gpi_stream, gpi_timeline};
use crate::object;
use crate::pointer::{self, Out};
use crate::status::gpi_status;

/// Strategy: native where the driver imports the timeline, else the bridge; or that of the environment variable
/// GPU_INTEROP_TIMELINE.
pub const GPI_TIMELINE_AUTO: i32 = 0;
/// Strategy: the compute driver imports the timeline.
pub const GPI_TIMELINE_NATIVE: i32 = 1;
/// Strategy: a host thread carries the values.
pub const GPI_TIMELINE_BRIDGE: i32 = 2;

/// Shares a timeline of the exporter with the streams of a device, and writes it to `*timeline`, owned by the caller.
/// `exporter` may be destroyed afterwards: the timeline keeps the semaphore.
///
/// Use one timeline for each direction if more than one frame is in flight.
///
/// Errors: `GPI_ERROR_UNSUPPORTED` where the strategy, a `GPI_TIMELINE_*`, is not supported; `GPI_ERROR_INVALID_ARGUMENT` for a
/// binary semaphore; otherwise the driver's error.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_timeline_create(
    device: gpi_device,
    exporter: gpi_exported_semaphore,
    strategy: i32,
    timeline: *mut gpi_timeline,
) -> gpi_status {
    call("gpi_timeline_create", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "timeline", timeline) }?;
        let device = object::get(operation, device)?;
        let exporter = object::get(operation, exporter)?.timeline(operation)?;
        out.set(object::add(match strategy {
            GPI_TIMELINE_AUTO => Timeline::new(&device, exporter),
            GPI_TIMELINE_NATIVE => Timeline::with_strategy(&device, exporter, TimelineStrategy::Native),
            GPI_TIMELINE_BRIDGE => Timeline::with_strategy(&device, exporter, TimelineStrategy::HostBridge),
            _ => {
                Err(Error::invalid(operation, "unknown strategy; pass a GPI_TIMELINE_*")
                    .with_context("strategy", strategy))
            }
        }?));
        Ok(())
    })
}

/// Writes the strategy of the timeline, `GPI_TIMELINE_NATIVE` or `GPI_TIMELINE_BRIDGE`, to `*strategy`.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_timeline_get_strategy(timeline: gpi_timeline, strategy: *mut i32) -> gpi_status {
    call("gpi_timeline_get_strategy", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "strategy", strategy) }?;
        out.set(match object::get(operation, timeline)?.strategy() {
            TimelineStrategy::Native => GPI_TIMELINE_NATIVE,
            _ => GPI_TIMELINE_BRIDGE,
        });
        Ok(())
    })
}

/// Writes the current value to `*value`.
///
/// Errors: the failure of the timeline, if any; `GPI_ERROR_OVERTAKEN` if the value is smaller than one observed before;
/// otherwise the exporter's error.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_timeline_get_value(timeline: gpi_timeline, value: *mut u64) -> gpi_status {
    call("gpi_timeline_get_value", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "value", value) }?;
        out.set(object::get(operation, timeline)?.value()?);
        Ok(())
    })
}

/// Blocks until the timeline is at least `value`, at most `timeout_ns` nanoseconds.
///
/// Errors: `GPI_ERROR_TIMEOUT`; the call may be repeated. `GPI_ERROR_CANCELLED` if the process that
/// `gpi_timeline_watch_process` watches has ended; otherwise the exporter's error.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_timeline_wait(timeline: gpi_timeline, value: u64, timeout_ns: u64) -> gpi_status {
    call("gpi_timeline_wait", |operation| {
        object::get(operation, timeline)?.wait(value, Duration::from_nanos(timeout_ns))
    })
}

/// Raises the timeline to `value` from the host, immediately.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` if `value` is not greater than the current one and every one signalled through this
/// timeline; the failure of the timeline, if any; otherwise the exporter's error.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_timeline_signal(timeline: gpi_timeline, value: u64) -> gpi_status {
    call("gpi_timeline_signal", |operation| object::get(operation, timeline)?.signal(value))
}

/// Fails the timeline once process `id`, which signals it, has ended, because a killed process signals nothing. Call it before
/// any host wait. Later host waits then fail with `GPI_ERROR_CANCELLED`; pending waits of streams are released, and the next
/// `gpi_stream_synchronize` of these streams fails with `GPI_ERROR_CANCELLED`.
///
/// A bridge checks the process itself. With `GPI_TIMELINE_NATIVE` only `gpi_timeline_wait` checks it. If only streams wait
/// natively, bound `gpi_stream_synchronize`, and call `gpi_timeline_wait` with a timeout of 0 after each of its timeouts, or
/// `gpi_timeline_abandon`.
///
/// Errors: `GPI_ERROR_SYSTEM` if the process does not exist, `GPI_ERROR_INVALID_ARGUMENT` if one is watched already,
/// `GPI_ERROR_UNSUPPORTED` if the kernel lacks `pidfd_open` (Linux 5.3).
#[unsafe(no_mangle)]
pub extern "C" fn gpi_timeline_watch_process(timeline: gpi_timeline, id: u32) -> gpi_status {
    call("gpi_timeline_watch_process", |operation| object::get(operation, timeline)?.watch_process(id))
}

/// Abandons the timeline, because it will not be signalled any more: pending waits of streams are released, and later uses
/// fail with `reason`. Released streams continue without the data that they waited for, and their next
/// `gpi_stream_synchronize` fails with `GPI_ERROR_CANCELLED`. With `GPI_TIMELINE_NATIVE` that holds for the last 4 timelines that
/// the stream waited for, and not for a stream that waits for a released stream by an event.
///
/// Errors: the exporter's error. The call may be repeated.
///
/// # Safety
/// `reason` is null or a text that ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_timeline_abandon(timeline: gpi_timeline, reason: *const c_char) -> gpi_status {
    call("gpi_timeline_abandon", |operation| {
        // SAFETY: the caller's promise.
        let reason = unsafe { pointer::utf8(operation, "reason", reason) }?;
        object::get(operation, timeline)?.abandon(reason)
    })
}

/// Makes later work of the stream wait until a timeline is at least `value`. The signal may come later. The wait has no
/// timeout: bound it with `gpi_stream_synchronize`.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` for a timeline of another device; the failure of the timeline, if any; otherwise the
/// driver's error. After an error nothing is enqueued.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_stream_wait_timeline(stream: gpi_stream, timeline: gpi_timeline, value: u64) -> gpi_status {
    call("gpi_stream_wait_timeline", |operation| {
        object::get(operation, stream)?.wait_timeline(&*object::get(operation, timeline)?, value)
    })
}

/// Raises a timeline to `value` after all work enqueued on the stream before has completed. The application orders its signals:
/// the value must be greater than the timeline's at that time.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` for a timeline of another device, or a value not greater than the last one signalled
/// through the same timeline; the failure of the timeline, if any; otherwise the driver's error. After an error nothing is
/// enqueued.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_stream_signal_timeline(stream: gpi_stream, timeline: gpi_timeline, value: u64) -> gpi_status {
    call("gpi_stream_signal_timeline", |operation| {
        object::get(operation, stream)?.signal_timeline(&*object::get(operation, timeline)?, value)
    })
}

/// Destroys the handle. Does not wait: enqueued work stays valid and keeps the exporter's timeline alive.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_timeline_destroy(timeline: gpi_timeline) -> gpi_status {
    call("gpi_timeline_destroy", |operation| object::remove(operation, timeline).map(drop))
}
