//! Allocation of ranges of offsets.

use std::collections::BTreeMap;

/// Free extents: start and length. Adjacent ones are merged.
#[derive(Debug)]
pub(crate) struct Extents(BTreeMap<u64, u64>);

impl Extents {
    /// Creates a free range from 0 to `capacity`.
    pub(crate) fn new(capacity: u64) -> Self {
        Self(BTreeMap::from([(0, capacity)]))
    }

    /// Allocates `size` bytes at the lowest free multiple of `alignment`.
    pub(crate) fn take(&mut self, size: u64, alignment: u64) -> Option<u64> {
        let (start, length, offset) = self.0.iter().find_map(|(&start, &length)| {
            let offset = start.checked_next_multiple_of(alignment)?;
            (offset.checked_add(size)? <= start + length).then_some((start, length, offset))
        })?;
        self.0.remove(&start);
        for (start, end) in [(start, offset), (offset + size, start + length)] {
            if start < end {
                self.0.insert(start, end - start);
            }
        }
        Some(offset)
    }

    /// Frees a result of [`take`](Self::take).
    pub(crate) fn give(&mut self, offset: u64, size: u64) {
        let (mut start, mut end) = (offset, offset + size);
        if let Some((&before, &length)) = self.0.range(..offset).next_back().filter(|(s, l)| *s + *l == offset) {
            self.0.remove(&before);
            start = before;
            debug_assert_eq!(before + length, offset);
        }
        if let Some(length) = self.0.remove(&end) {
            end += length;
        }
        self.0.insert(start, end - start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_are_taken_aligned_and_merge_when_given_back() {
        let mut extents = Extents::new(100);
        assert_eq!(extents.take(10, 1), Some(0));
        assert_eq!(extents.take(10, 16), Some(16));
        assert_eq!(extents.take(6, 1), Some(10), "the gap before the aligned one");
        assert_eq!(extents.take(80, 1), None);
        assert_eq!(extents.take(74, 1), Some(26));
        assert_eq!(extents.0, BTreeMap::new());
        for (offset, size) in [(10, 6), (26, 74), (0, 10), (16, 10)] {
            extents.give(offset, size);
        }
        assert_eq!(extents.0, BTreeMap::from([(0, 100)]));
    }
}
