//! When a driver object may be freed: not while work that uses it is pending.
//!
//! Every stream has a slot. An object remembers the slots of the streams it was used on as one bit each (slots
//! past 64 share bits, which only makes the answer more careful). When the object is let go, those streams are
//! asked whether they are idle; if one is not, an event is recorded on it, and the object is freed once all its
//! events have passed: at the next release, creation or synchronisation on the device. Using an object so costs
//! one load, and freeing an idle one costs nothing.
//!
//! A driver that cannot say whether work has run is asked in another way: of a stream by an event, of an event by its
//! stream. Work counts as pending until the driver has said that it has run, or, asked in both ways, that the device is
//! lost, on which nothing runs any more; no other error says that.
//!
//! A graph has a slot, too, for as long as it lives: what was recorded in it may run at any time until then.
//!
//! Memory never goes before its mappings, nor an image before its surfaces and textures, even if the work ends while
//! the question is being asked: it waits for those of them that are still kept, and what is kept is freed under one
//! lock, in the order it was let go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::device::DeviceInner;
use super::host_function;
use super::progress::{self, is_lost};
use super::resource::{Import, Resource};
use crate::backend::{BackendDevice, RawEvent, RawStream};
use crate::bridge::{Bridges, Threads, UnmetWaits};
use crate::error::Result;
use crate::handle::Owner;

/// How long a device that is being closed waits for work to end.
const PATIENCE: Duration = Duration::from_secs(1);

/// Who may use an object.
#[derive(Debug, Clone, Copy)]
enum Slot {
    Free,
    Stream(RawStream),
    Graph,
}

impl Slot {
    fn stream(self) -> Option<RawStream> {
        match self {
            Self::Stream(raw) => Some(raw),
            Self::Free | Self::Graph => None,
        }
    }
}

/// The streams an object was used on, one bit a slot.
#[derive(Debug, Default)]
pub(super) struct InFlight(AtomicU64);

impl InFlight {
    /// Notes a use on the stream in `slot`. Called before the work is enqueued.
    #[inline]
    pub(super) fn mark(&self, slot: usize) {
        let bit = 1 << (slot % 64);
        // Relaxed: the bits are read when the object is dropped, which already happens after every use.
        if self.0.load(Ordering::Relaxed) & bit == 0 {
            self.0.fetch_or(bit, Ordering::Relaxed);
        }
    }

