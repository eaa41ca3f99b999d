//! Commands and submissions of a context.

use ash::vk::{self, Handle};
use gpu_interop_core::{ErrorKind, ExporterTimeline, Result};
use gpu_interop_vulkan::{
    BufferCopy, BufferOptions, ExportableBuffer, ExportableImage, ExportableSemaphore, HeadlessContext, ImageOptions,
    ImageSpec, MemoryPlacement, OwnedBuffer, OwnedSemaphore, SemaphoreOp, Submission,
};

use crate::assert_calls;
use crate::driver::{Settings, calls, change, context, in_submission, start};

/// `VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT`.
const USAGE: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(0x3);

/// Before each copy and fill: VK_ACCESS_MEMORY_WRITE_BIT to the accesses and the stage of transfers.
const ORDER: &str = "vkCmdPipelineBarrier stages 0x10000 to 0x1000, flags 0x0, [46{access 0x10000 to 0x1800}] [] []";
/// At the end: to VK_ACCESS_HOST_READ_BIT, VK_ACCESS_HOST_WRITE_BIT and VK_PIPELINE_STAGE_HOST_BIT.
const TO_HOST: &str = "vkCmdPipelineBarrier stages 0x10000 to 0x4000, flags 0x0, [46{access 0x10000 to 0x6000}] [] []";

#[test]
fn submission_from_pool_to_fence() {
    let interop = start(Settings::default());
    let buffer = OwnedBuffer::new(&interop, 64, USAGE, MemoryPlacement::DeviceLocal).expect("a buffer");
    let binary = OwnedSemaphore::binary(&interop).expect("a semaphore");
    let timeline = OwnedSemaphore::timeline(&interop, 0).expect("a semaphore");
    let first = context(&interop);
    // Without a timeline there are no values.
    let work = first.submit(&[], &[SemaphoreOp { semaphore: &binary, value: 4 }], |_| Ok(())).expect("submitted");
    let found = calls();
    let submitted = found.last().expect("calls");
    assert_eq!(submitted, "vkQueueSubmit 0x13, 4{wait [] at [], run [0xc1], signal [0xe1]}, fence 0xf1");
    // The fence and the command buffer of the next work are new ones.
    drop((work, first));
    let context = context(&interop);
    calls();
    let waits = [SemaphoreOp { semaphore: &timeline, value: 8 }, SemaphoreOp { semaphore: &binary, value: 0 }];
    let signals = [SemaphoreOp { semaphore: &timeline, value: 9 }];
    let work = context.submit(&waits, &signals, |recording| recording.fill(&buffer, 4, 8, 0xabcd)).expect("submitted");
    assert_calls(&[
        // VK_COMMAND_POOL_CREATE_TRANSIENT_BIT.
        "vkCreateCommandPool 39{flags 0x1, family 7}",
        "vkCreateFence 8{flags 0x0}",
        // VK_COMMAND_BUFFER_LEVEL_PRIMARY.
        "vkAllocateCommandBuffers 40{pool 0x92, level 0, count 1}",
        // VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT.
        "vkBeginCommandBuffer 0xc2, 42{flags 0x1, inherited false}",
        ORDER,
        "vkCmdFillBuffer 0xb1, offset 4, size 8, word 0xabcd",
        TO_HOST,
        // Checks the differences from the current value.
        "vkGetSemaphoreCounterValue 0xe2",
        "vkGetSemaphoreCounterValue 0xe2",
        "vkEndCommandBuffer 0xc2",
        // Checks that the signalled value increases.
        "vkGetSemaphoreCounterValue 0xe2",
        "vkQueueSubmit 0x13, 4{wait [0xe2, 0xe1] at [0x10000, 0x10000], run [0xc2], signal [0xe2]} 1000207003{wait [8, 0], \
         signal [9]}, fence 0xf2",
    ]);
    work.wait(std::time::Duration::from_nanos(25)).expect("completed");
    drop(work);
    assert_calls(&["vkWaitForFences [f2], all 1, 25 ns", "vkResetCommandPool 0x92, flags 0x0", "vkResetFences [f2]"]);
    drop(context);
    assert_calls(&["vkDestroyFence 0xf2", "vkDestroyCommandPool 0x92"]);
}

