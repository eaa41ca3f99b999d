//! Words of signal memory that the host writes in a stream's order, for drivers whose streams write words that other streams
//! do not see.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpu_interop_core::Result;
use gpu_interop_core::backend::{DevicePtr, RawStream, SignalMemory};

use crate::call::call;
use crate::driver::Driver;
use crate::vendor::Vendor;

/// The signal memory of a device, by its first byte for streams.
#[derive(Debug, Default)]
pub(crate) struct HostWords(Mutex<BTreeMap<u64, SignalMemory>>);

/// A value, as wide as its word.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value {
    Narrow(u32),
    Wide(u64),
}

impl Value {
    fn size(self) -> usize {
        match self {
            Self::Narrow(_) => 4,
            Self::Wide(_) => 8,
        }
    }
}

impl HostWords {
    /// Nothing under the lock is left half-done by a panic.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, SignalMemory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes memory, and returns it.
    pub(crate) fn add(&self, memory: SignalMemory) -> SignalMemory {
        self.lock().insert(memory.ptr.get(), memory);
        memory
    }

    /// Forgets memory, before the driver may give it to somebody else.
    pub(crate) fn remove(&self, memory: SignalMemory) {
        self.lock().remove(&memory.ptr.get());
    }

    /// Where the host finds an aligned word; `None` if it is not in signal memory.
    fn find(&self, word: DevicePtr, size: usize) -> Option<NonNull<u8>> {
        let words = self.lock();
        let (first, memory) = words.range(..=word.get()).next_back()?;
        let offset = usize::try_from(word.get() - first).ok()?;
        let inside = offset.checked_add(size)? <= memory.size && offset.is_multiple_of(size);
        // SAFETY: inside of the memory.
        inside.then(|| unsafe { memory.host.add(offset) })
    }

    /// Has the host write a word once everything that was enqueued before has run; `None` if it is not in signal memory.
    ///
    /// # Safety
    /// The stream is live and its device current, and the word is live until it is written.
    pub(crate) unsafe fn write<V: Vendor>(
        &self,
        driver: &Driver<V>,
        stream: RawStream,
        word: DevicePtr,
        value: Value,
    ) -> Option<Result<()>> {
        let host = self.find(word, value.size())?;
        let data = Box::into_raw(Box::new(Write { host, value })).cast::<c_void>();
        // SAFETY: the stream is live; the function takes what it is given, once.
        let launched = unsafe { call!(driver.launch_host_func(stream.get(), store, data)) };
        if launched.is_err() {
            // SAFETY: what was refused is not called, so the box is still owned here.
            drop(unsafe { Box::from_raw(data.cast::<Write>()) });
        }
        Some(launched)
    }
}

/// A word to be written.
struct Write {
    host: NonNull<u8>,
    value: Value,
}

/// Writes a word.
///
/// # Safety
/// `data` is from [`Box::into_raw`] of a [`Write`], and given here once; its word is live.
unsafe extern "C" fn store(data: *mut c_void) {
    // SAFETY: the caller's promise.
    let Write { host, value } = *unsafe { Box::from_raw(data.cast::<Write>()) };
    // SAFETY: the word is live and aligned, and everybody accesses it atomically.
    unsafe {
        match value {
            Value::Narrow(value) => AtomicU32::from_ptr(host.as_ptr().cast()).store(value, Ordering::Release),
            Value::Wide(value) => AtomicU64::from_ptr(host.as_ptr().cast()).store(value, Ordering::Release),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_signal_memory_are_found_and_written() {
        let mut page = [0_u64; 4];
        let host = NonNull::from(&mut page).cast::<u8>();
        let memory = SignalMemory { host, ptr: DevicePtr::new(0x1000), size: 32 };
        let words = HostWords::default();
        assert_eq!(words.add(memory), memory);
        for (word, size) in [(0x0ff8, 8), (0x1020, 8), (0x1004, 8), (0x1002, 4), (0x2000, 4)] {
            assert!(words.find(DevicePtr::new(word), size).is_none(), "{word:x}, {size}");
        }
        for (word, value) in [(0x1008, Value::Wide(7)), (0x1018, Value::Narrow(9))] {
            let host = words.find(DevicePtr::new(word), value.size()).expect("a word");
            // SAFETY: inside of `page`.
            unsafe { store(Box::into_raw(Box::new(Write { host, value })).cast()) };
        }
        words.remove(memory);
        assert!(words.find(DevicePtr::new(0x1008), 8).is_none());
        let narrow = page[3].to_ne_bytes();
        assert_eq!((page[0], page[1], page[2], &narrow[..4]), (0, 7, 0, &9_u32.to_ne_bytes()[..]));
    }
}
