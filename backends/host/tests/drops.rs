//! Time that a drop takes: bounded for the last object of a device, whose waits nothing satisfies.
#![allow(clippy::expect_used, reason = "these are tests, also outside of the test functions")]

mod common;

use std::time::{Duration, Instant};

use common::{BOTH, device, open};
use gpu_interop_core::WaitCondition;

/// Documented: 1 second for pending work, and at most another after cancelling it.
const BOUND: Duration = Duration::from_secs(2);
/// Delays of a busy machine.
const SLACK: Duration = Duration::from_millis(800);

#[test]
fn the_last_drop_of_a_device_is_bounded_although_its_waits_are_not() {
    for strategy in BOTH {
        let (device, _exporter, timeline, stream) = open(strategy, 0);
        stream.wait_timeline(&timeline, 1).expect("enqueues");
        let start = Instant::now();
        drop((timeline, stream));
        assert!(start.elapsed() < SLACK, "{strategy}: a drop that is not the last waited");
        let start = Instant::now();
        drop(device);
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(900), "{strategy}: pending work had only {took:?}");
        assert!(took < BOUND + SLACK, "{strategy}: {took:?}");
    }
}

#[test]
fn work_that_completes_in_time_is_not_cancelled() {
    let device = device();
    let (stream, memory) = (device.create_stream().expect("stream"), device.allocate_exportable(4096).expect("memory"));
    let (done, other) = (device.create_stream().expect("stream"), device.allocate_exportable(4096).expect("memory"));
    stream.wait_value_u32(memory.slice(..4).expect("a word"), 1, WaitCondition::Equal).expect("waits");
    let (sender, ran) = std::sync::mpsc::channel();
    stream.launch_host_function(move || sender.send(()).expect("the test waits")).expect("enqueues");
    done.launch_host_function(|| std::thread::sleep(Duration::from_millis(300))).expect("enqueues");
    done.write_value_u32(memory.slice(..4).expect("a word"), 1).expect("writes");
    drop((stream, memory, done, other, device));
    ran.recv_timeout(Duration::ZERO).expect("the work ran before the device was closed");
}
