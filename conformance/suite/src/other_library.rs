//! Another library of the process that uses the driver of the device under test: it resets the device, and has contexts and
//! streams.

use std::ffi::{c_int, c_uint, c_void};

use libloading::Library;

use crate::backend_under_test::DriverApi;
use crate::context::Context;
use crate::device_memory::call;
use crate::ensure_eq;
use crate::outcome::{Stop, Verdict};
use crate::pattern::Pattern;

/// Number and size in bytes of its allocations. It gets the addresses that a reset has freed.
const COUNT: usize = 64;
const SIZE: usize = 1 << 20;

/// A library that uses the driver directly, on the calling thread.
pub(crate) struct OtherLibrary {
    driver: Library,
    api: DriverApi,
    ordinal: c_int,
    memory: Vec<u64>,
    /// Number of references to the context.
    contexts: usize,
}

impl OtherLibrary {
    /// Loads the driver of the device under test.
    ///
    /// # Errors
    /// Unsupported for a backend without a known driver API.
    pub(crate) fn of(context: &Context) -> Verdict<Self> {
        let api = context.driver_api()?;
        let Some(file) = &context.backend().info().library else {
            return Err(Stop::unsupported("another library: the file of the driver is not known".into()));
        };
        // SAFETY: the backend has loaded this file, so no initialiser runs.
        let driver = unsafe { Library::new(file) }?;
        Ok(Self { driver, api, ordinal: c_int::try_from(context.ordinal())?, memory: Vec::new(), contexts: 0 })
    }

    /// Resets the device: every object of the process on it ends.
    pub(crate) fn reset(&self) -> Verdict {
        match self.api {
            DriverApi::Cuda => call!(self.cuDevicePrimaryCtxReset_v2(self.device()? => c_int)),
            DriverApi::Hip => {
                call!(self.hipSetDevice(self.ordinal => c_int))?;
                call!(self.hipDeviceReset())
            }
        }
    }

    /// Begins to use the device, after the reset, with memory that has the pattern.
    pub(crate) fn begin(&mut self, pattern: Pattern) -> Verdict {
        self.memory.clear();
        if self.api == DriverApi::Cuda {
            let mut context = 0;
            call!(self.cuDevicePrimaryCtxRetain(&raw mut context => *mut usize, self.device()? => c_int))?;
            self.contexts += 1;
            call!(self.cuCtxSetCurrent(context => usize))?;
        }
        let bytes = pattern.bytes(0, SIZE);
        for _ in 0..COUNT {
            let (mut memory, data) = (0, bytes.as_ptr().cast());
            match self.api {
                DriverApi::Cuda => {
                    call!(self.cuMemAlloc_v2(&raw mut memory => *mut u64, SIZE => usize))?;
                    call!(self.cuMemcpyHtoD_v2(memory => u64, data => *const c_void, SIZE => usize))?;
                }
                DriverApi::Hip => {
                    call!(self.hipMalloc(&raw mut memory => *mut u64, SIZE => usize))?;
                    let (stream, to) = (0, memory);
                    call!(self.hipMemcpyHtoDAsync(to => u64, data => *const c_void, SIZE => usize, stream => usize))?;
                    call!(self.hipStreamSynchronize(stream => usize))?;
                }
            }
            self.memory.push(memory);
        }
        Ok(())
    }

    /// Checks that its memory is still allocated, with the pattern, and frees it and the context.
    pub(crate) fn end(&mut self, pattern: Pattern) -> Verdict {
        let (expected, mut bytes) = (pattern.bytes(0, SIZE), vec![0_u8; SIZE]);
        for memory in std::mem::take(&mut self.memory) {
            let data = bytes.as_mut_ptr().cast();
            match self.api {
                DriverApi::Cuda => {
                    call!(self.cuMemcpyDtoH_v2(data => *mut c_void, memory => u64, SIZE => usize))?;
                    call!(self.cuMemFree_v2(memory => u64))?;
                }
                DriverApi::Hip => {
                    let (stream, from) = (0, memory);
                    call!(self.hipMemcpyDtoHAsync(data => *mut c_void, from => u64, SIZE => usize, stream => usize))?;
                    call!(self.hipStreamSynchronize(stream => usize))?;
                    call!(self.hipFree(memory => u64))?;
                }
            }
            let wrong = bytes.iter().zip(&expected).filter(|(found, expected)| found != expected).count();
            ensure_eq!(wrong, 0, "wrong bytes in the memory of the other library at {memory:#x}");
        }
        for _ in 0..std::mem::take(&mut self.contexts) {
            call!(self.cuDevicePrimaryCtxRelease_v2(self.device()? => c_int))?;
        }
        Ok(())
    }

