//! Example: three frames in flight between Vulkan and the compute device, with one timeline per direction.
//!
//! Each frame has its own buffer. Vulkan fills it (`rendered`), a stream processes it (`computed`), and Vulkan copies
//! it to host-visible memory. With a single counter for both directions, Vulkan's value of a later frame would overtake
//! the stream's value of an earlier one.
//!
//! A waiting Vulkan queue blocks all later submissions. The copy of a frame, which waits for the stream, is therefore
//! submitted after the next two frames were rendered; submitted at once, it would leave one frame in flight.
//!
//! Argument: the number of frames (default 300).

use std::time::{Duration, Instant};

use gpu_interop::MappedBuffer;
use gpu_interop::vulkan::{
    BufferOptions, ExportableBuffer, HeadlessContext, HeadlessOptions, MemoryPlacement, OwnedBuffer, SemaphoreOp,
    ash::vk::BufferUsageFlags, shared_timeline,
};

const SIZE: u64 = 64 << 10;
const IN_FLIGHT: usize = 3;
const PATIENCE: Duration = Duration::from_secs(10);

/// Resources of a frame, reused by every third frame.
struct Frame {
    shared: ExportableBuffer,
    mapped: MappedBuffer,
    seen: OwnedBuffer,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let frames = std::env::args().nth(1).map_or(Ok(300), |frames| frames.parse::<u32>())?;
    let vulkan = HeadlessContext::new(&HeadlessOptions::default())?;
    let device = gpu_interop::device_for(vulkan.identity())?;
    let stream = device.create_stream()?;
    let usage = BufferUsageFlags::TRANSFER_SRC | BufferUsageFlags::TRANSFER_DST;
    let mut ring = Vec::with_capacity(IN_FLIGHT);
    for _ in 0..IN_FLIGHT {
        let shared = ExportableBuffer::new(vulkan.interop(), &BufferOptions::new(SIZE, usage))?;
        let mapped = device.import_memory(shared.import_request()?)?.map_buffer(0..SIZE)?;
        let seen = OwnedBuffer::new(vulkan.interop(), SIZE, usage, MemoryPlacement::HostVisible)?;
        ring.push(Frame { shared, mapped, seen });
    }
    // Vulkan signals this timeline, and streams wait for it.
    let (rendered, renders) = shared_timeline(vulkan.interop(), &device, 0)?;
    // The other direction: streams signal this timeline.
    let (computed, computes) = shared_timeline(vulkan.interop(), &device, 0)?;

    // Vulkan acquires a frame and copies it to host-visible memory.
    let finish = |number: u32| -> Result<(), Box<dyn std::error::Error>> {
        let frame = &ring[number as usize % IN_FLIGHT];
        let waits = [SemaphoreOp { semaphore: &computed, value: u64::from(number) }];
        let submitted = vulkan.submit(&waits, &[], |commands| {
            commands.acquire(frame.shared.buffer())?;
            commands.copy(frame.shared.buffer(), 0, &frame.seen, 0, SIZE)
        })?;
        submitted.wait(PATIENCE)?;
        let mut words = [[0; 4]; 2];
        frame.seen.read(0, &mut words[0])?;
        frame.seen.read(SIZE - 4, &mut words[1])?;
        assert_eq!(words.map(u32::from_ne_bytes), [number, !number], "frame {number}");
        Ok(())
    };
    let start = Instant::now();
    let in_flight = u32::try_from(IN_FLIGHT)?;
    for number in 1..=frames {
        let value = u64::from(number);
        // Wait for the previous frame of this slot.
        if number > in_flight {
            finish(number - in_flight)?;
        }
        let frame = &ring[number as usize % IN_FLIGHT];
        // Vulkan fills the buffer and releases it.
        vulkan.submit(&[], &[SemaphoreOp { semaphore: &rendered, value }], |commands| {
            commands.fill(frame.shared.buffer(), 0, SIZE, number)?;
            commands.release(frame.shared.buffer())
        })?;
        // The stream waits for this frame, overwrites the second half, and signals.
        stream.wait_timeline(&renders, value)?;
        stream.fill_u32(frame.mapped.slice(SIZE / 2..)?, !number)?;
        stream.signal_timeline(&computes, value)?;
    }
    for number in frames.saturating_sub(in_flight) + 1..=frames {
        finish(number)?;
    }
    // Synchronisation reports failures of the stream's work.
    stream.synchronize_timeout(PATIENCE)?;
    let each = start.elapsed() / frames.max(1);
    println!("{frames} frames by strategy {}, {each:?} each, with {}", renders.strategy(), device.identity());
    Ok(())
}
