//! Release of streams blocked on a failed native timeline that their own signals lower.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::native::native;
use super::{Behaviour, Exporter, LONG, open};
use crate::bridge::Threads;
use crate::error::ErrorKind;
use crate::object::tests::recorder::Recorder;
use crate::object::{Device, Stream, Timeline};

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
        // The thread raises it every time.
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

/// The thread finds the streams idle before the signal is enqueued.
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
