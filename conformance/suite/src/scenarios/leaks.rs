//! Leak checks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::context::Context;
use crate::device_memory::DeviceMemory;
use crate::leak_check::{ResourceSnapshot, leak_check};
use crate::outcome::Verdict;
use crate::scenario::scenarios;
use crate::{ensure, ensure_eq};

scenarios! {
    "leak.10000_cycles", Any,
        "10,000 cycles of import, map, verify and close leave descriptors and mappings equal and memory within 4 MiB.",
        ten_thousand_cycles, counts_resources, within(120);
    // Exclusive: processes that start or end change the free memory of the GPU by more than the bound.
    "leak.device_memory", Any,
        "1,000 exported allocations are imported, mapped, read and closed; the device's free memory is as before.",
        device_memory, needs [driver FreeMemory], exclusive, within(120),
        mirrors("hip-tests: Unit_hipFreeMipmappedArray_NoLeakAfterGetLevel");
    "leak.streams", None, "1,000 streams, created, used and closed, leave descriptors, mappings and memory as before.",
        streams, needs [HostFunctions];
    "leak.events", None, "200,000 events, created, recorded and closed, leave descriptors, mappings and memory as before.",
        events;
}

fn ten_thousand_cycles(context: &Context) -> Verdict {
    const SIZE: usize = 4096;
    let (buffer, pattern) = (context.written(SIZE)?, context.pattern());
    let stream = context.stream()?;
    let mut found = vec![0; SIZE];
    let mut cycle = |number: u32| -> Verdict {
        let memory = context.import_memory(&*buffer)?;
        let mapped = memory.map_buffer(0..SIZE as u64)?;
        found.fill(0);
        stream.read(&mapped, &mut found)?;
        pattern.verify(0, &found, format_args!("cycle {number}"))?;
        mapped.close()?;
        Ok(memory.close()?)
    };
    (0..1000).try_for_each(&mut cycle)?;
    let before = ResourceSnapshot::take()?;
    (0..10_000).try_for_each(&mut cycle)?;
    let after = ResourceSnapshot::take()?;
    // Equal, without slack: nothing here starts a thread or grows a heap.
    ensure_eq!(after.descriptors, before.descriptors, "open descriptors");
    ensure_eq!(after.mappings, before.mappings, "mapped regions");
    let grown = after.resident.saturating_sub(before.resident);
    ensure!(grown < 4 << 20, "resident memory grew by {grown} bytes");
    Ok(())
}

fn device_memory(context: &Context) -> Verdict {
    const SIZE: u64 = 1 << 20;
    const READ: usize = 256;
    let memory = DeviceMemory::of(context)?;
    let stream = context.stream()?;
    let (mut pattern, mut found) = (context.pattern(), vec![0; READ]);
    memory.comes_back(1000, |number| {
        // New memory each time, because an import alone uses none of the device's.
        let buffer = context.buffer(SIZE)?;
        buffer.write(SIZE - READ as u64, &pattern.bytes(0, READ))?;
        let memory = context.import_memory(&*buffer)?;
        let mapped = memory.map_buffer(0..SIZE)?;
        stream.read(mapped.slice(SIZE - READ as u64..)?, &mut found)?;
        pattern.verify(0, &found, format_args!("cycle {number}"))?;
        pattern = pattern.other();
        mapped.close()?;
        Ok(memory.close()?)
    })
}

fn streams(context: &Context) -> Verdict {
    let ran = Arc::new(AtomicU32::new(0));
    let mut expected = 0;
    leak_check(1000, |_| {
        let stream = context.stream()?;
        let counter = ran.clone();
        stream.launch_host_function(move || {
            counter.fetch_add(1, Ordering::SeqCst);
        })?;
        stream.synchronize()?;
        expected += 1;
        ensure_eq!(ran.load(Ordering::SeqCst), expected, "host functions that ran, one a stream");
        Ok(())
    })
}

fn events(context: &Context) -> Verdict {
    let stream = context.stream()?;
    stream.synchronize()?;
    // Enough cycles to detect a leak of a few dozen bytes each in resident memory.
    leak_check(200_000, |number| {
        let event = context.device().create_event()?;
        stream.record(&event)?;
        // A lagging stream may hold a record for each event; that is no leak.
        if number % 500 == 0 { Ok(stream.synchronize()?) } else { Ok(()) }
    })
}
