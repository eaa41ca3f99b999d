//! Buffers cut from shared allocations of Vulkan, for both sides at once.

use gpu_interop::vulkan::ash::vk::BufferUsageFlags;
use gpu_interop::vulkan::{HeadlessContext, OwnedSemaphore, SharedHeap, SharedHeapBuffer, SharedHeapOptions};

use super::{BRIEF, expect_invalid, keeps_waiting};
use crate::context::Context;
use crate::gate::Gate;
use crate::leak_check::leak_check;
use crate::outcome::{Stop, Verdict, WAIT_TIMEOUT};
use crate::pattern::Pattern;
use crate::scenario::scenarios;
use crate::{ensure, ensure_eq};

scenarios! {
    all need [exporter Heaps];
    "heap.both_directions", Any,
        "Buffers of a heap, of 1 byte to a whole block, go both ways between the exporter and the device, every byte.",
        both_directions;
    "heap.many_buffers", Any,
        "1,000 live buffers of a heap keep their own bytes, written in turn by both sides.", many_buffers, within(120);
    "heap.free_while_work_is_pending", Any,
        "The memory of a dropped buffer is not used for another one while a stream has work on it, but afterwards.",
        free_while_work_is_pending, needs [StreamMemoryOperations32];
    "heap.free_after", Any,
        "The memory of a dropped buffer is not used for another one before the exporter's timeline has the given value.",
        free_after;
    "heap.growth", Any,
        "A full heap adds blocks, each with its own bytes, and frees those without buffers.", growth;
    "heap.bad_input", Any,
        "Invalid sizes and alignments are rejected before a driver is called; the heap works afterwards.", bad_input;
    "heap.cycles", Any, "10,000 buffers of a heap, allocated and freed, leak nothing.", cycles, counts_resources,
        within(120);
}

const BLOCK: u64 = 1 << 20;

fn vulkan(context: &Context) -> Verdict<&HeadlessContext> {
    let vulkan = context.exporter()?.vulkan();
    vulkan.ok_or_else(|| Stop::unsupported("the exporter is not Vulkan".into()))
}

fn heap(context: &Context, block_size: u64) -> Verdict<SharedHeap> {
    let usage = BufferUsageFlags::TRANSFER_SRC | BufferUsageFlags::TRANSFER_DST;
    let options = SharedHeapOptions::new(usage).block_size(block_size);
    Ok(SharedHeap::new(vulkan(context)?.interop(), context.device(), &options)?)
}

/// A buffer that the device's side owns.
fn released(vulkan: &HeadlessContext, heap: &SharedHeap, size: u64) -> Verdict<SharedHeapBuffer> {
    let buffer = heap.allocate(size)?;
    vulkan.release(buffer.buffer())?;
    Ok(buffer)
}

/// Writes a pattern by Vulkan, to a buffer that the device's side owns.
fn put(vulkan: &HeadlessContext, buffer: &SharedHeapBuffer, pattern: Pattern) -> Verdict {
    vulkan.acquire(buffer.buffer())?;
    vulkan.upload(buffer.buffer(), 0, &pattern.bytes(0, usize::try_from(buffer.size())?))?;
    Ok(vulkan.release(buffer.buffer())?)
}

/// Reads by Vulkan, from a buffer that the device's side owns.
fn get(vulkan: &HeadlessContext, buffer: &SharedHeapBuffer) -> Verdict<Vec<u8>> {
    let mut found = vec![0; usize::try_from(buffer.size())?];
    vulkan.acquire(buffer.buffer())?;
    vulkan.download(buffer.buffer(), 0, &mut found)?;
    vulkan.release(buffer.buffer())?;
    Ok(found)
}

/// The pattern of a numbered buffer.
fn numbered(pattern: Pattern, number: usize) -> Verdict<Pattern> {
    Ok(pattern.level(u32::try_from(number)?))
}

