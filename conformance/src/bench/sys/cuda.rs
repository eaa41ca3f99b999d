//! The driver's own functions, as a C program calls them: looked up once, the context made current once, descriptors
//! handed over without a duplicate, parameter blocks kept and only their values written again.
//!
//! Types are those that `cudarc` generated from NVIDIA's headers, except for status codes: theirs is an enum, and a
//! code that it does not know would be undefined behaviour.

use std::ffi::{OsStr, c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::ptr;
use std::time::{Duration, Instant};

use cudarc::driver::sys::{
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC, CUDA_EXTERNAL_MEMORY_HANDLE_DESC, CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS,
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, CUcontext, CUdevice, CUdeviceptr, CUexternalMemory,
    CUexternalMemoryHandleType, CUexternalSemaphore, CUstream,
};
use gpu_interop::{BufferSlice, ExternalSemaphore, Stream};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::outcome::{Stop, Verdict};
use crate::{ensure, ensure_eq};

/// The handle descriptor's union, by the name that its generator gave it.
type HandleUnion = cudarc::driver::sys::CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st__bindgen_ty_1;
type Win32Handle = cudarc::driver::sys::CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st__bindgen_ty_1__bindgen_ty_1;

/// `CUresult`, whatever its value.
type Status = c_uint;
/// `CUDA_EXTERNAL_MEMORY_DEDICATED`.
const DEDICATED: c_uint = 1;

macro_rules! functions {
    ($( $field:ident: fn($($arg:ty),*) = $name:literal; )*) => {
        /// The functions, by their exported names.
        struct Functions { $( $field: unsafe extern "C" fn($($arg),*) -> Status, )* }

        impl Functions {
            /// # Safety
            /// The library must be CUDA's driver.
            unsafe fn load(library: &Library) -> Verdict<Self> {
                Ok(Self { $( $field: {
                    // SAFETY: the caller vouches for the library, and the table has the types of NVIDIA's headers.
                    let symbol = unsafe { library.get::<unsafe extern "C" fn($($arg),*) -> Status>($name) };
                    *symbol.map_err(|_| {
                        Stop::Unsupported(format!("the driver has no {}", $name.to_string_lossy()))
                    })?
                }, )* })
            }
        }
    };
}

functions! {
    init: fn(c_uint) = c"cuInit";
    device_get: fn(*mut CUdevice, c_int) = c"cuDeviceGet";
    primary_ctx_retain: fn(*mut CUcontext, CUdevice) = c"cuDevicePrimaryCtxRetain";
    primary_ctx_release: fn(CUdevice) = c"cuDevicePrimaryCtxRelease_v2";
    ctx_set_current: fn(CUcontext) = c"cuCtxSetCurrent";
    ctx_get_current: fn(*mut CUcontext) = c"cuCtxGetCurrent";
    ctx_push_current: fn(CUcontext) = c"cuCtxPushCurrent_v2";
    ctx_pop_current: fn(*mut CUcontext) = c"cuCtxPopCurrent_v2";
    import_memory: fn(*mut CUexternalMemory, *const CUDA_EXTERNAL_MEMORY_HANDLE_DESC) = c"cuImportExternalMemory";
    map_buffer: fn(*mut CUdeviceptr, CUexternalMemory, *const CUDA_EXTERNAL_MEMORY_BUFFER_DESC)
        = c"cuExternalMemoryGetMappedBuffer";
    destroy_memory: fn(CUexternalMemory) = c"cuDestroyExternalMemory";
    mem_alloc: fn(*mut CUdeviceptr, usize) = c"cuMemAlloc_v2";
    mem_free: fn(CUdeviceptr) = c"cuMemFree_v2";
    memcpy_dtoh: fn(*mut c_void, CUdeviceptr, usize) = c"cuMemcpyDtoH_v2";
    memcpy_dtod_async: fn(CUdeviceptr, CUdeviceptr, usize, CUstream) = c"cuMemcpyDtoDAsync_v2";
    signal: fn(*const CUexternalSemaphore, *const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, c_uint, CUstream)
        = c"cuSignalExternalSemaphoresAsync";
    wait: fn(*const CUexternalSemaphore, *const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, c_uint, CUstream)
        = c"cuWaitExternalSemaphoresAsync";
    stream_synchronize: fn(CUstream) = c"cuStreamSynchronize";
}

#[inline]
fn check(function: &str, status: Status) -> Verdict {
    if status == 0 { Ok(()) } else { Err(failed(function, status)) }
}

#[cold]
fn failed(function: &str, status: Status) -> Stop {
    Stop::Failed(format!("{function}, called directly: CUDA error {status}"))
}

/// The library's stream as the driver's. The driver never hands the number back as a pointer to follow.
fn raw(stream: &Stream) -> CUstream {
    ptr::without_provenance_mut(stream.as_raw().get())
}

/// The driver, with a hold on the primary context of one device.
pub(crate) struct RawCuda {
    functions: Functions,
    device: CUdevice,
    context: CUcontext,
}

impl RawCuda {
    /// Loads the driver's library, initialises it, and retains a device's primary context: what a C program does to
    /// reach its first device. The library is never unloaded.
    pub(crate) fn open(library: &OsStr, ordinal: c_int) -> Verdict<Self> {
        // SAFETY: the library is CUDA's driver, which is made for being loaded at run time, or what the user named as
        // such.
        let library = unsafe { Library::open(Some(library), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|error| Stop::Skipped(format!("the CUDA driver does not load: {error}")))?;
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: as above; it is never unloaded, so the functions stay valid.
        let functions = unsafe { Functions::load(library) }?;
        let (mut device, mut context): (CUdevice, CUcontext) = (0, ptr::null_mut());
        // SAFETY: 0 is the only flag; the pointers are valid for their calls.
        unsafe {
            check("cuInit", (functions.init)(0))?;
            check("cuDeviceGet", (functions.device_get)(&raw mut device, ordinal))?;
            check("cuDevicePrimaryCtxRetain", (functions.primary_ctx_retain)(&raw mut context, device))?;
        }
        Ok(Self { functions, device, context })
    }

    /// Makes the context current on this thread. Everything below needs that.
    pub(crate) fn make_current(&self) -> Verdict {
        // SAFETY: the context is retained, so live.
        check("cuCtxSetCurrent", unsafe { (self.functions.ctx_set_current)(self.context) })
    }

    /// Asks for the current context this many times.
    pub(crate) fn ask_current(&self, calls: u32) -> Verdict<Duration> {
        let mut context = ptr::null_mut();
        let start = Instant::now();
        for _ in 0..calls {
            // SAFETY: the pointer is valid for the call.
            check("cuCtxGetCurrent", unsafe { (self.functions.ctx_get_current)(&raw mut context) })?;
        }
        let taken = start.elapsed();
        ensure_eq!(context, self.context, "the current context");
        Ok(taken)
    }

    /// Pushes the context and pops it again this many times.
    pub(crate) fn push_and_pop(&self, calls: u32) -> Verdict<Duration> {
        let mut popped = ptr::null_mut();
        let start = Instant::now();
        for _ in 0..calls {
            // SAFETY: the context is live; what was pushed is popped on the same thread; the pointer is valid.
            unsafe {
                check("cuCtxPushCurrent", (self.functions.ctx_push_current)(self.context))?;
                check("cuCtxPopCurrent", (self.functions.ctx_pop_current)(&raw mut popped))?;
            }
        }
        let taken = start.elapsed();
        ensure_eq!(popped, self.context, "the context popped");
        Ok(taken)
    }

    /// Signals the whole batch `calls` times with rising values, from `first` on. Answers what the calls took; waits
    /// for the stream afterwards.
    pub(crate) fn signals(
        &self,
        stream: &Stream,
        batch: &mut SemaphoreBatch<'_>,
        first: u64,
        calls: u64,
    ) -> Verdict<Duration> {
        let stream = raw(stream);
        let start = Instant::now();
        for value in first..first + calls {
            let (semaphores, params) = batch.signal_to(value);
            // SAFETY: both arrays have `count` elements; semaphores and stream are borrowed from objects of the same
            // device's primary context, and the work has run when this function returns.
            check("cuSignalExternalSemaphoresAsync", unsafe {
                (self.functions.signal)(semaphores, params, batch.count, stream)
            })?;
        }
        let taken = start.elapsed();
        self.synchronize(stream)?;
        Ok(taken)
    }

    /// As [`Self::signals`], waiting for one value, which should be there already.
    pub(crate) fn waits(
        &self,
        stream: &Stream,
        batch: &mut SemaphoreBatch<'_>,
        value: u64,
        calls: u64,
    ) -> Verdict<Duration> {
        let stream = raw(stream);
        let start = Instant::now();
        for _ in 0..calls {
            let (semaphores, params) = batch.wait_for(value);
            // SAFETY: as in `signals`.
            check("cuWaitExternalSemaphoresAsync", unsafe {
                (self.functions.wait)(semaphores, params, batch.count, stream)
            })?;
        }
        let taken = start.elapsed();
        self.synchronize(stream)?;
        Ok(taken)
    }

    /// Waits for `ready`, copies, signals `done`, and blocks until that has run.
    pub(crate) fn take_frame(
        &self,
        stream: &Stream,
        ready: (&mut SemaphoreBatch<'_>, u64),
        done: (&mut SemaphoreBatch<'_>, u64),
        target: BufferSlice<'_>,
        source: BufferSlice<'_>,
    ) -> Verdict {
        let stream = raw(stream);
        let enqueued = self.enqueue_frame(stream, ready, done, target, source);
        self.synchronize(stream)?;
        enqueued
    }

    fn enqueue_frame(
        &self,
        stream: CUstream,
        (ready, ready_value): (&mut SemaphoreBatch<'_>, u64),
        (done, done_value): (&mut SemaphoreBatch<'_>, u64),
        target: BufferSlice<'_>,
        source: BufferSlice<'_>,
    ) -> Verdict {
        ensure_eq!(target.size(), source.size(), "sizes of a frame");
        let (size, target, source) = (bytes(source.size())?, target.as_raw().get(), source.as_raw().get());
        let (semaphores, params) = ready.wait_for(ready_value);
        // SAFETY: as in `signals`.
        check("cuWaitExternalSemaphoresAsync", unsafe {
            (self.functions.wait)(semaphores, params, ready.count, stream)
        })?;
        // SAFETY: both ranges are borrowed by the only caller until the copy has run, and have this size.
        check("cuMemcpyDtoDAsync", unsafe { (self.functions.memcpy_dtod_async)(target, source, size, stream) })?;
        let (semaphores, params) = done.signal_to(done_value);
        // SAFETY: as in `signals`.
        check("cuSignalExternalSemaphoresAsync", unsafe {
            (self.functions.signal)(semaphores, params, done.count, stream)
        })
    }

    fn synchronize(&self, stream: CUstream) -> Verdict {
        // SAFETY: the callers borrow the stream.
        check("cuStreamSynchronize", unsafe { (self.functions.stream_synchronize)(stream) })
    }
}

impl Drop for RawCuda {
    fn drop(&mut self) {
        // SAFETY: retained once, released once. A thread on which it is still current holds no reference to it.
        let status = unsafe { (self.functions.primary_ctx_release)(self.device) };
        if let Err(stop) = check("cuDevicePrimaryCtxRelease", status) {
            tracing::warn!(reason = stop.reason(), "the primary context could not be released");
        }
    }
}

fn bytes(size: u64) -> Verdict<usize> {
    usize::try_from(size).map_err(|error| Stop::Failed(error.to_string()))
}

/// Semaphores with a parameter block each, kept from call to call.
pub(crate) struct SemaphoreBatch<'a> {
    semaphores: Vec<CUexternalSemaphore>,
    signals: Vec<CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS>,
    waits: Vec<CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS>,
    count: c_uint,
    /// The semaphores live as long as this.
    owners: PhantomData<&'a ExternalSemaphore>,
}

impl<'a> SemaphoreBatch<'a> {
    pub(crate) fn new(semaphores: &'a [ExternalSemaphore]) -> Verdict<Self> {
        // SAFETY: integers and raw pointers only, in structs and unions: all zeros are values of both types.
        let (signal, wait) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        Ok(Self {
            semaphores: semaphores.iter().map(|each| ptr::without_provenance_mut(each.as_raw().get())).collect(),
            signals: vec![signal; semaphores.len()],
            waits: vec![wait; semaphores.len()],
            count: c_uint::try_from(semaphores.len()).map_err(|error| Stop::Failed(error.to_string()))?,
            owners: PhantomData,
        })
    }

    #[inline]
    fn signal_to(&mut self, value: u64) -> (*const CUexternalSemaphore, *const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS) {
        for params in &mut self.signals {
            params.params.fence.value = value;
        }
        (self.semaphores.as_ptr(), self.signals.as_ptr())
    }

    #[inline]
    fn wait_for(&mut self, value: u64) -> (*const CUexternalSemaphore, *const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS) {
        for params in &mut self.waits {
            params.params.fence.value = value;
        }
        (self.semaphores.as_ptr(), self.waits.as_ptr())
    }
}

/// An import made by hand, and its mapping. What was not freed when it is dropped, after an error, is freed then.
pub(crate) struct RawImport<'a> {
    cuda: &'a RawCuda,
    memory: CUexternalMemory,
    /// 0 without a mapping.
    buffer: CUdeviceptr,
    mapped: u64,
}

impl<'a> RawImport<'a> {
    /// Imports memory; the driver takes the descriptor over.
    #[inline]
    pub(crate) fn new(cuda: &'a RawCuda, fd: OwnedFd, size: u64, dedicated: bool) -> Verdict<Self> {
        // After a failure the driver may have closed the descriptor or not; leaked is the safer guess, and a failure
        // ends the measurement.
        let fd = fd.into_raw_fd();
        // The whole union, as C's `memset` would have it.
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
        ensure!(self.buffer != 0 && self.mapped >= 4, "there is no mapping to read");
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
        // Errors have been reported by whatever ended this early.
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

    /// Copies the first half over the second this many times, and blocks until that has run. Answers how long all of
    /// it took.
    pub(crate) fn copy_halves(&self, stream: &Stream, copies: u32) -> Verdict<Duration> {
        let stream = raw(stream);
        let half = self.size / 2;
        let size = bytes(half)?;
        let start = Instant::now();
        for _ in 0..copies {
            // SAFETY: both halves are inside this allocation, disjoint, and live until the copy has run.
            check("cuMemcpyDtoDAsync", unsafe {
                (self.cuda.functions.memcpy_dtod_async)(self.address + half, self.address, size, stream)
            })?;
        }
        self.cuda.synchronize(stream)?;
        Ok(start.elapsed())
    }
}

impl Drop for NativeMemory<'_> {
    fn drop(&mut self) {
        // SAFETY: allocated once, freed once; `cuMemFree` waits for copies that an early return left behind.
        let status = unsafe { (self.cuda.functions.mem_free)(self.address) };
        if let Err(stop) = check("cuMemFree", status) {
            tracing::warn!(reason = stop.reason(), "memory could not be freed");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    /// The sizes and offsets that a C compiler gives for NVIDIA's header, for what this file fills in.
    #[test]
    fn parameter_blocks_are_laid_out_as_in_c() {
        assert_eq!(size_of::<CUDA_EXTERNAL_MEMORY_HANDLE_DESC>(), 104);
        assert_eq!(offset_of!(CUDA_EXTERNAL_MEMORY_HANDLE_DESC, handle), 8);
        assert_eq!(offset_of!(CUDA_EXTERNAL_MEMORY_HANDLE_DESC, size), 24);
        assert_eq!(offset_of!(CUDA_EXTERNAL_MEMORY_HANDLE_DESC, flags), 32);
        assert_eq!(size_of::<CUDA_EXTERNAL_MEMORY_BUFFER_DESC>(), 88);
        assert_eq!(offset_of!(CUDA_EXTERNAL_MEMORY_BUFFER_DESC, flags), 16);
        assert_eq!(size_of::<CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS>(), 144);
        assert_eq!(offset_of!(CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, flags), 72);
        assert_eq!(size_of::<CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS>(), 144);
        assert_eq!(offset_of!(CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, flags), 72);
    }

    #[test]
    fn a_library_that_is_no_driver_is_an_answer() {
        let missing = RawCuda::open(OsStr::new("/nonexistent/libcuda.so.1"), 0).err().expect("no such file");
        assert!(matches!(missing, Stop::Skipped(_)), "{missing}");
        let other = RawCuda::open(OsStr::new("libc.so.6"), 0).err().expect("not a driver");
        assert!(matches!(&other, Stop::Unsupported(reason) if reason.contains("cuInit")), "{other}");
    }
}
