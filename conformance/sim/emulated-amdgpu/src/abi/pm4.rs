//! PM4: packets of the graphics and compute rings of GFX9, in the form that the kernel driver accepts in command buffers.

/// First word offset of the shader registers, and their number.
pub(crate) const SHADER_REGISTERS: u32 = 0x2c00;
pub(crate) const SHADER_REGISTER_COUNT: usize = 0x400;

/// Offsets of the compute registers among the shader registers.
pub(crate) mod compute {
    pub(crate) const START: usize = 0x204;
    /// Size of a group in the low half, of the last group in the high half: x, y, z.
    pub(crate) const GROUP: usize = 0x207;
    pub(crate) const PROGRAM: usize = 0x20c;
    pub(crate) const RESOURCES: usize = 0x212;
    /// Waves that may use scratch memory, and the scratch memory of each.
    pub(crate) const SCRATCH: usize = 0x218;
    pub(crate) const USER_DATA: usize = 0x240;
    pub(crate) const USER_DATA_COUNT: usize = 16;
}

/// Bits of a dispatch's initiator.
pub(crate) mod initiator {
    pub(crate) const PARTIAL_GROUPS: u32 = 1 << 1;
    pub(crate) const START_AT_ZERO: u32 = 1 << 2;
    /// The sizes are numbers of work items.
    pub(crate) const SIZES_ARE_ITEMS: u32 = 1 << 5;
}

/// A memory address, or what a packet has in place of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Memory(u64),
    /// A register, by its word offset.
    Register(u32),
    /// The value itself.
    Immediate(u64),
    /// The GPU's counter.
    Clock,
    /// A prefetch into caches, which are not emulated.
    Nowhere,
}