#[test]
fn copies_name_source_and_destination() {
    let interop = start(Settings::default());
    let new = || OwnedBuffer::new(&interop, 4096, USAGE, MemoryPlacement::DeviceLocal).expect("a buffer");
    let (from, to) = (new(), new());
    let usage = vk::ImageUsageFlags::TRANSFER_SRC | vk::ImageUsageFlags::TRANSFER_DST;
    let spec = ImageSpec::new(vk::ImageViewType::TYPE_2D_ARRAY, [16, 8, 1], vk::Format::R8G8B8A8_UNORM, usage);
    let image = ExportableImage::new(&interop, &ImageOptions::new(spec.layers(5).levels(2))).expect("an image");
    let (image, context) = (image.image(), context(&interop));
    context.initialize_image(image).expect("initialised");
    calls();
    context
        .run(|recording| {
            recording.copy(&from, 12, &to, 20, 100)?;
            recording.copy_to_image(&from, 32, image, 1, 3)?;
            recording.copy_from_image(image, 1, 2, &to, 64)
        })
        .expect("run");
    // Tightly packed: VkBufferImageCopy with a row length and height of 0. VK_IMAGE_LAYOUT_GENERAL.
    assert_eq!(
        calls()[1..8],
        [
            ORDER,
            "vkCmdCopyBuffer 0xb1 to 0xb2, [(12, 20, 100)]",
            ORDER,
            "vkCmdCopyBufferToImage 0xb1 to 0xa1 in 1, buffer 32 0 0, aspect 0x1, level 1, layers 3 1, offset 0 0 0, extent 8 \
             4 1",
            ORDER,
            "vkCmdCopyImageToBuffer 0xa1 in 1 to 0xb2, buffer 64 0 0, aspect 0x1, level 1, layers 2 1, offset 0 0 0, extent 8 \
             4 1",
            TO_HOST,
        ]
    );
}

/// The acquire is recorded before the copy, the release after it.
#[test]
fn send_and_receive_are_one_submission_each() {
    let interop = start(Settings::default());
    let own = OwnedBuffer::new(&interop, 64, USAGE, MemoryPlacement::DeviceLocal).expect("a buffer");
    let shared = ExportableBuffer::new(&interop, &BufferOptions::new(64, USAGE)).expect("a buffer");
    let (shared, context) = (shared.buffer(), context(&interop));
    context.release(shared).expect("released");
    let acquire = "vkCmdPipelineBarrier stages 0x10000 to 0x10000, flags 0x0, [] [44{access 0x0 to 0x18000, family 0xfffffffe \
                   to 0x7, buffer 0xb2, offset 0, size 0xffffffffffffffff}] []";
    let release = "vkCmdPipelineBarrier stages 0x10000 to 0x2000, flags 0x0, [] [44{access 0x18000 to 0x0, family 0x7 to \
                   0xfffffffe, buffer 0xb2, offset 0, size 0xffffffffffffffff}] []";
    let (there, back) = ("vkCmdCopyBuffer 0xb1 to 0xb2, [(0, 16, 8)]", "vkCmdCopyBuffer 0xb2 to 0xb1, [(16, 0, 8)]");
    calls();
    let copy = BufferCopy { src: &own, src_offset: 0, dst: shared, dst_offset: 16, size: 8 };
    drop(context.send(&[copy], &[], &[]).expect("submitted"));
    assert_eq!(calls()[1..6], [acquire, ORDER, there, release, TO_HOST]);
    let copy = BufferCopy { src: shared, src_offset: 16, dst: &own, dst_offset: 0, size: 8 };
    drop(context.receive(&[copy], &[], &[]).expect("submitted"));
    assert_eq!(calls()[1..6], [acquire, ORDER, back, release, TO_HOST]);
}

