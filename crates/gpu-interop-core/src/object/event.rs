//! Events: points in a stream's work.

use std::sync::Arc;

use super::device::DeviceInner;
use crate::backend::RawEvent;
use crate::error::Result;

/// A point in a stream's work that other streams and the host can wait for.
#[derive(Debug)]
pub struct Event {
    pub(super) device: Arc<DeviceInner>,
    pub(super) raw: RawEvent,
}

impl Event {
    pub(super) fn new(device: Arc<DeviceInner>, raw: RawEvent) -> Self {
        Self { device, raw }
    }

    /// The driver's event, valid while `self` lives.
    #[must_use]
    pub fn as_raw(&self) -> RawEvent {
        self.raw
    }

    /// Whether everything before the last [`Stream::record`](super::Stream::record) has run; `true` if it was never
    /// recorded. Does not block.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn is_complete(&self) -> Result<bool> {
        // SAFETY: the event is live.
        unsafe { self.device.raw.query_event(self.raw) }.map_err(|error| self.device.decorate(error))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: this is the only owner, and drivers keep an event's resources until it has passed.
        if let Err(error) = unsafe { self.device.raw.destroy_event(self.raw) } {
            tracing::warn!(error = %self.device.decorate(error), "destroying an event failed");
        }
    }
}
