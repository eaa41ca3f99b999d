//! Timelines that the driver imports.

use std::time::Duration;

use super::{Behaviour, Call, Exporter, assert_error, assert_invalid, bridged, open, open_on};
use crate::backend::{RawSemaphore, RawSignal, RawWait};
use crate::capability::Support;
use crate::error::{ErrorKind, Result};
use crate::object::tests::exported::TIMELINE;
use crate::object::tests::recorder::{Recorder, everything, gpu};
use crate::object::{Device, Stream, Timeline};
use crate::semaphore_ops::{SignalParams, WaitParams};
use crate::timeline::TimelineStrategy;

pub(super) fn native(device: &Device, exporter: &Exporter) -> Timeline {
    Timeline::with_strategy(device, exporter.exportable(), TimelineStrategy::Native).expect("a timeline")
}

/// The semaphore of the only wait or signal.
fn semaphore(calls: &[Call]) -> RawSemaphore {
    match calls {
        [.., Call::WaitSemaphores(_, waits)] => waits[0].semaphore,
        [.., Call::SignalSemaphores(_, signals)] => signals[0].semaphore,
        _ => panic!("{calls:#?}"),
    }
}

#[test]
fn streams_wait_and_signal_with_the_timelines_own_values() {
    let (recorder, device) = open();
    let exporter = Exporter::default();
    let timeline = Timeline::new(&device, exporter.exportable()).expect("a timeline");
    assert_eq!(timeline.strategy(), TimelineStrategy::Native);
    assert_eq!(exporter.exports(), 1);
    assert_eq!(recorder.calls(), [Call::ImportSemaphore(TIMELINE)]);
    let queue = device.create_stream().expect("stream");
    let stream = queue.as_raw();
    recorder.forget_calls();
    queue.wait_timeline(&timeline, 1 << 40).expect("enqueues");
    let semaphore = semaphore(&recorder.calls());
    queue.signal_timeline(&timeline, (1 << 40) + 1).expect("enqueues");
    let wait = RawWait { semaphore, params: WaitParams::Value(1 << 40) };
    let signal = RawSignal { semaphore, params: SignalParams::Value((1 << 40) + 1) };
    assert_eq!(
        recorder.calls(),
        [Call::WaitSemaphores(stream, vec![wait]), Call::SignalSemaphores(stream, vec![signal])]
    );
    assert_eq!(exporter.signals(), [0; 0], "the driver signals, not the host");
}

/// A presentation must not depend on a value that the host has yet to signal. The driver has the signal of a native timeline.
#[test]
fn only_values_of_a_bridge_are_reached_before_they_are_presented() {
    let (_recorder, device) = open();
    let (short, exporter) = (Duration::from_millis(20), Exporter::default());
    native(&device, &exporter).before_present(7, Duration::MAX).expect("nothing to wait for");
    let bridged = bridged(&device, &exporter);
    assert_eq!(bridged.before_present(7, short).expect_err("not reached").kind(), ErrorKind::Timeout);
    exporter.set(7);
    bridged.before_present(7, short).expect("reached");
}

#[test]
fn misuse_enqueues_nothing() {
    let (recorder, device) = open();
    let (_other_recorder, other) = open_on(Recorder::new(gpu(2)));
    let (timeline, foreign) = (native(&device, &Exporter::default()), native(&other, &Exporter::default()));
    let stream = device.create_stream().expect("stream");
    let words = ["the timeline belongs to another device", "card 1", "card 2"];
    assert_invalid(&recorder, "Stream::wait_timeline", &words, || stream.wait_timeline(&foreign, 1));
    assert_invalid(&recorder, "Stream::signal_timeline", &words, || stream.signal_timeline(&foreign, 1));
    stream.signal_timeline(&timeline, 5).expect("enqueues");
    let words = ["only grows", "value: 5", "already signalled: 5"];
    assert_invalid(&recorder, "Stream::signal_timeline", &words, || stream.signal_timeline(&timeline, 5));
    // Host signals count, too.
    timeline.signal(8).expect("signals");
    let words = ["only grows", "value: 7", "already signalled: 8"];
    assert_invalid(&recorder, "Stream::signal_timeline", &words, || stream.signal_timeline(&timeline, 7));
    other.create_stream().expect("stream").signal_timeline(&foreign, 1).expect("the rejected signal left no trace");
}

#[test]
fn a_signal_that_is_not_enqueued_can_be_repeated() {
    let (recorder, device) = open();
    let exporter = Exporter::default();
    let (timeline, stream) = (native(&device, &exporter), device.create_stream().expect("stream"));
    recorder.fail_next("SignalSemaphores", ErrorKind::Driver);
    let error = stream.signal_timeline(&timeline, 2).expect_err("injected failure");
    assert_error(&error, ErrorKind::Driver, "drvInjectedFailure", &["DRV_INJECTED"]);
    stream.signal_timeline(&timeline, 2).expect("the value is still free");
    // A rejected host signal does not count.
    exporter.set(10);
    assert_eq!(timeline.signal(9).expect_err("backwards").kind(), ErrorKind::InvalidArgument);
    timeline.signal(11).expect("signals");
    assert_eq!(exporter.signals(), [11]);
}

