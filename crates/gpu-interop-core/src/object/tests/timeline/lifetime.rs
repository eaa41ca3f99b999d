//! Lifetimes of timelines, devices and exporters.

use std::time::{Duration, Instant};

use super::{Call, Exporter, LONG, bridged, bridged_timeline, bridged_timeline_on, open};
use crate::object::tests::recorder::Recorder;
use crate::object::tests::{SIZE, opaque};

/// Number of allocations and frees of signal memory.
fn memory(recorder: &Recorder) -> (usize, usize) {
    let calls = recorder.calls();
    let count = |is: fn(&Call) -> bool| calls.iter().filter(|call| is(call)).count();
    (count(|call| *call == Call::AllocateSignalMemory), count(|call| matches!(call, Call::FreeSignalMemory(_))))
}

/// The last drop closes the device, immediately if nothing is pending.
#[test]
fn an_idle_device_frees_its_words_in_every_order() {
    for last in ["device", "stream", "timeline"] {
        let (recorder, device) = open();
        let exporter = Exporter::default();
        let (timeline, stream) = (bridged(&device, &exporter), device.create_stream().expect("stream"));
        stream.wait_timeline(&timeline, 1).expect("enqueues");
        exporter.set(1);
        stream.synchronize_timeout(LONG).expect("the value is there");
        stream.signal_timeline(&timeline, 2).expect("enqueues");
        exporter.expect(2);
        match last {
            "device" => drop((timeline, stream, device)),
            "stream" => drop((timeline, device, stream)),
            _ => drop((device, stream, timeline)),
        }
        assert_eq!(exporter.waiters(), 0, "{last}: the exporter is still in use");
        let (allocated, freed) = memory(&recorder);
        assert!(allocated > 0 && freed == allocated, "{last}: {freed} of {allocated}");
        let calls = recorder.calls();
        assert!(!calls.contains(&Call::CancelPendingWork), "{last}: nothing is pending");
        let position = |is: fn(&Call) -> bool| calls.iter().position(is).expect("called");
        let freed = position(|call| matches!(call, Call::FreeSignalMemory(_)));
        assert!(position(|call| matches!(call, Call::DestroyStream(_))) < freed, "{last}: the stream goes first");
    }
}

/// A free that waits for every stream would block this thread, which must signal the pending wait.
#[test]
fn memory_is_not_freed_while_a_stream_waits_where_frees_wait_for_streams() {
    let (recorder, device) = open();
    let (exporter, timeline, stream) = bridged_timeline_on(&recorder, &device);
    let destroyed = || recorder.calls().iter().any(|call| matches!(call, Call::DestroyMemory(_)));
    recorder.frees_wait_for_streams();
    stream.wait_timeline(&timeline, 1).expect("enqueues");
    // One never used on the stream, and one whose work has completed.
    drop(device.import_memory(opaque(SIZE)).expect("imports"));
    let other = device.create_stream().expect("stream");
    recorder.hold(other.as_raw());
    let memory = device.import_memory(opaque(SIZE)).expect("imports");
    let mapped = memory.map_buffer(0..SIZE).expect("maps");
    other.fill(&mapped, 1).expect("enqueues");
    drop((mapped, memory));
    recorder.finish(other.as_raw());
    drop(device.create_stream().expect("a stream, which collects"));
    assert!(!destroyed(), "freed while a stream waits");
    exporter.set(1);
    stream.synchronize_timeout(LONG).expect("the value is there");
    let start = Instant::now();
    while !destroyed() {
        assert!(start.elapsed() < LONG, "never freed");
        stream.synchronize_timeout(LONG).expect("idle; collects");
    }
}

/// A device keeps no object of an exporter without timelines.
#[test]
fn no_waiter_is_kept_without_timelines() {
    let (recorder, device) = open();
    let (exporter, timeline, stream) = bridged_timeline_on(&recorder, &device);
    let another = bridged(&device, &exporter);
    assert_eq!(exporter.waiters(), 1, "they share a bridge");
    stream.signal_timeline(&timeline, 1).expect("enqueues");
    exporter.expect(1);
    drop(timeline);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(exporter.waiters(), 1);
    drop(another);
    let start = Instant::now();
    while exporter.waiters() > 0 {
        assert!(start.elapsed() < LONG, "the waiter is kept");
        std::thread::sleep(Duration::from_millis(1));
    }
    // A bridge without requests ends at once.
    drop(bridged(&device, &exporter));
    assert_eq!(exporter.waiters(), 0);
    // The device can create another bridge.
    let timeline = bridged(&device, &exporter);
    stream.signal_timeline(&timeline, 2).expect("enqueues");
    exporter.expect(2);
}

/// The driver cannot cancel, so the bridge releases the wait; later signals of the stream are discarded.
#[test]
fn closing_releases_a_wait_and_discards_later_signals() {
    let (recorder, device) = open();
    let (exporter, timeline, stream) = bridged_timeline_on(&recorder, &device);
    let healthy = Exporter::default();
    let other = bridged(&device, &healthy);
    recorder.cannot_cancel();
    stream.wait_timeline(&timeline, 1).expect("enqueues");
    stream.signal_timeline(&timeline, 2).expect("enqueues");
    stream.signal_timeline(&other, 2).expect("enqueues");
    drop((stream, timeline, other, device));
    assert_eq!(memory(&recorder).0, memory(&recorder).1, "every stream is idle");
    assert_eq!((exporter.signals(), healthy.signals()), (vec![], vec![]));
}

