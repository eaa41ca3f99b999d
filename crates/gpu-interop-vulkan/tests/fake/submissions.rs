//! Commands and submissions of a context.

use ash::vk::{self, Handle};
use gpu_interop_vulkan::{
    BufferCopy, BufferOptions, ExportableBuffer, ExportableImage, ExportableSemaphore, HeadlessContext, ImageOptions,
    ImageSpec, MemoryPlacement, OwnedBuffer, OwnedSemaphore, SemaphoreOp,
};

use crate::assert_calls;
use crate::driver::{Settings, calls, context, start};

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

/// The queue's own waits, those of another queue whose signal it waits for, and none for a timeline that another API
/// signals.
#[test]
fn binary_signals_wait_for_what_they_depend_on() {
    let wait = |semaphore: &str, value: u64| {
        format!("vkWaitSemaphores 1000207004{{flags 0x0, semaphores [{semaphore}], values [{value}]")
    };
    let waits_of = |found: &[String]| -> Vec<String> {
        let waits = found.iter().filter(|call| call.starts_with("vkWaitSemaphores"));
        waits.map(|call| call.split(']').take(2).collect::<Vec<_>>().join("]") + "]").collect()
    };
    let interop = start(Settings { wait_reaches: u64::MAX, ..Settings::default() });
    let binary = || OwnedSemaphore::binary(&interop).expect("a semaphore");
    let timeline = || OwnedSemaphore::timeline(&interop, 0).expect("a semaphore");
    let (bridged, between, one, two, three) = (timeline(), timeline(), binary(), binary(), binary());
    let exported = ExportableSemaphore::timeline(&interop, 0).expect("a semaphore");
    exported.export().expect("a descriptor");
    let at = |semaphore, value| [SemaphoreOp { semaphore, value }];
    // SAFETY: the fake driver accepts this queue; nothing else uses it.
    let other = unsafe { HeadlessContext::on_queue(&interop, 7, vk::Queue::from_raw(0x14)) };
    let context = context(&interop);
    let submit = |context: &HeadlessContext, waits: &[_], signals: &[_]| {
        drop(context.submit(waits, signals, |_| Ok(())).expect("submitted"));
    };
    // A native timeline.
    submit(&context, &at(exported.semaphore(), 5), &at(&one, 0));
    assert_eq!(waits_of(&calls()), [""; 0]);
    // Another queue waits for a bridge, and signals what this queue waits for.
    submit(&other, &at(&bridged, 6), &at(&between, 7));
    submit(&context, &at(&between, 7), &[]);
    assert_eq!(waits_of(&calls()), [""; 0]);
    submit(&context, &[], &at(&two, 0));
    let raw = format!("{:#x}", bridged.as_raw().as_raw());
    assert_eq!(waits_of(&calls()), [wait(&raw, 6)]);
    // Reached now.
    submit(&context, &[], &at(&three, 0));
    assert_eq!(waits_of(&calls()), [""; 0]);
}
