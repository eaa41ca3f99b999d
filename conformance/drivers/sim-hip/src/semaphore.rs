//! External semaphores, which the runtime has on Windows.

use std::ffi::{c_uint, c_void};
use std::slice;

use cubecl_hip_sys as hip;
use gpu_interop_sim::semaphore::{Point, SEMAPHORES, Semaphore, batch};
use gpu_interop_sim::{code, die, entries, work};
use gpu_interop_stand_in::hip::generation::Generation;

use crate::device::need;
use crate::give;
use crate::handle::given;

/// The kinds that there are; the rest are refused.
const KINDS: [u32; 3] = [
    hip::hipExternalSemaphoreHandleType_enum_hipExternalSemaphoreHandleTypeOpaqueWin32,
    hip::hipExternalSemaphoreHandleType_enum_hipExternalSemaphoreHandleTypeOpaqueWin32Kmt,
    hip::hipExternalSemaphoreHandleType_enum_hipExternalSemaphoreHandleTypeD3D12Fence,
];

/// The semaphores of a batch.
///
/// # Safety
/// The array is NULL, or has as many elements, which are there as long as what is answered.
unsafe fn all<'a>(semaphores: *const usize, params: *const c_void, count: c_uint) -> Result<&'a [usize], u32> {
    need()?;
    if semaphores.is_null() || params.is_null() {
        return Err(code::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { slice::from_raw_parts(semaphores, count as usize) })
}

/// The point and the flags of an element: no runtime has keyed mutexes.
///
/// # Safety
/// There is such an element.
unsafe fn point(params: *const c_void, index: usize) -> (Point, u32) {
    let generation = Generation::now();
    // SAFETY: the caller's promise.
    let ([value, key], flags) = unsafe { (generation.value_and_key(params, index), generation.flags(params, index)) };
    (Point { value, key, timeout_ms: 0 }, flags)
}

entries! {
    fn hipImportExternalSemaphore(semaphore: *mut usize, desc: *const c_void) gives semaphore {
        need()?;
        if semaphore.is_null() || desc.is_null() {
            return Err(code::INVALID_VALUE);
        }
        let (kind, handle, flags) = Generation::now().semaphore(desc);
        if flags != 0 || !KINDS.contains(&kind) {
            return Err(code::INVALID_VALUE);
        }
        let imported = Semaphore::open(given(kind, handle)).ok_or(code::OUT_OF_MEMORY)?;
        give(semaphore, SEMAPHORES.insert(imported))
    }

    fn hipDestroyExternalSemaphore(semaphore: usize) {
        need()?;
        SEMAPHORES.remove(semaphore).unwrap_or_else(|| die());
        Ok(())
    }

    fn hipSignalExternalSemaphoresAsync(
        semaphores: *const usize,
        params: *const c_void,
        count: c_uint,
        stream: usize,
    ) {
        let work = batch::signals(all(semaphores, params, count)?, &|index| point(params, index))?;
        work::stream_of(stream)?.enqueue(work);
        Ok(())
    }

    fn hipWaitExternalSemaphoresAsync(
        semaphores: *const usize,
        params: *const c_void,
        count: c_uint,
        stream: usize,
    ) {
        let work = batch::waits(all(semaphores, params, count)?, &|index| point(params, index))?;
        work::stream_of(stream)?.enqueue(work);
        Ok(())
    }
}
