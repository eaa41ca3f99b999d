//! Used memory of the device: allocations, imports and mappings, each counted separately.

use std::sync::atomic::{AtomicU64, Ordering};

/// Size of the device's memory, bytes.
pub const TOTAL: u64 = 64 << 30;

static BYTES: AtomicU64 = AtomicU64::new(0);

/// Free memory, bytes.
#[must_use]
pub fn free() -> u64 {
    TOTAL.saturating_sub(BYTES.load(Ordering::SeqCst))
}

/// Used bytes while this lives.
#[derive(Debug)]
pub(crate) struct InUse(u64);

impl InUse {
    pub(crate) fn new(bytes: usize) -> Self {
        BYTES.fetch_add(bytes as u64, Ordering::SeqCst);
        Self(bytes as u64)
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        BYTES.fetch_sub(self.0, Ordering::SeqCst);
    }
}
