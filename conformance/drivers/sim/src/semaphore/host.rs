//! The host backend's semaphores.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::{lost, system};

/// What they begin with.
const MAGIC: u64 = u64::from_le_bytes(*b"gpuisem\x01");
const BINARY: u32 = 1;

/// Their layout. Any value of it is possible: another process may write it.
#[repr(C)]
pub(super) struct State {
    magic: AtomicU64,
    payload: AtomicU32,
    waiters: AtomicU32,
    value: AtomicU64,
    sequence: AtomicU32,
}

impl State {
    pub(super) fn is_one(&self) -> bool {
        self.magic.load(Ordering::Relaxed) == MAGIC
    }

    pub(super) fn signal(&self, value: u64) {
        let binary = self.payload.load(Ordering::Relaxed) == BINARY;
        self.value.store(if binary { 1 } else { value }, Ordering::SeqCst);
        self.sequence.fetch_add(1, Ordering::SeqCst);
        system::wake(&self.sequence);
    }

    pub(super) fn wait(&self, value: u64) {
        let reached = || match self.payload.load(Ordering::Relaxed) {
            BINARY => self.value.compare_exchange(1, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok(),
            _ => self.value.load(Ordering::SeqCst) >= value,
        };
        loop {
            let sequence = self.sequence.load(Ordering::SeqCst);
            if lost::is_lost() || reached() {
                return;
            }
            self.waiters.fetch_add(1, Ordering::SeqCst);
            system::sleep(&self.sequence, sequence);
            self.waiters.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
