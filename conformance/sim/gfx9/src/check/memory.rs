//! Accesses to memory: scalar, flat, global, private, through descriptors, and in LDS.

use super::generate::Random;
use super::machine::{Machine, assembled};
use super::space::bytes_of;
use crate::decode::decode;
use crate::wave::{LANES, code};

/// Suffix of a load, bytes, the value of the loaded bytes, and the bits of the register that stay.
const LOADS: [(&str, usize, fn(u32) -> u32, u32); 10] = [
    ("ubyte", 1, |value| value, 0),
    ("sbyte", 1, |value| value as u8 as i8 as u32, 0),
    ("ushort", 2, |value| value, 0),
    ("sshort", 2, |value| value as u16 as i16 as u32, 0),
    ("ubyte_d16", 1, |value| value, 0xffff_0000),
    ("ubyte_d16_hi", 1, |value| value << 16, 0xffff),
    ("sbyte_d16", 1, |value| value as u8 as i8 as u16 as u32, 0xffff_0000),
    ("sbyte_d16_hi", 1, |value| (value as u8 as i8 as u32) << 16, 0xffff),
    ("short_d16", 2, |value| value, 0xffff_0000),
    ("short_d16_hi", 2, |value| value << 16, 0xffff),
];

/// Suffix of a store, bytes, and the shift of the register.
const STORES: [(&str, usize, u32); 4] =
    [("byte", 1, 0), ("byte_d16_hi", 1, 16), ("short", 2, 0), ("short_d16_hi", 2, 16)];

const OLD: u32 = 0x1357_9bdf;

/// Where a machine's lanes access memory: the operands' text, the memory's mapping, and each lane's byte in it.
struct Place {
    prefix: &'static str,
    operands: &'static str,
    mapping: u64,
    byte: fn(usize, usize) -> usize,
}

/// A machine with memory at 24 bytes per lane, and addresses in all registers that the places need.
fn machine() -> (Machine, Vec<Place>) {
    let mut machine = Machine::new();
    let mut random = Random::new(31);
    let words: Vec<u32> = (0..2048).map(|_| random.next() as u32).collect();
    let memory = machine.space.map(&bytes_of(&words), true);
    let private = machine.space.map(&bytes_of(&words), true);
    machine.set_vector(2, |lane| memory + 24 * lane as u64);
    machine.set_word(4, |lane| 24 * lane as u32);
    machine.set_word(5, |lane| 4 * (lane as u32 % 4));
    machine.set_vector(6, |lane| (0x2_0000 << 32) | (4 * (lane as u64 % 4)));
    machine.wave.set_pair(2, memory);
    machine.wave.set_pair(code::FLAT_SCRATCH, private);
    machine.wave.scalars[20] = 8;
    // A raw buffer, one of records of 24 bytes, and the private memory of a wave: swizzled, with the lane as its index.
    let buffer =
        |base: u64, high: u32, records: u32, flags: u32| [base as u32, (base >> 32) as u32 | high, records, flags];
    machine.wave.scalars[4..8].copy_from_slice(&buffer(memory, 0, 8192, 0x0002_4fac));
    machine.wave.scalars[8..12].copy_from_slice(&buffer(memory, 24 << 16, 64, 0x0002_4fac));
    machine.wave.scalars[12..16].copy_from_slice(&buffer(private, 1 << 31, u32::MAX, 3 << 21 | 1 << 23));
    machine.set_word(8, |lane| lane as u32);
    /// The byte of a lane's private memory.
    fn swizzled(lane: usize, byte: usize) -> usize {
        byte / 4 * 256 + lane * 4 + byte % 4
    }
    let places = vec![
        Place {
            prefix: "global",
            operands: "v[2:3], DATA, off offset:8",
            mapping: memory,
            byte: |lane, at| 24 * lane + 8 + at,
        },
        Place {
            prefix: "global",
            operands: "v4, DATA, s[2:3] offset:8",
            mapping: memory,
            byte: |lane, at| 24 * lane + 8 + at,
        },
        Place {
            prefix: "flat",
            operands: "v[2:3], DATA offset:8",
            mapping: memory,
            byte: |lane, at| 24 * lane + 8 + at,
        },
        Place {
            prefix: "flat",
            operands: "v[6:7], DATA",
            mapping: private,
            byte: |lane, at| swizzled(lane, 4 * (lane % 4) + at),
        },
        Place {
            prefix: "scratch",
            operands: "v5, DATA, off offset:4",
            mapping: private,
            byte: |lane, at| swizzled(lane, 4 * (lane % 4) + 4 + at),
        },
        Place {
            prefix: "scratch",
            operands: "off, DATA, s20 offset:-4",
            mapping: private,
            byte: |lane, at| swizzled(lane, 4 + at),
        },
        Place {
            prefix: "buffer",
            operands: "DATA, v4, s[4:7], s20 offen offset:8",
            mapping: memory,
            byte: |lane, at| 24 * lane + 16 + at,
        },
        Place {
            prefix: "buffer",
            operands: "DATA, v8, s[8:11], 0 idxen offset:8",
            mapping: memory,
            byte: |lane, at| 24 * lane + 8 + at,
        },
        Place {
            prefix: "buffer",
            operands: "DATA, v5, s[12:15], 0 offen offset:4",
            mapping: private,
            byte: |lane, at| swizzled(lane, 4 * (lane % 4) + 4 + at),
        },
    ];
    (machine, places)
}

