//! Raw memory calls: imports, and the driver's own allocator.

use std::ffi::c_uint;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::ptr;
use std::time::{Duration, Instant};

use cudarc::driver::sys::{
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC, CUDA_EXTERNAL_MEMORY_HANDLE_DESC, CUdeviceptr, CUexternalMemory,
    CUexternalMemoryHandleType,
};
use gpu_interop::Stream;
use gpu_interop_conformance::{Verdict, ensure};

use super::cuda::{RawCuda, bytes, check, raw};

/// The union of the handle descriptor, as `cudarc` names it.
type HandleUnion = cudarc::driver::sys::CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st__bindgen_ty_1;
type Win32Handle = cudarc::driver::sys::CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st__bindgen_ty_1__bindgen_ty_1;

/// `CUDA_EXTERNAL_MEMORY_DEDICATED`.
const DEDICATED: c_uint = 1;

/// A raw import and its mapping, freed on drop after an error.
pub(crate) struct RawImport<'a> {
    cuda: &'a RawCuda,
    memory: CUexternalMemory,
    /// The mapping's address; 0 without one.
    buffer: CUdeviceptr,
    mapped: u64,
}

impl<'a> RawImport<'a> {
    /// Imports memory. The driver takes ownership of the descriptor.
    #[inline]
    pub(crate) fn new(cuda: &'a RawCuda, fd: OwnedFd, size: u64, dedicated: bool) -> Verdict<Self> {
        // After a failure the driver may or may not have closed the descriptor. It is leaked, because a failure
        // ends the measurement anyway.
        let fd = fd.into_raw_fd();
        // The whole union, as with C's `memset`.
        let mut handle = HandleUnion { win32: Win32Handle { handle: ptr::null_mut(), name: ptr::null() } };
        handle.fd = fd;
        let desc = CUDA_EXTERNAL_MEMORY_HANDLE_DESC {
            type_: CUexternalMemoryHandleType::CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
            handle,
            size,
            flags: if dedicated { DEDICATED } else { 0 },
            reserved: [0; 16],
        };
        let mut memory = ptr::null_mut();
        // SAFETY: the descriptor is complete and valid for the call, as is the pointer.
        let status = unsafe { (cuda.functions.import_memory)(&raw mut memory, &raw const desc) };
        check("cuImportExternalMemory", status)?;
        Ok(Self { cuda, memory, buffer: 0, mapped: 0 })
    }

    /// Maps `size` bytes from the start, once.
    #[inline]
    pub(crate) fn map(&mut self, size: u64) -> Verdict {
        let desc = CUDA_EXTERNAL_MEMORY_BUFFER_DESC { offset: 0, size, flags: 0, reserved: [0; 16] };
        self.mapped = size;
        // SAFETY: the import is live until `destroy`, which takes this object; pointers are valid for the call.
        check("cuExternalMemoryGetMappedBuffer", unsafe {
            (self.cuda.functions.map_buffer)(&raw mut self.buffer, self.memory, &raw const desc)
        })
    }

    /// The last word of the mapping.
    pub(crate) fn last_word(&self) -> Verdict<u32> {
        ensure!(self.buffer != 0 && self.mapped >= 4, "the memory is not mapped");
        let mut word = [0_u8; 4];
        // SAFETY: the driver mapped this many bytes; the array has 4.
        check("cuMemcpyDtoH", unsafe {
            (self.cuda.functions.memcpy_dtoh)(word.as_mut_ptr().cast(), self.buffer + self.mapped - 4, 4)
        })?;
        Ok(u32::from_ne_bytes(word))
    }

    /// Unmaps.
    #[inline]
    pub(crate) fn free(&mut self) -> Verdict {
        let buffer = std::mem::take(&mut self.buffer);
        // SAFETY: it is this object's mapping, and forgotten now. Nothing that uses it was enqueued.
        check("cuMemFree", unsafe { (self.cuda.functions.mem_free)(buffer) })
    }

    /// Ends the import.
    #[inline]
    pub(crate) fn destroy(mut self) -> Verdict {
        let memory = std::mem::replace(&mut self.memory, ptr::null_mut());
        // SAFETY: it is this object's import, and forgotten now.
        check("cuDestroyExternalMemory", unsafe { (self.cuda.functions.destroy_memory)(memory) })
    }
}

impl Drop for RawImport<'_> {
    #[inline]
    fn drop(&mut self) {
        // An earlier error has been reported already.
        if self.buffer != 0 {
            let _ = self.free();
        }
        if !self.memory.is_null() {
            // SAFETY: as in `destroy`; nothing uses this object after its drop.
            let _ = unsafe { (self.cuda.functions.destroy_memory)(self.memory) };
        }
    }
}

/// Memory from the driver's own allocator.
pub(crate) struct NativeMemory<'a> {
    cuda: &'a RawCuda,
    address: CUdeviceptr,
    size: u64,
}

impl<'a> NativeMemory<'a> {
    /// Allocates (`cuMemAlloc`).
    pub(crate) fn new(cuda: &'a RawCuda, size: u64) -> Verdict<Self> {
        let mut address = 0;
        // SAFETY: the pointer is valid for the call.
        check("cuMemAlloc", unsafe { (cuda.functions.mem_alloc)(&raw mut address, bytes(size)?) })?;
        Ok(Self { cuda, address, size })
    }

    /// Copies bytes from the host to `offset`, synchronously (`cuMemcpyHtoD`).
    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> Verdict {
        let end = offset.checked_add(data.len() as u64);
        ensure!(end.is_some_and(|end| end <= self.size), "the range is not inside the memory");
        let target = self.address + offset;
        // SAFETY: the range is inside this allocation, and as long as the borrowed bytes.
        check("cuMemcpyHtoD", unsafe { (self.cuda.functions.memcpy_htod)(target, data.as_ptr().cast(), data.len()) })
    }

    /// Copies the first half over the second this many times, synchronously, and returns the total
    /// duration.
    pub(crate) fn copy_halves(&self, stream: &Stream, copies: u32) -> Verdict<Duration> {
        let stream = raw(stream);
        let half = self.size / 2;
        let size = bytes(half)?;
        let start = Instant::now();
        let enqueued = (0..copies).try_for_each(|_| {
            // SAFETY: both halves are inside this allocation, disjoint, and live until the copy has run.
            check("cuMemcpyDtoDAsync", unsafe {
                (self.cuda.functions.memcpy_dtod_async)(self.address + half, self.address, size, stream)
            })
        });
        self.cuda.synchronize(stream)?;
        enqueued.map(|()| start.elapsed())
    }
}

impl Drop for NativeMemory<'_> {
    fn drop(&mut self) {
        // SAFETY: allocated once, freed once; nothing that uses it is pending.
        let status = unsafe { (self.cuda.functions.mem_free)(self.address) };
        if let Err(stop) = check("cuMemFree", status) {
            tracing::warn!(reason = stop.reason(), "memory could not be freed");
        }
    }
}
