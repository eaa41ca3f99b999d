//! Streams, events, and the order of their work. The handles are CUDA's own.

use std::ffi::{c_uint, c_void};

use cubecl_hip_sys as hip;
use cudarc::driver::sys::{CUevent, CUhostFn, CUstream};
use gpu_interop_sim_abi::{entries, give};

use crate::code::{INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED};
use crate::context::{call, make};

/// Effects of an event on caches of AMD's GPUs. CUDA always has the strongest.
const FENCES: u32 = hip::hipEventDisableSystemFence | hip::hipEventReleaseToDevice | hip::hipEventReleaseToSystem;
/// The last condition of a wait: the four have the same numbers.
const LAST_CONDITION: u32 = hip::hipStreamWaitValueNor;

/// Rejects unknown waits, and those that CUDA does not support.
fn check_wait(pointer: u64, flags: u32, whole: bool) -> Result<(), u32> {
    if pointer == 0 || flags > LAST_CONDITION {
        return Err(INVALID_VALUE);
    }
    if whole { Ok(()) } else { Err(NOT_SUPPORTED) }
}

/// Rejects a null word.
fn need(pointer: u64) -> Result<(), u32> {
    if pointer == 0 { Err(INVALID_VALUE) } else { Ok(()) }
}

/// Rejects a null event.
fn event(event: CUevent) -> Result<CUevent, u32> {
    if event.is_null() { Err(INVALID_HANDLE) } else { Ok(event) }
}

entries! {
    fn hipStreamCreateWithFlags(stream: *mut CUstream, flags: c_uint) gives stream {
        if stream.is_null() || flags > hip::hipStreamNonBlocking {
            return Err(INVALID_VALUE);
        }
        give(stream, make!(cuStreamCreate(flags))?)
    }

    fn hipStreamDestroy(stream: CUstream) {
        // Not the default stream.
        if stream.is_null() {
            return Err(INVALID_HANDLE);
        }
        call!(cuStreamDestroy_v2(stream))
    }

    fn hipStreamSynchronize(stream: CUstream) {
        call!(cuStreamSynchronize(stream))
    }

    fn hipStreamQuery(stream: CUstream) {
        call!(cuStreamQuery(stream))
    }

    fn hipStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint) {
        call!(cuStreamWaitEvent(stream, self::event(event)?, flags))
    }

    fn hipEventCreateWithFlags(event: *mut CUevent, flags: c_uint) gives event {
        if event.is_null() {
            return Err(INVALID_VALUE);
        }
        give(event, make!(cuEventCreate(flags & !FENCES))?)
    }

    fn hipEventDestroy(event: CUevent) {
        call!(cuEventDestroy_v2(self::event(event)?))
    }

    fn hipEventRecord(event: CUevent, stream: CUstream) {
        call!(cuEventRecord(self::event(event)?, stream))
    }

    fn hipEventQuery(event: CUevent) {
        call!(cuEventQuery(self::event(event)?))
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
        need(pointer)?;
        call!(cuStreamWriteValue32_v2(stream, pointer, value, 0))
    }

    fn hipStreamWriteValue64(stream: CUstream, pointer: u64, value: u64, _flags: c_uint) {
        need(pointer)?;
        call!(cuStreamWriteValue64_v2(stream, pointer, value, 0))
    }

    fn hipLaunchHostFunc(stream: CUstream, function: CUhostFn, data: *mut c_void) {
        if function.is_none() {
            return Err(INVALID_VALUE);
        }
        call!(cuLaunchHostFunc(stream, function, data))
    }
}
