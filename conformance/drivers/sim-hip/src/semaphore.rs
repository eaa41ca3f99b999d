//! External semaphores, as they are on Linux: functions without a function.

use std::ffi::{c_uint, c_void};

use cubecl_hip_sys as hip;
use gpu_interop_sim::{entries, settings, work};

use crate::code;
use crate::device::need;
use crate::external::failed;
use crate::generation::Generation;

/// The last kind that gets as far as the stub; later ones are refused before.
const LAST: u32 = hip::hipExternalSemaphoreHandleType_enum_hipExternalSemaphoreHandleTypeD3D12Fence;

/// `ShouldNotReachHere()`: ends the process where the runtime was built with assertions.
fn should_not_reach_here() {
    if settings::text("SIM_SEMAPHORES").as_deref() == Some("abort") {
        std::process::abort();
    }
}

/// Success, and nothing happens.
///
/// # Safety
/// Both arrays have as many elements.
unsafe fn ignored(semaphores: *const usize, params: *const c_void, count: c_uint, stream: usize) -> Result<(), u32> {
    need()?;
    if semaphores.is_null() || params.is_null() || work::stream_of(stream).is_err() {
        return Err(code::INVALID_VALUE);
    }
    for index in 0..count as usize {
        // SAFETY: the caller's promise.
        let (semaphore, flags) = unsafe { (semaphores.add(index).read(), Generation::now().flags(params, index)) };
        if semaphore == 0 || flags != 0 {
            return Err(code::INVALID_VALUE);
        }
    }
    Ok(())
}

entries! {
    fn hipImportExternalSemaphore(semaphore: *mut usize, desc: *const c_void) gives semaphore
        failing |_code| if !desc.is_null() { failed(Generation::now().semaphore(desc).1) };
    {
        need()?;
        if semaphore.is_null() || desc.is_null() {
            return Err(code::INVALID_VALUE);
        }
        let (kind, fd, flags) = Generation::now().semaphore(desc);
        if !(1..=LAST).contains(&kind) || flags != 0 || fd == 0 {
            return Err(code::INVALID_VALUE);
        }
        should_not_reach_here();
        Err(code::NOT_SUPPORTED)
    }

    fn hipSignalExternalSemaphoresAsync(
        semaphores: *const usize,
        params: *const c_void,
        count: c_uint,
        stream: usize,
    ) {
        ignored(semaphores, params, count, stream)
    }

    fn hipWaitExternalSemaphoresAsync(semaphores: *const usize, params: *const c_void, count: c_uint, stream: usize) {
        ignored(semaphores, params, count, stream)
    }

    fn hipDestroyExternalSemaphore(semaphore: usize) {
        need()?;
        if semaphore == 0 {
            return Err(code::INVALID_VALUE);
        }
        should_not_reach_here();
        Ok(())
    }
}
