//! Objects dropped while pending work uses them, and calls that must not return before the work completes.

use std::time::Duration;

use gpu_interop::host::HostSemaphore;
use gpu_interop::{KernelArg, LaunchConfig, Result};
use gpu_interop_kernels::INCREMENT;

use super::bench::Bench;
use super::gate::Gate;
use crate::driver::Vendor;
use crate::simulator::Sort;

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
    bench.closed(Sort::Mappings, buffer.close());
    bench.closed_allocation(exportable.close());
    let has_kernel = kernel.is_some();
    drop((kernel, semaphore));
    let sorts = [Sort::Imports, Sort::Mappings, Sort::Descriptors, Sort::Reservations, Sort::Modules, Sort::Semaphores];
    let after = bench.live();
    let was_pending = !gate.has_expired();
    if was_pending && sorts.iter().any(|sort| after.of(*sort) != before.of(*sort)) {
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
    bench.closed(Sort::Streams, stream.close());
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