/// The instruction's text: loads have the data first.
fn text(place: &Place, operation: &str, data: &str, load: bool) -> String {
    let operands = place.operands.replace("DATA, ", "").replace(", DATA", "");
    match place.prefix {
        "buffer" => format!("buffer_{operation} {}", place.operands.replace("DATA", data)),
        prefix if load => format!("{prefix}_{operation} {data}, {operands}"),
        prefix => format!("{prefix}_{operation} {}", place.operands.replace("DATA", data)),
    }
}

pub(super) fn vector_accesses() {
    let (_, places) = machine();
    let mut lines = String::new();
    for place in &places {
        for (suffix, ..) in LOADS {
            lines.push_str(&format!("{}\n", text(place, &format!("load_{suffix}"), "v20", true)));
        }
        for (suffix, ..) in STORES {
            lines.push_str(&format!("{}\n", text(place, &format!("store_{suffix}"), "v10", false)));
        }
        for (suffix, data, from) in [
            ("dword", "v20", "v10"),
            ("dwordx2", "v[20:21]", "v[10:11]"),
            ("dwordx3", "v[20:22]", "v[10:12]"),
            ("dwordx4", "v[20:23]", "v[10:13]"),
        ] {
            lines.push_str(&format!("{}\n", text(place, &format!("load_{suffix}"), data, true)));
            lines.push_str(&format!("{}\n", text(place, &format!("store_{suffix}"), from, false)));
        }
    }
    let instructions = assembled(&lines);
    let mut next = instructions.iter().zip(lines.lines());
    for number in 0..places.len() {
        for (_, bytes, value, stays) in LOADS {
            let (instruction, line) = next.next().unwrap();
            check_load(number, instruction, line, &|memory, byte, lane| {
                let loaded = (0..bytes).fold(0, |all, at| all | u32::from(memory[byte(lane, at)]) << (8 * at));
                vec![OLD & stays | value(loaded) & !stays]
            });
        }
        for (_, bytes, shift) in STORES {
            let (instruction, line) = next.next().unwrap();
            check_store(number, instruction, line, bytes, shift);
        }
        for words in 1..=4 {
            let (instruction, line) = next.next().unwrap();
            check_load(number, instruction, line, &|memory, byte, lane| {
                let word = |word: usize| {
                    (0..4).fold(0, |all, at| all | u32::from(memory[byte(lane, word * 4 + at)]) << (8 * at))
                };
                (0..words).map(word).collect()
            });
            let (instruction, line) = next.next().unwrap();
            check_store(number, instruction, line, words * 4, 0);
        }
    }
}

type Loaded<'a> = &'a dyn Fn(&[u8], fn(usize, usize) -> usize, usize) -> Vec<u32>;

