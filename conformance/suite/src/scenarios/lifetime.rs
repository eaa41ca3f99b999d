//! Whatever order things end in.

use gpu_interop::{Device, ExternalMemory, Feature, MappedBuffer, Stream, WaitCondition};

use crate::context::{Context, PATIENCE, WATCH};
use crate::exporter::ExportedBuffer;
use crate::leak_check::{ResourceSnapshot, leak_check};
use crate::outcome::Verdict;
use crate::pattern::Pattern;
use crate::scenario::scenarios;
use crate::{ensure, ensure_eq};

scenarios! {
    "lifetime.every_drop_order", Any,
        "Device, stream, import, mappings and exporter's buffer may be dropped in each of the 720 orders.",
        every_drop_order, alone, within(60);
    "lifetime.exporter_frees_first", Any, "An import outlives the exporter's own allocation.", exporter_frees_first,
        mirrors("OpenCL-CTS: lifetime_buffer");
    "lifetime.import_closed_first", Any, "A mapping outlives the closed import.", import_closed_first;
    "lifetime.device_dropped_first", Any, "Objects outlive the device they were opened from.", device_dropped_first;
    "lifetime.drop_with_work_pending", Any,
        "A mapping dropped while a stream still uses it is written as enqueued, and gone afterwards.",
        drop_with_work_pending, needs [StreamMemoryOperations32];
    "lifetime.free_while_a_stream_waits", Any,
        "What no work uses is let go while a stream waits for what this thread does next: nothing blocks, and it is all gone \
         afterwards.", free_while_a_stream_waits, needs [StreamMemoryOperations32], own_process;
    "lifetime.drop_everything_with_work_pending", Any,
        "Dropping everything with a wait that is never satisfied ends in bounded time.",
        drop_everything_with_work_pending, needs [StreamMemoryOperations32], own_process;
}

const SIZE: usize = 64 << 10;

/// What a permutation drops, one thing a slot.
#[derive(Default)]
struct Parts {
    device: Option<Device>,
    stream: Option<Stream>,
    memory: Option<ExternalMemory>,
    first: Option<MappedBuffer>,
    second: Option<MappedBuffer>,
    buffer: Option<Box<dyn ExportedBuffer>>,
}

impl Parts {
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
    // One order first, for what stays open after the first use.
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
        let mut parts = Parts {
            device: Some(device),
            stream: Some(stream),
            memory: Some(memory),
            first: Some(first),
            second: Some(second),
            buffer: Some(buffer),
        };
        for (position, index) in order.iter().enumerate() {
            parts.drop_one(*index);
            // What is left still works.
            if let (Some(stream), Some(second)) = (&parts.stream, &parts.second) {
                let mut found = vec![0; 4096];
                stream.read(second, &mut found)?;
                pattern.verify(4096, &found, &format!("order {order:?}, after step {position}"))?;
            }
            if let Some(buffer) = &parts.buffer {
                let mut found = vec![0; 4096];
                buffer.read(4096, &mut found)?;
                pattern.verify(4096, &found, &format!("order {order:?}, after step {position}, exporter's side"))?;
            }
        }
        let held = ResourceSnapshot::take()?.descriptors;
        let expected = *before.get_or_insert(held);
        ensure!(held <= expected, "order {order:?}: {held} descriptors are open, {expected} were");
    }
    Ok(())
}

fn exporter_frees_first(context: &Context) -> Verdict {
    let buffer = context.buffer(SIZE as u64)?;
    let pattern = context.pattern();
    buffer.write(0, &pattern.bytes(0, SIZE))?;
    let memory = context.device().import_memory(buffer.import_request()?)?;
    let mapped = memory.map_buffer(0..SIZE as u64)?;
    drop(buffer);
    let stream = context.device().create_stream()?;
    pattern.verify(0, &context.read(&stream, &mapped)?, "data after the exporter freed its allocation")?;
    let other = pattern.other();
    stream.write(&mapped, &other.bytes(0, SIZE))?;
    let late = memory.map_buffer(0..SIZE as u64)?;
    other.verify(0, &context.read(&stream, &late)?, "data through a mapping made afterwards")
}

fn import_closed_first(context: &Context) -> Verdict {
    let buffer = context.buffer(SIZE as u64)?;
    let pattern = context.pattern();
    let memory = context.device().import_memory(buffer.import_request()?)?;
    let mapped = memory.map_buffer(0..SIZE as u64)?;
    memory.close()?;
    let stream = context.device().create_stream()?;
    buffer.write(0, &pattern.bytes(0, SIZE))?;
    pattern.verify(0, &context.read(&stream, &mapped)?, "data after the import was closed")?;
    mapped.close()?;
    Ok(())
}

