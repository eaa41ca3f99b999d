//! State shared by all objects of a device.

use std::sync::Arc;

use super::driver_calls;
use super::lifetime::Lifetimes;
use crate::backend::{BackendDevice, BackendInfo};
use crate::bridge::Bridges;
use crate::error::{Error, ErrorKind, Result};
use crate::process::ProcessMark;

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
}

impl DeviceInner {
    /// `true` if this process was forked from the one that opened the device. The driver cannot be called here, and
    /// locks held by other threads are never released.
    pub(super) fn is_forked(&self) -> bool {
        !self.process.is_this_process()
    }

    /// Returns an error in a forked process.
    ///
    /// # Errors
    /// [`ErrorKind::System`].
    pub(super) fn check_process(&self, operation: &'static str) -> Result<()> {
        if !self.is_forked() {
            return Ok(());
        }
        let message = "this process was forked after the device was opened, and no driver works in a forked process; open \
                       the device after the fork, or start another program";
        Err(self.decorate(Error::new(ErrorKind::System, operation, message)))
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
        if !driver_calls::are_forbidden() {
            self.lifetimes.drain(&self.raw, &self.bridges);
            return;
        }
        // Draining calls the driver and may wait for this thread.
        let (lifetimes, bridges) = (std::mem::take(&mut self.lifetimes), std::mem::take(&mut self.bridges));
        let raw = self.raw.clone();
        let closer = std::thread::Builder::new().name("gpu-interop close".into());
        if let Err(error) = closer.spawn(move || lifetimes.drain(&raw, &bridges)) {
            tracing::error!(%error, "a device was closed inside a host function, and no thread could be started to free its objects; they are leaked");
        }
    }
}
