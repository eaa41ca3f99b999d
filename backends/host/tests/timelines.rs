//! Timelines on the host backend, native and bridged.

#![allow(clippy::expect_used, reason = "these are tests, also outside of the test functions")]

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{BOTH, LONG, Plain, device, open, timeline};
use gpu_interop_core::{ErrorKind, Timeline, TimelineStrategy};
use gpu_interop_host::HostSemaphore;

#[test]
fn values_go_both_ways() {
    for strategy in BOTH {
        let (_device, exporter, timeline, stream) = open(strategy, 0);
        for round in (1..2_000_u64).step_by(2) {
            stream.wait_timeline(&timeline, round).expect("enqueues");
            stream.signal_timeline(&timeline, round + 1).expect("enqueues");
            exporter.signal_value(round).expect("signals");
            exporter.wait_value(round + 1, LONG).expect("the stream signals");
        }
        stream.synchronize_timeout(LONG).expect("all has run");
    }
}

#[test]
fn a_stream_waits_for_its_value() {
    for strategy in BOTH {
        let (_device, exporter, timeline, stream) = open(strategy, 3);
        stream.wait_timeline(&timeline, 3).expect("enqueues");
        stream.synchronize_timeout(LONG).expect("reached already");
        stream.wait_timeline(&timeline, u64::MAX - 1).expect("enqueues");
        stream.signal_timeline(&timeline, u64::MAX).expect("enqueues");
        for value in [4, 1 << 32, 1 << 63] {
            exporter.signal_value(value).expect("signals");
            std::thread::sleep(Duration::from_millis(30));
            assert!(!stream.is_idle().expect("queries"), "{strategy}: {value} was enough");
            assert_eq!(timeline.wait(u64::MAX, Duration::ZERO).expect_err("too early").kind(), ErrorKind::Timeout);
        }
        timeline.signal(u64::MAX - 1).expect_err("not above what a stream will signal");
        exporter.signal_value(u64::MAX - 1).expect("signals");
        timeline.wait(u64::MAX, LONG).expect("the stream signals");
        assert_eq!(timeline.value().expect("queries"), u64::MAX);
    }
}

#[test]
fn a_timeline_starts_at_the_exporters_value() {
    for strategy in BOTH {
        let (_device, exporter, timeline, stream) = open(strategy, 5);
        for value in [0, 4, 5] {
            let error = stream.signal_timeline(&timeline, value).expect_err("not above the exporter's value");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            timeline.signal(value).expect_err("not above the exporter's value");
        }
        stream.signal_timeline(&timeline, 6).expect("enqueues");
        exporter.wait_value(6, LONG).expect("the stream signals");
    }
}

#[test]
fn abandoning_a_timeline_ends_its_streams_waits() {
    for strategy in BOTH {
        let (_device, _exporter, timeline, stream) = open(strategy, 0);
        stream.wait_timeline(&timeline, 7).expect("enqueues");
        timeline.abandon("the renderer is gone").expect("abandons");
        let error = stream.synchronize_timeout(LONG).expect_err("the wait was not met");
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        let text = error.to_string();
        assert!(text.contains("the renderer is gone") && text.matches("cancelled").count() == 1, "{strategy}: {error}");
        let error = stream.wait_timeline(&timeline, 8).expect_err("it is abandoned");
        assert!(error.to_string().contains("the renderer is gone"), "{error}");
        assert_eq!(timeline.wait(1, LONG).expect_err("abandoned").kind(), ErrorKind::Cancelled);
    }
}

/// Starts a process that outlives the test.
fn another_process() -> std::process::Child {
    let mut command = if cfg!(windows) {
        // Waits for a line of input that never arrives.
        let mut command = std::process::Command::new("cmd");
        command.args(["/c", "set /p line="]);
        command
    } else {
        let mut command = std::process::Command::new("sleep");
        command.arg("60");
        command
    };
    command.stdin(std::process::Stdio::piped()).spawn().expect("a process")
}

#[test]
fn a_wait_for_a_killed_process_fails() {
    for strategy in BOTH {
        let device = device();
        let (_exporter, timeline) = timeline(&device, strategy, 0);
        let mut child = another_process();
        timeline.watch_process(child.id()).expect("watches");
        let stream = device.create_stream().expect("a stream");
        stream.wait_timeline(&timeline, 1).expect("enqueues");
        assert_eq!(timeline.wait(1, Duration::from_millis(120)).expect_err("alive").kind(), ErrorKind::Timeout);
        let start = Instant::now();
        child.kill().expect("kills");
        // The host waits on native timelines only; the bridge watches the process itself.
        if strategy == TimelineStrategy::Native {
            assert_eq!(timeline.wait(1, LONG).expect_err("dead").kind(), ErrorKind::Cancelled);
        }
        let error = stream.synchronize_timeout(LONG).expect_err("the value was not signalled");
        assert!(start.elapsed() < LONG, "{strategy}: {:?}", start.elapsed());
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{strategy}: {error}");
        child.wait().expect("reaps");
    }
}

#[test]
fn a_device_is_closed_with_a_wait_pending() {
    for strategy in BOTH {
        let (device, exporter, timeline, stream) = open(strategy, 0);
        stream.wait_timeline(&timeline, 1).expect("enqueues");
        stream.signal_timeline(&timeline, 2).expect("enqueues");
        let start = Instant::now();
        drop((stream, timeline, device));
        assert!(start.elapsed() < Duration::from_secs(10));
        // The cancelled signal did not run.
        assert_eq!(exporter.value(), 0, "{strategy}");
    }
}

#[test]
fn impossible_strategies_are_rejected() {
    let device = device();
    let binary = HostSemaphore::binary().expect("create");
    let error = Timeline::new(&device, Arc::new(binary)).expect_err("no timeline");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);

    let exporter = HostSemaphore::timeline(0).expect("create");
    let error = Timeline::with_strategy(&device, Arc::new(Plain(exporter.clone())), TimelineStrategy::Native)
        .expect_err("cannot be exported");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let timeline = Timeline::new(&device, Arc::new(Plain(exporter))).expect("bridged");
    assert_eq!(timeline.strategy(), TimelineStrategy::HostBridge);
    let stream = device.create_stream().expect("a stream");
    stream.wait_timeline(&timeline, 1).expect("enqueues");
    timeline.signal(1).expect("signals");
    stream.synchronize_timeout(LONG).expect("goes on");
}
