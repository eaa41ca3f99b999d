//! Image instructions, each of which a wave executes alone.

use super::*;
use crate::decode::decode;
use crate::image::tests::plane;
use crate::memory::{Bus, Mapping, Memory};
use crate::tiling::{AddressConfig, Layout, Shape};
use crate::wave::{Apertures, LANES, Mode, Wave, code};

/// Memory from this address on.
const BASE: u64 = 0x10_0000;

struct Space(Vec<u64>);

// SAFETY: the bytes belong to the vector, which outlives the borrow, and nothing else accesses them meanwhile.
unsafe impl Memory for Space {
    fn find(&self, _: u64) -> Option<Mapping> {
        let length = self.0.len() as u64 * 8;
        Some(Mapping { start: BASE, length, host: self.0.as_ptr().cast_mut().cast(), writable: true })
    }
}

impl Space {
    fn new(bytes: usize) -> Self {
        Self(vec![0; bytes / 8])
    }

    fn load(&self, address: u64, size: u64) -> u64 {
        Bus::new(self).load(address, size).unwrap()
    }

    fn store(&self, address: u64, size: u64, value: u64) {
        Bus::new(self).store(address, size, value).unwrap();
    }
}

/// A wave whose image descriptor is in s8 and its sampler in s16: the instructions have the data in v0 and the address
/// in v4.
fn wave(image: [u32; 8], sampler: [u32; 4]) -> Wave {
    let mut wave = Wave::new(16, Mode::new(0xf0).unwrap(), Apertures::default());
    wave.set_pair(code::EXEC, u64::MAX);
    wave.scalars[8..16].copy_from_slice(&image);
    wave.scalars[16..20].copy_from_slice(&sampler);
    wave
}

/// The second word: only instructions that sample have a sampler.
fn second(first: u32) -> u32 {
    if first >> 18 & 127 >= 32 { 0x0082_0004 } else { 0x0002_0004 }
}

fn execute(wave: &mut Wave, space: &Space, first: u32) -> Result<()> {
    execute_words(wave, space, [first, second(first)])
}

fn execute_words(wave: &mut Wave, space: &Space, words: [u32; 2]) -> Result<()> {
    let instruction = decode(words).unwrap();
    let mut bus = Bus::new(space);
    let addresses = AddressConfig::default();
    let mut unit = Unit { wave, shared: &mut [], bus: &mut bus, addresses, forget_code: false };
    (instruction.row.execute)(&mut unit, &instruction.fields)
}

const LOAD: u32 = 0xf000_1f00;
const LOAD_MIP: u32 = 0xf004_1f00;
const STORE: u32 = 0xf020_1f00;
const STORE_MIP: u32 = 0xf024_1f00;
const RESINFO: u32 = 0xf038_0f00;
const ADD: u32 = 0xf048_1100;
const CMPSWAP: u32 = 0xf044_3300;
const SAMPLE: u32 = 0xf080_0f00;
const SAMPLE_D: u32 = 0xf088_0f00;
const SAMPLE_L: u32 = 0xf090_0f00;
const SAMPLE_LZ: u32 = 0xf09c_0f00;
const SAMPLE_LZ_O: u32 = 0xf0dc_0f00;
const SAMPLE_C_LZ: u32 = 0xf0bc_0f00;
const GATHER_LZ: u32 = 0xf11c_0100;
const ARRAY: u32 = 1 << 14;

/// Coordinates of the lanes: a square of 8 by 8.
fn square(wave: &mut Wave, x: u32, y: u32) {
    for lane in 0..LANES {
        wave.vectors[4][lane] = x + lane as u32 % 8;
        wave.vectors[5][lane] = y + lane as u32 / 8;
    }
}

