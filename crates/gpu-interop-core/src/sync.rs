//! Synchronisation primitives: `std`, or `loom` under `cfg(loom)`.

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

/// Locks a mutex, ignoring poison: the guarded data is valid at every step, so a panic does not invalidate it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
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
