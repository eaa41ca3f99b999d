//! Owners of the application's objects: a function that is called when the library no longer uses them.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// Called once, when the library no longer uses an object of the application; on any thread, also one of the library. May
/// be null. It must not call a GPU API or wait for one.
pub type gpi_release_function = Option<unsafe extern "C" fn(data: *mut c_void)>;

/// Calls the release function when it is dropped, once it is armed.
#[derive(Debug)]
pub(crate) struct Release {
    function: gpi_release_function,
    data: *mut c_void,
    armed: AtomicBool,
}

// SAFETY: the caller of `new` promises that the function may be called on any thread; nothing else uses `data`.
unsafe impl Send for Release {}
// SAFETY: as above; no method uses `data` through a shared reference.
unsafe impl Sync for Release {}

impl Release {
    /// # Safety
    /// The function may be called with `data` from any thread, once.
    pub(crate) unsafe fn new(function: gpi_release_function, data: *mut c_void) -> Self {
        Self { function, data, armed: AtomicBool::new(false) }
    }

    /// Called on success: a failed function leaves the object to the caller and does not release it.
    pub(crate) fn arm(&self) {
        self.armed.store(true, Ordering::Release);
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        let (Some(function), true) = (self.function, self.armed.load(Ordering::Acquire)) else { return };
        // SAFETY: the promise of `new`; a drop happens once. A foreign unwind is a defect of the application.
        let _ = catch_unwind(AssertUnwindSafe(|| unsafe { function(self.data) }));
    }
}
