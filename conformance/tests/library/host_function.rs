//! The last objects of a heap and of a context, dropped in a host function with work pending that is behind it.

#![cfg(unix)]
#![allow(clippy::expect_used, clippy::panic)]

mod common;

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use gpu_interop::vulkan::ash::vk::BufferUsageFlags;
use gpu_interop::vulkan::{HeadlessContext, OwnedSemaphore, SemaphoreOp, SharedHeap, SharedHeapOptions, VulkanInterop};

use common::{drop_in_host_function, open};

const TIMEOUT: Duration = Duration::from_secs(20);

/// The function does not wait. A thread does, longer than a drop elsewhere, and frees the objects.
#[test]
fn a_heap_and_a_context_are_freed_by_a_thread() {
    // Without validation: layers before 1.4.304 may stall where the host signals a timeline.
    let Some((original, device)) = open(false) else { return };
    let (sender, device_destroyed) = channel::<()>();
    let context = {
        let (family, interop) = (original.queue_family(), original.interop().clone());
        // The context is dropped first, with the Vulkan device, and then the sender.
        let owner = Arc::new((original, sender));
        // SAFETY: the context has created the device with one queue of this family. The owner keeps the context, and this
        // thread uses the queue through the new one only.
        unsafe {
            let queue = interop.device().get_device_queue(family, 0);
            let (instance, physical_device) = (interop.instance(), interop.physical_device());
            let kept = VulkanInterop::with_owner(instance, physical_device, interop.device(), owner);
            HeadlessContext::on_queue(&kept.expect("the same device"), family, queue)
        }
    };
    let options = SharedHeapOptions::new(BufferUsageFlags::TRANSFER_DST).block_size(1 << 20);
    let heap = SharedHeap::new(context.interop(), &device, &options).expect("a heap");
    let stream = device.create_stream().expect("stream");
    let timeline = OwnedSemaphore::timeline(context.interop(), 0).expect("a timeline");
    let buffer = heap.allocate(4096).expect("allocate");
    buffer.free_after(&timeline, 2).expect("defer");
    let op = |value| [SemaphoreOp { semaphore: &timeline, value }];
    drop(context.submit(&op(1), &op(2), |recording| recording.fill(buffer.buffer(), 0, 4096, 7)).expect("submit"));
    drop_in_host_function(&stream, (buffer, heap, context), TIMEOUT);
    std::thread::sleep(Duration::from_millis(1_500));
    timeline.signal(1).expect("signal");
    drop((timeline, stream, device));
    assert_eq!(device_destroyed.recv_timeout(TIMEOUT), Err(RecvTimeoutError::Disconnected), "the objects are freed");
}
