//! Slots of a device's streams and graphs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock, TryLockError};

use smallvec::SmallVec;

use super::progress;
use crate::backend::{BackendDevice, RawEvent, RawStream};
use crate::sync::{lock, unpoisoned};

/// A stream that may be queried.
#[derive(Debug)]
pub(super) struct LiveStream {
    raw: RawStream,
    /// Set when the stream is destroyed. Driver calls with the stream hold the read lock.
    destroyed: RwLock<bool>,
    waits: ExternalWaits,
}

impl LiveStream {
    /// Calls the driver with the stream, unless it is destroyed. Its destruction waits for the call, which must not
    /// destroy it.
    pub(super) fn with<T>(&self, call: impl FnOnce(RawStream) -> T) -> Option<T> {
        let destroyed = unpoisoned(self.destroyed.read());
        if *destroyed { None } else { Some(call(self.raw)) }
    }

    /// Records that an external wait was enqueued.
    #[inline]
    pub(super) fn waits(&self) {
        self.waits.begin();
    }

    fn end(&self) {
        *unpoisoned(self.destroyed.write()) = true;
    }
}

/// External waits of a stream: for words that the host writes, for semaphores of another API.
#[derive(Debug, Default)]
struct ExternalWaits {
    /// Waits were enqueued after the marker.
    enqueued: AtomicBool,
    /// There is a marker, or a thread decides whether one is needed. Set before `enqueued` is cleared.
    marked: AtomicBool,
    marker: Mutex<Marker>,
}

#[derive(Debug, Default)]
struct Marker {
    /// Event behind all waits that were enqueued when it was recorded. The next one is recorded when this has
    /// completed.
    event: Option<RawEvent>,
    /// Number of completed markers.
    passed: u64,
}

impl ExternalWaits {
    /// Records an enqueued wait.
    #[inline]
    fn begin(&self) {
        self.enqueued.store(true, Ordering::Release);
    }

    /// `false` if no wait is pending. Takes no lock, which another thread may hold: its query is no reason to retain
    /// objects.
    #[inline]
    fn may_be_pending(&self) -> bool {
        self.enqueued.load(Ordering::Acquire) || self.marked.load(Ordering::Acquire)
    }

    /// Number of completed markers, if known, while a wait may be pending; `None` if no wait is pending. After a failed
    /// query waits count as pending.
    ///
    /// # Safety
    /// The stream is live and belongs to this device.
    unsafe fn unmet(&self, device: &dyn BackendDevice, raw: RawStream) -> Option<PassedMarkers> {
        let mut marker = match self.marker.try_lock() {
            Ok(marker) => marker,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another thread is querying.
            Err(TryLockError::WouldBlock) => return Some(None),
        };
        if let Some(event) = marker.event {
            // SAFETY: the marker owns the event, which is live; the caller guarantees the stream.
            if !unsafe { device.query_event(event).unwrap_or_else(|_| progress::is_idle(device, raw)) } {
                return Some(Some(marker.passed));
            }
            marker.event = None;
            marker.passed += 1;
            progress::destroy(device, event);
        }
        self.marked.store(true, Ordering::Release);
        // SAFETY: the caller guarantees a live stream of this device.
        if !self.enqueued.swap(false, Ordering::AcqRel) || unsafe { progress::is_idle(device, raw) } {
            self.marked.store(false, Ordering::Release);
            return None;
        }
        // SAFETY: the caller guarantees a live stream of this device.
        match unsafe { progress::record(device, raw) } {
            Ok(event) => marker.event = Some(event),
            Err(error) => {
                log!(warn, %error, "recording an event failed; objects are freed once the stream is idle");
                self.enqueued.store(true, Ordering::Release);
            }
        }
        Some(Some(marker.passed))
    }

    /// Destroys the marker before the stream.
    fn end(&self, device: &dyn BackendDevice) {
        let event = lock(&self.marker).event.take();
        if let Some(event) = event {
            progress::destroy(device, event);
        }
    }
}

#[derive(Debug, Clone)]
pub(super) enum User {
    Free,
    Stream(Arc<LiveStream>),
    Graph,
}

/// Users of a device's objects, one for each slot. Slots past 64 share bits.
#[derive(Debug)]
pub(super) struct Slots {
    /// Number of the device in this process.
    id: u64,
    users: Mutex<Vec<User>>,
}

impl Default for Slots {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), users: Mutex::default() }
    }
}

impl Slots {
    /// Assigns a slot to a stream.
    pub(super) fn add_stream(&self, raw: RawStream) -> (usize, Arc<LiveStream>) {
        let live = Arc::new(LiveStream { raw, destroyed: RwLock::default(), waits: ExternalWaits::default() });
        (self.add(User::Stream(live.clone())), live)
    }

    /// Assigns a slot to a graph.
    pub(super) fn add_graph(&self) -> usize {
        self.add(User::Graph)
    }

    fn add(&self, user: User) -> usize {
        let mut slots = lock(&self.users);
        match slots.iter().position(|slot| matches!(slot, User::Free)) {
            Some(slot) => {
                slots[slot] = user;
                slot
            }
            None => {
                slots.push(user);
                slots.len() - 1
            }
        }
    }

    /// Releases a slot. Once this returns, no thread calls the driver with its stream.
    pub(super) fn leave(&self, device: &dyn BackendDevice, slot: usize) {
        let user = std::mem::replace(&mut lock(&self.users)[slot], User::Free);
        if let User::Stream(live) = user {
            live.end();
            live.waits.end(device);
        }
    }

    pub(super) fn get(&self, slot: usize) -> User {
        lock(&self.users)[slot].clone()
    }

    /// Users of the slots in `used`, one bit for each slot.
    pub(super) fn users(&self, used: u64) -> SmallVec<[(usize, User); 4]> {
        if used == 0 {
            return SmallVec::new();
        }
        let slots = lock(&self.users);
        let wanted = |(slot, user): &(usize, &User)| used & (1 << (slot % 64)) != 0 && !matches!(user, User::Free);
        slots.iter().enumerate().filter(wanted).map(|(slot, user)| (slot, user.clone())).collect()
    }

    /// Streams that may have pending external waits.
    pub(super) fn waiting(&self, device: &dyn BackendDevice) -> PendingWaits {
        let candidates: SmallVec<[(usize, Arc<LiveStream>); 4]> = {
            let users = lock(&self.users);
            let candidate = |(slot, user): (usize, &User)| match user {
                User::Stream(live) if live.waits.may_be_pending() => Some((slot, live.clone())),
                _ => None,
            };
            users.iter().enumerate().filter_map(candidate).collect()
        };
        let unmet = |(slot, live): (usize, Arc<LiveStream>)| {
            // SAFETY: `with` passes only live streams of this device.
            live.with(|raw| unsafe { live.waits.unmet(device, raw) })?.map(|met| ((self.id, slot), met))
        };
        candidates.into_iter().filter_map(unmet).collect()
    }
}

/// Number of completed markers of a stream, if known.
pub(super) type PassedMarkers = Option<u64>;

/// Streams with pending external waits, on which a free would block, of all devices on the same hardware. Each by
/// device number and slot, with the number of its completed markers.
pub(super) type PendingWaits = SmallVec<[((u64, usize), PassedMarkers); 2]>;