fn both_directions(context: &Context) -> Verdict {
    let (vulkan, heap, stream) = (vulkan(context)?, heap(context, 4 * BLOCK)?, context.stream()?);
    for size in [1, 3, 255, 256, 257, 4096, 65_537, BLOCK, heap.block_size()] {
        // Beside a neighbour on each side, where there is room; their bytes must stay.
        let room = if size < BLOCK { 512 } else { 0 };
        let around = [room, room].map(|room| (room > 0).then(|| released(vulkan, &heap, room)));
        let [before, after] = around.map(Option::transpose);
        let (before, after) = (before?, after?);
        let buffer = released(vulkan, &heap, size)?;
        for neighbour in [&before, &after].into_iter().flatten() {
            put(vulkan, neighbour, context.pattern().other())?;
        }
        let length = usize::try_from(size)?;
        put(vulkan, &buffer, context.pattern())?;
        let mut found = vec![0; length];
        stream.read(&buffer, &mut found)?;
        context.pattern().verify(0, &found, format_args!("{size} bytes, from the exporter"))?;
        let back = numbered(context.pattern(), 1)?;
        stream.write(&buffer, &back.bytes(0, length))?;
        back.verify(0, &get(vulkan, &buffer)?, format_args!("{size} bytes, from the device"))?;
        for neighbour in [&before, &after].into_iter().flatten() {
            let mut found = vec![0; usize::try_from(neighbour.size())?];
            stream.read(neighbour, &mut found)?;
            context.pattern().other().verify(0, &found, format_args!("the neighbour of {size} bytes"))?;
        }
    }
    Ok(())
}

fn many_buffers(context: &Context) -> Verdict {
    const COUNT: usize = 1000;
    let (vulkan, heap, stream) = (vulkan(context)?, heap(context, 4 * BLOCK)?, context.stream()?);
    let size = |number: usize| 64 + (number as u64 * 97) % 16_000;
    let buffers = (0..COUNT).map(|number| heap.allocate(size(number))).collect::<Result<Vec<_>, _>>()?;
    ensure!(heap.usage().blocks > 1, "{COUNT} buffers are in one block");
    // Even ones by Vulkan, whose copies are slow on their own: one submission for all.
    let whole = Pattern::new(context.pattern().seed());
    let largest = usize::try_from(16_064)?;
    for (number, buffer) in buffers.iter().enumerate().step_by(50) {
        let data = numbered(whole, number)?.bytes(0, usize::try_from(buffer.size())?);
        vulkan.upload(buffer.buffer(), 0, &data)?;
    }
    vulkan.run(|recording| buffers.iter().try_for_each(|buffer| recording.release(buffer.buffer())))?;
    for (number, buffer) in buffers.iter().enumerate().filter(|(number, _)| number % 50 != 0) {
        stream.write(buffer, &numbered(whole, number)?.bytes(0, usize::try_from(buffer.size())?))?;
    }
    let mut found = vec![0; largest];
    for (number, buffer) in buffers.iter().enumerate() {
        let found = &mut found[..usize::try_from(buffer.size())?];
        stream.read(buffer, found)?;
        numbered(whole, number)?.verify(0, found, format_args!("buffer {number}, the device's side"))?;
    }
    vulkan.run(|recording| buffers.iter().try_for_each(|buffer| recording.acquire(buffer.buffer())))?;
    for (number, buffer) in buffers.iter().enumerate().skip(1).step_by(25) {
        let found = &mut found[..usize::try_from(buffer.size())?];
        vulkan.download(buffer.buffer(), 0, found)?;
        numbered(whole, number)?.verify(0, found, format_args!("buffer {number}, the exporter's side"))?;
    }
    Ok(())
}

