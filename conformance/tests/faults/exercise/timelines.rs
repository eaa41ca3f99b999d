//! Timelines, natively and over a bridge.

use std::sync::Arc;
use std::time::Duration;

use gpu_interop::host::HostSemaphore;
use gpu_interop::{ErrorKind, Result, Timeline, TimelineStrategy};

use super::bench::{Bench, seen};
use crate::driver::Vendor;
use crate::simulator::Sort;

const LONG: Duration = Duration::from_secs(5);

/// With the driver's own semaphores, or with the default strategy.
pub(super) fn native(bench: &Bench<'_>) -> Result<()> {
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
pub(super) fn bridge(bench: &Bench<'_>) -> Result<()> {
    let exporter = HostSemaphore::timeline(0)?;
    let strategy = TimelineStrategy::HostBridge;
    let timeline = Timeline::with_strategy(bench.device, Arc::new(exporter.clone()), strategy)?;
    bench.check(timeline.strategy() == strategy, "another strategy than was asked for");
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
    bench.check(seen(&file, 0) == [6; 8], "what came before the signal is not there after it");
    bench.closed(Sort::Streams, stream.close());
    Ok(())
}
