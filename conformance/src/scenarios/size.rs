//! Sizes at the edges.

use crate::accounting::available_memory;
use crate::context::Context;
use crate::outcome::{Stop, Verdict};
use crate::scenario::scenarios;

scenarios! {
    "size.1_byte", Any, "One byte goes both ways.", one_byte;
    "size.page_less_1", Any, "4,095 bytes go both ways.", page_less_one;
    "size.2_mib_plus_1", Any, "2 MiB and one byte go both ways.", two_mib_plus_one;
    "size.1_gib", Any, "1 GiB goes both ways, every byte checked.", one_gib [alone], within 120 s;
}

fn both_ways(context: &Context, size: u64) -> Verdict {
    const CHUNK: u64 = 64 << 20;
    let buffer = context.buffer(size)?;
    let mapped = context.import(&*buffer)?;
    let stream = context.device().create_stream()?;
    let (there, back) = (context.pattern(), context.pattern().other());
    // In chunks, so that this process needs little memory beside the buffer itself.
    let mut bytes = vec![0; usize::try_from(size.min(CHUNK)).unwrap_or(0)];
    let chunks = || (0..size).step_by(1 << 26).map(|start| (start, (size - start).min(CHUNK)));
    for (start, length) in chunks() {
        let bytes = &mut bytes[..usize::try_from(length).unwrap_or(0)];
        there.fill(start, bytes);
        buffer.write(start, bytes)?;
    }
    for (start, length) in chunks() {
        let bytes = &mut bytes[..usize::try_from(length).unwrap_or(0)];
        let slice = mapped.slice(start..start + length)?;
        // What is left from before is just what should come: without this, a read of nothing would pass.
        bytes.fill(0);
        stream.read(slice, bytes)?;
        there.verify(start, bytes, "what the exporter wrote")?;
        back.fill(start, bytes);
        stream.write(slice, bytes)?;
    }
    for (start, length) in chunks() {
        let bytes = &mut bytes[..usize::try_from(length).unwrap_or(0)];
        bytes.fill(0);
        buffer.read(start, bytes)?;
        back.verify(start, bytes, "what the device wrote")?;
    }
    Ok(())
}

fn one_byte(context: &Context) -> Verdict {
    both_ways(context, 1)
}

fn page_less_one(context: &Context) -> Verdict {
    both_ways(context, 4095)
}

fn two_mib_plus_one(context: &Context) -> Verdict {
    both_ways(context, (2 << 20) + 1)
}

fn one_gib(context: &Context) -> Verdict {
    const NEEDED: u64 = 2 << 30;
    let available = available_memory()?;
    if available < NEEDED {
        let mib = available >> 20;
        return Err(Stop::Skipped(format!("needs 2 GiB of free memory; this machine has {mib} MiB")));
    }
    both_ways(context, 1 << 30)
}
