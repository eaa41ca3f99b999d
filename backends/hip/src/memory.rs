//! Memory of the runtime: signal memory, which streams can wait for, and ordinary device memory.

use std::ffi::{c_uint, c_void};
use std::ptr::NonNull;

use gpu_interop_core::backend::SignalMemory;
use gpu_interop_core::{DevicePtr, Error, ErrorKind, Result};
use gpu_interop_driver::{DeviceAddress, Driver, DriverFunction, Status};

use crate::Hip;

const OPERATION: &str = "hipExtMallocWithFlags";
const ALLOCATE: &str = "hipMalloc";
/// `hipMallocSignalMemory`: the only memory that streams of older runtimes can wait for, allocated as single words.
const SIGNAL_MEMORY: c_uint = 2;
const WORD: usize = 8;

/// Allocates a zeroed word of signal memory. Returns `None` if the runtime has no such memory; newer runtimes wait for
/// words in any memory.
pub(crate) fn allocate(driver: &Driver<Hip>) -> Result<Option<SignalMemory>> {
    let Some(allocate) = driver.own.ext_malloc.get() else { return Ok(None) };
    let mut host: *mut c_void = std::ptr::null_mut();
    // SAFETY: the pointer is valid for the call.
    let status = unsafe { allocate.traced(OPERATION, (&raw mut host, WORD, SIGNAL_MEMORY)) };
    if let Status::INVALID_VALUE | Status::NOT_SUPPORTED = status {
        let error = driver.check(OPERATION, status).err();
        tracing::debug!(error = ?error, "no signal memory; using pinned memory");
        return Ok(None);
    }
    driver.check(OPERATION, status)?;
    let Some(word) = NonNull::new(host.cast::<u8>()) else {
        return Err(Error::new(ErrorKind::Driver, OPERATION, "the runtime reported success but returned no memory"));
    };
    // SAFETY: the runtime allocated a word, which has no other user yet; the host can access signal memory at its
    // device address.
    unsafe { word.cast::<u64>().write(0) };
    Ok(Some(SignalMemory { host: word, ptr: DevicePtr::new(host.addr() as u64), size: WORD }))
}

/// Allocates ordinary memory of the current device.
pub(crate) fn allocate_ordinary(driver: &Driver<Hip>, size: usize) -> Result<DeviceAddress> {
    let allocate = driver.own.malloc.require(&driver.version)?;
    let mut memory: DeviceAddress = 0;
    // SAFETY: the pointer is valid for the call.
    driver.check(ALLOCATE, unsafe { allocate.traced(ALLOCATE, (&raw mut memory, size)) })?;
    if memory == 0 {
        return Err(Error::new(ErrorKind::Driver, ALLOCATE, "the runtime reported success but returned no memory"));
    }
    Ok(memory)
}

/// Frees memory of [`allocate`]. Returns `None` for other memory.
///
/// # Safety
/// The memory is live and not used afterwards, and the device is current.
pub(crate) unsafe fn free(driver: &Driver<Hip>, memory: SignalMemory) -> Option<Result<()>> {
    // Pinned memory has whole pages.
    // SAFETY: the caller's promise.
    (memory.size == WORD).then(|| unsafe { driver.free(memory.ptr.get()) })
}
