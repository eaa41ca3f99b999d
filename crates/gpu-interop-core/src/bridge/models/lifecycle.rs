//! Start and end of the thread, its timelines and its requests.

use std::sync::Arc;

use loom::thread;

use super::{Device, Exporter, check, check_timelines};
use crate::error::{Error, ErrorKind};
use crate::timeline::ExporterTimeline;

/// The thread ends while another timeline joins, or restarts for it.
#[test]
fn a_timeline_leaves_while_another_joins() {
    check(2, || {
        let exporter = Exporter::new();
        let device = Arc::new(Device::new(1));
        let user = |device: Arc<Device>, exporter: Arc<Exporter>| {
            let timeline = device.timeline(&exporter);
            device.signal_by_function(&timeline, 1)();
            timeline.mock.wait_for(1);
        };
        let (other, others) = (device.clone(), exporter.clone());
        let thread = thread::spawn(move || user(other, others));
        user(device.clone(), exporter);
        thread.join().expect("join");
        device.close();
        assert_eq!(device.bridges.words.in_use(), 0);
    });
}

/// A timeline may be dropped before its requests have completed.
#[test]
fn requests_outlive_their_timeline() {
    check_timelines(2, |device, [timeline]| {
        let (item, _) = device.wait(&timeline, 1);
        let function = device.signal_by_function(&timeline, 2);
        let mock = timeline.mock.clone();
        let stream = thread::spawn(move || {
            item.wait();
            function();
        });
        drop(timeline);
        mock.signal(1).expect("signals");
        mock.wait_for(2);
        stream.join().expect("join");
    });
}

#[test]
fn cancelling_releases_waits() {
    check_timelines(1, |device, [timeline]| {
        let (item, faults) = device.wait(&timeline, 1);
        let stream = thread::spawn(move || {
            item.wait();
            assert_eq!(faults.take().expect_err("the value was not reached").kind(), ErrorKind::Cancelled);
        });
        drop(timeline);
        device.bridges.cancel();
        stream.join().expect("join");
    });
}

/// Words that streams may still write are not reused.
#[test]
fn abandoning_ends_the_thread_with_requests_pending() {
    check(3, || {
        let exporter = Exporter::new();
        let device = Device::new(1);
        let timeline = device.timeline(&exporter);
        let function = device.signal_by_function(&timeline, 1);
        let stream = thread::spawn(function);
        let mock = timeline.mock.clone();
        drop(timeline);
        device.bridges.abandon();
        device.close();
        stream.join().expect("join");
        let carried = mock.value().expect("has one") == 1;
        assert_eq!(device.bridges.words.in_use(), usize::from(!carried));
    });
}

/// A failed timeline releases its waits in every state of the bridge.
#[test]
fn a_failure_releases_waits() {
    check_timelines(2, |device, [failing, other]| {
        let mock = other.mock.clone();
        let renderer = thread::spawn(move || mock.signal(1).expect("signals"));
        let (item, faults) = device.wait(&failing, 1);
        let (unharmed, no_faults) = device.wait(&other, 1);
        failing.side.fail(&Error::new(ErrorKind::Cancelled, "Timeline::abandon", "no signal will come"));
        failing.bridge.wake();
        item.wait();
        assert_eq!(faults.take().expect_err("the value was not reached").kind(), ErrorKind::Cancelled);
        unharmed.wait();
        no_faults.take().expect("the value was reached");
        renderer.join().expect("join");
    });
}

/// The thread counts as ended only after it has dropped all references.
#[test]
fn an_ended_thread_holds_no_timeline() {
    check(3, || {
        let exporter = Exporter::new();
        let device = Device::new(1);
        let timeline = device.timeline(&exporter);
        timeline.mock.signal(1).expect("signals");
        let side = timeline.side.clone();
        let (item, _) = device.wait(&timeline, 1);
        drop(timeline);
        device.close();
        assert_eq!(Arc::strong_count(&side), 1);
        let mocks = Arc::strong_count(&exporter) - 1;
        assert_eq!(mocks, 1, "the waiter still exists");
        item.wait();
    });
}
