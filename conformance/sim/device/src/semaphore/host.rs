//! The host backend's semaphores.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::{lost, system};

/// The first bytes of their memory.
const MAGIC: u64 = u64::from_le_bytes(*b"gpuisem\x01");
const BINARY: u32 = 1;

/// Their layout. Another process may write any value to it.
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    fn state(payload: u32, value: u64) -> &'static State {
        Box::leak(Box::new(State {
            magic: AtomicU64::new(MAGIC),
            payload: AtomicU32::new(payload),
            waiters: AtomicU32::new(0),
            value: AtomicU64::new(value),
            sequence: AtomicU32::new(0),
        }))
    }

    /// Waits for a value on another thread; a received message reports the end of the wait.
    fn waiting(state: &'static State, value: u64) -> mpsc::Receiver<()> {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            state.wait(value);
            sender.send(()).expect("the test waits");
        });
        receiver
    }

    #[test]
    fn waits_are_met_by_their_value_and_not_before() {
        let timeline = state(2, 4);
        timeline.wait(4);
        let met = waiting(timeline, 6);
        timeline.signal(5);
        assert!(met.recv_timeout(Duration::from_millis(50)).is_err(), "met by 5");
        timeline.signal(6);
        met.recv_timeout(Duration::from_secs(20)).expect("met by 6");
        let binary = state(BINARY, 0);
        let met = waiting(binary, 0);
        assert!(met.recv_timeout(Duration::from_millis(50)).is_err(), "not signalled");
        binary.signal(0);
        met.recv_timeout(Duration::from_secs(20)).expect("signalled");
        assert_eq!(binary.value.load(Ordering::SeqCst), 0, "consumed");
    }
}
