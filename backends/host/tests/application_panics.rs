//! Code of the application that panics: a subscriber of `tracing`, an exporter, an owner, a host function. No thread of the
//! library ends, and no drop panics. In a process of its own, because the subscriber is global.
#![allow(clippy::expect_used, clippy::panic, reason = "these are tests, also outside of the test functions")]

mod common;

use std::any::TypeId;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{BOTH, LONG, device, open, timeline};
use gpu_interop_core::{
    Error, ErrorKind, ExporterTimeline, PollingWaiter, Result, Timeline, TimelineStrategy, TimelineWaiter,
};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static EVENTS: AtomicUsize = AtomicUsize::new(0);

/// Panics at each event.
struct Panicking;

impl Subscriber for Panicking {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        EVENTS.fetch_add(1, Ordering::SeqCst);
        panic!("the subscriber panics on purpose");
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// An exporter whose every method fails or panics, and its destructor.
#[derive(Debug)]
struct Hostile(bool);

impl ExporterTimeline for Hostile {
    fn value(&self) -> Result<u64> {
        static CALLS: AtomicUsize = AtomicUsize::new(0);
        // Its creation succeeds.
        match CALLS.fetch_add(1, Ordering::SeqCst) % 2 {
            0 => Ok(0),
            _ if self.0 => panic!("the exporter panics on purpose"),
            _ => Err(Error::new(ErrorKind::DeviceLost, "Hostile::value", "lost")),
        }
    }

    fn signal(&self, _: u64) -> Result<()> {
        panic!("the exporter panics on purpose")
    }

    fn wait(&self, _: u64, _: Duration) -> Result<()> {
        panic!("the exporter panics on purpose")
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        panic!("its destructor panics on purpose");
    }
}

/// An exporter that stays at 0, whose waiter panics when it is interrupted or dropped.
#[derive(Debug)]
struct Quiet;

impl ExporterTimeline for Quiet {
    fn value(&self) -> Result<u64> {
        Ok(0)
    }

    fn signal(&self, _: u64) -> Result<()> {
        Err(Error::unsupported("Quiet::signal", "it stays 0"))
    }

    fn wait(&self, _: u64, _: Duration) -> Result<()> {
        Err(Error::new(ErrorKind::Timeout, "Quiet::wait", "it stays 0"))
    }

    fn waiter(&self) -> Result<Box<dyn TimelineWaiter>> {
        Ok(Box::new(Interrupted(PollingWaiter::new(TypeId::of::<Self>()))))
    }
}

#[derive(Debug)]
struct Interrupted(PollingWaiter);

impl TimelineWaiter for Interrupted {
    fn serves(&self, timeline: &dyn ExporterTimeline) -> bool {
        self.0.serves(timeline)
    }

    fn wait_any(&self, waits: &[(&dyn ExporterTimeline, u64)], timeout: Duration) -> Result<()> {
        self.0.wait_any(waits, timeout)
    }

    fn interrupt(&self) {
        panic!("the waiter panics on purpose")
    }
}

impl Drop for Interrupted {
    fn drop(&mut self) {
        panic!("its destructor panics on purpose");
    }
}

/// Panics when it is dropped.
struct Owner(Arc<AtomicUsize>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("the owner panics on purpose");
    }
}

#[test]
fn no_thread_ends_and_no_drop_panics() {
    tracing::subscriber::set_global_default(Panicking).expect("the first");
    std::panic::set_hook(Box::new(|_| {}));
    let device = device();
    let (exporter, healthy) = timeline(&device, TimelineStrategy::HostBridge, 0);
    let stream = device.create_stream().expect("a stream");
    for round in 1..20_u64 {
        let hostile = Arc::new(Hostile(round.is_multiple_of(2)));
        let Ok(timeline) = Timeline::with_strategy(&device, hostile, TimelineStrategy::HostBridge) else { continue };
        // The bridge's thread notices the failure, and reports it to the subscriber.
        if stream.wait_timeline(&timeline, round).is_ok() {
            stream.synchronize_timeout(LONG).expect_err("the exporter failed");
        }
        drop(timeline);
        // The threads go on.
        stream.wait_timeline(&healthy, round).expect("enqueues");
        exporter.signal_value(round).expect("signals");
        stream.synchronize_timeout(LONG).expect("the bridge goes on");
    }
    // The waiter is interrupted by a submission, a drop and an abandonment while it waits.
    let quiet = || Timeline::with_strategy(&device, Arc::new(Quiet), TimelineStrategy::HostBridge).expect("a timeline");
    let (waited, dropped, other) = (quiet(), quiet(), device.create_stream().expect("a stream"));
    let pause = || std::thread::sleep(Duration::from_millis(50));
    stream.wait_timeline(&waited, 1).expect("enqueues");
    pause();
    other.wait_timeline(&dropped, 1).expect("enqueues");
    pause();
    drop(dropped);
    pause();
    waited.abandon("on purpose").expect("releases the wait");
    assert_eq!(stream.synchronize_timeout(LONG).expect_err("abandoned").kind(), ErrorKind::Cancelled);
    drop((waited, other));
    // The report of a panicking host function panics, on the thread of the stream.
    stream.launch_host_function(|| panic!("the function panics on purpose")).expect("enqueues");
    let failed = stream.synchronize_timeout(LONG).expect_err("it panicked");
    assert_eq!(failed.kind(), ErrorKind::HostFunctionPanicked);
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = ran.clone();
    let count = move || {
        counted.fetch_add(1, Ordering::SeqCst);
    };
    stream.launch_host_function(count).expect("enqueues");
    stream.synchronize_timeout(LONG).expect("the stream goes on");
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    // Owners, dropped by a drop, by `collect`, and with the device.
    let dropped = Arc::new(AtomicUsize::new(0));
    let memory = device.allocate_exportable(4096).expect("memory");
    for _ in 0..2 {
        // SAFETY: the memory outlives the object and its work.
        let borrowed = unsafe { device.borrow_memory(memory.as_raw(), 4096, Arc::new(Owner(dropped.clone()))) };
        let borrowed = borrowed.expect("borrowed");
        stream.wait_timeline(&healthy, 20).expect("enqueues");
        stream.fill(&borrowed, 1).expect("fills");
        drop(borrowed);
        let _ = exporter.signal_value(20);
        stream.synchronize_timeout(LONG).expect("runs");
        device.collect();
    }
    // SAFETY: as above.
    drop(unsafe { device.borrow_memory(memory.as_raw(), 4096, Arc::new(Owner(dropped.clone()))) }.expect("borrowed"));
    assert_eq!(dropped.load(Ordering::SeqCst), 3);
    // A device that is closed with pending work, which it reports.
    for strategy in BOTH {
        let (device, _exporter, timeline, stream) = open(strategy, 0);
        stream.wait_timeline(&timeline, 1).expect("enqueues");
        drop((timeline, stream, device));
    }
    drop((stream, healthy, memory, device));
    assert!(EVENTS.load(Ordering::SeqCst) >= 5, "the subscriber was hardly called");
}
