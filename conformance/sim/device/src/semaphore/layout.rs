//! The shared memory of the host backend's semaphores and of sim-d3d's keyed mutexes. Another process may write any
//! value to it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::{faults, system};

/// The first bytes of their memory.
const HOST_MAGIC: u64 = u64::from_le_bytes(*b"gpuisem\x01");
const BINARY: u32 = 1;

/// Their layout. Another process may write any value to it.
#[repr(C)]
pub(super) struct HostState {
    magic: AtomicU64,
    payload: AtomicU32,
    waiters: AtomicU32,
    value: AtomicU64,
    sequence: AtomicU32,
}

impl HostState {
    pub(super) fn is_one(&self) -> bool {
        self.magic.load(Ordering::Relaxed) == HOST_MAGIC
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
            if faults::is_lost() || reached() {
                return;
            }
            self.waiters.fetch_add(1, Ordering::SeqCst);
            system::sleep(&self.sequence, sequence);
            self.waiters.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// The first bytes of their memory.
const KEYED_MUTEX_MAGIC: u64 = u64::from_le_bytes(*b"gpuikmx\x01");
const FREE: u32 = 0;
const HELD: u32 = 1;

/// Their layout. Another process may write any value to it.
#[repr(C)]
pub(super) struct KeyedMutexState {
    magic: AtomicU64,
    /// The key of the last release; the holder does not change it.
    key: AtomicU64,
    owner: AtomicU32,
    sequence: AtomicU32,
}

/// The wait for the key timed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedOut;

impl KeyedMutexState {
    pub(super) fn is_one(&self) -> bool {
        self.magic.load(Ordering::Relaxed) == KEYED_MUTEX_MAGIC
    }

    pub(super) fn release(&self, key: u64) {
        self.key.store(key, Ordering::SeqCst);
        self.owner.store(FREE, Ordering::SeqCst);
        self.sequence.fetch_add(1, Ordering::SeqCst);
        system::wake(&self.sequence);
    }

    /// Acquires the mutex once it was released with this key. Releases it again if another holder released it with
    /// another key between the two checks.
    pub(super) fn acquire(&self, key: u64, limit: Option<Duration>) -> Result<(), TimedOut> {
        let begin = Instant::now();
        loop {
            let sequence = self.sequence.load(Ordering::SeqCst);
            let is_free = || self.key.load(Ordering::SeqCst) == key && self.owner.load(Ordering::SeqCst) == FREE;
            if is_free() && self.owner.compare_exchange(FREE, HELD, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                if self.key.load(Ordering::SeqCst) == key {
                    return Ok(());
                }
                self.owner.store(FREE, Ordering::SeqCst);
                continue;
            }
            if faults::is_lost() {
                return Ok(());
            }
            if limit.is_some_and(|limit| begin.elapsed() >= limit) {
                return Err(TimedOut);
            }
            system::sleep(&self.sequence, sequence);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    fn state(payload: u32, value: u64) -> &'static HostState {
        Box::leak(Box::new(HostState {
            magic: AtomicU64::new(HOST_MAGIC),
            payload: AtomicU32::new(payload),
            waiters: AtomicU32::new(0),
            value: AtomicU64::new(value),
            sequence: AtomicU32::new(0),
        }))
    }

    /// Waits for a value on another thread; a received message reports the end of the wait.
    fn waiting(state: &'static HostState, value: u64) -> mpsc::Receiver<()> {
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

    fn released(key: u64) -> KeyedMutexState {
        KeyedMutexState {
            magic: AtomicU64::new(KEYED_MUTEX_MAGIC),
            key: AtomicU64::new(key),
            owner: AtomicU32::new(FREE),
            sequence: AtomicU32::new(0),
        }
    }

    #[test]
    fn it_is_held_by_one_and_only_with_its_key() {
        let mutex = released(3);
        let soon = Some(Duration::from_millis(5));
        assert_eq!(mutex.acquire(4, soon), Err(TimedOut));
        assert_eq!(mutex.acquire(3, soon), Ok(()));
        assert_eq!(mutex.acquire(3, soon), Err(TimedOut), "it is held");
        mutex.release(4);
        assert_eq!(mutex.acquire(3, soon), Err(TimedOut));
        assert_eq!(mutex.acquire(4, Some(Duration::ZERO)), Ok(()));
    }

    #[test]
    fn a_wait_without_limit_ends_with_the_release() {
        let mutex = released(0);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| mutex.acquire(9, None));
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waits.is_finished());
            mutex.release(9);
            assert_eq!(waits.join().expect("no panic"), Ok(()));
        });
    }
}
