//! Seeded data with known bytes.

use std::fmt::Display;

use gpu_interop_kernels::{pattern_word, write_pattern};

use crate::ensure_eq;
use crate::outcome::{Stop, Verdict, checked_bytes, join};

/// Bytes that a GPU compresses, different for each round: equal ones, and in odd rounds slowly rising words.
#[must_use]
pub(crate) fn compressible(round: u8, length: usize) -> Vec<u8> {
    const PERIOD: usize = 256;
    let rising = |index: usize| (index / 4).to_le_bytes()[0];
    let byte = |index| round.wrapping_mul(37) + if round % 2 == 1 { rising(index) } else { 0 };
    // Whole periods are copied: unoptimised builds need long for single bytes.
    let mut bytes = (0..PERIOD).map(byte).collect::<Vec<_>>().repeat(length.div_ceil(PERIOD));
    bytes.truncate(length);
    bytes
}

/// A seeded pattern: byte `n` is byte `n % 4` of [`pattern_word`]`(seed, n / 4)`, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    seed: u32,
}

impl Pattern {
    /// The pattern with this seed.
    #[must_use]
    pub fn new(seed: u32) -> Self {
        Self { seed }
    }

    /// The seed.
    #[must_use]
    pub fn seed(self) -> u32 {
        self.seed
    }

    /// A byte that depends on the seed and on `index`, and is never 0.
    #[must_use]
    pub fn byte(self, index: u64) -> u8 {
        // Less than 255.
        u8::try_from(pattern_word(self.seed, index) % 255).unwrap_or(0) + 1
    }

    /// Another pattern, which differs in practically every byte.
    #[must_use]
    pub fn other(self) -> Self {
        Self { seed: self.seed.wrapping_mul(0x9e37_79b1).wrapping_add(1) }
    }

    /// The pattern of a mip level of an image; that of level 0 is this one.
    #[must_use]
    pub fn level(self, level: u32) -> Self {
        Self { seed: self.seed.wrapping_add(level.wrapping_mul(0x632b_e59b)) }
    }

    /// Writes the bytes from `offset` (bytes from the pattern's start) to `target`.
    pub fn fill(self, offset: u64, target: &mut [u8]) {
        let part = part_of_a_thread(target.len());
        if part >= target.len() {
            return write_pattern(self.seed, offset, target);
        }
        std::thread::scope(|scope| {
            for (index, target) in target.chunks_mut(part).enumerate() {
                let offset = offset + (index * part) as u64;
                scope.spawn(move || write_pattern(self.seed, offset, target));
            }
        });
    }

    /// Returns `length` bytes from `offset`.
    #[must_use]
    pub fn bytes(self, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.fill(offset, &mut bytes);
        bytes
    }

    /// Checks that `found` equals the pattern from `offset`.
    ///
    /// # Errors
    /// The number of differing bytes and the first of them.
    pub fn verify(self, offset: u64, found: &[u8], what: impl Display) -> Verdict {
        let expected = [u64::from(self.seed), offset, found.len() as u64].map(u64::to_le_bytes);
        checked_bytes(found.len(), &[expected.as_flattened()]);
        let part = part_of_a_thread(found.len());
        let differences = if part >= found.len() {
            self.compare(offset, 0, found)
        } else {
            let parts = std::thread::scope(|scope| {
                let parts = found.chunks(part).enumerate();
                let compared = parts.map(|(index, found)| {
                    scope.spawn(move || -> Verdict<_> { Ok(self.compare(offset, (index * part) as u64, found)) })
                });
                compared.collect::<Vec<_>>().into_iter().map(join).collect::<Verdict<Vec<_>>>()
            })?;
            let count = parts.iter().map(|part| part.count).sum();
            Differences { count, first: parts.into_iter().find_map(|part| part.first) }
        };
        differences.verdict(found.len(), what)
    }

    /// Compares bytes at position `from` of data that begins at `offset` of the pattern.
    fn compare(self, offset: u64, from: u64, found: &[u8]) -> Differences {
        // Fits into a processor's cache.
        const CHUNK: usize = 128 << 10;
        let mut expected = vec![0; CHUNK.min(found.len())];
        let mut differences = Differences::default();
        for (index, chunk) in found.chunks(CHUNK).enumerate() {
            let start = from + (index * CHUNK) as u64;
            let expected = &mut expected[..chunk.len()];
            write_pattern(self.seed, offset + start, expected);
            differences.add(start, chunk, expected);
        }
        differences
    }
}

/// The differences between bytes and the expected ones.
#[derive(Debug, Default)]
struct Differences {
    count: u64,
    /// The position of the first, the expected byte, and the found one.
    first: Option<(u64, u8, u8)>,
}

impl Differences {
    /// Adds those of bytes at position `start`.
    fn add(&mut self, start: u64, found: &[u8], expected: &[u8]) {
        // Slices are compared as a whole: unoptimised builds need long for single bytes.
        if found == expected {
            return;
        }
        for (position, (found, expected)) in (start..).zip(found.iter().zip(expected)) {
            if found != expected {
                self.count += 1;
                self.first.get_or_insert((position, *expected, *found));
            }
        }
    }