fn check_load(place: usize, instruction: &crate::Instruction, line: &str, expected: Loaded<'_>) {
    let (mut machine, places) = machine();
    let place = &places[place];
    for register in 20..24 {
        machine.set_word(register, |_| OLD);
    }
    let exec = 0xffff_0ff0_7fff_fff3;
    machine.wave.set_pair(code::EXEC, exec);
    machine.execute(instruction).unwrap_or_else(|stop| panic!("{line}: {stop}"));
    let memory = machine.space.bytes(place.mapping);
    for lane in 0..LANES {
        let mut expected = expected(&memory, place.byte, lane);
        if exec >> lane & 1 == 0 {
            expected.clear();
        }
        expected.resize(4, OLD);
        let found: Vec<_> = (20..24).map(|register| machine.lanes(register)[lane]).collect();
        assert_eq!(found, expected, "{line}, lane {lane}");
    }
}

fn check_store(place: usize, instruction: &crate::Instruction, line: &str, bytes: usize, shift: u32) {
    let (mut machine, places) = machine();
    let place = &places[place];
    for register in 10..14 {
        machine.set_word(register, |lane| (lane as u32 + 3).wrapping_mul(0x9e37_79b9) + register as u32);
    }
    let exec = 0xffff_0ff0_7fff_fff3;
    machine.wave.set_pair(code::EXEC, exec);
    let mut expected = machine.space.bytes(place.mapping);
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        for at in 0..bytes {
            let word = machine.lanes(10 + at / 4)[lane] >> shift;
            expected[(place.byte)(lane, at)] = word.to_le_bytes()[at % 4];
        }
    }
    machine.execute(instruction).unwrap_or_else(|stop| panic!("{line}: {stop}"));
    assert_eq!(machine.space.bytes(place.mapping), expected, "{line}");
}

/// An atomic operation of 32 or 64 bits: what becomes of a number, with the data and what is compared.
type Atomic = fn(u64, u64, u64, u32) -> u64;

const fn signed(value: u64, bits: u32) -> i64 {
    (value << (64 - bits)) as i64 >> (64 - bits)
}

const ATOMICS: [(&str, &str, Atomic); 13] = [
    ("swap", "wrxchg b", |_, data, _, _| data),
    ("cmpswap", "", |old, data, compare, _| if old == compare { data } else { old }),
    ("add", "add u", |old, data, _, _| old.wrapping_add(data)),
    ("sub", "sub u", |old, data, _, _| old.wrapping_sub(data)),
    ("smin", "min i", |old, data, _, bits| if signed(data, bits) < signed(old, bits) { data } else { old }),
    ("umin", "min u", |old, data, _, _| old.min(data)),
    ("smax", "max i", |old, data, _, bits| if signed(data, bits) > signed(old, bits) { data } else { old }),
    ("umax", "max u", |old, data, _, _| old.max(data)),
    ("and", "and b", |old, data, _, _| old & data),
    ("or", "or b", |old, data, _, _| old | data),
    ("xor", "xor b", |old, data, _, _| old ^ data),
    ("inc", "inc u", |old, data, _, _| if old >= data { 0 } else { old + 1 }),
    ("dec", "dec u", |old, data, _, _| if old == 0 || old > data { data } else { old - 1 }),
];

