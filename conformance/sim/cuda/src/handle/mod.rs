//! Handles of imports on this system.

#[cfg(target_os = "linux")]
mod fd;
#[cfg(windows)]
mod win32;

use cudarc::driver::sys as cuda;

#[cfg(target_os = "linux")]
pub(crate) use fd::*;
#[cfg(windows)]
pub(crate) use win32::*;

pub(crate) type MemoryDesc = cuda::CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st;
pub(crate) type SemaphoreDesc = cuda::CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC_st;

/// # Safety
/// `desc` is valid.
pub(crate) unsafe fn memory_kind(desc: *const MemoryDesc) -> u32 {
    // SAFETY: the caller's promise. A number: any value may be there.
    unsafe { (&raw const (*desc).type_).cast::<u32>().read() }
}

/// # Safety
/// `desc` is valid.
pub(crate) unsafe fn semaphore_kind(desc: *const SemaphoreDesc) -> u32 {
    // SAFETY: as in `memory_kind`.
    unsafe { (&raw const (*desc).type_).cast::<u32>().read() }
}
