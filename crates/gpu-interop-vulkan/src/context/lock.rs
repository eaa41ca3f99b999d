//! Locking.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Ignores poison: the guarded data is valid at every step.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
