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
//! the question is being asked, or another thread is freeing them: it waits for those of them that are not gone.
//!
//! A driver may wait for streams before it frees ([`BackendDevice::frees_wait_for_streams`]). Where one of them waits for
//! something outside, a word or another API's semaphore, the calling thread may be the one to bring that about: what is let
//! go meanwhile is kept until none does, or until much is kept and those waits have been met. No lock is held over a call of the driver, but one that keeps a stream from being
//! destroyed under the call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::progress::{self, is_lost};
use super::resource::{Borrower, Resource};
use super::retired::{PendingWaits, Retired, RetiredObjects, Wait};
use super::slots::{LiveStream, PassedMarkers, Slots, User};
use super::{host_function, same_gpu};
use crate::backend::{BackendDevice, RawStream};
use crate::bridge::{Bridges, Threads};
use crate::error::Result;
use crate::handle::Owner;

/// How long a device that is being closed waits for work to end, and once more after it has cancelled what it can.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long it waits at the most for threads that were told to end.
const MOMENT: Duration = Duration::from_millis(50);

/// The streams of a device and the objects that wait for them.
#[derive(Debug)]
pub(super) struct Lifetimes {
    /// Its number in this process.
    id: u64,
    slots: Slots,
    retired: Mutex<RetiredObjects>,
    /// Whether an object was dropped and not yet freed.
    any_retired: AtomicBool,
    /// What was let go inside a host function, where no driver may be called, and the streams it was used on.
    deferred: Mutex<Vec<(Resource, u64)>>,
    /// What imports and lent streams borrow from, until they have ended.
    owners: Mutex<BTreeMap<Borrower, Owner>>,
    /// How many retired objects make a release collect.
    due: AtomicUsize,
    /// The threads that let streams go from failed timelines. They use this.
    pub(super) raisers: Threads,
    /// The device is closed, and what is pending stays so.
    given_up: AtomicBool,
}

impl Default for Lifetimes {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            slots: Slots::default(),
            retired: Mutex::default(),
            any_retired: AtomicBool::new(false),
            deferred: Mutex::default(),
            owners: Mutex::default(),
            due: AtomicUsize::new(0),
            raisers: Threads::default(),
            given_up: AtomicBool::new(false),
        }
    }
}

impl Lifetimes {
    /// Gives a stream its slot.
    pub(super) fn add_stream(&self, raw: RawStream) -> (usize, Arc<LiveStream>) {
        self.slots.add_stream(raw)
    }

    /// Gives a graph its slot.
    pub(super) fn add_graph(&self) -> usize {
        self.slots.add_graph()
    }

    /// Takes back a slot that no object came to have.
    pub(super) fn leave(&self, device: &dyn BackendDevice, slot: usize) {
        self.slots.leave(device, slot);
    }

    /// The streams that may wait for something outside.
    pub(super) fn waiting(&self, device: &dyn BackendDevice) -> PendingWaits {
        self.slots.waiting(device).into_iter().map(|(slot, met)| ((self.id, slot), met)).collect()
    }

    /// Keeps what a new import or lent stream borrows from.
    pub(super) fn keep(&self, resource: Resource, owner: Option<&Owner>) {
        if let (Some(borrower), Some(owner)) = (resource.borrower(), owner) {
            lock(&self.owners).insert(borrower, owner.clone());
        }
    }

