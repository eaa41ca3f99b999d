//! Mock backend: records every call, and checks that callers fulfil the contract of
//! [`BackendDevice`](crate::backend::BackendDevice).

mod call;
mod device;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

pub(super) use self::call::{Call, Side};
use self::device::Graphs;
use self::device::{Item, Queue, Words};
use crate::backend::{HostFunction, RawArray, RawStream};
use crate::capability::{Capabilities, Feature, Support};
use crate::error::{Error, ErrorKind, Result};
use crate::handle::{MemoryHandleKind, SemaphoreHandleKind};
use crate::identity::{DeviceIdentity, DeviceKind, Uuid};
use crate::sync::{lock, unpoisoned};

/// Unique over all recorders, so that values of one device are invalid on others.
static NEXT: AtomicU64 = AtomicU64::new(1);
/// Addresses are far from other raw values, and ranges have gaps between them.
static NEXT_ADDRESS: AtomicU64 = AtomicU64::new(1 << 44);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Object {
    Memory(u64),
    Buffer(u64),
    Array(u64),
    Surface(u64),
    Texture(u64),
    Semaphore(u64),
    Allocation(u64),
    SignalMemory(u64),
    Module(u64),
    Stream(u64),
    Event(u64),
    Graph(u64),
}

struct HostCall {
    stream: u64,
    function: HostFunction,
    data: usize,
}

#[derive(Default)]
struct State {
    calls: Vec<Call>,
    /// Calls to fail, each after a number of calls of this name that do not.
    failures: Vec<(&'static str, ErrorKind, usize)>,
    /// Live objects, each with its parent.
    live: BTreeMap<Object, Option<Object>>,
    /// Linear memory: start, size and owner.
    ranges: BTreeMap<u64, (u64, Object)>,
    kernels: BTreeMap<u64, Object>,
    /// Arrays of levels, each with its mipmapped array and number.
    levels: BTreeMap<u64, (u64, u32)>,
    queues: BTreeMap<u64, Queue>,
    graphs: Graphs,
    words: Words,
    /// Item of a stream that each event waits for.
    events: BTreeMap<u64, Option<(u64, u64)>>,
    /// Uses of objects by items of streams.
    uses: Vec<(u64, u64, Object)>,
    host_calls: Vec<HostCall>,
    finish_after_queries: Option<usize>,
    violations: Vec<String>,
    lent: BTreeSet<u64>,
    leaks_expected: bool,
    cannot_cancel: bool,
    frees_wait_for_streams: bool,
    #[cfg(unix)]
    failed_imports: usize,
    before_free_buffer: Option<Box<dyn FnOnce() + Send>>,
    before_signal: Option<Box<dyn FnOnce() + Send>>,
    before_record: Option<Box<dyn FnOnce() + Send>>,
}

impl State {
    fn require(&mut self, object: Object) {
        let lent = matches!(object, Object::Stream(raw) if self.lent.contains(&raw));
        if !lent && !self.live.contains_key(&object) {
            self.violations.push(format!("{object:?} was used, but is not live"));
        }
    }

    /// The mipmapped array that a level belongs to.
    fn array_of(&mut self, level: RawArray) -> Object {
        match self.levels.get(&(level.get() as u64)) {
            Some((array, _)) => Object::Array(*array),
            None => {
                self.violations.push(format!("{level:?} is no level of anything"));
                Object::Array(0)
            }
        }
    }

    fn create(&mut self, object: Object, parent: Option<Object>) {
        if let Some(parent) = parent {
            self.require(parent);
        }
        self.live.insert(object, parent);
    }

    fn free(&mut self, object: Object) {
        if self.live.remove(&object).is_none() {
            self.violations.push(format!("{object:?} was freed, but is not live"));
        }
        if let Some((child, _)) = self.live.iter().find(|(_, parent)| **parent == Some(object)) {
            self.violations.push(format!("{object:?} was freed before {child:?}, its child"));
        }
        let busy = |stream: &u64, item: &u64| self.queues.get(stream).is_some_and(|queue| queue.done < *item);
        if let Some((stream, item, _)) = self.uses.iter().find(|(s, i, used)| *used == object && busy(s, i)) {
            self.violations
                .push(format!("{object:?} was freed before item {item} of stream {stream:#x}, which uses it"));
        }
        if let Some(graph) = self.graphs.user(object) {
            self.violations.push(format!("{object:?} was freed before {graph:?}, which uses it"));
        }
        self.graphs.remove(object);
        self.ranges.retain(|_, (_, owner)| *owner != object);
    }

