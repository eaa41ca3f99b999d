//! Invalid mappings, and imports that are destroyed too early or twice.

use gpu_interop::{ArrayFormat, ArrayShape, ChannelType, ErrorKind, MipmappedArrayDesc};

use super::super::expect_error;
use super::super::import_request::{prepared, works};
use super::{Rows, before_the_driver};
use crate::context::Context;
use crate::outcome::Verdict;
use crate::raw_cuda::RawCall;
use crate::scenario::scenarios;

scenarios! {
    all need [driver RawCalls];
    "misbehaviour.map_range", Any,
        "Empty mappings and mappings past the end are rejected before the driver is called; an unaligned one shows the right \
         bytes.",
        map_range, mirrors("hip-tests: hipExternalMemoryGetMappedBuffer_Vulkan_Negative_Parameters");
    "misbehaviour.mip_levels", Any,
        "20 levels and 0 levels, which crashed the driver, are rejected before it is called.", mip_levels,
        mirrors("hip-tests: hipExternalMemoryGetMappedMipmappedArray_Vulkan_Negative_Parameters");
    "misbehaviour.destroy_memory", Any,
        "Memory closed while mapped lives as long as the mapping, and cannot be closed twice.", destroy_memory,
        mirrors("hip-tests: hipDestroyExternalMemory_Vulkan_Negative_Parameters");
}

fn map_range(context: &Context) -> Verdict {
    let mut rows = Rows::new(context)?;
    let buffer = prepared(context)?;
    let request = buffer.import_request()?;
    let size = request.size();
    rows.with_memory(&RawCall::KeepMemory { size }, &request)?;
    let memory = context.device().import_memory(request)?;

    let raw = rows.call(&RawCall::MapBuffer { offset: 4, size: 1000, flags: 0 })?.text;
    let library = || {
        let mapped = memory.map_buffer(4..1004)?;
        let stream = context.stream()?;
        context.pattern().verify(4, &context.read(&stream, &mapped)?, "1,000 bytes from offset 4")?;
        Ok("accepted; these bytes and no others".into())
    };
    rows.row("map 1,000 bytes from offset 4", raw, library())?;

    for (what, offset, length) in [("map a size of 0", 0, 0), ("map from the end", size, 1)] {
        let raw = rows.call(&RawCall::MapBuffer { offset, size: length, flags: 0 })?.text;
        let refusal = expect_error(memory.map_buffer(offset..offset + length), ErrorKind::InvalidArgument, "the range");
        rows.row(what, raw, refusal.and_then(|error| before_the_driver(&error)))?;
    }
    let raw = rows.call(&RawCall::MapBuffer { offset: 0, size, flags: 1 })?.text;
    rows.row("map with a flag", raw, Ok("has no type: there is no flag".into()))?;
    rows.hand_on();
    Ok(())
}

fn mip_levels(context: &Context) -> Verdict {
    let mut rows = Rows::new(context)?;
    // Enough for all levels of 256 x 128 texels.
    let buffer = context.buffer(1 << 20)?;
    let request = buffer.import_request()?;
    rows.with_memory(&RawCall::KeepMemory { size: request.size() }, &request)?;
    let memory = context.device().import_memory(request)?;
    let shape = ArrayShape::D2 { width: 256, height: 128 };
    let desc = MipmappedArrayDesc::new(shape, ArrayFormat::new(ChannelType::Uint8, 4)?);
    for levels in [20, 0] {
        rows.replace_lost_process(|rows| {
            let request = buffer.import_request()?;
            rows.with_memory(&RawCall::KeepMemory { size: request.size() }, &request)
        })?;
        let raw = rows.call(&RawCall::MapMipmappedArray { levels })?.text;
        let mapped = memory.map_mipmapped_array(&desc.with_levels(levels));
        let refusal = expect_error(mapped, ErrorKind::InvalidArgument, "the number of levels");
        rows.row(
            &format!("map an array of 256 x 128 texels with {levels} levels"),
            raw,
            refusal.and_then(|error| before_the_driver(&error)),
        )?;
    }
    memory.close()?;
    rows.end()
}

fn destroy_memory(context: &Context) -> Verdict {
    let mut rows = Rows::new(context)?;
    let buffer = prepared(context)?;
    let request = buffer.import_request()?;
    let size = request.size();
    rows.with_memory(&RawCall::KeepMemory { size }, &request)?;
    let raw = rows.call(&RawCall::DestroyWhileMapped)?.text;
    // Only the process filled the first page.
    buffer.put(context.pattern())?;
    let library = || {
        let memory = context.device().import_memory(request)?;
        let mapped = memory.map_buffer(0..8192)?;
        memory.close()?;
        let stream = context.stream()?;
        context.pattern().verify(0, &context.read(&stream, &mapped)?, "data after the import was closed")?;
        mapped.close()?;
        Ok("accepted; the import ends with its last mapping, which has the right data until then".into())
    };
    rows.row("destroy memory while it is mapped", raw, library())?;

    rows.with_memory(&RawCall::KeepMemory { size }, &buffer.import_request()?)?;
    let raw = rows.call(&RawCall::DestroyTwice)?.text;
    let library = || {
        context.import_memory(&*buffer)?.close()?;
        works(context, buffer.import_request()?)?;
        Ok("has no type: closing takes the object away; the exporter's memory imports again".into())
    };
    rows.row("destroy memory twice", raw, library())?;
    rows.end()
}
