//! External memory and semaphores.

use std::ffi::{c_int, c_uint};
use std::slice;
use std::sync::Arc;

use cudarc::driver::sys as cuda;
use gpu_interop_sim::descriptor::close;
use gpu_interop_sim::memory::{IMPORTED, Imported};
use gpu_interop_sim::semaphore::{SEMAPHORES, Semaphore};
use gpu_interop_sim::{die, entries, settings};

use crate::copy::stream_of;
use crate::{code, context, give, nvsci};

type MemoryDesc = cuda::CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st;
type SemaphoreDesc = cuda::CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC_st;
type SignalParams = cuda::CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS_st;
type WaitParams = cuda::CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_st;

/// The kinds that are file descriptors.
const MEMORY_FD: u32 = cuda::CUexternalMemoryHandleType_enum::CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD as u32;
const BINARY_FD: u32 = cuda::CUexternalSemaphoreHandleType_enum::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD as u32;
const TIMELINE_FD: u32 =
    cuda::CUexternalSemaphoreHandleType_enum::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD as u32;
/// Objects of NvSci.
const MEMORY_NVSCI: u32 = cuda::CUexternalMemoryHandleType_enum::CU_EXTERNAL_MEMORY_HANDLE_TYPE_NVSCIBUF as u32;
const SYNC_NVSCI: u32 = cuda::CUexternalSemaphoreHandleType_enum::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_NVSCISYNC as u32;
/// The last kinds of CUDA 13. The bindings' enums may lack some, so kinds are numbers here.
const LAST_MEMORY: u32 = 9;
const LAST_SEMAPHORE: u32 = 10;

/// What a failed import does with the descriptor, as measured: UNKNOWN closes it, INVALID_VALUE and NOT_SUPPORTED leave
/// it open.
fn closes(code: u32) -> bool {
    match settings::text("SIM_FD_ON_FAILURE").as_deref() {
        Some("closed") => true,
        Some("open") => false,
        _ => code == code::UNKNOWN,
    }
}

/// Ends an import that was made to fail.
///
/// # Safety
/// The descriptor was given to the import.
unsafe fn failed(kind: u32, kinds: &[u32], fd: c_int, code: u32) {
    if kinds.contains(&kind) && closes(code) {
        // SAFETY: the caller's promise.
        unsafe { close(fd) };
    }
}

/// Imports a descriptor, which is closed whether it is any good or not.
fn take<T>(fd: c_int, open: impl FnOnce(c_int) -> Option<T>) -> Result<T, u32> {
    let opened = open(fd);
    // SAFETY: given to the driver, which the importer reckons with.
    unsafe { close(fd) };
    opened.ok_or(code::UNKNOWN)
}

/// # Safety
/// `desc` is valid.
unsafe fn memory_kind(desc: *const MemoryDesc) -> u32 {
    // SAFETY: the caller's promise. A number: any value may be there.
    unsafe { (&raw const (*desc).type_).cast::<u32>().read() }
}

/// # Safety
/// `desc` is valid.
unsafe fn semaphore_kind(desc: *const SemaphoreDesc) -> u32 {
    // SAFETY: as in `memory_kind`.
    unsafe { (&raw const (*desc).type_).cast::<u32>().read() }
}

/// The memory of a handle. A driver that is given another follows it, and dies.
pub(crate) fn memory_of(handle: usize) -> Arc<Imported> {
    IMPORTED.get(handle).unwrap_or_else(|| die())
}

/// The semaphore of a handle. A driver that is given another follows it, and dies.
fn semaphore_of(handle: usize) -> Arc<Semaphore> {
    SEMAPHORES.get(handle).unwrap_or_else(|| die())
}

/// What a batch does: `act` with each semaphore and its value. Whoever destroys a semaphore before work that uses it has
/// run is found out then.
///
/// # Safety
/// Both arrays have as many elements.
unsafe fn batch<P>(
    semaphores: *const usize,
    params: *const P,
    count: c_uint,
    value_and_flags: impl Fn(&P) -> (u64, u32),
    known_flags: u32,
    act: fn(&Semaphore, u64),
) -> Result<impl Fn() -> Result<(), u32> + Send + Sync + 'static, u32> {
    if semaphores.is_null() || params.is_null() || count == 0 {
        return Err(code::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    let (semaphores, params) =
        unsafe { (slice::from_raw_parts(semaphores, count as usize), slice::from_raw_parts(params, count as usize)) };
    let one = |(semaphore, params): (&usize, &P)| {
        semaphore_of(*semaphore);
        let (value, flags) = value_and_flags(params);
        if flags & !known_flags == 0 { Ok((*semaphore, value)) } else { Err(code::INVALID_VALUE) }
    };
    let all = semaphores.iter().zip(params).map(one).collect::<Result<Vec<_>, u32>>()?;
    Ok(move || {
        all.iter().for_each(|(semaphore, value)| act(&semaphore_of(*semaphore), *value));
        Ok(())
    })
}

/// What a batch of signals does.
///
/// # Safety
/// The arrays have as many elements.
pub(crate) unsafe fn signals(
    semaphores: *const usize,
    params: *const SignalParams,
    count: c_uint,
) -> Result<impl Fn() -> Result<(), u32> + Send + Sync + use<>, u32> {
    let value_and_flags = |params: &SignalParams| (params.params.fence.value, params.flags);
    // SAFETY: the caller's promise.
    unsafe { batch(semaphores, params, count, value_and_flags, 1, Semaphore::signal) }
}

/// What a batch of waits does.
///
/// # Safety
/// As for [`signals`].
pub(crate) unsafe fn waits(
    semaphores: *const usize,
    params: *const WaitParams,
    count: c_uint,
) -> Result<impl Fn() -> Result<(), u32> + Send + Sync + use<>, u32> {
    let value_and_flags = |params: &WaitParams| (params.params.fence.value, params.flags);
    // SAFETY: the caller's promise.
    unsafe { batch(semaphores, params, count, value_and_flags, 2, Semaphore::wait) }
}

entries! {
    fn cuImportExternalMemory(memory: *mut usize, desc: *const MemoryDesc) gives memory
        failing |code| if !desc.is_null() { failed(memory_kind(desc), &[MEMORY_FD], (*desc).handle.fd, code) };
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
        if kind != MEMORY_FD {
            return Err(code::NOT_SUPPORTED);
        }
        // The size is not looked at: any is accepted.
        let imported = take((*desc).handle.fd, Imported::open)?;
        give(memory, IMPORTED.insert(imported.dedicated((*desc).flags == 1)))
    }

    fn cuDestroyExternalMemory(memory: usize) {
        context::need()?;
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
        failing |code| if !desc.is_null() { failed(semaphore_kind(desc), &[BINARY_FD, TIMELINE_FD], (*desc).handle.fd, code) };
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
        if kind != BINARY_FD && kind != TIMELINE_FD {
            return Err(code::NOT_SUPPORTED);
        }
        give(semaphore, SEMAPHORES.insert(take((*desc).handle.fd, Semaphore::open)?))
    }

    fn cuDestroyExternalSemaphore(semaphore: usize) {
        context::need()?;
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
