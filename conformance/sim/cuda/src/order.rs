//! Streams, events, and the order of their work.

use std::ffi::{c_uint, c_void};

use cudarc::driver::sys as cuda;
use gpu_interop_sim_device::event::{EVENTS, Event};
use gpu_interop_sim_device::word::{Condition, Word};
use gpu_interop_sim_device::work::HostFunction;
use gpu_interop_sim_device::{entries, work};

use crate::{capture, code, context, give};

/// The only simulated operation of batches.
const BARRIER: u32 = cuda::CUstreamBatchMemOpType::CU_STREAM_MEM_OP_BARRIER as u32;

/// `CUstreamWaitValue_flags`.
fn condition(flags: u32) -> Option<Condition> {
    Condition::of(Condition::Reached, flags)
}

/// CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER is the only flag.
fn write_flags(flags: u32) -> Result<(), u32> {
    if flags > 1 { Err(code::INVALID_VALUE) } else { Ok(()) }
}

entries! {
    fn cuStreamCreate(stream: *mut usize, flags: c_uint) gives stream {
        context::need()?;
        if stream.is_null() {
            return Err(code::INVALID_VALUE);
        }
        give(stream, work::create_stream(flags)?)
    }

    fn cuStreamDestroy_v2(stream: usize) {
        context::need()?;
        capture::forget(stream);
        work::destroy_stream(stream)
    }

    fn cuStreamSynchronize(stream: usize) {
        context::need()?;
        capture::allow()?;
        work::stream_of(stream)?.synchronize()
    }

    fn cuStreamQuery(stream: usize) {
        context::need()?;
        capture::allow()?;
        work::query_stream(stream)
    }

    fn cuStreamWaitEvent(stream: usize, event: usize, flags: c_uint) {
        context::need()?;
        work::wait_event(stream, event, flags)
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
        work::destroy_event(event)
    }

    fn cuEventRecord(event: usize, stream: usize) {
        context::need()?;
        work::stream_of(stream)?.record(&*work::event_of(event)?)
    }

    fn cuEventQuery(event: usize) {
        context::need()?;
        capture::allow()?;
        work::query_event(event)
    }

    fn cuEventSynchronize(event: usize) {
        context::need()?;
        capture::allow()?;
        if let Some(record) = work::event_of(event)?.last() {
            record.wait();
        }
        Ok(())
    }

    fn cuStreamWaitValue32_v2(stream: usize, pointer: u64, value: u32, flags: c_uint) {
        context::need()?;
        work::wait_value(stream, pointer, Word::Narrow(value), u64::MAX, condition(flags))
    }

    fn cuStreamWaitValue64_v2(stream: usize, pointer: u64, value: u64, flags: c_uint) {
        context::need()?;
        work::wait_value(stream, pointer, Word::Wide(value), u64::MAX, condition(flags))
    }

    fn cuStreamWriteValue32_v2(stream: usize, pointer: u64, value: u32, flags: c_uint) {
        context::need()?;
        write_flags(flags)?;
        work::write_value(stream, pointer, Word::Narrow(value))
    }

    fn cuStreamWriteValue64_v2(stream: usize, pointer: u64, value: u64, flags: c_uint) {
        context::need()?;
        write_flags(flags)?;
        work::write_value(stream, pointer, Word::Wide(value))
    }

    fn cuStreamBatchMemOp_v2(
        stream: usize,
        count: c_uint,
        operations: *mut cuda::CUstreamBatchMemOpParams,
        flags: c_uint,
    ) {
        context::need()?;
        if operations.is_null() || flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        // The union begins with the operation's number, which may have any value.
        let of = |index| operations.wrapping_add(index).cast::<u32>().read();
        if (0..count as usize).any(|index| of(index) != BARRIER) {
            return Err(code::INVALID_VALUE);
        }
        // Later work does not overtake earlier work.
        work::stream_of(stream)?.enqueue(|| Ok(()));
        Ok(())
    }

    fn cuLaunchHostFunc(stream: usize, function: Option<HostFunction>, data: *mut c_void) {
        context::need()?;
        work::host_function(stream, function, data)
    }
}
