//! External semaphores, created by the host backend.

use std::time::Duration;

use gpu_interop::host::HostSemaphore;
use gpu_interop::{ErrorKind, Result};

use super::bench::Bench;
use crate::driver::Vendor;
use crate::simulator::Sort;

const LONG: Duration = Duration::from_secs(5);

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
    bench.closed(Sort::Semaphores, counter.close());
    drop(flag);
    Ok(())
}
