//! Events: points in a stream's work.

use std::sync::Arc;

use super::device::DeviceInner;
use super::owned::Owned;
use super::resource::Resource;
use crate::backend::RawEvent;
use crate::error::Result;

/// A point in a stream's work that other streams and the host can wait for.
#[derive(Debug)]
pub struct Event {
    // Drivers keep a pending event's resources until it has passed, so its uses are not noted.
    pub(super) owned: Owned,
    pub(super) raw: RawEvent,
}

impl Event {
    pub(super) fn new(device: Arc<DeviceInner>, raw: RawEvent) -> Self {
        Self { owned: Owned::new(device, Resource::Event(raw)), raw }
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
        let device = &self.owned.device;
        // SAFETY: the event is live.
        unsafe { device.raw.query_event(self.raw) }.map_err(|error| device.decorate(error))
    }
}
