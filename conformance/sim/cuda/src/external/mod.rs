//! External memory and semaphores.

#[cfg(target_os = "linux")]
mod fd;
#[cfg(windows)]
mod win32;

use std::ffi::c_uint;
use std::slice;
use std::sync::Arc;

use cudarc::driver::sys as cuda;
use gpu_interop_sim_device::memory::{IMPORTED, Imported};
use gpu_interop_sim_device::semaphore::{SEMAPHORES, batch_work};
use gpu_interop_sim_device::{die, entries, work};

#[cfg(target_os = "linux")]
pub(crate) use crate::external::fd::*;
#[cfg(windows)]
pub(crate) use crate::external::win32::*;
use crate::nvsci::{Params, SignalParams, WaitParams};
use crate::{code, driver, give, graph, nvsci};

/// NvSci objects.
const MEMORY_NVSCI: u32 = cuda::CUexternalMemoryHandleType_enum::CU_EXTERNAL_MEMORY_HANDLE_TYPE_NVSCIBUF as u32;
const SYNC_NVSCI: u32 = cuda::CUexternalSemaphoreHandleType_enum::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_NVSCISYNC as u32;
/// The last kinds of CUDA 13. The bindings' enums may lack some, so kinds are numbers here.
const LAST_MEMORY: u32 = 9;
const LAST_SEMAPHORE: u32 = 10;

/// The memory of a handle. The driver dereferences an invalid handle and crashes.
pub(crate) fn memory_of(handle: usize) -> Arc<Imported> {
    IMPORTED.get(handle).unwrap_or_else(|| die())
}

/// The work of a batch.
///
/// # Safety
/// The arrays have that many elements.
pub(crate) unsafe fn batch<P: Params>(
    semaphores: *const usize,
    params: *const P,
    count: c_uint,
) -> Result<impl Fn() -> Result<(), u32> + Send + Sync + 'static, u32> {
    code::reject_if(semaphores.is_null() || params.is_null())?;
    // SAFETY: the caller's promise.
    let (semaphores, params) =
        unsafe { (slice::from_raw_parts(semaphores, count as usize), slice::from_raw_parts(params, count as usize)) };
    batch_work(P::KIND, semaphores, &|index| params[index].point())
}

entries! {
    after driver::need_context;

    fn cuImportExternalMemory(memory: *mut usize, desc: *const MemoryDesc) gives memory
        failing |code| if !desc.is_null() { failed_memory(desc, code) };
    {
        code::reject_if(memory.is_null() || desc.is_null())?;
        let kind = memory_kind(desc);
        code::reject_if((*desc).size == 0 || (*desc).flags > 1 || kind == 0 || kind > LAST_MEMORY)?;
        if kind == MEMORY_NVSCI {
            return give(memory, IMPORTED.insert(nvsci::import_buffer((*desc).handle.nvSciBufObject)?));
        }
        give(memory, IMPORTED.insert(import_memory(desc)?.dedicated((*desc).flags == 1)))
    }

    fn cuDestroyExternalMemory(memory: usize) {
        graph::check_permitted()?;
        IMPORTED.remove(memory).unwrap_or_else(|| die());
        Ok(())
    }

    fn cuExternalMemoryGetMappedBuffer(
        pointer: *mut u64, memory: usize, desc: *const cuda::CUDA_EXTERNAL_MEMORY_BUFFER_DESC_st,
    ) gives pointer {
        let memory = memory_of(memory);
        code::reject_if(pointer.is_null() || desc.is_null() || (*desc).flags != 0)?;
        let mapped = memory.map((*desc).offset, (*desc).size).ok_or(code::INVALID_VALUE)?;
        give(pointer, mapped as u64)
    }

    fn cuImportExternalSemaphore(semaphore: *mut usize, desc: *const SemaphoreDesc) gives semaphore
        failing |code| if !desc.is_null() { failed_semaphore(desc, code) };
    {
        code::reject_if(semaphore.is_null() || desc.is_null())?;
        let kind = semaphore_kind(desc);
        code::reject_if((*desc).flags != 0 || kind == 0 || kind > LAST_SEMAPHORE)?;
        if kind == SYNC_NVSCI {
            return give(semaphore, nvsci::SYNCS.insert(nvsci::import_sync((*desc).handle.nvSciSyncObj)?));
        }
        give(semaphore, SEMAPHORES.insert(import_semaphore(desc)?))
    }

    fn cuDestroyExternalSemaphore(semaphore: usize) {
        graph::check_permitted()?;
        if nvsci::SYNCS.remove(semaphore).is_none() {
            SEMAPHORES.remove(semaphore).unwrap_or_else(|| die());
        }
        Ok(())
    }
}

// Driver 580 takes the context from the stream.
entries! {
    fn cuSignalExternalSemaphoresAsync(
        semaphores: *const usize, params: *const SignalParams, count: c_uint, stream: usize,
    ) {
        driver::need_context_for(stream)?;
        let stream = work::stream_of(stream)?;
        if nvsci::is_batch(semaphores, count) {
            stream.overtake(nvsci::batch(semaphores, params, count)?);
        } else {
            stream.overtake(batch(semaphores, params, count)?);
        }
        Ok(())
    }

    fn cuWaitExternalSemaphoresAsync(
        semaphores: *const usize, params: *const WaitParams, count: c_uint, stream: usize,
    ) {
        driver::need_context_for(stream)?;
        let stream = work::stream_of(stream)?;
        if nvsci::is_batch(semaphores, count) {
            stream.enqueue(nvsci::batch(semaphores, params, count)?);
        } else {
            stream.enqueue(batch(semaphores, params, count)?);
        }
        Ok(())
    }
}

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
