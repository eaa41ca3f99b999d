//! Test pattern.

/// The factor of the low half of an index. The products of successive indices differ by it.
const STEP: u32 = 0x9e37_79b9;

/// Returns word `index` of the test pattern of a seed: a hash, so that shifted, missing or stale words differ from the
/// expected ones. The multipliers are those of the "lowbias32" integer hash.
///
/// In memory the pattern is the sequence of its words, little-endian. An image contains the pattern if its tightly
/// packed texels are the pattern's bytes, ordered by texel, row and slice (or layer, or face).
#[must_use]
pub fn pattern_word(seed: u32, index: u64) -> u32 {
    let (low, high) = halves(index);
    hash(seed ^ low.wrapping_mul(STEP) ^ of_high_half(high))
}

/// The low and the high half of an index.
fn halves(index: u64) -> (u32, u32) {
    // Truncation to the low and high halves is intended.
    #[allow(clippy::cast_possible_truncation)]
    (index as u32, (index >> 32) as u32)
}

fn of_high_half(high: u32) -> u32 {
    high.wrapping_mul(0x85eb_ca6b)
}

fn hash(mut word: u32) -> u32 {
    word ^= word >> 16;
    word = word.wrapping_mul(0x7feb_352d);
    word ^= word >> 15;
    word = word.wrapping_mul(0x846c_a68b);
    word ^ (word >> 16)
}

/// Writes the bytes of the pattern from `offset`, in bytes from its start, into `target`: byte `n` of the pattern is
/// byte `n % 4` of [`pattern_word`]`(seed, n / 4)`, little-endian.
pub fn write_pattern(seed: u32, offset: u64, target: &mut [u8]) {
    // Bytes of the first word that come before `offset`: less than 4.
    let skipped = usize::try_from(offset % 4).unwrap_or(0);
    let (head, words) = target.split_at_mut(((4 - skipped) % 4).min(target.len()));
    if !head.is_empty() {
        let word = pattern_word(seed, offset / 4).to_le_bytes();
        head.copy_from_slice(&word[skipped..skipped + head.len()]);
    }
    let (mut words, tail) = words.as_chunks_mut::<4>();
    let mut index = offset.div_ceil(4);
    while !words.is_empty() {
        // Words whose indices have the same high half: a loop that compilers vectorise.
        let (low, high) = halves(index);
        let same = usize::try_from((1 << 32) - u64::from(low)).unwrap_or(usize::MAX).min(words.len());
        let (run, rest) = words.split_at_mut(same);
        let (seed, mut product) = (seed ^ of_high_half(high), low.wrapping_mul(STEP));
        for word in run {
            *word = hash(seed ^ product).to_le_bytes();
            product = product.wrapping_add(STEP);
        }
        (words, index) = (rest, index.wrapping_add(same as u64));
    }
    tail.copy_from_slice(&pattern_word(seed, index).to_le_bytes()[..tail.len()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference values for other implementations of the pattern.
    #[test]
    fn the_pattern_has_its_reference_values() {
        for (seed, index, word) in [
            (0, 0, 0),
            (0, 1, 0x01fc_e552),
            (7, 5, 0xbb8e_5632),
            (7, 5 + (1 << 32), 0x6bba_6cae),
            (0x1234_5678, 1_000_003, 0xba86_8b9c),
            (u32::MAX, u64::MAX, 0x533c_4b30),
        ] {
            assert_eq!(pattern_word(seed, index), word, "seed {seed:#x}, index {index:#x}");
        }
    }

    #[test]
    fn words_of_different_indices_and_seeds_differ() {
        let words: std::collections::BTreeSet<u32> = (0..100_000).map(|index| pattern_word(7, index)).collect();
        assert_eq!(words.len(), 100_000, "no two near words are equal");
        assert!((0..1000).all(|index| pattern_word(7, index) != pattern_word(8, index)));
        assert_ne!(pattern_word(7, 5), pattern_word(7, 5 + (1 << 32)));
    }

    /// Also at offsets where the high half of the index changes.
    #[test]
    fn written_bytes_are_those_of_the_words() {
        for start in [0, (1 << 34) - 50, (1 << 35) - 4, 7 << 40] {
            for offset in start..start + 5 {
                for length in [0, 1, 3, 4, 5, 130] {
                    let mut found = vec![0; length];
                    write_pattern(9, offset, &mut found);
                    let byte = |n: u64| pattern_word(9, n / 4).to_le_bytes()[(n % 4) as usize];
                    let expected: Vec<u8> = (offset..offset + length as u64).map(byte).collect();
                    assert_eq!(found, expected, "{length} bytes from {offset}");
                }
            }
        }
    }
}
