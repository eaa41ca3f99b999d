//! Devices of this process on the same hardware. A driver whose frees wait for streams waits for those of all these
//! devices.

use std::sync::{Arc, Mutex, Weak};

use super::lock::lock;
use super::slots::{PendingWaits, Slots};
use crate::backend::BackendDevice;

#[derive(Debug)]
struct OpenDevice {
    backend: String,
    raw: Weak<dyn BackendDevice>,
    slots: Weak<Slots>,
}

static ALL: Mutex<Vec<OpenDevice>> = Mutex::new(Vec::new());

/// Registers an opened device.
pub(super) fn register(backend: &str, raw: &Arc<dyn BackendDevice>, slots: &Arc<Slots>) {
    let mut all = lock(&ALL);
    all.retain(|device_entry| device_entry.slots.strong_count() > 0);
    all.push(OpenDevice { backend: backend.to_owned(), raw: Arc::downgrade(raw), slots: Arc::downgrade(slots) });
}

/// Streams of other devices on the same hardware that may have pending external waits.
pub(super) fn waiting(device: &dyn BackendDevice, slots: &Slots) -> PendingWaits {
    // Dropped without the lock: these may be the last references to a device.
    let others: Vec<_> = {
        let all = lock(&ALL);
        if all.len() < 2 {
            return PendingWaits::new();
        }
        let is_own = |other: &&OpenDevice| std::ptr::eq(other.slots.as_ptr(), slots);
        let Some(own) = all.iter().find(is_own) else { return PendingWaits::new() };
        let same = |other: &&OpenDevice| other.backend == own.backend && !is_own(other);
        all.iter().filter(same).filter_map(|other| Some((other.raw.upgrade()?, other.slots.upgrade()?))).collect()
    };
    let same = |other: &Arc<dyn BackendDevice>| other.identity() == device.identity();
    others.iter().filter(|(raw, _)| same(raw)).flat_map(|(raw, slots)| slots.waiting(&**raw)).collect()
}
