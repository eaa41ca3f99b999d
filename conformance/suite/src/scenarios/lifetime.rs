//! Objects dropped in any order, with and without pending work.

use std::time::Instant;

use gpu_interop::{Device, ExternalMemory, Feature, MappedBuffer, Stream, WaitCondition};

use super::{BRIEF, keeps_waiting};
use crate::context::{Context, import_on};
use crate::exporter::ExportedBuffer;
use crate::gate::Gate;
use crate::leak_check::{ResourceSnapshot, leak_check};
use crate::outcome::{PROMPT, Verdict, WAIT_TIMEOUT, WATCH};
use crate::pattern::Pattern;
use crate::scenario::scenarios;
use crate::{ensure, ensure_eq};

scenarios! {
    "lifetime.every_drop_order", Any,
        "Device, stream, import, mappings and exporter's buffer may be dropped in each of the 720 orders.",
        every_drop_order, counts_resources, within(60);
    "lifetime.exporter_frees_first", Any, "An import outlives the exporter's own allocation.", exporter_frees_first,
        mirrors("OpenCL-CTS: lifetime_buffer");
    "lifetime.import_closed_first", Any, "A mapping outlives the closed import.", import_closed_first;
    "lifetime.device_dropped_first", Any, "Objects outlive the device that they were created on.", device_dropped_first;
    "lifetime.drop_with_work_pending", Any,
        "A mapping dropped with pending work is written as enqueued, and freed afterwards.", drop_with_work_pending,
        needs [StreamMemoryOperations32];
    "lifetime.free_while_a_stream_waits", Any,
        "Dropping unused objects while a stream has a pending external wait does not block; all are freed afterwards.",
        free_while_a_stream_waits, needs [StreamMemoryOperations32], last_in_process;
    "lifetime.drop_everything_with_work_pending", Any,
        "Dropping everything with a wait that is never satisfied ends in bounded time.",
        drop_everything_with_work_pending, needs [StreamMemoryOperations32], last_in_process;
}

const SIZE: usize = 64 << 10;

/// The objects of a drop order.
#[derive(Default)]
struct Objects {
    device: Option<Device>,
    stream: Option<Stream>,
    memory: Option<ExternalMemory>,
    first: Option<MappedBuffer>,
    second: Option<MappedBuffer>,
    buffer: Option<Box<dyn ExportedBuffer>>,
}

impl Objects {
    fn drop_one(&mut self, index: usize) {
        match index {
            0 => drop(self.device.take()),
            1 => drop(self.stream.take()),
            2 => drop(self.memory.take()),
            3 => drop(self.first.take()),
            4 => drop(self.second.take()),
            _ => drop(self.buffer.take()),
        }
    }
}

/// Every order of `0..count`, by Heap's algorithm.
fn permutations(count: usize) -> Vec<Vec<usize>> {
    fn extend(order: &mut Vec<usize>, count: usize, all: &mut Vec<Vec<usize>>) {
        if count <= 1 {
            all.push(order.clone());
            return;
        }
        for index in 0..count {
            extend(order, count - 1, all);
            order.swap(if count.is_multiple_of(2) { index } else { 0 }, count - 1);
        }
    }
    let mut all = Vec::new();
    extend(&mut (0..count).collect(), count, &mut all);
    all
}

fn every_drop_order(context: &Context) -> Verdict {
    let mut orders = permutations(6);
    ensure_eq!(orders.len(), 720, "the number of orders");
    // The first order runs twice: some resources stay open after the first use.
    orders.insert(0, orders[0].clone());
    let mut before = None;
    for (number, order) in orders.iter().enumerate() {
        let buffer = context.buffer(SIZE as u64)?;
        let device = context.open_again()?;
        let stream = device.create_stream()?;
        let memory = device.import_memory(buffer.import_request()?)?;
        let first = memory.map_buffer(0..SIZE as u64)?;
        let second = memory.map_buffer(4096..8192)?;
        let pattern = Pattern::new(context.pattern().seed() ^ u32::try_from(number).unwrap_or(0));
        stream.write(&first, &pattern.bytes(0, SIZE))?;
        let mut objects = Objects {
            device: Some(device),
            stream: Some(stream),
            memory: Some(memory),
            first: Some(first),
            second: Some(second),
            buffer: Some(buffer),
        };
        for (position, index) in order.iter().enumerate() {
            objects.drop_one(*index);
            // The remaining objects still work.
            if let (Some(stream), Some(second)) = (&objects.stream, &objects.second) {
                let mut found = vec![0; 4096];
                stream.read(second, &mut found)?;
                pattern.verify(4096, &found, format_args!("order {order:?}, after step {position}"))?;
            }
            if let Some(buffer) = &objects.buffer {
                let mut found = vec![0; 4096];
                buffer.read(4096, &mut found)?;
                pattern.verify(
                    4096,
                    &found,
                    format_args!("order {order:?}, after step {position}, exporter's side"),
                )?;
            }
        }
        let held = ResourceSnapshot::open_descriptors()?;
        let expected = *before.get_or_insert(held);
        ensure!(held <= expected, "order {order:?}: {held} descriptors are open, {expected} were");
    }
    Ok(())
}

