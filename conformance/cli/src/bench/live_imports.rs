//! The cost of an import beside 1 to 10,000 live ones of 64 KiB each.
//!
//! All import one allocation, exported again for each, because Vulkan drivers limit allocations (usually to 4096),
//! not exports. The library holds and maps them, so that both driver and library manage
//! all of them. Each level measures the import and the whole cycle of `memory.64KiB`.

use std::time::Duration;

use gpu_interop::MappedBuffer;
use gpu_interop_conformance::Verdict;

use super::machine::{Machine, Source};
use super::memory::{self, ALL, IMPORT, STEPS};
use super::record::{Comparison, Recorder};
use super::report::Limit;
use super::rounds::Effort;

const LEVELS: [usize; 5] = [1, 10, 100, 1000, 10_000];
/// The measured steps.
const PLACES: [usize; 2] = [IMPORT, ALL];
const SIZE: u64 = 64 << 10;
const WORD: u32 = 0x5EED_CAFE;
/// Limit relative to the cost beside a single import, where the driver is not measured alone. A cost proportional to the
/// number would exceed it by far.
const GROWTH: Limit = Limit::AtMost(1.2);
/// Limit relative to the driver alone. The driver's own cost grows by 1.13 to 1.24 on H100 machines.
const OVERHEAD: Limit = Limit::AtMost(1.05);

pub(super) fn run(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    let source = Source::new(machine, SIZE, WORD)?;
    let mut live: Vec<MappedBuffer> = Vec::new();
    let levels = if recorder.quick { &LEVELS[..4] } else { &LEVELS[..] };
    for &level in levels {
        while live.len() < level {
            live.push(machine.device.import_memory(source.request()?)?.map_buffer(0..SIZE)?);
        }
        let variants = memory::variants(machine, recorder, &source, SIZE)?;
        let mut variants: Vec<_> = variants.into_iter().map(|variant| variant.only(&PLACES)).collect();
        let comparisons = [
            Comparison::new(1, "library", "raw").limit(OVERHEAD),
            Comparison::new(1, "library", "cudarc").limit(memory::UNCHECKED_PEER),
        ];
        let effort = Effort::within(Duration::from_secs(1)).on_a_free_core();
        recorder.measure(
            &format!("{name}.{level}"),
            effort,
            &PLACES.map(|place| STEPS[place]),
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
    // Of ratios, because medians of different levels may be those of different processors.
    let ratio = |level| recorder.ratio(&format!("{name}.{level}{suffix} library/raw"));
    if let Some((many, one)) = ratio(most).zip(ratio(1)) {
        recorder.compare(format!("{name}{suffix} library/raw: {most} live/1 live"), many, one, Some(OVERHEAD));
    }
    Ok(())
}
