//! 1,000 buffers of 64 KiB: cut from a heap, imported one by one, and created by Vulkan alone.
//!
//! All of a round's buffers live at the same time. Exports of the imported memory are outside the measured time, in
//! favour of the imports.

use std::time::{Duration, Instant};

use gpu_interop::vulkan::{BufferOptions, ExportableBuffer, SharedHeap, SharedHeapOptions};
use gpu_interop_conformance::{Stop, Verdict, ensure};

use super::machine::{Machine, Source, TRANSFER, too_much};
use super::memory::fd_of;
use super::record::{Comparison, Quantity, Recorder};
use super::report::Limit;
use super::rounds::{Effort, Variant};
use super::sys::{RawImport, bound_buffers};

const COUNT: u32 = 1000;
const SIZE: u64 = 64 << 10;
const WORD: u32 = 0x5EED_CAFE;

const QUANTITIES: [Quantity; 2] =
    [Quantity { suffix: ".allocate", unit: "ns" }, Quantity { suffix: ".free", unit: "ns" }];
const ALLOCATE: usize = 0;

/// Limit of the driver's imports relative to the heap.
const FASTER: Limit = Limit::AtLeast(20.0);
/// Greatest cost of a buffer of the heap in addition to its Vulkan side, nanoseconds.
const MAX_ADDED_COST: f64 = 3000.0;

pub(super) fn run(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    let context = machine.graphics_queue()?;
    let (interop, device) = (context.interop(), &machine.device);
    let source = Source::new(machine, SIZE, WORD)?;
    let heap = SharedHeap::new(interop, device, &SharedHeapOptions::new(TRANSFER)).map_err(too_much)?;
    verify(machine, &heap)?;
    let whole = BufferOptions::new(u64::from(COUNT) * SIZE, TRANSFER);
    let whole = ExportableBuffer::new(interop, &whole).map_err(too_much)?;

    let mut variants = Vec::new();
    if let Some(raw) = recorder.side("every raw variant", &machine.raw) {
        let source = &source;
        variants.push(Variant::new("raw", move || {
            let import = |request| {
                let (fd, request) = fd_of(request)?;
                let start = Instant::now();
                let mut import = RawImport::new(raw, fd, request.size, request.dedicated)?;
                import.map(SIZE)?;
                Ok((start.elapsed(), import))
            };
            timed(|| import(source.request()?))
        }));
    }
    variants.push(Variant::new("imports", || {
        timed(|| {
            let request = source.request()?;
            let start = Instant::now();
            let mapped = device.import_memory(request)?.map_buffer(0..SIZE)?;
            Ok((start.elapsed(), mapped))
        })
    }));
    variants.push(Variant::new("heap", || {
        timed(|| {
            let start = Instant::now();
            let buffer = heap.allocate(SIZE)?;
            Ok((start.elapsed(), buffer))
        })
    }));
    variants.push(Variant::new("vulkan", || {
        let taken = bound_buffers(&whole, COUNT, SIZE)?;
        Ok(taken.map(|taken| Some(each(taken))).to_vec())
    }));
    let limit = |limit| machine.is_gpu().then_some(limit);
    let comparisons = [
        Comparison { limit: limit(FASTER), ..Comparison::new(ALLOCATE, "raw", "heap") },
        Comparison::new(ALLOCATE, "imports", "heap"),
        Comparison::new(ALLOCATE, "heap", "vulkan"),
    ];
    recorder.measure(name, Effort::within(Duration::from_secs(3)), &QUANTITIES, &mut variants, &comparisons)?;
    ensure!(heap.usage().blocks == 1 && heap.usage().buffers == 0, "the heap has grown: {:?}", heap.usage());
    let allocate = format!("{name}{}", QUANTITIES[ALLOCATE].suffix);
    if let (Some(ours), Some(vulkan)) = (recorder.median(&allocate, "heap"), recorder.median(&allocate, "vulkan")) {
        recorder.compare(
            format!("{allocate} (heap - vulkan)/3 µs"),
            (ours - vulkan).max(0.0),
            MAX_ADDED_COST,
            limit(Limit::AtMost(1.0)),
        );
    }
    Ok(())
}

/// The device's words arrive at Vulkan, in the first and in the last buffer of a round.
fn verify(machine: &Machine, heap: &SharedHeap) -> Verdict {
    let context = machine.graphics_queue()?;
    let buffers = (0..COUNT).map(|_| heap.allocate(SIZE)).collect::<Result<Vec<_>, _>>()?;
    for buffer in buffers.first().into_iter().chain(buffers.last()) {
        context.release(buffer.buffer())?;
        machine.stream.fill_u32(buffer, WORD)?;
        machine.stream.synchronize()?;
        context.acquire(buffer.buffer())?;
        let mut found = vec![0; usize::try_from(SIZE)?];
        context.download(buffer.buffer(), 0, &mut found)?;
        ensure!(found.chunks(4).all(|word| word == WORD.to_ne_bytes()), "the device's words did not arrive at Vulkan");
    }
    Ok(())
}

/// Makes the buffers of a round, which `make` times itself, and frees them.
fn timed<T>(mut make: impl FnMut() -> Verdict<(Duration, T)>) -> Verdict<Vec<Option<f64>>> {
    let mut taken = Duration::ZERO;
    let mut live = Vec::with_capacity(usize::try_from(COUNT).map_err(|error| Stop::failed(error.to_string()))?);
    for _ in 0..COUNT {
        let (duration, made) = make()?;
        taken += duration;
        live.push(made);
    }
    let start = Instant::now();
    drop(live);
    Ok(vec![Some(each(taken)), Some(each(start.elapsed()))])
}

/// Nanoseconds a buffer.
fn each(taken: Duration) -> f64 {
    taken.as_secs_f64() * 1e9 / f64::from(COUNT)
}
