//! Locking.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock whose owner panicked guards nothing that a panic could have left half-done here.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