fn free_while_work_is_pending(context: &Context) -> Verdict {
    let (vulkan, heap, gate) = (vulkan(context)?, heap(context, BLOCK)?, Gate::new(context)?);
    let (stream, other) = (context.stream()?, context.stream()?);
    for round in 0..4 {
        let buffer = released(vulkan, &heap, BLOCK)?;
        let place = buffer.device_ptr();
        // A second block before the stream waits: a driver may import memory only once its streams are idle.
        drop(heap.allocate(BLOCK)?);
        gate.close(&stream)?;
        stream.fill(&buffer, 0x77)?;
        drop(buffer);
        heap.collect();
        ensure_eq!(heap.usage().buffers, 1, "buffers while a stream has work on one");
        let another = released(vulkan, &heap, BLOCK)?;
        ensure!(another.device_ptr() != place, "round {round}: the memory is used again while a stream writes it");
        other.write(&another, &context.pattern().bytes(0, usize::try_from(BLOCK)?))?;
        keeps_waiting(&stream, BRIEF, format_args!("round {round}: the stream did not wait"))?;
        gate.open()?;
        stream.synchronize_timeout(WAIT_TIMEOUT)?;
        context.pattern().verify(0, &get(vulkan, &another)?, format_args!("round {round}, after the late fill"))?;
        heap.collect();
        ensure_eq!(heap.usage().buffers, 1, "buffers once the work has completed");
        let again = released(vulkan, &heap, BLOCK)?;
        ensure!(again.device_ptr() == place, "round {round}: the memory is not used again");
        drop((another, again));
        ensure_eq!(heap.trim(), 2, "blocks without buffers");
    }
    Ok(())
}

fn free_after(context: &Context) -> Verdict {
    let (vulkan, heap) = (vulkan(context)?, heap(context, BLOCK)?);
    let timeline = OwnedSemaphore::timeline(vulkan.interop(), 0).map_err(Stop::attempted)?;
    for value in [10, 20, 30] {
        let buffer = heap.allocate(BLOCK)?;
        let place = buffer.device_ptr();
        buffer.free_after(&timeline, value)?;
        drop(buffer);
        timeline.signal(value - 1)?;
        let another = heap.allocate(BLOCK)?;
        ensure!(another.device_ptr() != place, "the memory is used again before {value}");
        timeline.signal(value)?;
        heap.collect();
        ensure_eq!(heap.usage().buffers, 1, "buffers after the value");
        drop(another);
    }
    Ok(())
}

fn growth(context: &Context) -> Verdict {
    const BLOCKS: usize = 4;
    let (vulkan, heap, stream) = (vulkan(context)?, heap(context, BLOCK)?, context.stream()?);
    let length = usize::try_from(BLOCK)?;
    let whole = (0..BLOCKS).map(|_| released(vulkan, &heap, BLOCK)).collect::<Verdict<Vec<_>>>()?;
    ensure_eq!(heap.usage().blocks, BLOCKS, "blocks");
    for (number, buffer) in whole.iter().enumerate() {
        stream.write(buffer, &numbered(context.pattern(), number)?.bytes(0, length))?;
    }
    for (number, buffer) in whole.iter().enumerate() {
        numbered(context.pattern(), number)?.verify(0, &get(vulkan, buffer)?, format_args!("block {number}"))?;
    }
    drop(whole);
    ensure_eq!(heap.trim(), BLOCKS, "blocks without buffers");
    ensure_eq!(heap.usage().size, 0, "bytes of an empty heap");
    Ok(())
}

fn bad_input(context: &Context) -> Verdict {
    let heap = heap(context, BLOCK)?;
    expect_invalid(heap.allocate(0), "a buffer without bytes")?;
    for size in [heap.block_size() + 1, u64::MAX] {
        expect_invalid(heap.allocate(size), "a buffer larger than a block")?;
    }
    for alignment in [0, 3, u64::MAX] {
        expect_invalid(heap.allocate_aligned(64, alignment), "an alignment that is no power of two")?;
    }
    expect_invalid(heap.allocate_aligned(64, 1 << 40), "an alignment larger than a block")?;
    ensure_eq!(heap.usage().buffers, 0, "buffers");
    heap.allocate(heap.block_size())?;
    Ok(())
}

fn cycles(context: &Context) -> Verdict {
    let (vulkan, whole, stream) = (vulkan(context)?, heap(context, BLOCK)?, context.stream()?);
    leak_check(10_000, |cycle| {
        let buffer = whole.allocate(4096)?;
        if cycle % 100 == 0 {
            vulkan.release(buffer.buffer())?;
            stream.write(&buffer, &context.pattern().bytes(0, 4096))?;
            context.pattern().verify(0, &get(vulkan, &buffer)?, "a cycle")?;
        }
        Ok(())
    })?;
    ensure_eq!(whole.usage().buffers, 0, "buffers");
    Ok(())
}
