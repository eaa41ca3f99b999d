//! Streams with fills that a signal of a semaphore could overtake.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::functions::Handle;

/// The streams with a fill behind which no fence was enqueued yet.
#[derive(Debug, Default)]
pub(crate) struct Unfenced {
    streams: Mutex<HashSet<Handle>>,
    /// How many they are, for those who signal: mostly none.
    count: AtomicUsize,
}

impl Unfenced {
    fn change<T>(&self, change: impl FnOnce(&mut HashSet<Handle>) -> T) -> T {
        let mut streams: MutexGuard<'_, _> = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut streams);
        // Relaxed: whoever signals behind another thread's fill has ordered the two calls already.
        self.count.store(streams.len(), Ordering::Relaxed);
        result
    }

    /// A fill is about to be enqueued.
    pub(crate) fn add(&self, stream: Handle) {
        self.change(|streams| streams.insert(stream));
    }

    /// Whether the stream needs a fence. The next one that asks is told that it needs none.
    #[inline]
    pub(crate) fn take(&self, stream: Handle) -> bool {
        self.count.load(Ordering::Relaxed) != 0 && self.change(|streams| streams.remove(&stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_needs_one_fence_for_all_its_fills() {
        let unfenced = Unfenced::default();
        assert!(!unfenced.take(1));
        unfenced.add(1);
        unfenced.add(1);
        unfenced.add(2);
        assert!(!unfenced.take(3));
        assert!(unfenced.take(1) && !unfenced.take(1));
        assert!(unfenced.take(2) && !unfenced.take(2));
    }
}
