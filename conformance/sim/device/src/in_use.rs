//! How much of the device's memory is in use: what is allocated, and what is imported or mapped, each counted for itself.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that the device has.
pub const TOTAL: u64 = 64 << 30;

static BYTES: AtomicU64 = AtomicU64::new(0);

/// Bytes that are not in use.
pub fn free() -> u64 {
    TOTAL.saturating_sub(BYTES.load(Ordering::SeqCst))
}

/// Bytes that are in use while this lives.
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
