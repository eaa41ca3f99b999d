//! Fills implemented as copies, for drivers with defective fills ([`Vendor::fills_by_copies`]).
//!
//! A device owns a buffer with 256 bytes of every byte value. A fill copies one run of it to the start of the target,
//! then doubles the filled part with copies within the target.

use gpu_interop_core::{Error, ErrorKind, Result};

use crate::call::call;
use crate::driver::Driver;
use crate::driver::Vendor;
use crate::functions::{DeviceAddress, DeviceNumber, Handle};
use crate::progress;

/// Bytes per value.
const RUN: usize = 256;
/// Number of byte values.
const VALUES: usize = 256;

/// Device memory with [`RUN`] bytes of every byte value.
#[derive(Debug)]
pub(crate) struct Values(DeviceAddress);

impl Values {
    /// Allocates and writes the memory. The device is current.
    ///
    /// # Errors
    /// The driver's error.
    pub(crate) fn new<V: Vendor>(driver: &Driver<V>, device: DeviceNumber) -> Result<Self> {
        let values = Self(V::allocate(driver, RUN * VALUES)?);
        match values.write(driver, device) {
            Ok(()) => Ok(values),
            Err(error) => {
                // SAFETY: only the copy in `write` uses this memory, and the driver frees memory after the copies that
                // use it.
                unsafe { values.free(driver) };
                Err(error)
            }
        }
    }

    fn write<V: Vendor>(&self, driver: &Driver<V>, device: DeviceNumber) -> Result<()> {
        let bytes: Vec<u8> = (0..=u8::MAX).flat_map(|value| [value; RUN]).collect();
        let stream = V::create_stream(driver, device, || driver.create_stream())?;
        // SAFETY: the memory is as large as `bytes`, which live until the stream is idle, else are leaked below.
        let copied = unsafe { call!(driver.memcpy_htod_async(self.0, bytes.as_ptr().cast(), bytes.len(), stream)) };
        // SAFETY: the stream is live.
        let done = copied.and_then(|()| unsafe { progress::synchronize(driver, stream) });
        if done.is_err() {
            // A pending copy may still read the bytes.
            std::mem::forget(bytes);
        }
        // SAFETY: the stream is live, and not used elsewhere.
        if let Err(error) = unsafe { V::end_stream(driver, device, stream) } {
            tracing::warn!(%error, "destroying a stream failed; it is leaked");
        }
        done
    }

    /// Fills `size` bytes at `dst`, in the order of `stream`.
    ///
    /// # Errors
    /// The driver's error. Some of the copies may have been enqueued.
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
            let rest = dst.checked_add(filled as u64).ok_or_else(|| {
                let operation = driver.functions.memcpy_dtod_async.operation;
                Error::new(ErrorKind::InvalidArgument, operation, "the range exceeds the address space")
            })?;
            // SAFETY: the caller's promise; both ranges are within the target and do not overlap.
            unsafe { call!(driver.memcpy_dtod_async(rest, dst, more, stream)) }?;
            filled += more;
        }
        Ok(())
    }

    /// Frees the memory. Failures are reported through `tracing`.
    ///
    /// # Safety
    /// No fill is pending or enqueued afterwards, and the device is current.
    pub(crate) unsafe fn free<V: Vendor>(&self, driver: &Driver<V>) {
        // SAFETY: the caller's promise.
        if let Err(error) = unsafe { driver.free(self.0) } {
            report(&error);
        }
    }
}

/// Reports that the memory is leaked.
pub(crate) fn report(error: &Error) {
    tracing::warn!(%error, "freeing the source buffer of fills failed; it is leaked");
}
