//! Deferred freeing: driver objects are not freed while work that uses them is pending.
//!
//! Every stream has a slot. An object records the slots of the streams it was used on as one bit each (slots past 64
//! share bits, which is conservative). When the object is dropped, those streams are queried; an event is recorded on
//! each busy one, and the object is freed once all its events have completed, at the next drop, stream creation or
//! synchronisation on the device. A use of an object costs one load, and an unused object is freed without a query.
//!
//! If a query fails, the driver is queried in another way: a stream by an event, an event by its stream. Work counts as
//! pending until the driver reports it as completed or reports a lost device in both ways; no other error proves
//! completion.
//!
//! A graph has a slot as long as it lives, because its recorded work may be launched at any time.
//!
//! Memory is freed after its mappings, and an image after its surfaces and textures, even if work completes during a
//! query or another thread is freeing a child.
//!
//! A driver may wait for streams before it frees an object ([`BackendDevice::frees_wait_for_streams`]). If one of them
//! has a pending external wait (for a word in memory or a semaphore of another API), the calling thread may be the
//! thread that must satisfy the wait. Objects dropped during an external wait are retained until no external wait is
//! pending, or until many objects are retained and the waits at the time of the object's drop have been satisfied. No
//! lock is held during a driver call, except one that prevents a stream from being destroyed during the call.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::device_state::{report_unfreed, was_reset};
use super::progress::is_lost;
use super::slots::{LiveStream, PassedMarkers, PendingWaits, Slots, User};
use super::{device_state, progress};
use crate::backend::{
    BackendDevice, DevicePtr, ExportableAllocation, RawEvent, RawGraph, RawMemory, RawMipmappedArray, RawModule,
    RawSemaphore, RawStream, RawSurface, RawTexture,
};
use crate::bridge::{Bridges, Threads};
use crate::callback::calls_are_forbidden;
use crate::error::Result;
use crate::handle::Owner;
use crate::sync::lock;
use crate::sys::Guarded;

/// Timeout of closing a device. Waited twice: before and after cancelling pending work. Longer in tests, whose threads
/// a busy machine may stop.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 3 } else { 1 });
/// Time that closing waits for abandoned threads to end.
const THREAD_EXIT_TIMEOUT: Duration = Duration::from_millis(50);

/// Streams of a device and its retired objects.
#[derive(Debug, Default)]
pub(super) struct Lifetimes {
    slots: Arc<Slots>,
    retired: Mutex<RetiredObjects>,
    /// `true` if an object is retired or deferred. Written under the lock of those objects, read without it.
    any_retired: AtomicBool,
    /// Objects dropped inside a host function, where no driver may be called, and the streams they were used on.
    deferred: Mutex<Vec<(Resource, u64)>>,
    /// Owners of objects that imports, lent streams and borrowed memory refer to, until those are destroyed.
    owners: Mutex<BTreeMap<Borrower, Guarded<Owner>>>,
    /// A drop collects once at least this many objects are retired.
    due: AtomicUsize,
    /// Threads that release streams blocked on failed timelines.
    pub(super) raisers: Threads,
    /// The device is closed with work pending.
    abandoned: AtomicBool,
}

impl Lifetimes {
    /// Slots of its streams.
    pub(super) fn slots(&self) -> &Arc<Slots> {
        &self.slots
    }

    /// Assigns a slot to a stream.
    pub(super) fn add_stream(&self, raw: RawStream) -> (usize, Arc<LiveStream>) {
        self.slots.add_stream(raw)
    }

    /// Assigns a slot to a graph.
    pub(super) fn add_graph(&self) -> usize {
        self.slots.add_graph()
    }

    /// Releases a slot.
    pub(super) fn leave(&self, device: &dyn BackendDevice, slot: usize) {
        self.slots.leave(device, slot);
    }

    /// Keeps the owner of a new import, lent stream or borrowed range.
    pub(super) fn keep(&self, resource: Resource, owner: Option<&Owner>) {
        if let (Some(borrower), Some(owner)) = (resource.borrower(), owner) {
            lock(&self.owners).insert(borrower, Guarded::new(owner.clone()));
        }
    }