/// A wait for a binary semaphore waits on the host for the waits before that semaphore's signal, and those before the
/// signals that these wait for; only for values whose signals are known.
#[test]
fn binary_waits_wait_for_what_the_signal_depends_on() {
    let interop = start(Settings { wait_reaches: u64::MAX, ..Settings::default() });
    let binary = || OwnedSemaphore::binary(&interop).expect("a semaphore");
    let timeline = || OwnedSemaphore::timeline(&interop, 0).expect("a semaphore");
    let (gate, between, later, one, two) = (timeline(), timeline(), timeline(), binary(), binary());
    let at = |semaphore, value| [SemaphoreOp { semaphore, value }];
    // SAFETY: the fake driver accepts this queue; nothing else uses it.
    let other = unsafe { HeadlessContext::on_queue(&interop, 7, vk::Queue::from_raw(0x14)) };
    let context = context(&interop);
    let submit = |context: &HeadlessContext, waits: &[_], signals: &[_]| {
        drop(context.submit(waits, signals, |_| Ok(())).expect("submitted"));
        let waited = calls().into_iter().filter(|call| call.starts_with("vkWaitSemaphores"));
        let values = waited.filter_map(|call| Some(call.split_once("semaphores ")?.1.split_once('}')?.0.to_owned()));
        values.collect::<Vec<_>>()
    };
    let none = [""; 0];
    // Another queue waits for the gate, and signals what this queue waits for. Later waits of both are not waited for.
    assert_eq!(submit(&other, &at(&gate, 6), &at(&between, 7)), none);
    assert_eq!(submit(&other, &at(&later, 8), &[]), none);
    assert_eq!(submit(&context, &at(&between, 7), &[]), none);
    assert_eq!(submit(&context, &[], &at(&one, 0)), none);
    assert_eq!(submit(&context, &at(&later, 9), &at(&two, 0)), none);
    assert_eq!(submit(&context, &at(&one, 0), &[]), ["[0xe1], values [6]"]);
    assert_eq!(submit(&context, &at(&two, 0), &[]), ["[0xe3], values [9]"]);
}

/// Signals by another API or through ash are unknown, and not waited for. A bridge's are signals of the host.
#[test]
fn binary_waits_wait_for_known_signals_and_bridges_only() {
    let interop = start(Settings { wait_reaches: u64::MAX, ..Settings::default() });
    let context = context(&interop);
    let exported = || ExportableSemaphore::timeline(&interop, 0).expect("a semaphore");
    let raw = || {
        // SAFETY: the fake driver only records the calls.
        unsafe { OwnedSemaphore::timeline_from_raw(&interop, vk::Semaphore::from_raw(0xe9), std::sync::Arc::new(())) }
    };
    let (native, fallen_back) = (exported(), exported());
    for timeline in [&native, &fallen_back] {
        timeline.export().expect("a descriptor");
    }
    let (own, of_application) = (raw().expect("a timeline"), raw().expect("a timeline"));
    let lent = OwnedSemaphore::timeline(&interop, 0).expect("a semaphore");
    let _ = lent.as_raw();
    ExporterTimeline::bridged(&fallen_back);
    ExporterTimeline::bridged(&of_application);
    let mut value = 0;
    for (timeline, waited) in [
        (native.semaphore(), false),
        (fallen_back.semaphore(), true),
        (&own, false),
        (&of_application, true),
        (&lent, false),
    ] {
        value += 1;
        let binary = OwnedSemaphore::binary(&interop).expect("a semaphore");
        let binary = [SemaphoreOp { semaphore: &binary, value: 0 }];
        drop(context.submit(&[SemaphoreOp { semaphore: timeline, value }], &binary, |_| Ok(())).expect("submitted"));
        calls();
        drop(context.submit(&binary, &[], |_| Ok(())).expect("submitted"));
        let waits = calls().iter().any(|call| call.starts_with("vkWaitSemaphores"));
        assert_eq!(waits, waited, "timeline {value}");
    }
    // Another side waits for an exported binary semaphore.
    let there = ExportableSemaphore::binary(&interop).expect("a semaphore");
    there.export().expect("a descriptor");
    let there = [SemaphoreOp { semaphore: there.semaphore(), value: 0 }];
    let gate = SemaphoreOp { semaphore: fallen_back.semaphore(), value: value + 1 };
    drop(context.submit(&[gate], &there, |_| Ok(())).expect("submitted"));
    drop(context.submit(&there, &[], |_| Ok(())).expect("submitted"));
    assert!(!calls().iter().any(|call| call.starts_with("vkWaitSemaphores")));
}

