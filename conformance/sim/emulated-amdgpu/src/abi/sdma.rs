//! Packets of SDMA queues of GFX9, as the runtime builds them.

/// The longest packet that is decoded, in words.
pub(crate) const LONGEST: usize = 13;

/// One side of a rectangular copy, in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RectangleSide {
    pub(crate) address: u64,
    pub(crate) origin: [u64; 3],
    /// Elements from one row, and from one slice, to the next.
    pub(crate) pitch: [u64; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packet {
    Nothing,
    Copy { from: u64, to: u64, size: u64 },
    CopyRectangle { element: u64, from: RectangleSide, to: RectangleSide, extent: [u64; 3] },
    Fence { address: u64, value: u32 },
    Trap { event: u32 },
    Poll { address: u64, function: u32, reference: u32, mask: u32 },
    AtomicAdd { address: u64, value: u64 },
    Fill { address: u64, words: u64, value: u32 },
    Timestamp { address: u64 },
    Unknown { operation: u32, sub: u32 },
}

/// Decodes the packet that begins with these words. Returns it and its length in words.
pub(crate) fn decode(words: &[u32; LONGEST]) -> (Packet, u64) {
    let long = |low: usize| u64::from(words[low]) | u64::from(words[low + 1]) << 32;
    let [operation, sub] = [words[0] & 0xff, words[0] >> 8 & 0xff];
    match (operation, sub) {
        (0, _) => (Packet::Nothing, 1 + u64::from(words[0] >> 16 & 0x3fff)),
        (1, 0) => (Packet::Copy { from: long(3), to: long(5), size: u64::from(words[1] & 0x3fff_ffff) + 1 }, 7),
        (1, 4) => {
            let bits = |word: usize, shift: u32, count: u32| u64::from(words[word] >> shift & ((1 << count) - 1));
            let side = |at: usize| RectangleSide {
                address: long(at),
                origin: [bits(at + 2, 0, 14), bits(at + 2, 16, 14), bits(at + 3, 0, 11)],
                pitch: [bits(at + 3, 13, 19) + 1, bits(at + 4, 0, 28) + 1],
            };
            let extent = [bits(11, 0, 14) + 1, bits(11, 16, 14) + 1, bits(12, 0, 11) + 1];
            (Packet::CopyRectangle { element: 1 << (words[0] >> 29), from: side(1), to: side(6), extent }, 13)
        }
        (5, _) => (Packet::Fence { address: long(1), value: words[3] }, 4),
        (6, _) => (Packet::Trap { event: words[1] & 0x0fff_ffff }, 2),
        // Without the bit for memory the packet flushes the HDP.
        (8, _) if words[0] >> 31 == 0 => (Packet::Nothing, 6),
        (8, _) => {
            let [function, reference, mask] = [words[0] >> 28 & 7, words[3], words[4]];
            (Packet::Poll { address: long(1), function, reference, mask }, 6)
        }
        // 47: add, 64 bits, returning the old value; the runtime uses no other.
        (10, _) if words[0] >> 25 == 47 => (Packet::AtomicAdd { address: long(1), value: long(3) }, 8),
        (11, _) => {
            let bytes = u64::from(words[4] & 0x3f_ffff) + 1;
            (Packet::Fill { address: long(1), words: bytes.div_ceil(4), value: words[3] }, 5)
        }
        (13, _) => (Packet::Timestamp { address: long(1) }, 3),
        // Cache control.
        (17, _) => (Packet::Nothing, 5),
        _ => (Packet::Unknown { operation, sub }, 1),
    }
}

/// `true` if a poll's condition is met.
pub(crate) fn holds(function: u32, found: u32, reference: u32) -> bool {
    match function {
        0 => true,
        1 => found < reference,
        2 => found <= reference,
        3 => found == reference,
        4 => found != reference,
        5 => found >= reference,
        _ => found > reference,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(words: &[u32]) -> (Packet, u64) {
        let mut all = [0; LONGEST];
        all[..words.len()].copy_from_slice(words);
        decode(&all)
    }

    #[test]
    fn packets_are_decoded() {
        let copy = Packet::Copy { from: 0x2_0000_0001, to: 0x4_0000_0003, size: 256 };
        assert_eq!(packet(&[1, 255, 0, 1, 2, 3, 4]), (copy, 7));
        assert_eq!(packet(&[5, 16, 1, 9]), (Packet::Fence { address: 0x1_0000_0010, value: 9 }, 4));
        assert_eq!(packet(&[6, 0xf000_0007]), (Packet::Trap { event: 7 }, 2));
        let poll = Packet::Poll { address: 0x1000, function: 3, reference: 5, mask: 0xff };
        assert_eq!(packet(&[8 | 3 << 28 | 1 << 31, 0x1000, 0, 5, 0xff, 0]), (poll, 6));
        assert_eq!(packet(&[8, 0x1000, 0, 5, 0xff, 0]), (Packet::Nothing, 6));
        let add = Packet::AtomicAdd { address: 0x1000, value: u64::MAX };
        assert_eq!(packet(&[10 | 47 << 25, 0x1000, 0, !0, !0, 0, 0, 0]), (add, 8));
        assert_eq!(packet(&[11, 0x1000, 0, 7, 15]), (Packet::Fill { address: 0x1000, words: 4, value: 7 }, 5));
        assert_eq!(packet(&[13, 0x1000, 0]), (Packet::Timestamp { address: 0x1000 }, 3));
        assert_eq!(packet(&[3 << 16]), (Packet::Nothing, 4));
        assert_eq!(packet(&[0x1234]), (Packet::Unknown { operation: 0x34, sub: 0x12 }, 1));
    }

    #[test]
    fn a_rectangle_is_decoded() {
        let words = [
            1 | 4 << 8 | 2 << 29,
            0x1000,
            1,
            3 | 4 << 16,
            5 | 99 << 13,
            999,
            0x2000,
            2,
            6 | 7 << 16,
            8 | 49 << 13,
            499,
            9 | 10 << 16,
            11,
        ];
        let from = RectangleSide { address: 0x1_0000_1000, origin: [3, 4, 5], pitch: [100, 1000] };
        let to = RectangleSide { address: 0x2_0000_2000, origin: [6, 7, 8], pitch: [50, 500] };
        assert_eq!(decode(&words), (Packet::CopyRectangle { element: 4, from, to, extent: [10, 11, 12] }, 13));
    }

    #[test]
    fn conditions_are_the_seven() {
        let held: Vec<Vec<u32>> =
            (0..7).map(|function| (1..4).filter(|found| holds(function, *found, 2)).collect()).collect();
        assert_eq!(held, [vec![1, 2, 3], vec![1], vec![1, 2], vec![2], vec![1, 3], vec![2, 3], vec![3]]);
    }
}
