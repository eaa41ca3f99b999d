//! Calls of the application's code where a panic must not unwind: on a thread of this crate, into a driver, and inside
//! `drop`. An exporter's methods and destructor, an owner's destructor, a subscriber of `tracing`. Host functions also must
//! not call a driver.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls application code; `None` if it panicked. The panic hook has reported it.
#[doc(hidden)]
pub fn caught<T>(call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call))
        .map_err(|payload| {
            // Dropping the payload could panic.
            std::mem::forget(payload);
        })
        .ok()
}

/// An event of `tracing` whose subscriber may panic: `log!(warn, ...)`.
macro_rules! log {
    ($level:ident, $($event:tt)*) => {{
        // A subscriber that panics has lost the event.
        let _ = $crate::callback::caught(|| tracing::$level!($($event)*));
    }};
}

thread_local! {
    static FORBIDDEN: Cell<bool> = const { Cell::new(false) };
}

/// `true` if this thread is inside a host function, which must not call a driver or wait.
pub(crate) fn calls_are_forbidden() -> bool {
    FORBIDDEN.get()
}

/// `true` on a thread that must neither wait nor call a compute driver: inside a host function of
/// [`Stream::launch_host_function`](crate::Stream::launch_host_function), also while the objects that it captured are
/// dropped, and inside the destructor of an [`ExporterTimeline`](crate::ExporterTimeline) that a bridge drops.
#[must_use]
pub fn in_host_function() -> bool {
    calls_are_forbidden()
}

/// Runs a host function, or another function like one: objects that it drops do not call the driver.
pub(crate) fn without_driver_calls<T>(function: impl FnOnce() -> T) -> T {
    FORBIDDEN.set(true);
    let returned = function();
    FORBIDDEN.set(false);
    returned
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sys::Guarded;

    /// Panics when it is dropped, and so does the payload of that panic.
    #[derive(Debug)]
    struct Hostile(u32);

    impl Drop for Hostile {
        fn drop(&mut self) {
            if self.0 > 0 {
                std::panic::resume_unwind(Box::new(Hostile(self.0 - 1)));
            }
        }
    }

    #[test]
    fn panics_of_the_application_end_here() {
        assert_eq!(caught(|| 7), Some(7));
        assert_eq!(caught(|| -> u32 { panic!("on purpose") }), None);
        assert!(caught(|| drop(Hostile(2))).is_none());
        let guarded = Guarded::new(Hostile(1));
        assert_eq!(guarded.0, 1);
        drop(guarded);
    }
}
