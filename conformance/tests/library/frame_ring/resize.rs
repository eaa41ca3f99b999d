//! Rings that are replaced by others of another size while their frames are in flight.

use std::collections::VecDeque;

use gpu_interop::vulkan::{BufferOptions, Frame, FrameRing, FrameRingOptions};
use gpu_interop_test_support::in_own_process;

use crate::common::descriptors;
use crate::{TIMEOUT, USAGE, compute, open, read, render};

const SMALLEST: u64 = 16 << 10;

/// The guide's page `frames` shows the same. The words of each frame are its own, whatever the sizes of its neighbours.
#[test]
fn a_ring_is_replaced_while_its_frames_are_in_flight() {
    if !in_own_process("resize::a_ring_is_replaced_while_its_frames_are_in_flight") {
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
