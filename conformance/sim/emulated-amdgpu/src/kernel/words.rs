//! Kernels of stream memory operations.

use std::sync::atomic::Ordering;

use super::arguments::Arguments;
use super::launch::{Launch, Result};
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

/// An awaited word: its address, and whether it has 64 bits.
#[derive(Debug, Clone, Copy)]
struct Word {
    address: u64,
    long: bool,
}

/// (32-bit word or null, 64-bit word or null, value, condition, mask)
pub(super) fn wait(launch: &Launch<'_>) -> Result<()> {
    let arguments = launch.arguments::<40>()?;
    let [short, long, value, condition, mask] = [0, 8, 16, 24, 32].map(|offset| arguments.u64(offset));
    let word = if short != 0 { Word { address: short, long: false } } else { Word { address: long, long: true } };
    wait_for(launch, word, condition, value, mask)
}

fn wait_for(launch: &Launch<'_>, word: Word, condition: u64, value: u64, mask: u64) -> Result<()> {
    let (memory, gpu) = (&launch.emulation.memory, launch.gpu);
    if condition > 3 {
        return Err(Stop::Invalid(format!("a wait for a word with condition {condition}")));
    }
    launch.queue.wait_until(|| {
        let found = if word.long {
            memory.atomic_u64(gpu, word.address, Access::Read, |word| word.load(Ordering::SeqCst))?
        } else {
            memory.atomic_u32(gpu, word.address, Access::Read, |word| u64::from(word.load(Ordering::SeqCst)))?
        };
        Ok(holds(condition, found & mask, value))
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
            1 => wait_for(launch, Word { address, long: false }, flags, value & 0xffff_ffff, u64::from(u32::MAX))?,
            2 => memory.write_u32(gpu, address, words.u32(16))?,
            4 => wait_for(launch, Word { address, long: true }, flags, value, u64::MAX)?,
            5 => memory.write_u64(gpu, address, value)?,
            other => return Err(Stop::Invalid(format!("operation {other} in a batch of memory operations"))),
        }
    }
    Ok(())
}

/// `true` if a word's masked value ends a wait.
fn holds(condition: u64, found: u64, value: u64) -> bool {
    match condition {
        0 => found >= value,
        1 => found == value,
        2 => found & value != 0,
        _ => !(found | value) != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_the_four() {
        let held: Vec<Vec<u64>> =
            (0..4).map(|condition| (1..5).filter(|found| holds(condition, *found, 2)).collect()).collect();
        assert_eq!(held, [vec![2, 3, 4], vec![2], vec![2, 3], vec![1, 2, 3, 4]]);
        assert!(!holds(3, u64::MAX, 2), "nor: all bits are set");
    }
}
