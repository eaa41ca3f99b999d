//! Back pressure, options, and frames on several threads and queues.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use gpu_interop::vulkan::{
    BufferOptions, Frame, FrameRing, FrameRingOptions, FrameSide, HeadlessContext, HeadlessOptions,
};
use gpu_interop::{ErrorKind, TimelineStrategy};
use gpu_interop_test_support::in_own_process;

use crate::common::descriptors;
use crate::{SHORT, TIMEOUT, USAGE, close, compute, fails, open, options, read, render, ring};

#[test]
fn acquire_waits_for_both_sides_and_loses_nothing() {
    let Some((context, device)) = open() else { return };
    let (ring, stream) = (ring(&context, &device, 3), device.create_stream().expect("stream"));
    let gate = close(&context);
    for word in 0..3 {
        let mut frame = ring.acquire(TIMEOUT).expect("a frame");
        drop(render(&mut frame, &context, word));
        compute(&mut frame, &stream, !word);
    }
    for _ in 0..2 {
        let start = Instant::now();
        let error = ring.acquire(SHORT).expect_err("all frames are pending");
        fails(&error, ErrorKind::Timeout, "frames pending: 3");
        fails(&error, ErrorKind::Timeout, "index 2 at value 0 of 2");
        assert!(start.elapsed() >= SHORT && start.elapsed() < SHORT + TIMEOUT);
    }
    gate.signal(1).expect("signal");
    for word in 0..3 {
        let mut frame = ring.acquire(TIMEOUT).expect("a frame");
        assert_eq!(frame.number(), u64::from(word) + 3, "timeouts count nothing");
        assert_eq!(frame.index(), usize::try_from(word).expect("small"), "the order of their return");
        drop(render(&mut frame, &context, 7));
        compute(&mut frame, &stream, word);
        assert_eq!(read(&mut frame, &context), [7, word]);
        frame.wait(TIMEOUT).expect("it is done");
    }
}

#[test]
fn a_frame_waits_with_a_timeout() {
    let Some((context, device)) = open() else { return };
    let ring = ring(&context, &device, 1);
    let gate = close(&context);
    let mut frame = ring.acquire(Duration::ZERO).expect("a frame");
    frame.wait(Duration::ZERO).expect("nothing is pending");
    drop(render(&mut frame, &context, 1));
    assert!(!frame.is_done().expect("its value"));
    fails(&frame.wait(SHORT).expect_err("the queue waits"), ErrorKind::Timeout, "pending");
    gate.signal(1).expect("signal");
    frame.wait(TIMEOUT).expect("it ends");
}

/// The value of a bridge is reached before a presentation depends on it, and a native one is not waited for.
#[test]
fn frames_are_made_safe_to_present() {
    let Some((context, device)) = open() else { return };
    let stream = device.create_stream().expect("stream");
    let ring = ring(&context, &device, 1);
    let mut frame = ring.acquire(TIMEOUT).expect("a frame");
    drop(render(&mut frame, &context, 1));
    let (open, gate) = std::sync::mpsc::channel();
    stream.launch_host_function(move || gate.recv_timeout(TIMEOUT).unwrap_or_default()).expect("enqueued");
    compute(&mut frame, &stream, 2);
    let waited = frame.before_present(SHORT);
    if ring.strategy() == TimelineStrategy::Native {
        waited.expect("nothing to wait for");
    } else {
        assert_eq!(waited.expect_err("the stream is blocked").kind(), ErrorKind::Timeout);
        open.send(()).expect("the stream waits");
        frame.before_present(TIMEOUT).expect("the stream ends");
        assert!(frame.is_done().expect("no failure"));
    }
    drop(open);
    assert_eq!(read(&mut frame, &context), [1, 2]);
}

/// A failed acquire neither takes a frame nor returns one that is held.
#[test]
fn a_frame_is_held_once_after_failed_acquires() {
    let Some((context, device)) = open() else { return };
    let ring = ring(&context, &device, 2);
    let stream = device.create_stream().expect("stream");
    for round in 0..8 {
        let held = [0, 1].map(|_| ring.acquire(TIMEOUT).expect("a frame"));
        assert_ne!(held[0].index(), held[1].index(), "round {round}: two frames have the same memory");
        for _ in 0..3 {
            fails(&ring.acquire(SHORT).expect_err("both are held"), ErrorKind::Timeout, "holds every frame");
        }
        for mut frame in held {
            drop(render(&mut frame, &context, round));
            compute(&mut frame, &stream, !round);
            drop(frame);
            let _ = ring.acquire(Duration::ZERO).map(drop);
        }
    }
}