    /// Frees `resource` now if the streams in `used` are idle, else later.
    pub(super) fn retire(&self, device: &dyn BackendDevice, resource: Resource, used: u64) -> Result<()> {
        if host_function::running() {
            // Its container may be dropped before this is adopted.
            lock(&self.retired).add(&resource);
            lock(&self.deferred).push((resource, used));
            self.any_retired.store(true, Ordering::Relaxed);
            return Ok(());
        }
        if matches!(resource, Resource::Event(_)) {
            return self.free(device, resource).map(drop);
        }
        self.collect_if_due(device);
        let waits = self.fence(device, used);
        let entry = Retired { resource, waits, blocked_by: None };
        let blocked_by = if entry.waits.is_empty() { self.blocks(device, &entry, 0, &mut None) } else { None };
        {
            let mut retired = lock(&self.retired);
            retired.add(&resource);
            if blocked_by.is_some() || !entry.waits.is_empty() || retired.has_children(&resource) {
                retired.entries.push(Retired { blocked_by, ..entry });
                self.any_retired.store(true, Ordering::Relaxed);
                return Ok(());
            }
            retired.at_work += 1;
        }
        // The owner goes last: its destructor is the application's, and may panic.
        let freed = self.free(device, resource);
        let again = {
            let mut retired = lock(&self.retired);
            retired.remove(&resource);
            retired.finish(&[resource])
        };
        if again {
            self.collect(device);
        }
        freed.map(drop)
    }

    /// Whether freeing would block until streams' waits are met, which this thread may be the one to bring about: what is
    /// waited for. A wait that another thread enqueues at this moment is not seen. `kept` are those that stay already.
    /// `outside` is what was found in this pass since the last free.
    ///
    /// Where something outside is always waited for, as by a stream that is given frame after frame, more and more would be
    /// kept. Of many that are, one goes all the same once everything has been met that was waited for when it was let go:
    /// whoever brings that about is at work.
    fn blocks(
        &self,
        device: &dyn BackendDevice,
        entry: &Retired,
        retired: usize,
        external: &mut Option<PendingWaits>,
    ) -> Option<PendingWaits> {
        const MANY: usize = 64;
        if !device.frees_wait_for_streams() || !entry.resource.may_wait_to_end() {
            return None;
        }
        if external.is_none() {
            *external = self.external(device);
        }
        let now = external.as_ref()?;
        let Some(blocked_by) = &entry.blocked_by else { return Some(now.clone()) };
        let find = |stream: &(u64, usize)| now.iter().find(|(now, _)| now == stream).map(|(_, met)| *met);
        // The marker of that time may be of before the last of those waits, so the one after it counts.
        let follows = |met: PassedMarkers, then: PassedMarkers| met.zip(then).is_some_and(|(met, then)| met > then + 1);
        let has_passed =
            |(stream, then): &((u64, usize), PassedMarkers)| find(stream).is_none_or(|met| follows(met, *then));
        if retired >= MANY && blocked_by.iter().all(has_passed) {
            return None;
        }
        // A stream that waits for nothing any more, or that was not known to be how far, counts from here on.
        let known = |(stream, then): &((u64, usize), PassedMarkers)| Some((*stream, then.or(find(stream)?)));
        Some(blocked_by.iter().filter_map(known).collect())
    }

    /// The streams' waits for something outside that a free would wait for, too.
    fn external(&self, device: &dyn BackendDevice) -> Option<PendingWaits> {
        let mut all = self.waiting(device);
        all.extend(same_gpu::waiting(device, self));
        (!all.is_empty()).then_some(all)
    }

    /// Records an event on each busy stream in `used`.
    fn fence(&self, device: &dyn BackendDevice, used: u64) -> SmallVec<[Wait; 2]> {
        let mut waits = SmallVec::new();
        for (slot, user) in self.slots.users(used) {
            match user {
                User::Free => {}
                User::Graph => waits.push(Wait::Idle(slot)),
                // SAFETY: `with` calls with live streams of this device only.
                User::Stream(live) => waits.extend(live.with(|raw| unsafe { fence(device, raw, slot) }).flatten()),
            }
        }
        waits
    }

    /// Collects, unless much is kept and little was added: dropping n objects behind busy work takes n steps, not n².
    fn collect_if_due(&self, device: &dyn BackendDevice) {
        const FEW: usize = 32;
        // Always: a mapping let go inside a host function must come before its memory.
        self.adopt(device);
        let retired = lock(&self.retired).entries.len();
        if retired <= FEW || retired >= self.due.load(Ordering::Relaxed) {
            self.collect(device);
            self.due.store(2 * lock(&self.retired).entries.len(), Ordering::Relaxed);
        }
    }

