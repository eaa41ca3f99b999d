//! Orders in which exports, imports and frees of one allocation follow each other.

use super::{BRIEF, keeps_waiting};
use crate::context::Context;
use crate::ensure;
use crate::gate::Gate;
use crate::outcome::{Stop, Verdict, WAIT_TIMEOUT};
use crate::pattern::{Pattern, verify_bytes};
use crate::scenario::scenarios;
use crate::system;

scenarios! {
    "lifetime.exports_alive", Any,
        "Eight exports of one allocation are alive at once; some are dropped, the others are imported, the newest first, and \
         are the same memory.",
        exports_alive;
    "lifetime.import_replaced", Any,
        "An import is dropped and made again while its mapping has work pending: both mappings are the same memory.",
        import_replaced, needs [StreamMemoryOperations32];
    "lifetime.handle_duplicated", Any,
        "A duplicate of an exported handle imports the same memory, after the original was imported, and after it was closed.",
        handle_duplicated;
    "lifetime.freed_during_work", Any,
        "The exporter frees its memory while a stream works on the mapping, and allocates again: each has its own data.",
        freed_during_work, needs [StreamMemoryOperations32];
}

const SIZE: usize = 64 << 10;

fn exports_alive(context: &Context) -> Verdict {
    let (buffer, stream) = (context.buffer(SIZE as u64)?, context.stream()?);
    let mut pattern = context.pattern();
    let mut exports = (0..8).map(|_| buffer.import_request()).collect::<Verdict<Vec<_>>>()?;
    let mut mapped = Vec::new();
    while let Some(request) = exports.pop() {
        if exports.len() % 3 == 1 {
            drop(request);
            continue;
        }
        mapped.push(context.device().import_memory(request)?.map_buffer(0..SIZE as u64)?);
        // Written through the newest, found through each.
        if let Some(newest) = mapped.last() {
            stream.write(newest, &pattern.bytes(0, SIZE))?;
        }
        for (number, mapped) in mapped.iter().enumerate() {
            let what = format!("mapping {number}, with {} more exports alive", exports.len());
            pattern.verify(0, &context.read(&stream, mapped)?, &what)?;
        }
        buffer.verify(pattern, "the exporter's side of several imports")?;
        pattern = pattern.other();
    }
    ensure!(mapped.len() == 5, "{} of 8 exports were imported, instead of 5", mapped.len());
    Ok(())
}

fn import_replaced(context: &Context) -> Verdict {
    let (buffer, gate) = (context.written(SIZE)?, Gate::new(context)?);
    let (busy, stream) = (context.stream()?, context.stream()?);
    let mut pattern = context.pattern();
    for round in 0..10 {
        let mut memory = context.import_memory(&*buffer)?;
        let first = memory.map_buffer(0..SIZE as u64)?;
        gate.close(&busy)?;
        busy.fill(&first, 0x5a)?;
        // Assigned over the first import, which ends here.
        memory = context.import_memory(&*buffer)?;
        let second = memory.map_buffer(0..SIZE as u64)?;
        let what = |which| format!("round {round}, the {which} mapping");
        pattern.verify(0, &context.read(&stream, &second)?, what("second"))?;
        let other = pattern.other();
        stream.write(&second, &other.bytes(0, SIZE))?;
        other.verify(0, &context.read(&stream, &first)?, what("first"))?;
        keeps_waiting(&busy, BRIEF, format_args!("round {round}: the stream did not wait"))?;
        gate.open()?;
        busy.synchronize_timeout(WAIT_TIMEOUT)?;
        drop(memory);
        let found = context.read(&stream, &second)?;
        verify_bytes(&found, 0x5a, format_args!("round {round}: the first mapping's fill did not arrive"))?;
        stream.write(&first, &pattern.bytes(0, SIZE))?;
        buffer.verify(pattern, "written through the first mapping")?;
        pattern = other;
        buffer.put(pattern)?;
    }
    Ok(())
}

fn handle_duplicated(context: &Context) -> Verdict {
    let (buffer, stream) = (context.written(SIZE)?, context.stream()?);
    let mut pattern = context.pattern();
    for imports_original in [true, false] {
        let request = buffer.import_request()?;
        let handle = system::of_memory(request.handle());
        let handle = handle.ok_or_else(|| Stop::unsupported("this exporter's handles cannot be duplicated".into()))?;
        let duplicate = context.exporter()?.sent_memory(handle.try_clone_to_owned()?, request.size());
        let original = if imports_original {
            Some(context.device().import_memory(request)?.map_buffer(0..SIZE as u64)?)
        } else {
            drop(request);
            None
        };
        let mapped = context.device().import_memory(duplicate)?.map_buffer(0..SIZE as u64)?;
        let which = if imports_original { "imported" } else { "closed" };
        pattern.verify(0, &context.read(&stream, &mapped)?, format_args!("a duplicate of an {which} handle"))?;
        pattern = pattern.other();
        stream.write(&mapped, &pattern.bytes(0, SIZE))?;
        if let Some(original) = original {
            pattern.verify(
                0,
                &context.read(&stream, &original)?,
                "the original, after a write through its duplicate",
            )?;
        }
        buffer.verify(pattern, "the exporter's side, after a write through a duplicate")?;
    }
    Ok(())
}

/// The exporter frees an allocation with work pending on its mapping, and makes others of the same size, one of which may
/// get the memory.
fn freed_during_work(context: &Context) -> Verdict {
    let (gate, busy, stream) = (Gate::new(context)?, context.stream()?, context.stream()?);
    let (target, to) = context.shared(SIZE)?;
    for round in 0..10 {
        let pattern = Pattern::new(context.pattern().seed() ^ round);
        let buffer = context.buffer(SIZE as u64)?;
        buffer.put(pattern)?;
        target.write(0, &vec![0; SIZE])?;
        let mapped = context.import(&*buffer)?;
        gate.close(&busy)?;
        busy.copy(&to, &mapped)?;
        busy.fill(&mapped, 0x3c)?;
        drop(buffer);
        let later = pattern.other();
        let (again, mapped_again) = context.shared(SIZE)?;
        stream.write(&mapped_again, &later.bytes(0, SIZE))?;
        again.verify(later, &format!("round {round}: the new allocation"))?;
        keeps_waiting(&busy, BRIEF, format_args!("round {round}: the stream did not wait"))?;
        target.verify_all(0, &format!("round {round}: the copy did not wait"))?;
        gate.open()?;
        busy.synchronize_timeout(WAIT_TIMEOUT)?;
        target.verify(pattern, &format!("round {round}: a copy from memory that the exporter has freed"))?;
        let found = context.read(&stream, &mapped)?;
        verify_bytes(&found, 0x3c, format_args!("round {round}: the fill of the freed memory did not arrive"))?;
        again.verify(later, &format!("round {round}: the new allocation, after the fill of the freed one"))?;
        later.verify(0, &context.read(&stream, &mapped_again)?, format_args!("round {round}: its mapping"))?;
    }
    Ok(())
}
