//! Objects that pending work uses, and drops that wait for it.

use std::mem::ManuallyDrop;
use std::time::Duration;

use gpu_interop_core::in_host_function;

/// Time that a drop waits for pending work.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// Time that a thread waits for the work of objects that were dropped in a host function.
const UNATTENDED: Duration = Duration::from_secs(60);

/// Keeps objects until the work that uses them has finished.
pub(crate) trait PendingWork: Send + Sync {
    /// Drops the objects whose work has finished. Does not block, except in the destructors of owners.
    fn free_finished(&self);
}

/// `true` if a drop on this thread must leave pending work to [`free_later`]: a host function must not wait, because the
/// work may be behind it. A device that its objects do not keep alive may be destroyed after the host function.
pub(crate) fn must_not_wait(objects_keep_device: bool) -> bool {
    in_host_function() && objects_keep_device
}

/// Calls `free` on a new thread, with the time to wait for the work of `objects`; leaks them if no thread can start.
pub(crate) fn free_later<T: Send + 'static>(objects: T, free: impl FnOnce(T, Duration) + Send + 'static) {
    // A closure that is not called is dropped.
    let objects = ManuallyDrop::new(objects);
    let body = move || free(ManuallyDrop::into_inner(objects), UNATTENDED);
    if let Err(error) = std::thread::Builder::new().name("gpu-interop free".into()).spawn(body) {
        tracing::error!(%error, "no thread can wait for pending work; the objects that it uses are leaked");
    }
}
