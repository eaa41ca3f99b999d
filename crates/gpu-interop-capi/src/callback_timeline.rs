//! Timelines of the application, behind callbacks.

use std::ffi::c_void;
use std::fmt;
use std::time::Duration;

use gpu_interop::{Error, ExporterTimeline, Result};

use crate::release::{Release, gpi_release_function};
use crate::status::{GPI_SUCCESS, gpi_status, to_kind};

/// A timeline of another API, which the application implements: a counter that only grows. A bridge carries its values
/// between the API and streams. The functions may be called on any thread, also concurrently; they must not call this
/// library or the compute driver, and none but `wait` may block.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gpi_timeline_functions {
    /// Passed to each function.
    pub data: *mut c_void,
    /// Writes the current value to `*value`. Returns a `gpi_status`: an error is permanent.
    pub value: Option<unsafe extern "C" fn(data: *mut c_void, value: *mut u64) -> gpi_status>,
    /// Raises the counter to `value` from the host.
    pub signal: Option<unsafe extern "C" fn(data: *mut c_void, value: u64) -> gpi_status>,
    /// Blocks until the counter is at least `value`, or `timeout_ns` nanoseconds have passed: `GPI_ERROR_TIMEOUT`.
    pub wait: Option<unsafe extern "C" fn(data: *mut c_void, value: u64, timeout_ns: u64) -> gpi_status>,
    /// Called once, when the library no longer uses the timeline. May be null.
    pub release: gpi_release_function,
}

type Value = unsafe extern "C" fn(*mut c_void, *mut u64) -> gpi_status;
type Signal = unsafe extern "C" fn(*mut c_void, u64) -> gpi_status;
type Wait = unsafe extern "C" fn(*mut c_void, u64, u64) -> gpi_status;

/// Timeline behind callbacks.
#[derive(Debug)]
pub(crate) struct CallbackTimeline {
    data: *mut c_void,
    value: Value,
    signal: Signal,
    wait: Wait,
    release: Release,
}

// SAFETY: the caller of `new` promises that the functions may be called on any thread, concurrently.
unsafe impl Send for CallbackTimeline {}
// SAFETY: as above.
unsafe impl Sync for CallbackTimeline {}

impl CallbackTimeline {
    /// # Safety
    /// The functions keep the contract of [`gpi_timeline_functions`], until the release function is called.
    pub(crate) unsafe fn new(operation: &'static str, functions: gpi_timeline_functions) -> Result<Self> {
        let gpi_timeline_functions { data, value, signal, wait, release } = functions;
        let (Some(value), Some(signal), Some(wait)) = (value, signal, wait) else {
            return Err(Error::invalid(operation, "a function is null; only `release` may be"));
        };
        // SAFETY: the caller's promise.
        let release = unsafe { Release::new(release, data) };
        Ok(Self { data, value, signal, wait, release })
    }

    /// From now on the release function is called on drop.
    pub(crate) fn arm(&self) {
        self.release.arm();
    }
}

fn checked(operation: &'static str, status: gpi_status) -> Result<()> {
    if status == GPI_SUCCESS {
        return Ok(());
    }
    let message = "the application's timeline returned an error";
    Err(Error::new(to_kind(status), operation, message).with_context("status", status))
}

impl ExporterTimeline for CallbackTimeline {
    fn value(&self) -> Result<u64> {
        let mut value = 0;
        // SAFETY: the promise of `new`; the address is valid for the call.
        checked("gpi_timeline_functions.value", unsafe { (self.value)(self.data, &raw mut value) })?;
        Ok(value)
    }

    fn signal(&self, value: u64) -> Result<()> {
        // SAFETY: the promise of `new`.
        checked("gpi_timeline_functions.signal", unsafe { (self.signal)(self.data, value) })
    }

    fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
        let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the promise of `new`.
        checked("gpi_timeline_functions.wait", unsafe { (self.wait)(self.data, value, timeout) })
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a timeline of the application")
    }
}
