//! Latency of waits: a wait ends within a multiple of the thread wake-up time measured in the same run, with a lower
//! limit of 200 ms.
#![allow(clippy::expect_used, reason = "these are tests, also outside of the test functions")]

mod common;

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use common::{BOTH, LONG, Plain, device, open, timeline};
use gpu_interop_core::{Device, Stream, Timeline, TimelineStrategy, WaitCondition};
use gpu_interop_host::HostSemaphore;

/// Delays between a wait and its signal: none, 2 ms (the waiter spins) and 60 ms (the waiter sleeps).
const IDLE: [Duration; 3] = [Duration::ZERO, Duration::from_millis(2), Duration::from_millis(60)];
/// Rounds per median. The median ignores single rounds with a scheduling delay.
const ROUNDS: usize = 7;
/// Maximum ratio to the baseline.
const SLOWER: u32 = 50;
/// Lower bound of the limit, well below the pauses of a second that a defect would add.
const FLOOR: Duration = Duration::from_millis(200);
/// Upper bound of the limit, on a loaded machine.
const CEILING: Duration = Duration::from_millis(800);

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Measures the time to wake a thread that has slept for `idle`.
fn baseline(idle: Duration) -> Duration {
    let times = (0..ROUNDS).map(|_| {
        let pair = Arc::new((Mutex::new(false), Condvar::new()));
        let there = pair.clone();
        let waiting = std::thread::spawn(move || {
            let reached = there.0.lock().expect("no panic");
            drop(there.1.wait_while(reached, |reached| !*reached).expect("no panic"));
            Instant::now()
        });
        std::thread::sleep(idle);
        let start = Instant::now();
        *pair.0.lock().expect("no panic") = true;
        pair.1.notify_one();
        waiting.join().expect("no panic").saturating_duration_since(start)
    });
    median(times.collect())
}

/// Fails if the median latency of several rounds exceeds the limit. Each round causes an event and returns its time and
/// the time when the wait ended.
fn check_latency(what: &str, mut round: impl FnMut(Duration) -> (Instant, Instant)) {
    for idle in IDLE {
        let before = baseline(idle);
        let times: Vec<_> = (0..ROUNDS)
            .map(|_| {
                let (start, end) = round(idle);
                end.saturating_duration_since(start)
            })
            .collect();
        // The baseline is measured again because the load may have changed.
        let limit = (SLOWER * before.max(baseline(idle))).clamp(FLOOR, CEILING);
        let found = median(times.clone());
        assert!(found < limit, "{what}, {idle:?} after the wait: {found:?} of {times:?}, the limit is {limit:?}");
    }
}

/// Enqueues a host function that sends the time at which the stream reaches it.
fn reached(stream: &Stream) -> Receiver<Instant> {
    let (sender, receiver) = channel();
    stream.launch_host_function(move || sender.send(Instant::now()).expect("the test receives")).expect("enqueues");
    receiver
}

/// The exporter signals each value while the stream waits for it.
fn check_exporter_signals(what: &str, device: &Device, exporter: &HostSemaphore, timeline: &Timeline) {
    let stream = device.create_stream().expect("a stream");
    let mut value = 0;
    check_latency(what, |idle| {
        value += 1;
        stream.wait_timeline(timeline, value).expect("enqueues");
        let reached = reached(&stream);
        std::thread::sleep(idle);
        let start = Instant::now();
        exporter.signal_value(value).expect("signals");
        (start, reached.recv_timeout(LONG).expect("the stream continues"))
    });
}

/// Runs a check for each case, all at once: they mostly sleep.
fn at_once<T: Send>(cases: impl IntoIterator<Item = T>, check: impl Fn(T) + Sync) {
    let check = &check;
    std::thread::scope(|scope| cases.into_iter().for_each(|case| drop(scope.spawn(move || check(case)))));
}

#[test]
fn a_stream_continues_soon_after_the_exporter_signals() {
    at_once(BOTH, |strategy| {
        let device = device();
        let (exporter, timeline) = timeline(&device, strategy, 0);
        check_exporter_signals(&format!("a stream, {strategy}"), &device, &exporter, &timeline);
    });
}

