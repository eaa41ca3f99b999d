//! Threads inside a host function, on which no driver may be called.

use std::cell::Cell;

thread_local! {
    static FORBIDDEN: Cell<bool> = const { Cell::new(false) };
}

/// `true` if this thread is inside a host function, which must not call a driver or wait.
pub(super) fn are_forbidden() -> bool {
    FORBIDDEN.get()
}

/// `true` on a thread that must neither wait nor call a compute driver: inside a host function of
/// [`Stream::launch_host_function`](crate::Stream::launch_host_function), also while the objects that it captured are
/// dropped, and inside the destructor of an [`ExporterTimeline`](crate::ExporterTimeline) that a bridge drops.
#[must_use]
pub fn in_host_function() -> bool {
    are_forbidden()
}

/// Runs a host function, or another function like one: objects that it drops do not call the driver.
pub(crate) fn without_driver_calls<T>(function: impl FnOnce() -> T) -> T {
    FORBIDDEN.set(true);
    let returned = function();
    FORBIDDEN.set(false);
    returned
}
