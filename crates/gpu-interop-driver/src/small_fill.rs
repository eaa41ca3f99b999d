//! Fills of a few bytes as copies, for drivers that cannot fill them.
//!
//! A device keeps one page of pinned memory with eight bytes of every value, from which such a fill is copied. Allocated
//! at the first one, freed with the device.

use std::sync::{Mutex, MutexGuard, PoisonError};

use gpu_interop_core::Result;
use gpu_interop_core::backend::SignalMemory;

use crate::driver::Driver;
use crate::functions::DeviceAddress;
use crate::signal_memory;
use crate::vendor::Vendor;

/// Bytes of each value.
const WORD: u8 = 8;

/// Whether a range ends within the 8 bytes in which it begins, and does not begin or end with them.
pub(crate) fn is_within_a_word(target: DeviceAddress, size: u64) -> bool {
    let word = u64::from(WORD);
    let first = target % word;
    first != 0 && size < word - first
}

/// Eight bytes of every value.
#[derive(Debug, Default)]
pub(crate) struct Values(Mutex<Option<SignalMemory>>);

impl Values {
    /// Where at least seven bytes of `value` are, until [`Values::free`]. The device is current.
    ///
    /// # Errors
    /// What the driver answers to the allocation (`hipHostMalloc`).
    pub(crate) fn of<V: Vendor>(&self, driver: &Driver<V>, value: u8) -> Result<*const u8> {
        let mut values = self.lock();
        let page = match *values {
            Some(page) => page,
            None => {
                let page = signal_memory::allocate(driver)?;
                for value in 0..=u8::MAX {
                    // SAFETY: the page has 4096 bytes, which nothing else knows yet: 256 times 8 are within it.
                    unsafe {
                        page.host.add(usize::from(value) * usize::from(WORD)).write_bytes(value, usize::from(WORD))
                    };
                }
                *values = Some(page);
                page
            }
        };
        // SAFETY: within the page, as above.
        Ok(unsafe { page.host.add(usize::from(value) * usize::from(WORD)) }.as_ptr())
    }

    /// Frees the page.
    ///
    /// # Safety
    /// No copy out of it is pending, and the device is current.
    pub(crate) unsafe fn free<V: Vendor>(&self, driver: &Driver<V>) {
        let Some(page) = self.lock().take() else { return };
        // SAFETY: allocated above, taken once, and unused, as the caller vouches.
        if let Err(error) = unsafe { signal_memory::free(driver, page) } {
            tracing::warn!(%error, "freeing the source of small fills failed");
        }
    }

    pub(crate) fn is_allocated(&self) -> bool {
        self.lock().is_some()
    }

    /// A panic leaves no half-made page here.
    fn lock(&self) -> MutexGuard<'_, Option<SignalMemory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ranges_inside_of_eight_bytes_are_within_a_word() {
        for first in 0..16 {
            for size in 1..20 {
                let end = first + size;
                let within = first % 8 != 0 && end / 8 == first / 8 && end % 8 != 0;
                assert_eq!(is_within_a_word(first, size), within, "{first}, {size} bytes");
            }
        }
    }
}
