//! Orders that are carried, whenever they come.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;

use super::{Device, Exporter, check};
use crate::timeline::ExporterTimeline;

#[test]
fn a_wait_ends_when_the_exporter_signals() {
    check(3, || {
        let exporter = Exporter::new();
        let device = Device::new(1);
        let timeline = device.timeline(&exporter);
        let mock = timeline.mock.clone();
        let renderer = thread::spawn(move || mock.signal(1).expect("signals"));
        let (item, faults) = device.wait(&timeline, 1);
        item.wait();
        faults.take().expect("the value was reached");
        renderer.join().expect("join");
        drop(timeline);
        device.close();
    });
}

#[test]
fn a_written_word_becomes_a_signal() {
    check(3, || {
        let exporter = Exporter::new();
        let device = Device::new(1);
        let timeline = device.timeline(&exporter);
        let item = device.signal(&timeline, 1);
        let stream = thread::spawn(move || item.write());
        timeline.mock.wait_for(1);
        stream.join().expect("join");
        drop(timeline);
        device.close();
    });
}

/// Whatever the bridge sees when, it never carries the second before the first.
#[test]
fn signals_of_one_stream_are_carried_in_their_order() {
    check(3, || {
        let exporter = Exporter::new();
        let device = Device::new(2);
        let timeline = device.timeline(&exporter);
        let (first, second) = (device.signal(&timeline, 1), device.signal(&timeline, 2));
        let stream = thread::spawn(move || {
            first.write();
            second.write();
        });
        timeline.mock.wait_for(2);
        stream.join().expect("join");
        drop(timeline);
        device.close();
    });
}

/// Nobody looks at the word by himself: the function's wake-up must not get lost.
#[test]
fn a_host_function_becomes_a_signal() {
    check(3, || {
        let exporter = Exporter::new();
        let device = Device::new(1);
        let timeline = device.timeline(&exporter);
        let function = device.signal_by_function(&timeline, 1);
        let stream = thread::spawn(function);
        timeline.mock.wait_for(1);
        stream.join().expect("join");
        drop(timeline);
        device.close();
    });
}

/// The bridge parks, goes to wait for the exporter, or waits for it already when the second order comes.
#[test]
fn an_order_comes_while_another_waits() {
    check(3, || {
        let exporter = Exporter::new();
        let device = Arc::new(Device::new(2));
        let (first, second) = (device.timeline(&exporter), device.timeline(&exporter));
        let (blocked, _) = device.wait(&first, 1);
        second.mock.signal(1).expect("signals");
        let (item, _) = device.wait(&second, 1);
        item.wait();
        first.mock.signal(1).expect("signals");
        blocked.wait();
        drop((first, second));
        device.close();
    });
}

/// What the exporter wrote before it signalled is there for the stream, and what the stream wrote for the exporter.
#[test]
fn data_is_there_when_the_value_is() {
    check(3, || {
        let exporter = Exporter::new();
        let device = Device::new(1);
        let timeline = device.timeline(&exporter);
        let data = Arc::new(UnsafeCell::new(0));
        let (mock, shared) = (timeline.mock.clone(), data.clone());
        let renderer = thread::spawn(move || {
            // SAFETY: loom reports whoever else accesses this now.
            shared.with_mut(|data| unsafe { *data = 1 });
            mock.signal(1).expect("signals");
            mock.wait_for(2);
            // SAFETY: as above.
            shared.with(|data| assert_eq!(unsafe { *data }, 2));
        });
        let (item, _) = device.wait(&timeline, 1);
        item.wait();
        // SAFETY: as above.
        data.with_mut(|data| assert_eq!(std::mem::replace(unsafe { &mut *data }, 2), 1));
        device.signal(&timeline, 2).write();
        renderer.join().expect("join");
        drop(timeline);
        device.close();
    });
}

/// One timeline's stream waits for what the other's signals, and both go over one thread.
#[test]
fn two_timelines_take_turns_on_one_thread() {
    check(3, || {
        let exporter = Exporter::new();
        let device = Device::new(2);
        let (first, second) = (device.timeline(&exporter), device.timeline(&exporter));
        let (item, faults) = device.wait(&first, 1);
        let answer = device.signal_by_function(&second, 1);
        let stream = thread::spawn(move || {
            item.wait();
            answer();
        });
        first.mock.signal(1).expect("signals");
        second.mock.wait_for(1);
        stream.join().expect("join");
        faults.take().expect("the value was reached");
        drop((first, second));
        device.close();
    });
}
