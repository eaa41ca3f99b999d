//! Polled waits, the error of a timeout, and exporters that panic when they are dropped.

use std::time::Duration;

#[cfg(target_os = "linux")]
use super::assert_error;
use super::{Behaviour, Exporter, LONG, bridged, bridged_timeline, bridged_timeline_on, open};
use crate::error::ErrorKind;
use crate::object::Timeline;

/// As a blocking wait does. What the process signalled before its end counts.
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
        // The value stays valid, and one that was signalled at the end counts, also between the read of the value and the
        // look at the process.
        assert_eq!(timeline.value().expect("no failure"), 2);
        exporter.set_after_read(3);
        assert!(!timeline.is_reached(3).expect("it is signalled meanwhile"));
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

/// The value that the stream waits for, the present one, and the last one signalled through the object.
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
        // At most 4, the last ones.
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
