//! Handles of imports.

use gpu_interop_sim_abi::hip::behaviour::Behaviour;
use gpu_interop_sim_abi::hip::generation::Handle;
use gpu_interop_sim_device::memory::Imported;
use gpu_interop_sim_device::system::Given;

/// The imported handle: the descriptor, for every kind.
///
/// # Safety
/// The import's description is still valid.
#[cfg(target_os = "linux")]
pub(crate) unsafe fn given(_kind: u32, handle: Handle) -> Given {
    // SAFETY: the caller's promise.
    unsafe { handle.fd() }
}

/// In versions that never release a mapped import, an import of the runtime's own memory keeps that memory and its open
/// descriptor.
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

/// On Windows the runtime creates no memory that could be imported.
///
/// # Safety
/// No requirements here.
#[cfg(windows)]
pub(crate) unsafe fn keeping(imported: Imported, _handle: Handle) -> Imported {
    imported
}

/// Ends an import with an injected failure.
///
/// # Safety
/// As for [`given`]; the import owns the descriptor.
#[cfg(target_os = "linux")]
pub(crate) unsafe fn failed(handle: Handle) {
    // SAFETY: the caller's promise.
    unsafe { gpu_interop_sim_abi::hip::semaphore::close_if_asked(handle.fd()) };
}

/// The imported handle, by its kind.
///
/// # Safety
/// The import's description is still valid.
#[cfg(windows)]
pub(crate) unsafe fn given(kind: u32, handle: Handle) -> Given {
    use cubecl_hip_sys as hip;
    const NUMBERS: [u32; 2] = [
        hip::hipExternalMemoryHandleType_enum_hipExternalMemoryHandleTypeOpaqueWin32Kmt,
        hip::hipExternalMemoryHandleType_enum_hipExternalMemoryHandleTypeD3D11ResourceKmt,
    ];
    // The number of one kind of KMT semaphore handles is used for memory, and the other is not a semaphore.
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

/// As [`given`], for memory: in some versions a name is used if the handle is null.
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
/// As for [`given`].
#[cfg(target_os = "linux")]
#[allow(clippy::unnecessary_wraps, reason = "the other version fails for some kinds")]
pub(crate) unsafe fn given_memory(kind: u32, handle: Handle) -> Option<Given> {
    // SAFETY: the caller's promise.
    Some(unsafe { given(kind, handle) })
}

/// Ends an import with an injected failure: the caller still owns the handle.
///
/// # Safety
/// No requirements here.
#[cfg(windows)]
pub(crate) unsafe fn failed(_handle: Handle) {}