pub(super) fn atomics() {
    let (_, places) = machine();
    for bits in [32, 64] {
        let mut lines = String::new();
        let mut cases = Vec::new();
        for (number, place) in places.iter().enumerate().filter(|(_, place)| {
            place.prefix != "scratch" && !place.operands.contains("v[6:7]") && !place.operands.contains("s[12:15]")
        }) {
            for (name, _, function) in ATOMICS {
                for returns in [false, true] {
                    let suffix = if bits == 64 { "_x2" } else { "" };
                    let data = match (bits, name) {
                        (32, "cmpswap") => "v[10:11]",
                        (32, _) => "v10",
                        (_, "cmpswap") => "v[10:13]",
                        _ => "v[10:11]",
                    };
                    let result = if bits == 64 { "v[20:21], " } else { "v20, " };
                    let mut line = text(place, &format!("atomic_{name}{suffix}"), data, false);
                    if returns && place.prefix != "buffer" {
                        line = line.replacen(' ', &format!(" {result}"), 1);
                    }
                    lines.push_str(&format!("{line}{}\n", if returns { " glc" } else { "" }));
                    cases.push((number, function, returns));
                }
            }
        }
        let instructions = assembled(&lines);
        for (((number, function, returns), instruction), line) in
            cases.into_iter().zip(&instructions).zip(lines.lines())
        {
            let (mut machine, places) = machine();
            let place = &places[number];
            let size = bits as usize / 8;
            let before = machine.space.bytes(place.mapping);
            let read = |bytes: &[u8], lane: usize| {
                (0..size).fold(0, |all, at| all | u64::from(bytes[(place.byte)(lane, at)]) << (8 * at))
            };
            // Small data for those that count, and equal data for those that compare.
            let data = |lane: usize| {
                if lane.is_multiple_of(3) {
                    5
                } else if lane % 3 == 1 {
                    read(&before, lane)
                } else {
                    (lane as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) & (u64::MAX >> (64 - bits))
                }
            };
            let compare = |lane: usize| if lane.is_multiple_of(2) { read(&before, lane) } else { 1 };
            machine.set_vector(10, data);
            machine.set_vector(if bits == 32 { 11 } else { 12 }, compare);
            machine.set_vector(20, |_| OLD.into());
            machine.execute(instruction).unwrap_or_else(|stop| panic!("{line}: {stop}"));
            let after = machine.space.bytes(place.mapping);
            for lane in 0..LANES {
                let old = read(&before, lane);
                let expected = function(old, data(lane), compare(lane), bits) & (u64::MAX >> (64 - bits));
                assert_eq!(read(&after, lane), expected, "{line}, lane {lane} of {old:x}");
                let register = if place.prefix == "buffer" { 10 } else { 20 };
                if returns {
                    assert_eq!(machine.vector(register, size / 4, lane), old, "{line}, lane {lane}");
                }
            }
        }
    }
}

/// All of LDS's operations on one word per lane.
pub(super) fn shared_atomics() {
    let more: [(&str, Atomic); 3] = [
        ("rsub u", |old, data, _, _| data.wrapping_sub(old)),
        ("mskor b", |old, data, second, _| old & !data | second),
        ("cmpst b", |old, data, second, _| if old == data { second } else { old }),
    ];
    for bits in [32_u32, 64] {
        let mut lines = String::new();
        let mut cases = Vec::new();
        let all = ATOMICS.iter().map(|(_, name, function)| (*name, *function)).filter(|(name, _)| !name.is_empty());
        for (name, function) in all.chain(more) {
            let (name, kind) = name.split_once(' ').unwrap();
            let (result, a, b) = if bits == 32 { ("v20", "v10", "v12") } else { ("v[20:21]", "v[10:11]", "v[12:13]") };
            let operands = if matches!(name, "mskor" | "cmpst") { format!("{a}, {b}") } else { a.to_owned() };
            if name != "wrxchg" {
                lines.push_str(&format!("ds_{name}_{kind}{bits} v2, {operands} offset:8\n"));
                cases.push((function, false));
            }
            lines.push_str(&format!("ds_{name}_rtn_{kind}{bits} {result}, v2, {operands} offset:8\n"));
            cases.push((function, true));
        }
        if bits == 32 {
            lines.push_str("ds_wrap_rtn_b32 v20, v2, v10, v12 offset:8\n");
            cases.push((|old, data, second, _| if old >= data { old - data } else { old + second }, true));
            for (name, function) in
                [("add", (|a, b| a + b) as fn(f32, f32) -> f32), ("min", f32::min), ("max", f32::max)]
            {
                let _ = function;
                lines.push_str(&format!("ds_{name}_f32 v2, v10 offset:8\nds_{name}_rtn_f32 v20, v2, v10 offset:8\n"));
                let whole: Atomic = match name {
                    "add" => {
                        |old, data, _, _| (f32::from_bits(old as u32) + f32::from_bits(data as u32)).to_bits().into()
                    }
                    "min" => {
                        |old, data, _, _| f32::from_bits(old as u32).min(f32::from_bits(data as u32)).to_bits().into()
                    }
                    _ => |old, data, _, _| f32::from_bits(old as u32).max(f32::from_bits(data as u32)).to_bits().into(),
                };
                cases.extend([(whole, false), (whole, true)]);
            }
        }
        let instructions = assembled(&lines);
        let most = u64::MAX >> (64 - bits);
        for (((function, returns), instruction), line) in cases.into_iter().zip(&instructions).zip(lines.lines()) {
            let mut machine = Machine::new();
            // Words that are numbers in all types.
            let old = |lane: usize| {
                if lane.is_multiple_of(4) {
                    lane as u64
                } else {
                    (lane as u64).wrapping_mul(0x0123_4567_89ab_cdef) & most & !0x4000_0000
                }
            };
            let data = |lane: usize| {
                if lane.is_multiple_of(3) {
                    5
                } else if lane % 3 == 1 {
                    old(lane)
                } else {
                    (lane as u64).wrapping_mul(0x1c71_c71c_0321_0123) & most & !0x4000_0000
                }
            };
            let second = |lane: usize| lane as u64 * 11;
            for lane in 0..LANES {
                machine.shared[lane * 16 + 8..][..8].copy_from_slice(&old(lane).to_le_bytes());
            }
            machine.set_word(2, |lane| lane as u32 * 16);
            machine.set_vector(10, data);
            machine.set_vector(12, second);
            machine.execute(instruction).unwrap_or_else(|stop| panic!("{line}: {stop}"));
            for lane in 0..LANES {
                let found = u64::from_le_bytes(machine.shared[lane * 16 + 8..][..8].try_into().unwrap()) & most;
                let expected = function(old(lane), data(lane), second(lane), bits) & most;
                assert_eq!(found, expected, "{line}, lane {lane}: {:x} {:x}", old(lane), data(lane));
                if returns {
                    assert_eq!(machine.vector(20, bits as usize / 32, lane), old(lane), "{line}, lane {lane}");
                }
            }
        }
    }
}