#[test]
fn what_is_stored_in_a_tiled_image_is_loaded() {
    let space = Space::new(1 << 20);
    for (mode, base) in [(26, BASE + 0x1300), (10, BASE + 0x100), (22, BASE + 0x300), (0, BASE)] {
        let mut words = plane(base, 200, 100);
        words[1] |= 4 << 26;
        words[3] |= mode << 20;
        words[4] = 255 << 13;
        let mut wave = wave(words, [0; 4]);
        square(&mut wave, 190, 90);
        for lane in 0..LANES {
            (wave.vectors[0][lane], wave.vectors[1][lane]) = (lane as u32, 1);
            (wave.vectors[2][lane], wave.vectors[3][lane]) = (300, 3);
        }
        execute(&mut wave, &space, STORE).unwrap();
        let shape = Shape { mode, volume: false, element: 2, size: [200, 100, 1], levels: 1, pitch: 256 };
        let layout = Layout::new(shape, AddressConfig::default()).unwrap();
        for lane in 0..LANES as u32 {
            let address = layout.address(base, [190 + lane % 8, 90 + lane / 8, 0], 0);
            assert_eq!(space.load(address, 4), u64::from(0x03ff_0100 | lane), "{mode} {lane}");
        }
        // One component more to the right: what lies outside is 0.
        square(&mut wave, 194, 90);
        wave.vectors[..4].fill([7; LANES]);
        execute(&mut wave, &space, LOAD & !0xf00 | 0xb00).unwrap();
        let expected = |lane: usize| if lane % 8 < 4 { [lane as u32 + 4, 1, 3, 7] } else { [0, 0, 0, 7] };
        for lane in 0..LANES {
            assert_eq!(std::array::from_fn(|number| wave.vectors[number][lane]), expected(lane), "{mode} {lane}");
        }
    }
}

#[test]
fn stores_outside_and_in_inactive_lanes_change_nothing() {
    let space = Space::new(1 << 16);
    let mut wave = wave(plane(BASE, 64, 4), [0; 4]);
    wave.set_pair(code::EXEC, 0xff00);
    wave.vectors[0] = [0x3f80_0000; LANES];
    square(&mut wave, 0, 0);
    execute(&mut wave, &space, STORE & !0xf00 | 0x100).unwrap();
    square(&mut wave, 64, 0);
    execute(&mut wave, &space, STORE & !0xf00 | 0x100).unwrap();
    square(&mut wave, 0, 3);
    execute(&mut wave, &space, STORE & !0xf00 | 0x100).unwrap();
    let expected = |place| u64::from((64..72).contains(&place)) * 0xff;
    for place in 0..16384 {
        assert_eq!(space.load(BASE + place * 4, 4), expected(place), "{place}");
    }
}

#[test]
fn levels_and_layers_are_operands() {
    let space = Space::new(1 << 20);
    // An array of three layers with all levels, as blocks of 64 KiB.
    let mut words = plane(BASE, 64, 64);
    (words[3], words[4], words[5]) = (words[3] | 26 << 20 | 6 << 16 | 13 << 28, 2 | 127 << 13, 6 << 28);
    words[1] |= 4 << 26;
    let mut wave = wave(words, [0; 4]);
    square(&mut wave, 0, 0);
    for level in 0..4 {
        for layer in 0..3 {
            (wave.vectors[6], wave.vectors[7]) = ([layer; LANES], [level; LANES]);
            wave.vectors[0] = [layer * 16 + level; LANES];
            execute(&mut wave, &space, STORE_MIP | ARRAY).unwrap();
        }
    }
    for level in 0..4 {
        for layer in 0..3 {
            (wave.vectors[6], wave.vectors[7]) = ([layer; LANES], [level; LANES]);
            execute(&mut wave, &space, LOAD_MIP | ARRAY).unwrap();
            assert_eq!(wave.vectors[0], [layer * 16 + level; LANES]);
        }
    }
    // The first level is an operand only of the instructions with levels.
    wave.vectors[6] = [2; LANES];
    execute(&mut wave, &space, LOAD | ARRAY).unwrap();
    assert_eq!(wave.vectors[0], [32; LANES]);
    // Without the bit of arrays, the descriptor's first layer counts.
    wave.scalars[13] |= 1;
    execute(&mut wave, &space, LOAD).unwrap();
    assert_eq!(wave.vectors[0], [16; LANES]);
    wave.vectors[4] = [1; LANES];
    execute(&mut wave, &space, RESINFO).unwrap();
    let size = std::array::from_fn(|number| wave.vectors[number][0]);
    assert_eq!(size, [32, 32, 2, 7]);
}

