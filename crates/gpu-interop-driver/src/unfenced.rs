//! Streams with fills that a semaphore signal could overtake
//! ([`Vendor::OVERTAKEN_FILLS`](crate::Vendor::OVERTAKEN_FILLS)).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use gpu_interop_core::sync::lock;

use crate::functions::Handle;

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
