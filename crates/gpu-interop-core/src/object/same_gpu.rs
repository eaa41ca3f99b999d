//! Open devices of this process: one for each device of a backend, and the others on the same hardware. A driver whose
//! frees wait for streams waits for those of all these devices.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use super::device_state::DeviceInner;
use super::slots::{PendingWaits, Slots};
use crate::backend::BackendDevice;
use crate::process::ProcessMark;
use crate::sync::lock;

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
