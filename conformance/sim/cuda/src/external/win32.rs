//! NT handles, which the caller still owns, names, and KMT handles. Unknown behaviour of the real driver is as on
//! Linux: any memory is accepted.

use cudarc::driver::sys::{CUexternalMemoryHandleType_enum as Memory, CUexternalSemaphoreHandleType_enum as Sync};
use gpu_interop_sim_device::memory::Imported;
use gpu_interop_sim_device::semaphore::Semaphore;
use gpu_interop_sim_device::system::ImportHandle;

use crate::code;
use crate::external::{MemoryDesc, SemaphoreDesc, memory_kind, semaphore_kind};

const MEMORY_OBJECTS: [u32; 4] = [
    Memory::CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32 as u32,
    Memory::CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP as u32,
    Memory::CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE as u32,
    Memory::CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D11_RESOURCE as u32,
];
const MEMORY_NUMBERS: [u32; 2] = [
    Memory::CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32_KMT as u32,
    Memory::CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D11_RESOURCE_KMT as u32,
];
/// Kinds that must be imported as dedicated allocations.
const DEDICATED: [u32; 3] = [
    Memory::CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE as u32,
    Memory::CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D11_RESOURCE as u32,
    Memory::CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D11_RESOURCE_KMT as u32,
];
const SYNC_OBJECTS: [u32; 5] = [
    Sync::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32 as u32,
    Sync::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D12_FENCE as u32,
    Sync::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_FENCE as u32,
    Sync::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_KEYED_MUTEX as u32,
    Sync::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_WIN32 as u32,
];
const SYNC_NUMBERS: [u32; 2] = [
    Sync::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32_KMT as u32,
    Sync::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_KEYED_MUTEX_KMT as u32,
];

/// Ends an import with an injected failure: the caller still owns the handle.
///
/// # Safety
/// Without requirements; the Linux version has some.
pub(crate) unsafe fn failed_memory(_desc: *const MemoryDesc, _code: u32) {}

/// As [`failed_memory`], for semaphores.
///
/// # Safety
/// As for [`failed_memory`].
pub(crate) unsafe fn failed_semaphore(_desc: *const SemaphoreDesc, _code: u32) {}

/// Imports memory. Any size is accepted.
///
/// # Safety
/// `desc` is valid.
pub(crate) unsafe fn import_memory(desc: *const MemoryDesc) -> Result<Imported, u32> {
    // SAFETY: the caller's promise; all members of the handle are pointers or as large.
    let (kind, win32, flags) = unsafe { (memory_kind(desc), (*desc).handle.win32, (*desc).flags) };
    code::reject_if(DEDICATED.contains(&kind) && flags != 1)?;
    let given = if MEMORY_OBJECTS.contains(&kind) {
        ImportHandle::Object { handle: win32.handle, name: win32.name }
    } else if MEMORY_NUMBERS.contains(&kind) {
        ImportHandle::Kmt(win32.handle.expose_provenance())
    } else {
        return Err(code::NOT_SUPPORTED);
    };
    Imported::open(given).ok_or(code::UNKNOWN)
}

/// Imports a semaphore.
///
/// # Safety
/// `desc` is valid.
pub(crate) unsafe fn import_semaphore(desc: *const SemaphoreDesc) -> Result<Semaphore, u32> {
    // SAFETY: as above.
    let (kind, win32) = unsafe { (semaphore_kind(desc), (*desc).handle.win32) };
    let given = if SYNC_OBJECTS.contains(&kind) {
        ImportHandle::Object { handle: win32.handle, name: win32.name }
    } else if SYNC_NUMBERS.contains(&kind) {
        ImportHandle::Kmt(win32.handle.expose_provenance())
    } else {
        return Err(code::NOT_SUPPORTED);
    };
    Semaphore::open(given).ok_or(code::UNKNOWN)
}
