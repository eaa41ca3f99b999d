//! Nothing grows.

use crate::accounting::Holdings;
use crate::context::Context;
use crate::outcome::Verdict;
use crate::scenario::scenarios;
use crate::{ensure, ensure_eq};

scenarios! {
    "accounting.10000_cycles", Any,
        "10,000 cycles of import, map, verify, close leave descriptors and mappings equal and memory within 4 MiB.",
        ten_thousand_cycles, within 120 s;
    "accounting.streams_and_events", None, "1,000 streams and events come and go without a trace.", streams_and_events;
}

fn ten_thousand_cycles(context: &Context) -> Verdict {
    const SIZE: usize = 4096;
    let buffer = context.buffer(SIZE as u64)?;
    let pattern = context.pattern();
    buffer.write(0, &pattern.bytes(0, SIZE))?;
    let stream = context.device().create_stream()?;
    let mut found = vec![0; SIZE];
    let mut cycles = |count: u32| -> Verdict {
        for cycle in 0..count {
            let memory = context.device().import_memory(buffer.import_request()?)?;
            let mapped = memory.map_buffer(0, SIZE as u64)?;
            stream.read(&mapped, &mut found)?;
            pattern.verify(0, &found, &format!("cycle {cycle}"))?;
            mapped.close()?;
            memory.close()?;
        }
        Ok(())
    };
    cycles(100)?;
    let before = Holdings::now()?;
    cycles(10_000)?;
    let after = Holdings::now()?;
    ensure_eq!(after.descriptors, before.descriptors, "open descriptors");
    ensure_eq!(after.mappings, before.mappings, "mapped regions");
    let grown = after.resident.saturating_sub(before.resident);
    ensure!(grown < 4 << 20, "resident memory grew by {grown} bytes");
    Ok(())
}

fn streams_and_events(context: &Context) -> Verdict {
    let cycles = |count: u32| -> Verdict {
        for _ in 0..count {
            let stream = context.device().create_stream()?;
            let event = context.device().create_event()?;
            stream.record(&event)?;
            stream.synchronize()?;
            ensure!(event.is_complete()?, "an event is not complete after its stream was synchronised");
        }
        Ok(())
    };
    cycles(10)?;
    let before = Holdings::now()?;
    cycles(1000)?;
    // A stream's thread may still be ending.
    for _ in 0..100 {
        if Holdings::now()?.mappings <= before.mappings {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let after = Holdings::now()?;
    ensure_eq!(after.descriptors, before.descriptors, "open descriptors");
    let grown = after.resident.saturating_sub(before.resident);
    ensure!(grown < 8 << 20, "resident memory grew by {grown} bytes");
    Ok(())
}
