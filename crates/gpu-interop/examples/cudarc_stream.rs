//! Example: a kernel of the crate `cudarc` on a buffer that Vulkan exported, ordered by two timelines.
//!
//! cudarc owns the context, the stream and the kernel. The stream is a stream of gpu-interop, too: it waits for Vulkan
//! and signals Vulkan between the launches. Needs an NVIDIA GPU. Argument: the number of rounds (default 1,000).

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpu_interop::cudarc::cudarc::driver::{LaunchConfig, PushKernelArg};
use gpu_interop::cudarc::cudarc::nvrtc::Ptx;
use gpu_interop::cudarc::{SharedSlice, SharedStream, context_for};
use gpu_interop::vulkan::{
    BufferOptions, ExportableBuffer, HeadlessContext, HeadlessOptions, MemoryPlacement, OwnedBuffer, SemaphoreOp,
    ash::vk::BufferUsageFlags, shared_timeline,
};

const SIZE: u64 = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(10);

/// Adds 1 to each of `count` words; each thread to every n-th, where n is the number of threads.
const KERNEL: &str = "
.version 6.0
.target sm_70
.address_size 64
.visible .entry increment(.param .u64 words, .param .u64 count)
{
    .reg .pred %stop;
    .reg .b32 %block, %width, %thread, %blocks, %word;
    .reg .b64 %count, %index, %threads, %address;
    ld.param.u64 %count, [count];
    mov.u32 %block, %ctaid.x;
    mov.u32 %width, %ntid.x;
    mov.u32 %thread, %tid.x;
    mov.u32 %blocks, %nctaid.x;
    mad.lo.u32 %thread, %block, %width, %thread;
    cvt.u64.u32 %index, %thread;
    mul.wide.u32 %threads, %blocks, %width;
next:
    setp.ge.u64 %stop, %index, %count;
    @%stop ret;
    ld.param.u64 %address, [words];
    mad.lo.u64 %address, %index, 4, %address;
    ld.global.u32 %word, [%address];
    add.u32 %word, %word, 1;
    st.global.u32 [%address], %word;
    add.u64 %index, %index, %threads;
    bra next;
}
";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rounds = std::env::args().nth(1).map_or(Ok(1_000), |rounds| rounds.parse::<u32>())?;

    // Vulkan's side.
    let vulkan = HeadlessContext::new(&HeadlessOptions::default())?;
    let usage = BufferUsageFlags::TRANSFER_SRC | BufferUsageFlags::TRANSFER_DST;
    let exported = ExportableBuffer::new(vulkan.interop(), &BufferOptions::new(SIZE, usage))?;
    let seen = OwnedBuffer::new(vulkan.interop(), SIZE, usage, MemoryPlacement::HostVisible)?;

    // cudarc's side: its context on Vulkan's GPU, a stream, a kernel. Without a driver this is an error, not a panic.
    let (device, context) = context_for(vulkan.identity())?;
    let kernel = context.load_module(Ptx::from_src(KERNEL))?.load_function("increment")?;
    // SAFETY: this program captures no graphs.
    let stream = unsafe { SharedStream::new(&device, context.new_stream()?) }?;

    // Vulkan's memory as cudarc's, and a timeline for each direction.
    let buffer = device.import_memory(exported.import_request()?)?.map_buffer(0..SIZE)?;
    let mut words = SharedSlice::<u32>::mapped(&stream, Arc::new(buffer), ..)?;
    let (count, mut bytes) = (words.len() as u64, vec![0; usize::try_from(SIZE)?]);
    let (filled, fills) = shared_timeline(vulkan.interop(), &device, 0)?;
    let (computed, computes) = shared_timeline(vulkan.interop(), &device, 0)?;

    let start = Instant::now();
    for round in 1..=rounds {
        let value = u64::from(round);
        // Vulkan fills the buffer and releases it.
        vulkan.submit(&[], &[SemaphoreOp { semaphore: &filled, value }], |commands| {
            commands.fill(exported.buffer(), 0, SIZE, round)?;
            commands.release(exported.buffer())
        })?;
        // The stream waits, runs cudarc's kernel, and signals.
        stream.wait_timeline(&fills, value)?;
        let mut launch = stream.cudarc().launch_builder(&kernel);
        launch.arg(&mut words).arg(&count);
        // SAFETY: the kernel takes an address and a number of words, and writes only those.
        unsafe { launch.launch(LaunchConfig::for_num_elems(u32::try_from(count)?)) }?;
        stream.signal_timeline(&computes, value)?;
        // Vulkan acquires it and copies it to host-visible memory.
        let waits = [SemaphoreOp { semaphore: &computed, value }];
        let copied = vulkan.submit(&waits, &[], |commands| {
            commands.acquire(exported.buffer())?;
            commands.copy(exported.buffer(), 0, &seen, 0, SIZE)
        })?;
        copied.wait(PATIENCE)?;
        seen.read(0, &mut bytes)?;
        let expected = (round + 1).to_ne_bytes();
        assert!(bytes.chunks_exact(4).all(|word| word == expected), "round {round}");
    }
    stream.synchronize_timeout(PATIENCE)?;
    let each = start.elapsed() / rounds.max(1);
    println!("{rounds} rounds by strategy {}, {each:?} each, with {}", fills.strategy(), device.identity());
    Ok(())
}
