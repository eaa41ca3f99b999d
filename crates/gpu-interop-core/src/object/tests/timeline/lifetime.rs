//! What ends first.

use std::time::{Duration, Instant};

use super::{Call, Exporter, LONG, bridged, open, parts, parts_of};
use crate::object::tests::recorder::Recorder;
use crate::object::tests::{SIZE, opaque};

/// How often signal memory was allocated and freed.
fn memory(recorder: &Recorder) -> (usize, usize) {
    let calls = recorder.calls();
    let count = |is: fn(&Call) -> bool| calls.iter().filter(|call| is(call)).count();
    (count(|call| *call == Call::AllocateSignalMemory), count(|call| matches!(call, Call::FreeSignalMemory(_))))
}

/// Whatever is dropped last closes the device, at once if nothing is pending.
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

/// A driver whose frees wait for every stream would block this thread, which is to signal what a stream waits for.
#[test]
fn memory_is_not_freed_while_a_stream_waits_where_frees_wait_for_streams() {
    let (recorder, device) = open();
    let (exporter, timeline, stream) = parts_of(&recorder, &device);
    let destroyed = || recorder.calls().iter().any(|call| matches!(call, Call::DestroyMemory(_)));
    recorder.frees_wait_for_streams();
    stream.wait_timeline(&timeline, 1).expect("enqueues");
    // Never used on the stream; and used on one that has run it since.
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

/// A device does not keep what an exporter may want to destroy.
#[test]
fn nothing_of_an_exporter_is_kept_once_its_timelines_are_gone() {
    let (recorder, device) = open();
    let (exporter, timeline, stream) = parts_of(&recorder, &device);
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
    // One that nothing was ordered of goes at once.
    drop(bridged(&device, &exporter));
    assert_eq!(exporter.waiters(), 0);
    // And the device can begin again.
    let timeline = bridged(&device, &exporter);
    stream.signal_timeline(&timeline, 2).expect("enqueues");
    exporter.expect(2);
}

/// The driver cannot cancel, so the bridge lets the stream go; what the stream signals then is worth nothing.
#[test]
fn closing_lets_a_waiting_stream_go_and_carries_nothing_of_it() {
    let (recorder, device) = open();
    let (exporter, timeline, stream) = parts_of(&recorder, &device);
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

/// One stream waits for another that waits for the timeline, and so goes on without its data, too.
#[test]
fn closing_carries_nothing_of_a_stream_behind_one_that_is_let_go() {
    let (recorder, device) = open();
    let (_exporter, timeline, first) = parts_of(&recorder, &device);
    let (other_exporter, other, second) = parts_of(&recorder, &device);
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

/// A stream whose wait was met is not cut off, however late.
#[test]
fn closing_carries_what_was_on_its_way() {
    let (recorder, exporter, timeline, stream) = parts();
    recorder.hold(stream.as_raw());
    recorder.cannot_cancel();
    stream.signal_timeline(&timeline, 2).expect("enqueues");
    let raw = stream.as_raw();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // After the first patience of a device that is being closed.
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

/// What a stream may still write is never freed.
#[test]
fn words_of_a_stream_that_never_goes_idle_are_leaked() {
    let (recorder, exporter, timeline, stream) = parts();
    recorder.expect_leaks();
    recorder.cannot_cancel();
    recorder.hold(stream.as_raw());
    stream.signal_timeline(&timeline, 1).expect("enqueues");
    let raw = stream.as_raw();
    let start = Instant::now();
    drop((stream, timeline));
    assert!(start.elapsed() < LONG, "closing hung");
    assert_eq!(memory(&recorder), (1, 0));
    assert_eq!(exporter.waiters(), 0, "the exporter is still in use");
    recorder.finish(raw);
    assert_eq!(exporter.signals(), [0; 0], "nobody looks any more");
}

/// An exporter may hold what holds the device: it is closed by a thread that is no bridge's.
#[test]
fn the_last_device_may_go_with_an_exporter_on_the_bridge() {
    let (recorder, device) = open();
    let (exporter, timeline, stream) = parts_of(&recorder, &device);
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

/// A thread that is inside the exporter when the device is given up reads a word afterwards.
#[test]
fn a_device_that_was_given_up_stays_while_a_thread_may_read_its_words() {
    let (recorder, device) = open();
    let (exporter, timeline, stream) = parts_of(&recorder, &device);
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
    // The device is the recorder here.
    assert_eq!(std::sync::Arc::strong_count(&recorder), held, "the words' device is gone while a thread may read them");
    go_on.send(()).expect("the bridge's thread waits");
    while std::sync::Arc::strong_count(&recorder) > 1 {
        assert!(start.elapsed() < LONG, "the device is kept");
        std::thread::sleep(Duration::from_millis(1));
    }
}
