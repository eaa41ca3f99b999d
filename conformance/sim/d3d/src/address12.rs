//! Addresses of the GPU.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Addresses that were never used, of this many bytes.
pub(crate) fn reserve(bytes: u64) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 32);
    NEXT.fetch_add(bytes.next_multiple_of(64 << 10), Ordering::Relaxed)
}

/// The GPU's address of a buffer, unique for its life.
#[derive(Debug)]
pub(crate) struct Address(u64);

/// The addresses of all buffers, with their sizes.
static ADDRESSES: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());

fn addresses() -> MutexGuard<'static, BTreeMap<u64, u64>> {
    ADDRESSES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Address {
    pub(crate) fn new(size: u64) -> Self {
        let address = reserve(size);
        addresses().insert(address, size);
        Self(address)
    }

    pub(crate) fn get(&self) -> u64 {
        self.0
    }
}

/// `true` if a range is inside of a buffer.
pub(crate) fn is_inside(start: u64, size: u64) -> bool {
    addresses().range(..=start).next_back().is_some_and(|(base, own)| start + size <= base + own)
}

impl Drop for Address {
    fn drop(&mut self) {
        addresses().remove(&self.0);
    }
}