/// CUDA lowers a timeline to the value of an overtaken signal.
#[test]
fn a_decreasing_timeline_is_an_error() {
    let (_recorder, device) = open();
    let exporter = Exporter::default();
    let timeline = native(&device, &exporter);
    exporter.set(5);
    assert_eq!(timeline.value().expect("a value"), 5);
    exporter.set(3);
    let words = ["decreased", "value: 3", "previous value: 5"];
    assert_error(&timeline.value().expect_err("back"), ErrorKind::Overtaken, "Timeline::value", &words);
    let error = timeline.wait(4, Duration::from_millis(1)).expect_err("it never comes");
    assert_error(&error, ErrorKind::Overtaken, "Timeline::value", &words);
    // The timeline recovers.
    exporter.set(6);
    timeline.wait(6, Duration::ZERO).expect("reached");
    exporter.set(5);
    assert_eq!(timeline.value().expect_err("back from the value of a wait").kind(), ErrorKind::Overtaken);
    exporter.set(7);
    assert_eq!(timeline.value().expect("a value"), 7);
}

#[test]
fn a_rejected_import_makes_a_bridge() {
    use ErrorKind::{DeviceMismatch, DriverTooOld, ImportRejected, SymbolMissing, Unsupported};
    for kind in [DeviceMismatch, DriverTooOld, ImportRejected, SymbolMissing, Unsupported] {
        let (recorder, device) = open();
        recorder.fail_next("ImportSemaphore", kind);
        let timeline = Timeline::new(&device, Exporter::default().exportable()).expect("a bridge");
        assert_eq!(timeline.strategy(), TimelineStrategy::HostBridge, "{kind}");
        recorder.fail_next("ImportSemaphore", kind);
        let named = Timeline::with_strategy(&device, Exporter::default().exportable(), TimelineStrategy::Native);
        let error = named.expect_err("it was named");
        assert_error(&error, kind, "drvInjectedFailure", &["strategy: native"]);
    }
    for kind in [ErrorKind::OutOfMemory, ErrorKind::Driver] {
        let (recorder, device) = open();
        recorder.fail_next("ImportSemaphore", kind);
        let error = Timeline::new(&device, Exporter::default().exportable()).expect_err("another way has it too");
        assert_error(&error, kind, "drvInjectedFailure", &["DRV_INJECTED"]);
    }
}

#[test]
fn unimportable_timelines_are_not_exported() {
    let lacks = everything().with_semaphore(TIMELINE, Support::no("injected by the test"));
    let (recorder, device) = open_on(Recorder::with_capabilities(gpu(1), lacks));
    let exporter = Exporter::default();
    let timeline = Timeline::new(&device, exporter.exportable()).expect("a bridge");
    assert_eq!(timeline.strategy(), TimelineStrategy::HostBridge);
    let named = Timeline::with_strategy(&device, exporter.exportable(), TimelineStrategy::Native);
    let words = ["injected by the test", "strategy: native"];
    assert_error(&named.expect_err("it was named"), ErrorKind::Unsupported, "Timeline::new", &words);
    assert_eq!((exporter.exports(), recorder.calls()), (0, vec![]));
    // The same without an exportable timeline.
    let (recorder, device) = open();
    let timeline = Timeline::new(&device, exporter.private()).expect("a bridge");
    assert_eq!(timeline.strategy(), TimelineStrategy::HostBridge);
    let named = Timeline::with_strategy(&device, exporter.private(), TimelineStrategy::Native);
    assert_error(&named.expect_err("it was named"), ErrorKind::Unsupported, "Timeline::new", &["cannot export"]);
    assert_eq!(recorder.calls(), []);
}

#[test]
fn abandoning_raises_the_timeline_to_the_last_value_that_a_stream_waits_for() {
    for mood in [Behaviour::Normal, Behaviour::Late] {
        let (_recorder, device) = open();
        let exporter = Exporter::default();
        let (timeline, stream) = (native(&device, &exporter), device.create_stream().expect("stream"));
        for value in [4, 9, 6] {
            stream.wait_timeline(&timeline, value).expect("enqueues");
        }
        exporter.set_behaviour(mood);
        timeline.abandon("the renderer is gone").expect("releases the waits");
        timeline.abandon("once more").expect("is done already");
        assert_eq!(exporter.value(), 9);
        assert_eq!(exporter.signals(), if mood == Behaviour::Late { vec![] } else { vec![9] });
        for error in [stream.wait_timeline(&timeline, 10), stream.signal_timeline(&timeline, 10), timeline.signal(10)] {
            let error = error.expect_err("it is abandoned");
            assert_error(&error, ErrorKind::Cancelled, "Timeline::abandon", &["the renderer is gone"]);
        }
        assert_eq!(exporter.value(), 9, "what was rejected is not waited for");
    }
}