/// The write of a packet after all earlier work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndWrite {
    Nothing,
    Short(u32),
    Long(u64),
    Clock,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Packet<'a> {
    /// A packet without an effect here, by name: padding, cache control, order of the CP's engines. Memory is coherent,
    /// and a ring executes one packet at a time.
    Nothing(&'static str),
    /// State that only draws read.
    DrawState(&'static str),
    /// Shader registers from this one on, counted from the first.
    SetShaderRegisters {
        first: usize,
        values: &'a [u32],
    },
    /// The base address of indirect dispatches.
    SetDispatchBase {
        address: u64,
    },
    Dispatch {
        groups: [u32; 3],
        initiator: u32,
    },
    /// The sizes are in memory, relative to the base on a graphics ring.
    DispatchIndirect {
        relative: bool,
        address: u64,
        initiator: u32,
    },
    /// The next words are executed only if the word in memory is not 0.
    Conditional {
        address: u64,
        words: u64,
    },
    /// Packets with the predicate bit are executed only if the value in memory is, or is not, 0.
    SetPredicate(Option<Predicate>),
    /// Writes the numbers of samples that draws have covered, by render backend.
    CountSamples {
        address: u64,
    },
    EndOfPipe {
        address: u64,
        write: EndWrite,
    },
    Dma {
        from: Place,
        to: Place,
        size: u64,
    },
    Write {
        address: u64,
        values: &'a [u32],
        same_address: bool,
    },
    Copy {
        from: Place,
        to: Place,
        long: bool,
    },
    Wait {
        address: u64,
        function: u32,
        reference: u32,
        mask: u32,
    },
    IndirectBuffer {
        address: u64,
        words: u32,
        chain: bool,
    },
    Draw(&'static str),
    /// A packet, or a form of one, that is not emulated.
    Unknown {
        operation: u32,
        why: &'static str,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Predicate {
    pub(crate) address: u64,
    pub(crate) long: bool,
    /// Executed if the value is not 0.
    pub(crate) not_zero: bool,
}

/// A packet with its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decoded<'a> {
    pub(crate) packet: Packet<'a>,
    pub(crate) predicated: bool,
    /// In words, with the header.
    pub(crate) length: usize,
}

/// The event that samples the counters of covered samples.
const EVENT_SAMPLES: u32 = 0x15;
/// In each of these counters: the value is valid.
pub(crate) const SAMPLES_VALID: u64 = 1 << 63;
/// Distance of the counters of two render backends: each has one for the start and one for the end of a query.
pub(crate) const SAMPLES_STRIDE: u64 = 16;

/// A header that pads by one word.
const PADDING: u32 = 0xffff_1000;

/// Decodes the packet that these words begin with. `None` if they are none, or not the whole packet.
pub(crate) fn decode(words: &[u32]) -> Option<Decoded<'_>> {
    let (&header, rest) = words.split_first()?;
    let nothing = |name| Some(Decoded { packet: Packet::Nothing(name), predicated: false, length: 1 });
    match header >> 30 {
        2 => return nothing("padding"),
        3 if header == PADDING => return nothing("padding"),
        3 => {}
        _ => return None,
    }
    let body = rest.get(..(header >> 16 & 0x3fff) as usize + 1)?;
    let operation = header >> 8 & 0xff;
    let packet = body_of(operation, body).unwrap_or(Packet::Unknown { operation, why: "it is too short" });
    Some(Decoded { packet, predicated: header & 1 != 0, length: body.len() + 1 })
}

fn long(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// The packet of an operation. `None` if its body is too short.
fn body_of(operation: u32, body: &[u32]) -> Option<Packet<'_>> {
    let word = |index: usize| body.get(index).copied();
    let address = |index: usize| Some(long(word(index)?, word(index + 1)?));
    let unknown = |why| Packet::Unknown { operation, why };
    Some(match operation {
        0x10 => Packet::Nothing("NOP"),
        0x11 => match word(0)? & 0xf {
            1 => Packet::SetDispatchBase { address: address(1)? },
            _ => unknown("SET_BASE of another base than that of dispatches"),
        },
        0x12 => Packet::DrawState("CLEAR_STATE"),
        0x13 => Packet::DrawState("INDEX_BUFFER_SIZE"),
        0x15 => Packet::Dispatch { groups: [word(0)?, word(1)?, word(2)?], initiator: word(3)? },
        0x16 => match *body {
            [offset, initiator] => Packet::DispatchIndirect { relative: true, address: offset.into(), initiator },
            [low, high, initiator] => Packet::DispatchIndirect { relative: false, address: long(low, high), initiator },
            _ => unknown("DISPATCH_INDIRECT of another length"),
        },
        0x20 => predication(operation, word(0)?, address(1)?),
        0x22 => Packet::Conditional { address: address(0)?, words: u64::from(word(3)? & 0x3fff) },
        0x24 => Packet::Draw("DRAW_INDIRECT"),
        0x25 => Packet::Draw("DRAW_INDEX_INDIRECT"),
        0x26 => Packet::DrawState("INDEX_BASE"),
        0x27 => Packet::Draw("DRAW_INDEX_2"),
        0x28 => Packet::DrawState("CONTEXT_CONTROL"),
        0x2a => Packet::DrawState("INDEX_TYPE"),
        0x2c => Packet::Draw("DRAW_INDIRECT_MULTI"),
        0x2d => Packet::Draw("DRAW_INDEX_AUTO"),
        0x2f => Packet::DrawState("NUM_INSTANCES"),
        0x35 => Packet::Draw("DRAW_INDEX_OFFSET_2"),
        0x37 => write(operation, body)?,
        0x38 => Packet::Draw("DRAW_INDEX_INDIRECT_MULTI"),
        0x3c => match (word(0)?, address(1)?) {
            (control, address) if control >> 4 & 3 == 1 => {
                Packet::Wait { address, function: control & 7, reference: word(3)?, mask: word(4)? }
            }
            _ => unknown("WAIT_REG_MEM for a register"),
        },
        0x33 | 0x3f => {
            let control = word(2)?;
            let chain = control >> 20 & 1 != 0;
            Packet::IndirectBuffer { address: address(0)? & !3, words: control & 0xf_ffff, chain }
        }
        0x40 => copy(operation, body)?,
        0x42 => Packet::Nothing("PFP_SYNC_ME"),
        0x43 => Packet::Nothing("SURFACE_SYNC"),
        // With an address, counters are sampled.
        0x46 => match (word(0)? & 0x3f, body.len()) {
            (_, 1) => Packet::Nothing("EVENT_WRITE"),
            // The counters are aligned: the lowest bits are ignored.
            (EVENT_SAMPLES, _) => Packet::CountSamples { address: address(1)? & !7 },
            _ => unknown("EVENT_WRITE of other counters than those of samples"),
        },
        0x47 => {
            let high = word(2)?;
            end_of_pipe(operation, long(word(1)?, high & 0xffff), high >> 29, address(3)?)
        }
        0x49 => end_of_pipe(operation, address(2)?, word(1)? >> 29, address(4)?),
        0x50 => dma(operation, body)?,
        0x58 => Packet::Nothing("ACQUIRE_MEM"),
        0x61 | 0x9f => Packet::DrawState("LOAD_CONTEXT_REG"),
        0x68 => Packet::DrawState("SET_CONFIG_REG"),
        0x69 => Packet::DrawState("SET_CONTEXT_REG"),
        0x76 | 0x9b => {
            let (first, values) = body.split_first()?;
            Packet::SetShaderRegisters { first: (first & 0xffff) as usize, values }
        }
        0x79 | 0x7a => Packet::DrawState("SET_UCONFIG_REG"),
        _ => unknown("its operation"),
    })
}

fn predication(operation: u32, control: u32, address: u64) -> Packet<'static> {
    let not_zero = control >> 8 & 1 != 0;
    match control >> 16 & 7 {
        0 => Packet::SetPredicate(None),
        3 => Packet::SetPredicate(Some(Predicate { address, long: true, not_zero })),
        4 => Packet::SetPredicate(Some(Predicate { address, long: false, not_zero })),
        _ => Packet::Unknown { operation, why: "SET_PREDICATION by a query of draws" },
    }
}

