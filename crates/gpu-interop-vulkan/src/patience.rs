//! Drops that wait for pending work.

use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

use gpu_interop_core::{ErrorKind, Result, in_host_function};

use crate::interop::VulkanInterop;

/// Time that a drop waits for pending work.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// Time that a thread waits for the work of objects that were dropped in a host function.
const UNATTENDED: Duration = Duration::from_secs(60);

/// An object that pending work uses.
pub(crate) trait InUse: Send + Sized + 'static {
    /// Logged if the object is leaked.
    const LEAKED: &str;

    /// The device of the work.
    fn interop(&self) -> &VulkanInterop;

    /// Blocks until the work has finished, or fails.
    fn wait(&self, timeout: Duration) -> Result<()>;
}

/// Drops objects of one device once their work has finished, and leaks those whose work has not finished in time: freeing
/// them would be undefined behaviour, and an unlimited wait could hang the application.
pub(crate) fn drop_in_use<T: InUse>(objects: Vec<T>) {
    let Some(first) = objects.first() else { return };
    // In a forked process no drop calls the driver.
    if first.interop().is_forked() {
        return;
    }
    if must_not_wait(first.interop()) {
        free_later(objects, finish);
    } else {
        finish(objects, PATIENCE);
    }
}

fn finish<T: InUse>(objects: Vec<T>, patience: Duration) {
    let deadline = Instant::now() + patience;
    for object in objects {
        match object.wait(deadline.saturating_duration_since(Instant::now())) {
            // A failed wait proves nothing, but a lost device runs nothing.
            Err(error) if error.kind() != ErrorKind::DeviceLost => {
                tracing::error!(%error, "{}", T::LEAKED);
                std::mem::forget(object);
            }
            _ => drop(object),
        }
    }
}

/// `true` if a drop on this thread must leave pending work to [`free_later`]: a host function must not wait, because the
/// work may be behind it. A device that its objects do not keep alive may be destroyed after the host function.
pub(crate) fn must_not_wait(interop: &VulkanInterop) -> bool {
    in_host_function() && interop.keeps_device()
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