/// Also after the timeline is gone. A stream whose waits were satisfied ran with its data.
#[test]
fn streams_report_that_a_wait_was_released_by_a_failure() {
    let (_recorder, device) = open();
    let exporter = Exporter::default();
    let timeline = native(&device, &exporter);
    let [released, finished, other] = [(); 3].map(|()| device.create_stream().expect("stream"));
    for value in [4, 9, 6] {
        released.wait_timeline(&timeline, value).expect("enqueues");
    }
    finished.wait_timeline(&timeline, 5).expect("enqueues");
    exporter.set(5);
    timeline.abandon("the renderer is gone").expect("releases the waits");
    timeline.abandon("once more").expect("is done already");
    assert_eq!(exporter.value(), 9);
    drop(timeline);
    finished.synchronize().expect("the value was reached");
    other.synchronize().expect("it waited for nothing");
    let ways: [fn(&Stream) -> Result<()>; 2] =
        [Stream::synchronize, |stream| stream.synchronize_timeout(Duration::ZERO)];
    for (synchronize, value) in ways.into_iter().zip([100, 200]) {
        let error = synchronize(&released).expect_err("the value was not reached");
        assert_error(&error, ErrorKind::Cancelled, "Timeline::abandon", &["the timeline failed before: the renderer"]);
        released.synchronize().expect("reported once");
        let timeline = native(&device, &exporter);
        released.wait_timeline(&timeline, value).expect("enqueues");
        timeline.abandon("the renderer is gone").expect("releases the waits");
    }
    let buffer = device.allocate_exportable(4096).expect("memory");
    let error = released.read(&buffer, &mut [0; 4096]).expect_err("the value was not reached");
    assert_error(&error, ErrorKind::Cancelled, "Timeline::abandon", &[]);
}

/// The waits are released later: by the pending work, or by the thread once the exporter accepts its signal.
#[test]
fn abandoning_fails_while_pending_work_of_the_exporter_forbids_the_signal() {
    let (recorder, device) = open();
    let exporter = Exporter::default();
    let (timeline, stream) = (native(&device, &exporter), device.create_stream().expect("stream"));
    recorder.hold(stream.as_raw());
    stream.wait_timeline(&timeline, 3).expect("enqueues");
    exporter.set_behaviour(Behaviour::Pending);
    assert_eq!(timeline.abandon("gone").expect_err("the value is not reached").kind(), ErrorKind::Overtaken);
    assert_eq!(exporter.value(), 0);
    exporter.set_behaviour(Behaviour::Normal);
    exporter.expect(3);
    recorder.finish(stream.as_raw());
}

#[test]
fn values_beyond_the_exporters_limit_are_not_waited_for() {
    for native_path in [false, true] {
        let (recorder, device) = open();
        let exporter = Exporter::default();
        exporter.set_max_difference(10);
        let timeline = if native_path { native(&device, &exporter) } else { bridged(&device, &exporter) };
        let stream = device.create_stream().expect("stream");
        for (current, reachable) in [(0, 10), (5, 15)] {
            exporter.set(current);
            for value in [reachable + 1, u64::MAX] {
                let words = ["too far", &format!("value: {value}"), "greatest difference: 10"];
                assert_invalid(&recorder, "Stream::wait_timeline", &words, || stream.wait_timeline(&timeline, value));
            }
            stream.wait_timeline(&timeline, reachable).expect("enqueues");
        }
        timeline.abandon("gone").expect("the exporter allows the signal");
        assert_eq!(exporter.signals(), if native_path { vec![15] } else { vec![] });
    }
}

#[test]
fn abandoning_can_be_repeated_where_the_exporter_failed() {
    let (_recorder, device) = open();
    let exporter = Exporter::default();
    let (timeline, stream) = (native(&device, &exporter), device.create_stream().expect("stream"));
    stream.wait_timeline(&timeline, 3).expect("enqueues");
    for mood in [Behaviour::Fails, Behaviour::Panics] {
        exporter.set_behaviour(mood);
        assert_eq!(timeline.abandon("gone").expect_err("the exporter does not help").kind(), ErrorKind::Driver);
    }
    exporter.set_behaviour(Behaviour::Normal);
    timeline.abandon("gone").expect("releases the waits");
    assert_eq!(exporter.signals(), [3]);
}

/// Either the wait fails, or it is released.
#[test]
fn a_wait_during_abandonment_is_rejected_or_released() {
    let mut rejected = 0;
    for round in 0..300 {
        let (_recorder, device) = open();
        let exporter = Exporter::default();
        let (timeline, stream) = (native(&device, &exporter), device.create_stream().expect("stream"));
        let enqueued = std::thread::scope(|scope| {
            let waiter = scope.spawn(|| (1..100).take_while(|v| stream.wait_timeline(&timeline, *v).is_ok()).count());
            if round % 2 == 0 {
                std::thread::yield_now();
            }
            timeline.abandon("gone").expect("releases the waits");
            waiter.join().expect("join")
        });
        rejected += usize::from(enqueued < 99);
        assert!(exporter.value() >= enqueued as u64, "a stream waits for {enqueued}, and got {}", exporter.value());
    }
    assert!(rejected > 0, "no wait was rejected");
}
