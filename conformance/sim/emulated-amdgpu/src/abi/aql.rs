//! Packets of AQL queues, signals and kernel descriptors, as in the HSA standard and AMD's `amd_hsa_*.h`.

pub(crate) const PACKET_SIZE: u64 = 64;

pub(crate) const TYPE_VENDOR: u8 = 0;
pub(crate) const TYPE_INVALID: u8 = 1;
pub(crate) const TYPE_DISPATCH: u8 = 2;
pub(crate) const TYPE_BARRIER_AND: u8 = 3;
pub(crate) const TYPE_BARRIER_OR: u8 = 5;

/// A packet in its longest form: 8 words of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packet {
    Invalid,
    Dispatch(Dispatch),
    /// Waits for up to five signals: all of them, or any.
    Barrier {
        signals: [u64; 5],
        all: bool,
    },
    /// Waits until a condition holds for a signal's value.
    BarrierValue {
        signal: u64,
        value: i64,
        mask: i64,
        condition: u32,
    },
    /// PM4 commands. They set up the queue and are skipped.
    Commands,
    Unknown {
        kind: u8,
        format: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dispatch {
    pub(crate) workgroup: [u32; 3],
    pub(crate) grid: [u32; 3],
    /// Bytes of private memory of a work item.
    pub(crate) private: u32,
    /// Bytes of LDS of a workgroup.
    pub(crate) shared: u32,
    pub(crate) kernel: u64,
    pub(crate) kernarg: u64,
}

/// The completion signal of a packet; 0 is none.
pub(crate) const fn completion_signal(words: &[u64; 8]) -> u64 {
    words[7]
}

pub(crate) fn decode(words: &[u64; 8]) -> Packet {
    let [kind, _, format, _, ..] = words[0].to_le_bytes();
    match kind {
        TYPE_INVALID => Packet::Invalid,
        TYPE_DISPATCH => {
            let half = |word: u64, index: u32| (word >> (16 * index) & 0xffff) as u32;
            let [low, high] = [words[1] & 0xffff_ffff, words[1] >> 32].map(narrow);
            Packet::Dispatch(Dispatch {
                workgroup: [half(words[0], 2), half(words[0], 3), half(u64::from(low), 0)],
                grid: [high, narrow(words[2] & 0xffff_ffff), narrow(words[2] >> 32)],
                private: narrow(words[3] & 0xffff_ffff),
                shared: narrow(words[3] >> 32),
                kernel: words[4],
                kernarg: words[5],
            })
        }
        TYPE_BARRIER_AND | TYPE_BARRIER_OR => {
            let [_, a, b, c, d, e, ..] = *words;
            Packet::Barrier { signals: [a, b, c, d, e], all: kind == TYPE_BARRIER_AND }
        }
        TYPE_VENDOR if format == 1 => Packet::Commands,
        TYPE_VENDOR if format == 2 => Packet::BarrierValue {
            signal: words[1],
            value: words[2].cast_signed(),
            mask: words[3].cast_signed(),
            condition: narrow(words[4] & 0xffff_ffff),
        },
        kind => Packet::Unknown { kind, format },
    }
}

/// The low half of a word.
#[allow(clippy::cast_possible_truncation)]
const fn narrow(word: u64) -> u32 {
    word as u32
}

/// Offsets in `amd_signal_t`.
pub(crate) mod signal {
    pub(crate) const VALUE: u64 = 8;
    pub(crate) const MAILBOX: u64 = 16;
    pub(crate) const EVENT_ID: u64 = 24;
    pub(crate) const START: u64 = 32;
    pub(crate) const END: u64 = 40;
}

/// Offsets in `amd_queue_t` relative to its write index, whose address the kernel driver has.
pub(crate) mod queue {
    /// Offset of the read index.
    pub(crate) const READ_INDEX: u64 = 128 - 56;
    /// Offset of the register that describes private memory: waves, and the size of each.
    pub(crate) const TMPRING_SIZE: u64 = 140 - 56;
    /// Offset of the buffer descriptor of private memory, four words.
    pub(crate) const SCRATCH_DESCRIPTOR: u64 = 144 - 56;
    /// Offset of the address of private memory.
    pub(crate) const SCRATCH_ADDRESS: u64 = 160 - 56;
    /// Offset of the signal for error codes.
    pub(crate) const INACTIVE_SIGNAL: u64 = 192 - 56;
    /// Offset of the start of the structure.
    pub(crate) const START: u64 = 56;
}

/// Size of a kernel's descriptor.
pub(crate) const DESCRIPTOR_SIZE: usize = 64;

/// What a kernel's descriptor says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelDescriptor {
    /// Bytes of LDS that the kernel has itself.
    pub(crate) shared: u32,
    /// Bytes of its arguments.
    pub(crate) arguments: u32,
    /// Distance of the first instruction from the descriptor.
    pub(crate) entry: i64,
    /// `COMPUTE_PGM_RSRC1` and `COMPUTE_PGM_RSRC2`.
    pub(crate) resources: [u32; 2],
    /// Which values the first scalar registers have, as bits.
    pub(crate) properties: u32,
}