    /// The handle of the context that is current on this thread; 0 for none. Only for CUDA, as the next ones.
    pub(crate) fn current(&self) -> Verdict<usize> {
        let mut context = 0;
        call!(self.cuCtxGetCurrent(&raw mut context => *mut usize))?;
        Ok(context)
    }

    /// Creates a context of its own, which is current on this thread then.
    pub(crate) fn create_context(&self) -> Verdict<usize> {
        let mut context = 0;
        call!(self.cuCtxCreate_v2(&raw mut context => *mut usize, 0 => c_uint, self.device()? => c_int))?;
        Ok(context)
    }

    /// Destroys a context that is current on this thread, which has none then.
    pub(crate) fn destroy_context(&self, context: usize) -> Verdict {
        call!(self.cuCtxDestroy_v2(context => usize))
    }

    /// Makes the context that all libraries share current on this thread.
    pub(crate) fn enter_shared(&self) -> Verdict<usize> {
        let mut context = 0;
        call!(self.cuDevicePrimaryCtxRetain(&raw mut context => *mut usize, self.device()? => c_int))?;
        call!(self.cuCtxSetCurrent(context => usize))?;
        Ok(context)
    }

    /// Ends what [`enter_shared`](Self::enter_shared) began.
    pub(crate) fn leave_shared(&self) -> Verdict {
        call!(self.cuCtxSetCurrent(0 => usize))?;
        call!(self.cuDevicePrimaryCtxRelease_v2(self.device()? => c_int))
    }

    /// Creates a stream in the context that all libraries share, which the device under test keeps.
    pub(crate) fn create_stream(&self) -> Verdict<usize> {
        const NON_BLOCKING: c_uint = 1;
        let mut stream = 0;
        self.in_shared(|| match self.api {
            DriverApi::Cuda => call!(self.cuStreamCreate(&raw mut stream => *mut usize, NON_BLOCKING => c_uint)),
            DriverApi::Hip => {
                call!(self.hipStreamCreateWithFlags(&raw mut stream => *mut usize, NON_BLOCKING => c_uint))
            }
        })?;
        Ok(stream)
    }

    /// Creates a stream in the context that is current on this thread. Only for CUDA, as the next one.
    pub(crate) fn create_stream_here(&self) -> Verdict<usize> {
        let mut stream = 0;
        call!(self.cuStreamCreate(&raw mut stream => *mut usize, 1 => c_uint))?;
        Ok(stream)
    }

    pub(crate) fn destroy_stream_here(&self, stream: usize) -> Verdict {
        call!(self.cuStreamDestroy_v2(stream => usize))
    }

    /// Destroys a stream without pending work.
    pub(crate) fn destroy_stream(&self, stream: usize) -> Verdict {
        self.in_shared(|| match self.api {
            DriverApi::Cuda => call!(self.cuStreamDestroy_v2(stream => usize)),
            DriverApi::Hip => call!(self.hipStreamDestroy(stream => usize)),
        })
    }

    /// Runs `work` with the context that all libraries share.
    fn in_shared(&self, work: impl FnOnce() -> Verdict) -> Verdict {
        if self.api == DriverApi::Hip {
            call!(self.hipSetDevice(self.ordinal => c_int))?;
            return work();
        }
        let before = self.current()?;
        self.enter_shared()?;
        let worked = work();
        self.leave_shared()?;
        call!(self.cuCtxSetCurrent(before => usize))?;
        worked
    }

    fn device(&self) -> Verdict<c_int> {
        let mut device = 0;
        call!(self.cuDeviceGet(&raw mut device => *mut c_int, self.ordinal => c_int))?;
        Ok(device)
    }
}