#[test]
fn the_exporter_continues_soon_after_a_stream_signals() {
    at_once(BOTH, |strategy| {
        let (_device, exporter, timeline, stream) = open(strategy, 0);
        let mut value = 0;
        check_latency(&format!("the exporter, {strategy}"), |idle| {
            value += 1;
            let (gate, open) = channel::<()>();
            stream.launch_host_function(move || open.recv().expect("it is opened")).expect("enqueues");
            let before = reached(&stream);
            stream.signal_timeline(&timeline, value).expect("enqueues");
            let (there, awaited) = (exporter.clone(), value);
            let waiting = std::thread::spawn(move || {
                there.wait_value(awaited, LONG).expect("the stream signals");
                Instant::now()
            });
            std::thread::sleep(idle);
            gate.send(()).expect("the stream waits");
            (before.recv_timeout(LONG).expect("the stream continues"), waiting.join().expect("no panic"))
        });
    });
}

#[test]
fn a_thread_continues_soon_after_either_signals() {
    at_once(BOTH.into_iter().flat_map(|strategy| [(strategy, false), (strategy, true)]), |(strategy, by_stream)| {
        let device = device();
        let (exporter, timeline) = timeline(&device, strategy, 0);
        let timeline = Arc::new(timeline);
        let stream = device.create_stream().expect("a stream");
        let mut value = 0;
        check_latency(&format!("a thread, {strategy}, by a stream: {by_stream}"), |idle| {
            value += 1;
            let (there, awaited) = (timeline.clone(), value);
            let waiting = std::thread::spawn(move || {
                there.wait(awaited, LONG).expect("it is signalled");
                Instant::now()
            });
            std::thread::sleep(idle);
            let start = Instant::now();
            if by_stream {
                stream.signal_timeline(&timeline, value).expect("enqueues");
            } else {
                exporter.signal_value(value).expect("signals");
            }
            (start, waiting.join().expect("no panic"))
        });
    });
}

/// The bridge polls timelines whose exporter has no waiter.
#[test]
fn a_stream_continues_soon_after_an_exporter_without_a_waiter_signals() {
    let device = device();
    let exporter = HostSemaphore::timeline(0).expect("create");
    let timeline = Timeline::new(&device, Arc::new(Plain(exporter.clone()))).expect("a timeline");
    check_exporter_signals("a stream that waits for a polled timeline", &device, &exporter, &timeline);
}

/// With two timelines on one bridge, neither delays the other: work enqueued while the bridge waits for the first wakes
/// it.
#[test]
fn both_sides_continue_soon_while_another_stream_waits() {
    at_once([false, true], |plain| {
        let device = device();
        let bridged = || {
            let exporter = HostSemaphore::timeline(0).expect("create");
            let timeline = match plain {
                false => Timeline::with_strategy(&device, Arc::new(exporter.clone()), TimelineStrategy::HostBridge),
                true => Timeline::new(&device, Arc::new(Plain(exporter.clone()))),
            };
            let timeline = timeline.expect("a timeline");
            assert_eq!(timeline.strategy(), TimelineStrategy::HostBridge);
            (exporter, timeline)
        };
        let ((idle_exporter, idle_timeline), (exporter, timeline)) = (bridged(), bridged());
        let [busy, stream] = [(); 2].map(|()| device.create_stream().expect("a stream"));
        busy.wait_timeline(&idle_timeline, 1).expect("enqueues");
        let mut value = 0;
        check_latency(&format!("a stream beside another, plain: {plain}"), |idle| {
            value += 1;
            // The bridge sleeps for the other timeline.
            std::thread::sleep(idle);
            stream.wait_timeline(&timeline, value).expect("enqueues");
            let reached = reached(&stream);
            let start = Instant::now();
            exporter.signal_value(value).expect("signals");
            (start, reached.recv_timeout(LONG).expect("the stream continues"))
        });
        check_latency(&format!("the exporter beside another, plain: {plain}"), |idle| {
            value += 1;
            std::thread::sleep(idle);
            let start = Instant::now();
            stream.signal_timeline(&timeline, value).expect("enqueues");
            exporter.wait_value(value, LONG).expect("the stream signals");
            (start, Instant::now())
        });
        idle_exporter.signal_value(1).expect("signals");
        busy.synchronize_timeout(LONG).expect("the stream continues");
    });
}