    /// Frees `resource` now if the streams in `used` are idle, else later.
    pub(super) fn retire(&self, device: &dyn BackendDevice, resource: Resource, used: u64) -> Result<()> {
        if calls_are_forbidden() {
            // Its parent may be dropped before this object is adopted.
            lock(&self.retired).add(&resource);
            let mut deferred = lock(&self.deferred);
            deferred.push((resource, used));
            self.any_retired.store(true, Ordering::Release);
            return Ok(());
        }
        if matches!(resource, Resource::Event(_)) {
            return self.free(device, resource).map(drop);
        }
        // If a child of `resource` is not freed yet, this is `true`: the child was retired before its parent was
        // dropped.
        let any_retired = self.any_retired.load(Ordering::Acquire);
        if any_retired {
            self.collect_if_due(device);
        }
        let waits = self.wait_entries(device, used);
        let entry = Retired { resource, waits, blocked_by: None };
        let blocked_by = if entry.waits.is_empty() { self.blocks(device, &entry, 0, &mut None) } else { None };
        let deferred = blocked_by.is_some() || !entry.waits.is_empty();
        if deferred || any_retired {
            let mut retired = lock(&self.retired);
            if deferred || retired.has_children(&resource) {
                retired.add(&resource);
                self.push(&mut retired, Retired { blocked_by, ..entry });
                return Ok(());
            }
        }
        // Its parents are live: the caller's object refers to them. The owner is dropped last.
        self.free(device, resource).map(drop)
    }

    /// Returns the pending external waits on which freeing `entry` would block and which this thread may have to
    /// satisfy. Misses waits that other threads enqueue concurrently. `retired` is the number of retained objects;
    /// `external` caches the pending waits found since the last free of this pass.
    ///
    /// With an external wait always pending, as with continuous frames, the number of retained objects would grow
    /// without bound. Beyond 64 retained objects an object is freed once the waits pending at its drop have been
    /// satisfied, which proves that the signalling side makes progress.
    fn blocks(
        &self,
        device: &dyn BackendDevice,
        entry: &Retired,
        retired: usize,
        external: &mut Option<PendingWaits>,
    ) -> Option<PendingWaits> {
        /// Retired objects from which freeing may wait for satisfied waits.
        const MAX_RETIRED: usize = 64;
        if !device.frees_wait_for_streams() || !entry.resource.free_may_wait() {
            return None;
        }
        if external.is_none() {
            *external = self.external_waits(device);
        }
        let now = external.as_ref()?;
        let Some(blocked_by) = &entry.blocked_by else { return Some(now.clone()) };
        let find = |stream: &(u64, usize)| now.iter().find(|(now, _)| now == stream).map(|(_, passed)| *passed);
        // The marker of that time may precede the last of those waits, so the marker after it must have completed.
        let follows = |now: PassedMarkers, then: PassedMarkers| now.zip(then).is_some_and(|(now, then)| now > then + 1);
        let has_passed =
            |(stream, then): &((u64, usize), PassedMarkers)| find(stream).is_none_or(|now| follows(now, *then));
        if retired >= MAX_RETIRED && blocked_by.iter().all(has_passed) {
            return None;
        }
        // Streams without a pending wait are removed; unknown progress is counted from now on.
        let known = |(stream, then): &((u64, usize), PassedMarkers)| Some((*stream, then.or(find(stream)?)));
        Some(blocked_by.iter().filter_map(known).collect())
    }

    /// Pending external waits on which a free would block, of all devices on this hardware.
    fn external_waits(&self, device: &dyn BackendDevice) -> Option<PendingWaits> {
        let mut all = self.slots.waiting(device);
        all.extend(device_state::waiting(device, &self.slots));
        (!all.is_empty()).then_some(all)
    }

