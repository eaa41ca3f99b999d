//! Mappings of ranges of imported memory.

use gpu_interop::{ErrorKind, Feature, WaitCondition};

use super::expect_error;
use crate::context::Context;
use crate::exporter::BufferSpec;
use crate::outcome::{Verdict, WAIT_TIMEOUT};
use crate::pattern::compare;
use crate::scenario::scenarios;
use crate::{ensure, ensure_eq};

scenarios! {
    "map.size_zero", Any, "A mapping of 0 bytes is rejected; other mappings still work.", size_zero;
    "map.past_end", Any, "Mappings that begin or end past the import are rejected.", past_end,
        mirrors("hip-tests: hipExternalMemoryGetMappedBuffer_Vulkan_Negative_Parameters");
    "map.overflow", Any, "Ranges that overflow are rejected.", overflow,
        mirrors("hip-tests: hipExternalMemoryGetMappedBuffer_Vulkan_Negative_Parameters");
    "map.offsets", Any, "Mappings at offsets 1, 4, 256, 4096 and 65536 show exactly the bytes there.",
        |context| at_offsets(context, BufferSpec::new(SIZE as u64)),
        mirrors("hip-tests: hipExternalMemoryGetMappedBuffer_Vulkan_Positive_Read_Write_With_Offset");
    "map.dedicated_offsets", Any, "Mappings at the same offsets of a dedicated allocation show exactly the bytes there.",
        |context| at_offsets(context, BufferSpec { dedicated: true, ..BufferSpec::new(SIZE as u64) }),
        needs [exporter Dedicated];
    "map.sub_range_guards", Any, "A write through a partial mapping leaves every byte around it unchanged.",
        sub_range_guards;
    "map.slices", Any, "Slices of a mapping address exactly their bytes; slices past its end are rejected.", slices;
    "map.work_at_offsets", Any,
        "Copies, fills and words through mappings at offsets read and change exactly the bytes there.", work_at_offsets;
    "map.twice", Any, "A range mapped twice is the same memory; each mapping ends by itself.", twice;
    "map.overlapping", Any, "Overlapping mappings see each other's writes.", overlapping;
    "map.copies_within", Any, "A copy within a buffer moves its bytes; an overlapping one is rejected and moves none.",
        copies_within;
}

const SIZE: usize = 256 << 10;

fn size_zero(context: &Context) -> Verdict {
    let memory = context.import_memory(&*context.buffer(4096)?)?;
    for offset in [0, 1, 4095, 4096] {
        expect_error(memory.map_buffer(offset..offset), ErrorKind::InvalidArgument, "a mapping of 0 bytes")?;
    }
    ensure_eq!(memory.map_buffer(0..1)?.size(), 1, "the size of a mapping of one byte");
    Ok(())
}

fn past_end(context: &Context) -> Verdict {
    let memory = context.import_memory(&*context.buffer(4096)?)?;
    let size = memory.size();
    for range in
        [0..size + 1, 1..size + 1, size..size + 1, size + 1..size + 2, size - 1..size + 1, size * 1024..size * 1025]
    {
        let mapped = memory.map_buffer(range.clone());
        let text = expect_error(mapped, ErrorKind::InvalidArgument, "a range past the end")?.to_string();
        let named = |number: u64| text.contains(&number.to_string());
        ensure!(named(range.start) && named(range.end) && named(size), "the text lacks the range or the size: {text}");
    }
    memory.map_buffer(size - 1..size)?;
    Ok(())
}

fn overflow(context: &Context) -> Verdict {
    let memory = context.import_memory(&*context.buffer(4096)?)?;
    for (start, end) in [(u64::MAX, 0), (u64::MAX, u64::MAX - 1), (1, 0), (4096, 0)] {
        expect_error(memory.map_buffer(start..end), ErrorKind::InvalidArgument, "a range that overflows")?;
    }
    Ok(())
}