/// A signal of another library that is declared to a timeline is submitted, and so is a wait.
#[test]
fn declared_signals_and_waits_count() {
    let interop = start(Settings { wait_reaches: u64::MAX, ..Settings::default() });
    let context = context(&interop);
    let timeline = || OwnedSemaphore::timeline(&interop, 0).expect("a semaphore");
    let (signalled, waited) = (timeline(), timeline());
    let waits_of = |timeline: &OwnedSemaphore| {
        let binary = OwnedSemaphore::binary(&interop).expect("a semaphore");
        let binary = [SemaphoreOp { semaphore: &binary, value: 0 }];
        let waits = [SemaphoreOp { semaphore: timeline, value: 3 }];
        drop(context.submit(&waits, &binary, |_| Ok(())).expect("submitted"));
        calls();
        drop(context.submit(&binary, &[], |_| Ok(())).expect("submitted"));
        calls().into_iter().filter(|call| call.starts_with("vkWaitSemaphores")).count()
    };
    let other = vk::Queue::from_raw(0x14);
    signalled.submit_signal(other, 3, || Ok(())).expect("submitted");
    assert_eq!(waits_of(&signalled), 0);
    // Behind a wait on that queue.
    let late = timeline();
    waited.submit_wait(other, 5, || Ok(())).expect("submitted");
    late.submit_signal(other, 4, || Ok(())).expect("submitted");
    assert_eq!(waits_of(&late), 1);
    // During the submission the signal is none yet.
    change(|settings| settings.reached = 0);
    let unsubmitted = timeline();
    let during = || {
        assert_eq!(waits_of(&unsubmitted), 1);
        Ok(())
    };
    unsubmitted.submit_signal(other, 7, during).expect("submitted");
}

/// A signal counts once it was submitted, not before.
#[test]
fn signals_count_after_their_submission() {
    let interop = start(Settings::default());
    let kind = |result: Result<Submission>| result.map(drop).map_err(|error| error.kind());
    let one = OwnedSemaphore::binary(&interop).expect("a semaphore");
    let binary = [SemaphoreOp { semaphore: &one, value: 0 }];
    let context = context(&interop);
    change(|settings| settings.submit = vk::Result::ERROR_OUT_OF_HOST_MEMORY);
    for _ in 0..2 {
        assert_eq!(kind(context.submit(&[], &binary, |_| Ok(()))), Err(ErrorKind::OutOfMemory));
    }
    change(|settings| settings.submit = vk::Result::SUCCESS);
    assert_eq!(kind(context.submit(&binary, &[], |_| Ok(()))), Err(ErrorKind::InvalidArgument));
    // Nor while another context submits it, whose own wait and signal stay what they are.
    // SAFETY: the fake driver accepts this queue; nothing else uses it.
    let other = unsafe { HeadlessContext::on_queue(&interop, 7, vk::Queue::from_raw(0x14)) };
    let (semaphore, (send, receive)) = (one.clone(), std::sync::mpsc::channel());
    in_submission(move || {
        let binary = [SemaphoreOp { semaphore: &semaphore, value: 0 }];
        for (waits, signals) in [(&binary[..], &[][..]), (&[], &binary), (&binary, &binary)] {
            send.send(kind(other.submit(waits, signals, |_| Ok(())))).expect("received below");
        }
    });
    assert_eq!(kind(context.submit(&[], &binary, |_| Ok(()))), Ok(()));
    assert_eq!(receive.iter().collect::<Vec<_>>(), [Err(ErrorKind::InvalidArgument); 3]);
    change(|settings| settings.submit = vk::Result::ERROR_OUT_OF_HOST_MEMORY);
    for signals in [&[][..], &binary] {
        assert_eq!(kind(context.submit(&binary, signals, |_| Ok(()))), Err(ErrorKind::OutOfMemory));
    }
    change(|settings| settings.submit = vk::Result::SUCCESS);
    assert_eq!(kind(context.submit(&binary, &binary, |_| Ok(()))), Ok(()));
    assert_eq!(kind(context.submit(&binary, &[], |_| Ok(()))), Ok(()));
}
