//! Streams, events, and what orders their work.

use std::ffi::{c_uint, c_void};

use gpu_interop_sim::event::{EVENTS, Event};
use gpu_interop_sim::word::{Condition, Word};
use gpu_interop_sim::work::HostFunction;
use gpu_interop_sim::{code, entries, work};

use crate::device::need;
use crate::give;

/// `hipStreamWaitValueGte` and its kin. The first is documented as `>=`, without wrapping around.
fn condition(flags: u32) -> Option<Condition> {
    Condition::of(Condition::AtLeast, flags)
}

entries! {
    fn hipStreamCreateWithFlags(stream: *mut usize, flags: c_uint) gives stream {
        need()?;
        if stream.is_null() {
            return Err(code::INVALID_VALUE);
        }
        give(stream, work::create_stream(flags)?)
    }

    fn hipStreamDestroy(stream: usize) {
        need()?;
        work::destroy_stream(stream)
    }

    fn hipStreamSynchronize(stream: usize) {
        need()?;
        work::stream_of(stream)?.synchronize()
    }

    fn hipStreamQuery(stream: usize) {
        need()?;
        work::query_stream(stream)
    }

    fn hipStreamWaitEvent(stream: usize, event: usize, flags: c_uint) {
        need()?;
        work::wait_event(stream, event, flags)
    }

    fn hipEventCreateWithFlags(event: *mut usize, _flags: c_uint) gives event {
        need()?;
        if event.is_null() {
            return Err(code::INVALID_VALUE);
        }
        give(event, EVENTS.insert(Event::default()))
    }

    fn hipEventDestroy(event: usize) {
        need()?;
        work::destroy_event(event)
    }

    fn hipEventRecord(event: usize, stream: usize) {
        need()?;
        work::stream_of(stream)?.record(&*work::event_of(event)?)
    }

    fn hipEventQuery(event: usize) {
        need()?;
        work::query_event(event)
    }

    fn hipStreamWaitValue32(stream: usize, pointer: u64, value: u32, flags: c_uint, mask: u32) {
        need()?;
        work::wait_value(stream, pointer, Word::Narrow(value), u64::from(mask), condition(flags))
    }

    fn hipStreamWaitValue64(stream: usize, pointer: u64, value: u64, flags: c_uint, mask: u64) {
        need()?;
        work::wait_value(stream, pointer, Word::Wide(value), mask, condition(flags))
    }

    // The flags are documented as ignored.
    fn hipStreamWriteValue32(stream: usize, pointer: u64, value: u32, _flags: c_uint) {
        need()?;
        work::write_value(stream, pointer, Word::Narrow(value))
    }

    fn hipStreamWriteValue64(stream: usize, pointer: u64, value: u64, _flags: c_uint) {
        need()?;
        work::write_value(stream, pointer, Word::Wide(value))
    }

    fn hipLaunchHostFunc(stream: usize, function: Option<HostFunction>, data: *mut c_void) {
        need()?;
        work::host_function(stream, function, data)
    }
}
