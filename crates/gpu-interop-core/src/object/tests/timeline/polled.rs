//! Polled timelines, and native timelines that the host raises after a failure.

use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use super::assert_error;
use super::native::native;
use super::{Behaviour, Exporter, LONG, bridged, bridged_timeline, bridged_timeline_on, open};
use crate::bridge::Threads;
use crate::error::ErrorKind;
use crate::object::tests::recorder::Recorder;
use crate::object::{Device, Stream, Timeline};

/// A polled wait fails like a blocking wait. Values that the process signalled before its end are reached.
#[cfg(target_os = "linux")]
#[test]
fn a_polled_wait_fails_when_the_watched_process_ends() {
    for native in [false, true] {
        let (_recorder, device) = open();
        let exporter = Exporter::default();
        let timeline = if native {
            Timeline::new(&device, exporter.exportable()).expect("a timeline")
        } else {
            bridged(&device, &exporter)
        };
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a process");
        timeline.watch_process(child.id()).expect("watches");
        exporter.set(1);
        assert_eq!((timeline.value().expect("alive"), timeline.is_reached(2).expect("alive")), (1, false));
        assert_eq!(timeline.value().expect("alive"), 1);
        exporter.set(2);
        child.kill().expect("kills");
        child.wait().expect("reaps");
        assert!(timeline.is_reached(2).expect("it was signalled before"));
        // The value stays valid. A value that the process signalled just before its end is reached, even if it was
        // signalled between the read of the value and the check of the process.
        assert_eq!(timeline.value().expect("no failure"), 2);
        exporter.set_after_read(3);
        assert!(!timeline.is_reached(3).expect("it is signalled after the read"));
        assert!(timeline.is_reached(3).expect("it was signalled"));
        let polled = timeline.is_reached(4).map(drop);
        for outcome in [polled, timeline.value().map(drop), timeline.wait(4, LONG), timeline.signal(4)] {
            let error = outcome.expect_err("the process has ended");
            assert_error(&error, ErrorKind::Cancelled, "Timeline::watch_process", &["has ended"]);
        }
    }
}

#[test]
fn a_polled_wait_ends_with_the_value() {
    let (_recorder, exporter, timeline, _stream) = bridged_timeline();
    exporter.set(3);
    let reached = [2, 3, 4].map(|value| timeline.is_reached(value).expect("a value"));
    assert_eq!(reached, [true, true, false]);
    exporter.set_behaviour(Behaviour::Fails);
    timeline.is_reached(4).expect_err("the exporter failed");
}

/// The error lists the value that the stream waits for, the current value, and the last value signalled through the
/// object.
#[test]
fn a_timeout_lists_the_timelines_that_the_stream_waits_for() {
    for native in [false, true] {
        let (recorder, device) = open();
        let stream = device.create_stream().expect("stream");
        recorder.hold(stream.as_raw());
        let exporters: [Exporter; 6] = std::array::from_fn(|_| Exporter::default());
        let new = |exporter: &Exporter| {
            if native {
                Timeline::new(&device, exporter.exportable()).expect("a timeline")
            } else {
                bridged(&device, exporter)
            }
        };
        let timelines = exporters.each_ref().map(new);
        let text = || stream.synchronize_timeout(Duration::ZERO).expect_err("it is held").to_string();
        let waits = |text: &str| text.matches("waits for:").count();
        timelines[0].signal(3).expect("signals");
        for value in [5, 9] {
            stream.wait_timeline(&timelines[0], value).expect("enqueues");
        }
        assert!(text().contains("Exported"), "the exporter's name: {}", text());
        assert!(text().contains("value 5; it is 3, and was last signalled here to 3"), "{}", text());
        exporters[0].set(7);
        timelines[0].value().expect("a value");
        assert!(text().contains("value 9; it is 7"), "{}", text());
        // At most 4 timelines: those of the last waits.
        for timeline in &timelines[1..] {
            stream.wait_timeline(timeline, 2).expect("enqueues");
        }
        assert_eq!(waits(&text()), 4, "{}", text());
        exporters[5].set_behaviour(Behaviour::Panics);
        exporters[4].set_behaviour(Behaviour::Fails);
        for word in ["it is unknown (the exporter panicked)", "it is unknown (the device is lost)"] {
            assert!(text().contains(word), "`{word}` is missing: {}", text());
        }
        assert!(text().len() < 1500, "{}", text());
        exporters[4..].iter().for_each(|exporter| exporter.set_behaviour(Behaviour::Normal));
        exporters[1..].iter().for_each(|exporter| exporter.set(2));
        assert_eq!(waits(&text()), 0, "reached: {}", text());
        drop(timelines);
        assert_eq!(waits(&text()), 0, "dropped: {}", text());
        exporters[0].set(9);
        recorder.finish(stream.as_raw());
        // Over a bridge, the failed exporters are reported.
        let done = stream.synchronize_timeout(LONG);
        assert!(done.is_ok() || !native && done.is_err_and(|error| error.kind() == ErrorKind::Driver));
    }
}

#[test]
fn dropping_never_panics_although_the_exporter_does() {
    for with_work in [false, true] {
        let (_recorder, device) = open();
        let (exporter, timeline, stream) = bridged_timeline_on(&_recorder, &device);
        let (sender, dropped) = std::sync::mpsc::channel();
        exporter.on_drop(move || {
            sender.send(()).expect("the test waits");
            panic!("injected by the test")
        });
        if with_work {
            stream.wait_timeline(&timeline, 1).expect("enqueues");
            exporter.set_behaviour(Behaviour::Panics);
        }
        drop(timeline);
        drop((stream, device));
        dropped.recv_timeout(LONG).expect("it was dropped");
    }
}

