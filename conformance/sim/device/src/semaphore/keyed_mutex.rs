//! Keyed mutexes of sim-d3d.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::{lost, system};

/// The first bytes of their memory.
const MAGIC: u64 = u64::from_le_bytes(*b"gpuikmx\x01");
const FREE: u32 = 0;
const HELD: u32 = 1;

/// Their layout. Another process may write any value to it.
#[repr(C)]
pub(super) struct State {
    magic: AtomicU64,
    /// The key of the last release; the holder does not change it.
    key: AtomicU64,
    owner: AtomicU32,
    sequence: AtomicU32,
}

/// The wait for the key timed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedOut;

impl State {
    pub(super) fn is_one(&self) -> bool {
        self.magic.load(Ordering::Relaxed) == MAGIC
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
            if lost::is_lost() {
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
    use super::*;

    fn released(key: u64) -> State {
        State {
            magic: AtomicU64::new(MAGIC),
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
