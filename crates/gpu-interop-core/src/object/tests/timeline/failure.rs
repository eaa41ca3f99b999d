//! Failed exporters and abandoned timelines.

use std::sync::mpsc;
use std::time::Instant;

use super::{Behaviour, Exporter, LONG, assert_error, bridged, bridged_timeline, bridged_timeline_on, open};
use crate::error::ErrorKind;
use crate::object::Timeline;

#[test]
fn a_failing_or_panicking_exporter_releases_its_waits() {
    for (behaviour, text) in [(Behaviour::Fails, "the device is lost"), (Behaviour::Panics, "panicked")] {
        let (_recorder, device) = open();
        let (exporter, healthy) = (Exporter::default(), Exporter::default());
        let (timeline, other) = (bridged(&device, &exporter), bridged(&device, &healthy));
        let streams: [_; 2] = std::array::from_fn(|_| device.create_stream().expect("stream"));
        streams[0].wait_timeline(&timeline, 1).expect("enqueues");
        streams[1].wait_timeline(&other, 1).expect("enqueues");
        exporter.set_behaviour(behaviour);
        let error = streams[0].synchronize_timeout(LONG).expect_err("the wait was not met");
        assert_error(&error, ErrorKind::Driver, error.operation(), &[text]);
        streams[0].synchronize_timeout(LONG).expect("it is reported once");
        // Permanently, even if the exporter recovers.
        exporter.set_behaviour(Behaviour::Normal);
        exporter.set(1);
        for result in [
            streams[0].wait_timeline(&timeline, 1),
            streams[0].signal_timeline(&timeline, 2),
            timeline.signal(2),
            timeline.wait(1, LONG),
            timeline.value().map(drop),
        ] {
            let error = result.expect_err("it has failed");
            assert_error(&error, ErrorKind::Driver, error.operation(), &["the timeline failed before", text]);
        }
        // The bridge still serves other timelines.
        healthy.set(1);
        streams[1].synchronize_timeout(LONG).expect("the value is there");
        streams[1].signal_timeline(&other, 2).expect("enqueues");
        healthy.expect(2);
    }
}

#[test]
fn a_timeline_of_a_failing_exporter_cannot_be_created() {
    let (recorder, device) = open();
    let exporter = Exporter::default();
    exporter.set_behaviour(Behaviour::Fails);
    let error = Timeline::new(&device, exporter.private()).expect_err("it has no value");
    assert_error(&error, ErrorKind::Driver, "vkGetSemaphoreCounterValue", &["the device is lost"]);
    assert_eq!(recorder.calls(), []);
}

#[test]
fn an_abandoned_timeline_releases_its_waits() {
    let (recorder, exporter, timeline, stream) = bridged_timeline();
    stream.wait_timeline(&timeline, 7).expect("enqueues");
    timeline.abandon("the renderer is gone").expect("releases the waits");
    let error = stream.synchronize_timeout(LONG).expect_err("the wait was not met");
    assert_error(&error, ErrorKind::Cancelled, "Timeline::abandon", &["the renderer is gone"]);
    recorder.forget_calls();
    for result in [stream.wait_timeline(&timeline, 1), stream.signal_timeline(&timeline, 8), timeline.signal(8)] {
        let error = result.expect_err("it is abandoned");
        assert_error(&error, ErrorKind::Cancelled, "Timeline::abandon", &["the renderer is gone"]);
    }
    assert_eq!(recorder.calls(), [], "nothing is enqueued");
    assert_eq!((exporter.value(), exporter.signals()), (0, vec![]));
}

/// A stream reports each failed timeline once.
#[test]
fn a_failed_signal_is_an_error_of_its_stream() {
    let (recorder, device) = open();
    let (exporter, timeline, first) = bridged_timeline_on(&recorder, &device);
    let (second, other) = (device.create_stream().expect("stream"), bridged(&device, &Exporter::default()));
    [&first, &second].into_iter().for_each(|stream| recorder.hold(stream.as_raw()));
    for (value, stream) in [&first, &second, &first].into_iter().enumerate() {
        stream.signal_timeline(&timeline, value as u64 + 1).expect("enqueues");
    }
    exporter.set_behaviour(Behaviour::Fails);
    // The timeline fails with the signal of the first stream, before the signal of the second.
    for stream in [&first, &second] {
        recorder.finish(stream.as_raw());
        let start = std::time::Instant::now();
        let error = loop {
            match stream.synchronize_timeout(LONG) {
                Err(error) => break error,
                Ok(()) => assert!(start.elapsed() < LONG, "the stream reports no error"),
            }
        };
        assert_error(&error, ErrorKind::Driver, error.operation(), &["the device is lost"]);
    }
    // Once this is transferred, all pending requests of the failed timeline have been handled.
    first.signal_timeline(&other, 1).expect("enqueues");
    recorder.finish(first.as_raw());
    other.wait(1, LONG).expect("the bridge goes on");
    [first, second].iter().for_each(|stream| stream.synchronize_timeout(LONG).expect("it is reported once"));
}

