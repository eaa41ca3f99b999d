//! Ownership of a driver resource, with the streams that used it.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::device_state::DeviceInner;
use super::progress::is_lost;
use super::resource::Resource;
use crate::callback::caught;
use crate::error::{Error, Result};

/// Streams that used an object, one bit for each slot.
#[derive(Debug, Default)]
pub(super) struct InFlight(AtomicU64);

impl InFlight {
    /// Records a use on the stream in `slot`. Called before the work is enqueued.
    #[inline]
    pub(super) fn mark(&self, slot: usize) {
        let bit = 1 << (slot % 64);
        // Relaxed: the bits are read when the object is dropped, which happens after every use.
        if !self.has(slot) {
            self.0.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// `true` after `mark` of this slot, or of one that shares its bit.
    #[inline]
    pub(super) fn has(&self, slot: usize) -> bool {
        self.bits() & 1 << (slot % 64) != 0
    }

    #[inline]
    pub(super) fn bits(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Ownership of a driver resource and a reference to its device.
#[derive(Debug)]
pub(super) struct Owned {
    pub(super) device: Arc<DeviceInner>,
    pub(super) in_flight: InFlight,
    resource: Option<Resource>,
}

impl Owned {
    pub(super) fn new(device: Arc<DeviceInner>, resource: Resource) -> Self {
        let owned = Self { device, in_flight: InFlight::default(), resource: Some(resource) };
        if let Resource::Stream { slot, .. } = resource {
            owned.in_flight.mark(slot);
        }
        owned
    }

    /// Frees the resource now, or once the work that uses it has completed.
    pub(super) fn release(&mut self) -> Result<()> {
        match self.resource.take() {
            // The parent process owns it.
            Some(_) if self.device.is_forked() => Ok(()),
            Some(resource) => self
                .device
                .lifetimes
                .retire(&*self.device.raw, resource, self.in_flight.bits())
                .map_err(|error| self.device.decorate(error)),
            None => Ok(()),
        }
    }
}

/// `true` if another library has reset the device, which has destroyed all objects: an error of the backend itself, without
/// a code of the driver.
pub(super) fn was_reset(error: &Error) -> bool {
    is_lost(error) && error.code().is_none()
}

/// Reports an object that could not be freed.
pub(super) fn report_unfreed(error: &Error, resource: impl Debug) {
    if was_reset(error) {
        log!(debug, %error, ?resource, "the device of a dropped object is lost");
    } else {
        log!(error, %error, ?resource, "freeing a driver object failed; it is leaked");
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let resource = self.resource;
        // A backend may call a subscriber of `tracing`, too.
        match caught(|| self.release()) {
            Some(Ok(())) => {}
            Some(Err(error)) => report_unfreed(&error, resource),
            None => log!(error, ?resource, "freeing a driver object panicked; it may be leaked"),
        }
    }
}
