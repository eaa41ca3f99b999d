//! Streams, events, host functions, and streams of the application's own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use gpu_interop::Result;
use gpu_interop::backend::RawStream;

use super::bench::{Bench, seen};
use super::gate::Gate;
use crate::simulator::Sort;

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
    bench.closed(Sort::Streams, first.close());
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
    // Dropped last: while the driver's queries fail, a lent stream stays in use until an event has completed, and the drop
    // of the buffer may record another one.
    let owner = bench.device.create_stream()?;
    let (buffer, file) = bench.buffer()?;
    let before = bench.live().of(Sort::Streams);
    for (raw, value) in [(RawStream::new(0), 1), (owner.as_raw(), 2)] {
        // SAFETY: the default stream is always live; the other one is until this function ends, and idle by then.
        let lent = unsafe { bench.device.stream_from_raw(raw) }?;
        lent.fill(buffer.slice(..4)?, value)?;
        lent.synchronize()?;
        bench.check(seen(&file, 0) == [value; 4], "a lent stream does not do its work");
        bench.closed(Sort::Streams, lent.close());
    }
    bench.check(bench.live().of(Sort::Streams) == before, "a lent stream was destroyed");
    Ok(())
}
