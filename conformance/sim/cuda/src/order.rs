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

entries! {
    after context::need;

    fn cuStreamCreate(stream: *mut usize, flags: c_uint) gives stream {
        code::reject_if(stream.is_null())?;
        give(stream, work::create_stream(flags)?)
    }

    fn cuStreamDestroy_v2(stream: usize) {
        capture::forget(stream);
        work::destroy_stream(stream)
    }

    fn cuStreamSynchronize(stream: usize) {
        capture::allow()?;
        work::stream_of(stream)?.synchronize()
    }

    fn cuStreamQuery(stream: usize) {
        capture::allow()?;
        work::query_stream(stream)
    }

    fn cuStreamWaitEvent(stream: usize, event: usize, flags: c_uint) {
        work::wait_event(stream, event, flags)
    }

    fn cuEventCreate(event: *mut usize, flags: c_uint) gives event {
        code::reject_if(flags > 7 || event.is_null())?;
        give(event, EVENTS.insert(Event::default()))
    }

    fn cuEventDestroy_v2(event: usize) {
        work::destroy_event(event)
    }

    fn cuEventRecord(event: usize, stream: usize) {
        work::stream_of(stream)?.record(&*work::event_of(event)?)
    }

    fn cuEventQuery(event: usize) {
        capture::allow()?;
        work::query_event(event)
    }

    fn cuEventSynchronize(event: usize) {
        capture::allow()?;
        if let Some(record) = work::event_of(event)?.last() {
            record.wait();
        }
        Ok(())
    }

    fn cuStreamWaitValue32_v2(stream: usize, pointer: u64, value: u32, flags: c_uint) {
        work::wait_value(stream, pointer, Word::Narrow(value), u64::MAX, condition(flags))
    }

    fn cuStreamWaitValue64_v2(stream: usize, pointer: u64, value: u64, flags: c_uint) {
        work::wait_value(stream, pointer, Word::Wide(value), u64::MAX, condition(flags))
    }

    fn cuStreamWriteValue32_v2(stream: usize, pointer: u64, value: u32, flags: c_uint) {
        // CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER is the only flag.
        code::reject_if(flags > 1)?;
        work::write_value(stream, pointer, Word::Narrow(value))
    }

    fn cuStreamWriteValue64_v2(stream: usize, pointer: u64, value: u64, flags: c_uint) {
        code::reject_if(flags > 1)?;
        work::write_value(stream, pointer, Word::Wide(value))
    }

    fn cuStreamBatchMemOp_v2(
        stream: usize, count: c_uint, operations: *mut cuda::CUstreamBatchMemOpParams, flags: c_uint,
    ) {
        code::reject_if(operations.is_null() || flags != 0)?;
        // The union begins with the operation's number, which may have any value.
        let of = |index| operations.wrapping_add(index).cast::<u32>().read();
        code::reject_if((0..count as usize).any(|index| of(index) != BARRIER))?;
        // Later work does not overtake earlier work.
        work::stream_of(stream)?.enqueue(|| Ok(()));
        Ok(())
    }

    fn cuLaunchHostFunc(stream: usize, function: Option<HostFunction>, data: *mut c_void) {
        work::host_function(stream, function, data)
    }
}
