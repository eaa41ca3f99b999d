//! Application functions that run in stream order.

use std::ffi::c_void;
use std::sync::Arc;

use super::stream::Stream;
use super::validate;
use crate::bridge::StreamFaults;
use crate::callback::caught;
use crate::callback::without_driver_calls;
use crate::capability::Feature;
use crate::error::{Error, ErrorKind, Result};

struct HostCall {
    function: Box<dyn FnOnce() + Send>,
    faults: Arc<StreamFaults>,
}

/// Entry point for the driver's thread. Never unwinds into the driver.
///
/// # Safety
/// `data` must be a box that [`Stream::launch_host_function`] leaked for this call.
unsafe extern "C" fn run(data: *mut c_void) {
    // SAFETY: the caller guarantees the box; drivers call the function once.
    let call = unsafe { Box::from_raw(data.cast::<HostCall>()) };
    let HostCall { function, faults } = *call;
    // Also drops the captured values.
    if without_driver_calls(|| caught(function)).is_none() {
        faults.report(Error::new(
            ErrorKind::HostFunctionPanicked,
            "Stream::synchronize",
            "a host function enqueued on this stream panicked",
        ));
        log!(error, "a host function panicked; the stream's next synchronisation reports it");
    }
}

impl Stream {
    /// Calls `function` on a driver thread in stream order: after all work enqueued before, and before work enqueued
    /// later (`cuLaunchHostFunc`).
    ///
    /// The function must not call a GPU API and must not wait for other work: drivers may serialise the functions of
    /// independent streams, so a waiting one can deadlock the process. If the device is closed first, the function is
    /// neither called nor dropped. A panic is caught and returned by the next [`Stream::synchronize`].
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) where host functions are not supported;
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) on a recording stream, because the function is
    /// called once; otherwise the driver's error.
    #[doc(alias(
        "cuLaunchHostFunc",
        "cudaLaunchHostFunc",
        "hipLaunchHostFunc",
        "cudaStreamAddCallback",
        "hipStreamAddCallback"
    ))]
    pub fn launch_host_function(&self, function: impl FnOnce() + Send + 'static) -> Result<()> {
        let device = self.device();
        self.check_not_recording("Stream::launch_host_function")?;
        device.check_process("Stream::launch_host_function")?;
        validate::feature("Stream::launch_host_function", device.raw.capabilities(), Feature::HostFunctions)
            .and_then(|()| {
                let call = HostCall { function: Box::new(function), faults: self.faults().clone() };
                let data = Box::into_raw(Box::new(call)).cast::<c_void>();
                // SAFETY: the stream is live; `run` fits the box and does not unwind.
                let launched = unsafe { device.raw.launch_host_function(self.as_raw(), run, data) };
                if launched.is_err() {
                    // SAFETY: after a failure the function is never called, so this is the only owner of the box.
                    drop(unsafe { Box::from_raw(data.cast::<HostCall>()) });
                }
                launched
            })
            .map_err(|error| device.decorate(error))
    }
}
