#![allow(clippy::expect_used, reason = "these are tests, also outside of the test functions")]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;
use crate::backend::{DevicePtr, SignalMemory};
use crate::bridge::words::RemoteTicket;
use crate::error::Result;
use crate::sync::{AtomicU64, Mutex, unpoisoned};

/// A timeline that records its signals and counts its queries.
#[derive(Debug, Default)]
struct Counter {
    value: AtomicU64,
    queries: AtomicUsize,
    signals: Mutex<Vec<u64>>,
}

impl ExporterTimeline for Counter {
    fn value(&self) -> Result<u64> {
        self.queries.fetch_add(1, Ordering::Relaxed);
        Ok(self.value.load(Ordering::Acquire))
    }

    fn signal(&self, value: u64) -> Result<()> {
        self.value.store(value, Ordering::Release);
        unpoisoned(self.signals.lock()).push(value);
        Ok(())
    }

    fn wait(&self, _value: u64, _timeout: Duration) -> Result<()> {
        Err(Error::new(ErrorKind::Timeout, "Counter::wait", "not used"))
    }
}

/// Words, a timeline, and the streams that signal it.
struct World {
    words: Words,
    counter: Arc<Counter>,
    side: Arc<Side>,
    pending: Pending,
}

impl World {
    fn new() -> Self {
        let counter = Arc::new(Counter::default());
        let side = Arc::new(Side::new(counter.clone(), 0));
        Self { words: Words::default(), counter, side, pending: Pending::default() }
    }

    fn take(&self) -> Ticket {
        let memory = || {
            let words = Vec::leak(vec![0_u64; 512]);
            Ok(SignalMemory { host: NonNull::from(words).cast(), ptr: DevicePtr::new(4096), size: 4096 })
        };
        self.words.take(memory).expect("a word")
    }

    /// Adds a signal of a stream. Returns the stream's end of its ticket.
    fn signal(&mut self, stream: &Arc<StreamFaults>, value: u64) -> RemoteTicket {
        let ticket = self.take();
        let remote = ticket.remote();
        let (side, faults) = (self.side.clone(), stream.clone());
        self.pending.add(Request::Signal { side, value, ticket, faults, notified: false });
        remote
    }

    fn settle(&mut self, all: bool) -> bool {
        self.pending.settle(&self.words, all)
    }

    fn signals(&self) -> Vec<u64> {
        unpoisoned(self.counter.signals.lock()).clone()
    }
}

#[test]
fn signals_of_two_streams_are_transferred_in_the_order_of_their_calls() {
    let mut world = World::new();
    // Compared by address, so an odd number of streams covers both orders of two addresses.
    let streams: [Arc<StreamFaults>; 3] = std::array::from_fn(|_| Arc::default());
    let tickets: Vec<_> =
        (1..=30).zip(streams.iter().cycle()).map(|(value, stream)| world.signal(stream, value)).collect();
    assert!(!world.settle(false), "nothing was written");
    tickets.iter().for_each(|ticket| ticket.reach());
    assert!(world.settle(false));
    assert_eq!(world.signals(), (1..=30).collect::<Vec<_>>());
    assert!(world.pending.is_empty(), "nothing is left to look at");
    assert!(streams.iter().all(|stream| stream.take().is_ok()), "none was overtaken");
}

#[test]
fn a_signal_behind_one_that_is_not_written_needs_a_read_of_all_words() {
    let mut world = World::new();
    let stream = Arc::<StreamFaults>::default();
    // Two threads: the stream writes the second first, because its call was first to enqueue.
    let (late, early) = (world.signal(&stream, 2), world.signal(&stream, 1));
    early.reach();
    assert!(!world.settle(false), "only the oldest request of a stream is read");
    assert!(world.settle(true));
    assert_eq!(world.signals(), [1]);
    late.reach();
    assert!(world.settle(false));
    assert_eq!((world.signals(), world.pending.is_empty()), (vec![1, 2], true));
}

#[test]
fn ten_thousand_waits_cost_one_query_and_end_by_value() {
    let mut world = World::new();
    let stream = Arc::<StreamFaults>::default();
    // Values in another order than that of the calls.
    let tickets: Vec<_> = (0..10_000_u64)
        .map(|index| {
            let (value, ticket) = (index * 7_919 % 10_000 + 1, world.take());
            let remote = ticket.remote();
            let (side, faults) = (world.side.clone(), stream.clone());
            world.pending.add(Request::Wait { side, value, ticket, faults });
            (value, remote)
        })
        .collect();
    for value in [0, 1, 2, 5_000, 9_999] {
        world.counter.value.store(value, Ordering::Release);
        let before = world.counter.queries.load(Ordering::Relaxed);
        assert_eq!(world.settle(false), value > 0);
        assert!(world.counter.queries.load(Ordering::Relaxed) - before <= 2, "one query, and one to confirm");
        assert_eq!(world.pending.wanted()[0].1, value + 1);
        assert!(tickets.iter().all(|(wanted, ticket)| ticket.is_reached() == (*wanted <= value)), "at {value}");
    }
    world.counter.value.store(10_000, Ordering::Release);
    assert!(world.settle(false) && world.pending.is_empty());
    assert_eq!(world.words.in_use(), 0);
}
