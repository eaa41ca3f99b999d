//! Streams with fills that a semaphore signal could overtake
//! ([`Vendor::OVERTAKEN_FILLS`](crate::Vendor::OVERTAKEN_FILLS)).

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::functions::Handle;

/// Streams with a fill that no fence follows yet.
#[derive(Debug, Default)]
pub(crate) struct Unfenced {
    streams: Mutex<HashSet<Handle>>,
    /// Number of such streams, so that signals skip the lock in the common case of none.
    count: AtomicUsize,
}

impl Unfenced {
    fn change<T>(&self, change: impl FnOnce(&mut HashSet<Handle>) -> T) -> T {
        let mut streams: MutexGuard<'_, _> = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut streams);
        // Relaxed: a signal that must follow another thread's fill is already ordered after that call.
        self.count.store(streams.len(), Ordering::Relaxed);
        result
    }

    /// Notes a fill that is about to be enqueued.
    pub(crate) fn add(&self, stream: Handle) {
        self.change(|streams| streams.insert(stream));
    }

    /// `true` if no stream needs a fence.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Returns whether the stream needs a fence, and clears the mark.
    #[inline]
    pub(crate) fn take(&self, stream: Handle) -> bool {
        !self.is_empty() && self.change(|streams| streams.remove(&stream))
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
