//! State shared by all objects of a device, the open devices of this process, and the ownership of a driver's objects.
//!
//! A driver whose frees wait for streams waits for those of all open devices on the same hardware.

use std::convert::Infallible;
use std::fmt::Debug;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use super::lifetime::Lifetimes;
use super::lifetime::Resource;
use super::progress::is_lost;
use super::slots::{PendingWaits, Slots};
use crate::backend::{BackendDevice, BackendInfo};
use crate::bridge::Bridges;
use crate::callback::{calls_are_forbidden, caught};
use crate::error::{Error, ErrorKind, Result};
use crate::process::{FORKED, ProcessMark};
use crate::sync::lock;

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

#[derive(Debug)]
struct OpenDevice {
    device: Weak<DeviceInner>,
    backend: String,
    raw: Weak<dyn BackendDevice>,
    slots: Weak<Slots>,
    /// Its frees wait for streams.
    waits: bool,
}

/// Locks the open devices; `None` in a forked process in which a thread that it lacks may hold the lock.
fn all() -> Option<MutexGuard<'static, Vec<OpenDevice>>> {
    static ALL: Mutex<Vec<OpenDevice>> = Mutex::new(Vec::new());
    static FIRST: OnceLock<ProcessMark> = OnceLock::new();
    if FIRST.get_or_init(ProcessMark::of_this_process).is_this_process() {
        Some(lock(&ALL))
    } else {
        ALL.try_lock().ok()
    }
}

/// The open device of `raw`; creates and registers it if there is none.
pub(super) fn shared(raw: &Arc<dyn BackendDevice>, new: impl FnOnce() -> DeviceInner) -> Arc<DeviceInner> {
    let Some(mut all) = all() else { return Arc::new(new()) };
    let same = |open: &&OpenDevice| std::ptr::addr_eq(open.raw.as_ptr(), Arc::as_ptr(raw));
    // Only this one becomes a reference: dropping the last one of another device here would need the lock.
    if let Some(device) = all.iter().filter(same).find_map(|open| open.device.upgrade()) {
        return device;
    }
    let device = Arc::new(new());
    all.retain(|open| open.slots.strong_count() > 0);
    all.push(OpenDevice {
        device: Arc::downgrade(&device),
        backend: device.info.name.clone(),
        raw: Arc::downgrade(raw),
        slots: Arc::downgrade(device.lifetimes.slots()),
        waits: raw.frees_wait_for_streams(),
    });
    device
}

/// Streams of other devices on the same hardware that may have pending external waits.
pub(super) fn waiting(device: &dyn BackendDevice, slots: &Slots) -> PendingWaits {
    // Dropped without the lock: these may be the last references to a device.
    let others: Vec<_> = {
        let Some(all) = all() else { return PendingWaits::new() };
        if all.len() < 2 {
            return PendingWaits::new();
        }
        let is_own = |other: &&OpenDevice| std::ptr::eq(other.slots.as_ptr(), slots);
        let Some(own) = all.iter().find(is_own) else { return PendingWaits::new() };
        let same = |other: &&OpenDevice| own.waits && other.waits && other.backend == own.backend && !is_own(other);
        all.iter().filter(same).filter_map(|other| Some((other.raw.upgrade()?, other.slots.upgrade()?))).collect()
    };
    let same = |other: &Arc<dyn BackendDevice>| other.identity() == device.identity();
    others.iter().filter(|(raw, _)| same(raw)).flat_map(|(raw, slots)| slots.waiting(&**raw)).collect()
}

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
