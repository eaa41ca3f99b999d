//! Graphs: captured once, launched several times, with semaphores if supported.

use std::time::Duration;

use gpu_interop::host::HostSemaphore;
use gpu_interop::{ErrorKind, Feature, Result};

use super::bench::{Bench, seen};
use crate::driver::Vendor;
use crate::simulator::Sort;

const LONG: Duration = Duration::from_secs(5);

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
    bench.closed(Sort::Mappings, to.close());
    graph.launch(&stream)?;
    stream.synchronize()?;
    bench.check(seen(&to_file, 0) == [3; 64], "a graph has another result when it is launched again");
    bench.closed_graph(graph.close());
    Ok(())
}

/// Signals and waits with replaced values.
pub(super) fn semaphores(bench: &Bench<'_>) -> Result<()> {
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
