//! Memory of the runtime: signal memory, whose words streams can wait for, and ordinary device memory.
//!
//! # Detecting a device reset
//! HIP has no contexts: `hipDeviceReset` of any library destroys all streams of the device and frees its memory.
//! Afterwards the runtime may accept an old handle for a new object at the same address (6.4.3, 7.2.4), or crash
//! (`hipStreamQuery`, 7.2.4).
//!
//! The *sentinel*, a small allocation of `hipMalloc`, detects the reset: a reset frees it, and the runtime never reuses
//! its buffer ID. Memory of `hipHostMalloc` is unsuitable, because a reset frees it only on machines with one device.
//! Measured with AMD's runtimes 5.2.3, 5.7.1, 6.4.3 and 7.2.4 on an emulated kernel driver.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::NonNull;

use gpu_interop_core::backend::SignalMemory;
use gpu_interop_core::{DevicePtr, Error, ErrorKind, Result};
use gpu_interop_driver::{DeviceAddress, Driver, DriverFunction, Status};

use crate::{Hip, memory};

const OPERATION: &str = "hipExtMallocWithFlags";
const ALLOCATE: &str = "hipMalloc";
/// `hipMallocSignalMemory`: the only memory that streams of older runtimes can wait for, allocated as single words.
const SIGNAL_MEMORY: c_uint = 2;
const WORD: usize = 8;

/// Allocates a zeroed word of signal memory. Returns `None` if the runtime has no signal memory. Streams of such newer
/// runtimes can wait for words in any memory.
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
    // SAFETY: the runtime just allocated the word, so it has no other user. The host can access signal memory at its
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

/// Frees memory from [`allocate`]. Returns `None` for pinned memory.
///
/// # Safety
/// The memory is live and not used afterwards, and the device is current.
pub(crate) unsafe fn free(driver: &Driver<Hip>, memory: SignalMemory) -> Option<Result<()>> {
    // Pinned memory has at least one page.
    // SAFETY: the caller's promise.
    (memory.size == WORD).then(|| unsafe { driver.free(memory.ptr.get()) })
}

const ATTRIBUTE: &str = "hipPointerGetAttribute";
/// `HIP_POINTER_ATTRIBUTE_BUFFER_ID`: the unique ID of an allocation.
const BUFFER_ID: c_int = 7;
/// Size of the sentinel in bytes. The runtime rounds it up to whole pages.
const SIZE: usize = 64;

/// A small allocation that detects a reset of its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sentinel {
    address: DeviceAddress,
    id: u64,
}

impl Sentinel {
    /// Allocates a sentinel on the current device. Returns `None` if the runtime lacks a function or memory. Resets of
    /// the device are then not detected.
    pub(crate) fn place(driver: &Driver<Hip>) -> Option<Self> {
        driver.own.malloc.get()?;
        driver.own.pointer_get_attribute.get()?;
        let allocated = memory::allocate_ordinary(driver, SIZE);
        let address =
            allocated.inspect_err(|error| tracing::warn!(%error, "a reset of the device will not be detected")).ok()?;
        match buffer_id(driver, address) {
            Some((Status::SUCCESS, id)) if id != 0 => Some(Self { address, id }),
            status => {
                tracing::debug!(?status, "allocations have no buffer ID: a reset of the device will not be detected");
                // SAFETY: allocated above and not used afterwards; the device is current.
                unsafe { free_sentinel(driver, address) };
                None
            }
        }
    }

    /// Returns `false` if the device was reset since the sentinel was placed.
    ///
    /// # Errors
    /// Errors of the runtime, except for an unknown address: the device was reset, so the result is `false`.
    #[inline]
    pub(crate) fn is_alive(self, driver: &Driver<Hip>) -> Result<bool> {
        match buffer_id(driver, self.address) {
            None => Ok(true),
            Some((Status::SUCCESS, id)) => Ok(id == self.id),
            Some((Status::INVALID_VALUE, _)) => Ok(false),
            Some((status, _)) => driver.check(ATTRIBUTE, status).map(|()| true),
        }
    }

    /// Frees the sentinel, unless the device was reset. The device is current. The call may wait for streams of the
    /// device.
    pub(crate) fn remove(self, driver: &Driver<Hip>) {
        match self.is_alive(driver) {
            // SAFETY: `place` made this allocation. The runtime reports its buffer ID, so it is live. The device is
            // current.
            Ok(true) => unsafe { free_sentinel(driver, self.address) },
            Ok(false) => {}
            Err(error) => report(&error),
        }
    }
}

/// Queries the buffer ID of an allocation. Returns the query's status and the ID, or `None` if the runtime lacks the
/// query. Not traced, because it precedes most calls.
#[inline]
fn buffer_id(driver: &Driver<Hip>, address: DeviceAddress) -> Option<(Status, u64)> {
    let (mut id, query) = (0_u64, driver.own.pointer_get_attribute.get()?);
    // SAFETY: the attribute has 64 bits, and the pointer is valid for the call. The runtime rejects an unknown address.
    let status = unsafe { query((&raw mut id).cast(), BUFFER_ID, address) };
    Some((status, id))
}

/// # Safety
/// The address is that of a live allocation and is not used afterwards. The device is current.
unsafe fn free_sentinel(driver: &Driver<Hip>, address: DeviceAddress) {
    // SAFETY: the caller's promise.
    if let Err(error) = unsafe { driver.free(address) } {
        report(&error);
    }
}

fn report(error: &Error) {
    tracing::warn!(%error, "freeing the sentinel failed; it is leaked");
}
