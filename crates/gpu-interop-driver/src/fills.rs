//! Fills: streams with fills that a semaphore signal could overtake
//! ([`Vendor::OVERTAKEN_FILLS`](crate::Vendor::OVERTAKEN_FILLS)), and fills implemented as copies, for drivers with defective
//! fills ([`Vendor::fills_by_copies`]).
//!
//! For copied fills, a device owns a buffer with 256 bytes of every byte value. A fill copies one run of it to the start of
//! the target, then doubles the filled part with copies within the target.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use gpu_interop_core::sync::lock;
use gpu_interop_core::{Error, ErrorKind, Result};

use crate::call::call;
use crate::driver::{Driver, Vendor};
use crate::functions::{DeviceAddress, DeviceNumber, Handle};
use crate::progress;

/// Streams with a fill that no fence follows yet.
#[derive(Debug, Default)]
pub(crate) struct Unfenced {
    /// The number of the last fill of each.
    streams: Mutex<HashMap<Handle, Fill>>,
    /// Number of such streams, so that signals skip the lock in the common case of none.
    count: AtomicUsize,
    /// Number of fills so far.
    fills: AtomicU64,
}

/// The number of a fill, of all streams of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fill(u64);

impl Unfenced {
    fn change<T>(&self, change: impl FnOnce(&mut HashMap<Handle, Fill>) -> T) -> T {
        let mut streams: MutexGuard<'_, _> = lock(&self.streams);
        let result = change(&mut streams);
        // Relaxed: a signal that must follow another thread's fill is already ordered after that call.
        self.count.store(streams.len(), Ordering::Relaxed);
        result
    }

    /// Notes a fill that was enqueued. Not before: another thread's signal could put its fence before the fill.
    pub(crate) fn add(&self, stream: Handle) {
        let fill = Fill(self.fills.fetch_add(1, Ordering::Relaxed));
        self.change(|streams| streams.insert(stream, fill));
    }

    /// `true` if no stream needs a fence.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// The last fill of a stream that needs a fence.
    pub(crate) fn last(&self, stream: Handle) -> Option<Fill> {
        self.change(|streams| streams.get(&stream).copied())
    }

    /// Notes that a fence was enqueued behind a fill: the stream needs none unless there is a later fill. Not before:
    /// another thread's signal would not wait for the fence.
    pub(crate) fn fenced(&self, stream: Handle, fill: Fill) {
        self.change(|streams| {
            if streams.get(&stream) == Some(&fill) {
                streams.remove(&stream);
            }
        });
    }

    /// Forgets a stream that is destroyed.
    pub(crate) fn forget(&self, stream: Handle) {
        if !self.is_empty() {
            self.change(|streams| streams.remove(&stream));
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_needs_one_fence_for_all_its_fills() {
        let unfenced = Unfenced::default();
        let fence = |stream| match unfenced.last(stream) {
            Some(fill) => {
                unfenced.fenced(stream, fill);
                true
            }
            None => false,
        };
        assert!(!fence(1) && unfenced.is_empty());
        unfenced.add(1);
        unfenced.add(1);
        unfenced.add(2);
        assert!(!fence(3));
        assert!(fence(1) && !fence(1));
        assert!(!unfenced.is_empty());
        assert!(fence(2) && !fence(2));
        assert!(unfenced.is_empty());
        unfenced.add(1);
        unfenced.forget(1);
        assert!(unfenced.is_empty());
    }

    #[test]
    fn a_fill_behind_a_fence_needs_another() {
        let unfenced = Unfenced::default();
        unfenced.add(1);
        let first = unfenced.last(1).expect("a fill");
        // Another thread fills while this one enqueues the fence.
        unfenced.add(1);
        unfenced.fenced(1, first);
        let second = unfenced.last(1).expect("the later fill");
        // Two threads enqueue a fence each.
        unfenced.fenced(1, second);
        unfenced.fenced(1, second);
        assert!(unfenced.is_empty());
    }
}