fn at_offsets(context: &Context, spec: BufferSpec) -> Verdict {
    let buffer = context.exporter()?.buffer(spec)?;
    let pattern = context.pattern();
    buffer.put(pattern)?;
    let memory = context.import_memory(&*buffer)?;
    let stream = context.stream()?;
    for offset in [1, 4, 256, 4096, 65536] {
        for length in [1, 3, 4096, 70_000] {
            let mapped = memory.map_buffer(offset..offset + length)?;
            ensure_eq!((mapped.offset(), mapped.size()), (offset, length), "the mapping's range");
            pattern.verify(offset, &context.read(&stream, &mapped)?, format_args!("{length} bytes at {offset}"))?;
        }
    }
    Ok(())
}

fn sub_range_guards(context: &Context) -> Verdict {
    let buffer = context.buffer(SIZE as u64)?;
    let (before, written) = (context.pattern(), context.pattern().other());
    let memory = context.import_memory(&*buffer)?;
    let stream = context.stream()?;
    for (offset, length) in [(1_u64, 1_usize), (4096, 4096), (5, 100_003), (65536, 65536), (SIZE as u64 - 7, 7)] {
        buffer.put(before)?;
        let mapped = memory.map_buffer(offset..offset + length as u64)?;
        stream.write(&mapped, &written.bytes(offset, length))?;
        let found = buffer.contents()?;
        let what = format!("{length} bytes at {offset}");
        let start = usize::try_from(offset).unwrap_or(0);
        before.verify(0, &found[..start], format_args!("the bytes before {what}"))?;
        written.verify(offset, &found[start..start + length], &what)?;
        let end = start + length;
        before.verify(end as u64, &found[end..], format_args!("the bytes after {what}"))?;
    }
    Ok(())
}

fn slices(context: &Context) -> Verdict {
    let (buffer, pattern) = (context.written(SIZE)?, context.pattern());
    let mapped = context.import(&*buffer)?;
    let stream = context.stream()?;
    let inner = mapped.slice(1000..9000)?;
    let mut found = vec![0; 4000];
    stream.read(inner.slice(500..4500)?, &mut found)?;
    pattern.verify(1500, &found, "a slice of a slice")?;
    expect_error(mapped.slice(SIZE as u64..), ErrorKind::InvalidArgument, "an empty slice")?;
    expect_error(mapped.slice(..=SIZE as u64), ErrorKind::InvalidArgument, "a slice past the end")?;
    expect_error(inner.slice(..8001), ErrorKind::InvalidArgument, "a slice past its slice")?;
    expect_error(stream.read(inner, &mut found), ErrorKind::InvalidArgument, "a read into too little space")?;
    Ok(())
}

fn twice(context: &Context) -> Verdict {
    let buffer = context.buffer(SIZE as u64)?;
    let pattern = context.pattern();
    let memory = context.import_memory(&*buffer)?;
    let stream = context.stream()?;
    let first = memory.map_buffer(0..SIZE as u64)?;
    let second = memory.map_buffer(0..SIZE as u64)?;
    stream.write(&first, &pattern.bytes(0, SIZE))?;
    pattern.verify(0, &context.read(&stream, &second)?, "the first mapping's data")?;
    first.close()?;
    let other = pattern.other();
    stream.write(&second, &other.bytes(0, SIZE))?;
    second.close()?;
    buffer.verify(other, "the second mapping's data after the first had ended")
}

fn overlapping(context: &Context) -> Verdict {
    let buffer = context.buffer(SIZE as u64)?;
    let (a, b) = (context.pattern(), context.pattern().other());
    let memory = context.import_memory(&*buffer)?;
    let stream = context.stream()?;
    // Bytes 0..128 KiB and 64..192 KiB.
    let low = memory.map_buffer(0..128 << 10)?;
    let high = memory.map_buffer(64 << 10..192 << 10)?;
    stream.write(&low, &a.bytes(0, 128 << 10))?;
    stream.write(&high, &b.bytes(0, 128 << 10))?;
    let seen = context.read(&stream, &low)?;
    a.verify(0, &seen[..64 << 10], "the range of the low mapping alone")?;
    b.verify(0, &seen[64 << 10..], "the shared range, through the low mapping")?;
    let found = buffer.contents()?;
    b.verify(0, &found[64 << 10..192 << 10], "the high mapping's bytes, on the exporter's side")
}

