//! Streams that cannot signal, lost devices, and drops in host functions.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, channel};
use std::time::{Duration, Instant};

use gpu_interop::vulkan::{
    Frame, FrameRing, HeadlessContext, HeadlessOptions, OwnedSemaphore, SemaphoreOp, VulkanInterop,
};
use gpu_interop::{Device, ErrorKind, Result, Stream, Timeline, TimelineStrategy};

use crate::common::drop_in_host_function;
use crate::flaky::{self, Switches};
use crate::{SHORT, TIMEOUT, close, compute, fails, open, options, read, render, ring};

/// A ring on a device with failures. The timelines are bridged: the device writes words to signal.
fn flaky_ring(frames: usize) -> Option<(HeadlessContext, Arc<Switches>, Device, FrameRing)> {
    let (context, _) = open()?;
    let switches = Arc::default();
    let device = flaky::open(&switches);
    let ring = ring(&context, &device, frames);
    Some((context, switches, device, ring))
}

fn fill(frame: &mut Frame, stream: &Stream, word: u32) -> Result<()> {
    frame.compute(stream, |stream, memory| {
        let buffer = &memory.buffers()[0];
        stream.fill_u32(buffer.slice(buffer.size() / 2..)?, word)
    })
}

/// The work of a stream that cannot signal ends soon: the host signals for it, and nothing is lost.
#[test]
fn the_host_signals_for_a_stream_that_cannot() {
    let Some((context, switches, device, ring)) = flaky_ring(2) else { return };
    let stream = device.create_stream().expect("stream");
    for word in 0..6 {
        let mut frame = ring.acquire(TIMEOUT).expect("a frame");
        drop(render(&mut frame, &context, word));
        switches.no_signals.store(word % 2 == 0, Ordering::Relaxed);
        let half = fill(&mut frame, &stream, !word);
        switches.no_signals.store(false, Ordering::Relaxed);
        match half {
            Err(error) => fails(&error, ErrorKind::Driver, "no signal, on purpose"),
            Ok(()) => assert_eq!(word % 2, 1),
        }
        assert_eq!(read(&mut frame, &context), [word, !word], "the half is done");
        frame.wait(TIMEOUT).expect("done");
    }
}