#[test]
fn invalid_options_are_typed_errors() {
    let Some((context, device)) = open() else { return };
    let new = |frames| FrameRing::new(&context, &device, &options(frames)).map(drop);
    for frames in [0, FrameRingOptions::MAX_FRAMES + 1, usize::MAX] {
        fails(&new(frames).expect_err("the number"), ErrorKind::InvalidArgument, "most: 16");
    }
    new(FrameRingOptions::MAX_FRAMES).expect("16 frames");
    let empty = FrameRing::new(&context, &device, &FrameRingOptions::new(2)).expect("without memory");
    assert_eq!(empty.memory().len(), 2);
    let stream = device.create_stream().expect("stream");
    let mut frame = empty.acquire(TIMEOUT).expect("a frame");
    drop(frame.render(&context, |_, _| Ok(())).expect("Vulkan's half"));
    frame.compute(&stream, |_, _| Ok(())).expect("the compute half");
    frame.wait(TIMEOUT).expect("both end");
}

/// A context of another Vulkan device rejects the half, and it stays Vulkan's turn.
#[test]
fn foreign_contexts_are_rejected() {
    let Some((context, device)) = open() else { return };
    let foreign = HeadlessContext::new(&HeadlessOptions::default()).expect("Vulkan");
    let ring = ring(&context, &device, 1);
    let mut frame = ring.acquire(TIMEOUT).expect("a frame");
    let refused = frame.render(&foreign, |_, _| Ok(()));
    fails(&refused.expect_err("another device"), ErrorKind::InvalidArgument, "another device");
    assert_eq!(frame.turn(), FrameSide::Vulkan);
    drop(render(&mut frame, &context, 5));
    assert_eq!(frame.turn(), FrameSide::Compute);
}

/// Frames move between threads: one renders, two compute, on a stream each.
#[test]
fn threads_share_a_ring() {
    const FRAMES: u32 = 400;
    let Some((context, device)) = open() else { return };
    let ring = &ring(&context, &device, 4);
    let (sender, receiver) = std::sync::mpsc::sync_channel::<(Frame, u32)>(2);
    let receiver = std::sync::Mutex::new(receiver);
    let checked = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let stream = device.create_stream().expect("stream");
                loop {
                    let received = receiver.lock().expect("not poisoned").recv();
                    let Ok((mut frame, word)) = received else { break };
                    compute(&mut frame, &stream, !word);
                    assert_eq!(read(&mut frame, &context), [word, !word]);
                    checked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let context = &context;
        scope.spawn(move || {
            for word in 0..FRAMES {
                let mut frame = ring.acquire(TIMEOUT).expect("a frame");
                drop(render(&mut frame, context, word));
                sender.send((frame, word)).expect("a receiver");
            }
        });
    });
    assert_eq!(checked.into_inner(), FRAMES);
}

const SMALLEST: u64 = 16 << 10;

/// The guide's page `frames` shows the same. The words of each frame are its own, whatever the sizes of its neighbours.
#[test]
fn a_ring_is_replaced_while_its_frames_are_in_flight() {
    if !in_own_process("turns::a_ring_is_replaced_while_its_frames_are_in_flight") {
        return;
    }
    let Some((context, device)) = open() else { return };
    let ring_of = |size| {
        let options = FrameRingOptions::new(3).buffer(BufferOptions::new(size, USAGE));
        FrameRing::new(&context, &device, &options).expect("a ring")
    };
    let stream = device.create_stream().expect("a stream");
    let mut held = VecDeque::<(Frame, u32)>::new();
    let (mut ring, mut before) = (ring_of(SMALLEST), 0);
    for number in 0..400 {
        if number == 50 {
            before = descriptors();
        }
        if number % 2 == 1 {
            ring = ring_of(SMALLEST << (number / 2 % 4));
        }
        if held.len() == 3 {
            let (mut frame, number) = held.pop_front().expect("three");
            assert_eq!(read(&mut frame, &context), [number, !number], "frame {number}");
        }
        let mut frame = ring.acquire(TIMEOUT).expect("a frame");
        drop(render(&mut frame, &context, number));
        compute(&mut frame, &stream, !number);
        // Every fifth frame is dropped with its work pending, in the ring that is replaced next.
        if number % 5 != 0 {
            held.push_back((frame, number));
        }
    }
    for (mut frame, number) in held {
        assert_eq!(read(&mut frame, &context), [number, !number], "frame {number}");
    }
    stream.synchronize_timeout(TIMEOUT).expect("no failure");
    drop(ring);
    device.collect();
    let after = descriptors();
    assert!(after <= before, "{after} descriptors, {before} after 50 frames");
}