#[test]
fn atomic_operations_return_what_was_there() {
    let space = Space::new(1 << 16);
    let mut words = plane(BASE, 64, 64);
    words[1] = words[1] & 0xff | 4 << 20 | 4 << 26;
    let mut wave = wave(words, [0; 4]);
    (wave.vectors[4], wave.vectors[5], wave.vectors[0]) = ([3; LANES], [0; LANES], [2; LANES]);
    execute(&mut wave, &space, ADD).unwrap();
    assert_eq!((space.load(BASE + 12, 4), wave.vectors[0]), (128, [2; LANES]));
    execute(&mut wave, &space, ADD | flag::IMAGE_GLC).unwrap();
    assert_eq!(space.load(BASE + 12, 4), 256);
    assert_eq!(wave.vectors[0], std::array::from_fn(|lane| 128 + 2 * lane as u32));
    (wave.vectors[0], wave.vectors[1]) = ([9; LANES], [256; LANES]);
    execute(&mut wave, &space, CMPSWAP).unwrap();
    assert_eq!(space.load(BASE + 12, 4), 9);
    assert_eq!((wave.vectors[0][0], wave.vectors[0][1], wave.vectors[1][1]), (256, 9, 256));
    // An element of 8 bytes.
    wave.scalars[9] = 11 << 20 | 4 << 26;
    (wave.vectors[0], wave.vectors[1]) = ([u32::MAX; LANES], [0; LANES]);
    wave.set_pair(code::EXEC, 3);
    execute(&mut wave, &space, ADD | 0x300).unwrap();
    assert_eq!(space.load(BASE + 24, 8), 0x1_ffff_fffe);
}

/// An image of 4 by 4 elements, each the number 16 y + x in all components of 32-bit floating point.
fn numbers(space: &Space) -> [u32; 8] {
    let mut words = plane(BASE, 4, 4);
    words[1] = 4 << 20 | 7 << 26;
    words[3] = words[3] & !0xfff | 4 | 4 << 3 | 4 << 6 | 1 << 9;
    for place in 0..16 {
        let number = (place / 4 * 16 + place % 4) as f32;
        space.store(BASE + place / 4 * 256 + place % 4 * 4, 4, number.to_bits().into());
    }
    words
}

/// Samples at a place in elements, from the centre of the first one on.
fn sampled(wave: &mut Wave, space: &Space, first: u32, x: f32, y: f32) -> [f32; 4] {
    let start = usize::from(first == SAMPLE_C_LZ || first == SAMPLE_LZ_O) + 4;
    wave.vectors[start] = [((x + 0.5) / 4.0).to_bits(); LANES];
    wave.vectors[start + 1] = [((y + 0.5) / 4.0).to_bits(); LANES];
    execute(wave, space, first).unwrap();
    std::array::from_fn(|number| f32::from_bits(wave.vectors[number][5]))
}

/// Words of a sampler: the modes of coordinates outside, and whether several elements are weighted.
fn sampler(clamp: u32, linear: u32, border: u32) -> [u32; 4] {
    [clamp * 0o111, 15 << 20, linear * (5 << 20 | 1 << 26), border << 30]
}

