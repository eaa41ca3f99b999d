//! Synchronisation primitives: `std`, or `loom` under `cfg(loom)`. The other crates of this project use its helpers for locks.

use std::sync::{LockResult, PoisonError};

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize};
#[cfg(not(loom))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::thread::{Builder, sleep, yield_now};
#[cfg(not(loom))]
pub(crate) use std::time::Instant;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize};
#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(loom)]
pub(crate) use loom::thread::{Builder, yield_now};

#[cfg(loom)]
pub(crate) use self::timeless::{Instant, sleep};

/// What a lock or a wait returned, ignoring poison: the guarded data is valid at every step, so a panic does not invalidate
/// it.
pub fn unpoisoned<G>(result: LockResult<G>) -> G {
    result.unwrap_or_else(PoisonError::into_inner)
}

/// Locks a mutex of `std`, ignoring poison as [`unpoisoned`] does.
pub fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    unpoisoned(mutex.lock())
}

/// Clock for loom, which does not model time: an hour has elapsed at every query.
#[cfg(loom)]
mod timeless {
    use std::time::Duration;

    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Instant;

    impl Instant {
        pub(crate) fn now() -> Self {
            Self
        }

        pub(crate) fn elapsed(&self) -> Duration {
            Duration::from_secs(3600)
        }

        pub(crate) fn duration_since(&self, _earlier: Self) -> Duration {
            self.elapsed()
        }
    }

    pub(crate) fn sleep(_pause: Duration) {
        super::yield_now();
    }
}
