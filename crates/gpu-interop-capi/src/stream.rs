//! Streams, their events, and words in memory that they wait for and write.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

use gpu_interop::backend::RawStream;
use gpu_interop::{Error, Result, Stream, WaitCondition};

use crate::buffer::gpi_range;
use crate::call::call;
use crate::constants::GPI_NO_TIMEOUT;
use crate::handle::{gpi_device, gpi_event, gpi_stream};
use crate::object;
use crate::pointer::Out;
use crate::release::{Release, gpi_release_function};
use crate::status::gpi_status;

/// Function of the application that a stream calls on a thread of the driver. It may destroy handles, and signal timelines by
/// `gpi_timeline_signal`. It must not call other functions of this library or a compute driver, must not wait for other work,
/// and must not unwind: drivers share the thread among streams. `gpi_stream_synchronize` and the blocking reads and writes fail
/// in it with `GPI_ERROR_INVALID_ARGUMENT`, because they would never end.
pub type gpi_host_function = Option<unsafe extern "C" fn(data: *mut c_void)>;

/// Creates a stream, and writes it to `*stream`, owned by the caller. It does not synchronise with the driver's default
/// stream.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_stream_create(device: gpi_device, stream: *mut gpi_stream) -> gpi_status {
    call("gpi_stream_create", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "stream", stream) }?;
        out.set(object::add(object::get(operation, device)?.create_stream()?));
        Ok(())
    })
}

/// Wraps a stream of the application (`CUstream`, `hipStream_t`; 0 is the driver's default stream), and writes it to
/// `*stream`, owned by the caller. Destroying it does not destroy the driver's stream.
///
/// `release(data)` is called once, when the returned stream has been destroyed and its work has completed. If this function
/// fails, it is not called.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` for 2, the per-thread default stream (`CU_STREAM_PER_THREAD`,
/// `hipStreamPerThread`), which is another stream on every thread; for 0, 1 and 2 on the host backend, which has no default
/// stream; and for a stream on which a graph is being captured. Otherwise the driver's error.
///
/// # Safety
/// `raw` is a stream of the device (on the host backend: the result of `gpi_stream_get_raw`), live until `release` is called;
/// if `release` is null, until the returned stream has been destroyed, its work has completed, and `gpi_device_collect` has
/// been called. It captures no graph meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_stream_wrap(
    device: gpi_device,
    raw: u64,
    release: gpi_release_function,
    data: *mut c_void,
    stream: *mut gpi_stream,
) -> gpi_status {
    call("gpi_stream_wrap", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "stream", stream) }?;
        let device = object::get(operation, device)?;
        let raw = usize::try_from(raw).map_err(|_| Error::invalid(operation, "the stream exceeds a pointer"))?;
        let raw = RawStream::new(raw);
        let instead = "create a stream with gpi_stream_create, or pass another one of the application";
        // SAFETY: the caller's promise.
        unsafe { device.check_raw_stream(operation, raw, instead) }?;
        // SAFETY: the caller's promise.
        let owner = Arc::new(unsafe { Release::new(release, data) });
        owner.arm();
        // SAFETY: the caller's promise.
        out.set(object::add(unsafe { device.stream_from_raw_with_owner(raw, owner) }?));
        Ok(())
    })
}

/// Writes the driver's stream (`CUstream`), valid while the stream lives, to `*raw`. Other libraries may enqueue work on it.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_stream_get_raw(stream: gpi_stream, raw: *mut u64) -> gpi_status {
    call("gpi_stream_get_raw", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "raw", raw) }?;
        out.set(object::get(operation, stream)?.as_raw().get() as u64);
        Ok(())
    })
}

/// Blocks until all enqueued work has completed, or `timeout_ns` nanoseconds have passed; `GPI_NO_TIMEOUT` waits forever. Also
/// returns a failure of the enqueued work since the last call.
///
/// Errors: `GPI_ERROR_TIMEOUT` if work is pending; it continues, the call may be repeated, and the message lists the timelines
/// that the stream waits for. With 0 nanoseconds the stream is queried once, as by `gpi_stream_query`. `GPI_ERROR_CANCELLED` if
/// `gpi_timeline_abandon` or `gpi_timeline_watch_process` released a wait of the stream: the work ran without the data that it
/// waited for. For `GPI_TIMELINE_NATIVE` that holds for the last 4 timelines that the stream waited for.
/// `GPI_ERROR_INVALID_ARGUMENT` inside a `gpi_host_function`. Otherwise the failure of the work.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_stream_synchronize(stream: gpi_stream, timeout_ns: u64) -> gpi_status {
    call("gpi_stream_synchronize", |operation| {
        let stream = object::get(operation, stream)?;
        match timeout_ns {
            GPI_NO_TIMEOUT => stream.synchronize(),
            _ => stream.synchronize_timeout(Duration::from_nanos(timeout_ns)),
        }
    })
}

/// Writes to `*idle` 1 if all enqueued work has completed, else 0. Does not block. On HIP the first call after new work
/// may write 0 although the work has completed; `gpi_event_query` of an event behind the work is exact.
///
/// Errors: the driver's error; a failure of enqueued work may be returned here.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_stream_query(stream: gpi_stream, idle: *mut i32) -> gpi_status {
    call("gpi_stream_query", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "idle", idle) }?;
        out.set(i32::from(object::get(operation, stream)?.is_idle()?));
        Ok(())
    })
}