    /// Frees the objects kept because streams waited for something outside, if none does now: the next wait may be one that
    /// its own thread is to meet, and objects dropped before it does are kept.
    #[inline]
    pub(super) fn about_to_wait(&self, device: &dyn BackendDevice) {
        // Relaxed: other threads' drops are no part of this thread's order.
        if self.any_retired.load(Ordering::Relaxed) {
            self.collect_before_wait(device);
        }
    }

    #[cold]
    fn collect_before_wait(&self, device: &dyn BackendDevice) {
        if device.frees_wait_for_streams() && self.external(device).is_none() {
            self.collect(device);
        }
    }

    /// Retires what was let go inside host functions.
    fn adopt(&self, device: &dyn BackendDevice) {
        // Not in the loop's head, where the lock would be held until the loop has ended: host functions wait for it, and the
        // driver may wait for them.
        let deferred = std::mem::take(&mut *lock(&self.deferred));
        for (resource, used) in deferred {
            let waits = self.fence(device, used);
            lock(&self.retired).entries.push(Retired { resource, waits, blocked_by: None });
        }
    }

    /// Frees every retired object whose events have passed.
    pub(super) fn collect(&self, device: &dyn BackendDevice) {
        if host_function::running() {
            return;
        }
        self.adopt(device);
        // Let go when everything else is done: it may have objects of this device itself.
        let mut owners = Vec::new();
        while self.collect_once(device, &mut owners) {}
    }

    /// Whether it must be done again, because of what others let go meanwhile.
    fn collect_once(&self, device: &dyn BackendDevice, owners: &mut Vec<Owner>) -> bool {
        let entries = {
            let mut retired = lock(&self.retired);
            if retired.entries.is_empty() {
                return false;
            }
            retired.at_work += 1;
            std::mem::take(&mut retired.entries)
        };
        // A stream's events pass in order, so behind one that has not passed no other need be asked.
        let mut busy = BTreeSet::new();
        let (mut stay, mut freed) = (Vec::new(), Vec::new());
        let (count, mut external) = (entries.len(), None);
        for mut entry in entries {
            let occupied = lock(&self.retired).has_children(&entry.resource);
            if occupied || !entry.waits.iter().all(|wait| self.passed(device, *wait, &mut busy)) {
                stay.push(entry);
                continue;
            }
            entry.blocked_by = self.blocks(device, &entry, count - freed.len(), &mut external);
            if entry.blocked_by.is_some() {
                stay.push(entry);
                continue;
            }
            for wait in entry.waits {
                if let Wait::Event { event, .. } = wait {
                    progress::destroy(device, event);
                }
            }
            let resource = entry.resource;
            // A free takes time, in which streams may be given other waits.
            external = None;
            match self.free(device, resource) {
                Ok(owner) => owners.extend(owner),
                Err(error) => tracing::error!(%error, ?resource, "freeing a driver object failed; it is leaked"),
            }
            // At once: what it lived in may be next.
            lock(&self.retired).remove(&resource);
            freed.push(resource);
        }
        let mut retired = lock(&self.retired);
        stay.append(&mut retired.entries);
        retired.entries = stay;
        self.any_retired.store(!retired.entries.is_empty(), Ordering::Relaxed);
        retired.finish(&freed)
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
        match self.slots.get(slot) {
            User::Free => true,
            User::Stream(live) => {
                // SAFETY: `with` calls with live streams of this device only.
                live.with(|raw| unsafe { progress::is_idle(device, raw) }).unwrap_or(true)
            }
            User::Graph => false,
        }
    }

    /// Which of the streams in `used` have something left to run; none of a device that was closed and given up.
    pub(super) fn busy(&self, device: &dyn BackendDevice, used: u64) -> u64 {
        if used == 0 || self.given_up.load(Ordering::Relaxed) {
            return 0;
        }
        self.slots.users(used).into_iter().fold(0, |busy, (slot, user)| {
            let User::Stream(live) = user else { return busy };
            // SAFETY: `with` calls with live streams of this device only.
            let idle = live.with(|raw| unsafe { progress::is_idle(device, raw) }).unwrap_or(true);
            if idle { busy } else { busy | 1 << (slot % 64) }
        })
    }

