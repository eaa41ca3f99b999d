//! The handles of imports.

use gpu_interop_sim_abi::hip::behaviour::Behaviour;
use gpu_interop_sim_abi::hip::generation::Handle;
use gpu_interop_sim_device::memory::Imported;
use gpu_interop_sim_device::system::Given;

/// What is imported: the descriptor, whatever the kind.
///
/// # Safety
/// The import's description is still there.
#[cfg(target_os = "linux")]
pub(crate) unsafe fn given(_kind: u32, handle: Handle) -> Given {
    // SAFETY: the caller's promise.
    unsafe { handle.fd() }
}

/// Where a version never ends a mapped import, one of memory that the runtime made itself keeps that memory, and the
/// descriptor that is open for it.
///
/// # Safety
/// As for [`given`].
#[cfg(target_os = "linux")]
pub(crate) unsafe fn keeping(imported: Imported, handle: Handle) -> Imported {
    if !Behaviour::ExtraReference.now() {
        return imported;
    }
    // SAFETY: the caller's promise.
    match gpu_interop_sim_device::system::made_here(unsafe { handle.fd() }) {
        Some(memory) => imported.keeping(memory),
        None => imported,
    }
}

/// On Windows the runtime makes no memory to import.
///
/// # Safety
/// None are needed here.
#[cfg(windows)]
pub(crate) unsafe fn keeping(imported: Imported, _handle: Handle) -> Imported {
    imported
}

/// Ends an import that was made to fail.
///
/// # Safety
/// As for [`given`]; the descriptor was given to the import.
#[cfg(target_os = "linux")]
pub(crate) unsafe fn failed(handle: Handle) {
    // SAFETY: the caller's promise.
    unsafe { gpu_interop_sim_abi::hip::semaphore::close_if_asked(handle.fd()) };
}

/// What is imported, by its kind.
///
/// # Safety
/// The import's description is still there.
#[cfg(windows)]
pub(crate) unsafe fn given(kind: u32, handle: Handle) -> Given {
    use cubecl_hip_sys as hip;
    const NUMBERS: [u32; 2] = [
        hip::hipExternalMemoryHandleType_enum_hipExternalMemoryHandleTypeOpaqueWin32Kmt,
        hip::hipExternalMemoryHandleType_enum_hipExternalMemoryHandleTypeD3D11ResourceKmt,
    ];
    // The number of semaphores that are KMT handles is that of memory, and the other is no semaphore's.
    const _: () =
        assert!(hip::hipExternalSemaphoreHandleType_enum_hipExternalSemaphoreHandleTypeOpaqueWin32Kmt == NUMBERS[0]);
    // SAFETY: the caller's promise; on Windows all kinds are of this shape.
    let [object, name] = unsafe { handle.object() };
    if NUMBERS.contains(&kind) {
        Given::Kmt(object.expose_provenance())
    } else {
        Given::Object { handle: object.cast_mut(), name }
    }
}

/// As [`given`], for memory: a name counts where there is no handle, in some versions.
///
/// # Safety
/// As for [`given`].
#[cfg(windows)]
pub(crate) unsafe fn given_memory(kind: u32, handle: Handle) -> Option<Given> {
    // SAFETY: the caller's promise.
    match unsafe { given(kind, handle) } {
        Given::Kmt(_) if Behaviour::NoKmtMemory.now() => None,
        Given::Object { handle, name } => {
            let by_name = handle.is_null() && Behaviour::MemoryNames.now();
            Some(Given::Object { handle, name: if by_name { name } else { std::ptr::null() } })
        }
        number @ Given::Kmt(_) => Some(number),
    }
}

/// As [`given`].
///
/// # Safety
/// As there.
#[cfg(target_os = "linux")]
#[allow(clippy::unnecessary_wraps, reason = "its twin knows kinds that are not imported")]
pub(crate) unsafe fn given_memory(kind: u32, handle: Handle) -> Option<Given> {
    // SAFETY: the caller's promise.
    Some(unsafe { given(kind, handle) })
}

/// Ends an import that was made to fail: the handle stays the caller's.
///
/// # Safety
/// None are needed here.
#[cfg(windows)]
pub(crate) unsafe fn failed(_handle: Handle) {}
