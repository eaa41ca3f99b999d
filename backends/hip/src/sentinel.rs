//! Detection of a reset of a device by another library (`hipDeviceReset`).
//!
//! HIP has no contexts. A reset destroys the streams of a device and frees its memory; afterwards the runtime takes an old
//! handle for a new object at the same address (6.4.3, 7.2.4), or crashes (`hipStreamQuery`, 7.2.4). The number of an
//! allocation is never reused, and a reset ends every allocation of `hipMalloc`: a small one, the *sentinel*, shows whether
//! the device was reset. Memory of `hipHostMalloc` ends only on machines with one device. Measured with AMD's runtimes
//! 5.2.3, 5.7.1, 6.4.3 and 7.2.4 on an emulated kernel driver.

use std::ffi::c_int;

use gpu_interop_core::{Error, Result};
use gpu_interop_driver::{DeviceAddress, Driver, Status};

use crate::{Hip, memory};

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
                unsafe { free(driver, address) };
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
            Ok(true) => unsafe { free(driver, self.address) },
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
unsafe fn free(driver: &Driver<Hip>, address: DeviceAddress) {
    // SAFETY: the caller's promise.
    if let Err(error) = unsafe { driver.free(address) } {
        report(&error);
    }
}

fn report(error: &Error) {
    tracing::warn!(%error, "freeing the sentinel failed; it is leaked");
}
