//! External memory and semaphores.

use std::ffi::c_uint;
use std::slice;
use std::sync::Arc;

use cudarc::driver::sys as cuda;
use gpu_interop_sim_device::memory::{IMPORTED, Imported};
use gpu_interop_sim_device::semaphore::{Point, SEMAPHORES, batch};
use gpu_interop_sim_device::{die, entries};

use crate::copy::stream_of;
use crate::handle::{
    MemoryDesc, SemaphoreDesc, failed_memory, failed_semaphore, memory as import_memory, memory_kind,
    semaphore as import_semaphore, semaphore_kind,
};
use crate::{capture, code, context, give, nvsci};

type SignalParams = cuda::CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS_st;
type WaitParams = cuda::CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_st;

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

/// The semaphores of a batch, with the operation for each.
///
/// # Safety
/// The arrays have that many elements, which live as long as the result.
unsafe fn arrays<'a, P>(
    semaphores: *const usize,
    params: *const P,
    count: c_uint,
) -> Result<(&'a [usize], &'a [P]), u32> {
    if semaphores.is_null() || params.is_null() {
        return Err(code::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { (slice::from_raw_parts(semaphores, count as usize), slice::from_raw_parts(params, count as usize)) })
}

/// Enqueues a batch of signals.
///
/// # Safety
/// The arrays have that many elements.
pub(crate) unsafe fn signals(
    semaphores: *const usize,
    params: *const SignalParams,
    count: c_uint,
) -> Result<impl Fn() -> Result<(), u32> + Send + Sync + use<>, u32> {
    // SAFETY: the caller's promise.
    let (semaphores, params) = unsafe { arrays(semaphores, params, count) }?;
    batch::signals(semaphores, &|index| {
        let SignalParams { params, flags, .. } = &params[index];
        (Point { value: params.fence.value, key: params.keyedMutex.key, timeout_ms: 0 }, *flags)
    })
}

/// Enqueues a batch of waits.
///
/// # Safety
/// As for [`signals`].
pub(crate) unsafe fn waits(
    semaphores: *const usize,
    params: *const WaitParams,
    count: c_uint,
) -> Result<impl Fn() -> Result<(), u32> + Send + Sync + use<>, u32> {
    // SAFETY: the caller's promise.
    let (semaphores, params) = unsafe { arrays(semaphores, params, count) }?;
    batch::waits(semaphores, &|index| {
        let WaitParams { params, flags, .. } = &params[index];
        let mutex = &params.keyedMutex;
        (Point { value: params.fence.value, key: mutex.key, timeout_ms: mutex.timeoutMs }, *flags)
    })
}

entries! {
    fn cuImportExternalMemory(memory: *mut usize, desc: *const MemoryDesc) gives memory
        failing |code| if !desc.is_null() { failed_memory(desc, code) };
    {
        context::need()?;
        if memory.is_null() || desc.is_null() {
            return Err(code::INVALID_VALUE);
        }
        let kind = memory_kind(desc);
        if (*desc).size == 0 || (*desc).flags > 1 || kind == 0 || kind > LAST_MEMORY {
            return Err(code::INVALID_VALUE);
        }
        if kind == MEMORY_NVSCI {
            return give(memory, IMPORTED.insert(nvsci::import_buffer((*desc).handle.nvSciBufObject)?));
        }
        give(memory, IMPORTED.insert(import_memory(desc)?.dedicated((*desc).flags == 1)))
    }

    fn cuDestroyExternalMemory(memory: usize) {
        context::need()?;
        capture::allow()?;
        IMPORTED.remove(memory).unwrap_or_else(|| die());
        Ok(())
    }

    fn cuExternalMemoryGetMappedBuffer(
        pointer: *mut u64,
        memory: usize,
        desc: *const cuda::CUDA_EXTERNAL_MEMORY_BUFFER_DESC_st,
    ) gives pointer {
        context::need()?;
        let memory = memory_of(memory);
        if pointer.is_null() || desc.is_null() || (*desc).flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        let mapped = memory.map((*desc).offset, (*desc).size).ok_or(code::INVALID_VALUE)?;
        give(pointer, mapped as u64)
    }

    fn cuImportExternalSemaphore(semaphore: *mut usize, desc: *const SemaphoreDesc) gives semaphore
        failing |code| if !desc.is_null() { failed_semaphore(desc, code) };
    {
        context::need()?;
        if semaphore.is_null() || desc.is_null() {
            return Err(code::INVALID_VALUE);
        }
        let kind = semaphore_kind(desc);
        if (*desc).flags != 0 || kind == 0 || kind > LAST_SEMAPHORE {
            return Err(code::INVALID_VALUE);
        }
        if kind == SYNC_NVSCI {
            return give(semaphore, nvsci::SYNCS.insert(nvsci::import_sync((*desc).handle.nvSciSyncObj)?));
        }
        give(semaphore, SEMAPHORES.insert(import_semaphore(desc)?))
    }

    fn cuDestroyExternalSemaphore(semaphore: usize) {
        context::need()?;
        capture::allow()?;
        if nvsci::SYNCS.remove(semaphore).is_none() {
            SEMAPHORES.remove(semaphore).unwrap_or_else(|| die());
        }
        Ok(())
    }

    fn cuSignalExternalSemaphoresAsync(
        semaphores: *const usize,
        params: *const SignalParams,
        count: c_uint,
        stream: usize,
    ) {
        let stream = stream_of(stream)?;
        if nvsci::is_batch(semaphores, count) {
            stream.overtake(nvsci::signals(semaphores, params, count)?);
        } else {
            stream.overtake(signals(semaphores, params, count)?);
        }
        Ok(())
    }

    fn cuWaitExternalSemaphoresAsync(
        semaphores: *const usize,
        params: *const WaitParams,
        count: c_uint,
        stream: usize,
    ) {
        let stream = stream_of(stream)?;
        if nvsci::is_batch(semaphores, count) {
            stream.enqueue(nvsci::waits(semaphores, params, count)?);
        } else {
            stream.enqueue(waits(semaphores, params, count)?);
        }
        Ok(())
    }
}