    /// Frees what is left when the device goes: gives enqueued work a moment to run, then cancels what the backend and the
    /// bridges can cancel, then waits another moment.
    pub(super) fn drain(&self, raw: &Arc<dyn BackendDevice>, bridges: &Bridges) {
        /// Tests close many devices whose streams never go idle.
        const UNCANCELLED: Duration = if cfg!(test) { Duration::from_millis(20) } else { PATIENCE };
        let device = &**raw;
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
            bridges.keep(raw);
            bridges.abandon();
            self.given_up.store(true, Ordering::Relaxed);
            // What is leaked still borrows from these.
            std::mem::forget(std::mem::take(&mut *lock(&self.owners)));
            // What they read stays; this only lets most of them end before the exporter does.
            let deadline = Instant::now() + MOMENT;
            while !self.bridges_are_idle(bridges) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            let objects = lock(&self.retired).entries.len();
            tracing::warn!(objects, "work is still pending on a closed device; its objects are leaked");
        }
    }

    /// Whether everything retired could be freed in this time, and the bridges have nothing left to carry. A thread that
    /// only has to notice that it is done gets [`PATIENCE`].
    fn collected_within(&self, device: &dyn BackendDevice, bridges: &Bridges, patience: Duration) -> bool {
        let start = Instant::now();
        loop {
            self.collect(device);
            let freed = {
                let retired = lock(&self.retired);
                retired.entries.is_empty() && retired.at_work == 0
            };
            // The words are freed next.
            let blocks = device.frees_wait_for_streams() && !same_gpu::waiting(device, self).is_empty();
            if freed && self.bridges_are_idle(bridges) && !blocks {
                return true;
            }
            if start.elapsed() >= if freed { PATIENCE } else { patience } {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether no thread serves a timeline any more.
    fn bridges_are_idle(&self, bridges: &Bridges) -> bool {
        bridges.are_idle() && self.raisers.have_ended()
    }

    /// Gives what it borrowed from, which nothing needs any more.
    fn free(&self, device: &dyn BackendDevice, resource: Resource) -> Result<Option<Owner>> {
        // Taken first: once it has ended, its number may be another's.
        let owner = resource.borrower().and_then(|borrower| lock(&self.owners).remove(&borrower));
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
                    self.leave(device, slot);
                    if owned { device.destroy_stream(raw) } else { Ok(()) }
                }
                Resource::Recorder(raw) => device.destroy_stream(raw),
                Resource::Graph { raw, slot } => {
                    let destroyed = device.destroy_graph(raw);
                    self.leave(device, slot);
                    destroyed
                }
            }
        }
    }
}

/// An event on a stream that is busy.
///
/// # Safety
/// The stream is live, and of this device.
unsafe fn fence(device: &dyn BackendDevice, raw: RawStream, slot: usize) -> Option<Wait> {
    // SAFETY: the caller's promise.
    let says_lost = match unsafe { device.query_stream(raw) } {
        Ok(true) => return None,
        Ok(false) => false,
        Err(error) => {
            tracing::warn!(%error, "asking a stream failed; what is freed waits for an event");
            is_lost(&error)
        }
    };
    // SAFETY: the caller's promise.
    match unsafe { progress::record(device, raw) } {
        Ok(event) => Some(Wait::Event { event, slot }),
        Err(error) if says_lost && is_lost(&error) => {
            tracing::warn!(%error, "recording an event failed; the device is lost");
            None
        }
        Err(error) => {
            tracing::warn!(%error, "recording an event failed; what is freed waits for an idle stream");
            Some(Wait::Idle(slot))
        }
    }
}

/// The data under these locks is valid at every step, so a panic elsewhere does not spoil it.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
