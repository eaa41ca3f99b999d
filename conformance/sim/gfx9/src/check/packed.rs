//! Packed instructions, dot products and mixed precision: halves, their selection and their signs.

use half::f16;

use super::generate::Random;
use super::machine::{Machine, assembled};
use super::numbers::{fused16, product16, sum16};
use crate::wave::LANES;

type Expected = Box<dyn Fn([u32; 3], u32) -> u32>;

#[derive(Default)]
struct Cases(Vec<(String, Expected)>);

/// The halves of a word.
const fn halves(word: u32) -> [u16; 2] {
    [word as u16, (word >> 16) as u16]
}

const fn joined([low, high]: [u16; 2]) -> u32 {
    low as u32 | (high as u32) << 16
}

impl Cases {
    /// An instruction with `count` operands, in its plain form and with halves exchanged.
    fn pairs(&mut self, name: &str, count: usize, more: &str, function: fn([u16; 3]) -> u16) {
        let names = ["v10", "v12", "v14"][..count].join(", ");
        let exchanged = ["1", "0", "1"][..count].join(",");
        let high = ["0", "1", "1"][..count].join(",");
        self.0.push((
            format!("{name} v20, {names}{more}"),
            Box::new(move |sources, _| {
                let [a, b, c] = sources.map(halves);
                joined([0, 1].map(|half| function([a[half], b[half], c[half]])))
            }),
        ));
        self.0.push((
            format!("{name} v20, {names} op_sel:[{exchanged}] op_sel_hi:[{high}]{more}"),
            Box::new(move |sources, _| {
                let [a, b, c] = sources.map(halves);
                joined([function([a[1], b[0], c[1]]), function([a[0], b[1], c[1]])])
            }),
        ));
    }

    /// Of floating-point numbers, also with negations.
    fn floats(&mut self, name: &str, count: usize, function: fn([f16; 3]) -> f16) {
        let names = ["v10", "v12", "v14"][..count].join(", ");
        let (low, high) = (["1", "0", "0"][..count].join(","), ["1", "1", "0"][..count].join(","));
        let plain = move |sources: [u32; 3], signs: [[bool; 3]; 2]| {
            let words = sources.map(halves);
            joined([0, 1].map(|half| {
                let values: [f16; 3] = std::array::from_fn(|place| {
                    let value = f16::from_bits(words[place][half]);
                    if signs[half][place] { -value } else { value }
                });
                function(values).to_bits()
            }))
        };
        self.0.push((format!("{name} v20, {names}"), Box::new(move |sources, _| plain(sources, [[false; 3]; 2]))));
        self.0.push((
            format!("{name} v20, {names} neg_lo:[{low}] neg_hi:[{high}]"),
            Box::new(move |sources, _| plain(sources, [[true, false, false], [true, true, false]])),
        ));
    }

    fn dots(&mut self, name: &str, bits: u32, signed: bool) {
        for clamp in [false, true] {
            let more = if clamp { " clamp" } else { "" };
            self.0.push((
                format!("{name} v20, v10, v12, v14{more}"),
                Box::new(move |[a, b, c], _| {
                    let part = |word: u32, at: u32| {
                        let value = i128::from(word >> at & ((1 << bits) - 1));
                        if signed && value >> (bits - 1) != 0 { value - (1 << bits) } else { value }
                    };
                    let start = if signed { i128::from(c as i32) } else { i128::from(c) };
                    let sum =
                        (0..32 / bits).fold(start, |sum, place| sum + part(a, place * bits) * part(b, place * bits));
                    match (clamp, signed) {
                        (false, _) => sum as u32,
                        (true, true) => sum.clamp(i32::MIN.into(), i32::MAX.into()) as u32,
                        (true, false) => sum.clamp(0, u32::MAX.into()) as u32,
                    }
                }),
            ));
        }
    }

