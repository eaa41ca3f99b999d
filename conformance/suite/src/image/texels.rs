//! Boxes of texels in tightly packed memory, computed on the host for comparison with a device's copies.

use std::ops::Range;

use crate::ensure_eq;
use crate::outcome::Verdict;

/// The texels of a level: slice after slice (or layer, or face), row after row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Texels {
    extent: [usize; 3],
    size: usize,
    pub(crate) bytes: Vec<u8>,
}

impl Texels {
    /// Texels of `size` bytes. Fails unless `bytes` has the length of the extent.
    pub(crate) fn new(extent: [usize; 3], size: usize, bytes: Vec<u8>) -> Verdict<Self> {
        ensure_eq!(bytes.len(), extent.iter().product::<usize>() * size, "bytes of {extent:?} texels");
        Ok(Self { extent, size, bytes })
    }

    /// The rows of a box, as ranges of bytes.
    fn rows(&self, origin: [usize; 3], extent: [usize; 3]) -> impl Iterator<Item = Range<usize>> + use<> {
        let [width, height, _] = self.extent;
        let size = self.size;
        (0..extent[2]).flat_map(move |z| (0..extent[1]).map(move |y| (y, z))).map(move |(y, z)| {
            let start = (((origin[2] + z) * height + origin[1] + y) * width + origin[0]) * size;
            start..start + extent[0] * size
        })
    }

    /// The texels of a box that lies inside.
    pub(crate) fn part(&self, origin: [usize; 3], extent: [usize; 3]) -> Vec<u8> {
        self.rows(origin, extent).flat_map(|row| self.bytes[row].iter().copied()).collect()
    }

    /// Replaces the texels of a box inside the extent by those in `data`, which must have the same number.
    pub(crate) fn put(&mut self, origin: [usize; 3], extent: [usize; 3], data: &[u8]) -> Verdict {
        ensure_eq!(data.len(), extent.iter().product::<usize>() * self.size, "bytes for a box of {extent:?} texels");
        for (row, data) in self.rows(origin, extent).zip(data.chunks_exact(extent[0] * self.size)) {
            self.bytes[row].copy_from_slice(data);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texel (x, y, z) is the bytes 100 * z + 10 * y + x and 200.
    fn numbered() -> Texels {
        let bytes = (0..2_u8)
            .flat_map(|z| (0..3).flat_map(move |y| (0..4).map(move |x| 100 * z + 10 * y + x)))
            .flat_map(|number| [number, 200])
            .collect();
        Texels::new([4, 3, 2], 2, bytes).expect("as many bytes as texels need")
    }

    #[test]
    fn a_part_has_the_texels_of_its_box() {
        let texels = numbered();
        let numbers = |origin, extent| -> Vec<u8> { texels.part(origin, extent).into_iter().step_by(2).collect() };
        assert_eq!(numbers([1, 1, 0], [2, 2, 1]), [11, 12, 21, 22]);
        assert_eq!(numbers([3, 0, 0], [1, 2, 2]), [3, 13, 103, 113]);
        assert_eq!(numbers([3, 2, 1], [1, 1, 1]), [123]);
        assert_eq!(texels.part([0; 3], [4, 3, 2]), texels.bytes);
    }

    #[test]
    fn what_is_put_is_the_part_and_nothing_around_it_changes() {
        let (before, mut after) = (numbered(), numbered());
        let (origin, extent) = ([1, 0, 0], [3, 2, 2]);
        let data: Vec<u8> = (0..24).map(|byte| byte | 0x80).collect();
        after.put(origin, extent, &data).expect("as many bytes as the box needs");
        assert_eq!(after.part(origin, extent), data);
        assert_eq!(after.part([0; 3], [1, 3, 2]), before.part([0; 3], [1, 3, 2]));
        assert_eq!(after.part([1, 2, 0], [3, 1, 2]), before.part([1, 2, 0], [3, 1, 2]));
        assert!(after.put(origin, extent, &data[1..]).is_err());
        assert!(Texels::new([4, 3, 2], 2, vec![0; 47]).is_err());
    }
}
