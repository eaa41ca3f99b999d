//! Threads inside a host function, on which no driver may be called.

use std::cell::Cell;

thread_local! {
    static FORBIDDEN: Cell<bool> = const { Cell::new(false) };
}

/// `true` if this thread is inside a host function, which must not call a driver or wait.
pub(super) fn are_forbidden() -> bool {
    FORBIDDEN.get()
}

/// Runs a host function, or another function like one: objects that it drops do not call the driver.
pub(crate) fn without_driver_calls<T>(function: impl FnOnce() -> T) -> T {
    FORBIDDEN.set(true);
    let returned = function();
    FORBIDDEN.set(false);
    returned
}
