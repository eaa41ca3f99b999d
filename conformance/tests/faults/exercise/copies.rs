//! Copies in each direction, fills, and words that streams wait for.

use gpu_interop::{Result, WaitCondition};

use super::bench::{Bench, seen};
use crate::simulator::Sort;

/// Host memory that late work may use after the exercise: it is never freed.
fn host(value: u8) -> *mut u8 {
    Box::leak(Box::new([value; 64])).as_mut_ptr()
}

/// Copies and fills, with the data.
pub(super) fn copies(bench: &Bench<'_>) -> Result<()> {
    let stream = bench.device.create_stream()?;
    let ((first, _), (second, file)) = (bench.buffer()?, bench.buffer()?);
    let pattern: Vec<u8> = (0..64).collect();
    stream.write(first.slice(..64)?, &pattern)?;
    stream.copy(second.slice(128..192)?, first.slice(..64)?)?;
    let mut back = [0; 64];
    stream.read(second.slice(128..192)?, &mut back)?;
    bench.check(back[..] == pattern[..], "what was written, copied and read is not the same");
    stream.fill(second.slice(..4)?, 7)?;
    stream.fill_u32(second.slice(4..8)?, 0x0403_0201)?;

    let (source, target) = (host(9), host(0));
    // SAFETY: both have that size, and are never freed.
    unsafe {
        stream.write_async(first.slice(64..128)?, source)?;
        stream.read_async(first.slice(64..128)?, target)?;
    }
    stream.synchronize()?;
    // SAFETY: the copy has run.
    let copied = unsafe { target.cast::<[u8; 64]>().read_volatile() };
    bench.check(copied == [9; 64], "asynchronous copies have another result");
    bench.check(seen(&file, 0) == [7, 7, 7, 7, 1, 2, 3, 4], "fills have another result");
    bench.closed(Sort::Mappings, first.close());
    drop((second, stream));
    Ok(())
}

/// Words in memory that the stream writes and waits for.
pub(super) fn words(bench: &Bench<'_>) -> Result<()> {
    let (buffer, file) = bench.buffer()?;
    let stream = bench.device.create_stream()?;
    let (narrow, wide) = (buffer.slice(..4)?, buffer.slice(8..16)?);
    // Written before any wait, so that no wait is infinite.
    stream.write_value_u32(narrow, 5)?;
    stream.wait_value_u32(narrow, 5, WaitCondition::Equal)?;
    stream.write_value_u64(wide, 6)?;
    stream.wait_value_u64(wide, 6, WaitCondition::GreaterOrEqual)?;
    stream.synchronize()?;
    bench.check(seen(&file, 0) == [5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0], "the words are others");
    Ok(())
}