/// Reads and writes of LDS, with one offset and with two, and exchanges of lanes.
pub(super) fn shared_accesses() {
    let mut machine = Machine::new();
    let at = |machine: &Machine, byte: usize, size: usize| {
        (0..size).fold(0, |all, place| all | u64::from(machine.shared[byte + place]) << (8 * place))
    };
    machine.set_word(2, |lane| lane as u32 * 32);
    for register in 10..14 {
        machine.set_word(register, |lane| (lane as u32 + 1).wrapping_mul(0x8765_4321) ^ register as u32);
    }
    machine.run("ds_write_b128 v2, v[10:13]\nds_write_b96 v2, v[10:12] offset:16\nds_write_b32 v2, v13 offset:28");
    for lane in 0..LANES {
        for word in 0..4 {
            let expected = u64::from(machine.lanes(10 + word)[lane]);
            assert_eq!(at(&machine, lane * 32 + word * 4, 4), expected);
            assert_eq!(at(&machine, lane * 32 + 16 + word * 4, 4), expected);
        }
    }
    for register in 20..32 {
        machine.set_word(register, |_| OLD);
    }
    machine.run(
        "ds_read_b128 v[20:23], v2 offset:16\nds_read_b96 v[24:26], v2\nds_read_b64 v[28:29], v2 offset:8\nds_read_b32 v30, v2 offset:4",
    );
    for lane in 0..LANES {
        let [a, b, c, d] = [10, 11, 12, 13].map(|register| machine.lanes(register)[lane]);
        let found: Vec<_> = (20..31).map(|register| machine.lanes(register)[lane]).collect();
        assert_eq!(found, [a, b, c, d, a, b, c, OLD, c, d, b]);
    }
    let parts: [(&str, usize, fn(u32) -> u32, u32); 10] = [
        ("u8", 1, LOADS[0].2, 0),
        ("i8", 1, LOADS[1].2, 0),
        ("u16", 2, LOADS[2].2, 0),
        ("i16", 2, LOADS[3].2, 0),
        ("u8_d16", 1, LOADS[4].2, LOADS[4].3),
        ("u8_d16_hi", 1, LOADS[5].2, LOADS[5].3),
        ("i8_d16", 1, LOADS[6].2, LOADS[6].3),
        ("i8_d16_hi", 1, LOADS[7].2, LOADS[7].3),
        ("u16_d16", 2, LOADS[8].2, LOADS[8].3),
        ("u16_d16_hi", 2, LOADS[9].2, LOADS[9].3),
    ];
    for (name, bytes, value, stays) in parts {
        machine.set_word(20, |_| OLD);
        machine.run(&format!("ds_read_{name} v20, v2 offset:6"));
        for lane in 0..LANES {
            let loaded = at(&machine, lane * 32 + 6, bytes) as u32;
            assert_eq!(machine.lanes(20)[lane], OLD & stays | value(loaded) & !stays, "{name}");
        }
    }
    machine.run("ds_write_b8 v2, v10 offset:1\nds_write_b16 v2, v10 offset:2\nds_write_b8_d16_hi v2, v10 offset:4\nds_write_b16_d16_hi v2, v10 offset:6\nds_nop");
    for lane in 0..LANES {
        let value = u64::from(machine.lanes(10)[lane]);
        let found = [1, 4].map(|byte| at(&machine, lane * 32 + byte, 1));
        assert_eq!(found, [value & 0xff, value >> 16 & 0xff]);
        assert_eq!([2, 6].map(|byte| at(&machine, lane * 32 + byte, 2)), [value & 0xffff, value >> 16]);
    }
    // Two offsets, in elements and in 64 elements.
    machine.set_word(2, |lane| lane as u32 * 8);
    machine.run("ds_write2_b32 v2, v10, v11 offset0:1 offset1:0\nds_write2st64_b32 v2, v12, v13 offset0:8 offset1:4");
    machine.run("ds_read2_b32 v[20:21], v2 offset1:1\nds_read2st64_b32 v[22:23], v2 offset0:4 offset1:8");
    machine.run("ds_write2_b64 v2, v[10:11], v[12:13] offset0:128 offset1:192\nds_read2_b64 v[24:27], v2 offset0:192 offset1:128");
    for lane in 0..LANES {
        let [a, b, c, d] = [10, 11, 12, 13].map(|register| machine.lanes(register)[lane]);
        let found: Vec<_> = (20..28).map(|register| machine.lanes(register)[lane]).collect();
        assert_eq!(found, [b, a, d, c, c, d, a, b]);
        assert_eq!(
            at(&machine, lane * 8 + 1024 * 2, 4),
            if lane % 32 < 32 { at(&machine, lane * 8 + 2048, 4) } else { 0 }
        );
        assert_eq!(at(&machine, lane * 8 + 128 * 8, 8), u64::from(b) << 32 | u64::from(a));
    }
    machine.run("ds_write2st64_b64 v2, v[10:11], v[12:13] offset0:3 offset1:1\nds_read2st64_b64 v[24:27], v2 offset0:1 offset1:3");
    for lane in 0..LANES {
        let [a, b, c, d] = [10, 11, 12, 13].map(|register| machine.lanes(register)[lane]);
        let found: Vec<_> = (24..28).map(|register| machine.lanes(register)[lane]).collect();
        assert_eq!(found, [c, d, a, b]);
        assert_eq!(at(&machine, lane * 8 + 3 * 512, 4), u64::from(a));
    }
    // Beyond the end: zeroes, and no writes.
    machine.set_word(3, |_| 8190);
    machine.set_word(20, |_| OLD);
    machine.run("ds_write_b32 v3, v10 offset:100\nds_read_b32 v20, v3 offset:100");
    assert_eq!(machine.lanes(20)[0], 0);
    machine.set_word(3, |lane| (lane as u32 * 28 + 4) % 256);
    machine.run("ds_bpermute_b32 v20, v3, v10\nds_permute_b32 v21, v3, v10\nds_swizzle_b32 v22, v10 offset:0x041f\nds_swizzle_b32 v23, v10 offset:0x8039");
    for lane in 0..LANES {
        let lanes = machine.lanes(10);
        let to = (lane * 7 + 1) % 64;
        assert_eq!((machine.lanes(20)[lane], machine.lanes(21)[to]), (lanes[to], lanes[lane]));
        assert_eq!(machine.lanes(22)[lane], lanes[lane ^ 1]);
        assert_eq!(machine.lanes(23)[lane], lanes[lane / 4 * 4 + [1, 2, 3, 0][lane % 4]]);
    }
}