impl KernelDescriptor {
    pub(crate) fn new(bytes: &[u8; DESCRIPTOR_SIZE]) -> Self {
        let mut words =
            bytes.chunks_exact(4).map(|word| word.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte)));
        let words: [u32; DESCRIPTOR_SIZE / 4] = std::array::from_fn(|_| words.next().unwrap_or(0));
        Self {
            shared: words[0],
            arguments: words[2],
            entry: (u64::from(words[5]) << 32 | u64::from(words[4])).cast_signed(),
            resources: [words[12], words[13]],
            properties: words[14] & 0xffff,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dispatch_is_decoded() {
        let words = [
            64 << 48 | 256 << 32 | 3 << 16 | 0x1402,
            1024 << 32 | 2,
            8 << 32 | 7,
            5 << 32 | 6,
            0xaaaa,
            0xbbbb,
            0,
            0xcccc,
        ];
        assert_eq!(
            decode(&words),
            Packet::Dispatch(Dispatch {
                workgroup: [256, 64, 2],
                grid: [1024, 7, 8],
                private: 6,
                shared: 5,
                kernel: 0xaaaa,
                kernarg: 0xbbbb
            })
        );
        assert_eq!(completion_signal(&words), 0xcccc);
    }

    #[test]
    fn a_descriptor_is_decoded() {
        let mut bytes = [0; DESCRIPTOR_SIZE];
        for (at, value) in [(0, 1_u32), (8, 3), (16, 0xffff_ff00), (20, 0xffff_ffff), (48, 4), (52, 5), (56, 0x7_0008)]
        {
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        let expected = KernelDescriptor { shared: 1, arguments: 3, entry: -256, resources: [4, 5], properties: 8 };
        assert_eq!(KernelDescriptor::new(&bytes), expected);
    }

    #[test]
    fn barriers_are_decoded() {
        let words = [0x1503, 1, 2, 3, 4, 5, 6, 7];
        assert_eq!(decode(&words), Packet::Barrier { signals: [1, 2, 3, 4, 5], all: true });
        assert_eq!(decode(&[0x1505, 1, 2, 3, 4, 5, 6, 7]), Packet::Barrier { signals: [1, 2, 3, 4, 5], all: false });
        assert_eq!(
            decode(&[0x2_0000, 0x10, u64::MAX, 0xff, 0x5_0000_0003, 0, 0, 9]),
            Packet::BarrierValue { signal: 0x10, value: -1, mask: 0xff, condition: 3 }
        );
        assert_eq!(decode(&[0x1_0000, 0, 0, 0, 0, 0, 0, 0]), Packet::Commands);
        assert_eq!(decode(&[1, 0, 0, 0, 0, 0, 0, 0]), Packet::Invalid);
        assert_eq!(decode(&[0x7_0000, 0, 0, 0, 0, 0, 0, 0]), Packet::Unknown { kind: 0, format: 7 });
    }
}
