//! The reverse direction: memory of the device, exported, and imported again.

use gpu_interop::Result;

use super::bench::{Bench, memory_request};
use crate::simulator::Sort;

/// Data written to one is read from the other, also after the first is freed.
pub(super) fn exportable(bench: &Bench<'_>) -> Result<()> {
    const SIZE: u64 = 100;
    let memory = bench.device.allocate_exportable(SIZE)?;
    bench.check(memory.size() >= SIZE, "less memory than was asked for");
    let handle = memory.export()?;
    let stream = bench.device.create_stream()?;
    stream.fill(memory.slice(..SIZE)?, 0x33)?;
    stream.synchronize()?;
    let imported = bench.import(memory_request(handle, memory.size()))?;
    let buffer = imported.map_buffer(0..SIZE)?;
    bench.closed_allocation(memory.close());
    let mut bytes = vec![0; 100];
    stream.read(&buffer, &mut bytes)?;
    bench.check(bytes == [0x33; 100], "exported memory is not the memory that was written");
    drop(imported);
    bench.closed(Sort::Mappings, buffer.close());
    // Uses the driver's own import, if it has one.
    let memory = bench.device.allocate_exportable(SIZE)?;
    stream.fill(memory.slice(..SIZE)?, 0x44)?;
    let native = bench.import(memory.import_request()?)?;
    let buffer = native.map_buffer(0..SIZE)?;
    let read = stream.read(&buffer, &mut bytes);
    bench.closed_allocation(memory.close());
    bench.closed(Sort::Mappings, buffer.close());
    // That import is also an allocation.
    if bench.device.backend().name == "cuda" {
        bench.closed_allocation(native.close());
    } else {
        bench.closed(Sort::Imports, native.close());
    }
    read?;
    bench.check(bytes == [0x44; 100], "native memory is not the memory that was written");
    // An allocation that is only dropped.
    bench.device.allocate_exportable(SIZE).map(drop)
}