fn work_at_offsets(context: &Context) -> Verdict {
    const HALF: u64 = SIZE as u64 / 2;
    let (buffer, pattern) = (context.buffer(SIZE as u64)?, context.pattern());
    let mut expected = pattern.bytes(0, SIZE);
    buffer.write(0, &expected)?;
    let memory = context.import_memory(&*buffer)?;
    let stream = context.stream()?;
    let words = context.device().capabilities().feature(Feature::StreamMemoryOperations32).is_supported();
    let check = |expected: &[u8], what: &str| -> Verdict {
        stream.synchronize()?;
        let found = buffer.contents()?;
        let wrong = found.iter().zip(expected).position(|(found, expected)| found != expected);
        ensure!(wrong.is_none(), "{what}: byte {wrong:?} of the memory is wrong");
        Ok(())
    };
    for (offset, length) in [(4_u64, 64_usize), (4096, 4096), (65_536, 12), (70_000, 20_004), (HALF - 64, 64)] {
        let start = usize::try_from(offset).unwrap_or(SIZE);
        let [here, there] = [start..start + length, start + SIZE / 2..start + SIZE / 2 + length];
        let mapped = memory.map_buffer(offset..offset + length as u64)?;
        let other = memory.map_buffer(HALF + offset..HALF + offset + length as u64)?;
        let what = |work: &str| format!("{work} of {length} bytes at {offset}");
        let bytes = pattern.other().bytes(offset, length);
        stream.write(&mapped, &bytes)?;
        expected[here.clone()].copy_from_slice(&bytes);
        check(&expected, &what("a copy from the host"))?;
        stream.copy(&other, &mapped)?;
        expected[there.clone()].copy_from_slice(&bytes);
        check(&expected, &what("a copy to the same offset of the other half"))?;
        stream.fill(&mapped, 0x5a)?;
        expected[here.clone()].fill(0x5a);
        check(&expected, &what("a fill"))?;
        stream.fill_u32(&other, 0x0403_0201)?;
        expected[there.clone()].chunks_mut(4).for_each(|word| word.copy_from_slice(&0x0403_0201_u32.to_ne_bytes()));
        check(&expected, &what("a fill with words"))?;
        if words {
            stream.wait_value_u32(other.slice(..4)?, 0x0403_0201, WaitCondition::Equal)?;
            stream.write_value_u32(mapped.slice(..4)?, 0x0807_0605)?;
            stream.synchronize_timeout(WAIT_TIMEOUT)?;
            expected[here.start..here.start + 4].copy_from_slice(&0x0807_0605_u32.to_ne_bytes());
            check(&expected, &what("a wait for a word and a write of one, the first"))?;
        }
        for (mapping, range) in [(&mapped, here), (&other, there)] {
            compare(&context.read(&stream, mapping)?, &expected[range], what("a copy to the host"))?;
        }
    }
    Ok(())
}

fn copies_within(context: &Context) -> Verdict {
    const PART: u64 = 4096;
    const BYTES: usize = 4096;
    let (buffer, pattern) = (context.buffer(3 * PART)?, context.pattern());
    buffer.write(0, &pattern.bytes(0, 3 * BYTES))?;
    let (mapped, stream) = (context.import(&*buffer)?, context.stream()?);
    let copy = |target: u64, source: u64| {
        let (target, source) = (mapped.slice(target..target + PART)?, mapped.slice(source..source + PART)?);
        stream.copy(target, source)
    };
    for (target, source) in [(0, 0), (1, 0), (0, 1), (PART - 1, 0), (PART, 2 * PART - 1)] {
        expect_error(copy(target, source), ErrorKind::InvalidArgument, "a copy onto itself")?;
    }
    stream.synchronize()?;
    let found = buffer.contents()?;
    pattern.verify(0, &found, "the data after rejected copies")?;
    copy(2 * PART, PART)?;
    stream.synchronize()?;
    let found = buffer.contents()?;
    let (kept, copied) = found.split_at(2 * BYTES);
    pattern.verify(0, kept, "the data outside the copy")?;
    pattern.verify(PART, copied, "the copied data")
}