    /// Records an event on each busy stream in `used`.
    fn wait_entries(&self, device: &dyn BackendDevice, used: u64) -> SmallVec<[Wait; 2]> {
        let mut waits = SmallVec::new();
        for (slot, user) in self.slots.users(used) {
            match user {
                User::Free => {}
                User::Graph => waits.push(Wait::Idle(slot)),
                // SAFETY: `with` passes only live streams of this device.
                User::Stream(live) => waits.extend(live.with(|raw| unsafe { wait_entry(device, raw, slot) }).flatten()),
            }
        }
        waits
    }

    /// Collects, unless many objects are retired and few were added, so that dropping n objects behind busy work takes
    /// O(n) steps instead of O(n²).
    fn collect_if_due(&self, device: &dyn BackendDevice) {
        /// Retired objects up to which every drop collects.
        const ALWAYS_COLLECTED: usize = 32;
        // Unconditionally: a mapping dropped inside a host function must be retired before its memory.
        self.adopt_deferred(device);
        let retired = lock(&self.retired).entries.len();
        if retired <= ALWAYS_COLLECTED || retired >= self.due.load(Ordering::Relaxed) {
            self.collect(device);
            self.due.store(2 * lock(&self.retired).entries.len(), Ordering::Relaxed);
        }
    }

    /// Frees objects retained because of external waits, if none is pending now. Called before a wait is enqueued:
    /// while that wait is pending, dropped objects are retained again.
    #[inline]
    pub(super) fn about_to_wait(&self, device: &dyn BackendDevice) {
        // Relaxed: drops of other threads need no ordering here.
        if self.any_retired.load(Ordering::Relaxed) {
            self.collect_before_wait(device);
        }
    }

    #[cold]
    fn collect_before_wait(&self, device: &dyn BackendDevice) {
        if device.frees_wait_for_streams() && self.external_waits(device).is_none() {
            self.collect(device);
        }
    }

    /// Retires objects dropped inside host functions.
    fn adopt_deferred(&self, device: &dyn BackendDevice) {
        // Taken before the loop: in its head the lock would be held until the loop ends, but host functions need it and
        // the driver may wait for them.
        let deferred = std::mem::take(&mut *lock(&self.deferred));
        for (resource, used) in deferred {
            let waits = self.wait_entries(device, used);
            self.push(&mut lock(&self.retired), Retired { resource, waits, blocked_by: None });
        }
    }

    fn push(&self, retired: &mut RetiredObjects, entry: Retired) {
        retired.entries.push(entry);
        self.any_retired.store(true, Ordering::Release);
    }

    /// Frees all retired objects whose events have completed.
    pub(super) fn collect(&self, device: &dyn BackendDevice) {
        if calls_are_forbidden() {
            return;
        }
        self.adopt_deferred(device);
        // Dropped last: owners may contain objects of this device.
        let mut owners = Vec::new();
        while self.collect_once(device, &mut owners) {}
    }

