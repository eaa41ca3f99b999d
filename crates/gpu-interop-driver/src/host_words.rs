//! Stream-ordered writes of signal memory by host functions, for drivers whose stream writes are not visible to other
//! streams ([`Vendor::WRITES_ARE_SEEN`]).

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use gpu_interop_core::Result;
use gpu_interop_core::backend::{DevicePtr, RawStream, SignalMemory};
use gpu_interop_core::sync::lock;

use crate::call::call;
use crate::driver::Driver;
use crate::driver::Vendor;

/// Signal memory of a device, by first device address.
#[derive(Debug, Default)]
pub(crate) struct HostWords(Mutex<BTreeMap<u64, SignalMemory>>);

/// Value of 32 or 64 bits.
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
    /// Locks the map, which a panic cannot leave inconsistent.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, SignalMemory>> {
        lock(&self.0)
    }

    pub(crate) fn add(&self, memory: SignalMemory) -> SignalMemory {
        self.lock().insert(memory.ptr.get(), memory);
        memory
    }

    /// Removes memory. Called before the driver frees it and may reuse its addresses.
    pub(crate) fn remove(&self, memory: SignalMemory) {
        self.lock().remove(&memory.ptr.get());
    }

    /// Returns the host address of an aligned word; `None` if it is outside signal memory.
    fn find(&self, word: DevicePtr, size: usize) -> Option<NonNull<u8>> {
        let words = self.lock();
        let (first, memory) = words.range(..=word.get()).next_back()?;
        let offset = usize::try_from(word.get() - first).ok()?;
        let inside = offset.checked_add(size)? <= memory.size && offset.is_multiple_of(size);
        // SAFETY: the offset is within the memory.
        inside.then(|| unsafe { memory.host.add(offset) })
    }

    /// Enqueues a host function that writes a word after all earlier work on the stream. Returns `None` if the word is
    /// outside signal memory.
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
        // SAFETY: the stream is live by the caller's promise; `store` takes ownership of `data`, and is called once.
        let launched = unsafe { call!(driver.launch_host_func(stream.get(), store, data)) };
        if launched.is_err() {
            // SAFETY: a host function that failed to enqueue is never called, so this function still owns the box.
            drop(unsafe { Box::from_raw(data.cast::<Write>()) });
        }
        Some(launched)
    }
}

/// Argument of [`store`].
struct Write {
    host: NonNull<u8>,
    value: Value,
}

/// Writes a word.
///
/// # Safety
/// `data` is from [`Box::into_raw`] of a [`Write`] and passed once; its word is live.
unsafe extern "C" fn store(data: *mut c_void) {
    // SAFETY: the caller's promise.
    let Write { host, value } = *unsafe { Box::from_raw(data.cast::<Write>()) };
    // SAFETY: the word is live and aligned, and all accesses to it are atomic.
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
            // SAFETY: the word is inside `page`.
            unsafe { store(Box::into_raw(Box::new(Write { host, value })).cast()) };
        }
        words.remove(memory);
        assert!(words.find(DevicePtr::new(0x1008), 8).is_none());
        let narrow = page[3].to_ne_bytes();
        assert_eq!((page[0], page[1], page[2], &narrow[..4]), (0, 7, 0, &9_u32.to_ne_bytes()[..]));
    }
}