    pub(super) fn bits(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// An object's hold on its driver resource and its device.
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

    /// Frees the resource now, or once the work that uses it has run.
    pub(super) fn release(&mut self) -> Result<()> {
        match self.resource.take() {
            Some(resource) => self
                .device
                .lifetimes
                .retire(&*self.device.raw, resource, self.in_flight.bits())
                .map_err(|error| self.device.decorate(error)),
            None => Ok(()),
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let resource = self.resource;
        if let Err(error) = self.release() {
            tracing::error!(%error, ?resource, "freeing a driver object failed; it is leaked");
        }
    }
}

/// What a retired object waits for.
#[derive(Debug, Clone, Copy)]
enum Wait {
    /// An event recorded after the last use, owned by the entry.
    Event { event: RawEvent, slot: usize },
    /// The stream in this slot being idle, where no event could be recorded; the graph in it being gone.
    Idle(usize),
}

#[derive(Debug)]
struct Retired {
    resource: Resource,
    waits: SmallVec<[Wait; 2]>,
}

/// The streams of a device and the objects that wait for them.
#[derive(Debug, Default)]
pub(super) struct Lifetimes {
    slots: Mutex<Vec<Slot>>,
    retired: Mutex<Vec<Retired>>,
    /// What was let go inside a host function, where no driver may be called, and the streams it was used on.
    deferred: Mutex<Vec<(Resource, u64)>>,
    /// What imports borrow from, until the driver has ended them.
    owners: Mutex<BTreeMap<Import, Owner>>,
    /// How many retired objects make a release collect.
    due: AtomicUsize,
    /// The threads that let streams go from failed timelines. They use this.
    pub(super) raisers: Threads,
    /// The streams' waits that bridges have not met yet.
    pub(super) unmet: UnmetWaits,
    /// The device is closed, and what is pending stays so.
    given_up: AtomicBool,
}

impl Lifetimes {
    /// Gives a stream its slot.
    pub(super) fn add_stream(&self, raw: RawStream) -> usize {
        self.add(Slot::Stream(raw))
    }

    /// Gives a graph its slot.
    pub(super) fn add_graph(&self) -> usize {
        self.add(Slot::Graph)
    }

    fn add(&self, user: Slot) -> usize {
        let mut slots = lock(&self.slots);
        match slots.iter().position(|slot| matches!(slot, Slot::Free)) {
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

    /// Takes a slot back. What waits for it may go.
    pub(super) fn leave(&self, slot: usize) {
        lock(&self.slots)[slot] = Slot::Free;
    }

    /// Keeps what a new import borrows from.
    pub(super) fn keep(&self, resource: Resource, owner: Option<&Owner>) {
        if let (Some(import), Some(owner)) = (resource.import(), owner) {
            lock(&self.owners).insert(import, owner.clone());
        }
    }

    /// Frees `resource` now if the streams in `used` are idle, else later.
    fn retire(&self, device: &dyn BackendDevice, resource: Resource, used: u64) -> Result<()> {
        if host_function::running() {
            lock(&self.deferred).push((resource, used));
            return Ok(());
        }
        if matches!(resource, Resource::Event(_)) {
            return self.free(device, resource).map(drop);
        }
        self.collect_if_due(device);
        let waits = self.fence(device, used);
        if waits.is_empty() && !self.would_block(device, &resource) && !self.is_occupied(&resource) {
            return self.free(device, resource).map(drop);
        }
        lock(&self.retired).push(Retired { resource, waits });
        Ok(())
    }

    /// Whether freeing would block until a stream's wait is met, which this thread may be the one to signal.
    fn would_block(&self, device: &dyn BackendDevice, resource: &Resource) -> bool {
        device.frees_wait_for_streams() && resource.is_memory_or_module() && self.unmet.any()
    }

    /// Whether something that lives in `resource` is still kept. Returns only after what another thread is freeing is
    /// gone.
    fn is_occupied(&self, resource: &Resource) -> bool {
        let container = resource.container();
        container.is_some() && lock(&self.retired).iter().any(|entry| entry.resource.lives_in().contains(&container))
    }

    /// Records an event on each busy stream in `used`.
    fn fence(&self, device: &dyn BackendDevice, used: u64) -> SmallVec<[Wait; 2]> {
        let mut waits = SmallVec::new();
        if used == 0 {
            return waits;
        }
        let slots = lock(&self.slots);
        for (slot, user) in slots.iter().enumerate() {
            if used & (1 << (slot % 64)) == 0 {
                continue;
            }
            let raw = match *user {
                Slot::Free => continue,
                Slot::Stream(raw) => raw,
                Slot::Graph => {
                    waits.push(Wait::Idle(slot));
                    continue;
                }
            };
            // SAFETY: a stream is in the table, which is locked, exactly while it is live.
            let says_lost = match unsafe { device.query_stream(raw) } {
                Ok(true) => continue,
                Ok(false) => false,
                Err(error) => {
                    tracing::warn!(%error, "asking a stream failed; what is freed waits for an event");
                    is_lost(&error)
                }
            };
            // SAFETY: as above.
            match unsafe { progress::record(device, raw) } {
                Ok(event) => waits.push(Wait::Event { event, slot }),
                Err(error) if says_lost && is_lost(&error) => {
                    tracing::warn!(%error, "recording an event failed; the device is lost");
                }
                Err(error) => {
                    tracing::warn!(%error, "recording an event failed; what is freed waits for an idle stream");
                    waits.push(Wait::Idle(slot));
                }
            }
        }
        waits
    }

    /// Collects, unless much is kept and little was added: dropping n objects behind busy work takes n steps, not n².
    fn collect_if_due(&self, device: &dyn BackendDevice) {
        const FEW: usize = 32;
        let kept = {
            let mut retired = lock(&self.retired);
            // Always: a mapping let go inside a host function must come before its memory.
            self.adopt(device, &mut retired);
            retired.len()
        };
        if kept <= FEW || kept >= self.due.load(Ordering::Relaxed) {
            self.collect(device);
            self.due.store(2 * lock(&self.retired).len(), Ordering::Relaxed);
        }
    }

    /// Retires what was let go inside host functions.
    fn adopt(&self, device: &dyn BackendDevice, retired: &mut Vec<Retired>) {
        for (resource, used) in std::mem::take(&mut *lock(&self.deferred)) {
            retired.push(Retired { resource, waits: self.fence(device, used) });
        }
    }

    /// Frees every retired object whose events have passed.
    pub(super) fn collect(&self, device: &dyn BackendDevice) {
        if host_function::running() {
            return;
        }
        // Let go when nothing is locked: it may have objects of this device itself.
        let mut owners = Vec::new();
        // Locked until everything is freed: another thread must not free memory while its mapping is under way.
        let mut retired = lock(&self.retired);
        self.adopt(device, &mut retired);
        let mut occupied = BTreeSet::new();
        // A stream's events pass in order, so behind one that has not passed no other need be asked.
        let mut busy = BTreeSet::new();
        for entry in std::mem::take(&mut *retired) {
            let is_occupied = entry.resource.container().is_some_and(|container| occupied.contains(&container));
            let stays = is_occupied || self.would_block(device, &entry.resource);
            if stays || !entry.waits.iter().all(|wait| self.passed(device, *wait, &mut busy)) {
                occupied.extend(entry.resource.lives_in().into_iter().flatten());
                retired.push(entry);
                continue;
            }
            for wait in entry.waits {
                let Wait::Event { event, .. } = wait else { continue };
                // SAFETY: the event was created for this entry alone, and has passed.
                if let Err(error) = unsafe { device.destroy_event(event) } {
                    tracing::warn!(%error, "destroying an event failed");
                }
            }
            let resource = entry.resource;
            match self.free(device, resource) {
                Ok(owner) => owners.extend(owner),
                Err(error) => tracing::error!(%error, ?resource, "freeing a driver object failed; it is leaked"),
            }
        }
    }

    fn passed(&self, device: &dyn BackendDevice, wait: Wait, busy: &mut BTreeSet<usize>) -> bool {
        match wait {
            Wait::Event { slot, .. } if busy.contains(&slot) => false,
            Wait::Event { event, slot } => {
                // SAFETY: retired entries own their events.
                let passed = unsafe { device.query_event(event) }.unwrap_or_else(|error| {
                    tracing::warn!(%error, "asking an event failed; what is freed waits for an idle stream");
                    self.is_idle(device, slot)
                });
                if !passed {
                    busy.insert(slot);
                }
                passed
            }
            Wait::Idle(slot) => self.is_idle(device, slot),
        }
    }

    /// Whether the stream in a slot is idle, or was when it left, or its graph has left. Another one in the slot only makes
    /// this more careful.
    fn is_idle(&self, device: &dyn BackendDevice, slot: usize) -> bool {
        match lock(&self.slots)[slot] {
            Slot::Free => true,
            Slot::Stream(raw) => {
                // SAFETY: a stream is in the table, which is locked, exactly while it is live.
                unsafe { progress::is_idle(device, raw) }
            }
            Slot::Graph => false,
        }
    }

    /// Which of the streams in `used` have something left to run; none of a device that was closed and given up.
    pub(super) fn busy(&self, device: &dyn BackendDevice, used: u64) -> u64 {
        if used == 0 || self.given_up.load(Ordering::Relaxed) {
            return 0;
        }
        let slots = lock(&self.slots);
        slots.iter().enumerate().fold(0, |busy, (slot, user)| {
            let bit = 1 << (slot % 64);
            // SAFETY: a stream is in the table, which is locked, exactly while it is live.
            let runs = |raw| !unsafe { progress::is_idle(device, raw) };
            if used & bit != 0 && user.stream().is_some_and(runs) { busy | bit } else { busy }
        })
    }

    /// Frees what is left when the device goes: gives enqueued work a moment to run, then cancels what the backend and the
    /// bridges can cancel, then waits another moment.
    pub(super) fn drain(&self, device: &dyn BackendDevice, bridges: &Bridges) {
        /// Tests close many devices whose streams never go idle.
        const UNCANCELLED: Duration = if cfg!(test) { Duration::from_millis(20) } else { PATIENCE };
        let mut collected = self.collected_within(device, bridges, UNCANCELLED);
        if !collected {
            // SAFETY: the device is being closed: no object is left that could enqueue anything.
            unsafe { device.cancel_pending_work() };
            bridges.cancel();
            collected = self.collected_within(device, bridges, PATIENCE);
        }
        if collected {
            // SAFETY: every stream has been freed, so all were idle.
            unsafe { bridges.free(device) };
        } else {
            bridges.abandon();
            self.given_up.store(true, Ordering::Relaxed);
            // What is leaked still borrows from these.
            std::mem::forget(std::mem::take(&mut *lock(&self.owners)));
            let deadline = Instant::now() + PATIENCE;
            while !self.is_at_rest(bridges) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            let objects = lock(&self.retired).len();
            tracing::warn!(objects, "work is still pending on a closed device; its objects are leaked");
        }
    }

    /// Whether everything retired could be freed in this time, and the bridges have nothing left to carry. A thread that
    /// only has to notice that it is done gets [`PATIENCE`].
    fn collected_within(&self, device: &dyn BackendDevice, bridges: &Bridges, patience: Duration) -> bool {
        let start = Instant::now();
        loop {
            self.collect(device);
            let freed = lock(&self.retired).is_empty();
            if freed && self.is_at_rest(bridges) {
                return true;
            }
            if start.elapsed() >= if freed { PATIENCE } else { patience } {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether no thread serves a timeline any more.
    fn is_at_rest(&self, bridges: &Bridges) -> bool {
        bridges.are_at_rest() && self.raisers.have_ended()
    }

    /// Gives what an import borrowed from, which nothing needs any more.
    fn free(&self, device: &dyn BackendDevice, resource: Resource) -> Result<Option<Owner>> {
        // Taken first: once the import has ended, its number may be another's.
        let owner = resource.import().and_then(|import| lock(&self.owners).remove(&import));
        match self.destroy(device, resource) {
            Ok(()) => Ok(owner),
            Err(error) => {
                // The driver may still use what it borrowed.
                std::mem::forget(owner);
                Err(error)
            }
        }
    }

    fn destroy(&self, device: &dyn BackendDevice, resource: Resource) -> Result<()> {
        // SAFETY: the resource came from this device, `Owned::release` hands it over exactly once, and the streams
        // that used it are idle or past the event recorded after its last use. Memory outlives its mappings, and a
        // module its kernels, because the objects hold each other.
        unsafe {
            match resource {
                Resource::Memory(raw) => device.destroy_memory(raw),
                Resource::Buffer { ptr, memory } => device.free_buffer(memory, ptr),
                Resource::MipmappedArray { raw, .. } => device.free_mipmapped_array(raw),
                Resource::Surface { raw, .. } => device.destroy_surface(raw),
                Resource::Texture { raw, .. } => device.destroy_texture(raw),
                Resource::Semaphore(raw) => device.destroy_semaphore(raw),
                Resource::Allocation(allocation) => device.destroy_exportable(&allocation),
                Resource::Module(raw) => device.unload_module(raw),
                Resource::Event(raw) => device.destroy_event(raw),
                Resource::Stream { raw, slot, owned } => {
                    self.leave(slot);
                    if owned { device.destroy_stream(raw) } else { Ok(()) }
                }
                Resource::Recorder(raw) => device.destroy_stream(raw),
                Resource::Graph { raw, slot } => {
                    let destroyed = device.destroy_graph(raw);
                    self.leave(slot);
                    destroyed
                }
            }
        }
    }
}

/// The data under these locks is valid at every step, so a panic elsewhere does not spoil it.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
