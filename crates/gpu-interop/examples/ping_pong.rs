//! Example: a buffer passed back and forth between Vulkan and the compute device, ordered by a timeline.
//!
//! `GPU_INTEROP_TIMELINE=native` or `bridge` selects the strategy of the timeline; the default is the fastest
//! available. Arguments: the number of rounds (default 1,000), and `transfer` for a Vulkan transfer queue.

use std::time::{Duration, Instant};

use gpu_interop::vulkan::{
    BufferOptions, ExportableBuffer, HeadlessContext, HeadlessOptions, MemoryPlacement, OwnedBuffer, QueueKind,
    SemaphoreOp, ash::vk::BufferUsageFlags, shared_timeline,
};

const SIZE: u64 = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rounds = std::env::args().nth(1).map_or(Ok(1_000), |rounds| rounds.parse::<u32>())?;
    let transfer = std::env::args().nth(2).is_some_and(|queue| queue == "transfer");
    let queue = if transfer { QueueKind::TransferOnly } else { QueueKind::General };

    // Vulkan's side.
    let vulkan = HeadlessContext::new(&HeadlessOptions::default().queue(queue))?;
    let usage = BufferUsageFlags::TRANSFER_SRC | BufferUsageFlags::TRANSFER_DST;
    let shared = ExportableBuffer::new(vulkan.interop(), &BufferOptions::new(SIZE, usage))?;
    let seen = OwnedBuffer::new(vulkan.interop(), SIZE, usage, MemoryPlacement::HostVisible)?;

    // The compute side.
    let device = gpu_interop::device_for(vulkan.identity())?;
    let stream = device.create_stream()?;
    let buffer = device.import_memory(shared.import_request()?)?.map_buffer(0..SIZE)?;
    // Without support for native timelines, the host bridges the values.
    let (semaphore, timeline) = shared_timeline(vulkan.interop(), &device, 0)?;

    let start = Instant::now();
    for round in 1..=rounds {
        let (ready, done, back) = (3 * u64::from(round) - 2, 3 * u64::from(round) - 1, 3 * u64::from(round));
        // Vulkan fills the buffer and releases it.
        vulkan.submit(&[], &[SemaphoreOp { semaphore: &semaphore, value: ready }], |commands| {
            commands.fill(shared.buffer(), 0, SIZE, round)?;
            commands.release(shared.buffer())
        })?;
        // The stream waits, overwrites the second half, and signals.
        stream.wait_timeline(&timeline, ready)?;
        stream.fill_u32(buffer.slice(SIZE / 2..)?, !round)?;
        stream.signal_timeline(&timeline, done)?;
        // Vulkan acquires it and copies it to host-visible memory.
        let waits = [SemaphoreOp { semaphore: &semaphore, value: done }];
        vulkan.submit(&waits, &[SemaphoreOp { semaphore: &semaphore, value: back }], |commands| {
            commands.acquire(shared.buffer())?;
            commands.copy(shared.buffer(), 0, &seen, 0, SIZE)
        })?;
        timeline.wait(back, PATIENCE)?;
        let mut words = [[0; 4]; 2];
        seen.read(0, &mut words[0])?;
        seen.read(SIZE - 4, &mut words[1])?;
        assert_eq!(words.map(u32::from_ne_bytes), [round, !round], "round {round}");
    }
    let each = start.elapsed() / rounds.max(1);
    println!("{rounds} rounds by strategy {}, {each:?} each, with {}", timeline.strategy(), device.identity());
    Ok(())
}
