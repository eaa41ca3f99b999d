//! [`Context`]: an open device, and making it current on the calling thread.

use std::ffi::c_uint;
use std::sync::Arc;

use gpu_interop_core::Result;
use gpu_interop_core::backend::RawStream;

use crate::capture_mode;
use crate::driver::Driver;
use crate::functions::{DeviceNumber, Handle};
use crate::late_release::Late;
use crate::status::Status;
use crate::vendor::Vendor;

/// Greatest handle of a default stream, which names a stream of the current context: the null stream, the legacy default
/// stream (1) and that of the calling thread (2).
const LAST_DEFAULT_STREAM: usize = 2;

/// Open device, shared by its users.
#[derive(Debug)]
pub(crate) struct Context<V: Vendor> {
    pub(crate) driver: Arc<Driver<V>>,
    pub(crate) device: DeviceNumber,
    vendor: V::Context,
    pub(crate) late: Late,
}

impl<V: Vendor> Context<V> {
    pub(crate) fn open(driver: Arc<Driver<V>>, device: DeviceNumber) -> Result<Self> {
        let vendor = V::open(&driver, device)?;
        Ok(Self { driver, device, vendor, late: Late::default() })
    }

    /// The driver's context; `None` for vendors without contexts.
    pub(crate) fn handle(&self) -> Option<Handle> {
        V::context_handle(&self.vendor)
    }

    /// Returns the driver, with the device current on this thread and the thread in relaxed capture mode until the
    /// second value is dropped.
    #[inline]
    pub(crate) fn enter(&self) -> Result<(&Driver<V>, CurrentRelaxed<'_, V>)> {
        let (driver, current) = self.enter_to_enqueue()?;
        let mode = capture_mode::relax(driver);
        Ok((driver, CurrentRelaxed { mode, current }))
    }

    /// Counterpart of [`Context::enter`] for functions that only enqueue work, which captures of other threads never
    /// reject.
    #[inline]
    pub(crate) fn enter_to_enqueue(&self) -> Result<(&Driver<V>, Current<'_, V>)> {
        let driver = &*self.driver;
        let previous = V::enter(driver, self.device, &self.vendor)?;
        Ok((driver, Current { driver, previous }))
    }

    /// Calls a function that only enqueues work on `stream`, and that has enqueued nothing if it fails. The device is
    /// current during the call only where the driver needs that.
    ///
    /// # Errors
    /// The driver's error.
    #[inline]
    pub(crate) fn enqueue(&self, operation: &'static str, stream: RawStream, call: impl Fn() -> Status) -> Result<()> {
        if !V::STREAMS_NAME_CONTEXTS || stream.get() <= LAST_DEFAULT_STREAM {
            let (driver, _current) = self.enter_to_enqueue()?;
            return driver.check(operation, call());
        }
        match call() {
            Status::SUCCESS => Ok(()),
            status => self.enqueue_again(operation, status, call),
        }
    }

    /// Repeats a call that failed, if the driver may have failed because another context was current, or none.
    #[cold]
    fn enqueue_again(&self, operation: &'static str, status: Status, call: impl Fn() -> Status) -> Result<()> {
        if status.may_be_of_another_context() {
            let (driver, current) = self.enter_to_enqueue()?;
            if current.previous.is_some() {
                return driver.check(operation, call());
            }
        }
        self.driver.check(operation, status)
    }
}

impl<V: Vendor> Drop for Context<V> {
    fn drop(&mut self) {
        if !self.late.is_empty() {
            let settled = self.enter().and_then(|(driver, _current)| self.late.settle(driver, self.device));
            if let Err(error) = settled {
                self.late.leak(&error);
            }
        }
        V::close(&self.driver, self.device, &self.vendor);
    }
}

/// Guard that keeps a device current.
#[must_use]
#[derive(Debug)]
pub(crate) struct Current<'a, V: Vendor> {
    driver: &'a Driver<V>,
    previous: Option<V::Previous>,
}

/// Guard that keeps a device current and the thread in relaxed capture mode.
#[must_use]
#[derive(Debug)]
pub(crate) struct CurrentRelaxed<'a, V: Vendor> {
    /// Capture mode to restore.
    mode: Option<c_uint>,
    current: Current<'a, V>,
}

impl<V: Vendor> Drop for CurrentRelaxed<'_, V> {
    #[inline]
    fn drop(&mut self) {
        if let Some(mode) = self.mode {
            capture_mode::restore(self.current.driver, mode);
        }
    }
}

impl<V: Vendor> Drop for Current<'_, V> {
    #[inline]
    fn drop(&mut self) {
        if let Some(previous) = self.previous {
            // This is the thread that called `enter`: a `Current` never leaves the function that created it, so pairs
            // nest.
            V::leave(self.driver, previous);
        }
    }
}
