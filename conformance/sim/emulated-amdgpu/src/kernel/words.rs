//! Kernels of stream memory operations.

use std::sync::atomic::Ordering;

use crate::kernel::{Arguments, Launch, Result};
use crate::memory::Access;
use crate::queue::Stop;

/// (32-bit word or null, 64-bit word or null, value)
pub(super) fn write(launch: &Launch<'_>) -> Result<()> {
    let arguments = launch.arguments::<24>()?;
    let (short, long, value) = (arguments.u64(0), arguments.u64(8), arguments.u64(16));
    let memory = &launch.emulation.memory;
    if short != 0 {
        // The kernel stores the low half.
        #[allow(clippy::cast_possible_truncation)]
        memory.write_u32(launch.gpu, short, value as u32)?;
    }
    if long != 0 {
        memory.write_u64(launch.gpu, long, value)?;
    }
    Ok(())
}

/// An awaited word: its address, and its size.
#[derive(Debug, Clone, Copy)]
struct Word {
    address: u64,
    size: Size,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    Short,
    Long,
}

/// (32-bit word or null, 64-bit word or null, value, condition, mask)
pub(super) fn wait(launch: &Launch<'_>) -> Result<()> {
    let arguments = launch.arguments::<40>()?;
    let [short, long, value, condition, mask] = [0, 8, 16, 24, 32].map(|offset| arguments.u64(offset));
    let word =
        if short != 0 { Word { address: short, size: Size::Short } } else { Word { address: long, size: Size::Long } };
    wait_for(launch, word, condition, value, mask)
}

fn wait_for(launch: &Launch<'_>, word: Word, condition: u64, value: u64, mask: u64) -> Result<()> {
    let (memory, gpu) = (&launch.emulation.memory, launch.gpu);
    if condition > 3 {
        return Err(Stop::Invalid(format!("a wait for a word with condition {condition}")));
    }
    if launch.emulation.faults.from("skip-word-waits").is_some() {
        return Ok(());
    }
    launch.queue.wait_until(|| {
        let found = match word.size {
            Size::Short => {
                memory.atomic_u32(gpu, word.address, Access::Read, |word| u64::from(word.load(Ordering::SeqCst)))?
            }
            Size::Long => memory.atomic_u64(gpu, word.address, Access::Read, |word| word.load(Ordering::SeqCst))?,
        };
        Ok(holds(word.size, condition, found, value, mask))
    })
}

/// Size of an operation of a batch, bytes.
const OPERATION: usize = 48;

/// (operations, number): `hipStreamBatchMemOpParams`. Each work item executes one.
pub(super) fn batch(launch: &Launch<'_>) -> Result<()> {
    let arguments = launch.arguments::<12>()?;
    let (memory, gpu) = (&launch.emulation.memory, launch.gpu);
    let count = u64::from(arguments.u32(8)).min(launch.items());
    for operation in (arguments.u64(0)..).step_by(OPERATION).take(usize::try_from(count).unwrap_or(0)) {
        let words = memory.read::<{ OPERATION }>(gpu, operation)?;
        let words = Arguments(words);
        let (address, value, flags) = (words.u64(8), words.u64(16), u64::from(words.u32(24)));
        match words.u32(0) {
            1 => wait_for(launch, Word { address, size: Size::Short }, flags, value, u64::MAX)?,
            2 => memory.write_u32(gpu, address, words.u32(16))?,
            4 => wait_for(launch, Word { address, size: Size::Long }, flags, value, u64::MAX)?,
            5 => memory.write_u64(gpu, address, value)?,
            other => return Err(Stop::Invalid(format!("operation {other} in a batch of memory operations"))),
        }
    }
    Ok(())
}

/// `true` if a word ends a wait, as the kernel in AMD's device library (`opencl.bc`, 5.2.3) compares: with as many bits
/// of value and mask as the word has. The mask does not apply to the value, except in the last condition.
fn holds(size: Size, condition: u64, found: u64, value: u64, mask: u64) -> bool {
    let bits = if size == Size::Short { u64::from(u32::MAX) } else { u64::MAX };
    let (value, mask) = (value & bits, mask & bits);
    match condition {
        0 => found & mask >= value,
        1 => found & mask == value,
        2 => found & mask & value != 0,
        _ => (found | value) & mask != mask,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = u64::MAX;

    #[test]
    fn conditions_are_the_four() {
        for size in [Size::Short, Size::Long] {
            let held: Vec<Vec<u64>> = (0..4)
                .map(|condition| (1..5).filter(|found| holds(size, condition, *found, 2, ALL)).collect())
                .collect();
            assert_eq!(held, [vec![2, 3, 4], vec![2], vec![2, 3], vec![1, 2, 3, 4]], "{size:?}");
        }
    }

    #[test]
    fn nor_looks_at_the_bits_that_the_word_has() {
        let (short, long) = (u64::from(u32::MAX), u64::MAX);
        for (size, bits) in [(Size::Short, short), (Size::Long, long)] {
            assert!(!holds(size, 3, 1, bits - 1, ALL), "{size:?}: no bit is clear in both");
            assert!(holds(size, 3, 0, bits - 1, ALL), "{size:?}: bit 0 is clear in both");
            assert!(!holds(size, 3, 0, bits - 1, ALL - 1), "{size:?}: bit 0 is masked");
        }
        assert!(holds(Size::Long, 3, 1, short - 1, ALL), "the high half is clear in both");
    }

    #[test]
    fn the_mask_applies_to_the_word() {
        let held: Vec<bool> = (0..4).map(|condition| holds(Size::Short, condition, 0xf5, 5, 0x0f)).collect();
        assert_eq!(held, [true, true, true, true]);
        let held: Vec<bool> = (0..4).map(|condition| holds(Size::Short, condition, 0x0f, 0xf0, 0xf0)).collect();
        assert_eq!(held, [false, false, false, false]);
    }
}
