//! Sizes at boundaries.

use gpu_interop::vulkan::VulkanInterop;
use gpu_interop::vulkan::ash::vk::MemoryHeapFlags;

use crate::context::Context;
use crate::outcome::{Stop, Verdict};
use crate::scenario::scenarios;
use crate::system::available_memory;

scenarios! {
    "size.1_byte", Any, "One byte goes both ways.", |context| both_ways(context, 1);
    "size.page_less_1", Any, "4,095 bytes go both ways.", |context| both_ways(context, 4095);
    "size.2_mib_plus_1", Any, "2 MiB and one byte go both ways.", |context| both_ways(context, (2 << 20) + 1);
    // Exclusive: large parts of the machine's and the GPU's memory.
    "size.past_4_gib", Any,
        "The beginning, the end, and the ranges around 2 and 4 GiB of a larger allocation go both ways, each distinct.",
        past_four_gib, exclusive, within(120);
    "size.1_gib", Any, "1 GiB goes both ways, every byte checked.", one_gib, within(120);
}

fn both_ways(context: &Context, size: u64) -> Verdict {
    const CHUNK: u64 = 64 << 20;
    let buffer = context.buffer(size)?;
    let mapped = context.import(&*buffer)?;
    let stream = context.stream()?;
    let (there, back) = (context.pattern(), context.pattern().other());
    // In chunks, so that this process needs little memory in addition to the buffer.
    let mut bytes = vec![0; usize::try_from(size.min(CHUNK)).unwrap_or(0)];
    let chunks = || (0..size).step_by(1 << 26).map(|start| (start, (size - start).min(CHUNK)));
    for (start, length) in chunks() {
        let bytes = &mut bytes[..usize::try_from(length).unwrap_or(0)];
        there.fill(start, bytes);
        buffer.write(start, bytes)?;
    }
    for (start, length) in chunks() {
        let bytes = &mut bytes[..usize::try_from(length).unwrap_or(0)];
        let slice = mapped.slice(start..start + length)?;
        // The old contents equal the expected ones: without this, an empty read would pass.
        bytes.fill(0);
        stream.read(slice, bytes)?;
        there.verify(start, bytes, "the exporter's data")?;
        back.fill(start, bytes);
        stream.write(slice, bytes)?;
    }
    for (start, length) in chunks() {
        let bytes = &mut bytes[..usize::try_from(length).unwrap_or(0)];
        bytes.fill(0);
        buffer.read(start, bytes)?;
        back.verify(start, bytes, "the device's data")?;
    }
    Ok(())
}

fn one_gib(context: &Context) -> Verdict {
    // Also enough for a second process of this scenario.
    const NEEDED: u64 = 3 << 30;
    let available = available_memory()?;
    if available < NEEDED {
        let mib = available >> 20;
        return Err(Stop::skipped(format!("needs 3 GiB of free memory; this machine has {mib} MiB")));
    }
    both_ways(context, 1 << 30)
}

/// The size of the device's largest heap of its own memory.
fn largest_heap(vulkan: &VulkanInterop) -> Option<u64> {
    let physical = vulkan.physical_device();
    // SAFETY: the device belongs to the instance, and both live as long as `vulkan`.
    let properties = unsafe { vulkan.instance().get_physical_device_memory_properties(physical) };
    let heaps = properties.memory_heaps_as_slice().iter();
    heaps.filter(|heap| heap.flags.contains(MemoryHeapFlags::DEVICE_LOCAL)).map(|heap| heap.size).max()
}

/// Offsets of more than 32 bits are not truncated in copies, slices and mappings. CPU drivers allocate pages on the
/// first write, so that little memory is needed there.
fn past_four_gib(context: &Context) -> Verdict {
    const PART: u64 = 64 << 10;
    const SIZE: u64 = (4 << 30) + (1 << 20) + 1;
    let largest = context.exporter()?.vulkan().and_then(|vulkan| largest_heap(vulkan.interop()));
    if let Some(largest) = largest.filter(|largest| *largest < SIZE) {
        let mib = largest >> 20;
        return Err(Stop::unsupported(format!(
            "needs an allocation of {SIZE} bytes; the GPU's largest heap has {mib} MiB"
        )));
    }
    let buffer = context.buffer(SIZE)?;
    let memory = context.import_memory(&*buffer)?;
    let (mapped, stream) = (memory.map_buffer(0..SIZE)?, context.stream()?);
    // Each range has different bytes.
    let starts = [0, (2 << 30) - PART / 2, (4 << 30) - PART / 2, SIZE - PART];
    let bytes = 64 << 10;
    let (there, back) = (context.pattern(), context.pattern().other());
    for start in starts {
        buffer.write(start, &there.bytes(start, bytes))?;
    }
    let mut found = vec![0; bytes];
    for start in starts {
        found.fill(0);
        stream.read(mapped.slice(start..start + PART)?, &mut found)?;
        there.verify(start, &found, format_args!("the exporter's data at {start}"))?;
        let part = memory.map_buffer(start..start + PART)?;
        there.verify(start, &context.read(&stream, &part)?, format_args!("a mapping at {start}"))?;
    }
    for start in starts {
        stream.write(mapped.slice(start..start + PART)?, &back.bytes(start, bytes))?;
    }
    for start in starts {
        buffer.read(start, &mut found)?;
        back.verify(start, &found, format_args!("the device's data at {start}"))?;
    }
    Ok(())
}
