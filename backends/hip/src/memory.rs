//! Memory of the runtime: words that streams wait for, of which HIP has its own sort, and any other.

use std::ffi::{c_uint, c_void};
use std::ptr::NonNull;

use gpu_interop_core::backend::SignalMemory;
use gpu_interop_core::{DevicePtr, Error, ErrorKind, Result};
use gpu_interop_driver::{DeviceAddress, Driver, DriverFunction, Status};

use crate::vendor::Hip;

const OPERATION: &str = "hipExtMallocWithFlags";
const ALLOCATE: &str = "hipMalloc";
/// `hipMallocSignalMemory`: the only memory that older runtimes let streams wait for, in pieces of just one word.
const SIGNAL_MEMORY: c_uint = 2;
const WORD: usize = 8;

/// A word of signal memory, cleared; `None` where the runtime has no such memory. Newer ones wait for words in any.
pub(crate) fn allocate(driver: &Driver<Hip>) -> Result<Option<SignalMemory>> {
    let Some(allocate) = driver.own.ext_malloc.get() else { return Ok(None) };
    let mut host: *mut c_void = std::ptr::null_mut();
    // SAFETY: the pointer is valid for the call.
    let status = unsafe { allocate.traced(OPERATION, (&raw mut host, WORD, SIGNAL_MEMORY)) };
    if let Status::INVALID_VALUE | Status::NOT_SUPPORTED = status {
        let error = driver.check(OPERATION, status).err();
        tracing::debug!(error = ?error, "no signal memory; pinned memory takes its place");
        return Ok(None);
    }
    driver.check(OPERATION, status)?;
    let Some(word) = NonNull::new(host.cast::<u8>()) else {
        return Err(Error::new(ErrorKind::Driver, OPERATION, "the runtime reported success but gave no memory"));
    };
    // SAFETY: the runtime gave a word, which nothing else knows yet; the host accesses signal memory by its address.
    unsafe { word.cast::<u64>().write(0) };
    Ok(Some(SignalMemory { host: word, ptr: DevicePtr::new(host.addr() as u64), size: WORD }))
}

/// Memory of the current device that is for nothing special.
pub(crate) fn allocate_ordinary(driver: &Driver<Hip>, size: usize) -> Result<DeviceAddress> {
    let allocate = driver.own.malloc.require(&driver.version)?;
    let mut memory: DeviceAddress = 0;
    // SAFETY: the pointer is valid for the call.
    driver.check(ALLOCATE, unsafe { allocate.traced(ALLOCATE, (&raw mut memory, size)) })?;
    if memory == 0 {
        return Err(Error::new(ErrorKind::Driver, ALLOCATE, "the runtime reported success but gave no memory"));
    }
    Ok(memory)
}

/// Frees what [`allocate`] gave; `None` if it came from elsewhere.
///
/// # Safety
/// Live, nothing uses it any more, and the device is current.
pub(crate) unsafe fn free(driver: &Driver<Hip>, memory: SignalMemory) -> Option<Result<()>> {
    // Pinned memory comes in pages.
    // SAFETY: the caller's promise.
    (memory.size == WORD).then(|| unsafe { driver.free(memory.ptr.get()) })
}