    fn check(self) {
        let text: String = self.0.iter().map(|(text, _)| format!("{text}\n")).collect();
        let instructions = assembled(&text);
        assert_eq!(instructions.len(), self.0.len());
        let mut random = Random::new(11);
        let mut failures = Vec::new();
        for ((text, expected), instruction) in self.0.iter().zip(&instructions) {
            for _ in 0..8 {
                let mut machine = Machine::new();
                let before: [[u32; 4]; LANES] = std::array::from_fn(|_| std::array::from_fn(|_| random.word() as u32));
                for (place, register) in [10, 12, 14, 20].into_iter().enumerate() {
                    machine.set_word(register, |lane| before[lane][place]);
                }
                if let Err(stop) = machine.execute(instruction) {
                    failures.push(format!("{text}: {stop}"));
                    break;
                }
                let float = text.contains("f16") || text.contains("mix");
                let different = (0..LANES).find_map(|lane| {
                    let [a, b, c, old] = before[lane];
                    let (found, expected) = (machine.lanes(20)[lane], expected([a, b, c], old));
                    let nan = |half: u16| float && half & 0x7fff > 0x7c00;
                    let same = halves(found).into_iter().zip(halves(expected)).all(|(a, b)| a == b || nan(a) && nan(b));
                    let single = |word: u32| text.contains("mix_f32") && f32::from_bits(word).is_nan();
                    let same =
                        same && !text.contains("mix_f32") || found == expected || single(found) && single(expected);
                    (!same).then(|| format!("{text}: of {:x?}: found {found:x}, expected {expected:x}", before[lane]))
                });
                if let Some(different) = different {
                    failures.push(different);
                    break;
                }
            }
        }
        assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), self.0.len(), failures.join("\n"));
    }
}

fn integers(cases: &mut Cases) {
    cases.pairs("v_pk_mad_i16", 3, "", |[a, b, c]| a.wrapping_mul(b).wrapping_add(c));
    cases.pairs("v_pk_mad_i16", 3, " clamp", |[a, b, c]| {
        let [a, b, c] = [a, b, c].map(|value| i32::from(value as i16));
        (a * b).saturating_add(c).clamp(-0x8000, 0x7fff) as u16
    });
    cases.pairs("v_pk_mul_lo_u16", 2, "", |[a, b, _]| a.wrapping_mul(b));
    cases.pairs("v_pk_add_i16", 2, "", |[a, b, _]| a.wrapping_add(b));
    cases.pairs("v_pk_add_i16", 2, " clamp", |[a, b, _]| (a as i16).saturating_add(b as i16) as u16);
    cases.pairs("v_pk_sub_i16", 2, "", |[a, b, _]| a.wrapping_sub(b));
    cases.pairs("v_pk_sub_i16", 2, " clamp", |[a, b, _]| (a as i16).saturating_sub(b as i16) as u16);
    cases.pairs("v_pk_lshlrev_b16", 2, "", |[a, b, _]| b << (a & 15));
    cases.pairs("v_pk_lshrrev_b16", 2, "", |[a, b, _]| b >> (a & 15));
    cases.pairs("v_pk_ashrrev_i16", 2, "", |[a, b, _]| ((b as i16) >> (a & 15)) as u16);
    cases.pairs("v_pk_max_i16", 2, "", |[a, b, _]| (a as i16).max(b as i16) as u16);
    cases.pairs("v_pk_min_i16", 2, "", |[a, b, _]| (a as i16).min(b as i16) as u16);
    cases.pairs("v_pk_mad_u16", 3, "", |[a, b, c]| a.wrapping_mul(b).wrapping_add(c));
    cases.pairs("v_pk_mad_u16", 3, " clamp", |[a, b, c]| {
        (u64::from(a) * u64::from(b) + u64::from(c)).min(0xffff) as u16
    });
    cases.pairs("v_pk_add_u16", 2, "", |[a, b, _]| a.wrapping_add(b));
    cases.pairs("v_pk_add_u16", 2, " clamp", |[a, b, _]| a.saturating_add(b));
    cases.pairs("v_pk_sub_u16", 2, "", |[a, b, _]| a.wrapping_sub(b));
    cases.pairs("v_pk_sub_u16", 2, " clamp", |[a, b, _]| a.saturating_sub(b));
    cases.pairs("v_pk_max_u16", 2, "", |[a, b, _]| a.max(b));
    cases.pairs("v_pk_min_u16", 2, "", |[a, b, _]| a.min(b));
    cases.dots("v_dot2_i32_i16", 16, true);
    cases.dots("v_dot2_u32_u16", 16, false);
    cases.dots("v_dot4_i32_i8", 8, true);
    cases.dots("v_dot4_u32_u8", 8, false);
    cases.dots("v_dot8_i32_i4", 4, true);
    cases.dots("v_dot8_u32_u4", 4, false);
}

