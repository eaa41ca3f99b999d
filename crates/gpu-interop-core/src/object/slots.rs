//! The streams and graphs of a device, each in a slot.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, TryLockError};

use smallvec::SmallVec;

use super::lifetime::lock;
use super::progress;
use crate::backend::{BackendDevice, RawEvent, RawStream};

/// A stream, as long as somebody may ask the driver about it.
#[derive(Debug)]
pub(super) struct LiveStream {
    raw: RawStream,
    /// It is being destroyed. Whoever calls the driver with it meanwhile holds this for reading.
    gone: RwLock<bool>,
    waits: ExternalWaits,
}

impl LiveStream {
    /// Calls the driver with the stream, unless it is gone. The call does not end the stream, and whoever ends it waits.
    pub(super) fn with<T>(&self, call: impl FnOnce(RawStream) -> T) -> Option<T> {
        let gone = self.gone.read().unwrap_or_else(PoisonError::into_inner);
        if *gone { None } else { Some(call(self.raw)) }
    }

    /// Notes that the stream was given something that it waits for, and that this device's streams need not bring about.
    #[inline]
    pub(super) fn waits(&self) {
        self.waits.begin();
    }

    fn end(&self) {
        *self.gone.write().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

/// Whether a stream may be held up by something outside: a word that the host writes, a semaphore of another API.
#[derive(Debug, Default)]
struct ExternalWaits {
    /// There are some behind the marker.
    enqueued: AtomicBool,
    marker: Mutex<Marker>,
}

#[derive(Debug, Default)]
struct Marker {
    /// Behind all waits that were noted when it was recorded. There is one at a time, and the next when this has passed.
    event: Option<RawEvent>,
    /// How many have passed.
    passed: u64,
}

impl ExternalWaits {
    /// Called after the stream was given one.
    #[inline]
    fn begin(&self) {
        self.enqueued.store(true, Ordering::Release);
    }

    /// If one may be unmet: how many markers have passed, as far as that is known. A driver that does not say counts as such.
    ///
    /// # Safety
    /// The stream is live, and of this device.
    unsafe fn unmet(&self, device: &dyn BackendDevice, raw: RawStream) -> Option<PassedMarkers> {
        let mut marker = match self.marker.try_lock() {
            Ok(marker) => marker,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Somebody else is finding out.
            Err(TryLockError::WouldBlock) => return Some(None),
        };
        if let Some(event) = marker.event {
            // SAFETY: the event is this marker's own, and live; the caller's promise.
            if !unsafe { device.query_event(event).unwrap_or_else(|_| progress::is_idle(device, raw)) } {
                return Some(Some(marker.passed));
            }
            marker.event = None;
            marker.passed += 1;
            progress::destroy(device, event);
        }
        // SAFETY: the caller's promise.
        if !self.enqueued.swap(false, Ordering::AcqRel) || unsafe { progress::is_idle(device, raw) } {
            return None;
        }
        // SAFETY: the caller's promise.
        match unsafe { progress::record(device, raw) } {
            Ok(event) => marker.event = Some(event),
            Err(error) => {
                tracing::warn!(%error, "recording an event failed; what is freed waits for an idle stream");
                self.enqueued.store(true, Ordering::Release);
            }
        }
        Some(Some(marker.passed))
    }

    /// The stream is about to end.
    fn end(&self, device: &dyn BackendDevice) {
        let event = self.marker.lock().unwrap_or_else(PoisonError::into_inner).event.take();
        if let Some(event) = event {
            progress::destroy(device, event);
        }
    }
}

/// Who may use an object.
#[derive(Debug, Clone)]
pub(super) enum User {
    Free,
    Stream(Arc<LiveStream>),
    Graph,
}

/// The users of a device's objects. Slots past 64 share bits.
#[derive(Debug, Default)]
pub(super) struct Slots(Mutex<Vec<User>>);

impl Slots {
    /// Gives a stream a slot.
    pub(super) fn add_stream(&self, raw: RawStream) -> (usize, Arc<LiveStream>) {
        let live = Arc::new(LiveStream { raw, gone: RwLock::default(), waits: ExternalWaits::default() });
        (self.add(User::Stream(live.clone())), live)
    }

    /// Gives a graph a slot.
    pub(super) fn add_graph(&self) -> usize {
        self.add(User::Graph)
    }

    fn add(&self, user: User) -> usize {
        let mut slots = lock(&self.0);
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

    /// Takes a slot back. What waits for its user may go. Nobody calls the driver with it any more once this returns.
    pub(super) fn leave(&self, device: &dyn BackendDevice, slot: usize) {
        let user = std::mem::replace(&mut lock(&self.0)[slot], User::Free);
        if let User::Stream(live) = user {
            live.end();
            live.waits.end(device);
        }
    }

    /// Who is in a slot.
    pub(super) fn get(&self, slot: usize) -> User {
        lock(&self.0)[slot].clone()
    }

    /// Who is in the slots of `used`, one bit a slot.
    pub(super) fn users(&self, used: u64) -> SmallVec<[(usize, User); 4]> {
        if used == 0 {
            return SmallVec::new();
        }
        let slots = lock(&self.0);
        let wanted = |(slot, user): &(usize, &User)| used & (1 << (slot % 64)) != 0 && !matches!(user, User::Free);
        slots.iter().enumerate().filter(wanted).map(|(slot, user)| (slot, user.clone())).collect()
    }

    /// The streams that may wait for something outside, by their slots, and how many markers of each have passed.
    pub(super) fn waiting(&self, device: &dyn BackendDevice) -> Waiting {
        let unmet = |(slot, user): (usize, User)| match user {
            // SAFETY: `with` calls with live streams of this device only.
            User::Stream(live) => live.with(|raw| unsafe { live.waits.unmet(device, raw) })?.map(|met| (slot, met)),
            User::Free | User::Graph => None,
        };
        self.users(u64::MAX).into_iter().filter_map(unmet).collect()
    }
}

/// How many markers of a stream have passed, as far as that is known.
pub(super) type PassedMarkers = Option<u64>;
/// Streams that may wait for something outside, by their slots.
pub(super) type Waiting = SmallVec<[(usize, PassedMarkers); 2]>;
