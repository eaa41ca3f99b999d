//! Hand-overs between Vulkan and a kernel of cudarc.

use std::time::Duration;

use gpu_interop::cudarc::SharedSlice;
use gpu_interop::vulkan::ash::vk::BufferUsageFlags;
use gpu_interop::vulkan::{MemoryPlacement, OwnedBuffer, SemaphoreOp, shared_timeline};

use crate::machine::{Machine, SIZE, import};

const ROUNDS: u32 = 1_000;
const PATIENCE: Duration = Duration::from_secs(20);

/// Vulkan fills, the stream of both libraries fills a half by gpu-interop and increments all by cudarc, Vulkan reads.
pub(crate) fn a_thousand_hand_overs(machine: &Machine) {
    let (vulkan, stream, exported) = (&machine.vulkan, machine.stream(), machine.export());
    let usage = BufferUsageFlags::TRANSFER_SRC | BufferUsageFlags::TRANSFER_DST;
    let seen = OwnedBuffer::new(vulkan.interop(), SIZE, usage, MemoryPlacement::HostVisible).expect("a buffer");
    let buffer = import(&machine.device, &exported);
    let mut words = SharedSlice::<u32>::mapped(&stream, buffer, ..).expect("a slice");
    let (filled, fills) = shared_timeline(vulkan.interop(), &machine.device, 0).expect("a timeline");
    let (computed, computes) = shared_timeline(vulkan.interop(), &machine.device, 0).expect("a timeline");
    vulkan.acquire(exported.buffer()).expect("Vulkan's");
    let mut bytes = vec![0; usize::try_from(SIZE).expect("small")];
    for round in 1..=ROUNDS {
        let value = u64::from(round);
        vulkan
            .submit(&[], &[SemaphoreOp { semaphore: &filled, value }], |commands| {
                commands.fill(exported.buffer(), 0, SIZE, round)?;
                commands.release(exported.buffer())
            })
            .expect("submitted");
        stream.wait_timeline(&fills, value).expect("a wait");
        stream.fill_u32(words.operand().expect("a range").slice(SIZE / 2..).expect("a half"), !round).expect("filled");
        machine.increment(stream.cudarc(), &mut words);
        stream.signal_timeline(&computes, value).expect("a signal");
        let waits = [SemaphoreOp { semaphore: &computed, value }];
        let copied = vulkan.submit(&waits, &[], |commands| {
            commands.acquire(exported.buffer())?;
            commands.copy(exported.buffer(), 0, &seen, 0, SIZE)
        });
        copied.expect("submitted").wait(PATIENCE).expect("copied");
        seen.read(0, &mut bytes).expect("read");
        let (first, second) = bytes.split_at(bytes.len() / 2);
        for (half, expected) in [(first, round + 1), (second, (!round).wrapping_add(1))] {
            let wrong = half.chunks_exact(4).filter(|word| *word != expected.to_ne_bytes()).count();
            assert_eq!(wrong, 0, "wrong words in round {round}");
        }
    }
    stream.synchronize_timeout(PATIENCE).expect("no failure");
    machine.context.check_err().expect("no error of cudarc");
}