    /// One pass of [`Self::collect`]; returns whether another is needed because of concurrent frees.
    fn collect_once(&self, device: &dyn BackendDevice, owners: &mut Vec<Guarded<Owner>>) -> bool {
        let entries = {
            let mut retired = lock(&self.retired);
            if retired.entries.is_empty() {
                return false;
            }
            retired.active_threads += 1;
            std::mem::take(&mut retired.entries)
        };
        // A stream's events complete in order, so no event after a pending one is queried.
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
            // Streams may be given other waits during the free.
            external = None;
            match self.free(device, resource) {
                Ok(owner) => owners.extend(owner),
                Err(error) => report_unfreed(&error, resource),
            }
            // Immediately: its parent may be the next entry.
            lock(&self.retired).remove(&resource);
            freed.push(resource);
        }
        let mut retired = lock(&self.retired);
        stay.append(&mut retired.entries);
        retired.entries = stay;
        let again = retired.finish(&freed);
        // Locked: a host function that adds an object sets the flag under this lock.
        let deferred = lock(&self.deferred);
        self.any_retired.store(!retired.is_empty() || !deferred.is_empty(), Ordering::Release);
        again
    }

    fn passed(&self, device: &dyn BackendDevice, wait: Wait, busy: &mut BTreeSet<usize>) -> bool {
        match wait {
            Wait::Event { slot, .. } if busy.contains(&slot) => false,
            Wait::Event { event, slot } => {
                // SAFETY: retired entries own their events.
                let passed = unsafe { device.query_event(event) }.unwrap_or_else(|error| {
                    log!(warn, %error, "querying an event failed; the object is freed once the stream is idle");
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

    /// `true` if the slot is free or its stream is idle. A new user of the slot makes the result conservative.
    fn is_idle(&self, device: &dyn BackendDevice, slot: usize) -> bool {
        match self.slots.get(slot) {
            User::Free => true,
            User::Stream(live) => {
                // SAFETY: `with` passes only live streams of this device.
                live.with(|raw| unsafe { progress::is_idle(device, raw) }).unwrap_or(true)
            }
            User::Graph => false,
        }
    }

    /// The streams in `used` with pending work; none after the device was closed with work pending.
    pub(super) fn busy(&self, device: &dyn BackendDevice, used: u64) -> u64 {
        if used == 0 || self.abandoned.load(Ordering::Relaxed) {
            return 0;
        }
        self.slots.users(used).into_iter().fold(0, |busy, (slot, user)| {
            let User::Stream(live) = user else { return busy };
            // SAFETY: `with` passes only live streams of this device.
            let idle = live.with(|raw| unsafe { progress::is_idle(device, raw) }).unwrap_or(true);
            if idle { busy } else { busy | 1 << (slot % 64) }
        })
    }

    /// Frees the remaining objects when the device is closed: waits for enqueued work, then cancels pending work of the
    /// backend and the bridges and waits again.
    pub(super) fn drain(&self, raw: &Arc<dyn BackendDevice>, bridges: &Bridges) {
        /// Shorter in tests, which close many devices whose streams never become idle.
        const CANCEL_AFTER: Duration = if cfg!(test) { Duration::from_millis(20) } else { CLOSE_TIMEOUT };
        let device = &**raw;
        // Pending signals over bridges never arrive after another library's reset of the device.
        if !bridges.are_idle()
            && let Err(error) = device.create_event().map(|event| progress::destroy(device, event))
            && is_lost(&error)
        {
            bridges.set_lost(error);
        }
        let mut collected = self.collected_within(device, bridges, CANCEL_AFTER);
        if !collected {
            // SAFETY: the device is being closed: no object is left that could enqueue work.
            unsafe { device.cancel_pending_work() };
            bridges.cancel();
            collected = self.collected_within(device, bridges, CLOSE_TIMEOUT);
        }
        if collected {
            // SAFETY: every stream was idle and has been freed.
            unsafe { bridges.free(device, report_unfreed) };
        } else {
            bridges.keep(raw);
            bridges.abandon();
            self.abandoned.store(true, Ordering::Relaxed);
            // Leaked objects still refer to the owners.
            std::mem::forget(std::mem::take(&mut *lock(&self.owners)));
            // Memory that the threads read is leaked; this only lets most of them end before the exporter is destroyed.
            let deadline = Instant::now() + THREAD_EXIT_TIMEOUT;
            while !self.bridges_are_idle(bridges) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            let objects = lock(&self.retired).entries.len();
            log!(warn, objects, "work is still pending on a closed device; its objects are leaked");
        }
    }

    /// `true` if all retired objects were freed within `timeout` and the bridges are idle. Once all objects are freed,
    /// threads that only have to end get [`CLOSE_TIMEOUT`].
    fn collected_within(&self, device: &dyn BackendDevice, bridges: &Bridges, timeout: Duration) -> bool {
        let start = Instant::now();
        loop {
            self.collect(device);
            let freed = lock(&self.retired).is_empty();
            // The words are freed next, which may wait for streams, too.
            let blocks = device.frees_wait_for_streams() && !device_state::waiting(device, &self.slots).is_empty();
            if freed && self.bridges_are_idle(bridges) && !blocks {
                return true;
            }
            if start.elapsed() >= if freed { CLOSE_TIMEOUT } else { timeout } {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// `true` if all threads that serve timelines have ended.
    fn bridges_are_idle(&self, bridges: &Bridges) -> bool {
        bridges.are_idle() && self.raisers.have_ended()
    }

    /// Frees a driver object and returns its owner.
    fn free(&self, device: &dyn BackendDevice, resource: Resource) -> Result<Option<Guarded<Owner>>> {
        // Removed first: the driver may reuse the raw value after the free.
        let owner = resource.borrower().and_then(|borrower| lock(&self.owners).remove(&borrower));
        match self.destroy(device, resource) {
            Ok(()) => Ok(owner),
            Err(error) => {
                // The driver may still use the owner's object, but after a reset of the device.
                if !was_reset(&error) {
                    std::mem::forget(owner);
                }
                Err(error)
            }
        }
    }

    fn destroy(&self, device: &dyn BackendDevice, resource: Resource) -> Result<()> {
        // SAFETY: the resource belongs to this device, `Owned::release` passes it exactly once, and the streams that
        // used it are idle or past the event recorded after its last use. Memory outlives its mappings, and a module
        // its kernels, because the objects hold references to each other.
        unsafe {
            match resource {
                Resource::Memory(raw) => device.destroy_memory(raw),
                Resource::Buffer { ptr, memory } => device.free_buffer(memory, ptr),
                Resource::MipmappedArray { raw, .. } => device.free_mipmapped_array(raw),
                Resource::Surface { raw, .. } => device.destroy_surface(raw),
                Resource::Texture { raw, .. } => device.destroy_texture(raw),
                Resource::Semaphore(raw) => device.destroy_semaphore(raw),
                Resource::Allocation(allocation) => device.destroy_exportable(&allocation),
                Resource::Borrowed(_) => Ok(()),
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

/// Records an event on a busy stream; `None` if the stream is idle or the device lost.
///
/// # Safety
/// The stream is live and belongs to this device.
unsafe fn wait_entry(device: &dyn BackendDevice, raw: RawStream, slot: usize) -> Option<Wait> {
    // SAFETY: the caller guarantees a live stream of this device.
    let reports_lost = match unsafe { device.query_stream(raw) } {
        Ok(true) => return None,
        Ok(false) => false,
        Err(error) => {
            log!(warn, %error, "querying a stream failed; the object is freed after an event");
            is_lost(&error)
        }
    };
    // SAFETY: the caller guarantees a live stream of this device.
    match unsafe { progress::record(device, raw) } {
        Ok(event) => Some(Wait::Event { event, slot }),
        Err(error) if reports_lost && is_lost(&error) => {
            log!(warn, %error, "recording an event failed; the device is lost");
            None
        }
        Err(error) => {
            log!(warn, %error, "recording an event failed; the object is freed once the stream is idle");
            Some(Wait::Idle(slot))
        }
    }
}

/// Condition for freeing a retired object.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wait {
    /// An event recorded after the last use, owned by the entry.
    Event { event: RawEvent, slot: usize },
    /// The stream in this slot is idle (where no event could be recorded), or the graph in it is destroyed.
    Idle(usize),
}

#[derive(Debug)]
pub(super) struct Retired {
    pub(super) resource: Resource,
    pub(super) waits: SmallVec<[Wait; 2]>,
    /// External waits that were pending when the object could first have been freed, and on which the free would have
    /// blocked.
    pub(super) blocked_by: Option<PendingWaits>,
}

#[derive(Debug, Default)]
pub(super) struct RetiredObjects {
    /// Objects in drop order.
    pub(super) entries: Vec<Retired>,
    /// Number of dropped children of each parent, including those that a thread is freeing.
    children: BTreeMap<Parent, usize>,
    /// Number of threads that check entries, which they have taken out of `entries`, and free them.
    pub(super) active_threads: usize,
}

impl RetiredObjects {
    pub(super) fn add(&mut self, resource: &Resource) {
        for parent in resource.parents().into_iter().flatten() {
            *self.children.entry(parent).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, resource: &Resource) {
        for parent in resource.parents().into_iter().flatten() {
            if let Entry::Occupied(mut count) = self.children.entry(parent) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }

    /// Ends the work of a thread, which has freed `freed`. Returns whether a parent of a freed object may be freed now.
    pub(super) fn finish(&mut self, freed: &[Resource]) -> bool {
        self.active_threads -= 1;
        let was_parent = |parent| freed.iter().any(|resource| resource.parents().contains(&Some(parent)));
        let may_go =
            |entry: &Retired| entry.resource.as_parent().is_some_and(was_parent) && !self.has_children(&entry.resource);
        self.entries.iter().any(|entry| entry.waits.is_empty() && entry.blocked_by.is_none() && may_go(entry))
    }

    /// `true` if every retired object is freed, and every child of a deferred one.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.children.is_empty() && self.active_threads == 0
    }

    /// `true` if a child of `resource` is not freed yet.
    pub(super) fn has_children(&self, resource: &Resource) -> bool {
        resource.as_parent().is_some_and(|parent| self.children.contains_key(&parent))
    }
}

/// A driver object that is freed exactly once.
#[derive(Debug, Clone, Copy)]
pub(super) enum Resource {
    Memory(RawMemory),
    Buffer {
        ptr: DevicePtr,
        memory: RawMemory,
    },
    MipmappedArray {
        raw: RawMipmappedArray,
        memory: RawMemory,
    },
    Surface {
        raw: RawSurface,
        array: RawMipmappedArray,
        memory: RawMemory,
    },
    Texture {
        raw: RawTexture,
        array: RawMipmappedArray,
        memory: RawMemory,
    },
    Semaphore(RawSemaphore),
    Allocation(ExportableAllocation),
    /// Memory of the application, or a range of a mapping, by its number.
    Borrowed(u64),
    Module(RawModule),
    Event(RawEvent),
    /// `owned` is false for a stream of the application.
    Stream {
        raw: RawStream,
        slot: usize,
        owned: bool,
    },
    /// A stream used only for a recording.
    Recorder(RawStream),
    Graph {
        raw: RawGraph,
        slot: usize,
    },
}

/// A resource with children, which must be freed before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Parent {
    Memory(RawMemory),
    Array(RawMipmappedArray),
}

/// A resource that may refer to an object of the exporter or the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Borrower {
    Memory(RawMemory),
    Semaphore(RawSemaphore),
    /// A stream of the application, by its slot.
    Stream(usize),
    /// Memory of the application, by its number.
    Borrowed(u64),
}

impl Resource {
    /// A borrowed range with a new number: one address may be borrowed several times.
    pub(super) fn next_borrowed() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self::Borrowed(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The resource as a borrower, if it may be one.
    pub(super) fn borrower(&self) -> Option<Borrower> {
        match self {
            Self::Memory(raw) => Some(Borrower::Memory(*raw)),
            Self::Semaphore(raw) => Some(Borrower::Semaphore(*raw)),
            Self::Stream { slot, owned: false, .. } => Some(Borrower::Stream(*slot)),
            Self::Borrowed(number) => Some(Borrower::Borrowed(*number)),
            _ => None,
        }
    }

    /// `true` if some drivers wait for all streams before they free it.
    pub(super) fn free_may_wait(&self) -> bool {
        !matches!(
            self,
            Self::Event(_) | Self::Borrowed(_) | Self::Stream { .. } | Self::Recorder(_) | Self::Graph { .. }
        )
    }

    /// Parents of the resource.
    pub(super) fn parents(&self) -> [Option<Parent>; 2] {
        match self {
            Self::Buffer { memory, .. } | Self::MipmappedArray { memory, .. } => [Some(Parent::Memory(*memory)), None],
            Self::Surface { array, memory, .. } | Self::Texture { array, memory, .. } => {
                [Some(Parent::Memory(*memory)), Some(Parent::Array(*array))]
            }
            _ => [None, None],
        }
    }

    /// The resource as a parent, if it may have children.
    pub(super) fn as_parent(&self) -> Option<Parent> {
        match self {
            Self::Memory(raw) => Some(Parent::Memory(*raw)),
            Self::MipmappedArray { raw, .. } => Some(Parent::Array(*raw)),
            _ => None,
        }
    }
}
