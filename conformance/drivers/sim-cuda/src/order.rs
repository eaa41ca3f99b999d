//! Streams, events, and what orders their work.

use std::ffi::{c_uint, c_void};
use std::ptr::with_exposed_provenance_mut as to;
use std::sync::Arc;

use gpu_interop_sim::entries;
use gpu_interop_sim::event::{EVENTS, Event};
use gpu_interop_sim::stream::{STREAMS, Stream};
use gpu_interop_sim::word::{Condition, Word};

use crate::copy::stream_of;
use crate::{address, code, context, give};

fn event_of(handle: usize) -> Result<Arc<Event>, u32> {
    context::need()?;
    EVENTS.get(handle).ok_or(code::INVALID_HANDLE)
}

/// A word's address, of which `size` bytes are used.
fn word(pointer: u64, size: usize) -> Result<usize, u32> {
    let pointer = address(pointer);
    if pointer == 0 || !pointer.is_multiple_of(size) { Err(code::INVALID_VALUE) } else { Ok(pointer) }
}

fn wait_value(stream: usize, pointer: u64, value: Word, size: usize, flags: u32) -> Result<(), u32> {
    let (stream, pointer) = (stream_of(stream)?, word(pointer, size)?);
    let condition = Condition::of(flags).ok_or(code::INVALID_VALUE)?;
    stream.enqueue(move || {
        // SAFETY: whoever enqueued the wait promised the word; it is aligned.
        unsafe { value.wait(pointer, u64::MAX, condition) };
        Ok(())
    });
    Ok(())
}

fn write_value(stream: usize, pointer: u64, value: Word, size: usize, flags: u32) -> Result<(), u32> {
    let (stream, pointer) = (stream_of(stream)?, word(pointer, size)?);
    // CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER is the only flag.
    if flags > 1 {
        return Err(code::INVALID_VALUE);
    }
    stream.enqueue(move || {
        // SAFETY: as for a wait.
        unsafe { value.store(pointer) };
        Ok(())
    });
    Ok(())
}

entries! {
    fn cuStreamCreate(stream: *mut usize, flags: c_uint) gives stream {
        context::need()?;
        if flags > 1 || stream.is_null() {
            return Err(code::INVALID_VALUE);
        }
        give(stream, STREAMS.insert(Stream::start().map_err(|_| code::OUT_OF_MEMORY)?))
    }

    fn cuStreamDestroy_v2(stream: usize) {
        context::need()?;
        STREAMS.remove(stream).ok_or(code::INVALID_HANDLE)?.close();
        Ok(())
    }

    fn cuStreamSynchronize(stream: usize) {
        stream_of(stream)?.synchronize()
    }

    fn cuStreamQuery(stream: usize) {
        if stream_of(stream)?.is_idle()? { Ok(()) } else { Err(code::NOT_READY) }
    }

    fn cuStreamWaitEvent(stream: usize, event: usize, flags: c_uint) {
        let (stream, event) = (stream_of(stream)?, event_of(event)?);
        if flags > 1 {
            return Err(code::INVALID_VALUE);
        }
        if let Some(record) = event.last() {
            stream.enqueue(move || {
                record.wait();
                Ok(())
            });
        }
        Ok(())
    }

    fn cuEventCreate(event: *mut usize, flags: c_uint) gives event {
        context::need()?;
        if flags > 7 || event.is_null() {
            return Err(code::INVALID_VALUE);
        }
        give(event, EVENTS.insert(Event::default()))
    }

    fn cuEventDestroy_v2(event: usize) {
        context::need()?;
        EVENTS.remove(event).map(drop).ok_or(code::INVALID_HANDLE)
    }

    fn cuEventRecord(event: usize, stream: usize) {
        let (stream, event) = (stream_of(stream)?, event_of(event)?);
        stream.record(&event);
        Ok(())
    }

    fn cuEventQuery(event: usize) {
        if event_of(event)?.is_complete() { Ok(()) } else { Err(code::NOT_READY) }
    }

    fn cuEventSynchronize(event: usize) {
        if let Some(record) = event_of(event)?.last() {
            record.wait();
        }
        Ok(())
    }

    fn cuStreamWaitValue32_v2(stream: usize, pointer: u64, value: u32, flags: c_uint) {
        wait_value(stream, pointer, Word::Narrow(value), 4, flags)
    }

    fn cuStreamWaitValue64_v2(stream: usize, pointer: u64, value: u64, flags: c_uint) {
        wait_value(stream, pointer, Word::Wide(value), 8, flags)
    }

    fn cuStreamWriteValue32_v2(stream: usize, pointer: u64, value: u32, flags: c_uint) {
        write_value(stream, pointer, Word::Narrow(value), 4, flags)
    }

    fn cuStreamWriteValue64_v2(stream: usize, pointer: u64, value: u64, flags: c_uint) {
        write_value(stream, pointer, Word::Wide(value), 8, flags)
    }

    fn cuLaunchHostFunc(stream: usize, function: Option<unsafe extern "C" fn(*mut c_void)>, data: *mut c_void) {
        let (stream, function) = (stream_of(stream)?, function.ok_or(code::INVALID_VALUE)?);
        let data = data.expose_provenance();
        stream.enqueue(move || {
            // SAFETY: whoever enqueued the function promised that it fits its data.
            unsafe { function(to(data)) };
            Ok(())
        });
        Ok(())
    }
}