fn exporter_frees_first(context: &Context) -> Verdict {
    let (buffer, pattern) = (context.written(SIZE)?, context.pattern());
    let memory = context.import_memory(&*buffer)?;
    let mapped = memory.map_buffer(0..SIZE as u64)?;
    drop(buffer);
    let stream = context.stream()?;
    pattern.verify(0, &context.read(&stream, &mapped)?, "data after the exporter freed its allocation")?;
    let other = pattern.other();
    stream.write(&mapped, &other.bytes(0, SIZE))?;
    let late = memory.map_buffer(0..SIZE as u64)?;
    other.verify(0, &context.read(&stream, &late)?, "data through a later mapping")
}

fn import_closed_first(context: &Context) -> Verdict {
    let (buffer, pattern) = (context.buffer(SIZE as u64)?, context.pattern());
    let memory = context.import_memory(&*buffer)?;
    let mapped = memory.map_buffer(0..SIZE as u64)?;
    memory.close()?;
    buffer.put(pattern)?;
    pattern.verify(0, &context.read(&context.stream()?, &mapped)?, "data after the import was closed")?;
    Ok(mapped.close()?)
}

fn device_dropped_first(context: &Context) -> Verdict {
    let (buffer, pattern) = (context.written(SIZE)?, context.pattern());
    let device = context.open_again()?;
    let (stream, mapped) = (device.create_stream()?, import_on(&device, &*buffer)?);
    drop(device);
    pattern.verify(0, &context.read(&stream, &mapped)?, "data after the device was dropped")
}

fn drop_with_work_pending(context: &Context) -> Verdict {
    let (buffer, gate, stream) = (context.buffer(SIZE as u64)?, Gate::new(context)?, context.stream()?);
    leak_check(20, |round| {
        buffer.put(context.pattern())?;
        let mapped = context.import(&*buffer)?;
        gate.close(&stream)?;
        stream.fill(&mapped, 0x77)?;
        drop(mapped);
        let watch = if round == 0 { WATCH } else { WATCH / 4 };
        keeps_waiting(&stream, watch, format_args!("round {round}: the stream did not wait"))?;
        buffer.verify(context.pattern(), "the data while the stream waits")?;
        gate.open()?;
        stream.synchronize_timeout(WAIT_TIMEOUT)?;
        buffer.verify_all(0x77, &format!("round {round}: the dropped mapping's fill did not arrive"))
    })
}

fn free_while_a_stream_waits(context: &Context) -> Verdict {
    let device = context.device();
    let (buffer, gate) = (context.buffer(SIZE as u64)?, Gate::new(context)?);
    let (exported, target) = context.shared(4096)?;
    let (waiting, other) = (context.stream()?, context.stream()?);
    leak_check(20, |round| {
        exported.write(0, &[0; 4096])?;
        let mapped = context.import(&*buffer)?;
        other.fill(&mapped, 0x11)?;
        let exports = context.has(Feature::ExportableMemory);
        let exportable = exports.then(|| device.allocate_exportable(SIZE as u64)).transpose()?;
        let kernels = context.kernels().ok();
        other.synchronize_timeout(WAIT_TIMEOUT)?;
        gate.close(&waiting)?;
        waiting.fill(&target, 0x77)?;
        // A driver may wait for every stream before it frees, and only this thread opens the gate.
        let start = Instant::now();
        drop((mapped, exportable, kernels));
        drop(device.create_stream()?);
        other.synchronize_timeout(WAIT_TIMEOUT)?;
        device.collect();
        let taken = start.elapsed();
        ensure!(taken < PROMPT, "round {round}: the release took {taken:?}");
        keeps_waiting(&waiting, BRIEF, format_args!("round {round}: the stream did not wait"))?;
        gate.open()?;
        waiting.synchronize_timeout(WAIT_TIMEOUT)?;
        exported.verify_all(0x77, &format!("round {round}: the fill behind the wait did not arrive"))
    })
}

fn drop_everything_with_work_pending(context: &Context) -> Verdict {
    let gate_buffer = context.buffer(4096)?;
    gate_buffer.write(0, &[0; 4096])?;
    // Not the context's own device: it may have to free objects of earlier scenarios, and a free in HIP waits for all
    // streams.
    let other = context.open_again()?;
    let mut objects = None;
    let verdict = drop_a_device(context, &*gate_buffer, &other, &mut objects);
    // While the wait is pending, a driver may wait for it when it frees memory, and at the process's exit.
    let opened = gate_buffer.write(0, &1_u32.to_ne_bytes());
    verdict.and(opened)
}

/// Drops a device whose stream waits for the gate. `objects` receives those of the other device.
fn drop_a_device(
    context: &Context,
    gate_buffer: &dyn ExportedBuffer,
    other: &Device,
    objects: &mut Option<(Stream, MappedBuffer)>,
) -> Verdict {
    let start = Instant::now();
    {
        let device = context.open_again()?;
        let gate = import_on(&device, gate_buffer)?;
        let stream = device.create_stream()?;
        stream.wait_value_u32(gate.slice(..4)?, 1, WaitCondition::Equal)?;
        stream.fill(gate.slice(8..)?, 0x99)?;
    }
    let taken = start.elapsed();
    ensure!(taken < PROMPT, "the release took {taken:?}");
    ensure_eq!(gate_buffer.word(8)?, 0, "the data behind a wait that is not met");
    // Another device of the same GPU is not affected.
    let (stream, mapped) = objects.insert((other.create_stream()?, import_on(other, gate_buffer)?));
    stream.fill(&*mapped, 0x33)?;
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    gate_buffer.verify_all(0x33, "the other device does not work any more")
}
