//! Copy bandwidth of a device within memory of its own allocator, imported memory of Vulkan, and the library's
//! exportable memory.
//!
//! `imported` is a dedicated allocation of Vulkan, as large buffers should be. `not dedicated` shows the cost if they
//! are not: NVIDIA's driver 580 places these differently, and from 1.5 GiB on copies within them are 2 % slower,
//! regardless of the importer.
//!
//! Bytes are counted twice, read and written. The driver's own allocator is called directly; without such
//! a driver there is no comparison. All memory holds the same incompressible data:
//! constant words copy faster than the memory's bandwidth.

use std::time::{Duration, Instant};

use gpu_interop::{BufferSlice, Feature, Stream};
use gpu_interop_conformance::{Pattern, Verdict};

use super::machine::{Machine, Source, too_much};
use super::record::{Comparison, Quantity, Recorder};
use super::report::Limit;
use super::rounds::{Effort, Variant};
use super::sys::NativeMemory;

const RATE: Quantity = Quantity { suffix: "", unit: "GB/s" };
const LIMIT: Limit = Limit::AtLeast(0.99);
/// Size of the repeated block of data, bytes; a divisor of both sizes.
const BLOCK: u64 = 16 << 20;

/// Copies of `size` bytes, within memory of twice that.
pub(super) fn run(machine: &Machine, recorder: &mut Recorder, name: &str, size: u64) -> Verdict {
    // One copy is too short on a GPU, and long enough on a CPU.
    let copies = if machine.is_gpu() { 8 } else { 1 };
    let stream = &machine.stream;
    let rate = |taken: Duration| 2.0 * size as f64 * f64::from(copies) / taken.as_secs_f64() / 1e9;
    let block = Pattern::new(1).bytes(0, 16 << 20);
    let (dedicated, plain) = (Source::dedicated(machine, 2 * size, 0)?, Source::new(machine, 2 * size, 0)?);
    let imported = machine.device.import_memory(dedicated.request()?)?.map_buffer(0..2 * size)?;
    let not_dedicated = machine.device.import_memory(plain.request()?)?.map_buffer(0..2 * size)?;
    let exportable = match machine.device.capabilities().feature(Feature::ExportableMemory).reason() {
        None => Some(machine.device.allocate_exportable(2 * size).map_err(too_much)?),
        Some(_) => None,
    };
    let native = match recorder.side("every raw variant", &machine.raw) {
        Some(raw) => Some(NativeMemory::new(raw, 2 * size)?),
        None => None,
    };

    let imported = (imported.slice(..size)?, imported.slice(size..)?);
    fill(size, |at| Ok(stream.write(imported.0.slice(at..at + BLOCK)?, &block)?))?;
    let mut variants = vec![Variant::of_one("imported", || Ok(rate(copy(stream, imported.1, imported.0, copies)?)))];
    if matches!(plain, Source::Vulkan(_)) {
        let (low, high) = (not_dedicated.slice(..size)?, not_dedicated.slice(size..)?);
        fill(size, |at| Ok(stream.write(low.slice(at..at + BLOCK)?, &block)?))?;
        variants.push(Variant::of_one("not dedicated", move || Ok(rate(copy(stream, high, low, copies)?))));
    }
    if let Some(memory) = &exportable {
        let (low, high) = (memory.slice(..size)?, memory.slice(size..2 * size)?);
        fill(size, |at| Ok(stream.write(low.slice(at..at + BLOCK)?, &block)?))?;
        variants.push(Variant::of_one("exportable", move || Ok(rate(copy(stream, high, low, copies)?))));
    }
    if let Some(memory) = &native {
        fill(size, |at| memory.write(at, &block))?;
        variants.push(Variant::of_one("native", || Ok(rate(memory.copy_halves(stream, copies)?))));
    }
    let comparisons = [
        Comparison::new(0, "imported", "native").limit(LIMIT),
        Comparison::new(0, "exportable", "native").limit(LIMIT),
        Comparison::new(0, "not dedicated", "native"),
    ];
    let effort = Effort { most: 300, least: 5, ..Effort::within(Duration::from_secs(2)) };
    recorder.measure(name, effort, &[RATE], &mut variants, &comparisons)?;

    let mut found = vec![0; block.len()];
    stream.read(imported.1.slice(size - BLOCK..)?, &mut found)?;
    Pattern::new(1).verify(0, &found, "the last block copied within imported memory")
}

/// Writes every block of `size` bytes.
fn fill(size: u64, mut write: impl FnMut(u64) -> Verdict) -> Verdict {
    (0..size / BLOCK).try_for_each(|index| write(index * BLOCK))
}

/// Copies and blocks until the copy has completed.
fn copy(stream: &Stream, target: BufferSlice<'_>, source: BufferSlice<'_>, copies: u32) -> Verdict<Duration> {
    let start = Instant::now();
    for _ in 0..copies {
        stream.copy(target, source)?;
    }
    stream.synchronize()?;
    Ok(start.elapsed())
}
