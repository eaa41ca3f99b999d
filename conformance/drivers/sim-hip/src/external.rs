//! External memory.

use std::ffi::{c_int, c_void};

use cubecl_hip_sys as hip;
use gpu_interop_sim::memory::{IMPORTED, Imported, close};
use gpu_interop_sim::{entries, settings};

use crate::device::need;
use crate::generation::Generation;
use crate::{code, give};

/// The last kind that the runtime takes: it refuses NvSciBuf.
const LAST: u32 = hip::hipExternalMemoryHandleType_enum_hipExternalMemoryHandleTypeD3D11ResourceKmt;

/// The runtime closes no descriptor, unless `SIM_FD_ON_FAILURE` wants a failed import to.
///
/// # Safety
/// The descriptor was given to the import.
pub(crate) unsafe fn failed(fd: c_int) {
    if settings::text("SIM_FD_ON_FAILURE").as_deref() == Some("closed") {
        // SAFETY: the caller's promise.
        unsafe { close(fd) };
    }
}

entries! {
    fn hipImportExternalMemory(memory: *mut usize, desc: *const c_void) gives memory
        failing |_code| if !desc.is_null() { failed(Generation::now().memory(desc).fd) };
    {
        need()?;
        if memory.is_null() || desc.is_null() {
            return Err(code::INVALID_VALUE);
        }
        let desc = Generation::now().memory(desc);
        if desc.size == 0 || desc.flags > 1 || !(1..=LAST).contains(&desc.kind) {
            return Err(code::INVALID_VALUE);
        }
        // Whatever the kind, the descriptor is used, and whatever fails, memory has run out.
        let imported = Imported::open(desc.fd).ok_or(code::OUT_OF_MEMORY)?;
        give(memory, IMPORTED.insert(imported.sized(desc.size)))
    }

    fn hipExternalMemoryGetMappedBuffer(pointer: *mut u64, memory: usize, desc: *const c_void) gives pointer {
        need()?;
        let memory = IMPORTED.get(memory).ok_or(code::INVALID_VALUE)?;
        if pointer.is_null() || desc.is_null() {
            return Err(code::INVALID_VALUE);
        }
        let (offset, size, flags) = Generation::now().buffer(desc);
        if flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        give(pointer, memory.map(offset, size).ok_or(code::INVALID_VALUE)? as u64)
    }

    fn hipDestroyExternalMemory(memory: usize) {
        need()?;
        IMPORTED.remove(memory).map(drop).ok_or(code::INVALID_VALUE)
    }
}
