//! The driver's own memory, which must not be imported as another API's.

use super::Rows;
use crate::raw_cuda::{OPAQUE_FD, RawCall};
use crate::scenario::scenarios;
use crate::{Context, Verdict, ensure};

scenarios! {
    all need [driver RawCalls];
    "misbehaviour.native_memory", None,
        "512 MiB exported by the driver itself import as native memory; importing them as another API's memory crashes \
         some drivers.",
        native, needs [ExportableMemory];
}

/// The size from which the driver crashes on hosts with two GPUs, bytes.
const SIZE: u64 = 512 << 20;
/// The length of the checked ranges at its beginning and its end, bytes.
const PART: usize = 64 << 10;

fn native(context: &Context) -> Verdict {
    let mut rows = Rows::new(context)?;
    let device = context.device();
    let memory = device.allocate_exportable(SIZE)?;
    let request = memory.import_request()?;
    ensure!(request.is_native(), "the device's export lacks the native flag");
    let raw = rows.with_memory(&RawCall::ImportMemory { kind: OPAQUE_FD, size: request.size(), flags: 0 }, &request)?;
    let library = || {
        let imported = device.import_memory(request)?;
        let (stream, part) = (device.create_stream()?, PART as u64);
        let last = SIZE - part;
        let (pattern, other) = (context.pattern(), context.pattern().other());
        for (offset, pattern) in [(0, &pattern), (last, &other)] {
            stream.write(memory.slice(offset..offset + part)?, &pattern.bytes(0, PART))?;
            let mapped = imported.map_buffer(offset..offset + part)?;
            pattern.verify(0, &context.read(&stream, &mapped)?, "data through the import")?;
            let back = pattern.other().other();
            stream.write(&mapped, &back.bytes(0, PART))?;
            let mut found = vec![0; PART];
            stream.read(memory.slice(offset..offset + part)?, &mut found)?;
            back.verify(0, &found, "data written through the import")?;
        }
        imported.close()?;
        Ok("imported as native memory: data right at both ends, both ways".to_owned())
    };
    rows.row("import 512 MiB that the driver itself exported as another API's memory", raw, library())?;
    if rows.raw.is_running() {
        rows.hand_on();
    }
    Ok(())
}
