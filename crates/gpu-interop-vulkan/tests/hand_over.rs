//! Copies to and from shared buffers with transfers of ownership in the same submission: every byte, and rejected
//! calls.

#![cfg(unix)]
#![allow(clippy::expect_used)]

mod common;

use std::time::Duration;

use ash::vk;
use common::{Checked, USAGE, assert_same, contents, pattern, vulkan, vulkan_with};
use gpu_interop_core::{ErrorKind, Result};
use gpu_interop_vulkan::{
    BufferCopy, BufferImportOptions, BufferOptions, DeviceChoice, ExportableBuffer, HeadlessContext, HeadlessOptions,
    ImportedBuffer, MemoryPlacement, OwnedBuffer, OwnedSemaphore, QueueKind, SemaphoreOp, Submission, VulkanInterop,
};

const SIZE: u64 = 20_480;
const LONG: Duration = Duration::from_secs(30);

/// An unshared buffer with a pattern.
fn own(context: &HeadlessContext, seed: u32) -> OwnedBuffer {
    let buffer = OwnedBuffer::new(context.interop(), SIZE, USAGE, MemoryPlacement::DeviceLocal).expect("buffer");
    context.upload(&buffer, 0, &pattern(seed, SIZE)).expect("upload");
    buffer
}

/// A shared buffer, released to the other API for its first hand-over.
fn shared(context: &HeadlessContext) -> ExportableBuffer {
    let shared = ExportableBuffer::new(context.interop(), &BufferOptions::new(SIZE, USAGE)).expect("create");
    context.release(shared.buffer()).expect("release");
    shared
}

fn import(context: &HeadlessContext, exported: &ExportableBuffer) -> ImportedBuffer {
    let options = BufferImportOptions::new(SIZE, USAGE).memory_type(exported.buffer().memory_type());
    ImportedBuffer::new(context.interop(), exported.import_request().expect("export"), &options).expect("import")
}

fn whole<'a>(src: &'a OwnedBuffer, dst: &'a OwnedBuffer) -> BufferCopy<'a> {
    BufferCopy { src, src_offset: 0, dst, dst_offset: 0, size: SIZE }
}

fn finish(submission: Result<Submission>) {
    submission.expect("submit").wait(LONG).expect("it ends");
}

/// Both sides send and receive in turns.
fn exchange(first: &HeadlessContext, second: &HeadlessContext) {
    let exported = shared(first);
    let imported = import(second, &exported);
    for round in 0..5 {
        let (there, back) = (own(first, 100 + round), own(second, 200 + round));
        let (found, answered) = (own(second, 0), own(first, 0));
        finish(first.send(&[whole(&there, exported.buffer())], &[], &[]));
        finish(second.receive(&[whole(imported.buffer(), &found)], &[], &[]));
        assert_same(&contents(second, &found), &pattern(100 + round, SIZE), &format!("there, round {round}"));
        finish(second.send(&[whole(&back, imported.buffer())], &[], &[]));
        finish(first.receive(&[whole(exported.buffer(), &answered)], &[], &[]));
        assert_same(&contents(first, &answered), &pattern(200 + round, SIZE), &format!("back, round {round}"));
    }
}

#[test]
fn what_is_sent_is_received() {
    let (Some(first), Some(second)) = (vulkan(), vulkan()) else { return };
    exchange(&first, &second);
}

/// Uses a queue of the kind if there is one; otherwise checks the error.
fn exchange_or_miss(kind: QueueKind, family: fn(&VulkanInterop) -> Option<u32>) {
    let Some(general) = vulkan() else { return };
    let choice = DeviceChoice::Identity(general.identity().clone());
    let options = HeadlessOptions::default().device(choice).queue(kind);
    let Some(family) = family(general.interop()) else {
        let error = HeadlessContext::new(&options).expect_err("the device has no such queue");
        assert_eq!(error.kind(), ErrorKind::NoDevice);
        assert!(error.to_string().contains(&format!("{kind:?}; queues of the kind General also support")), "{error}");
        return;
    };
    let special = vulkan_with(options).expect("the same device");
    assert_eq!(special.queue_family(), family);
    assert_ne!(family, general.queue_family());
    exchange(&special, &general);
    exchange(&general, &special);
}

#[test]
fn transfer_only_queues_exchange_or_are_missing() {
    exchange_or_miss(QueueKind::TransferOnly, VulkanInterop::transfer_only_queue_family);
}

#[test]
fn compute_only_queues_exchange_or_are_missing() {
    exchange_or_miss(QueueKind::ComputeOnly, VulkanInterop::compute_only_queue_family);
}

