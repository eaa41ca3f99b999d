//! Loom models of the bridge: every interleaving with a bounded number of preemptions, and every value that the atomics
//! may return.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p gpu-interop-core --lib bridge --release`
//!
//! Only polled waits time out here: a lost wake-up is a deadlock, which loom reports.

mod components;
mod exporter;
mod lifecycle;
mod requests;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use self::exporter::{Exporter, Mock};
use super::StreamFaults;
use super::side::BridgedTimeline;
use super::words::Ticket;
use super::{Bridge, Bridges, Request, SkipUntilWake};
use crate::backend::{DevicePtr, SignalMemory};
use crate::sync::{AtomicU64, yield_now};

/// Explores `model` with at most `preemptions` preemptions; `LOOM_MAX_PREEMPTIONS` overrides it. Each additional one
/// multiplies the run time by ten.
fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.check(model);
}

/// Explores `act` on a device with this many words and timelines of one exporter, then closes the device. All words
/// are returned.
fn check_timelines<const N: usize>(words: usize, act: impl Fn(&Device, [Timeline; N]) + Send + Sync + 'static) {
    check(3, move || {
        let (device, exporter) = (Device::new(words), Exporter::new());
        act(&device, std::array::from_fn(|_| device.timeline(&exporter)));
        device.close();
        assert_eq!(device.bridges.words.in_use(), 0);
    });
}

/// A word of signal memory. Loom's atomics are larger than real ones, but fit the spacing of words.
#[repr(align(64))]
struct Line(AtomicU64);

/// Signal memory with a few words. Leaked, because a stream may read it at any time.
#[derive(Clone, Copy)]
struct Memory(&'static [Line]);

impl Memory {
    fn new(words: usize) -> Self {
        Self(Vec::leak((0..words).map(|_| Line(AtomicU64::new(0))).collect()))
    }

    fn signal_memory(self) -> SignalMemory {
        let host = std::ptr::NonNull::from(self.0).cast();
        SignalMemory { host, ptr: DevicePtr::new(0), size: size_of_val(self.0) }
    }

    fn word(self, ptr: DevicePtr) -> &'static AtomicU64 {
        &self.0[usize::try_from(ptr.get()).expect("small") / 64].0
    }
}

/// A device: its bridges and the operations of its streams.
struct Device {
    bridges: Bridges,
    memory: Memory,
    /// Faults of its signals.
    faults: Arc<StreamFaults>,
}

/// A stream's view of a word.
#[derive(Clone, Copy)]
struct Item {
    word: &'static AtomicU64,
    number: u64,
}

impl Item {
    /// Waits as a stream.
    fn wait(self) {
        while self.word.load(Ordering::Acquire) < self.number {
            yield_now();
        }
    }

    /// Signals as a stream.
    fn write(self) {
        self.word.store(self.number, Ordering::Release);
    }
}

impl Device {
    fn new(words: usize) -> Self {
        Self { bridges: Bridges::default(), memory: Memory::new(words), faults: Arc::default() }
    }

    fn timeline(&self, exporter: &Arc<Exporter>) -> Timeline {
        let mock = exporter.timeline();
        let bridge = self.bridges.bridge(&*mock).expect("a bridge");
        Timeline { side: Arc::new(BridgedTimeline::new(mock.clone(), 0)), mock, bridge }
    }

    fn ticket(&self) -> (Ticket, Item) {
        let ticket = self.bridges.words.take(|| Ok(self.memory.signal_memory())).expect("a word");
        let item = Item { word: self.memory.word(ticket.ptr()), number: ticket.number() };
        (ticket, item)
    }

    /// Enqueues a wait on a stream of its own.
    fn wait(&self, timeline: &Timeline, value: u64) -> (Item, Arc<StreamFaults>) {
        let faults = Arc::<StreamFaults>::default();
        (self.wait_on(&faults, timeline, value), faults)
    }

    /// Enqueues a wait on the stream with these faults.
    fn wait_on(&self, faults: &Arc<StreamFaults>, timeline: &Timeline, value: u64) -> Item {
        let skip = timeline.bridge.prepare(faults).expect("a thread");
        let (ticket, item) = self.ticket();
        let side = timeline.side.clone();
        timeline.bridge.submit(Request::Wait { side, value, ticket, faults: faults.clone() }, skip);
        item
    }

    /// Enqueues a signal by a write of a word.
    fn signal(&self, timeline: &Timeline, value: u64) -> Item {
        let skip = timeline.bridge.prepare(&self.faults).expect("a thread");
        let (ticket, item) = self.ticket();
        self.submit_signal(timeline, value, ticket, false, skip);
        item
    }

    /// Enqueues a signal by a host function, and returns that function.
    fn signal_by_function(&self, timeline: &Timeline, value: u64) -> impl FnOnce() + Send + 'static {
        let skip = timeline.bridge.prepare(&self.faults).expect("a thread");
        let (ticket, _) = self.ticket();
        let (remote, notify) = (ticket.remote(), timeline.bridge.notifier());
        self.submit_signal(timeline, value, ticket, true, skip);
        move || {
            remote.reach();
            notify();
        }
    }

    fn submit_signal(
        &self,
        timeline: &Timeline,
        value: u64,
        ticket: Ticket,
        notified: bool,
        skip: Option<SkipUntilWake>,
    ) {
        let (side, faults) = (timeline.side.clone(), self.faults.clone());
        timeline.bridge.submit(Request::Signal { side, value, ticket, faults, notified }, skip);
    }

    /// Closes the device once the bridges are idle. Its timelines are dropped, and no signal was overtaken.
    fn close(&self) {
        while !self.bridges.are_idle() {
            yield_now();
        }
        self.faults.take().expect("no signal was overtaken");
    }
}

/// The bridge's view of a `Timeline`.
struct Timeline {
    side: Arc<BridgedTimeline>,
    mock: Arc<Mock>,
    bridge: Bridge,
}
