//! What waits goes on soon after what it waits for: within a multiple of what a thread of this machine takes to wake
//! another, measured in the same run, and never less than a fifth of a second.
#![allow(clippy::expect_used, reason = "these are tests, also outside of the test functions")]

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use gpu_interop_core::{Device, ExporterTimeline, Stream, Timeline, TimelineStrategy, WaitCondition};
use gpu_interop_host::{HostBackend, HostSemaphore};

const LONG: Duration = Duration::from_secs(20);
const BOTH: [TimelineStrategy; 2] = [TimelineStrategy::Native, TimelineStrategy::HostBridge];
/// Delays between a wait and its signal: none, while the waiter spins, and while it sleeps.
const IDLE: [Duration; 3] = [Duration::ZERO, Duration::from_millis(2), Duration::from_millis(60)];
/// Odd, for the median: a thread that the system did not run in time is no defect here.
const ROUNDS: usize = 7;
/// How many times slower than the baseline something may be.
const SLOWER: u32 = 50;
/// What is soon enough on the fastest machine. Well below the pauses that a defect would add, which are of a second.
const FLOOR: Duration = Duration::from_millis(200);

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// How long a thread takes to wake another that has slept as long.
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

/// Fails unless the median of several rounds is soon enough. Each round does what is waited for, and gives the times
/// of that and of what came of it.
fn soon(what: &str, mut round: impl FnMut(Duration) -> (Instant, Instant)) {
    for idle in IDLE {
        let before = baseline(idle);
        let times: Vec<_> = (0..ROUNDS)
            .map(|_| {
                let (start, end) = round(idle);
                end.saturating_duration_since(start)
            })
            .collect();
        // The machine may be busier than it was.
        let limit = FLOOR.max(SLOWER * before.max(baseline(idle)));
        let found = median(times.clone());
        assert!(found < limit, "{what}, {idle:?} after the wait: {found:?} of {times:?}, the limit is {limit:?}");
    }
}

fn device() -> Device {
    Device::open(&HostBackend::new(), 0).expect("the CPU")
}

fn timeline(device: &Device, strategy: TimelineStrategy) -> (HostSemaphore, Timeline) {
    let exporter = HostSemaphore::timeline(0).expect("create");
    let timeline = Timeline::with_strategy(device, Arc::new(exporter.clone()), strategy).expect("a timeline");
    (exporter, timeline)
}

/// Tells when the stream has come this far.
fn reached(stream: &Stream) -> Receiver<Instant> {
    let (sender, receiver) = channel();
    stream.launch_host_function(move || sender.send(Instant::now()).expect("the test receives")).expect("enqueues");
    receiver
}

/// The exporter signals each value after the stream waits for it.
fn a_stream_goes_on_soon(what: &str, device: &Device, exporter: &HostSemaphore, timeline: &Timeline) {
    let stream = device.create_stream().expect("a stream");
    let mut value = 0;
    soon(what, |idle| {
        value += 1;
        stream.wait_timeline(timeline, value).expect("enqueues");
        let reached = reached(&stream);
        std::thread::sleep(idle);
        let start = Instant::now();
        exporter.signal_value(value).expect("signals");
        (start, reached.recv_timeout(LONG).expect("the stream goes on"))
    });
}

#[test]
fn a_stream_goes_on_soon_after_the_exporter_signals() {
    for strategy in BOTH {
        let device = device();
        let (exporter, timeline) = timeline(&device, strategy);
        a_stream_goes_on_soon(&format!("a stream, {strategy}"), &device, &exporter, &timeline);
    }
}

#[test]
fn the_exporter_goes_on_soon_after_a_stream_signals() {
    for strategy in BOTH {
        let device = device();
        let (exporter, timeline) = timeline(&device, strategy);
        let stream = device.create_stream().expect("a stream");
        let mut value = 0;
        soon(&format!("the exporter, {strategy}"), |idle| {
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
            (before.recv_timeout(LONG).expect("the stream goes on"), waiting.join().expect("no panic"))
        });
    }
}