/// Records that work on this stream uses a range, where the library cannot detect it: a kernel that gets its address, or work
/// that another library enqueues. A buffer that is destroyed stays mapped until that work has completed.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` for a buffer of another device.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_stream_keep(stream: gpi_stream, used: gpi_range) -> gpi_status {
    call("gpi_stream_keep", |operation| {
        let (stream, memory) = (object::get(operation, stream)?, used.memory(operation)?);
        stream.keep(used.slice(operation, &memory)?)
    })
}

/// Argument of a host function, called on another thread.
struct HostCall {
    function: unsafe extern "C" fn(*mut c_void),
    data: *mut c_void,
}

// SAFETY: the caller of `gpi_stream_launch_host_function` promises that the function may be called on another thread.
unsafe impl Send for HostCall {}

impl HostCall {
    fn run(self) {
        // SAFETY: the promise of the caller of `gpi_stream_launch_host_function`; called once.
        unsafe { (self.function)(self.data) };
    }
}

/// Calls `function(data)` on a thread of the driver, in stream order: after all work enqueued before, and before later work.
/// If the device is closed first, the function is not called.
///
/// Errors: `GPI_ERROR_UNSUPPORTED` where host functions are not supported; `GPI_ERROR_INVALID_ARGUMENT` for a null function;
/// otherwise the driver's error. After an error the function is not called.
///
/// # Safety
/// The function may be called with `data` on another thread, until the stream has completed the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_stream_launch_host_function(
    stream: gpi_stream,
    function: gpi_host_function,
    data: *mut c_void,
) -> gpi_status {
    call("gpi_stream_launch_host_function", |operation| {
        let function = function.ok_or_else(|| Error::invalid(operation, "the function is null"))?;
        let host_call = HostCall { function, data };
        object::get(operation, stream)?.launch_host_function(move || host_call.run())
    })
}

/// Destroys the stream. Does not wait: work already enqueued still runs.
///
/// Errors: the driver's error; the handle is destroyed in either case.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_stream_destroy(stream: gpi_stream) -> gpi_status {
    call("gpi_stream_destroy", |operation| {
        let stream = object::remove(operation, stream)?;
        Arc::into_inner(stream).map_or(Ok(()), Stream::close)
    })
}

/// Condition: the word has reached the value, with wrap-around. HIP compares without wrap-around.
pub const GPI_WAIT_GREATER_OR_EQUAL: i32 = 0;
/// Condition: the word equals the value.
pub const GPI_WAIT_EQUAL: i32 = 1;
/// Condition: the word and the value have a common bit.
pub const GPI_WAIT_AND: i32 = 2;
/// Condition: a bit is set neither in the word nor in the value.
pub const GPI_WAIT_NOR: i32 = 3;

fn condition(operation: &'static str, condition: i32) -> Result<WaitCondition> {
    match condition {
        GPI_WAIT_GREATER_OR_EQUAL => Ok(WaitCondition::GreaterOrEqual),
        GPI_WAIT_EQUAL => Ok(WaitCondition::Equal),
        GPI_WAIT_AND => Ok(WaitCondition::And),
        GPI_WAIT_NOR => Ok(WaitCondition::Nor),
        _ => {
            Err(Error::invalid(operation, "unknown condition; pass a GPI_WAIT_*").with_context("condition", condition))
        }
    }
}

/// Makes later work wait until the 32-bit word of a range satisfies a `GPI_WAIT_*` (`cuStreamWaitValue32`).
///
/// Errors: `GPI_ERROR_UNSUPPORTED` where streams lack it; `GPI_ERROR_INVALID_ARGUMENT` unless the range is 4 bytes, aligned to
/// 4 bytes, and of the stream's device; otherwise the driver's error.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_stream_wait_value_u32(stream: gpi_stream, word: gpi_range, value: u32, wait: i32) -> gpi_status {
    call("gpi_stream_wait_value_u32", |operation| {
        let (stream, memory) = (object::get(operation, stream)?, word.memory(operation)?);
        stream.wait_value_u32(word.slice(operation, &memory)?, value, condition(operation, wait)?)
    })
}

/// As `gpi_stream_wait_value_u32`, for a 64-bit word (`cuStreamWaitValue64`).
#[unsafe(no_mangle)]
pub extern "C" fn gpi_stream_wait_value_u64(stream: gpi_stream, word: gpi_range, value: u64, wait: i32) -> gpi_status {
    call("gpi_stream_wait_value_u64", |operation| {
        let (stream, memory) = (object::get(operation, stream)?, word.memory(operation)?);
        stream.wait_value_u64(word.slice(operation, &memory)?, value, condition(operation, wait)?)
    })
}

/// Writes the 32-bit word of a range after all work enqueued before has completed (`cuStreamWriteValue32`).
///
/// Errors: as `gpi_stream_wait_value_u32`.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_stream_write_value_u32(stream: gpi_stream, word: gpi_range, value: u32) -> gpi_status {
    call("gpi_stream_write_value_u32", |operation| {
        let (stream, memory) = (object::get(operation, stream)?, word.memory(operation)?);
        stream.write_value_u32(word.slice(operation, &memory)?, value)
    })
}

/// As `gpi_stream_write_value_u32`, for a 64-bit word (`cuStreamWriteValue64`).
#[unsafe(no_mangle)]
pub extern "C" fn gpi_stream_write_value_u64(stream: gpi_stream, word: gpi_range, value: u64) -> gpi_status {
    call("gpi_stream_write_value_u64", |operation| {
        let (stream, memory) = (object::get(operation, stream)?, word.memory(operation)?);
        stream.write_value_u64(word.slice(operation, &memory)?, value)
    })
}

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