fn device_dropped_first(context: &Context) -> Verdict {
    let buffer = context.buffer(SIZE as u64)?;
    let pattern = context.pattern();
    buffer.write(0, &pattern.bytes(0, SIZE))?;
    let device = context.open_again()?;
    let stream = device.create_stream()?;
    let mapped = device.import_memory(buffer.import_request()?)?.map_buffer(0..SIZE as u64)?;
    drop(device);
    pattern.verify(0, &context.read(&stream, &mapped)?, "data after the device was let go")
}

/// A stream that waits for the first word of `gate` to become 1.
fn block(stream: &Stream, gate: &MappedBuffer) -> Verdict {
    Ok(stream.wait_value_u32(gate.slice(..4)?, 1, WaitCondition::Equal)?)
}

fn drop_with_work_pending(context: &Context) -> Verdict {
    let (buffer, gate_buffer) = (context.buffer(SIZE as u64)?, context.buffer(4096)?);
    let pattern = context.pattern();
    let gate = context.import(&*gate_buffer)?;
    let stream = context.device().create_stream()?;
    leak_check(20, |round| {
        buffer.write(0, &pattern.bytes(0, SIZE))?;
        gate_buffer.write(0, &[0; 4096])?;
        let mapped = context.import(&*buffer)?;
        block(&stream, &gate)?;
        stream.fill(&mapped, 0x77)?;
        drop(mapped);
        std::thread::sleep(if round == 0 { WATCH } else { WATCH / 4 });
        ensure!(!stream.is_idle()?, "round {round}: the stream did not wait");
        let mut found = vec![0; SIZE];
        buffer.read(0, &mut found)?;
        pattern.verify(0, &found, "the data while the stream waits")?;
        gate_buffer.write(0, &1_u32.to_ne_bytes())?;
        stream.synchronize_timeout(PATIENCE)?;
        buffer.read(0, &mut found)?;
        ensure!(found.iter().all(|byte| *byte == 0x77), "round {round}: the dropped mapping's fill did not arrive");
        Ok(())
    })
}

fn free_while_a_stream_waits(context: &Context) -> Verdict {
    let device = context.device();
    let (buffer, gate_buffer) = (context.buffer(SIZE as u64)?, context.buffer(4096)?);
    let gate = context.import(&*gate_buffer)?;
    let (waiting, other) = (device.create_stream()?, device.create_stream()?);
    leak_check(20, |round| {
        gate_buffer.write(0, &[0; 4096])?;
        let mapped = context.import(&*buffer)?;
        other.fill(&mapped, 0x11)?;
        let exports = context.has(Feature::ExportableMemory);
        let exportable = exports.then(|| device.allocate_exportable(SIZE as u64)).transpose()?;
        let kernels = context.kernels().ok();
        other.synchronize_timeout(PATIENCE)?;
        block(&waiting, &gate)?;
        waiting.fill(gate.slice(8..)?, 0x77)?;
        // Drivers wait for every stream before they free, and the gate is this thread's to open.
        let start = std::time::Instant::now();
        drop((mapped, exportable, kernels));
        drop(device.create_stream()?);
        other.synchronize_timeout(PATIENCE)?;
        device.collect();
        let taken = start.elapsed();
        ensure!(taken < PATIENCE, "round {round}: letting go took {taken:?}");
        ensure!(!waiting.is_idle()?, "round {round}: the stream did not wait");
        gate_buffer.write(0, &1_u32.to_ne_bytes())?;
        waiting.synchronize_timeout(PATIENCE)?;
        let mut found = vec![0; 4096 - 8];
        gate_buffer.read(8, &mut found)?;
        ensure!(found.iter().all(|byte| *byte == 0x77), "round {round}: what the stream did next did not arrive");
        Ok(())
    })
}

fn drop_everything_with_work_pending(context: &Context) -> Verdict {
    let gate_buffer = context.buffer(4096)?;
    gate_buffer.write(0, &[0; 4096])?;
    let start = std::time::Instant::now();
    {
        let device = context.open_again()?;
        let gate = device.import_memory(gate_buffer.import_request()?)?.map_buffer(0..4096)?;
        let stream = device.create_stream()?;
        block(&stream, &gate)?;
        stream.fill(gate.slice(8..)?, 0x99)?;
    }
    let taken = start.elapsed();
    ensure!(taken < PATIENCE, "letting go took {taken:?}");
    // The context's own device is not disturbed.
    let stream = context.device().create_stream()?;
    let mapped = context.import(&*gate_buffer)?;
    stream.fill(&mapped, 0x33)?;
    stream.synchronize_timeout(PATIENCE)?;
    let mut found = vec![0; 4096];
    gate_buffer.read(0, &mut found)?;
    ensure!(found.iter().all(|byte| *byte == 0x33), "the other device does not work any more");
    // A driver that cannot cancel the wait may not let the process end while it is pending.
    gate_buffer.write(0, &1_u32.to_ne_bytes())
}
