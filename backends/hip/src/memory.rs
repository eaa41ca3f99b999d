//! Memory of the runtime: signal memory, which streams can wait for, and ordinary device memory.
//!
//! Detection of a reset of a device by another library (`hipDeviceReset`).
//!
//! HIP has no contexts. A reset destroys the streams of a device and frees its memory; afterwards the runtime takes an old
//! handle for a new object at the same address (6.4.3, 7.2.4), or crashes (`hipStreamQuery`, 7.2.4). The number of an
//! allocation is never reused, and a reset ends every allocation of `hipMalloc`: a small one, the *sentinel*, shows whether
//! the device was reset. Memory of `hipHostMalloc` ends only on machines with one device. Measured with AMD's runtimes
//! 5.2.3, 5.7.1, 6.4.3 and 7.2.4 on an emulated kernel driver.

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

const ATTRIBUTE: &str = "hipPointerGetAttribute";
/// `HIP_POINTER_ATTRIBUTE_BUFFER_ID`: the number of an allocation.
const BUFFER_ID: c_int = 7;
/// Bytes. The runtime allocates whole pages.
const SIZE: usize = 64;

/// An allocation and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sentinel {
    address: DeviceAddress,
    number: u64,
}

impl Sentinel {
    /// Allocates a sentinel on the current device. Returns `None` if the runtime lacks a function or memory: resets are
    /// not detected then.
    pub(crate) fn place(driver: &Driver<Hip>) -> Option<Self> {
        driver.own.malloc.get()?;
        driver.own.pointer_get_attribute.get()?;
        let allocated = memory::allocate_ordinary(driver, SIZE);
        let address =
            allocated.inspect_err(|error| tracing::warn!(%error, "a reset of the device will not be noticed")).ok()?;
        match number(driver, address) {
            Some((Status::SUCCESS, number)) if number != 0 => Some(Self { address, number }),
            status => {
                tracing::debug!(?status, "allocations have no number: a reset of the device will not be detected");
                // SAFETY: allocated above and not used afterwards; the device is current.
                unsafe { free_sentinel(driver, address) };
                None
            }
        }
    }

    /// Returns `false` if the device was reset since the sentinel was placed.
    ///
    /// # Errors
    /// The runtime's error, if it is not that of an unknown address.
    #[inline]
    pub(crate) fn is_alive(self, driver: &Driver<Hip>) -> Result<bool> {
        match number(driver, self.address) {
            None => Ok(true),
            Some((Status::SUCCESS, number)) => Ok(number == self.number),
            Some((Status::INVALID_VALUE, _)) => Ok(false),
            Some((status, _)) => driver.check(ATTRIBUTE, status).map(|()| true),
        }
    }

    /// Frees the sentinel, unless the device was reset. The device is current; the call may wait for its streams.
    pub(crate) fn remove(self, driver: &Driver<Hip>) {
        match self.is_alive(driver) {
            // SAFETY: this allocation is live, because the runtime reports its number, and was made by `place`; the device
            // is current.
            Ok(true) => unsafe { free_sentinel(driver, self.address) },
            Ok(false) => {}
            Err(error) => report(&error),
        }
    }
}

/// Status of the query of an allocation's number, and the number. Not traced: it precedes most calls.
#[inline]
fn number(driver: &Driver<Hip>, address: DeviceAddress) -> Option<(Status, u64)> {
    let (mut number, query) = (0_u64, driver.own.pointer_get_attribute.get()?);
    // SAFETY: the attribute is a number of 64 bits, and the pointer is valid for the call; an unknown address is an error.
    let status = unsafe { query((&raw mut number).cast(), BUFFER_ID, address) };
    Some((status, number))
}

/// # Safety
/// The address is that of a live allocation, and not used afterwards; the device is current.
unsafe fn free_sentinel(driver: &Driver<Hip>, address: DeviceAddress) {
    // SAFETY: the caller's promise.
    if let Err(error) = unsafe { driver.free(address) } {
        report(&error);
    }
}

fn report(error: &Error) {
    tracing::warn!(%error, "freeing the sentinel failed; it is leaked");
}
