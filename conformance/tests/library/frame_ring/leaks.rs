//! Objects of Vulkan, descriptors and memory after many frames; drops with work pending.

use std::time::{Duration, Instant};

use gpu_interop::ErrorKind;
use gpu_interop::vulkan::ash::vk;
use gpu_interop::vulkan::{FrameRing, HeadlessContext, HeadlessOptions, ImageOptions, ImageSpec};
use gpu_interop_test_support::in_own_process;

use crate::common::descriptors;
use crate::{SHORT, TIMEOUT, close, compute, open, options, read, render, ring};

/// Resident memory, bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()).unwrap_or(0) << 10
}

#[test]
fn ten_thousand_frames_leak_nothing() {
    if !in_own_process("leaks::ten_thousand_frames_leak_nothing") {
        return;
    }
    let Some((context, device)) = open() else { return };
    let (ring, stream) = (ring(&context, &device, 3), device.create_stream().expect("stream"));
    let mut before = (0, 0);
    for number in 0..11_000 {
        if number == 1_000 {
            before = (descriptors(), resident());
        }
        let mut frame = ring.acquire(TIMEOUT).expect("a frame");
        drop(render(&mut frame, &context, number));
        if number % 7 != 0 {
            compute(&mut frame, &stream, !number);
            if number % 500 == 1 {
                assert_eq!(read(&mut frame, &context), [number, !number]);
            }
        }
    }
    assert_eq!(descriptors(), before.0, "descriptors");
    let grown = resident().saturating_sub(before.1);
    assert!(grown < 8 << 20, "{grown} bytes");
    for _ in 0..50 {
        let ring = FrameRing::new(&context, &device, &options(3)).expect("a ring");
        drop(render(&mut ring.acquire(TIMEOUT).expect("a frame"), &context, 1));
    }
    assert!(descriptors() <= before.0 + 2, "{} descriptors, {} before", descriptors(), before.0);
}

/// The validation layer checks barriers, layouts and semaphores of Vulkan's halves, and reports every object that is left
/// when its device is destroyed. No stream: layers before 1.4.304 wait for themselves where a bridge signals.
#[test]
fn vulkans_halves_are_valid_and_leave_no_objects() {
    let context = match HeadlessContext::new(&HeadlessOptions::default().validation(true)) {
        Err(error)
            if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::DriverNotFound | ErrorKind::NoDevice) =>
        {
            return println!("skipped: {error}");
        }
        context => context.expect("Vulkan is installed"),
    };
    let log = context.validation_log().expect("validation is on");
    let device = gpu_interop::device_for(context.identity()).expect("the same device");
    let usage = vk::ImageUsageFlags::TRANSFER_SRC | vk::ImageUsageFlags::TRANSFER_DST;
    let spec = ImageSpec::new(vk::ImageViewType::TYPE_2D, [32, 32, 1], vk::Format::R8G8B8A8_UNORM, usage);
    let image = ImageOptions::new(spec.tiling(vk::ImageTiling::LINEAR));
    for options in [options(3), options(2).image(image)] {
        let ring = FrameRing::new(&context, &device, &options).expect("a ring");
        for number in 0..500 {
            let mut frame = ring.acquire(TIMEOUT).expect("a frame");
            let half = frame.render(&context, |recording, memory| {
                let buffer = memory.buffers()[0].buffer();
                recording.fill(buffer, 0, buffer.size(), number)?;
                memory.images().iter().try_for_each(|image| recording.copy_to_image(buffer, 0, image.image(), 0, 0))
            });
            drop(half.expect("Vulkan's half"));
        }
    }
    drop((device, context));
    assert_eq!(log.errors(), Vec::<String>::new());
}

/// A ring and its frames are dropped in every order, with work pending on both sides.
#[test]
fn drops_with_pending_work_free_nothing_too_early() {
    for order in 0..6 {
        let Some((context, device)) = open() else { return };
        let (ring, stream) = (ring(&context, &device, 3), device.create_stream().expect("stream"));
        let gate = close(&context);
        let mut frames: Vec<_> = (0..3).map(|_| ring.acquire(TIMEOUT).expect("a frame")).collect();
        for (word, frame) in (0..).zip(&mut frames) {
            drop(render(frame, &context, word));
            if word > 0 {
                compute(frame, &stream, !word);
            }
        }
        let start = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(SHORT);
                gate.signal(1).expect("signal");
            });
            match order {
                0 => drop((ring, frames, stream, context, device)),
                1 => drop((frames, ring, device, context, stream)),
                2 => drop((context, device, ring, stream, frames)),
                3 => drop((stream, context, frames, device, ring)),
                4 => drop((device, stream, context, frames, ring)),
                _ => drop((frames, stream, ring, context, device)),
            }
        });
        assert!(start.elapsed() < Duration::from_secs(8), "{order}: {:?}", start.elapsed());
    }
}

/// The work of one frame never ends: the drop gives up after a second.
#[test]
fn a_ring_whose_work_never_ends_does_not_block_its_drop() {
    let Some((context, device)) = open() else { return };
    let (ring, stream) = (ring(&context, &device, 2), device.create_stream().expect("stream"));
    let gate = close(&context);
    for word in 0..2 {
        let mut frame = ring.acquire(TIMEOUT).expect("a frame");
        drop(render(&mut frame, &context, word));
        compute(&mut frame, &stream, !word);
    }
    let start = Instant::now();
    drop(ring);
    let taken = start.elapsed();
    assert!(taken > Duration::from_millis(500) && taken < Duration::from_secs(20), "{taken:?}");
    // The leaked objects are still valid for the work that used them.
    gate.signal(1).expect("signal");
    stream.synchronize_timeout(TIMEOUT).expect("the halves end");
}
