//! Application functions that run in stream order.

use std::cell::Cell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::fault::StreamFaults;
use super::stream::Stream;
use super::validate;
use crate::capability::Feature;
use crate::error::{Error, ErrorKind, Result};

thread_local! {
    static RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside a host function, where no driver may be called and nothing may wait.
pub(super) fn running() -> bool {
    RUNNING.get()
}

/// Runs a function that is to be treated as a host function: objects that it drops call no driver.
pub(crate) fn without_driver_calls(function: impl FnOnce()) {
    RUNNING.set(true);
    function();
    RUNNING.set(false);
}

struct HostCall {
    function: Box<dyn FnOnce() + Send>,
    faults: Arc<StreamFaults>,
}

/// Called by a driver's thread. Never unwinds into it.
///
/// # Safety
/// `data` must be a box that [`Stream::launch_host_function`] leaked for this call.
unsafe extern "C" fn run(data: *mut c_void) {
    // SAFETY: the caller's promise; drivers call once.
    let call = unsafe { Box::from_raw(data.cast::<HostCall>()) };
    let HostCall { function, faults } = *call;
    RUNNING.set(true);
    // Drops what the function captured, too.
    let called = catch_unwind(AssertUnwindSafe(function));
    RUNNING.set(false);
    if let Err(payload) = called {
        // Dropping the payload could panic again, and there is nobody left to catch that.
        std::mem::forget(payload);
        faults.report(Error::new(
            ErrorKind::HostFunctionPanicked,
            "Stream::synchronize",
            "a host function enqueued on this stream panicked",
        ));
        tracing::error!("a host function panicked; the stream's next synchronisation reports it");
    }
}

impl Stream {
    /// Calls `function` on a thread of the driver once everything enqueued before has run, and holds back what is
    /// enqueued after (`cuLaunchHostFunc`).
    ///
    /// The function must not call into a GPU API and must not wait for other work: drivers may run the functions of
    /// independent streams one after another, so a waiting one can deadlock the process. If the device is torn down
    /// first it is neither called nor dropped. A panic is caught, and reported by the next [`Stream::synchronize`].
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) where streams cannot;
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) on a stream that records a graph: it is called
    /// once; else what the driver answers.
    pub fn launch_host_function(&self, function: impl FnOnce() + Send + 'static) -> Result<()> {
        let device = self.device();
        self.check_not_recording("Stream::launch_host_function")?;
        validate::feature("Stream::launch_host_function", device.raw.capabilities(), Feature::HostFunctions)
            .and_then(|()| {
                let call = HostCall { function: Box::new(function), faults: self.faults().clone() };
                let data = Box::into_raw(Box::new(call)).cast::<c_void>();
                // SAFETY: the stream is live; `run` fits the box and does not unwind.
                let launched = unsafe { device.raw.launch_host_function(self.as_raw(), run, data) };
                if launched.is_err() {
                    // SAFETY: after a failure the function is never called, so the box is ours again.
                    drop(unsafe { Box::from_raw(data.cast::<HostCall>()) });
                }
                launched
            })
            .map_err(|error| device.decorate(error))
    }
}
