//! External semaphores on Linux: functions without effect. Exported with
//! [`hip_semaphore_stubs!`](crate::hip_semaphore_stubs).

use std::ffi::{c_uint, c_void};

use cubecl_hip_sys as hip;

use crate::hip::device::Runtime;
use crate::hip::generation::Generation;
use crate::hip::version::Era;
use crate::{code, descriptor, settings};

/// The last kind that reaches the stub; later kinds are rejected before.
const LAST: u32 = hip::hipExternalSemaphoreHandleType_enum_hipExternalSemaphoreHandleTypeD3D12Fence;

/// `ShouldNotReachHere()`: aborts the process if the runtime was built with assertions.
fn should_not_reach_here() {
    if settings::text("GPU_INTEROP_SIM_SEMAPHORES").as_deref() == Some("abort") {
        std::process::abort();
    }
}

/// `hipImportExternalSemaphore` with an injected failure.
///
/// # Safety
/// As for [`import`].
pub unsafe fn import_failed(desc: *const c_void) {
    if !desc.is_null() {
        // SAFETY: the caller's promise.
        unsafe { close_if_configured(Generation::now().semaphore(desc).1.fd()) };
    }
}

/// The runtime closes no descriptor, unless `GPU_INTEROP_SIM_FD_ON_FAILURE` requests it for a failed import.
///
/// # Safety
/// The import owns the descriptor.
pub unsafe fn close_if_configured(fd: i32) {
    if settings::text("GPU_INTEROP_SIM_FD_ON_FAILURE").as_deref() == Some("closed") {
        // SAFETY: the caller's promise.
        unsafe { descriptor::close(fd) };
    }
}

/// `hipImportExternalSemaphore`.
///
/// # Errors
/// Always.
///
/// # Safety
/// `desc` is NULL or valid.
pub unsafe fn import(runtime: &impl Runtime, semaphore: *mut usize, desc: *const c_void) -> Result<(), u32> {
    runtime.ready()?;
    code::reject_if(semaphore.is_null() || desc.is_null())?;
    // SAFETY: the caller's promise.
    let (kind, fd) = unsafe {
        let (kind, handle, _flags) = Generation::now().semaphore(desc);
        (kind, handle.fd())
    };
    let era = Era::now();
    code::reject_if(!(1..=LAST).contains(&kind) || (fd == 0 && era >= Era::Six))?;
    should_not_reach_here();
    Err(if era == Era::Early { code::INVALID_VALUE } else { code::NOT_SUPPORTED })
}

/// `hipSignalExternalSemaphoresAsync` and `hipWaitExternalSemaphoresAsync`: success without effect.
///
/// # Errors
/// [`code::INVALID_VALUE`] for NULL, for an unknown stream, and since HIP 6 for flags.
///
/// # Safety
/// Both arrays are NULL, or have that many elements.
pub unsafe fn ignore(
    runtime: &impl Runtime,
    semaphores: *const usize,
    params: *const c_void,
    count: c_uint,
    stream: usize,
) -> Result<(), u32> {
    runtime.ready()?;
    code::reject_if(semaphores.is_null() || params.is_null() || !runtime.has_stream(stream))?;
    for index in 0..count as usize {
        // SAFETY: the caller's promise.
        let (semaphore, flags) = unsafe { (semaphores.add(index).read(), Generation::now().flags(params, index)) };
        code::reject_if(semaphore == 0 || (flags != 0 && Era::now() >= Era::Six))?;
    }
    Ok(())
}

/// `hipDestroyExternalSemaphore`.
///
/// # Errors
/// [`code::INVALID_VALUE`] for NULL.
pub fn destroy(runtime: &impl Runtime, semaphore: usize) -> Result<(), u32> {
    runtime.ready()?;
    code::reject_if(semaphore == 0)?;
    should_not_reach_here();
    Ok(())
}