/// Accesses of the scalar unit.
pub(super) fn scalar_accesses() {
    let words: Vec<u32> = (0..64).map(|word| word * 3 + 1).collect();
    let mut machine = Machine::new();
    let memory = machine.space.map(&bytes_of(&words), true);
    machine.wave.set_pair(4, memory);
    machine.wave.scalars[8..12].copy_from_slice(&[memory as u32, (memory >> 32) as u32, 40, 0]);
    machine.wave.scalars[12..16].copy_from_slice(&[memory as u32, (memory >> 32) as u32 | 16 << 16, 3, 0]);
    machine.wave.scalars[3] = 16;
    for (text, first, count) in [
        ("s_load_dword s20, s[4:5], 0x8", 2, 1),
        ("s_load_dwordx2 s[20:21], s[4:5], s3", 4, 2),
        ("s_load_dwordx4 s[20:23], s[4:5], 0x10", 4, 4),
        ("s_load_dwordx8 s[20:27], s[4:5], s3 offset:0x4", 5, 8),
        ("s_load_dwordx16 s[20:35], s[4:5], 0x40", 16, 16),
        ("s_buffer_load_dword s20, s[8:11], 0x24", 9, 1),
        ("s_buffer_load_dwordx2 s[20:21], s[8:11], s3", 4, 2),
        ("s_buffer_load_dwordx4 s[20:23], s[8:11], 0x18", 6, 4),
        ("s_buffer_load_dwordx8 s[20:27], s[12:15], 0x10", 4, 8),
        ("s_buffer_load_dwordx16 s[20:35], s[12:15], 0x20", 8, 4),
    ] {
        machine.wave.scalars[20..37].fill(77);
        machine.run(text);
        assert_eq!(machine.wave.scalars[20..20 + count], words[first..first + count], "{text}");
        if text.contains("x16") && text.contains("buffer") {
            assert_eq!(machine.wave.scalars[24..36], [0; 12], "{text}");
        }
        assert_eq!(machine.wave.scalars[36], 77, "{text}");
    }
    machine.run("s_buffer_load_dword s20, s[8:11], 0x28");
    assert_eq!(machine.wave.scalars[20], 0);
    machine.wave.scalars[20..24].copy_from_slice(&[1000, 1001, 1002, 1003]);
    machine.run("s_store_dword s20, s[4:5], 0x0\ns_store_dwordx2 s[20:21], s[4:5], 0x10\ns_store_dwordx4 s[20:23], s[4:5], 0x20");
    let found = machine.space.words(memory);
    assert_eq!((found[0], &found[4..6], &found[8..12]), (1000, &[1000, 1001][..], &[1000, 1001, 1002, 1003][..]));
    machine.run("s_dcache_inv\ns_dcache_wb\ns_dcache_inv_vol\ns_dcache_wb_vol\nbuffer_wbinvl1\nbuffer_wbinvl1_vol");
    machine.run("s_memtime s[40:41]\ns_memrealtime s[42:43]");
    assert!(machine.wave.pair(42) >= machine.wave.pair(40));
}

