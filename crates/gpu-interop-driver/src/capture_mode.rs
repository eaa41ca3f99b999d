//! The calling thread's capture mode, around calls that a recording of another thread would fail.
//!
//! While a thread records a graph in *global* mode, which is what PyTorch does, queries, synchronisations and frees of every
//! other thread answer 900 (`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED`), and make the recording invalid. A thread in relaxed
//! mode is not concerned (`cuThreadExchangeStreamCaptureMode`, `hipThreadExchangeStreamCaptureMode`), nor is the recording:
//! calls of this crate enqueue nothing on a stream that another thread records.

use std::ffi::c_uint;

use crate::driver::Driver;
use crate::status::Status;
use crate::trace::DriverFunction;
use crate::vendor::Vendor;

/// `CU_STREAM_CAPTURE_MODE_RELAXED`, `hipStreamCaptureModeRelaxed`.
pub(crate) const RELAXED: c_uint = 2;

/// Puts the thread in relaxed mode: the mode to be restored, `None` if nothing is.
#[inline]
pub(crate) fn relax<V: Vendor>(driver: &Driver<V>) -> Option<c_uint> {
    exchange(driver, RELAXED).filter(|before| *before != RELAXED)
}

/// Puts the thread in the mode that [`relax`] found.
#[inline]
pub(crate) fn restore<V: Vendor>(driver: &Driver<V>, mode: c_uint) {
    exchange(driver, mode);
}

#[inline]
fn exchange<V: Vendor>(driver: &Driver<V>, mut mode: c_uint) -> Option<c_uint> {
    let entry = &driver.functions.thread_exchange_capture_mode;
    // Drivers without the function have no recordings of other threads.
    let function = entry.function.get()?;
    // SAFETY: the pointer is valid for the call.
    let answer = unsafe { function.traced(entry.operation, (&raw mut mode,)) };
    if answer == Status::SUCCESS {
        return Some(mode);
    }
    refused(driver, entry.operation, answer);
    None
}

#[cold]
fn refused<V: Vendor>(driver: &Driver<V>, operation: &'static str, answer: Status) {
    if let Err(error) = driver.check(operation, answer) {
        tracing::debug!(%error, "the thread's capture mode stays; a recording of another thread may be in the way");
    }
}