#[test]
fn a_thread_goes_on_soon_after_either_signals() {
    for strategy in BOTH {
        for by_stream in [false, true] {
            let device = device();
            let (exporter, timeline) = timeline(&device, strategy);
            let timeline = Arc::new(timeline);
            let stream = device.create_stream().expect("a stream");
            let mut value = 0;
            soon(&format!("a thread, {strategy}, by a stream: {by_stream}"), |idle| {
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
        }
    }
}

/// An exporter without a way to wait for several timelines, as most of other crates are.
#[derive(Debug)]
struct Plain(HostSemaphore);

impl ExporterTimeline for Plain {
    fn value(&self) -> gpu_interop_core::Result<u64> {
        Ok(self.0.value())
    }

    fn signal(&self, value: u64) -> gpu_interop_core::Result<()> {
        self.0.signal_value(value)
    }

    fn wait(&self, value: u64, timeout: Duration) -> gpu_interop_core::Result<()> {
        self.0.wait_value(value, timeout)
    }
}

/// The bridge looks at such timelines by itself, and soon.
#[test]
fn a_stream_goes_on_soon_after_an_exporter_without_a_waiter_signals() {
    let device = device();
    let exporter = HostSemaphore::timeline(0).expect("create");
    let timeline = Timeline::new(&device, Arc::new(Plain(exporter.clone()))).expect("a timeline");
    a_stream_goes_on_soon("a stream that waits for a polled timeline", &device, &exporter, &timeline);
}

/// With two timelines on one bridge, none keeps the other: what is enqueued while the bridge sleeps for the first wakes it.
#[test]
fn both_sides_go_on_soon_although_another_stream_waits() {
    for plain in [false, true] {
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
        soon(&format!("a stream beside another, plain: {plain}"), |idle| {
            value += 1;
            // The bridge has gone to sleep for the other one.
            std::thread::sleep(idle);
            stream.wait_timeline(&timeline, value).expect("enqueues");
            let reached = reached(&stream);
            let start = Instant::now();
            exporter.signal_value(value).expect("signals");
            (start, reached.recv_timeout(LONG).expect("the stream goes on"))
        });
        soon(&format!("the exporter beside another, plain: {plain}"), |idle| {
            value += 1;
            std::thread::sleep(idle);
            let start = Instant::now();
            stream.signal_timeline(&timeline, value).expect("enqueues");
            exporter.wait_value(value, LONG).expect("the stream signals");
            (start, Instant::now())
        });
        idle_exporter.signal_value(1).expect("signals");
        busy.synchronize_timeout(LONG).expect("goes on too");
    }
}

#[test]
fn streams_go_on_soon_after_their_timeline_is_abandoned() {
    for strategy in BOTH {
        soon(&format!("an abandoned timeline, {strategy}"), |idle| {
            let device = device();
            let (_exporter, timeline) = timeline(&device, strategy);
            let stream = device.create_stream().expect("a stream");
            stream.wait_timeline(&timeline, 7).expect("enqueues");
            let reached = reached(&stream);
            std::thread::sleep(idle);
            let start = Instant::now();
            timeline.abandon("for the test").expect("lets go");
            (start, reached.recv_timeout(LONG).expect("the stream goes on"))
        });
    }
}

/// What the host backend itself does: words, events, semaphores and synchronisation.
#[test]
fn streams_go_on_soon_after_words_events_and_semaphores() {
    let device = device();
    let [first, second] = [(); 2].map(|()| device.create_stream().expect("a stream"));
    soon("an event", |idle| {
        let (gate, open) = channel::<()>();
        first.launch_host_function(move || open.recv().expect("it is opened")).expect("enqueues");
        let event = device.create_event().expect("an event");
        let before = reached(&first);
        first.record(&event).expect("records");
        second.wait_event(&event).expect("enqueues");
        let reached = reached(&second);
        std::thread::sleep(idle);
        gate.send(()).expect("the stream waits");
        let start = before.recv_timeout(LONG).expect("the first stream goes on");
        (start, reached.recv_timeout(LONG).expect("the second stream goes on"))
    });
    soon("synchronisation", |idle| {
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
            let start = before.recv_timeout(LONG).expect("the stream goes on");
            (start, waiting.join().expect("no panic"))
        })
    });
}

#[test]
fn streams_go_on_soon_after_a_word_is_written() {
    let device = device();
    let memory = device.allocate_exportable(4096).expect("memory");
    let request = memory.import_request().expect("exports");
    let mapped = device.import_memory(request).expect("imports").map_buffer(..).expect("maps");
    let word = || mapped.slice(8..16).expect("a word");
    let [first, second] = [(); 2].map(|()| device.create_stream().expect("a stream"));
    let mut value = 0;
    soon("a word", |idle| {
        value += 1;
        first.wait_value_u64(word(), value, WaitCondition::Equal).expect("enqueues");
        let reached = reached(&first);
        std::thread::sleep(idle);
        let start = Instant::now();
        second.write_value_u64(word(), value).expect("enqueues");
        (start, reached.recv_timeout(LONG).expect("the stream goes on"))
    });
}

/// The end of a process that was to signal is noticed as soon, without a notification.
#[test]
#[cfg(unix)]
fn streams_go_on_soon_after_their_process_ends() {
    let device = device();
    let mut rounds = 0;
    soon("a process that was killed", |idle| {
        rounds += 1;
        let (_exporter, timeline) = timeline(&device, TimelineStrategy::HostBridge);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a process");
        timeline.watch_process(child.id()).expect("watches");
        let stream = device.create_stream().expect("a stream");
        stream.wait_timeline(&timeline, 1).expect("enqueues");
        let reached = reached(&stream);
        std::thread::sleep(idle);
        let start = Instant::now();
        child.kill().expect("kills");
        let end = reached.recv_timeout(LONG).expect("the stream goes on");
        child.wait().expect("reaps");
        (start, end)
    });
    assert_eq!(rounds, ROUNDS * IDLE.len());
}
