//! The pattern.

/// Word `index` of the test pattern with this seed: a mix that makes a word that is shifted, missing or stale
/// differ from the expected one. The multipliers are those of the "lowbias32" integer hash.
///
/// The pattern in memory is its words, little-endian, one after the other. An image holds the pattern if its texels,
/// tightly packed, are the pattern's bytes: texel after texel, row after row, slice (or layer, or face) after slice.
#[must_use]
pub fn pattern_word(seed: u32, index: u64) -> u32 {
    // The low and high halves, each on purpose.
    #[allow(clippy::cast_possible_truncation)]
    let (low, high) = (index as u32, (index >> 32) as u32);
    let mut word = seed ^ low.wrapping_mul(0x9e37_79b9) ^ high.wrapping_mul(0x85eb_ca6b);
    word ^= word >> 16;
    word = word.wrapping_mul(0x7feb_352d);
    word ^= word >> 15;
    word = word.wrapping_mul(0x846c_a68b);
    word ^ (word >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever computes the pattern elsewhere computes these.
    #[test]
    fn the_pattern_is_this() {
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
    fn the_pattern_tells_words_and_seeds_apart() {
        let words: std::collections::BTreeSet<u32> = (0..100_000).map(|index| pattern_word(7, index)).collect();
        assert_eq!(words.len(), 100_000, "no two near words are equal");
        assert!((0..1000).all(|index| pattern_word(7, index) != pattern_word(8, index)));
        assert_ne!(pattern_word(7, 5), pattern_word(7, 5 + (1 << 32)));
    }
}
