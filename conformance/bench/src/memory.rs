//! Import, map, unmap and destruction: each step and their sum.
//!
//! Each import has a new descriptor, exported outside the measured time and owned by the import, as both the
//! driver and the library require. (The library gives the driver a duplicate, so that a failed import can return the
//! descriptor; that is part of its cost.)

use std::time::{Duration, Instant};

use gpu_interop::{Device, MappedBuffer, MemoryImport};
use gpu_interop_conformance::{Stop, Verdict, ensure_eq};

use crate::machine::{Machine, Source};
use crate::record::{Comparison, Quantity, Recorder};
use crate::report::Limit;
use crate::rounds::{Effort, Variant};
use crate::sys::{Cudarc, RawCuda, RawImport, Steps, backend_cycle};

/// Consecutive imports in each round of each variant, to reduce the weight of switching variants.
const IN_A_ROW: u32 = 4;
const WORD: u32 = 0x5EED_CAFE;

pub(super) const STEPS: [Quantity; 6] = [
    Quantity { suffix: ".import", unit: "ns" },
    Quantity { suffix: ".map", unit: "ns" },
    Quantity { suffix: ".free", unit: "ns" },
    Quantity { suffix: ".destroy", unit: "ns" },
    Quantity { suffix: ".free_and_destroy", unit: "ns" },
    Quantity { suffix: ".all", unit: "ns" },
];
/// Index of the import in [`STEPS`].
const IMPORT: usize = 0;
/// Index of the sum in [`STEPS`].
pub(super) const ALL: usize = 5;
const LIMIT: Limit = Limit::AtMost(1.05);
/// Relative to `cudarc`, which checks nothing before the driver and keeps no record of the streams that use the memory.
const UNCHECKED_PEER: Limit = Limit::AtMost(1.05);

/// Memory of one size.
pub(super) fn run(machine: &Machine, recorder: &mut Recorder, name: &str, size: u64) -> Verdict {
    let source = Source::new(machine, size, WORD)?;
    let mut variants = variants(machine, recorder, &source, size)?;
    let comparisons = [
        Comparison::new(ALL, "library", "raw").limit(LIMIT),
        Comparison::new(ALL, "library", "cudarc").limit(UNCHECKED_PEER),
        Comparison::new(ALL, "cudarc", "raw"),
        Comparison::new(ALL, "library", "backend"),
    ];
    recorder.measure(name, Effort::within(Duration::from_secs(2)).on_a_free_core(), &STEPS, &mut variants, &comparisons)
}

/// The variants of every machine, verified to map the exporter's data: the library and its backend layer, and with
/// CUDA's driver raw calls and `cudarc`.
pub(super) fn variants<'a>(
    machine: &'a Machine,
    recorder: &mut Recorder,
    source: &'a Source,
    size: u64,
) -> Verdict<Vec<Variant<'a>>> {
    let device = &machine.device;
    let mut word = [0; 4];
    let mapped = device.import_memory(source.request()?)?.map_buffer(0..size)?;
    machine.stream.read(mapped.slice(size - 4..)?, &mut word)?;
    mapped.close()?;
    ensure_eq!(u32::from_ne_bytes(word), WORD, "the exporter's last word, imported by the library");
    let mut variants = Vec::new();
    if let Some(raw) = recorder.side("every raw variant", &machine.raw) {
        let (fd, request) = fd_of(source.request()?)?;
        let mut import = RawImport::new(raw, fd, request.size, request.dedicated)?;
        import.map(size)?;
        ensure_eq!(import.last_word()?, WORD, "the exporter's last word, imported by hand");
        variants.push(Variant::new("raw", move || in_a_row(|| raw_cycle(raw, source.request()?, size))));
    }
    variants.push(Variant::new("backend", move || in_a_row(|| backend_cycle(device, source.request()?, size))));
    variants.push(Variant::new("library", move || in_a_row(|| library_cycle(device, source.request()?, size))));
    if let Some(cudarc) = recorder.side("every cudarc variant", &machine.cudarc) {
        let (fd, request) = fd_of(source.request()?)?;
        ensure_eq!(cudarc.last_word(fd, request.size)?, WORD, "the exporter's last word, imported by cudarc");
        variants.push(Variant::new("cudarc", move || in_a_row(|| cudarc_cycle(cudarc, source.request()?))));
    }
    Ok(variants)
}

/// Size and dedicated flag of an import.
pub(super) struct Exported {
    pub(super) size: u64,
    pub(super) dedicated: bool,
}

pub(super) fn fd_of(request: MemoryImport) -> Verdict<(std::os::fd::OwnedFd, Exported)> {
    let exported = Exported { size: request.size(), dedicated: request.is_dedicated() };
    let fd = request.into_handle().into_fd();
    Ok((fd.map_err(|_| Stop::failed("the exporter's handle is no descriptor".into()))?, exported))
}

fn library_cycle(device: &Device, request: MemoryImport, size: u64) -> Verdict<Steps> {
    let start = Instant::now();
    let memory = device.import_memory(request)?;
    let imported = Instant::now();
    let buffer = memory.map_buffer(0..size)?;
    let mapped = Instant::now();
    buffer.close()?;
    let freed = Instant::now();
    memory.close()?;
    Ok(Steps::between([start, imported, mapped, freed, Instant::now()]))
}

fn raw_cycle(raw: &RawCuda, request: MemoryImport, size: u64) -> Verdict<Steps> {
    let (fd, exported) = fd_of(request)?;
    let start = Instant::now();
    let mut memory = RawImport::new(raw, fd, exported.size, exported.dedicated)?;
    let imported = Instant::now();
    memory.map(size)?;
    let mapped = Instant::now();
    memory.free()?;
    let freed = Instant::now();
    memory.destroy()?;
    Ok(Steps::between([start, imported, mapped, freed, Instant::now()]))
}

