//! Capture mode of the calling thread during calls that another thread's stream capture would make fail.
//!
//! While a thread captures a graph in *global* mode, as PyTorch does, queries, synchronisations and frees on every
//! other thread return 900 (`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED`) and invalidate the capture. A thread in relaxed
//! mode is exempt (`cuThreadExchangeStreamCaptureMode`, `hipThreadExchangeStreamCaptureMode`) and leaves the capture
//! valid: calls of this crate enqueue nothing on a stream that another thread captures.

use std::ffi::c_uint;

use crate::driver::Driver;
use crate::driver::Vendor;
use crate::status::Status;
use crate::trace::DriverFunction;

/// `CU_STREAM_CAPTURE_MODE_RELAXED`, `hipStreamCaptureModeRelaxed`.
pub(crate) const RELAXED: c_uint = 2;

/// Puts the thread in relaxed mode. Returns the mode to restore, `None` if it did not change.
#[inline]
pub(crate) fn relax<V: Vendor>(driver: &Driver<V>) -> Option<c_uint> {
    exchange(driver, RELAXED).filter(|before| *before != RELAXED)
}

/// Restores the mode that [`relax`] returned.
#[inline]
pub(crate) fn restore<V: Vendor>(driver: &Driver<V>, mode: c_uint) {
    exchange(driver, mode);
}

/// Runs `call` with the thread in relaxed mode.
pub(crate) fn relaxed<V: Vendor, R>(driver: &Driver<V>, call: impl FnOnce() -> R) -> R {
    let mode = relax(driver);
    let result = call();
    if let Some(mode) = mode {
        restore(driver, mode);
    }
    result
}

#[inline]
fn exchange<V: Vendor>(driver: &Driver<V>, mut mode: c_uint) -> Option<c_uint> {
    let entry = &driver.functions.thread_exchange_capture_mode;
    // Drivers without the function have no capture modes.
    let function = entry.function.get()?;
    // SAFETY: the pointer is valid for the call.
    let status = unsafe { function.traced(entry.operation, (&raw mut mode,)) };
    if status == Status::SUCCESS {
        return Some(mode);
    }
    report(driver, entry.operation, status);
    None
}

#[cold]
fn report<V: Vendor>(driver: &Driver<V>, operation: &'static str, status: Status) {
    if let Err(error) = driver.check(operation, status) {
        tracing::debug!(%error, "the thread's capture mode is unchanged; another thread's stream capture may make calls fail");
    }
}
