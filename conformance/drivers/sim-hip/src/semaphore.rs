//! External semaphores, which the runtime has on Windows, in graphs too.

use std::ffi::{c_uint, c_void};
use std::slice;

use cubecl_hip_sys as hip;
use gpu_interop_sim::semaphore::{Point, SEMAPHORES, Semaphore, batch};
use gpu_interop_sim::{code, die, entries, graph};
use gpu_interop_stand_in::hip::era::Era;
use gpu_interop_stand_in::hip::generation::Generation;

use crate::device::need;
use crate::handle::given;
use crate::missing::Missing;
use crate::{give, streams};

/// `hipStreamCaptureStatusActive`.
const ACTIVE: u32 = hip::hipStreamCaptureStatus_hipStreamCaptureStatusActive;
/// `CU_STREAM_CAPTURE_STATUS_NONE`, `hipStreamCaptureStatusNone`.
const NONE: u32 = 0;

/// The kinds that there are; the rest are refused.
const KINDS: [u32; 3] = [
    hip::hipExternalSemaphoreHandleType_enum_hipExternalSemaphoreHandleTypeOpaqueWin32,
    hip::hipExternalSemaphoreHandleType_enum_hipExternalSemaphoreHandleTypeOpaqueWin32Kmt,
    hip::hipExternalSemaphoreHandleType_enum_hipExternalSemaphoreHandleTypeD3D12Fence,
];

/// The semaphores of a batch. As the runtime's source has it (`hipSignalExternalSemaphoresAsync` of CLR 6), NULL and any
/// flag are refused; as Linux was recorded to do, also before anything else is looked at.
///
/// # Safety
/// The arrays are NULL, or have as many elements, which are there as long as what is answered.
unsafe fn all<'a>(semaphores: *const usize, params: *const c_void, count: c_uint) -> Result<&'a [usize], u32> {
    if semaphores.is_null() || params.is_null() {
        return Err(code::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    let semaphores = unsafe { slice::from_raw_parts(semaphores, count as usize) };
    let refuses_flags = Era::now() >= Era::Six;
    // SAFETY: the caller's promise.
    let flags = |index| unsafe { Generation::now().flags(params, index) };
    let wrong = |(index, semaphore): (usize, &usize)| *semaphore == 0 || (refuses_flags && flags(index) != 0);
    if semaphores.iter().enumerate().any(wrong) { Err(code::INVALID_VALUE) } else { Ok(semaphores) }
}

/// The point of an element, whose flags were looked at: no runtime has keyed mutexes.
///
/// # Safety
/// There is such an element.
unsafe fn point(params: *const c_void, index: usize) -> (Point, u32) {
    // SAFETY: the caller's promise.
    let [value, key] = unsafe { Generation::now().value_and_key(params, index) };
    (Point { value, key, timeout_ms: 0 }, 0)
}

/// What a batch of signals does.
///
/// # Safety
/// Both arrays are NULL, or have as many elements.
unsafe fn signals(
    semaphores: *const usize,
    params: *const c_void,
    count: c_uint,
) -> Result<impl Fn() -> Result<(), u32> + Send + Sync + use<>, u32> {
    // SAFETY: the caller's promise.
    unsafe { batch::signals(all(semaphores, params, count)?, &|index| point(params, index)) }
}

/// What a batch of waits does.
///
/// # Safety
/// As for [`signals`].
unsafe fn waits(
    semaphores: *const usize,
    params: *const c_void,
    count: c_uint,
) -> Result<impl Fn() -> Result<(), u32> + Send + Sync + use<>, u32> {
    // SAFETY: the caller's promise.
    unsafe { batch::waits(all(semaphores, params, count)?, &|index| point(params, index)) }
}

entries! {
    fn hipImportExternalSemaphore(semaphore: *mut usize, desc: *const c_void) gives semaphore {
        need()?;
        if semaphore.is_null() || desc.is_null() {
            return Err(code::INVALID_VALUE);
        }
        // The flags are never looked at, and names are never used (CLR, `hipImportExternalSemaphore`).
        let (kind, handle, _flags) = Generation::now().semaphore(desc);
        if !KINDS.contains(&kind) || handle.object()[0].is_null() {
            return Err(code::INVALID_VALUE);
        }
        let imported = Semaphore::open(given(kind, handle)).ok_or(code::OUT_OF_MEMORY)?;
        give(semaphore, SEMAPHORES.insert(imported))
    }

    fn hipDestroyExternalSemaphore(semaphore: usize) {
        need()?;
        if semaphore == 0 {
            return Err(code::INVALID_VALUE);
        }
        SEMAPHORES.remove(semaphore).unwrap_or_else(|| die());
        Ok(())
    }

    fn hipSignalExternalSemaphoresAsync(
        semaphores: *const usize,
        params: *const c_void,
        count: c_uint,
        stream: usize,
    ) {
        need()?;
        let (_, stream) = streams::for_work(stream, &Missing::KERNEL)?;
        if count == 0 {
            return all(semaphores, params, count).map(drop);
        }
        stream.enqueue(signals(semaphores, params, count)?);
        Ok(())
    }

    fn hipWaitExternalSemaphoresAsync(
        semaphores: *const usize,
        params: *const c_void,
        count: c_uint,
        stream: usize,
    ) {
        need()?;
        let (_, stream) = streams::for_work(stream, &Missing::KERNEL)?;
        if count == 0 {
            return all(semaphores, params, count).map(drop);
        }
        stream.enqueue(waits(semaphores, params, count)?);
        Ok(())
    }

    // The one dependency that the next work of a stream has: with a single stream there is no other.
    fn hipStreamGetCaptureInfo_v2(
        stream: usize,
        status: *mut c_uint,
        _id: *mut u64,
        _graph: *mut usize,
        nodes: *mut *const usize,
        count: *mut usize,
    ) gives nodes {
        need()?;
        if status.is_null() || nodes.is_null() || count.is_null() {
            return Err(code::INVALID_VALUE);
        }
        if !graph::records(stream)? {
            return give(status, NONE);
        }
        give(status, ACTIVE)?;
        give(count, 1)?;
        give(nodes, graph::last_kept(stream)?)
    }

    fn hipGraphExecExternalSemaphoresSignalNodeSetParams(
        graph: usize,
        node: usize,
        params: *const hip::hipExternalSemaphoreSignalNodeParams,
    ) {
        if params.is_null() {
            return Err(code::INVALID_VALUE);
        }
        let hip::hipExternalSemaphoreSignalNodeParams { extSemArray, paramsArray, numExtSems } = params.read();
        graph::replace(graph, node, signals(extSemArray.cast(), paramsArray.cast(), numExtSems)?)
    }

    fn hipGraphExecExternalSemaphoresWaitNodeSetParams(
        graph: usize,
        node: usize,
        params: *const hip::hipExternalSemaphoreWaitNodeParams,
    ) {
        if params.is_null() {
            return Err(code::INVALID_VALUE);
        }
        let hip::hipExternalSemaphoreWaitNodeParams { extSemArray, paramsArray, numExtSems } = params.read();
        graph::replace(graph, node, waits(extSemArray.cast(), paramsArray.cast(), numExtSems)?)
    }
}
