//! Rings of frames in flight: random stages and drops, the application's own submissions, lifetimes, leaks, threads.

#![cfg(unix)]
#![allow(clippy::expect_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;
mod endings;
mod flaky;
mod leaks;
mod model;
mod own_submissions;
mod turns;

use std::time::Duration;

use gpu_interop::vulkan::ash::vk::BufferUsageFlags;
use gpu_interop::vulkan::{
    BufferOptions, Frame, FrameRing, FrameRingOptions, HeadlessContext, MemoryPlacement, OwnedBuffer, OwnedSemaphore,
    SemaphoreOp, Submission,
};
use gpu_interop::{Device, Error, ErrorKind, Stream};

pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);
pub(crate) const SHORT: Duration = Duration::from_millis(30);
pub(crate) const SIZE: u64 = 4096;
pub(crate) const USAGE: BufferUsageFlags =
    BufferUsageFlags::from_raw(BufferUsageFlags::TRANSFER_SRC.as_raw() | BufferUsageFlags::TRANSFER_DST.as_raw());

/// Both devices, without validation: validation layers before 1.4.304 wait for themselves where a bridge signals. `None`
/// without Vulkan.
pub(crate) fn open() -> Option<(HeadlessContext, Device)> {
    common::open(false)
}

pub(crate) fn options(frames: usize) -> FrameRingOptions {
    FrameRingOptions::new(frames).buffer(BufferOptions::new(SIZE, USAGE))
}

pub(crate) fn ring(context: &HeadlessContext, device: &Device, frames: usize) -> FrameRing {
    FrameRing::new(context, device, &options(frames)).expect("a ring")
}

pub(crate) fn fails(error: &Error, kind: ErrorKind, words: &str) {
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(words), "{error} should contain: {words}");
}

/// Vulkan's half: fills the buffer with a word.
pub(crate) fn render(frame: &mut Frame, context: &HeadlessContext, word: u32) -> Submission {
    let submission = frame.render(context, |recording, memory| {
        recording.fill(memory.buffers()[0].buffer(), 0, memory.buffers()[0].size(), word)
    });
    submission.expect("Vulkan's half")
}

/// The compute half: overwrites the second half of the buffer with a word.
pub(crate) fn compute(frame: &mut Frame, stream: &Stream, word: u32) {
    let done = frame.compute(stream, |stream, memory| {
        let buffer = &memory.buffers()[0];
        stream.fill_u32(buffer.slice(buffer.size() / 2..)?, word)
    });
    done.expect("the compute half");
}

pub(crate) fn host_visible(context: &HeadlessContext, size: u64) -> OwnedBuffer {
    OwnedBuffer::new(context.interop(), size, USAGE, MemoryPlacement::HostVisible).expect("a buffer")
}

/// Vulkan's half: reads the buffer, as words, and checks that both of its halves have one word each.
pub(crate) fn read(frame: &mut Frame, context: &HeadlessContext) -> [u32; 2] {
    let size = frame.memory().buffers()[0].size();
    let target = host_visible(context, size);
    let copied =
        frame.render(context, |recording, memory| recording.copy(memory.buffers()[0].buffer(), 0, &target, 0, size));
    copied.expect("Vulkan's half").wait(TIMEOUT).expect("it ends");
    let mut bytes = vec![0; usize::try_from(size).expect("small")];
    target.read(0, &mut bytes).expect("read");
    let words: Vec<u32> =
        bytes.chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().expect("four bytes"))).collect();
    let (first, second) = words.split_at(words.len() / 2);
    for half in [first, second] {
        assert!(half.iter().all(|word| *word == half[0]), "mixed words: {half:x?}");
    }
    [first[0], second[0]]
}

/// A timeline that the context's queue waits for, and all that is submitted later with it.
pub(crate) fn close(context: &HeadlessContext) -> OwnedSemaphore {
    let timeline = OwnedSemaphore::timeline(context.interop(), 0).expect("a timeline");
    drop(context.submit(&[SemaphoreOp { semaphore: &timeline, value: 1 }], &[], |_| Ok(())).expect("submit"));
    timeline
}
