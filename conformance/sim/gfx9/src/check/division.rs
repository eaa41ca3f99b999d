//! Divisions by the steps that compilers emit, with the same results as exact ones.

use super::generate::{HALVES, Random, SINGLES};
use super::machine::{Machine, assembled};
use super::numbers::nearest;
use half::f16;

use crate::wave::LANES;

const SINGLE: &str = "v_div_scale_f32 v2, s[4:5], v12, v12, v10
v_div_scale_f32 v3, vcc, v10, v12, v10
v_rcp_f32 v4, v2
v_fma_f32 v5, -v2, v4, 1.0
v_fma_f32 v4, v5, v4, v4
v_mul_f32 v5, v3, v4
v_fma_f32 v6, -v2, v5, v3
v_fma_f32 v5, v6, v4, v5
v_fma_f32 v2, -v2, v5, v3
v_div_fmas_f32 v2, v2, v4, v5
v_div_fixup_f32 v20, v2, v12, v10";

const DOUBLE: &str = "v_div_scale_f64 v[2:3], s[4:5], v[12:13], v[12:13], v[10:11]
v_rcp_f64 v[4:5], v[2:3]
v_fma_f64 v[6:7], -v[2:3], v[4:5], 1.0
v_fma_f64 v[4:5], v[4:5], v[6:7], v[4:5]
v_fma_f64 v[6:7], -v[2:3], v[4:5], 1.0
v_fma_f64 v[4:5], v[4:5], v[6:7], v[4:5]
v_div_scale_f64 v[6:7], vcc, v[10:11], v[12:13], v[10:11]
v_mul_f64 v[8:9], v[6:7], v[4:5]
v_fma_f64 v[2:3], -v[2:3], v[8:9], v[6:7]
v_div_fmas_f64 v[2:3], v[2:3], v[4:5], v[8:9]
v_div_fixup_f64 v[20:21], v[2:3], v[12:13], v[10:11]";

const HALF: &str = "v_cvt_f32_f16 v2, v12
v_cvt_f32_f16 v3, v10
v_rcp_f32 v2, v2
v_mul_f32 v2, v3, v2
v_cvt_f16_f32 v2, v2
v_div_fixup_f16 v20, v2, v12, v10
v_div_fixup_legacy_f16 v21, v2, v12, v10";

/// A double of any exponent, often at an end of its range.
fn double(random: &mut Random) -> u64 {
    let exponent = match random.below(4) {
        0 => random.below(60) as u64,
        1 => 2047 - random.below(60) as u64,
        _ => random.next() & 0x7ff,
    };
    match random.below(8) {
        0 => random.word(),
        1 => random.next() & 1 << 63 | exponent << 52,
        _ => random.next() & 0x800f_ffff_ffff_ffff | exponent << 52,
    }
}

fn single(random: &mut Random) -> u32 {
    let exponent = match random.below(4) {
        0 => random.below(30) as u32,
        1 => 255 - random.below(30) as u32,
        _ => random.next() as u32 & 0xff,
    };
    match random.below(8) {
        0 => random.pick(&SINGLES),
        1 => random.next() as u32 & 1 << 31 | exponent << 23,
        _ => random.next() as u32 & 0x807f_ffff | exponent << 23,
    }
}

/// Divides `count` pairs of numbers of each type.
pub(super) fn divisions(count: usize) {
    let mut random = Random::new(41);
    let programs = [SINGLE, DOUBLE, HALF].map(assembled);
    let mut machine = Machine::new();
    for _ in 0..count / LANES {
        let pairs: [[u64; 2]; LANES] = std::array::from_fn(|lane| {
            let [a, b] = [double(&mut random), double(&mut random)];
            // Quotients at the end of the normal numbers, near ties.
            let edge = f64::from_bits((1 << 52) - random.below(3) as u64 + 1);
            if lane.is_multiple_of(8) { [(f64::from_bits(b) * edge).to_bits(), b] } else { [a, b] }
        });
        run(&mut machine, &programs[1], &pairs);
        for (lane, [a, b]) in pairs.into_iter().enumerate() {
            let (found, expected) =
                (f64::from_bits(machine.vector(20, 2, lane)), f64::from_bits(a) / f64::from_bits(b));
            let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
            assert!(same, "{a:x} / {b:x}: found {found:e}, expected {expected:e}");
        }
        let pairs: [[u64; 2]; LANES] =
            std::array::from_fn(|_| [single(&mut random).into(), single(&mut random).into()]);
        run(&mut machine, &programs[0], &pairs);
        for (lane, [a, b]) in pairs.into_iter().enumerate() {
            let found = f32::from_bits(machine.lanes(20)[lane]);
            let expected = f32::from_bits(a as u32) / f32::from_bits(b as u32);
            let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
            assert!(same, "{a:x} / {b:x}: found {found:e}, expected {expected:e}");
        }
        let mut half = || if random.below(4) == 0 { random.pick(&HALVES) } else { random.next() as u16 };
        let pairs: [[u64; 2]; LANES] = std::array::from_fn(|_| [half().into(), half().into()]);
        run(&mut machine, &programs[2], &pairs);
        for (lane, pair) in pairs.into_iter().enumerate() {
            let [a, b] = pair.map(|bits| f16::from_bits(bits as u16));
            let expected = quotient(a, b);
            for register in [20, 21] {
                let found = f16::from_bits(machine.lanes(register)[lane] as u16);
                // The quotient of single numbers is rounded a second time: one unit less or more.
                let near = found.to_bits().abs_diff(expected.to_bits()) <= 1;
                let same = near && !expected.is_nan() || found.is_nan() && expected.is_nan();
                assert!(same, "{a:e} / {b:e}: found {found:e}, expected {expected:e}");
            }
        }
    }
}

/// The nearest 16-bit number of a quotient, by integers.
fn quotient(a: f16, b: f16) -> f16 {
    let simple = a.to_f64() / b.to_f64();
    if !simple.is_finite() || simple == 0.0 {
        return f16::from_f32(simple as f32);
    }
    let whole = |value: f16| value.to_f64().abs() * 16_777_216.0;
    // With 60 bits after the point, and another bit for the rest.
    let (a, b) = (whole(a) as i128, whole(b) as i128);
    let exact = ((a << 60) / b) << 1 | i128::from((a << 60) % b != 0);
    nearest(if simple < 0.0 { -exact } else { exact }, 61, false)
}

fn run(machine: &mut Machine, program: &[crate::Instruction], pairs: &[[u64; 2]; LANES]) {
    machine.set_vector(10, |lane| pairs[lane][0]);
    machine.set_vector(12, |lane| pairs[lane][1]);
    for instruction in program {
        machine.execute(instruction).unwrap();
    }
}
