//! Work of streams: events, host functions, kernels, semaphores, graphs and timelines; and objects dropped while it is
//! pending.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use gpu_interop::backend::RawStream;
use gpu_interop::host::HostSemaphore;
use gpu_interop::{ErrorKind, Feature, KernelArg, LaunchConfig, Result, Timeline, TimelineStrategy};
use gpu_interop_kernels::{FILL_PATTERN, INCREMENT, pattern_word};

use crate::exercise::bench::{Bench, Gate, seen};
use crate::simulator::{ObjectKind, Vendor};

const LONG: Duration = Duration::from_secs(5);

/// One stream waits for another's work.
pub(super) fn streams_and_events(bench: &Bench<'_>) -> Result<()> {
    let (buffer, file) = bench.buffer()?;
    let (first, second) = (bench.device.create_stream()?, bench.device.create_stream()?);
    let event = bench.device.create_event()?;
    bench.check(event.is_complete()?, "an event that was never recorded is not complete");
    // Opened before the objects are dropped if one of the calls below fails.
    let gate = Gate::default();
    gate.hold(&first)?;
    first.fill(buffer.slice(..8)?, 3)?;
    first.record(&event)?;
    second.wait_event(&event)?;
    second.copy(buffer.slice(8..16)?, buffer.slice(..8)?)?;
    // The first query after new work proves nothing on HIP.
    second.is_idle()?;
    std::thread::sleep(Duration::from_millis(5));
    bench.check(!event.is_complete()? && !second.is_idle()?, "held work has run");
    gate.open();
    first.synchronize()?;
    second.synchronize()?;
    // Idle by now, because the number of queries of a busy stream depends on timing.
    second.synchronize_timeout(LONG)?;
    bench.check(event.is_complete()? && first.is_idle()?, "work that was waited for has not run");
    bench.check(seen(&file, 8) == [3; 8], "the second stream did not wait for the first");
    bench.closed(ObjectKind::Streams, first.close());
    drop((event, second));
    // More streams than share AMD's hardware queues: the others get separate queues.
    let streams = (0..5).map(|_| bench.device.create_stream()).collect::<Result<Vec<_>>>()?;
    for (stream, value) in streams.iter().zip(40..) {
        stream.fill(buffer.slice(..8)?, value)?;
        stream.synchronize()?;
        bench.check(seen(&file, 0) == [value; 8], "a stream beyond the first has not run");
    }
    Ok(())
}

