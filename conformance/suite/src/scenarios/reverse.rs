//! The reverse direction: the other API imports memory of the device.

use gpu_interop::ExportableMemory;

use crate::context::Context;
use crate::exporter::BufferAccess;
use crate::leak_check::leak_check;
use crate::outcome::Verdict;
use crate::pattern::{Pattern, verify_bytes};
use crate::request;
use crate::scenario::scenarios;

scenarios! {
    all need [ExportableMemory, exporter Imports];
    "reverse.read", Any, "The other API reads the device's data in memory that the device exported.", read;
    "reverse.write", Any, "The device reads the other API's data in memory that the device exported.", write;
    "reverse.round_trip", Any, "Data goes back and forth 10 times in memory that the device exported.", round_trip,
        mirrors("cuda-samples: simpleVulkanMMAP");
    "reverse.freed_first", Any, "The other API keeps memory that the device has freed.", freed_first;
    "reverse.cycles", Any, "200 cycles of allocation, export and import leak nothing.", cycles;
}

const SIZE: usize = 1 << 20;

/// Memory of the device, and the other API's import of it.
fn shared(context: &Context) -> Verdict<(ExportableMemory, Box<dyn BufferAccess>)> {
    let memory = context.device().allocate_exportable(SIZE as u64)?;
    let identity = context.device().identity().clone();
    let request = request::memory(memory.export()?, memory.size()).exported_by(identity);
    let imported = context.exporter()?.import(request, SIZE as u64)?;
    Ok((memory, imported))
}

fn device_writes(context: &Context, memory: &ExportableMemory, pattern: Pattern) -> Verdict {
    let stream = context.stream()?;
    Ok(stream.write(memory.slice(..SIZE as u64)?, &pattern.bytes(0, SIZE))?)
}

fn device_reads(context: &Context, memory: &ExportableMemory, pattern: Pattern, what: &str) -> Verdict {
    let mut found = vec![0; SIZE];
    context.stream()?.read(memory.slice(..SIZE as u64)?, &mut found)?;
    pattern.verify(0, &found, what)
}

fn other_reads(imported: &dyn BufferAccess, pattern: Pattern, what: &str) -> Verdict {
    imported.verify(pattern, what)
}

fn read(context: &Context) -> Verdict {
    let (memory, imported) = shared(context)?;
    for pattern in [context.pattern(), context.pattern().other()] {
        device_writes(context, &memory, pattern)?;
        other_reads(&*imported, pattern, "the device's data")?;
    }
    Ok(())
}

fn write(context: &Context) -> Verdict {
    let (memory, imported) = shared(context)?;
    for pattern in [context.pattern(), context.pattern().other()] {
        imported.write(0, &pattern.bytes(0, SIZE))?;
        device_reads(context, &memory, pattern, "the other API's data")?;
    }
    Ok(())
}

fn round_trip(context: &Context) -> Verdict {
    let (memory, imported) = shared(context)?;
    let (there, back) = (context.pattern(), context.pattern().other());
    for round in 0..10 {
        device_writes(context, &memory, there)?;
        other_reads(&*imported, there, &format!("round {round}, to the other API"))?;
        imported.write(0, &back.bytes(0, SIZE))?;
        device_reads(context, &memory, back, &format!("round {round}, back"))?;
    }
    Ok(())
}

fn freed_first(context: &Context) -> Verdict {
    let (memory, imported) = shared(context)?;
    let (there, back) = (context.pattern(), context.pattern().other());
    device_writes(context, &memory, there)?;
    memory.close()?;
    other_reads(&*imported, there, "the device's data before it freed the memory")?;
    imported.write(0, &back.bytes(0, SIZE))?;
    other_reads(&*imported, back, "the other API's data afterwards")
}

fn cycles(context: &Context) -> Verdict {
    let stream = context.stream()?;
    leak_check(200, |round| {
        let (memory, imported) = shared(context)?;
        let value = round.to_le_bytes()[0] | 1;
        stream.fill(memory.slice(..4096)?, value)?;
        stream.synchronize()?;
        let mut found = [0; 4096];
        imported.read(0, &mut found)?;
        verify_bytes(&found, value, format_args!("round {round}: the other API does not see the fill"))?;
        drop(imported);
        Ok(memory.close()?)
    })
}
