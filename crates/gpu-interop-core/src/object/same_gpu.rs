//! The devices of this process that are the same hardware. A driver that waits for streams before it frees something waits
//! for those of all of them.

use std::sync::{Arc, Mutex, Weak};

use super::lifetime::{Lifetimes, lock};
use super::retired::PendingWaits;
use crate::backend::BackendDevice;

/// One of them.
#[derive(Debug)]
struct OpenDevice {
    backend: String,
    raw: Weak<dyn BackendDevice>,
    lifetimes: Weak<Lifetimes>,
}

static ALL: Mutex<Vec<OpenDevice>> = Mutex::new(Vec::new());

/// Notes a device that was opened.
pub(super) fn join(backend: &str, raw: &Arc<dyn BackendDevice>, lifetimes: &Arc<Lifetimes>) {
    let mut all = lock(&ALL);
    all.retain(|device_entry| device_entry.lifetimes.strong_count() > 0);
    all.push(OpenDevice {
        backend: backend.to_owned(),
        raw: Arc::downgrade(raw),
        lifetimes: Arc::downgrade(lifetimes),
    });
}

/// The streams of other devices that are the same hardware which may wait for something outside.
pub(super) fn waiting(device: &dyn BackendDevice, lifetimes: &Lifetimes) -> PendingWaits {
    // Let go when nothing is locked: these may be the last to hold a device.
    let others: Vec<_> = {
        let all = lock(&ALL);
        if all.len() < 2 {
            return PendingWaits::new();
        }
        let is_own = |other: &&OpenDevice| std::ptr::eq(other.lifetimes.as_ptr(), lifetimes);
        let Some(own) = all.iter().find(is_own) else { return PendingWaits::new() };
        let same = |other: &&OpenDevice| other.backend == own.backend && !is_own(other);
        all.iter().filter(same).filter_map(|other| Some((other.raw.upgrade()?, other.lifetimes.upgrade()?))).collect()
    };
    let same = |other: &Arc<dyn BackendDevice>| other.identity() == device.identity();
    others.iter().filter(|(raw, _)| same(raw)).flat_map(|(raw, lifetimes)| lifetimes.waiting(&**raw)).collect()
}