    /// A failure if there are any, of `length` bytes.
    fn verdict(&self, length: usize, what: impl Display) -> Verdict {
        let Some((position, expected, found)) = self.first else { return Ok(()) };
        Err(Stop::failed(format!(
            "{what}: {} of {length} bytes differ, the first at {position}: expected {expected:#04x}, found {found:#04x}",
            self.count
        )))
    }
}

/// The number of bytes of one thread, of `length` bytes that several threads write or compare. Few bytes are left to one
/// thread.
fn part_of_a_thread(length: usize) -> usize {
    /// Takes a thread longer than its start.
    const LEAST: usize = 4 << 20;
    /// Memory is the limit for more threads.
    const MOST_THREADS: usize = 8;
    if length < 2 * LEAST {
        return length;
    }
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    length.div_ceil(processors.min(MOST_THREADS)).max(LEAST)
}

/// Checks that every byte of `found` is `byte`.
///
/// # Errors
/// The number of other bytes and the first of them.
pub(crate) fn verify_bytes(found: &[u8], byte: u8, what: impl Display) -> Verdict {
    checked_bytes(found.len(), &[&[byte], &found.len().to_le_bytes()]);
    // Slices are compared as a whole: unoptimised builds need long for single bytes.
    let expected = [byte; 4096];
    if found.chunks(expected.len()).all(|chunk| *chunk == expected[..chunk.len()]) {
        return Ok(());
    }
    let others = found.iter().filter(|found| **found != byte).count();
    let Some(first) = found.iter().position(|found| *found != byte) else { return Ok(()) };
    Err(Stop::failed(format!(
        "{what}: {others} of {} bytes are not {byte:#04x}, the first at {first}: {:#04x}",
        found.len(),
        found[first]
    )))
}

/// Fails unless both are equal, with the number of different bytes and the first of them.
pub(crate) fn compare(found: &[u8], expected: &[u8], what: impl Display) -> Verdict {
    ensure_eq!(found.len(), expected.len(), "{what}: the number of bytes");
    checked_bytes(found.len(), &[expected]);
    let mut differences = Differences::default();
    differences.add(0, found, expected);
    differences.verdict(found.len(), what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_differing_byte_is_counted() {
        compare(&[1, 2, 3], &[1, 2, 3], "same").expect("no difference");
        let message = compare(&[1, 2, 3, 4], &[1, 9, 3, 9], "data").expect_err("two differ").to_string();
        assert!(message.contains("2 of 4 bytes differ, the first at 1: expected 0x09, found 0x02"), "{message}");
        assert!(compare(&[1], &[1, 2], "short").is_err());
    }

    #[test]
    fn any_part_equals_the_part_of_the_whole() {
        let pattern = Pattern::new(11);
        let whole = pattern.bytes(0, 64);
        for start in 0..16 {
            for length in 0..16 {
                assert_eq!(pattern.bytes(start as u64, length), whole[start..start + length]);
            }
        }
    }

    #[test]
    fn levels_differ_from_each_other_and_from_other_patterns() {
        let patterns: Vec<_> = [Pattern::new(11), Pattern::new(11).other()]
            .into_iter()
            .flat_map(|p| (0..13).map(move |n| p.level(n)))
            .collect();
        assert_eq!(patterns[0], Pattern::new(11));
        for (index, pattern) in patterns.iter().enumerate() {
            for other in &patterns[..index] {
                let (one, two) = (pattern.bytes(0, 4096), other.bytes(0, 4096));
                let same = one.iter().zip(&two).filter(|(one, two)| one == two).count();
                assert!(same < 64, "{pattern:?} and {other:?} have {same} bytes in common");
            }
        }
    }

    #[test]
    fn verification_finds_one_wrong_byte_and_shifted_data() {
        let pattern = Pattern::new(3);
        let mut bytes = pattern.bytes(5, 3 << 20);
        pattern.verify(5, &bytes, "data").expect("untouched");
        bytes[2_500_000] ^= 1;
        let message = pattern.verify(5, &bytes, "data").expect_err("one byte differs").to_string();
        assert!(message.contains("1 of 3145728") && message.contains("2500000"), "{message}");
        assert!(pattern.verify(4, &pattern.bytes(5, 64), "shifted").is_err());
        // Written and compared by several threads.
        let mut bytes = pattern.bytes(5, (20 << 20) + 3);
        assert_eq!(bytes[(19 << 20) + 1..], pattern.bytes(5 + (19 << 20) + 1, (1 << 20) + 2));
        pattern.verify(5, &bytes, "data").expect("untouched");
        for place in [20_971_522, 12_000_000] {
            bytes[place] ^= 1;
        }
        let message = pattern.verify(5, &bytes, "data").expect_err("two bytes differ").to_string();
        assert!(message.contains("2 of 20971523") && message.contains("first at 12000000"), "{message}");
        assert!(pattern.other().verify(0, &pattern.bytes(0, 64), "other seed").is_err());
    }
}