fn number(value: f16, function: fn(f32, f32) -> bool, other: f16) -> f16 {
    match (value.is_nan(), other.is_nan()) {
        (true, _) => other,
        (_, true) => value,
        _ if value.to_f32() == 0.0 && other.to_f32() == 0.0 => {
            // -0 is smaller than 0.
            let signs = [value.is_sign_negative(), other.is_sign_negative()];
            if function(if signs[0] { -1.0 } else { 1.0 }, if signs[1] { -1.0 } else { 1.0 }) { value } else { other }
        }
        _ if function(value.into(), other.into()) => value,
        _ => other,
    }
}

fn floats(cases: &mut Cases) {
    cases.floats("v_pk_fma_f16", 3, |[a, b, c]| fused16(a, b, c));
    cases.floats("v_pk_add_f16", 2, |[a, b, _]| sum16(a, b));
    cases.floats("v_pk_mul_f16", 2, |[a, b, _]| product16(a, b));
    cases.floats("v_pk_min_f16", 2, |[a, b, _]| number(a, |a, b| a < b, b));
    cases.floats("v_pk_max_f16", 2, |[a, b, _]| number(a, |a, b| a > b, b));
}

/// Sources of mixed precision: a single number, or a half of a word.
fn mixed(cases: &mut Cases) {
    fn half(word: u32, high: bool) -> f32 {
        f16::from_bits(halves(word)[usize::from(high)]).to_f32()
    }
    fn add(cases: &mut Cases, modifiers: &str, function: fn([u32; 3]) -> f32) {
        for (name, place) in [("v_fma_mix_f32", 2), ("v_fma_mixlo_f16", 0), ("v_fma_mixhi_f16", 1)] {
            let expected = move |sources, old| {
                let result = function(sources);
                let mut both = halves(old);
                if place < 2 {
                    both[place] = f16::from_f32(result).to_bits();
                    return joined(both);
                }
                result.to_bits()
            };
            cases.0.push((format!("{name} v20, {modifiers}"), Box::new(expected)));
        }
    }
    add(cases, "v10, v12, v14", |sources| {
        let [a, b, c] = sources.map(f32::from_bits);
        a.mul_add(b, c)
    });
    add(cases, "v10, v12, v14 op_sel:[0,1,0] op_sel_hi:[1,1,0]", |[a, b, c]| {
        half(a, false).mul_add(half(b, true), f32::from_bits(c))
    });
    add(cases, "-v10, |v12|, -|v14| op_sel:[1,0,0] op_sel_hi:[1,0,1]", |[a, b, c]| {
        (-half(a, true)).mul_add(f32::from_bits(b).abs(), -half(c, false).abs())
    });
    add(cases, "v10, v12, v14 clamp", |sources| {
        let [a, b, c] = sources.map(f32::from_bits);
        let result = a.mul_add(b, c);
        if result > 0.0 { result.min(1.0) } else { 0.0 }
    });
}

pub(super) fn check() {
    let mut cases = Cases::default();
    integers(&mut cases);
    floats(&mut cases);
    mixed(&mut cases);
    cases.check();
}
