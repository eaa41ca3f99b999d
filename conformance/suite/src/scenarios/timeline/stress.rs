//! Many timelines at once.

use std::time::{Duration, Instant};

use gpu_interop::{MappedBuffer, TimelineStrategy};
use gpu_interop_kernels::pattern_word;

use super::super::{BRIEF, keeps_waiting};
use super::{Shared, Strategy, by_strategy};
use crate::context::Context;
use crate::exporter::ExportedBuffer;
use crate::leak_check::ResourceSnapshot;
use crate::outcome::{Stop, Verdict, WAIT_TIMEOUT};
use crate::{ensure, system};

by_strategy! {
    "dependencies",
        "64 timelines on 16 streams with random dependencies, each stream enqueued before the work it waits for, complete \
         with every task's data.",
        dependencies, many_streams;
    "chain", "16 streams, each waiting for the next one, pass a value with its data from the last to the first.", chain,
        many_streams;
    // Its 16 threads would wait for busy processes.
    "create_and_destroy",
        "8 threads create, use and drop timelines 50 times each, then devices 25 times; descriptors, threads and mappings \
         are as before.",
        create_and_destroy;
}

/// Numbers derived from a seed.
struct Random {
    seed: u32,
    drawn: u64,
}

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.drawn += 1;
        pattern_word(self.seed, self.drawn) as usize % limit
    }
}

/// The work of a stream after its waits: copies of earlier tasks' data, and data of its own.
struct Task {
    stream: usize,
    timeline: usize,
    value: u64,
    /// Earlier tasks.
    needs: Vec<usize>,
}

const STREAMS: usize = 16;
const TIMELINES: usize = 64;
const TASKS: usize = 6 * TIMELINES;
/// Maximum number of tasks that a task waits for.
const NEEDS: usize = 3;
/// Bytes written by a task.
const PART: usize = 32;
/// A task's range: its own data, and a copy of the data of each task that it waited for.
const CELL: usize = PART * (1 + NEEDS);

/// Tasks in an order in which they could run sequentially. A timeline's values come from one stream, in order.
fn tasks(seed: u32) -> Vec<Task> {
    let mut random = Random { seed, drawn: 0 };
    let mut values = [0; TIMELINES];
    let task = |index: usize| {
        let stream = random.below(STREAMS);
        let timeline = stream + STREAMS * random.below(TIMELINES / STREAMS);
        values[timeline] += 1;
        let count = if index == 0 { 0 } else { random.below(NEEDS + 1) };
        let needs = (0..count).map(|_| random.below(index)).collect();
        Task { stream, timeline, value: values[timeline], needs }
    };
    (0..TASKS).map(task).collect()
}

