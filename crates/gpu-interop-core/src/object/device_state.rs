//! State shared by all objects of a device.

use std::convert::Infallible;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use super::lifetime::Lifetimes;
use crate::backend::{BackendDevice, BackendInfo};
use crate::bridge::Bridges;
use crate::callback::calls_are_forbidden;
use crate::callback::caught;
use crate::error::{Error, ErrorKind, Result};
use crate::process::{FORKED, ProcessMark};

/// State shared by all objects of a device.
#[derive(Debug)]
pub(super) struct DeviceInner {
    pub(super) info: BackendInfo,
    pub(super) raw: Arc<dyn BackendDevice>,
    pub(super) lifetimes: Arc<Lifetimes>,
    pub(super) bridges: Bridges,
    pub(super) ordinal: Option<usize>,
    /// Process that opened the device.
    pub(super) process: ProcessMark,
    /// Disconnects when this object is dropped. Declared after `raw`, so dropped after it.
    pub(super) dropping: Option<Sender<Infallible>>,
}

impl DeviceInner {
    /// `true` if this process was forked from the one that opened the device. The driver cannot be called here, and
    /// locks held by other threads are never released.
    #[inline]
    pub(super) fn is_forked(&self) -> bool {
        !self.process.is_this_process()
    }

    /// Returns an error in a forked process. Called before each call of the driver, except to free objects.
    ///
    /// # Errors
    /// [`ErrorKind::System`].
    #[inline]
    pub(super) fn check_process(&self, operation: &'static str) -> Result<()> {
        if self.is_forked() { Err(self.forked(operation)) } else { Ok(()) }
    }

    #[cold]
    fn forked(&self, operation: &'static str) -> Error {
        self.decorate(Error::new(ErrorKind::System, operation, FORKED))
    }

    /// Adds backend and device to an error.
    #[cold]
    pub(super) fn decorate(&self, error: Error) -> Error {
        error.with_backend(&self.info.name).with_device(self.raw.identity())
    }
}

impl Drop for DeviceInner {
    fn drop(&mut self) {
        if self.is_forked() {
            // Its threads do not exist in this process, and its driver must not be called.
            std::mem::forget((
                self.raw.clone(),
                std::mem::take(&mut self.lifetimes),
                std::mem::take(&mut self.bridges),
            ));
            return;
        }
        if !calls_are_forbidden() {
            close(&self.lifetimes, &self.raw, &self.bridges);
            return;
        }
        // Draining calls the driver and may wait for this thread.
        let (lifetimes, bridges) = (std::mem::take(&mut self.lifetimes), std::mem::take(&mut self.bridges));
        let (dropping, dropped) = channel();
        self.dropping = Some(dropping);
        // A closure that is not called is dropped, but the owners in it must live as long as the pending work.
        let parts = ManuallyDrop::new((lifetimes, self.raw.clone(), bridges));
        let close = move || {
            let (lifetimes, raw, bridges) = ManuallyDrop::into_inner(parts);
            self::close(&lifetimes, &raw, &bridges);
            // Disconnected once the host function's thread has dropped its reference: closing the device calls the
            // driver, too.
            let _ = dropped.recv();
        };
        if let Err(error) = std::thread::Builder::new().name("gpu-interop close".into()).spawn(close) {
            log!(error, %error, "a device was closed inside a host function, and no thread could be started to free its objects; they are leaked");
        }
    }
}

/// Frees all objects of a device. A backend may call a subscriber of `tracing`, which may panic.
fn close(lifetimes: &Lifetimes, raw: &Arc<dyn BackendDevice>, bridges: &Bridges) {
    if caught(|| lifetimes.drain(raw, bridges)).is_none() {
        log!(error, "closing a device panicked; its objects may be leaked");
    }
}