/// Much longer than the thread's pauses.
const WHILE: Duration = Duration::from_millis(50);

/// A stream with several pending waits and signals of a timeline.
fn turns() -> (Arc<Recorder>, Device, Exporter, Timeline, Stream) {
    let (recorder, device) = open();
    let exporter = Exporter::default();
    let (timeline, stream) = (native(&device, &exporter), device.create_stream().expect("stream"));
    recorder.hold(stream.as_raw());
    for value in [1, 3, 5] {
        stream.wait_timeline(&timeline, value).expect("enqueues");
        stream.signal_timeline(&timeline, value + 1).expect("enqueues");
    }
    (recorder, device, exporter, timeline, stream)
}

/// Waits until no raiser thread runs.
#[track_caller]
fn expect_ended(raisers: &Threads) {
    expect("the thread does not end", || raisers.have_ended());
}

#[track_caller]
fn expect(otherwise: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LONG, "{otherwise}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_lowered_timeline_is_raised_again_until_the_streams_are_idle() {
    let (recorder, device, exporter, timeline, stream) = turns();
    timeline.abandon("the renderer is gone").expect("releases the waits");
    assert_eq!(exporter.value(), 5);
    // The stream's signals.
    for value in [2, 4] {
        recorder.fail_next("QueryStream", ErrorKind::Driver);
        exporter.set(value);
        exporter.expect(5);
        // The thread raises the timeline every time.
        std::thread::sleep(WHILE);
    }
    assert_eq!(exporter.signals(), [5, 5, 5]);
    drop(timeline);
    assert!(!device.inner.lifetimes.raisers.have_ended(), "the thread ended before the stream was idle");
    recorder.finish(stream.as_raw());
    expect_ended(&device.inner.lifetimes.raisers);
    exporter.set(4);
    std::thread::sleep(WHILE);
    assert_eq!(exporter.value(), 4, "it is still being raised");
}

/// The thread releases the streams even if the application has dropped all objects.
#[test]
fn the_thread_outlives_the_device_until_the_streams_are_released() {
    let (recorder, device, exporter, timeline, stream) = turns();
    let (kept, raw) = (timeline.exporter().clone(), stream.as_raw());
    timeline.abandon("gone").expect("releases the waits");
    recorder.finish(raw);
    drop((device, timeline, stream));
    // In tests, closing a device waits only briefly.
    expect("the exporter is kept", || Arc::strong_count(&kept) == 1);
    assert_eq!(exporter.value(), 5);
}

#[test]
fn a_device_closed_with_pending_work_ends_the_thread() {
    let (recorder, device, _exporter, timeline, stream) = turns();
    recorder.expect_leaks();
    recorder.cannot_cancel();
    let kept = timeline.exporter().clone();
    timeline.abandon("gone").expect("releases the waits");
    drop((device, timeline, stream));
    // In tests, closing a device waits only briefly.
    expect("the exporter is kept", || Arc::strong_count(&kept) == 1);
}

/// The thread may drop the last reference to an exporter that owns the device, which waits for this thread.
#[test]
fn the_raiser_may_drop_the_last_device() {
    let (recorder, device, exporter, timeline, stream) = turns();
    exporter.on_drop(move || drop(device));
    timeline.abandon("gone").expect("releases the waits");
    recorder.finish(stream.as_raw());
    drop((timeline, stream));
    expect("the device was not closed", || recorder.live() == 0);
}

#[test]
fn an_exporter_that_fails_later_ends_the_thread_and_abandoning_starts_it_again() {
    let (recorder, device, exporter, timeline, stream) = turns();
    timeline.abandon("gone").expect("releases the waits");
    exporter.set_behaviour(Behaviour::Fails);
    expect_ended(&device.inner.lifetimes.raisers);
    exporter.set_behaviour(Behaviour::Normal);
    exporter.set(2);
    timeline.abandon("gone").expect("releases the waits");
    exporter.set(4);
    exporter.expect(5);
    recorder.finish(stream.as_raw());
    expect_ended(&device.inner.lifetimes.raisers);
}

/// The thread observes that the streams are idle before the signal is enqueued.
#[test]
fn a_signal_that_is_enqueued_while_the_timeline_is_abandoned_is_raised_again() {
    let (recorder, device) = open();
    let exporter = Exporter::default();
    let timeline = Arc::new(native(&device, &exporter));
    let streams: [Stream; 2] = std::array::from_fn(|_| device.create_stream().expect("stream"));
    streams[0].wait_timeline(&timeline, 5).expect("enqueues");
    recorder.hold(streams[1].as_raw());
    let (abandoned, inner) = (timeline.clone(), device.inner.clone());
    recorder.before_signal(move || {
        abandoned.abandon("gone").expect("releases the waits");
        expect_ended(&inner.lifetimes.raisers);
    });
    streams[1].signal_timeline(&timeline, 1).expect("the timeline had not failed");
    // The signal runs only now.
    exporter.set(1);
    exporter.expect(5);
    recorder.finish(streams[1].as_raw());
}

#[test]
fn no_thread_is_started_for_a_timeline_that_no_stream_used() {
    let (_recorder, device) = open();
    let exporter = Exporter::default();
    let timeline = native(&device, &exporter);
    timeline.abandon("gone").expect("nothing waits");
    assert!(device.inner.lifetimes.raisers.have_ended());
    assert_eq!(exporter.value(), 0);
}
