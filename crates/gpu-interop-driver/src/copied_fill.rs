//! Fills as copies, for drivers whose fills are not to be used ([`Vendor::fills_by_copies`]).
//!
//! A device keeps memory of its own with some bytes of every value. A fill copies those to the beginning of its target,
//! and then what is filled behind itself, twice as much each time.

use gpu_interop_core::{Error, ErrorKind, Result};

use crate::call::call;
use crate::driver::Driver;
use crate::functions::{DeviceAddress, DeviceNumber, Handle};
use crate::progress;
use crate::vendor::Vendor;

/// Bytes of each value.
const RUN: usize = 256;
/// There is one for each value of a byte.
const VALUES: usize = 256;

/// Memory of the device with [`RUN`] bytes of every value.
#[derive(Debug)]
pub(crate) struct Values(DeviceAddress);

impl Values {
    /// Allocates and writes them. The device is current.
    ///
    /// # Errors
    /// What the driver answers.
    pub(crate) fn new<V: Vendor>(driver: &Driver<V>, device: DeviceNumber) -> Result<Self> {
        let values = Self(V::allocate(driver, RUN * VALUES)?);
        match values.write(driver, device) {
            Ok(()) => Ok(values),
            Err(error) => {
                // SAFETY: a copy that may be pending is of this memory alone, which the driver frees behind it.
                unsafe { values.free(driver) };
                Err(error)
            }
        }
    }

    fn write<V: Vendor>(&self, driver: &Driver<V>, device: DeviceNumber) -> Result<()> {
        let bytes: Vec<u8> = (0..=u8::MAX).flat_map(|value| [value; RUN]).collect();
        let stream = V::create_stream(driver, device, || driver.create_stream())?;
        // SAFETY: the memory is as large, and the bytes are there until the stream is done.
        let copied = unsafe { call!(driver.memcpy_htod_async(self.0, bytes.as_ptr().cast(), bytes.len(), stream)) };
        // SAFETY: the stream is live.
        let done = copied.and_then(|()| unsafe { progress::synchronize(driver, stream) });
        if done.is_err() {
            // The copy may still read them.
            std::mem::forget(bytes);
        }
        // SAFETY: the stream is live, and not used elsewhere.
        if let Err(error) = unsafe { V::end_stream(driver, device, stream) } {
            tracing::warn!(%error, "a stream that was kept could not be destroyed");
        }
        done
    }

    /// Fills `size` bytes at `dst`, in the order of `stream`.
    ///
    /// # Errors
    /// What the driver answers. Part of it may have been enqueued.
    ///
    /// # Safety
    /// Stream and target are live and of this device, which is current, until the fill has run.
    pub(crate) unsafe fn fill<V: Vendor>(
        &self,
        driver: &Driver<V>,
        stream: Handle,
        dst: DeviceAddress,
        value: u8,
        size: usize,
    ) -> Result<()> {
        let mut filled = size.min(RUN);
        let run = self.0 + (usize::from(value) * RUN) as u64;
        // SAFETY: the caller's promise; the run is within this memory.
        unsafe { call!(driver.memcpy_dtod_async(dst, run, filled, stream)) }?;
        while filled < size {
            let more = filled.min(size - filled);
            let behind = dst.checked_add(filled as u64).ok_or_else(|| {
                let operation = driver.functions.memcpy_dtod_async.operation;
                Error::new(ErrorKind::InvalidArgument, operation, "the range ends behind the last address")
            })?;
            // SAFETY: the caller's promise; both are within the target, and do not overlap.
            unsafe { call!(driver.memcpy_dtod_async(behind, dst, more, stream)) }?;
            filled += more;
        }
        Ok(())
    }

    /// Frees the memory.
    ///
    /// # Safety
    /// No fill is pending, the device is current, and nothing is filled afterwards.
    pub(crate) unsafe fn free<V: Vendor>(&self, driver: &Driver<V>) {
        // SAFETY: the caller's promise.
        if let Err(error) = unsafe { driver.free(self.0) } {
            report(&error);
        }
    }
}

/// Says that a device's values stay.
pub(crate) fn report(error: &Error) {
    tracing::warn!(%error, "freeing the source of fills failed");
}