    /// Enqueues one item of work without effect.
    fn enqueue(&mut self, stream: RawStream, used: impl IntoIterator<Item = Object>) {
        self.enqueue_item(stream, Item::Plain, used);
    }

    fn enqueue_item(&mut self, stream: RawStream, item: Item, used: impl IntoIterator<Item = Object>) {
        let stream = stream.get() as u64;
        let used: Vec<Object> = used.into_iter().chain([Object::Stream(stream)]).collect();
        for object in &used {
            self.require(*object);
        }
        if self.graphs.record(stream, &used) {
            return;
        }
        let Some(queue) = self.queues.get_mut(&stream) else { return };
        queue.push(item);
        queue.advance(&self.words);
        let item = queue.enqueued;
        if queue.done < item {
            self.uses.extend(used.into_iter().map(|object| (stream, item, object)));
        }
    }

    /// The object that contains these bytes, and its parent.
    fn owners(&mut self, address: u64, size: u64) -> Vec<Object> {
        match self.ranges.range(..=address).next_back() {
            Some((start, (length, owner))) if size > 0 && address - start + size <= *length => {
                let parent = self.live.get(owner).copied().flatten();
                std::iter::once(*owner).chain(parent).collect()
            }
            _ => {
                self.violations.push(format!("{size} bytes at {address:#x} are not inside live memory"));
                Vec::new()
            }
        }
    }

    fn finish(&mut self, stream: u64) {
        if let Some(queue) = self.queues.get_mut(&stream) {
            queue.release();
            queue.advance(&self.words);
        }
    }

    fn finish_all(&mut self) {
        self.queues.values_mut().for_each(Queue::release);
        self.advance_all();
    }

    /// Words are also written by the host.
    fn advance_all(&mut self) {
        self.queues.values_mut().for_each(|queue| queue.advance(&self.words));
    }

    /// Called after each query: work may complete between any two queries.
    fn queried(&mut self) {
        match self.finish_after_queries {
            Some(0 | 1) => {
                self.finish_after_queries = None;
                self.finish_all();
            }
            Some(left) => self.finish_after_queries = Some(left - 1),
            None => {}
        }
    }
}

/// The mock backend. Dropping it fails the test if the contract was violated or an object was never freed.
pub(super) struct Recorder {
    identity: DeviceIdentity,
    capabilities: Capabilities,
    state: Mutex<State>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// The identity of a GPU that differs from those with another number.
pub(super) fn gpu(number: u8) -> DeviceIdentity {
    DeviceIdentity {
        name: format!("card {number}"),
        uuid: Uuid::from_bytes([number; 16]),
        kind: DeviceKind::Gpu,
        ..Default::default()
    }
}

/// All capabilities, including handle kinds of other operating systems, which the core must reject.
pub(super) fn everything() -> Capabilities {
    let all =
        MemoryHandleKind::ALL.iter().fold(Capabilities::none(), |all, kind| all.with_memory(*kind, Support::Native));
    let all = SemaphoreHandleKind::ALL.iter().fold(all, |all, kind| all.with_semaphore(*kind, Support::Native));
    Feature::ALL.iter().fold(all, |all, feature| all.with_feature(*feature, Support::Native))
}

impl Recorder {
    pub(super) fn new(identity: DeviceIdentity) -> Self {
        Self::with_capabilities(identity, everything())
    }