/// A stream waits for another that waits for the timeline, and also continues without the data.
#[test]
fn closing_discards_signals_behind_a_released_stream() {
    let (recorder, device) = open();
    let (_exporter, timeline, first) = bridged_timeline_on(&recorder, &device);
    let (other_exporter, other, second) = bridged_timeline_on(&recorder, &device);
    recorder.cannot_cancel();
    first.wait_timeline(&timeline, 1).expect("enqueues");
    let (before, behind) = (first.as_raw(), second.as_raw());
    // The event of the first stream.
    recorder.hold(behind);
    second.signal_timeline(&other, 2).expect("enqueues");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !recorder.is_idle(before) {
                std::thread::sleep(Duration::from_millis(1));
            }
            recorder.finish(behind);
        });
        drop((first, second, timeline, other, device));
    });
    assert_eq!(other_exporter.signals(), [0; 0]);
    assert_eq!(memory(&recorder).0, memory(&recorder).1, "every stream is idle");
}

/// A signal of a stream whose wait was satisfied is transferred, however late.
#[test]
fn closing_transfers_signals_of_satisfied_waits() {
    let (recorder, exporter, timeline, stream) = bridged_timeline();
    recorder.hold(stream.as_raw());
    recorder.cannot_cancel();
    stream.signal_timeline(&timeline, 2).expect("enqueues");
    let raw = stream.as_raw();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // After the first timeout of a device that is being closed.
            while !recorder.calls().contains(&Call::CancelPendingWork) {
                std::thread::sleep(Duration::from_millis(1));
            }
            recorder.finish(raw);
        });
        drop((stream, timeline));
    });
    assert_eq!(exporter.signals(), [2]);
    assert_eq!(memory(&recorder), (1, 1));
}

/// Words that a stream may still write are never freed.
#[test]
fn words_of_a_busy_stream_are_leaked() {
    let (recorder, exporter, timeline, stream) = bridged_timeline();
    recorder.expect_leaks();
    recorder.cannot_cancel();
    recorder.hold(stream.as_raw());
    stream.signal_timeline(&timeline, 1).expect("enqueues");
    let raw = stream.as_raw();
    let start = Instant::now();
    drop((stream, timeline));
    assert!(start.elapsed() < LONG, "closing hung");
    assert_eq!(memory(&recorder), (1, 0));
    // Its thread ends soon, by itself.
    while exporter.waiters() > 0 {
        assert!(start.elapsed() < 2 * LONG, "the exporter is still in use");
        std::thread::sleep(Duration::from_millis(1));
    }
    recorder.finish(raw);
    assert_eq!(exporter.signals(), [0; 0], "no thread reads the words");
}

/// An exporter may own the device: it is closed by a thread other than the bridge's.
#[test]
fn the_bridge_may_drop_the_last_device() {
    let (recorder, device) = open();
    let (exporter, timeline, stream) = bridged_timeline_on(&recorder, &device);
    exporter.on_drop(move || drop(device));
    stream.wait_timeline(&timeline, 1).expect("enqueues");
    drop((timeline, stream));
    exporter.set(1);
    let start = Instant::now();
    while memory(&recorder) != (1, 1) {
        assert!(start.elapsed() < LONG, "the device was not closed: {:#?}", recorder.calls());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A thread inside the exporter reads a word after the device was closed with pending work.
#[test]
fn an_abandoned_device_lives_while_a_thread_may_read_its_words() {
    let (recorder, device) = open();
    let (exporter, timeline, stream) = bridged_timeline_on(&recorder, &device);
    recorder.expect_leaks();
    recorder.cannot_cancel();
    let (inside, is_inside) = std::sync::mpsc::channel();
    let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
    exporter.on_signal(move || {
        inside.send(()).expect("the test listens");
        may_go_on.recv().expect("the test says so");
    });
    stream.signal_timeline(&timeline, 1).expect("enqueues");
    stream.signal_timeline(&timeline, 2).expect("enqueues");
    is_inside.recv_timeout(LONG).expect("the bridge signals");
    recorder.hold(stream.as_raw());
    stream.signal_timeline(&timeline, 3).expect("enqueues");
    let start = Instant::now();
    let held = std::sync::Arc::strong_count(&recorder);
    drop((stream, timeline, device));
    assert!(start.elapsed() < LONG, "closing waits for the exporter");
    // The backend device is the recorder here.
    assert_eq!(
        std::sync::Arc::strong_count(&recorder),
        held,
        "the words' device was dropped while a thread may read them"
    );
    go_on.send(()).expect("the bridge's thread waits");
    while std::sync::Arc::strong_count(&recorder) > 1 {
        assert!(start.elapsed() < LONG, "the device is kept");
        std::thread::sleep(Duration::from_millis(1));
    }
}