fn write(operation: u32, body: &[u32]) -> Option<Packet<'_>> {
    let [control, low, high, values @ ..] = body else { return None };
    Some(match control >> 8 & 0xf {
        1 | 2 | 5 => Packet::Write { address: long(*low, *high), values, same_address: control >> 16 & 1 != 0 },
        _ => Packet::Unknown { operation, why: "WRITE_DATA to another place than memory" },
    })
}

fn copy(operation: u32, body: &[u32]) -> Option<Packet<'_>> {
    let [control, from_low, from_high, to_low, to_high, ..] = *body else { return None };
    let from = match control & 0xf {
        0 => Place::Register(from_low),
        1 | 2 => Place::Memory(long(from_low, from_high)),
        5 => Place::Immediate(long(from_low, from_high)),
        9 => Place::Clock,
        _ => return Some(Packet::Unknown { operation, why: "COPY_DATA from another place" }),
    };
    let to = match control >> 8 & 0xf {
        0 => Place::Register(to_low),
        1 | 2 | 5 => Place::Memory(long(to_low, to_high)),
        _ => return Some(Packet::Unknown { operation, why: "COPY_DATA to another place" }),
    };
    Some(Packet::Copy { from, to, long: control >> 16 & 1 != 0 })
}

fn end_of_pipe(operation: u32, address: u64, selection: u32, data: u64) -> Packet<'static> {
    // The low half is what the selection takes.
    let [a, b, c, d, ..] = data.to_le_bytes();
    let write = match selection {
        0 => EndWrite::Nothing,
        1 => EndWrite::Short(u32::from_le_bytes([a, b, c, d])),
        2 => EndWrite::Long(data),
        3 => EndWrite::Clock,
        _ => return Packet::Unknown { operation, why: "an end of pipe with other data" },
    };
    Packet::EndOfPipe { address, write }
}