    pub(super) fn with_capabilities(identity: DeviceIdentity, capabilities: Capabilities) -> Self {
        Self { identity, capabilities, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Every call so far, in order.
    pub(super) fn calls(&self) -> Vec<Call> {
        self.lock().calls.clone()
    }

    /// Clears the recorded calls.
    pub(super) fn forget_calls(&self) {
        self.lock().calls.clear();
    }

    /// Calls that free objects other than events, in order.
    pub(super) fn frees(&self) -> Vec<Call> {
        self.lock().calls.iter().filter(|call| call.frees()).cloned().collect()
    }

    /// Makes the next call of this name (a variant of [`Call`]) fail. Several may be pending.
    pub(super) fn fail_next(&self, call: &'static str, kind: ErrorKind) {
        self.fail_after(0, call, kind);
    }

    /// As [`Recorder::fail_next`], after `calls` calls of this name.
    pub(super) fn fail_after(&self, calls: usize, call: &'static str, kind: ErrorKind) {
        self.lock().failures.push((call, kind, calls));
    }

    /// Holds later work on `stream`.
    pub(super) fn hold(&self, stream: RawStream) {
        self.lock().queues.entry(stream.get() as u64).or_default().held = true;
    }

    /// Runs work enqueued on `stream`.
    pub(super) fn finish(&self, stream: RawStream) {
        self.lock().finish(stream.get() as u64);
        self.run_host_functions(stream.get() as u64);
    }

    /// Completes all enqueued work right after the given number of stream and event queries.
    pub(super) fn finish_after_queries(&self, queries: usize) {
        self.lock().finish_after_queries = Some(queries);
    }

    /// Completes all enqueued work now.
    pub(super) fn finish_all(&self) {
        self.lock().finish_all();
        let streams: Vec<u64> = self.lock().host_calls.iter().map(|call| call.stream).collect();
        streams.into_iter().for_each(|stream| self.run_host_functions(stream));
    }

    /// `true` if all work enqueued on `stream` has completed.
    pub(super) fn is_idle(&self, stream: RawStream) -> bool {
        let mut state = self.lock();
        state.advance_all();
        state.queues.get(&(stream.get() as u64)).is_none_or(|queue| queue.done == queue.enqueued)
    }

    /// A stream that the application owns: freeing it is a violation.
    pub(super) fn application_stream(&self) -> RawStream {
        let raw = next();
        let mut state = self.lock();
        state.queues.insert(raw, Queue::default());
        state.lent.insert(raw);
        RawStream::new(usize::try_from(raw).expect("small"))
    }

    /// Allows leaks, for tests that make frees fail.
    pub(super) fn expect_leaks(&self) {
        self.lock().leaks_expected = true;
    }

    /// Makes `frees_wait_for_streams` return `true`.
    pub(super) fn frees_wait_for_streams(&self) {
        self.lock().frees_wait_for_streams = true;
    }

    /// Makes `cancel_pending_work` do nothing.
    pub(super) fn cannot_cancel(&self) {
        self.lock().cannot_cancel = true;
    }

    /// Runs `hook` on the thread that frees the next buffer, right before the free.
    pub(super) fn before_free_buffer(&self, hook: impl FnOnce() + Send + 'static) {
        self.lock().before_free_buffer = Some(Box::new(hook));
    }

    /// Runs `hook` on the thread that signals semaphores next, right before the signal is enqueued.
    pub(super) fn before_signal(&self, hook: impl FnOnce() + Send + 'static) {
        self.lock().before_signal = Some(Box::new(hook));
    }

    /// Runs `hook` on the thread that records the next event, right before the event is recorded.
    pub(super) fn before_record(&self, hook: impl FnOnce() + Send + 'static) {
        self.lock().before_record = Some(Box::new(hook));
    }

    /// Number of live objects, events included.
    pub(super) fn live(&self) -> usize {
        self.lock().live.len()
    }

    /// Records the call, and fails it if a test has requested that.
    fn begin(&self, call: Call) -> Result<MutexGuard<'_, State>> {
        let mut state = self.lock();
        let name = call.name();
        state.calls.push(call);
        match state.failures.iter().position(|(failing, ..)| *failing == name) {
            Some(index) if state.failures[index].2 > 0 => {
                state.failures[index].2 -= 1;
                Ok(state)
            }
            Some(index) => {
                let (_, kind, _) = state.failures.remove(index);
                Err(Error::new(kind, "drvInjectedFailure", "injected by the test")
                    .with_code(-7, Some("DRV_INJECTED".into())))
            }
            None => Ok(state),
        }
    }

    /// Host functions run without the lock: they may do anything.
    fn run_host_functions(&self, stream: u64) {
        let due: Vec<HostCall> = {
            let mut state = self.lock();
            let (due, later) = std::mem::take(&mut state.host_calls).into_iter().partition(|c| c.stream == stream);
            state.host_calls = later;
            due
        };
        for call in due {
            // SAFETY: the function came with this data, and is called once.
            unsafe { (call.function)(std::ptr::with_exposed_provenance_mut::<c_void>(call.data)) };
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let state = unpoisoned(self.state.get_mut());
        let written_after_free = state.words.written_after_free();
        assert_eq!(written_after_free, [0; 0], "signal memory was written after it was freed");
        assert!(state.violations.is_empty(), "the contract was violated: {:#?}\n{:#?}", state.violations, state.calls);
        assert!(state.leaks_expected || state.live.is_empty(), "never freed: {:#?}", state.live);
        assert_eq!(state.failures, [], "calls that should have failed were never made");
    }
}

fn next() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn next_address(size: u64) -> u64 {
    // Huge sizes share address space.
    NEXT_ADDRESS.fetch_add(size.min(1 << 32).next_multiple_of(4096) + 4096, Ordering::Relaxed)
}
