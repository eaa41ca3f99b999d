//! The device's primary context, current for one call at a time.

use std::sync::Arc;

use gpu_interop_core::Result;

use crate::driver::Driver;
use crate::sys::{self, CuResult, Handle};

/// A hold on a device's primary context.
#[derive(Debug)]
pub(crate) struct PrimaryContext {
    pub(crate) driver: Arc<Driver>,
    device: sys::Device,
    handle: Handle,
}

impl PrimaryContext {
    pub(crate) fn retain(driver: Arc<Driver>, device: sys::Device) -> Result<Self> {
        const OPERATION: &str = "cuDevicePrimaryCtxRetain";
        let mut handle = 0;
        // SAFETY: the pointer is valid for the call.
        driver.check(OPERATION, unsafe { (driver.functions.primary_ctx_retain)(&raw mut handle, device) })?;
        let handle = Driver::not_null(OPERATION, handle)?;
        Ok(Self { driver, device, handle })
    }

    /// Makes the context current on this thread until the returned value is dropped.
    #[inline]
    pub(crate) fn bind(&self) -> Result<Bound<'_>> {
        let mut current = 0;
        // SAFETY: the pointer is valid for the call.
        let asked = unsafe { (self.driver.functions.ctx_get_current)(&raw mut current) };
        if asked == CuResult::SUCCESS && current == self.handle {
            return Ok(Bound { pushed: None });
        }
        // SAFETY: the context is retained, so live.
        self.driver.check("cuCtxPushCurrent", unsafe { (self.driver.functions.ctx_push_current)(self.handle) })?;
        Ok(Bound { pushed: Some(&self.driver) })
    }
}

impl Drop for PrimaryContext {
    fn drop(&mut self) {
        // SAFETY: retained once, released once.
        let released = unsafe { (self.driver.functions.primary_ctx_release)(self.device) };
        if let Err(error) = self.driver.check("cuDevicePrimaryCtxRelease", released) {
            tracing::warn!(%error, "releasing the primary context failed");
        }
    }
}

/// The context is current while this lives.
#[must_use]
#[derive(Debug)]
pub(crate) struct Bound<'a> {
    pushed: Option<&'a Driver>,
}

impl Drop for Bound<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(driver) = self.pushed {
            pop(driver);
        }
    }
}

/// Only for threads on which another context is current: kept out of the way of the others.
#[cold]
fn pop(driver: &Driver) {
    let mut popped = 0;
    // SAFETY: pops what `bind` pushed on this same thread: a `Bound` is not sent to another, and pairs nest.
    let result = unsafe { (driver.functions.ctx_pop_current)(&raw mut popped) };
    if let Err(error) = driver.check("cuCtxPopCurrent", result) {
        tracing::error!(%error, "the thread's current context could not be restored");
    }
}