fn dependencies<S: Strategy>(context: &Context) -> Verdict {
    let tasks = tasks(context.pattern().seed());
    let gate = Shared::new::<S>(context, 0)?;
    let timelines = (0..TIMELINES).map(|_| Shared::new::<S>(context, 0)).collect::<Verdict<Vec<_>>>()?;
    let (buffer, mapped) = context.zeroed(TASKS * CELL)?;
    let part = |task: usize, number: usize| {
        let start = (task * CELL + number * PART) as u64;
        mapped.slice(start..start + PART as u64)
    };
    let streams = context.streams(STREAMS)?;
    let byte = |task: usize| context.pattern().byte(task as u64);
    for (number, stream) in streams.iter().enumerate() {
        // Nothing runs before all work is enqueued.
        stream.wait_timeline(&gate.device, 1)?;
        for (index, task) in tasks.iter().enumerate().filter(|(_, task)| task.stream == number) {
            for (place, need) in (1..).zip(&task.needs) {
                let before = &tasks[*need];
                stream.wait_timeline(&timelines[before.timeline].device, before.value)?;
                stream.copy(part(index, place)?, part(*need, 0)?)?;
            }
            stream.fill(part(index, 0)?, byte(index))?;
            stream.signal_timeline(&timelines[task.timeline].device, task.value)?;
        }
    }
    buffer.verify_all(0, "something ran before the exporter signalled")?;
    gate.exporter.signal(1)?;
    for (number, stream) in streams.iter().enumerate() {
        stream
            .synchronize_timeout(WAIT_TIMEOUT)
            .map_err(|error| Stop::from(error).during(format_args!("stream {number}")))?;
    }
    for task in &tasks {
        timelines[task.timeline].exporter.wait(task.value, WAIT_TIMEOUT)?;
    }
    let found = buffer.contents()?;
    let mut wrong = Vec::new();
    for (index, (task, cell)) in tasks.iter().zip(found.chunks_exact(CELL)).enumerate() {
        let expected = std::iter::once(index).chain(task.needs.iter().copied());
        for (from, part) in expected.zip(cell.chunks_exact(PART)) {
            if part.iter().any(|found| *found != byte(from)) {
                let streams = [task.stream, tasks[from].stream];
                wrong.push(format!(
                    "task {index} of {from}'s, streams {streams:?}: {part:02x?}, not {:02x}",
                    byte(from)
                ));
            }
        }
    }
    // The list distinguishes late data from missing data.
    ensure!(wrong.is_empty(), "{} ranges are not their task's: {}", wrong.len(), wrong.join("; "));
    Ok(())
}

/// Streams that share a hardware queue, which runs in order, would deadlock.
fn chain<S: Strategy>(context: &Context) -> Verdict {
    const CELL: usize = 64;
    let links = (0..=STREAMS).map(|_| Shared::new::<S>(context, 0)).collect::<Verdict<Vec<_>>>()?;
    let (buffer, mapped) = context.zeroed(CELL * (STREAMS + 1))?;
    let cell = |number: usize| mapped.slice((number * CELL) as u64..((number + 1) * CELL) as u64);
    let streams = context.streams(STREAMS)?;
    for (number, stream) in streams.iter().enumerate() {
        stream.wait_timeline(&links[number + 1].device, 1)?;
        stream.copy(cell(number)?, cell(number + 1)?)?;
        stream.signal_timeline(&links[number].device, 1)?;
    }
    let data = context.pattern().bytes(0, CELL);
    buffer.write((STREAMS * CELL) as u64, &data)?;
    for (number, stream) in streams.iter().enumerate() {
        keeps_waiting(stream, BRIEF, format_args!("stream {number} did not wait"))?;
    }
    links[STREAMS].exporter.signal(1)?;
    for (number, stream) in streams.iter().enumerate() {
        stream
            .synchronize_timeout(WAIT_TIMEOUT)
            .map_err(|error| Stop::from(error).during(format_args!("stream {number}")))?;
    }
    links[0].exporter.wait(1, WAIT_TIMEOUT)?;
    let found = buffer.contents()?;
    for (number, found) in found.chunks_exact(CELL).enumerate() {
        context.pattern().verify(0, found, format_args!("cell {number}"))?;
    }
    Ok(())
}