#[test]
fn a_lost_device_fails_timelines_with_pending_signals() {
    let (recorder, device) = open();
    recorder.expect_leaks();
    recorder.cannot_cancel();
    let (exporter, timeline, stream) = bridged_timeline_on(&recorder, &device);
    let queried = device.create_stream().expect("stream");
    recorder.hold(stream.as_raw());
    stream.signal_timeline(&timeline, 1).expect("enqueues");
    // Other failures, and a single device-lost error, do not prove the loss.
    for kind in [ErrorKind::Driver, ErrorKind::Driver, ErrorKind::DeviceLost] {
        recorder.fail_next("QueryStream", kind);
        queried.is_idle().expect_err("injected failure");
    }
    std::thread::sleep(std::time::Duration::from_millis(20));
    timeline.value().expect("the device is not lost");
    // Any stream detects the loss.
    [(); 2].into_iter().for_each(|()| recorder.fail_next("QueryStream", ErrorKind::DeviceLost));
    queried.synchronize_timeout(LONG).expect_err("injected failure");
    let start = std::time::Instant::now();
    let error = loop {
        match timeline.value() {
            Err(error) => break error,
            Ok(_) => assert!(start.elapsed() < LONG, "the timeline does not fail"),
        }
    };
    assert_error(&error, ErrorKind::DeviceLost, "drvInjectedFailure", &["the timeline failed before"]);
    // The thread has no pending requests.
    drop(timeline);
    while !device.inner.bridges.are_idle() {
        assert!(start.elapsed() < LONG, "the bridge goes on");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(exporter.signals(), [0; 0]);
}

/// A wait that ends without its value is not forgotten when the timeline grows again.
#[test]
fn a_timeline_that_decreases_during_a_wait_fails() {
    let (_recorder, exporter, timeline, stream) = bridged_timeline();
    stream.wait_timeline(&timeline, 10).expect("enqueues");
    exporter.set(5);
    assert_eq!(timeline.value().expect("a value"), 5);
    exporter.set(3);
    let error = stream.synchronize_timeout(LONG).expect_err("the wait was not met");
    assert_error(&error, ErrorKind::Overtaken, "Timeline::value", &["decreased"]);
    exporter.set(11);
    for result in [timeline.value().map(drop), stream.wait_timeline(&timeline, 11), timeline.signal(12)] {
        let error = result.expect_err("it has failed");
        assert_error(&error, ErrorKind::Overtaken, error.operation(), &["the timeline failed before", "decreased"]);
    }
}

/// A signal enqueued before the abandonment is discarded.
#[test]
fn an_abandoned_timeline_is_not_signalled() {
    let (recorder, exporter, timeline, stream) = bridged_timeline();
    recorder.hold(stream.as_raw());
    stream.signal_timeline(&timeline, 7).expect("enqueues");
    timeline.abandon("gone").expect("releases the waits");
    recorder.finish(stream.as_raw());
    drop((stream, timeline));
    assert_eq!(exporter.signals(), [0; 0]);
}

/// The stream reports it; the timeline stays usable.
#[test]
fn an_overtaken_signal_is_an_error_of_the_stream() {
    let (recorder, exporter, timeline, stream) = bridged_timeline();
    for (value, behaviour, reached) in [(5, Behaviour::Late, 5), (7, Behaviour::Normal, 8)] {
        recorder.hold(stream.as_raw());
        exporter.set_behaviour(behaviour);
        stream.signal_timeline(&timeline, value).expect("enqueues");
        if behaviour == Behaviour::Normal {
            exporter.set(reached);
        }
        recorder.finish(stream.as_raw());
        let start = Instant::now();
        let error = loop {
            match stream.synchronize_timeout(LONG) {
                Ok(()) => assert!(start.elapsed() < LONG, "no error is reported"),
                Err(error) => break error,
            }
        };
        let words = ["one timeline for each direction", &format!("value: {value}")];
        assert_error(&error, ErrorKind::Overtaken, "Stream::signal_timeline", &words);
        assert_eq!((exporter.value(), exporter.signals()), (reached, vec![]));
        exporter.set_behaviour(Behaviour::Normal);
        stream.synchronize_timeout(LONG).expect("it is reported once");
    }
    stream.wait_timeline(&timeline, 9).expect("the timeline has not failed");
    exporter.set(9);
    recorder.finish(stream.as_raw());
    stream.synchronize_timeout(LONG).expect("the value is there");
}

/// The bridge may drop the last reference to an exporter, whose destructor is application code.
#[test]
fn a_panicking_destructor_does_not_stop_the_bridge() {
    let (recorder, device) = open();
    let (exporter, timeline, stream) = bridged_timeline_on(&recorder, &device);
    let (other_exporter, other, _) = bridged_timeline_on(&recorder, &device);
    let (dropped, was_dropped) = mpsc::channel();
    exporter.on_drop(move || {
        dropped.send(std::thread::current().name().map(String::from)).expect("send");
        panic!("injected by the test");
    });
    stream.wait_timeline(&timeline, 1).expect("enqueues");
    drop(timeline);
    exporter.set(1);
    stream.synchronize_timeout(LONG).expect("the value is there");
    let thread = was_dropped.recv_timeout(LONG).expect("it is dropped");
    assert_eq!(thread.as_deref(), Some("gpu-interop bridge"));
    stream.wait_timeline(&other, 1).expect("enqueues");
    other_exporter.set(1);
    stream.synchronize_timeout(LONG).expect("the bridge goes on");
}

/// The bridge is continuously busy and still checks the process.
#[cfg(target_os = "linux")]
#[test]
fn the_end_of_a_process_is_detected_while_another_timeline_is_busy() {
    let (recorder, device) = open();
    let (_exporter, timeline, stream) = bridged_timeline_on(&recorder, &device);
    let (_busy_exporter, busy, signalling) = bridged_timeline_on(&recorder, &device);
    let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a process");
    timeline.watch_process(child.id()).expect("watches");
    stream.wait_timeline(&timeline, 1).expect("enqueues");
    child.kill().expect("kills");
    let start = std::time::Instant::now();
    for value in 1.. {
        signalling.signal_timeline(&busy, value).expect("enqueues");
        if stream.is_idle().expect("query") {
            break;
        }
        assert!(start.elapsed() < LONG, "the process was not checked");
    }
    assert_eq!(stream.synchronize().expect_err("the wait was not met").kind(), ErrorKind::Cancelled);
    child.wait().expect("reaps");
}
