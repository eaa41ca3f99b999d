//! External memory.

use std::ffi::c_void;

use gpu_interop_sim::memory::{IMPORTED, Imported};
use gpu_interop_sim::{code, entries};
use gpu_interop_stand_in::hip::generation::Generation;
use gpu_interop_stand_in::hip::semaphore::close_if_asked;

use crate::device::need;
use crate::give;

entries! {
    fn hipImportExternalMemory(memory: *mut usize, desc: *const c_void) gives memory
        failing |_code| if !desc.is_null() { close_if_asked(Generation::now().memory(desc).fd) };
    {
        need()?;
        if memory.is_null() || desc.is_null() {
            return Err(code::INVALID_VALUE);
        }
        let desc = Generation::now().memory(desc).checked()?;
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
        let (offset, size) = Generation::now().buffer(desc)?;
        give(pointer, memory.map(offset, size).ok_or(code::INVALID_VALUE)? as u64)
    }

    fn hipDestroyExternalMemory(memory: usize) {
        need()?;
        IMPORTED.remove(memory).map(drop).ok_or(code::INVALID_VALUE)
    }
}
