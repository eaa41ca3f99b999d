//! Example: three frames in flight between Vulkan and the compute device.
//!
//! Each frame has its own buffer and timeline. Vulkan fills the buffer, a stream overwrites the second half, and Vulkan
//! copies all of it to host-visible memory.
//!
//! A waiting Vulkan queue blocks all later submissions. The copy of a frame, which waits for the stream, is therefore
//! submitted after the next two frames were rendered; submitted at once, it would leave one frame in flight.
//!
//! Arguments: the number of frames (default 300), and `compute` for a queue without graphics, which some GPUs only have.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use gpu_interop::vulkan::{
    BufferOptions, Frame, FrameRing, FrameRingOptions, HeadlessContext, HeadlessOptions, MemoryPlacement, OwnedBuffer,
    QueueKind, ash::vk::BufferUsageFlags,
};

const SIZE: u64 = 64 << 10;
const IN_FLIGHT: usize = 3;
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let frames = std::env::args().nth(1).map_or(Ok(300), |frames| frames.parse::<u32>())?;
    let kind = match std::env::args().nth(2).as_deref() {
        None => QueueKind::General,
        Some("compute") => QueueKind::ComputeOnly,
        Some(other) => return Err(format!("`{other}` is no kind of queue; use compute").into()),
    };
    let vulkan = HeadlessContext::new(&HeadlessOptions::default().queue(kind))?;
    let device = gpu_interop::device_for(vulkan.identity())?;
    let stream = device.create_stream()?;
    let usage = BufferUsageFlags::TRANSFER_SRC | BufferUsageFlags::TRANSFER_DST;
    let options = FrameRingOptions::new(IN_FLIGHT).buffer(BufferOptions::new(SIZE, usage));
    let ring = FrameRing::new(&vulkan, &device, &options)?;
    // The target of the copy of each frame in flight.
    let target = |_| OwnedBuffer::new(vulkan.interop(), SIZE, usage, MemoryPlacement::HostVisible);
    let targets = (0..IN_FLIGHT).map(target).collect::<Result<Vec<_>, _>>()?;

    // Vulkan acquires a frame and copies it. The frame then returns to the ring.
    let finish = |mut frame: Frame| -> Result<(), Box<dyn std::error::Error>> {
        // For an application that presents the frame: the semaphore of a presentation must not depend on a pending value of a
        // bridge.
        frame.before_present(PATIENCE)?;
        let (number, seen) = (u32::try_from(frame.number())?, &targets[frame.index()]);
        let copy =
            frame.render(&vulkan, |commands, memory| commands.copy(memory.buffers()[0].buffer(), 0, seen, 0, SIZE))?;
        copy.wait(PATIENCE)?;
        let mut words = [[0; 4]; 2];
        seen.read(0, &mut words[0])?;
        seen.read(SIZE - 4, &mut words[1])?;
        assert_eq!(words.map(u32::from_ne_bytes), [number, !number], "frame {number}");
        Ok(())
    };
    let start = Instant::now();
    let mut in_flight = VecDeque::with_capacity(IN_FLIGHT);
    for number in 0..frames {
        if in_flight.len() == IN_FLIGHT {
            in_flight.pop_front().map_or(Ok(()), finish)?;
        }
        let mut frame = ring.acquire(PATIENCE)?;
        frame.render(&vulkan, |commands, memory| commands.fill(memory.buffers()[0].buffer(), 0, SIZE, number))?;
        frame.compute(&stream, |stream, memory| stream.fill_u32(memory.buffers()[0].slice(SIZE / 2..)?, !number))?;
        in_flight.push_back(frame);
    }
    in_flight.into_iter().try_for_each(finish)?;
    // Synchronisation reports failures of the stream's work.
    stream.synchronize_timeout(PATIENCE)?;
    let each = start.elapsed() / frames.max(1);
    println!("{frames} frames by strategy {}, {each:?} each, with {}", ring.strategy(), device.identity());
    Ok(())
}
