//! File descriptors.

use std::ffi::c_int;

use cudarc::driver::sys as cuda;
use gpu_interop_sim_device::descriptor::close;
use gpu_interop_sim_device::memory::Imported;
use gpu_interop_sim_device::semaphore::Semaphore;
use gpu_interop_sim_device::{device, die, settings, system};

use crate::code;
use crate::external::{MemoryDesc, SemaphoreDesc, memory_kind, semaphore_kind};

/// The kinds with file descriptors.
const MEMORY_FD: u32 = cuda::CUexternalMemoryHandleType_enum::CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD as u32;
const BINARY_FD: u32 = cuda::CUexternalSemaphoreHandleType_enum::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD as u32;
const TIMELINE_FD: u32 =
    cuda::CUexternalSemaphoreHandleType_enum::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD as u32;

/// Size from which the driver crashes on an import of its own memory on a host with several devices, bytes.
const TOO_MUCH_OF_ITS_OWN: u64 = 512 << 20;

/// Handling of the descriptor by a failed import, as measured: UNKNOWN closes it, INVALID_VALUE and NOT_SUPPORTED leave
/// it open.
fn closes(code: u32) -> bool {
    match settings::text("GPU_INTEROP_SIM_FD_ON_FAILURE").as_deref() {
        Some("closed") => true,
        Some("open") => false,
        _ => code == code::UNKNOWN,
    }
}

/// Ends an import with an injected failure.
///
/// # Safety
/// The import owns the descriptor.
unsafe fn failed(kind: u32, kinds: &[u32], fd: c_int, code: u32) {
    if kinds.contains(&kind) && closes(code) {
        // SAFETY: the caller's promise.
        unsafe { close(fd) };
    }
}

/// Ends an import of memory with an injected failure.
///
/// # Safety
/// `desc` is valid, and the import owns its descriptor.
pub(crate) unsafe fn failed_memory(desc: *const MemoryDesc, code: u32) {
    // SAFETY: the caller's promise.
    unsafe { failed(memory_kind(desc), &[MEMORY_FD], (*desc).handle.fd, code) };
}

/// As [`failed_memory`], for semaphores.
///
/// # Safety
/// As for [`failed_memory`].
pub(crate) unsafe fn failed_semaphore(desc: *const SemaphoreDesc, code: u32) {
    // SAFETY: the caller's promise.
    unsafe { failed(semaphore_kind(desc), &[BINARY_FD, TIMELINE_FD], (*desc).handle.fd, code) };
}

/// Imports a descriptor, which is closed also if the import fails.
fn take<T>(fd: c_int, open: impl FnOnce(c_int) -> Option<T>) -> Result<T, u32> {
    let opened = open(fd);
    // SAFETY: the driver owns the descriptor, as the importer expects.
    unsafe { close(fd) };
    opened.ok_or(code::UNKNOWN)
}

/// Imports memory. Any size is accepted.
///
/// # Safety
/// `desc` is valid.
pub(crate) unsafe fn import_memory(desc: *const MemoryDesc) -> Result<Imported, u32> {
    // SAFETY: the caller's promise.
    unsafe {
        if memory_kind(desc) != MEMORY_FD {
            return Err(code::NOT_SUPPORTED);
        }
        // As driver 580.159.04 on a host with two H200.
        if (*desc).size >= TOO_MUCH_OF_ITS_OWN && device::has_others() && system::is_own((*desc).handle.fd) {
            die();
        }
        take((*desc).handle.fd, Imported::open)
    }
}

/// Imports a semaphore.
///
/// # Safety
/// `desc` is valid.
pub(crate) unsafe fn import_semaphore(desc: *const SemaphoreDesc) -> Result<Semaphore, u32> {
    // SAFETY: the caller's promise.
    unsafe {
        if ![BINARY_FD, TIMELINE_FD].contains(&semaphore_kind(desc)) {
            return Err(code::NOT_SUPPORTED);
        }
        take((*desc).handle.fd, Semaphore::open)
    }
}