#[test]
fn samples_are_weighted() {
    let space = Space::new(4096);
    let mut wave = wave(numbers(&space), sampler(2, 1, 0));
    let mut at = |x, y| sampled(&mut wave, &space, SAMPLE_LZ, x, y);
    assert_eq!(at(1.0, 2.0), [33.0, 33.0, 33.0, 1.0]);
    assert_eq!(at(1.25, 2.0)[0], 33.25);
    assert_eq!(at(1.0, 2.5)[0], 41.0);
    assert_eq!(at(1.75, 0.5)[0], 9.75);
    assert_eq!(at(-3.0, 9.0)[0], 48.0);
}

#[test]
fn samples_outside_follow_the_mode() {
    let space = Space::new(4096);
    let cases = [
        (0, [0.0, 1.0], [3.0, 2.0]),
        (1, [3.0, 2.0], [0.0, 1.0]),
        (2, [3.0, 3.0], [0.0, 0.0]),
        (3, [3.0, 3.0], [0.0, 1.0]),
        (4, [3.0, 3.0], [0.0, 0.0]),
        (6, [1.0, 1.0], [1.0, 1.0]),
        (7, [1.0, 1.0], [0.0, 1.0]),
    ];
    for (mode, above, below) in cases {
        let mut wave = wave(numbers(&space), sampler(mode, 0, 2));
        let mut at = |x| sampled(&mut wave, &space, SAMPLE_LZ, x, 0.0)[0];
        assert_eq!(([at(4.0), at(5.0)], [at(-1.0), at(-2.0)]), (above, below), "{mode}");
    }
    // Half of the border's colour at the edge.
    let mut wave = wave(numbers(&space), sampler(4, 1, 2));
    assert_eq!(sampled(&mut wave, &space, SAMPLE_LZ, 9.0, 0.0)[0], 2.0);
    wave.scalars[19] = 3 << 30;
    assert!(execute(&mut wave, &space, SAMPLE_LZ).is_err());
}

#[test]
fn operands_before_the_coordinates_are_read() {
    let space = Space::new(4096);
    let mut wave = wave(numbers(&space), sampler(2, 0, 0));
    wave.vectors[4] = [1 | 0x3e << 8; LANES];
    assert_eq!(sampled(&mut wave, &space, SAMPLE_LZ_O, 1.0, 3.0)[0], 18.0);
    // Less or equal.
    wave.scalars[16] |= 3 << 12;
    wave.vectors[4] = [17.0_f32.to_bits(); LANES];
    let mut compared = |x| sampled(&mut wave, &space, SAMPLE_C_LZ, x, 1.0)[0];
    assert_eq!([compared(0.0), compared(1.0), compared(2.0)], [0.0, 1.0, 1.0]);
}

#[test]
fn gathers_return_four_elements() {
    let space = Space::new(4096);
    let mut wave = wave(numbers(&space), sampler(2, 0, 0));
    assert_eq!(sampled(&mut wave, &space, GATHER_LZ, 1.5, 0.5), [17.0, 18.0, 2.0, 1.0]);
}

#[test]
fn the_level_is_an_operand_or_follows_from_distances() {
    let space = Space::new(1 << 16);
    let mut words = numbers(&space);
    // Levels of 4, 2 and 1 rows below each other.
    (words[3], words[4], words[5]) = (words[3] | 2 << 16, 6 << 13, 2 << 28);
    for x in 0..2 {
        space.store(BASE + 4 * 256 + x * 4, 4, 100.0_f32.to_bits().into());
        space.store(BASE + 5 * 256 + x * 4, 4, 100.0_f32.to_bits().into());
    }
    space.store(BASE + 6 * 256, 4, 200.0_f32.to_bits().into());
    let mut wave = wave(words, [0o222, 15 << 20, 5 << 20 | 2 << 26, 0]);
    for (level, expected) in [(-1.0_f32, 17.0), (0.0, 17.0), (1.0, 100.0), (1.5, 150.0), (9.0, 200.0)] {
        wave.vectors[6] = [level.to_bits(); LANES];
        assert_eq!(sampled(&mut wave, &space, SAMPLE_L, 1.0, 1.0)[0], expected, "{level}");
    }
    // Derivatives: a distance of two elements, and the same from neighbouring lanes.
    let derivatives = [0.5_f32, 0.0, 0.0, 0.25, 0.375, 0.375].map(|part| [part.to_bits(); LANES]);
    wave.vectors[4..10].copy_from_slice(&derivatives);
    execute(&mut wave, &space, SAMPLE_D).unwrap();
    assert_eq!(f32::from_bits(wave.vectors[0][5]), 100.0);
    for lane in 0..LANES {
        wave.vectors[4][lane] = (0.1 + (lane % 2) as f32 * 0.5).to_bits();
        wave.vectors[5][lane] = 0.1_f32.to_bits();
    }
    execute(&mut wave, &space, SAMPLE).unwrap();
    assert_eq!(f32::from_bits(wave.vectors[0][5]), 100.0);
}