fn dma(operation: u32, body: &[u32]) -> Option<Packet<'_>> {
    let [control, from_low, from_high, to_low, to_high, command, ..] = *body else { return None };
    let unknown = |why| Some(Packet::Unknown { operation, why });
    // Registers on a side, or an address that is not advanced.
    if command >> 26 & 0xf != 0 {
        return unknown("DMA_DATA with registers or constant addresses");
    }
    let from = match control >> 29 & 3 {
        0 | 3 => Place::Memory(long(from_low, from_high)),
        2 => Place::Immediate(from_low.into()),
        _ => return unknown("DMA_DATA from GDS"),
    };
    let to = match control >> 20 & 3 {
        0 | 3 => Place::Memory(long(to_low, to_high)),
        2 => Place::Nowhere,
        _ => return unknown("DMA_DATA to GDS"),
    };
    Some(Packet::Dma { from, to, size: u64::from(command & 0x3ff_ffff) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(operation: u32, body: usize) -> u32 {
        3 << 30 | u32::try_from(body - 1).unwrap() << 16 | operation << 8
    }

    /// Decodes a packet of an operation with a body, followed by a word that is not of the packet.
    fn with(operation: u32, body: &[u32], check: impl FnOnce(Packet<'_>)) {
        let words = [&[header(operation, body.len())], body, &[0xdead_beef]].concat();
        let decoded = decode(&words).unwrap();
        assert_eq!((decoded.length, decoded.predicated), (body.len() + 1, false), "operation {operation:#x}");
        check(decoded.packet);
    }

    #[test]
    fn headers_are_decoded() {
        assert_eq!(decode(&[0x8000_0000, 1]).unwrap().length, 1);
        assert_eq!(decode(&[PADDING, 1]).unwrap().length, 1);
        assert_eq!(decode(&[header(0x10, 3) | 1, 1, 2, 3]).map(|it| (it.predicated, it.length)), Some((true, 4)));
        assert_eq!(decode(&[header(0x10, 3), 1, 2]), None, "the end is missing");
        assert_eq!(decode(&[0x0000_1234, 0]), None, "a packet of type 0");
        assert_eq!(decode(&[]), None);
    }

    #[test]
    fn memory_packets_are_decoded() {
        with(0x37, &[5 << 8 | 1 << 20, 0x1000, 2, 7, 8], |packet| {
            let expected = Packet::Write { address: 0x2_0000_1000, values: &[7, 8], same_address: false };
            assert_eq!(packet, expected);
        });
        with(0x50, &[2 << 29, 0xa5a5_a5a5, 0, 0x1000, 2, 1024], |packet| {
            let (from, to) = (Place::Immediate(0xa5a5_a5a5), Place::Memory(0x2_0000_1000));
            assert_eq!(packet, Packet::Dma { from, to, size: 1024 });
        });
        with(0x50, &[3 << 29 | 3 << 20 | 1 << 31, 0x1000, 2, 0x3000, 4, 64], |packet| {
            let (from, to) = (Place::Memory(0x2_0000_1000), Place::Memory(0x4_0000_3000));
            assert_eq!(packet, Packet::Dma { from, to, size: 64 });
        });
        with(0x50, &[2 << 20, 0x1000, 2, 0x1000, 2, 256 | 1 << 31], |packet| {
            assert_eq!(packet, Packet::Dma { from: Place::Memory(0x2_0000_1000), to: Place::Nowhere, size: 256 });
        });
        with(0x40, &[9 | 5 << 8 | 1 << 16, 0, 0, 0x1000, 2], |packet| {
            assert_eq!(packet, Packet::Copy { from: Place::Clock, to: Place::Memory(0x2_0000_1000), long: true });
        });
        with(0x40, &[1, 0x1000, 2, 0x2e40, 0], |packet| {
            let (from, to) = (Place::Memory(0x2_0000_1000), Place::Register(0x2e40));
            assert_eq!(packet, Packet::Copy { from, to, long: false });
        });
        with(0x3c, &[3 | 1 << 4, 0x1000, 2, 5, 0xff, 4], |packet| {
            let (address, reference, mask) = (0x2_0000_1000, 5, 0xff);
            assert_eq!(packet, Packet::Wait { address, function: 3, reference, mask });
        });
        with(0x49, &[0x2f14, 2 << 29, 0x1000, 2, 7, 8], |packet| {
            let write = EndWrite::Long(0x8_0000_0007);
            assert_eq!(packet, Packet::EndOfPipe { address: 0x2_0000_1000, write });
        });
        with(0x47, &[0x514, 0x1000, 1 << 29 | 2, 7, 8], |packet| {
            assert_eq!(packet, Packet::EndOfPipe { address: 0x2_0000_1000, write: EndWrite::Short(7) });
        });
    }

    #[test]
    fn control_packets_are_decoded() {
        with(0x76, &[0x207, 64, 1, 1], |packet| {
            assert_eq!(packet, Packet::SetShaderRegisters { first: compute::GROUP, values: &[64, 1, 1] });
        });
        with(0x15, &[4, 5, 6, 1], |packet| {
            assert_eq!(packet, Packet::Dispatch { groups: [4, 5, 6], initiator: 1 });
        });
        with(0x16, &[16, 1], |packet| {
            assert_eq!(packet, Packet::DispatchIndirect { relative: true, address: 16, initiator: 1 });
        });
        with(0x16, &[0x1000, 2, 1], |packet| {
            assert_eq!(packet, Packet::DispatchIndirect { relative: false, address: 0x2_0000_1000, initiator: 1 });
        });
        with(0x3f, &[0x1000, 2, 20 | 1 << 20 | 1 << 23], |packet| {
            assert_eq!(packet, Packet::IndirectBuffer { address: 0x2_0000_1000, words: 20, chain: true });
        });
        with(0x22, &[0x1000, 2, 0, 12], |packet| {
            assert_eq!(packet, Packet::Conditional { address: 0x2_0000_1000, words: 12 });
        });
        with(0x20, &[3 << 16 | 1 << 8, 0x1000, 2], |packet| {
            let predicate = Predicate { address: 0x2_0000_1000, long: true, not_zero: true };
            assert_eq!(packet, Packet::SetPredicate(Some(predicate)));
        });
        with(0x46, &[0x115, 0x1004, 2], |packet| {
            assert_eq!(packet, Packet::CountSamples { address: 0x2_0000_1000 });
        });
        with(0x2d, &[3, 2], |packet| assert_eq!(packet, Packet::Draw("DRAW_INDEX_AUTO")));
    }

    #[test]
    fn what_is_not_emulated_is_unknown() {
        let cases: [(u32, &[u32]); 8] = [
            (0x99, &[0]),
            (0x37, &[0, 0x1000, 2, 7]),
            (0x3c, &[3, 0x1000, 2, 5, 0xff, 4]),
            (0x40, &[4, 0, 0, 0x1000, 2]),
            (0x50, &[1 << 29, 0, 0, 0x1000, 2, 4]),
            (0x50, &[0, 0, 0, 0x1000, 2, 4 | 1 << 27]),
            (0x46, &[0x21e, 0x1000, 2]),
            (0x15, &[1, 1]),
        ];
        for (operation, body) in cases {
            with(operation, body, |packet| {
                let unknown = matches!(packet, Packet::Unknown { operation: found, .. } if found == operation);
                assert!(unknown, "{operation:#x} {body:x?}: {packet:?}");
            });
        }
    }
}