/// Formats, ends of buffers, and addresses that are not mapped.
pub(super) fn descriptors() {
    let mut machine = Machine::new();
    let words: Vec<u32> = (0..256).map(|word| word * 0x0101_0101).collect();
    let memory = machine.space.map(&bytes_of(&words), true);
    let base = [memory as u32, (memory >> 32) as u32];
    // Elements of four bytes as 8-bit integers: the components in another order, 1 and 0.
    let selects = 5 | 4 << 3 | 1 << 6;
    machine.wave.scalars[4..8].copy_from_slice(&[base[0], base[1] | 4 << 16, 40, selects | 4 << 12 | 10 << 15]);
    machine.set_word(2, |lane| lane as u32);
    for register in 20..24 {
        machine.set_word(register, |_| OLD);
    }
    machine.run("buffer_load_format_xyzw v[20:23], v2, s[4:7], 0 idxen");
    for lane in 0..LANES {
        let found: Vec<_> = (20..24).map(|register| machine.lanes(register)[lane]).collect();
        let byte = lane as u32;
        assert_eq!(found, if lane < 40 { [byte, byte, 1, 0] } else { [0; 4] }, "{lane}");
    }
    for (count, registers) in [("x", "v20"), ("xy", "v[20:21]"), ("xyz", "v[20:22]"), ("xyzw", "v[20:23]")] {
        machine.set_word(20, |lane| 200 + lane as u32);
        machine.set_word(21, |_| 300);
        machine.set_word(22, |_| 2);
        machine.set_word(23, |_| 3);
        machine.run(&format!("buffer_store_format_{count} {registers}, v2, s[4:7], 0 idxen\nbuffer_load_format_{count} {registers}, v2, s[4:7], 0 idxen"));
        let format = "dfmt:10, nfmt:4,";
        machine.run(&format!("tbuffer_store_format_{count} {registers}, v2, s[4:7], {format} 0 idxen\ntbuffer_load_format_{count} {registers}, v2, s[4:7], {format} 0 idxen"));
    }
    // A raw buffer of 40 bytes: the last words of a vector are outside.
    machine.wave.scalars[8..12].copy_from_slice(&[base[0], base[1], 40, 0]);
    machine.set_word(2, |lane| lane as u32 * 4);
    let before = machine.space.words(memory);
    machine.run("buffer_load_dwordx4 v[20:23], v2, s[8:11], 0 offen");
    for lane in 0..LANES {
        for word in 0..4 {
            let expected = if lane + word < 10 { before[lane + word] } else { 0 };
            assert_eq!(machine.lanes(20 + word)[lane], expected, "{lane}");
        }
    }
    machine.set_word(30, |_| 12345);
    machine.run("buffer_store_dword v30, v2, s[8:11], 0 offen offset:36");
    let after = machine.space.words(memory);
    assert_eq!((after[9], &after[10..]), (12345, &before[10..]));
    // With a stride and without an index, records are bytes.
    machine.wave.scalars[9] = base[1] | 16 << 16;
    machine.run("buffer_load_dword v20, v2, s[8:11], 0 offen");
    assert_eq!((machine.lanes(20)[9], machine.lanes(20)[10]), (12345, 0));
    // Index and offset, and a swizzled buffer of records of 16 bytes, 8 of them beside each other.
    machine.wave.scalars[12..16].copy_from_slice(&[base[0], base[1] | 16 << 16 | 1 << 31, 64, 0]);
    machine.set_vector(4, |lane| lane as u64 | 8 << 32);
    machine.run("buffer_load_dword v20, v[4:5], s[12:15], 0 idxen offen offset:4");
    for lane in 0..LANES {
        let at = lane / 8 * 32 + 3 * 8 + lane % 8;
        assert_eq!(machine.lanes(20)[lane], after[at], "{lane}");
    }
    machine.set_vector(6, |_| 0x123);
    for text in
        ["global_load_dword v20, v[6:7], off", "flat_store_dword v[6:7], v20", "global_atomic_add v[6:7], v20, off"]
    {
        let stop = machine.execute(&assembled(text)[0]);
        assert!(matches!(stop, Err(crate::Stop::PageFault { address: 0x123, .. })), "{text}: {stop:?}");
    }
    let constant = machine.space.map(&[0; 64], false);
    machine.set_vector(6, |_| constant);
    let stop = machine.execute(&assembled("global_store_dword v[6:7], v20, off")[0]);
    assert_eq!(stop, Err(crate::Stop::PageFault { address: constant, read_only: true }));
    machine.set_vector(6, |_| memory + 2);
    let stop = machine.execute(&assembled("global_atomic_add v[6:7], v20, off")[0]).unwrap_err();
    assert!(stop.to_string().contains("not a multiple of its size"), "{stop}");
}

/// A store with a scalar address, in words of Mesa's compiler: its vector address is that of a register which the program
/// does not have.
pub(super) fn private_memory_by_scalars() {
    let instruction = decode([0xdc74_4000, 0x003d_1880]).unwrap();
    assert_eq!(instruction.to_string(), "scratch_store_dwordx2 off, v[24:25], s61");
    let mut machine = Machine::new();
    let memory = machine.space.map(&[0; 4096], true);
    machine.wave.set_pair(code::FLAT_SCRATCH, memory);
    machine.wave.scalars[61] = 8;
    machine.set_vector(24, |lane| 5 << 32 | lane as u64);
    machine.execute(&instruction).unwrap();
    let words = machine.space.words(memory);
    for lane in 0..LANES {
        assert_eq!((words[2 * LANES + lane], words[3 * LANES + lane]), (lane as u32, 5));
    }
}
