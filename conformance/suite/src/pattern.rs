//! Seeded data with known bytes.

use gpu_interop_kernels::{pattern_word, write_pattern};

use crate::outcome::{Stop, Verdict};

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
        write_pattern(self.seed, offset, target);
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
    pub fn verify(self, offset: u64, found: &[u8], what: &str) -> Verdict {
        const CHUNK: usize = 1 << 20;
        let mut expected = vec![0; CHUNK.min(found.len())];
        let mut differing = 0_u64;
        let mut first = None;
        for (index, chunk) in found.chunks(CHUNK).enumerate() {
            let start = (index * CHUNK) as u64;
            let expected = &mut expected[..chunk.len()];
            self.fill(offset + start, expected);
            if chunk == expected {
                continue;
            }
            for (position, (found, expected)) in chunk.iter().zip(&*expected).enumerate() {
                if found != expected {
                    differing += 1;
                    first.get_or_insert((start + position as u64, *expected, *found));
                }
            }
        }
        match first {
            None => Ok(()),
            Some((position, expected, found_byte)) => Err(Stop::Failed(format!(
                "{what}: {differing} of {} bytes differ, the first at {position}: expected {expected:#04x}, found \
                 {found_byte:#04x}",
                found.len()
            ))),
        }
    }
}

/// Checks that every byte of `found` is `byte`.
///
/// # Errors
/// The number of other bytes and the first of them.
pub(crate) fn verify_bytes(found: &[u8], byte: u8, what: &str) -> Verdict {
    // Slices are compared as a whole: unoptimised builds need long for single bytes.
    let expected = [byte; 4096];
    if found.chunks(expected.len()).all(|chunk| *chunk == expected[..chunk.len()]) {
        return Ok(());
    }
    let others = found.iter().filter(|found| **found != byte).count();
    let Some(first) = found.iter().position(|found| *found != byte) else { return Ok(()) };
    Err(Stop::Failed(format!(
        "{what}: {others} of {} bytes are not {byte:#04x}, the first at {first}: {:#04x}",
        found.len(),
        found[first]
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(pattern.other().verify(0, &pattern.bytes(0, 64), "other seed").is_err());
    }
}
