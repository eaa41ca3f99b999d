//! Streams, events, the order of their work, and graphs. The handles are CUDA's own.

use std::ffi::{c_uint, c_ulonglong, c_void};

use cubecl_hip_sys as hip;
use cudarc::driver::sys::{CUevent, CUgraph, CUgraphExec, CUhostFn, CUstream, CUstreamCaptureMode};
use gpu_interop_sim_abi::{entries, give};

use crate::cuda::{INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, call, make, reject_if};

/// Effects of an event on caches of AMD's GPUs. CUDA always has the strongest.
const FENCES: u32 = hip::hipEventDisableSystemFence | hip::hipEventReleaseToDevice | hip::hipEventReleaseToSystem;
/// The last condition of a wait: the four have the same numbers.
const LAST_CONDITION: u32 = hip::hipStreamWaitValueNor;

/// Rejects unknown waits, and those that CUDA does not support.
fn check_wait(pointer: u64, flags: u32, whole: bool) -> Result<(), u32> {
    reject_if(pointer == 0 || flags > LAST_CONDITION)?;
    if whole { Ok(()) } else { Err(NOT_SUPPORTED) }
}

/// Rejects a null event.
fn checked_event(event: CUevent) -> Result<CUevent, u32> {
    if event.is_null() { Err(INVALID_HANDLE) } else { Ok(event) }
}

entries! {
    fn hipStreamCreateWithFlags(stream: *mut CUstream, flags: c_uint) gives stream {
        reject_if(stream.is_null() || flags > hip::hipStreamNonBlocking)?;
        give(stream, make!(cuStreamCreate(flags))?)
    }

    fn hipStreamDestroy(stream: CUstream) {
        // Not the default stream.
        if stream.is_null() {
            return Err(INVALID_HANDLE);
        }
        call!(cuStreamDestroy_v2(stream))
    }

    fn hipStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint) {
        call!(cuStreamWaitEvent(stream, checked_event(event)?, flags))
    }

    fn hipEventCreateWithFlags(event: *mut CUevent, flags: c_uint) gives event {
        reject_if(event.is_null())?;
        give(event, make!(cuEventCreate(flags & !FENCES))?)
    }

    fn hipEventDestroy(event: CUevent) {
        call!(cuEventDestroy_v2(checked_event(event)?))
    }

    fn hipEventRecord(event: CUevent, stream: CUstream) {
        call!(cuEventRecord(checked_event(event)?, stream))
    }

    fn hipEventQuery(event: CUevent) {
        call!(cuEventQuery(checked_event(event)?))
    }

    fn hipStreamWaitValue32(stream: CUstream, pointer: u64, value: u32, flags: c_uint, mask: u32) {
        check_wait(pointer, flags, mask == u32::MAX)?;
        call!(cuStreamWaitValue32_v2(stream, pointer, value, flags))
    }

    fn hipStreamWaitValue64(stream: CUstream, pointer: u64, value: u64, flags: c_uint, mask: u64) {
        check_wait(pointer, flags, mask == u64::MAX)?;
        call!(cuStreamWaitValue64_v2(stream, pointer, value, flags))
    }

    // The flags are documented as ignored.
    fn hipStreamWriteValue32(stream: CUstream, pointer: u64, value: u32, _flags: c_uint) {
        reject_if(pointer == 0)?;
        call!(cuStreamWriteValue32_v2(stream, pointer, value, 0))
    }

    fn hipStreamWriteValue64(stream: CUstream, pointer: u64, value: u64, _flags: c_uint) {
        reject_if(pointer == 0)?;
        call!(cuStreamWriteValue64_v2(stream, pointer, value, 0))
    }

    fn hipLaunchHostFunc(stream: CUstream, function: CUhostFn, data: *mut c_void) {
        reject_if(function.is_none())?;
        call!(cuLaunchHostFunc(stream, function, data))
    }
}

/// Converts HIP's capture mode to CUDA's, which has the same numbers.
fn capture_mode(mode: c_uint) -> Result<CUstreamCaptureMode, u32> {
    use CUstreamCaptureMode as Mode;
    let modes = [
        Mode::CU_STREAM_CAPTURE_MODE_GLOBAL,
        Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        Mode::CU_STREAM_CAPTURE_MODE_RELAXED,
    ];
    modes.into_iter().find(|known| *known as u32 == mode).ok_or(INVALID_VALUE)
}

entries! {
    fn hipStreamBeginCapture(stream: CUstream, mode: c_uint) {
        call!(cuStreamBeginCapture_v2(stream, capture_mode(mode)?))
    }

    fn hipStreamEndCapture(stream: CUstream, graph: *mut CUgraph) gives graph {
        reject_if(graph.is_null())?;
        let mut made = std::ptr::null_mut();
        call!(cuStreamEndCapture(stream, &raw mut made))?;
        give(graph, made)
    }

    fn hipThreadExchangeStreamCaptureMode(mode: *mut c_uint) {
        reject_if(mode.is_null())?;
        let mut exchanged = capture_mode(mode.read())?;
        call!(cuThreadExchangeStreamCaptureMode(&raw mut exchanged))?;
        mode.write(exchanged as c_uint);
        Ok(())
    }

    fn hipGraphInstantiateWithFlags(ready: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong) gives ready {
        reject_if(ready.is_null())?;
        give(ready, make!(cuGraphInstantiateWithFlags(graph, flags))?)
    }
}
