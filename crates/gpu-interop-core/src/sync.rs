//! What threads meet with: the standard library's, or with `--cfg loom` loom's, which tries every order of events.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
#[cfg(not(loom))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::thread::{Builder, sleep, yield_now};
#[cfg(not(loom))]
pub(crate) use std::time::Instant;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(loom)]
pub(crate) use loom::thread::{Builder, yield_now};

#[cfg(loom)]
pub(crate) use self::timeless::{Instant, sleep};

/// What the locks guard is valid at every step, so a panic elsewhere does not spoil it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Loom knows no time: whoever asks has waited long already.
#[cfg(loom)]
mod timeless {
    use std::time::Duration;

    #[derive(Debug)]
    pub(crate) struct Instant;

    impl Instant {
        pub(crate) fn now() -> Self {
            Self
        }

        pub(crate) fn elapsed(&self) -> Duration {
            Duration::from_secs(3600)
        }
    }

    pub(crate) fn sleep(_pause: Duration) {
        super::yield_now();
    }
}