/// The work of a stream that cannot signal does not end: the frame is lost, and the ring continues without it, until
/// every frame is lost.
#[test]
fn frames_of_streams_that_cannot_signal_are_lost() {
    let Some((context, switches, device, ring)) = flaky_ring(2) else { return };
    let (stuck, stream) = (device.create_stream().expect("stream"), device.create_stream().expect("stream"));
    let lose = || {
        let mut frame = ring.acquire(TIMEOUT).expect("a frame");
        drop(render(&mut frame, &context, 1));
        switches.no_signals.store(true, Ordering::Relaxed);
        switches.busy.store(true, Ordering::Relaxed);
        let half = fill(&mut frame, &stuck, 2);
        switches.no_signals.store(false, Ordering::Relaxed);
        switches.busy.store(false, Ordering::Relaxed);
        fails(&half.expect_err("no signal"), ErrorKind::Driver, "no signal, on purpose");
        fails(&frame.is_done().expect_err("lost"), ErrorKind::Driver, "the frame is lost");
        fails(&frame.wait(TIMEOUT).expect_err("lost"), ErrorKind::Driver, "the frame is lost");
        let next = frame.render(&context, |_, _| Ok(()));
        fails(&next.expect_err("lost"), ErrorKind::Driver, "the frame is lost");
        frame.index()
    };
    let lost = lose();
    for word in 0..4 {
        let mut frame = ring.acquire(TIMEOUT).expect("the other frame");
        assert_ne!(frame.index(), lost);
        let error = ring.acquire(SHORT).expect_err("one is held, and the other one lost");
        for count in ["frames held: 1", "frames pending: 0", "frames lost: 1"] {
            fails(&error, ErrorKind::Timeout, count);
        }
        drop(render(&mut frame, &context, word));
        compute(&mut frame, &stream, !word);
        assert_eq!(read(&mut frame, &context), [word, !word]);
    }
    lose();
    let start = Instant::now();
    let error = ring.acquire(TIMEOUT).expect_err("all are lost");
    fails(&error, ErrorKind::Driver, "every frame of the ring is lost");
    fails(&error, ErrorKind::Driver, "no signal, on purpose");
    assert!(start.elapsed() < TIMEOUT / 2, "it does not wait for them");
    let start = Instant::now();
    drop(ring);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

/// The device is lost while a frame's compute half is pending, and while another one is enqueued.
#[test]
fn a_lost_device_is_an_error_of_halves_and_ring() {
    let Some((context, switches, device, ring)) = flaky_ring(3) else { return };
    let stream = device.create_stream().expect("stream");
    let gate = close(&context);
    let [mut pending, mut rendered] = [1, 2].map(|word| {
        let mut frame = ring.acquire(TIMEOUT).expect("a frame");
        drop(render(&mut frame, &context, word));
        frame
    });
    compute(&mut pending, &stream, 3);
    switches.lost.store(true, Ordering::Relaxed);
    let half = fill(&mut rendered, &stream, 4);
    fails(&half.expect_err("lost"), ErrorKind::DeviceLost, "on purpose");
    fails(&stream.synchronize().expect_err("lost"), ErrorKind::DeviceLost, "on purpose");
    // The loss is known by now: the pending signal fails, and its timeline with it.
    let start = Instant::now();
    let error = pending.wait(TIMEOUT).expect_err("the stream signals nothing");
    fails(&error, ErrorKind::DeviceLost, "on purpose");
    assert!(start.elapsed() < TIMEOUT / 2, "{:?}", start.elapsed());
    // A frame without compute work is still Vulkan's.
    gate.signal(1).expect("signal");
    drop(rendered);
    drop(pending);
    let mut errors = Vec::new();
    for _ in 0..4 {
        match ring.acquire(TIMEOUT) {
            Ok(frame) => drop(frame),
            Err(error) => errors.push(error),
        }
    }
    assert!(!errors.is_empty(), "a frame of a failed timeline was acquired");
    errors.iter().for_each(|error| fails(error, ErrorKind::DeviceLost, "on purpose"));
    let start = Instant::now();
    drop((ring, stream, device));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

/// Keeps the Vulkan device alive; its drop is reported.
struct Owner {
    _context: HeadlessContext,
    dropped: mpsc::Sender<()>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.dropped.send(());
    }
}

/// A host function drops the ring, whose work is behind the function. It does not wait, and everything is freed once the
/// work has completed.
#[test]
fn a_ring_dropped_in_a_host_function_is_freed_after_its_work() {
    let Some((context, device)) = open() else { return };
    let (sender, dropped) = mpsc::channel();
    let (family, original) = (context.queue_family(), context.interop().clone());
    // SAFETY: the context has created the device with one queue of this family. The owner keeps the context, and this thread
    // uses the queue through `owned` only.
    let owned = unsafe {
        let queue = original.device().get_device_queue(family, 0);
        let owner = Arc::new(Owner { _context: context, dropped: sender });
        let interop =
            VulkanInterop::with_owner(original.instance(), original.physical_device(), original.device(), owner);
        HeadlessContext::on_queue(&interop.expect("the same device"), family, queue)
    };
    let ring = FrameRing::new(&owned, &device, &options(2)).expect("a ring");
    let stream = device.create_stream().expect("stream");
    let gate = close(&owned);
    for word in 0..2 {
        let mut frame = ring.acquire(TIMEOUT).expect("a frame");
        drop(render(&mut frame, &owned, word));
    }
    drop_in_host_function(&stream, ring, TIMEOUT);
    assert!(dropped.try_recv().is_err(), "freed with work pending");
    // Later than a drop elsewhere waits.
    std::thread::sleep(Duration::from_millis(1_500));
    gate.signal(1).expect("signal");
    drop((gate, owned, stream, device));
    dropped.recv_timeout(TIMEOUT).expect("the ring's objects are freed");
}

/// The signal does not block. The wait blocks until the bridge has signalled, also for a timeline whose handle the
/// application has, and for the second one that a thread serves.
#[test]
fn waits_for_binary_semaphores_follow_a_bridge() {
    let Some((_, device)) = open() else { return };
    // The host waits with this timeout. Drivers wait for ever.
    let context = HeadlessContext::new(&HeadlessOptions::default().timeout(SHORT)).expect("a context");
    let timelines = [0, 1].map(|_| OwnedSemaphore::timeline(context.interop(), 0).expect("a timeline"));
    let bridges = timelines.each_ref().map(|timeline| {
        let _ = timeline.as_raw();
        Timeline::with_strategy(&device, Arc::new(timeline.clone()), TimelineStrategy::HostBridge).expect("a bridge")
    });
    let stream = device.create_stream().expect("a stream");
    let binary = OwnedSemaphore::binary(context.interop()).expect("a semaphore");
    let binary = [SemaphoreOp { semaphore: &binary, value: 0 }];
    for (semaphore, bridge) in timelines.iter().zip(&bridges) {
        let (open, gate) = channel::<()>();
        stream.launch_host_function(move || gate.recv_timeout(TIMEOUT).unwrap_or_default()).expect("enqueued");
        stream.signal_timeline(bridge, 1).expect("enqueued");
        context.submit(&[SemaphoreOp { semaphore, value: 1 }], &binary, |_| Ok(())).expect("submitted");
        assert_eq!(semaphore.value().expect("a value"), 0, "the signal blocked");
        let error = context.submit(&binary, &[], |_| Ok(())).expect_err("the stream is blocked");
        fails(&error, ErrorKind::Timeout, "such as one behind a bridge");
        open.send(()).expect("the stream waits");
        semaphore.wait(1, TIMEOUT).expect("the stream ends");
        context.submit(&binary, &[], |_| Ok(())).expect("submitted").wait(TIMEOUT).expect("the work ends");
    }
}