/// Host functions, called once or never.
pub(super) fn host_functions(bench: &Bench<'_>) -> Result<()> {
    let calls = Arc::new(AtomicU32::new(0));
    let result = count(bench, &calls);
    // Called or not, the function's captures are dropped.
    bench.check(result.is_err() || calls.load(Ordering::SeqCst) == 2, "host functions were not each called once");
    let held = || Arc::strong_count(&calls) > 1;
    for _ in 0..1000 {
        if !held() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    bench.check(!held(), "objects captured by a host function were not dropped");
    result
}

fn count(bench: &Bench<'_>, calls: &Arc<AtomicU32>) -> Result<()> {
    let stream = bench.device.create_stream()?;
    for _ in 0..2 {
        let calls = calls.clone();
        stream.launch_host_function(move || {
            calls.fetch_add(1, Ordering::SeqCst);
        })?;
    }
    stream.synchronize()
}

/// The default stream and a borrowed stream, which are never destroyed.
pub(super) fn lent_streams(bench: &Bench<'_>) -> Result<()> {
    // Dropped last: while the driver's queries fail, a lent stream stays in use until an event has completed, and the
    // drop of the buffer may record another one.
    let owner = bench.device.create_stream()?;
    let (buffer, file) = bench.buffer()?;
    let before = bench.live().of(ObjectKind::Streams);
    for (raw, value) in [(RawStream::new(0), 1), (owner.as_raw(), 2)] {
        // SAFETY: the default stream is always live; the other one is until this function ends, and idle by then.
        let lent = unsafe { bench.device.stream_from_raw(raw) }?;
        lent.fill(buffer.slice(..4)?, value)?;
        lent.synchronize()?;
        bench.check(seen(&file, 0) == [value; 4], "a lent stream does not do its work");
        bench.closed(ObjectKind::Streams, lent.close());
    }
    bench.check(bench.live().of(ObjectKind::Streams) == before, "a lent stream was destroyed");
    Ok(())
}

/// A kernel fills memory; a kernel that the module lacks is rejected by the driver.
pub(super) fn kernels(bench: &Bench<'_>) -> Result<()> {
    const WORDS: u64 = 8;
    const SEED: u32 = 77;
    let Some(image) = bench.vendor.kernels(bench.device) else {
        bench.fact("kernels", "none for this architecture".into());
        return Ok(());
    };
    bench.fact("kernels", "those of the architecture".into());
    let module = bench.device.load_module(image)?;
    let kernel = module.kernel(FILL_PATTERN.name)?;
    let (buffer, file) = bench.buffer()?;
    let stream = bench.device.create_stream()?;
    let arguments = [KernelArg::Ptr(buffer.as_raw()), KernelArg::U64(WORDS), KernelArg::U32(SEED)];
    // SAFETY: the kernel's own arguments; the buffer has that many words, and lives until the kernel has run.
    unsafe { stream.launch(&kernel, &LaunchConfig::linear(WORDS), &arguments) }?;
    let done = stream.synchronize();
    // An address does not keep the buffer alive.
    bench.settle();
    done?;
    let expected: Vec<u8> = (0..WORDS).flat_map(|index| pattern_word(SEED, index).to_le_bytes()).collect();
    bench.check(seen::<32>(&file, 0)[..] == expected[..], "the kernel has another result");
    // The module is unloaded with its last kernel.
    drop(module);
    drop(kernel);
    unknown_kernel(bench)
}

/// The driver's own failure without a fault, which shows its names for codes.
fn unknown_kernel(bench: &Bench<'_>) -> Result<()> {
    const NOT_FOUND: i64 = 500;
    let Some(image) = bench.vendor.kernels(bench.device) else { return Ok(()) };
    bench.check(bench.device.capabilities().feature(Feature::Kernels).is_supported(), "a module without kernels");
    match bench.device.load_module(image)?.kernel(c"no_such_kernel") {
        Ok(_) => bench.wrong("there is a kernel that there is not"),
        Err(error) if error.code().is_some_and(|code| code.value == NOT_FOUND) => {
            bench.check(
                error.kind() == ErrorKind::InvalidArgument,
                "a missing kernel is not reported as an invalid argument",
            );
            bench.fact("an answer of the driver", error.to_string());
        }
        Err(error) => return Err(error),
    }
    let module = bench.device.load_module(image)?;
    let nameless = module.kernel(c"").map(drop).map_err(|error| (error.kind(), error.code().is_some()));
    bench.check(
        nameless == Err((ErrorKind::InvalidArgument, false)),
        "the driver is called for a kernel without a name",
    );
    Ok(())
}

/// Signals and waits, one by one and in batches.
pub(super) fn semaphores(bench: &Bench<'_>) -> Result<()> {
    let (timeline, binary) = (HostSemaphore::timeline(0)?, HostSemaphore::binary()?);
    if bench.vendor == Vendor::Hip {
        // The runtime's functions abort the process, or have no effect.
        match bench.device.import_semaphore(timeline.import_request()?) {
            Err(error) => bench.check(error.kind() == ErrorKind::Unsupported, &format!("not a refusal: {error}")),
            Ok(_) => bench.wrong("imported a semaphore that does nothing"),
        }
        return Ok(());
    }
    let stream = bench.device.create_stream()?;
    let counter = bench.import_semaphore(timeline.import_request()?)?;
    let flag = bench.import_semaphore(binary.import_request()?)?;
    // Signalled before any wait, so that no wait is infinite.
    stream.signal(&[counter.signal_value(1)])?;
    stream.wait(&[counter.wait_value(1)])?;
    stream.signal(&[flag.signal()])?;
    stream.wait(&[flag.wait()])?;
    stream.signal(&[counter.signal_value(2), flag.signal()])?;
    stream.wait(&[counter.wait_value(2), flag.wait()])?;
    stream.signal(&[flag.signal()])?;
    stream.synchronize()?;
    let reached = timeline.wait_value(2, LONG).is_ok() && timeline.value() == 2;
    bench.check(reached && binary.wait(LONG).is_ok(), "the exporter does not see the signals");
    // The exporter's part.
    timeline.signal_value(3)?;
    stream.wait(&[counter.wait_value(3)])?;
    stream.synchronize()?;
    bench.closed(ObjectKind::Semaphores, counter.close());
    drop(flag);
    Ok(())
}

/// Copies and fills, and one abandoned recording.
pub(super) fn graphs(bench: &Bench<'_>) -> Result<()> {
    if !bench.has(Feature::Graphs, || bench.device.record(|_| Ok(()))) {
        return Ok(());
    }
    let stream = bench.device.create_stream()?;
    let ((from, from_file), (to, to_file)) = (bench.buffer()?, bench.buffer()?);
    let graph = bench.device.record(|stream| {
        stream.copy(to.slice(..64)?, from.slice(..64)?)?;
        stream.fill(from.slice(..64)?, 3)
    })?;
    // Past the end: the graph is never made.
    let given_up = bench.device.record(|stream| {
        stream.fill(&from, 1)?;
        stream.fill(from.slice(5000..)?, 1)
    });
    match given_up {
        Err(error) if error.kind() == ErrorKind::InvalidArgument && error.code().is_none() => {}
        Err(error) => return Err(error),
        Ok(_) => bench.wrong("a graph of a fill past the end"),
    }
    stream.fill(from.slice(..64)?, 2)?;
    graph.launch(&stream)?;
    stream.synchronize()?;
    bench.check(seen(&to_file, 0) == [2; 64] && seen(&from_file, 0) == [3; 64], "a graph has another result");
    // The objects that it uses are dropped first.
    drop(from);
    bench.closed(ObjectKind::Mappings, to.close());
    graph.launch(&stream)?;
    stream.synchronize()?;
    bench.check(seen(&to_file, 0) == [3; 64], "a graph has another result when it is launched again");
    bench.closed_graph(graph.close());
    Ok(())
}

/// Signals and waits with replaced values.
pub(super) fn graph_semaphores(bench: &Bench<'_>) -> Result<()> {
    if bench.vendor == Vendor::Hip {
        return Ok(());
    }
    let timeline = HostSemaphore::timeline(1)?;
    let counter = bench.import_semaphore(timeline.import_request()?)?;
    let stream = bench.device.create_stream()?;
    let record = || {
        bench.device.record(|stream| {
            stream.wait(&[counter.wait_value(1)])?;
            stream.signal(&[counter.signal_value(2)])
        })
    };
    if !bench.has(Feature::GraphSemaphores, record) {
        return Ok(());
    }
    let graph = record()?;
    graph.launch(&stream)?;
    graph.set_waits(0, &[counter.wait_value(2)])?;
    graph.set_signals(0, &[counter.signal_value(3)])?;
    graph.launch(&stream)?;
    stream.synchronize()?;
    bench.check(timeline.wait_value(3, LONG).is_ok(), "the exporter does not see what a graph signals");
    drop((counter, graph));
    Ok(())
}

/// With the driver's own semaphores, or with the default strategy.
pub(super) fn native_timelines(bench: &Bench<'_>) -> Result<()> {
    bench.fact("timelines", bench.device.timeline_support().to_string());
    let exporter = HostSemaphore::timeline(0)?;
    if bench.vendor == Vendor::Hip {
        match Timeline::with_strategy(bench.device, Arc::new(exporter), TimelineStrategy::Native) {
            Err(error) => bench.check(error.kind() == ErrorKind::Unsupported, &format!("not a refusal: {error}")),
            Ok(_) => bench.wrong("imported a timeline that does nothing"),
        }
        return Ok(());
    }
    // The bridge's waiter, if the driver rejects the import.
    let timeline = Timeline::new(bench.device, Arc::new(exporter.clone()))?;
    there_and_back(bench, &exporter, &timeline)
}

/// With words in memory, which a thread carries.
pub(super) fn bridged_timelines(bench: &Bench<'_>) -> Result<()> {
    let exporter = HostSemaphore::timeline(0)?;
    let strategy = TimelineStrategy::HostBridge;
    let timeline = Timeline::with_strategy(bench.device, Arc::new(exporter.clone()), strategy)?;
    bench.check(timeline.strategy() == strategy, "another strategy than requested");
    there_and_back(bench, &exporter, &timeline)
}

/// A stream waits for the exporter, and the exporter for the stream.
fn there_and_back(bench: &Bench<'_>, exporter: &HostSemaphore, timeline: &Timeline) -> Result<()> {
    let (buffer, file) = bench.buffer()?;
    let stream = bench.device.create_stream()?;
    stream.wait_timeline(timeline, 1)?;
    let work = stream.fill(buffer.slice(..8)?, 6).and_then(|()| stream.signal_timeline(timeline, 2));
    // In any case the stream stops waiting, so that the next section starts clean. On a lost device the stream may not
    // have waited, and may be ahead.
    let let_go = exporter.signal_value(1);
    let synchronized = stream.synchronize();
    work.and(synchronized)?;
    let_go?;
    timeline.wait(2, LONG)?;
    bench.check(timeline.value()? == 2, "the timeline has another value than the stream signalled");
    bench.check(seen(&file, 0) == [6; 8], "data from before the signal is missing after it");
    bench.closed(ObjectKind::Streams, stream.close());
    Ok(())
}

/// One object of each kind is dropped; none is freed before the work has completed.
pub(super) fn pending(bench: &Bench<'_>) -> Result<()> {
    // If every query of a stream fails, an object of an earlier section may be freed here, which waits for all streams.
    // With a fault that does not last, a second attempt would not meet it.
    let dropped = drop_used(bench)? || (bench.has_lasting_fault && drop_used(bench)?);
    bench.check(dropped, "a drop waited for pending work");
    Ok(())
}

/// `false` if the work did not stay pending until all objects were dropped.
fn drop_used(bench: &Bench<'_>) -> Result<bool> {
    // Objects of other sections do not count.
    bench.settle();
    bench.device.collect();
    let stream = bench.device.create_stream()?;
    let ((buffer, file), exportable) = (bench.buffer()?, bench.device.allocate_exportable(64)?);
    let kernel = match bench.vendor.kernels(bench.device) {
        Some(image) => Some(bench.device.load_module(image)?.kernel(INCREMENT.name)?),
        None => None,
    };
    let semaphore = match bench.vendor {
        Vendor::Cuda => Some(bench.import_semaphore(HostSemaphore::binary()?.import_request()?)?),
        Vendor::Hip => None,
    };
    // Opened before the objects are dropped if one of the calls below fails.
    let gate = Gate::default();
    gate.hold(&stream)?;
    stream.fill(buffer.slice(..64)?, 0)?;
    stream.fill(exportable.slice(..64)?, 9)?;
    stream.copy(buffer.slice(64..128)?, exportable.slice(..64)?)?;
    if let Some(kernel) = &kernel {
        let arguments = [KernelArg::Ptr(buffer.as_raw()), KernelArg::U64(2)];
        // SAFETY: the kernel's own arguments; the buffer, which the fill marks as used, is kept until it has run.
        unsafe { stream.launch(kernel, &LaunchConfig::linear(2), &arguments) }?;
    }
    if let Some(semaphore) = &semaphore {
        stream.signal(&[semaphore.signal()])?;
    }
    let before = bench.live();
    bench.closed(ObjectKind::Mappings, buffer.close());
    bench.closed_allocation(exportable.close());
    let has_kernel = kernel.is_some();
    drop((kernel, semaphore));
    let sorts = [
        ObjectKind::Imports,
        ObjectKind::Mappings,
        ObjectKind::Descriptors,
        ObjectKind::Reservations,
        ObjectKind::Modules,
        ObjectKind::Semaphores,
    ];
    let after = bench.live();
    let was_pending = !gate.has_expired();
    if was_pending && sorts.iter().any(|kind| after.of(*kind) != before.of(*kind)) {
        bench.wrong(format!("objects were freed that pending work uses: {before:?}, then {after:?}"));
    }
    gate.open();
    bench.settle();
    stream.synchronize()?;
    let mut bytes = [0; 128];
    assert_eq!(rustix::io::pread(&file, &mut bytes[..], 0).expect("a memory file"), 128);
    bench.check(bytes[64..] == [9; 64], "pending work has another result");
    bench.check(!has_kernel || bytes[..8] == [1, 0, 0, 0, 1, 0, 0, 0], "a pending kernel has another result");
    // A stream dropped with pending work.
    let again = Gate::default();
    again.hold(&stream)?;
    bench.closed(ObjectKind::Streams, stream.close());
    bench.check(!again.has_expired(), "the drop of a stream waited for its work");
    again.open();
    bench.settle();
    Ok(was_pending)
}

/// A blocking copy returns, with success or an error, only when the copy no longer runs, because its memory is the
/// caller's.
pub(super) fn read(bench: &Bench<'_>) -> Result<()> {
    let (buffer, _) = bench.buffer()?;
    let stream = bench.device.create_stream()?;
    stream.fill(&buffer, 4)?;
    stream.launch_host_function(|| std::thread::sleep(Duration::from_micros(300)))?;
    let mut bytes = [0; 64];
    let result = stream.read(buffer.slice(..64)?, &mut bytes);
    bench.check(result.is_err() || bytes == [4; 64], "a read has another result");
    if bytes != [4; 64] {
        // Never enqueued, or still pending until now.
        bench.settle();
        let late = std::hint::black_box(&bytes) != &[0; 64];
        bench.check(!late, "a blocking copy returned while it was pending");
    }
    result
}