#[test]
fn an_application_s_own_queue_serves() {
    let (Some(first), Some(second)) = (vulkan(), vulkan()) else { return };
    let queue = first.with_queue(|queue| queue);
    // SAFETY: the queue is of this device and family; only this thread uses it, through either context; the interop
    // keeps the device alive.
    let context = unsafe { HeadlessContext::on_queue(first.interop(), first.queue_family(), queue) };
    exchange(&context, &second);
    assert!(context.validation_log().is_none());
    assert_eq!(context.queue_family(), first.queue_family());
}

/// Several ranges of several buffers in one submission; bytes around them are unchanged.
#[test]
fn parts_are_exact() {
    let Some(context) = vulkan() else { return };
    let (shared, other, source) = (shared(&context), shared(&context), own(&context, 1));
    let copy = |src, src_offset, dst, dst_offset, size| BufferCopy { src, src_offset, dst, dst_offset, size };
    let zeros = OwnedBuffer::new(context.interop(), SIZE, USAGE, MemoryPlacement::DeviceLocal).expect("buffer");
    context.fill(&zeros, 0, SIZE, 0).expect("fill");
    finish(context.send(&[whole(&zeros, shared.buffer()), whole(&zeros, other.buffer())], &[], &[]));
    let copies = [
        copy(&source, 0, shared.buffer(), 1_001, 333),
        copy(&source, 5_000, shared.buffer(), SIZE - 7, 7),
        copy(&source, 9_000, other.buffer(), 0, 4),
    ];
    finish(context.send(&copies, &[], &[]));
    let found = [own(&context, 2), own(&context, 3)];
    let both = [whole(shared.buffer(), &found[0]), whole(other.buffer(), &found[1])];
    finish(context.receive(&both, &[], &[]));
    let (data, end) = (pattern(1, SIZE), usize::try_from(SIZE).expect("small"));
    let mut expected = [vec![0; end], vec![0; end]];
    expected[0][1_001..1_334].copy_from_slice(&data[..333]);
    expected[0][end - 7..].copy_from_slice(&data[5_000..5_007]);
    expected[1][..4].copy_from_slice(&data[9_000..9_004]);
    for (found, expected) in found.iter().zip(&expected) {
        assert_same(&contents(&context, found), expected, "the parts");
    }
}

#[test]
fn semaphores_order_a_hand_over() {
    let Some(context) = vulkan() else { return };
    let (shared, source, target) = (shared(&context), own(&context, 4), own(&context, 5));
    let timeline = OwnedSemaphore::timeline(context.interop(), 0).expect("a timeline");
    let at = |value| [SemaphoreOp { semaphore: &timeline, value }];
    let sent = context.send(&[whole(&source, shared.buffer())], &at(1), &at(2)).expect("submit");
    let received = context.receive(&[whole(shared.buffer(), &target)], &at(2), &at(3)).expect("submit");
    assert_eq!(received.wait(Duration::from_millis(20)).expect_err("not submitted").kind(), ErrorKind::Timeout);
    assert!(!sent.is_finished());
    timeline.signal(1).expect("signal");
    timeline.wait(3, LONG).expect("both have run");
    received.wait(LONG).expect("ends");
    assert_same(&contents(&context, &target), &pattern(4, SIZE), "the data");
}

#[test]
fn bad_copies_are_refused_and_nothing_is_submitted() {
    let (Some(context), Some(other)) = (vulkan(), vulkan()) else { return };
    let (shared, source, stranger) = (shared(&context), own(&context, 6), own(&other, 7));
    let only_source =
        OwnedBuffer::new(context.interop(), SIZE, vk::BufferUsageFlags::TRANSFER_SRC, MemoryPlacement::DeviceLocal)
            .expect("buffer");
    let timeline = OwnedSemaphore::timeline(context.interop(), 0).expect("a timeline");
    let signals = [SemaphoreOp { semaphore: &timeline, value: 1 }];
    let foreign = OwnedSemaphore::timeline(other.interop(), 0).expect("a timeline");
    let good = whole(&source, shared.buffer());
    let refused = |context: &Checked, copies: &[BufferCopy<'_>]| {
        [context.send(copies, &[], &signals), context.receive(copies, &[], &signals)]
            .map(|submitted| submitted.expect_err("refused").kind())
    };
    for copies in [
        &[][..],
        &[BufferCopy { size: 0, ..good }],
        &[BufferCopy { src_offset: 1, ..good }],
        &[good, BufferCopy { dst_offset: u64::MAX, ..good }],
        &[whole(&stranger, shared.buffer())],
        &[whole(shared.buffer(), &stranger)],
        &[whole(shared.buffer(), &only_source)],
    ] {
        assert_eq!(refused(&context, copies), [ErrorKind::InvalidArgument; 2], "{copies:?}");
    }
    let error = context.send(&[good], &[SemaphoreOp { semaphore: &foreign, value: 1 }], &signals).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    context.run(|_| Ok(())).expect("the queue goes on");
    assert_eq!(timeline.value().expect("value"), 0, "something was submitted");
}