fn cudarc_cycle(cudarc: &Cudarc, request: MemoryImport) -> Verdict<Steps> {
    let (fd, exported) = fd_of(request)?;
    cudarc.cycle(fd, exported.size)
}

/// The mean of a few consecutive imports, nanoseconds a step.
fn in_a_row(mut cycle: impl FnMut() -> Verdict<Steps>) -> Verdict<Vec<Option<f64>>> {
    let mut sums = [Some(0.0); STEPS.len()];
    for _ in 0..IN_A_ROW {
        let steps = cycle()?;
        let (free, destroy) = steps.free_and_destroy.unzip();
        let times = [Some(steps.import), Some(steps.map), free, destroy, Some(steps.release), Some(total(&steps))];
        for (sum, time) in sums.iter_mut().zip(times) {
            *sum = sum.zip(time).map(|(sum, time)| sum + time.as_secs_f64() * 1e9 / f64::from(IN_A_ROW));
        }
    }
    Ok(sums.to_vec())
}

fn total(steps: &Steps) -> Duration {
    steps.import + steps.map + steps.release
}

const LEVELS: [usize; 5] = [1, 10, 100, 1000, 10_000];
/// The measured steps.
const LIVE_STEPS: [usize; 2] = [IMPORT, ALL];
const LIVE_SIZE: u64 = 64 << 10;
/// Limit relative to the cost with a single live import, where the driver is not measured alone. A cost proportional to the
/// number would exceed it by far.
const GROWTH: Limit = Limit::AtMost(1.2);
/// Limit relative to the driver alone. The driver's own cost grows by 1.13 to 1.24 on H100 machines.
const LIVE_OVERHEAD: Limit = Limit::AtMost(1.05);

/// The cost of an import while 1 to 10,000 imports of 64 KiB each are live.
///
/// All import one allocation, exported again for each, because Vulkan drivers limit allocations (usually to 4096),
/// not exports. The library holds and maps them, so that both driver and library manage
/// all of them. Each level measures the import and the whole cycle of `memory.64KiB`.
pub(super) fn live_imports(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    let source = Source::new(machine, LIVE_SIZE, WORD)?;
    let mut live: Vec<MappedBuffer> = Vec::new();
    let levels = if recorder.quick { &LEVELS[..4] } else { &LEVELS[..] };
    for &level in levels {
        while live.len() < level {
            live.push(machine.device.import_memory(source.request()?)?.map_buffer(0..LIVE_SIZE)?);
        }
        let variants = variants(machine, recorder, &source, LIVE_SIZE)?;
        let mut variants: Vec<_> = variants.into_iter().map(|variant| variant.only(&LIVE_STEPS)).collect();
        let comparisons = [
            Comparison::new(1, "library", "raw").limit(LIVE_OVERHEAD),
            Comparison::new(1, "library", "cudarc").limit(UNCHECKED_PEER),
        ];
        let effort = Effort::within(Duration::from_secs(1)).on_a_free_core();
        recorder.measure(
            &format!("{name}.{level}"),
            effort,
            &LIVE_STEPS.map(|step| STEPS[step]),
            &mut variants,
            &comparisons,
        )?;
    }
    let most = levels.last().copied().unwrap_or(1);
    let suffix = STEPS[ALL].suffix;
    let costs = |recorder: &Recorder, variant| {
        let all = |level| recorder.median(&format!("{name}.{level}{suffix}"), variant);
        all(most).zip(all(1))
    };
    let [library, raw, cudarc] = ["library", "raw", "cudarc"].map(|variant| costs(recorder, variant));
    let alone = raw.is_none().then_some(GROWTH);
    for (variant, costs, limit) in [("library", library, alone), ("raw", raw, None), ("cudarc", cudarc, None)] {
        if let Some((many, one)) = costs {
            recorder.compare(format!("{name}{suffix} {variant}: {most} live/1 live"), many, one, limit);
        }
    }
    // A ratio of ratios, because medians of different levels may be those of different processors.
    let ratio = |level| recorder.ratio(&format!("{name}.{level}{suffix} library/raw"));
    if let Some((many, one)) = ratio(most).zip(ratio(1)) {
        recorder.compare(format!("{name}{suffix} library/raw: {most} live/1 live"), many, one, Some(LIVE_OVERHEAD));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_averaged_and_add_up() {
        let mut rounds = 0;
        let values = in_a_row(|| {
            rounds += 1;
            let ns = |count: u64| Duration::from_nanos(count * rounds);
            Ok(Steps { import: ns(10), map: ns(20), free_and_destroy: Some((ns(3), ns(4))), release: ns(7) })
        });
        // The mean of 1, 2, 3 and 4.
        let expected = [10.0, 20.0, 3.0, 4.0, 7.0, 37.0].map(|ns| ns * 2.5);
        for (value, expected) in values.expect("values").into_iter().zip(expected) {
            assert!((value.expect("a value") - expected).abs() < 1e-6, "{value:?} {expected}");
        }
        let joined = in_a_row(|| {
            let ns = Duration::from_nanos;
            Ok(Steps { import: ns(1), map: ns(1), free_and_destroy: None, release: ns(1) })
        });
        let known: Vec<bool> = joined.expect("values").iter().map(Option::is_some).collect();
        assert_eq!(known, [true, true, false, false, true, true]);
    }
}
