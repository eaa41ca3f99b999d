//! What an import costs beside many others: 1 to 10,000, of 64 KiB each.
//!
//! All are imports of one allocation, exported anew each time, because Vulkan drivers limit allocations (4096 is usual)
//! and not exports. They are held through the library and mapped, so that the driver and the library both have to cope
//! with their number. Each level measures the import and the whole cycle of `memory.64KiB`.

use std::time::Duration;

use gpu_interop::MappedBuffer;
use gpu_interop_conformance::Verdict;

use super::machine::{Machine, Source};
use super::memory::{self, ALL, IMPORT, STEPS};
use super::record::{Comparison, Recorder};
use super::report::Limit;
use super::rounds::Effort;

const LEVELS: [usize; 5] = [1, 10, 100, 1000, 10_000];
/// Of the steps, these.
const PLACES: [usize; 2] = [IMPORT, ALL];
const SIZE: u64 = 64 << 10;
const WORD: u32 = 0x5EED_CAFE;
/// Not more than this of the cost beside a single one: what grows with the number shows by far more.
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
        let comparisons = [Comparison::new(1, "library", "raw").limit(OVERHEAD)];
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
    for (variant, limit) in [("library", Some(GROWTH)), ("raw", None)] {
        let all = |level| recorder.median(&format!("{name}.{level}{}", STEPS[ALL].suffix), variant);
        if let (Some(many), Some(one)) = (all(most), all(1)) {
            recorder.compare(format!("{name}{} {variant}: {most} live/1 live", STEPS[ALL].suffix), many, one, limit);
        }
    }
    Ok(())
}
