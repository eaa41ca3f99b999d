//! The thread's beginning and end, and those of what it serves.

use std::sync::Arc;

use loom::thread;

use super::{Device, Exporter, check};
use crate::error::{Error, ErrorKind};
use crate::timeline::ExporterTimeline;

/// The thread ends while another timeline joins, or starts again for it.
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

/// A timeline may go before what was ordered for it is carried.
#[test]
fn orders_outlive_their_timeline() {
    check(3, || {
        let exporter = Exporter::new();
        let device = Device::new(2);
        let timeline = device.timeline(&exporter);
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
        device.close();
        assert_eq!(device.bridges.words.in_use(), 0);
    });
}

#[test]
fn cancelling_lets_waiting_streams_go() {
    check(3, || {
        let exporter = Exporter::new();
        let device = Device::new(1);
        let timeline = device.timeline(&exporter);
        let (item, faults) = device.wait(&timeline, 1);
        let stream = thread::spawn(move || {
            item.wait();
            assert_eq!(faults.take().expect_err("the value was not reached").kind(), ErrorKind::Cancelled);
        });
        drop(timeline);
        device.bridges.cancel();
        stream.join().expect("join");
        device.close();
        assert_eq!(device.bridges.words.in_use(), 0);
    });
}

/// The words that streams may still write are nobody else's then.
#[test]
fn abandoning_ends_the_thread_whatever_is_outstanding() {
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

/// A failed timeline lets its streams go, whatever the bridge is doing.
#[test]
fn a_failure_lets_waiting_streams_go() {
    check(3, || {
        let exporter = Exporter::new();
        let device = Arc::new(Device::new(2));
        let (failing, other) = (device.timeline(&exporter), device.timeline(&exporter));
        let mock = other.mock.clone();
        let renderer = thread::spawn(move || mock.signal(1).expect("signals"));
        let (item, faults) = device.wait(&failing, 1);
        let (unharmed, no_faults) = device.wait(&other, 1);
        failing.side.fail(&Error::new(ErrorKind::Cancelled, "Timeline::abandon", "nobody signals it"));
        failing.bridge.wake();
        item.wait();
        assert_eq!(faults.take().expect_err("the value was not reached").kind(), ErrorKind::Cancelled);
        unharmed.wait();
        no_faults.take().expect("the value was reached");
        renderer.join().expect("join");
        drop((failing, other));
        device.close();
    });
}

/// Closing sees the thread end only after it has let go of everything.
#[test]
fn a_thread_at_rest_holds_no_timeline() {
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
        assert_eq!(mocks, 1, "the waiter is still there");
        item.wait();
    });
}
