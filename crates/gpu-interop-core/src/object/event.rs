//! Events: markers in a stream's work.

use std::sync::Arc;

use super::device_state::DeviceInner;
use super::owned::Owned;
use super::resource::Resource;
use crate::backend::RawEvent;
use crate::error::Result;

/// A marker in a stream's work that other streams can wait for and the host can query.
#[doc(alias("CUevent", "cudaEvent_t", "hipEvent_t", "cuEventDestroy", "cudaEventDestroy", "hipEventDestroy"))]
#[derive(Debug)]
pub struct Event {
    // Uses are not tracked: drivers keep the resources of a pending event until it has completed.
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

    /// `true` if all work before the last [`Stream::record`](super::Stream::record) has completed; `true` if it was
    /// never recorded. Does not block.
    ///
    /// # Errors
    /// [`ErrorKind::System`](crate::ErrorKind::System) in a forked process; otherwise the driver's error.
    #[doc(alias("cuEventQuery", "cudaEventQuery", "hipEventQuery"))]
    pub fn is_complete(&self) -> Result<bool> {
        let device = &self.owned.device;
        device.check_process("Event::is_complete")?;
        // SAFETY: the event is live.
        unsafe { device.raw.query_event(self.raw) }.map_err(|error| device.decorate(error))
    }
}
