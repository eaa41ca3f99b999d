//! The driver's own functions, called as in C: looked up once, the context made current once, descriptors
//! passed without a duplicate, parameter blocks reused with new values.
//!
//! Types are `cudarc`'s, generated from NVIDIA's headers, except for status codes: an unknown value of its enum
//! would be undefined behaviour.

use std::ffi::{OsStr, c_int, c_uint, c_void};
use std::fs::File;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::panic::catch_unwind;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::sys::{
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC, CUDA_EXTERNAL_MEMORY_HANDLE_DESC, CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS,
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, CUcontext, CUdevice, CUdeviceptr, CUexternalMemory,
    CUexternalMemoryHandleType, CUexternalSemaphore, CUstream,
};
use cudarc::driver::{CudaContext, DriverError};
use gpu_interop::{BufferSlice, ExternalSemaphore, Stream};
use gpu_interop_conformance::{Stop, Verdict, ensure, ensure_eq};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::Steps;

/// `CUresult` as a number.
type Status = c_uint;
macro_rules! functions {
    ($( $field:ident: fn($($arg:ty),*) = $name:literal; )*) => {
        /// The functions, by their exported names.
        pub(super) struct Functions { $( pub(super) $field: unsafe extern "C" fn($($arg),*) -> Status, )* }

        impl Functions {
            /// # Safety
            /// The library must be CUDA's driver.
            unsafe fn load(library: &Library) -> Verdict<Self> {
                Ok(Self { $( $field: {
                    // SAFETY: the caller guarantees the library, and the table has the types of NVIDIA's headers.
                    let symbol = unsafe { library.get::<unsafe extern "C" fn($($arg),*) -> Status>($name) };
                    *symbol.map_err(|_| {
                        Stop::unsupported(format!("the driver has no {}", $name.to_string_lossy()))
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
    memcpy_htod: fn(CUdeviceptr, *const c_void, usize) = c"cuMemcpyHtoD_v2";
    memcpy_dtoh: fn(*mut c_void, CUdeviceptr, usize) = c"cuMemcpyDtoH_v2";
    memcpy_dtod_async: fn(CUdeviceptr, CUdeviceptr, usize, CUstream) = c"cuMemcpyDtoDAsync_v2";
    memset_d32_async: fn(CUdeviceptr, c_uint, usize, CUstream) = c"cuMemsetD32Async";
    signal: fn(*const CUexternalSemaphore, *const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, c_uint, CUstream)
        = c"cuSignalExternalSemaphoresAsync";
    wait: fn(*const CUexternalSemaphore, *const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, c_uint, CUstream)
        = c"cuWaitExternalSemaphoresAsync";
    stream_synchronize: fn(CUstream) = c"cuStreamSynchronize";
}

#[inline]
pub(super) fn check(function: &str, status: Status) -> Verdict {
    if status == 0 { Ok(()) } else { Err(failed(function, status)) }
}

#[cold]
fn failed(function: &str, status: Status) -> Stop {
    Stop::failed(format!("{function}, called directly: CUDA error {status}"))
}

/// The driver's handle of a stream. The driver never dereferences it in this process's memory.
pub(super) fn raw(stream: &Stream) -> CUstream {
    ptr::without_provenance_mut(stream.as_raw().get())
}

/// The driver, with a reference to the primary context of one device.
pub(crate) struct RawCuda {
    functions: Functions,
    device: CUdevice,
    context: CUcontext,
}

impl RawCuda {
    /// Loads and initialises the driver's library, and retains a device's primary context, as a C program does to
    /// reach its first device. The library is never unloaded.
    pub(crate) fn open(library: &OsStr, ordinal: c_int) -> Verdict<Self> {
        // SAFETY: the library is CUDA's driver, which is made for being loaded at run time, or what the user named as
        // such.
        let library = unsafe { Library::open(Some(library), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|error| Stop::skipped(format!("the CUDA driver does not load: {error}")))?;
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

    /// Makes the context current on this thread, as all functions below require.
    pub(crate) fn make_current(&self) -> Verdict {
        // SAFETY: the context is retained and therefore live.
        check("cuCtxSetCurrent", unsafe { (self.functions.ctx_set_current)(self.context) })
    }

    /// Queries the current context this many times.
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

    /// Pushes and pops the context this many times.
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

    /// Signals the whole batch once for each number; `set` sets its values. Returns the duration of the calls, and waits for
    /// the stream.
    pub(crate) fn signals(
        &self,
        stream: &Stream,
        batch: &mut SemaphoreBatch<'_>,
        numbers: Range<u64>,
        set: impl Fn(&mut SemaphoreBatch<'_>, u64),
    ) -> Verdict<Duration> {
        self.timed(raw(stream), numbers, |number, stream| {
            set(batch, number);
            self.signal(batch, stream)
        })
    }

    /// As [`Self::signals`], waiting for values that have been reached already.
    pub(crate) fn waits(
        &self,
        stream: &Stream,
        batch: &mut SemaphoreBatch<'_>,
        numbers: Range<u64>,
        set: impl Fn(&mut SemaphoreBatch<'_>, u64),
    ) -> Verdict<Duration> {
        self.timed(raw(stream), numbers, |number, stream| {
            set(batch, number);
            self.wait(batch, stream)
        })
    }

    /// The duration of a call for each number. Waits for the stream afterwards.
    fn timed(
        &self,
        stream: CUstream,
        mut numbers: Range<u64>,
        mut call: impl FnMut(u64, CUstream) -> Verdict,
    ) -> Verdict<Duration> {
        let start = Instant::now();
        let enqueued = numbers.try_for_each(|number| call(number, stream));
        let taken = start.elapsed();
        self.synchronize(stream)?;
        enqueued.map(|()| taken)
    }

    #[inline]
    fn signal(&self, batch: &SemaphoreBatch<'_>, stream: CUstream) -> Verdict {
        let (semaphores, params) = (batch.semaphores.as_ptr(), batch.signals.as_ptr());
        // SAFETY: both arrays have `count` elements; semaphores and stream are borrowed from objects of the same
        // device's primary context, and the work has completed when the caller returns.
        check("cuSignalExternalSemaphoresAsync", unsafe {
            (self.functions.signal)(semaphores, params, batch.count, stream)
        })
    }

    #[inline]
    fn wait(&self, batch: &SemaphoreBatch<'_>, stream: CUstream) -> Verdict {
        let (semaphores, params) = (batch.semaphores.as_ptr(), batch.waits.as_ptr());
        // SAFETY: as in `signal`.
        check("cuWaitExternalSemaphoresAsync", unsafe {
            (self.functions.wait)(semaphores, params, batch.count, stream)
        })
    }

    /// Enqueues a wait for the first value, work, and a signal of the second value. Then calls `then`, and
    /// blocks until the work has completed.
    pub(crate) fn answer<T>(
        &self,
        stream: &Stream,
        batch: &mut SemaphoreBatch<'_>,
        values: [u64; 2],
        answer: &Answer<'_>,
        then: impl FnOnce() -> Verdict<T>,
    ) -> Verdict<T> {
        let stream = raw(stream);
        let enqueued = self.enqueue(stream, batch, values, answer);
        let done = enqueued.and_then(|()| then());
        self.synchronize(stream)?;
        done
    }

    fn enqueue(
        &self,
        stream: CUstream,
        batch: &mut SemaphoreBatch<'_>,
        [waited, signalled]: [u64; 2],
        answer: &Answer<'_>,
    ) -> Verdict {
        let (target, source) = answer.copy;
        ensure_eq!(target.size(), source.size(), "sizes of a copy");
        batch.fill_waits(waited);
        self.wait(batch, stream)?;
        let (size, to, from) = (bytes(source.size())?, target.as_raw().get(), source.as_raw().get());
        // SAFETY: both ranges are borrowed by the only caller until the copy has run, and have this size.
        check("cuMemcpyDtoDAsync", unsafe { (self.functions.memcpy_dtod_async)(to, from, size, stream) })?;
        if let Some((target, word)) = answer.fill {
            let (words, to) = (bytes(target.size() / 4)?, target.as_raw().get());
            // SAFETY: as for the copy; there are as many words in the range, at least.
            check("cuMemsetD32Async", unsafe { (self.functions.memset_d32_async)(to, word, words, stream) })?;
        }
        batch.fill_signals(signalled);
        self.signal(batch, stream)
    }

    pub(super) fn synchronize(&self, stream: CUstream) -> Verdict {
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

pub(super) fn bytes(size: u64) -> Verdict<usize> {
    usize::try_from(size).map_err(|error| Stop::failed(error.to_string()))
}

/// A stream's work between a wait and a signal.
pub(crate) struct Answer<'a> {
    /// Destination and source of the copy.
    pub(crate) copy: (BufferSlice<'a>, BufferSlice<'a>),
    /// The range to fill, and the value.
    pub(crate) fill: Option<(BufferSlice<'a>, u32)>,
}

/// Semaphores with reusable parameter blocks.
pub(crate) struct SemaphoreBatch<'a> {
    semaphores: Vec<CUexternalSemaphore>,
    signals: Vec<CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS>,
    waits: Vec<CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS>,
    count: c_uint,
    /// Borrows the semaphores.
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
            count: c_uint::try_from(semaphores.len()).map_err(|error| Stop::failed(error.to_string()))?,
            owners: PhantomData,
        })
    }

    #[inline]
    pub(crate) fn fill_signals(&mut self, value: u64) {
        self.signals.iter_mut().for_each(|each| each.params.fence.value = value);
    }

    #[inline]
    pub(crate) fn set_signals(&mut self, values: &[u64]) {
        self.signals.iter_mut().zip(values).for_each(|(each, value)| each.params.fence.value = *value);
    }

    #[inline]
    pub(crate) fn fill_waits(&mut self, value: u64) {
        self.waits.iter_mut().for_each(|each| each.params.fence.value = value);
    }

    #[inline]
    pub(crate) fn set_waits(&mut self, values: &[u64]) {
        self.waits.iter_mut().zip(values).for_each(|(each, value)| each.params.fence.value = *value);
    }
}

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

fn cudarc_failed(what: &str, error: DriverError) -> Stop {
    Stop::failed(format!("cudarc, {what}: CUDA error {}", error.0 as u32))
}

/// `cudarc` with a reference to the primary context of one device.
pub(crate) struct Cudarc {
    context: Arc<CudaContext>,
}

impl Cudarc {
    /// Opens a device. `cudarc` loads the driver's library itself, and panics if it is missing or lacks a
    /// function.
    pub(crate) fn open(ordinal: usize) -> Verdict<Self> {
        // SAFETY: it loads the driver's library, which is made for being loaded at run time.
        let present = catch_unwind(|| unsafe { cudarc::driver::sys::is_culib_present() });
        if !present.unwrap_or(false) {
            return Err(Stop::skipped("cudarc finds no CUDA driver; it searches for libcuda.so itself".into()));
        }
        match catch_unwind(|| CudaContext::new(ordinal)) {
            Ok(Ok(context)) => Ok(Self { context }),
            Ok(Err(error)) => Err(cudarc_failed("opening the device", error)),
            Err(_) => Err(Stop::skipped("cudarc panicked when it opened the device".into())),
        }
    }

    /// The last word of an import of `size` bytes, copied by the binding's default stream.
    pub(crate) fn last_word(&self, fd: OwnedFd, size: u64) -> Verdict<u32> {
        let size_here = usize::try_from(size)?;
        ensure!(size_here >= 4, "the memory has no word");
        // SAFETY: the size is the allocation's, as the exporter reported it.
        let memory = unsafe { self.context.import_external_memory(File::from(fd), size) };
        let memory = memory.map_err(|error| cudarc_failed("import", error))?;
        let last = memory.map_range(size_here - 4..size_here).map_err(|error| cudarc_failed("map", error))?;
        let (stream, mut word) = (self.context.default_stream(), [0_u8; 4]);
        stream.memcpy_dtoh(&last, &mut word).map_err(|error| cudarc_failed("copy", error))?;
        stream.synchronize().map_err(|error| cudarc_failed("synchronize", error))?;
        Ok(u32::from_ne_bytes(word))
    }

    /// Imports and maps all of it; dropping it unmaps it and ends the import in one step.
    pub(crate) fn cycle(&self, fd: OwnedFd, size: u64) -> Verdict<Steps> {
        let file = File::from(fd);
        let start = Instant::now();
        // SAFETY: the size is the allocation's, as the exporter reported it.
        let memory = unsafe { self.context.import_external_memory(file, size) }
            .map_err(|error| cudarc_failed("import", error))?;
        let imported = Instant::now();
        let buffer = memory.map_all().map_err(|error| cudarc_failed("map", error))?;
        let mapped = Instant::now();
        drop(buffer);
        let dropped = Instant::now();
        // Errors of a drop.
        self.context.check_err().map_err(|error| cudarc_failed("free", error))?;
        Ok(Steps {
            import: imported - start,
            map: mapped - imported,
            free_and_destroy: None,
            release: dropped - mapped,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use gpu_interop_conformance::StopKind;

    use super::*;

    /// Sizes and offsets of the fields in use, from a C compiler with NVIDIA's header.
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
        assert_eq!(missing.kind, StopKind::Skipped, "{missing}");
        let other = RawCuda::open(OsStr::new("libc.so.6"), 0).err().expect("not a driver");
        assert!(other.kind == StopKind::Unsupported && other.reason.contains("cuInit"), "{other}");
    }
}