#[test]
fn descriptors_of_zeroes_have_no_elements() {
    let space = Space::new(4096);
    let mut wave = wave([0; 8], [0; 4]);
    for first in [LOAD, RESINFO, SAMPLE_LZ, ADD | flag::IMAGE_GLC] {
        wave.vectors[0] = [5; LANES];
        execute(&mut wave, &space, first).unwrap();
        assert_eq!(wave.vectors[0], [0; LANES], "{first:#x}");
    }
    execute(&mut wave, &space, STORE).unwrap();
    assert!(space.0.iter().all(|word| *word == 0));
}

#[test]
fn forms_that_are_not_emulated_are_errors() {
    let space = Space::new(4096);
    let mut wave = wave(plane(BASE, 16, 16), [0; 4]);
    for bits in [flag::IMAGE_TFE, flag::IMAGE_LWE] {
        assert!(execute(&mut wave, &space, LOAD | bits).is_err(), "{bits:#x}");
    }
    assert!(execute(&mut wave, &space, LOAD & !0xf00).is_err());
    assert!(execute(&mut wave, &space, ADD | 0x400).is_err());
    assert!(decode([ADD, 0x8002_0004]).is_err() && decode([RESINFO, 0x8002_0004]).is_err());
    assert!(execute(&mut wave, &space, SAMPLE_D | flag::IMAGE_A16).is_err());
}

#[test]
fn coordinates_and_data_may_be_halves() {
    let space = Space::new(4096);
    let mut wave = wave(numbers(&space), sampler(2, 0, 0));
    let short = |first: u32| [first | flag::IMAGE_A16, second(first) | 1 << 31];
    wave.vectors[4] = [1 | 2 << 16; LANES];
    execute_words(&mut wave, &space, short(LOAD)).unwrap();
    // 33 as a number of half the precision, and 1.
    assert_eq!((wave.vectors[0][5], wave.vectors[1][5]), (0x5020_5020, 0x3c00_5020));
    wave.vectors[4] = [0x3800 | 0x3a00 << 16; LANES];
    execute_words(&mut wave, &space, short(SAMPLE_LZ & !0xf00 | 0x100)).unwrap();
    assert_eq!(wave.vectors[0][5], u32::from(half::f16::from_f32(50.0).to_bits()));
    wave.vectors[4] = [3; LANES];
    wave.vectors[0] = [0x4000; LANES];
    execute_words(&mut wave, &space, short(STORE & !0xf00 | 0x100)).unwrap();
    assert_eq!(space.load(BASE + 12, 4), u64::from(2.0_f32.to_bits()));
    // Integers keep their sign.
    wave.scalars[9] = 4 << 20 | 5 << 26;
    wave.vectors[0] = [0x8001; LANES];
    execute_words(&mut wave, &space, short(STORE & !0xf00 | 0x100)).unwrap();
    assert_eq!(space.load(BASE + 12, 4), 0xffff_8001);
}
