//! External memory, as AMD's runtime was read and disassembled to have it. It is mapped where it is imported, and all
//! mappings of an import are addresses there. Those that were given are kept in a table with one entry for each, so
//! that of two mappings at one address the first `hipFree` ends both. HIP 5 gives the import's first address whatever
//! the range, and before HIP 5.6 nothing is kept, so that mappings cannot be freed and end with their import.

use std::ffi::c_void;

use gpu_interop_sim::memory::{IMPORTED, Imported};
use gpu_interop_sim::{code, entries};
use gpu_interop_stand_in::hip::generation::Generation;

use crate::device::need;
use crate::give;
use crate::handle::{failed, given};

entries! {
    fn hipImportExternalMemory(memory: *mut usize, desc: *const c_void) gives memory
        failing |_code| if !desc.is_null() { failed(Generation::now().memory(desc).handle) };
    {
        need()?;
        if memory.is_null() || desc.is_null() {
            return Err(code::INVALID_VALUE);
        }
        let desc = Generation::now().memory(desc).checked()?;
        // Whatever fails, memory has run out.
        let imported = Imported::open(given(desc.kind, desc.handle)).ok_or(code::OUT_OF_MEMORY)?;
        if cfg!(not(windows)) {
            return give(memory, IMPORTED.insert(imported.sized(desc.size)));
        }
        // What is opened there is the kernel's, which knows its size: that this is looked at is taken for granted.
        if desc.size > imported.size() {
            return Err(code::OUT_OF_MEMORY);
        }
        give(memory, IMPORTED.insert(imported))
    }

    fn hipExternalMemoryGetMappedBuffer(pointer: *mut u64, memory: usize, desc: *const c_void) gives pointer {
        need()?;
        let memory = IMPORTED.get(memory).ok_or(code::INVALID_VALUE)?;
        if pointer.is_null() || desc.is_null() {
            return Err(code::INVALID_VALUE);
        }
        let generation = Generation::now();
        let (offset, size) = generation.buffer(desc)?;
        let address = match generation {
            Generation::Five => memory.address(0, 1),
            Generation::Six => memory.address(offset, size),
        };
        let address = address.ok_or(code::INVALID_VALUE)?;
        give(pointer, address as u64)?;
        if generation.frees_mappings() {
            memory.note(address);
        }
        Ok(())
    }

    fn hipDestroyExternalMemory(memory: usize) {
        need()?;
        IMPORTED.remove(memory).map(drop).ok_or(code::INVALID_VALUE)
    }
}
