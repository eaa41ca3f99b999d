//! Transfer of requests, in every interleaving.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;

use super::check_timelines;
use crate::timeline::ExporterTimeline;

#[test]
fn a_wait_ends_when_the_exporter_signals() {
    check_timelines(1, |device, [timeline]| {
        let mock = timeline.mock.clone();
        let renderer = thread::spawn(move || mock.signal(1).expect("signals"));
        let (item, faults) = device.wait(&timeline, 1);
        item.wait();
        faults.take().expect("the value was reached");
        renderer.join().expect("join");
    });
}

#[test]
fn a_written_word_becomes_a_signal() {
    check_timelines(1, |device, [timeline]| {
        let item = device.signal(&timeline, 1);
        let stream = thread::spawn(move || item.write());
        timeline.mock.wait_for(1);
        stream.join().expect("join");
    });
}

/// The bridge never transfers the second signal before the first.
#[test]
fn signals_of_one_stream_are_transferred_in_order() {
    check_timelines(2, |device, [timeline]| {
        let (first, second) = (device.signal(&timeline, 1), device.signal(&timeline, 2));
        let stream = thread::spawn(move || {
            first.write();
            second.write();
        });
        timeline.mock.wait_for(2);
        stream.join().expect("join");
    });
}

/// The word is not polled: the function's wake-up must not get lost.
#[test]
fn a_host_function_becomes_a_signal() {
    check_timelines(1, |device, [timeline]| {
        let function = device.signal_by_function(&timeline, 1);
        let stream = thread::spawn(function);
        timeline.mock.wait_for(1);
        stream.join().expect("join");
    });
}

/// The second request arrives while the bridge parks, begins to wait for the exporter, or waits for it.
#[test]
fn a_request_arrives_while_another_waits() {
    check_timelines(2, |device, [first, second]| {
        let (blocked, _) = device.wait(&first, 1);
        second.mock.signal(1).expect("signals");
        let (item, _) = device.wait(&second, 1);
        item.wait();
        first.mock.signal(1).expect("signals");
        blocked.wait();
    });
}

/// Writes of the exporter before its signal are visible to the stream, and those of the stream to the exporter.
#[test]
fn data_is_visible_once_the_value_is() {
    check_timelines(1, |device, [timeline]| {
        let data = Arc::new(UnsafeCell::new(0));
        let (mock, shared) = (timeline.mock.clone(), data.clone());
        let renderer = thread::spawn(move || {
            // SAFETY: loom reports concurrent accesses.
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
    });
}

/// A stream waits for one timeline and then signals another, both over one thread.
#[test]
fn one_thread_serves_two_dependent_timelines() {
    check_timelines(2, |device, [first, second]| {
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
    });
}

/// A stream waits, and then signals. The signal need not wake the bridge while the wait is pending. It must not be lost
/// if the wait ends concurrently.
#[test]
fn a_signal_behind_a_wait_is_transferred() {
    check_timelines(2, |device, [first, second]| {
        let mock = first.mock.clone();
        let renderer = thread::spawn(move || mock.signal(1).expect("signals"));
        let waited = device.wait_on(&device.faults, &first, 1);
        let written = device.signal(&second, 1);
        // Otherwise the bridge, which polls the word, and the stream could take turns without end.
        renderer.join().expect("join");
        waited.wait();
        written.write();
        second.mock.wait_for(1);
    });
}

/// As above, and the signal is by a host function, whose wake-up is the only one.
#[test]
fn a_host_function_behind_a_wait_is_transferred() {
    check_timelines(2, |device, [first, second]| {
        let mock = first.mock.clone();
        let renderer = thread::spawn(move || mock.signal(1).expect("signals"));
        let waited = device.wait_on(&device.faults, &first, 1);
        let function = device.signal_by_function(&second, 1);
        waited.wait();
        function();
        second.mock.wait_for(1);
        renderer.join().expect("join");
    });
}
