//! Example: NVIDIA's crate `cuda-core` reads and writes a buffer that Vulkan exported, ordered by two timelines, with
//! the adapter of the guide's page `cuda_core`.

#[path = "../../../../crates/gpu-interop/src/guide/cuda_core_adapter.rs"]
mod adapter;

use std::sync::Arc;
use std::time::Duration;

use cuda_core::DeviceBuffer;
use gpu_interop::vulkan::{
    BufferOptions, ExportableBuffer, HeadlessContext, HeadlessOptions, SemaphoreOp, ash::vk::BufferUsageFlags,
    shared_timeline,
};

const SIZE: u64 = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let vulkan = HeadlessContext::new(&HeadlessOptions::default())?;
    let usage = BufferUsageFlags::TRANSFER_SRC | BufferUsageFlags::TRANSFER_DST;
    let exported = ExportableBuffer::new(vulkan.interop(), &BufferOptions::new(SIZE, usage))?;

    let (device, context) = adapter::open(vulkan.identity())?;
    // The same device, because both libraries use its primary context.
    assert_eq!(adapter::device_of(&context)?.context(), device.context());
    let theirs = context.new_stream()?;
    // SAFETY: this program captures no graphs.
    let ours = unsafe { adapter::share_stream(&device, &theirs) }?;

    let (filled, fills) = shared_timeline(vulkan.interop(), &device, 0)?;
    let (computed, computes) = shared_timeline(vulkan.interop(), &device, 0)?;
    let buffer = Arc::new(device.import_memory(exported.import_request()?)?.map_buffer(..)?);
    // SAFETY: every bit pattern is a `u32`; Vulkan initialises the memory before the stream's first access, and the
    // timelines order both sides. Work of both libraries is on one stream.
    let mut words: DeviceBuffer<u32> = unsafe { adapter::share_buffer(&device, &ours, &context, buffer.clone()) }?;
    assert_eq!((words.cu_deviceptr(), words.num_bytes() as u64), (buffer.as_raw().get(), SIZE));
    // cuda-core keeps the mapping from here on.
    let mapping = Arc::downgrade(&buffer);
    drop(buffer);

    vulkan.submit(&[], &[SemaphoreOp { semaphore: &filled, value: 1 }], |commands| {
        commands.fill(exported.buffer(), 0, SIZE, 0xCAFE_F00D)?;
        commands.release(exported.buffer())
    })?;
    ours.wait_timeline(&fills, 1)?;
    let seen = words.to_host_vec(&theirs)?;
    assert!(seen.len() as u64 == SIZE / 4 && seen.iter().all(|word| *word == 0xCAFE_F00D), "{:x?}", &seen[..4]);
    words.zero_async(&theirs)?;
    ours.signal_timeline(&computes, 1)?;
    // cuda-core holds a lease until the fill has completed.
    drop(words);
    vulkan.submit(&[SemaphoreOp { semaphore: &computed, value: 1 }], &[], |commands| {
        commands.acquire(exported.buffer())
    })?;
    let mut bytes = vec![1; usize::try_from(SIZE)?];
    vulkan.download(exported.buffer(), 0, &mut bytes)?;
    assert!(bytes.iter().all(|byte| *byte == 0), "{:?}", &bytes[..4]);

    ours.synchronize_timeout(PATIENCE)?;
    let start = std::time::Instant::now();
    while mapping.upgrade().is_some() {
        assert!(start.elapsed() < PATIENCE, "cuda-core keeps the mapping");
        std::thread::sleep(Duration::from_millis(1));
    }
    println!("cuda-core and {} passed {SIZE} bytes by strategy {}", vulkan.identity(), computes.strategy());
    Ok(())
}
