//! External memory, mapped as in sim-hip.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Arc, Mutex};

use cudarc::driver::sys::{
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC, CUDA_EXTERNAL_MEMORY_HANDLE_DESC,
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st__bindgen_ty_1, CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st__bindgen_ty_1__bindgen_ty_1,
    CUexternalMemory, CUexternalMemoryHandleType,
};
use gpu_interop_core::handle::LentFd;
use gpu_interop_sim_abi::hip::device;
use gpu_interop_sim_abi::hip::generation::{Generation, Memory};
use gpu_interop_sim_abi::objects::Objects;
use gpu_interop_sim_abi::{descriptor, entries, give, lock};

use crate::cuda::{INVALID_VALUE, OUT_OF_MEMORY, check, cuda, enter, enter_device, reject_if};
use crate::memory;
use crate::memory::Mapped;

/// Imported memory by HIP's handle for it.
static IMPORTED: Objects<Imported> = Objects::new();

/// Memory that CUDA has imported.
#[derive(Debug)]
struct Imported {
    /// CUDA's handle, as a number, because threads share it.
    memory: usize,
    /// Size in bytes.
    size: u64,
    device: c_int,
    /// The mapping of all of it, created with the first range. Lives as long as the import and the addresses that
    /// `hipFree` frees.
    whole: Mutex<Option<Arc<Mapped>>>,
}

impl Imported {
    fn memory(&self) -> CUexternalMemory {
        ptr::with_exposed_provenance_mut(self.memory)
    }

    /// Maps all of it.
    fn whole(&self) -> Result<Arc<Mapped>, u32> {
        let mut whole = lock(&self.whole);
        if let Some(whole) = &*whole {
            return Ok(whole.clone());
        }
        let desc = CUDA_EXTERNAL_MEMORY_BUFFER_DESC { offset: 0, size: self.size, flags: 0, reserved: [0; 16] };
        let cuda = enter_device(self.device)?;
        let mut address = 0;
        // SAFETY: the pointers are valid for the call, and the import is live.
        check(unsafe { (cuda.cuExternalMemoryGetMappedBuffer)(&raw mut address, self.memory(), &raw const desc) })?;
        Ok(whole.insert(Arc::new(Mapped { address, device: self.device })).clone())
    }
}

/// The description for CUDA. For HIP every kind is a descriptor.
fn encode(desc: Memory, fd: c_int) -> CUDA_EXTERNAL_MEMORY_HANDLE_DESC {
    let nothing =
        CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st__bindgen_ty_1__bindgen_ty_1 { handle: ptr::null_mut(), name: ptr::null() };
    let mut handle = CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st__bindgen_ty_1 { win32: nothing };
    handle.fd = fd;
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC {
        type_: CUexternalMemoryHandleType::CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
        handle,
        size: desc.size,
        flags: desc.flags,
        reserved: [0; 16],
    }
}

/// Imports a duplicate of the descriptor into CUDA. CUDA closes descriptors that it imports, and some that it rejects,
/// so the duplicate is checked afterwards.
///
/// # Safety
/// The description that `desc` was read from is still valid.
unsafe fn import(desc: Memory) -> Option<Imported> {
    // SAFETY: the caller's promise.
    let fd = unsafe { desc.handle.fd() };
    let loan = LentFd::new(descriptor::borrow(fd)?).ok()?;
    let cuda = enter().ok()?;
    let encoded = encode(desc, loan.as_raw_fd());
    let mut memory: CUexternalMemory = ptr::null_mut();
    // SAFETY: the pointers are valid for the call, and the descriptor is open.
    let imported = check(unsafe { (cuda.cuImportExternalMemory)(&raw mut memory, &raw const encoded) });
    if imported.is_err() || memory.is_null() {
        loan.settle();
        return None;
    }
    loan.consumed();
    Some(Imported {
        memory: memory.expose_provenance(),
        size: desc.size,
        device: device::current(),
        whole: Mutex::default(),
    })
}

entries! {
    after cuda;

    fn hipImportExternalMemory(memory: *mut usize, desc: *const c_void) gives memory {
        reject_if(memory.is_null() || desc.is_null())?;
        let desc = Generation::now().memory(desc).checked()?;
        // Every failure is reported as "out of memory".
        give(memory, IMPORTED.insert(import(desc).ok_or(OUT_OF_MEMORY)?))
    }

    fn hipExternalMemoryGetMappedBuffer(pointer: *mut u64, memory: usize, desc: *const c_void) gives pointer {
        let memory = IMPORTED.get(memory).ok_or(INVALID_VALUE)?;
        reject_if(pointer.is_null() || desc.is_null())?;
        let generation = Generation::now();
        let (offset, size) = generation.buffer(desc)?;
        reject_if(offset.checked_add(size).is_none_or(|end| end > memory.size))?;
        let whole = memory.whole()?;
        let mapped = whole.address + if generation == Generation::Five { 0 } else { offset };
        give(pointer, mapped)?;
        if generation.frees_mappings() {
            memory::note(mapped, whole);
        }
        Ok(())
    }

    fn hipDestroyExternalMemory(memory: usize) {
        let memory = IMPORTED.remove(memory).ok_or(INVALID_VALUE)?;
        drop(lock(&memory.whole).take());
        check((enter_device(memory.device)?.cuDestroyExternalMemory)(memory.memory()))
    }
}
