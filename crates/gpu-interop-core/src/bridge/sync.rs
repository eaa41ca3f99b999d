//! What the bridge's threads meet with: the standard library's, or loom's, which tries every order of events.

#[cfg(loom)]
pub(super) use loom::sync::atomic::AtomicBool;
#[cfg(loom)]
pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub(super) use std::sync::atomic::AtomicBool;
#[cfg(not(loom))]
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};

/// What the locks guard is valid at every step, so a panic elsewhere does not spoil it.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
