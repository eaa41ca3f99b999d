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
/// Limit relative to the cost beside a single import. A cost proportional to the number would exceed it by far.
const GROWTH: Limit = Limit::AtMost(1.2);
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
        let effort = Effort::within(Duration::from_secs(1));
        recorder.measure(
            &format!("{name}.{level}"),
            effort,
            &PLACES.map(|place| STEPS[place]),
            &mut variants,
            &comparisons,
        )?;
    }
    let most = levels.last().copied().unwrap_or(1);
    for (variant, limit) in [("library", Some(GROWTH)), ("raw", None), ("cudarc", None)] {
        let all = |level| recorder.median(&format!("{name}.{level}{}", STEPS[ALL].suffix), variant);
        if let (Some(many), Some(one)) = (all(most), all(1)) {
            recorder.compare(format!("{name}{} {variant}: {most} live/1 live", STEPS[ALL].suffix), many, one, limit);
        }
    }
    Ok(())
}