#[test]
fn streams_continue_soon_after_their_timeline_is_abandoned() {
    at_once(BOTH, |strategy| {
        check_latency(&format!("an abandoned timeline, {strategy}"), |idle| {
            let (_device, _exporter, timeline, stream) = open(strategy, 0);
            stream.wait_timeline(&timeline, 7).expect("enqueues");
            let reached = reached(&stream);
            std::thread::sleep(idle);
            let start = Instant::now();
            timeline.abandon("for the test").expect("abandons");
            (start, reached.recv_timeout(LONG).expect("the stream continues"))
        });
    });
}

/// Waits of the host backend itself.
#[test]
fn waits_for_events_and_synchronisation_end_soon() {
    let device = device();
    let [first, second] = [(); 2].map(|()| device.create_stream().expect("a stream"));
    check_latency("an event", |idle| {
        let (gate, open) = channel::<()>();
        first.launch_host_function(move || open.recv().expect("it is opened")).expect("enqueues");
        let event = device.create_event().expect("an event");
        let before = reached(&first);
        first.record(&event).expect("records");
        second.wait_event(&event).expect("enqueues");
        let reached = reached(&second);
        std::thread::sleep(idle);
        gate.send(()).expect("the stream waits");
        let start = before.recv_timeout(LONG).expect("the first stream continues");
        (start, reached.recv_timeout(LONG).expect("the second stream continues"))
    });
    check_latency("synchronisation", |idle| {
        let (gate, open) = channel::<()>();
        first.launch_host_function(move || open.recv().expect("it is opened")).expect("enqueues");
        let before = reached(&first);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                first.synchronize().expect("it is idle");
                Instant::now()
            });
            std::thread::sleep(idle);
            gate.send(()).expect("the stream waits");
            let start = before.recv_timeout(LONG).expect("the stream continues");
            (start, waiting.join().expect("no panic"))
        })
    });
}

#[test]
fn streams_continue_soon_after_a_word_is_written() {
    let device = device();
    let memory = device.allocate_exportable(4096).expect("memory");
    let request = memory.import_request().expect("exports");
    let mapped = device.import_memory(request).expect("imports").map_buffer(..).expect("maps");
    let word = || mapped.slice(8..16).expect("a word");
    let [first, second] = [(); 2].map(|()| device.create_stream().expect("a stream"));
    let mut value = 0;
    check_latency("a word", |idle| {
        value += 1;
        first.wait_value_u64(word(), value, WaitCondition::Equal).expect("enqueues");
        let reached = reached(&first);
        std::thread::sleep(idle);
        let start = Instant::now();
        second.write_value_u64(word(), value).expect("enqueues");
        (start, reached.recv_timeout(LONG).expect("the stream continues"))
    });
}

/// The end of the signalling process is detected by polling.
#[test]
#[cfg(unix)]
fn streams_continue_soon_after_the_signalling_process_ends() {
    let device = device();
    let mut rounds = 0;
    check_latency("a process that was killed", |idle| {
        rounds += 1;
        let (_exporter, timeline) = timeline(&device, TimelineStrategy::HostBridge, 0);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a process");
        timeline.watch_process(child.id()).expect("watches");
        let stream = device.create_stream().expect("a stream");
        stream.wait_timeline(&timeline, 1).expect("enqueues");
        let reached = reached(&stream);
        std::thread::sleep(idle);
        let start = Instant::now();
        child.kill().expect("kills");
        let end = reached.recv_timeout(LONG).expect("the stream continues");
        child.wait().expect("reaps");
        (start, end)
    });
    assert_eq!(rounds, ROUNDS * IDLE.len());
}