fn create_and_destroy<S: Strategy>(context: &Context) -> Verdict {
    const THREADS: usize = 8;
    const CYCLES: u64 = 50;
    /// Stacks and heaps that the C library keeps for the threads of streams and bridges.
    const SLACK: usize = 64;
    /// NVIDIA's driver opens further descriptors when it first needs them, in one round or two. A leak grows in each.
    const ROUNDS: usize = 3;
    let buffers = (0..THREADS).map(|_| context.zeroed(SIZE)).collect::<Verdict<Vec<_>>>()?;
    let in_threads = |work: &(dyn Fn(usize) -> Verdict + Sync)| {
        std::thread::scope(|scope| -> Verdict {
            let workers: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
            workers.into_iter().try_for_each(crate::outcome::join)
        })
    };
    let cycles = |count: u64| {
        in_threads(&|thread| pending_cycles::<S>(context, &*buffers[thread].0, &buffers[thread].1, thread, count))?;
        in_threads(&|_| device_cycles::<S>(context, count / 2))
    };
    // More streams at once than the cycles have: a backend may keep some for reuse.
    let streams = context.streams(4 * THREADS)?;
    drop(streams);
    cycles(CYCLES / 10)?;
    let (mut last, mut equal) = (None, 0);
    collect_until(context, |running, found| {
        let now = Some((running, found.descriptors, found.mappings));
        equal = if now == last { equal + 1 } else { 0 };
        last = now;
        equal == 5
    })?;
    let (mut before, running) = (ResourceSnapshot::at_rest()?, system::threads()?);
    for round in 1..=ROUNDS {
        cycles(CYCLES)?;
        collect_until(context, |now, found| now <= running && found.check_since(&before, SLACK).is_ok())?;
        let settled = if round < ROUNDS { ResourceSnapshot::settled_or_steady } else { ResourceSnapshot::settled };
        let after = settled(&before, SLACK, u64::MAX)?;
        match after.check_since(&before, SLACK) {
            Err(_) if round < ROUNDS => before = after,
            checked => {
                checked?;
                break;
            }
        }
    }
    let start = Instant::now();
    while system::threads()? > running {
        ensure!(start.elapsed() < WAIT_TIMEOUT, "threads grew from {running} to {}", system::threads()?);
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Collects until the number of threads and the resources are as wanted, for at most a fifth of a second: threads of streams
/// and bridges end some time after the objects that they serve, and objects dropped just before their stream was idle are
/// kept until the next collection.
fn collect_until(context: &Context, mut is_wanted: impl FnMut(usize, &ResourceSnapshot) -> bool) -> Verdict {
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(10));
        context.device().collect();
        if is_wanted(system::threads()?, &ResourceSnapshot::take()?) {
            break;
        }
    }
    Ok(())
}

const SIZE: usize = 256;

/// Timelines and streams of one device; with a bridge, waits are enqueued before their values. No memory is freed, no
/// device closed, and no semaphore destroyed while a stream waits for another one: these CUDA calls wait for every
/// stream of the GPU in this process, and hold a lock that the signalling thread may need.
fn pending_cycles<S: Strategy>(
    context: &Context,
    buffer: &dyn ExportedBuffer,
    mapped: &MappedBuffer,
    thread: usize,
    cycles: u64,
) -> Verdict {
    for cycle in 0..cycles {
        let shared = Shared::with::<S>(context.device(), context.exporter()?.timeline(0)?)?;
        let stream = context.stream()?;
        let byte = context.pattern().byte(thread as u64 * cycles + cycle);
        let early = S::STRATEGY == TimelineStrategy::Native;
        if early {
            shared.exporter.signal(1)?;
        }
        stream.wait_timeline(&shared.device, 1)?;
        stream.fill(mapped, byte)?;
        stream.signal_timeline(&shared.device, 2)?;
        if !early {
            shared.exporter.signal(1)?;
        }
        shared.exporter.wait(2, WAIT_TIMEOUT)?;
        if cycle % 10 == 0 {
            buffer.verify_all(byte, &format!("thread {thread}, cycle {cycle}: the data is missing"))?;
        }
    }
    Ok(())
}

/// A device for each timeline.
fn device_cycles<S: Strategy>(context: &Context, cycles: u64) -> Verdict {
    for _ in 0..cycles {
        let device = context.open_again()?;
        let shared = Shared::with::<S>(&device, context.exporter()?.timeline(0)?)?;
        let stream = device.create_stream()?;
        shared.exporter.signal(1)?;
        stream.wait_timeline(&shared.device, 1)?;
        stream.signal_timeline(&shared.device, 2)?;
        shared.exporter.wait(2, WAIT_TIMEOUT)?;
    }
    Ok(())
}
