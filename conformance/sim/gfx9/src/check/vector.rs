//! Vector instructions with one result per lane, one row after another.

use half::f16;

use super::generate::Random;
use super::machine::{Machine, assembled};
use super::numbers::{Number, fused16, product16, sum16};
use crate::wave::{LANES, code};

/// Values of a lane before an instruction.
#[derive(Debug, Clone, Copy)]
struct Before {
    /// v[10:11], v[12:13] and v[14:15].
    sources: [u64; 3],
    /// v[20:21].
    old: u64,
    vcc: bool,
}

/// An instruction, and the bits of its destination for a lane; with it, which carry it writes to VCC.
struct Case {
    text: String,
    words: usize,
    expected: Box<dyn Fn(Before) -> (u64, Option<bool>)>,
    nan: fn(u64) -> bool,
    /// The destination is a mask, VCC.
    mask: bool,
}

#[derive(Default)]
struct Cases(Vec<Case>);

const fn register(place: usize, words: usize) -> &'static str {
    match (place, words) {
        (0, 1) => "v10",
        (1, 1) => "v12",
        (2, 1) => "v14",
        (3, 1) => "v20",
        (0, _) => "v[10:11]",
        (1, _) => "v[12:13]",
        (2, _) => "v[14:15]",
        _ => "v[20:21]",
    }
}

impl Cases {
    fn push<R: Number>(&mut self, text: String, expected: impl Fn(Before) -> (R, Option<bool>) + 'static) {
        let expected = move |before| {
            let (value, carry) = expected(before);
            (value.word(), carry)
        };
        self.0.push(Case { text, words: R::WORDS, expected: Box::new(expected), nan: R::nan, mask: false });
    }

    fn one<A: Number, R: Number>(&mut self, name: &str, function: fn(A) -> R) {
        let text = format!("{name} {}, {}", register(3, R::WORDS), register(0, A::WORDS));
        self.push(text, move |before| (function(A::of(before.sources[0])), None));
    }

    fn two<A: Number, B: Number, R: Number>(&mut self, name: &str, function: fn(A, B) -> R) {
        self.two_with(name, "", function);
    }

    fn two_with<A: Number, B: Number, R: Number>(&mut self, name: &str, more: &str, function: fn(A, B) -> R) {
        let [target, a, b] = [register(3, R::WORDS), register(0, A::WORDS), register(1, B::WORDS)];
        let text = format!("{name} {target}, {a}, {b}{more}");
        self.push(text, move |before| (function(A::of(before.sources[0]), B::of(before.sources[1])), None));
    }

    fn three<A: Number, B: Number, C: Number, R: Number>(&mut self, name: &str, function: fn(A, B, C) -> R) {
        self.three_with(name, "", function);
    }

    fn three_with<A: Number, B: Number, C: Number, R: Number>(
        &mut self,
        name: &str,
        more: &str,
        function: fn(A, B, C) -> R,
    ) {
        let [a, b, c] = [register(0, A::WORDS), register(1, B::WORDS), register(2, C::WORDS)];
        let text = format!("{name} {}, {a}, {b}, {c}{more}", register(3, R::WORDS));
        self.push(text, move |before| {
            let [a, b, c] = before.sources;
            (function(A::of(a), B::of(b), C::of(c)), None)
        });
    }

    /// A comparison in both encodings, and the one that writes EXEC.
    fn compare<A: Number, B: Number>(&mut self, name: &str, function: fn(A, B) -> bool) {
        let (a, b) = (register(0, A::WORDS), register(1, B::WORDS));
        for (form, target) in [("e32", "vcc"), ("e64", "s[40:41]")] {
            for kind in ["v_cmp_", "v_cmpx_"] {
                let text = format!("{kind}{name}_{form} {target}, {a}, {b}");
                self.push::<u32>(text, move |before| {
                    (0, Some(function(A::of(before.sources[0]), B::of(before.sources[1]))))
                });
                self.0.last_mut().unwrap().mask = true;
            }
        }
    }

    /// Executes each instruction on random numbers, with some lanes inactive.
    fn check(self) {
        let text: String = self.0.iter().map(|case| format!("{}\n", case.text)).collect();
        let instructions = assembled(&text);
        assert_eq!(instructions.len(), self.0.len());
        let mut random = Random::new(5);
        let mut failures = Vec::new();
        for (case, instruction) in self.0.iter().zip(&instructions) {
            'rounds: for round in 0..12 {
                let mut machine = Machine::new();
                let before: [Before; LANES] = std::array::from_fn(|_| Before {
                    sources: std::array::from_fn(|_| random.word()),
                    old: random.word(),
                    vcc: random.below(2) == 0,
                });
                for place in 0..3 {
                    machine.set_vector(10 + place * 2, |lane| before[lane].sources[place]);
                }
                machine.set_vector(20, |lane| before[lane].old);
                machine.set_vector(22, |lane| lane as u64);
                let vcc = (0..LANES).fold(0, |mask, lane| mask | u64::from(before[lane].vcc) << lane);
                machine.wave.set_pair(code::VCC, vcc);
                let exec = if round == 0 { u64::MAX } else { random.next() };
                machine.wave.set_pair(code::EXEC, exec);
                if let Err(stop) = machine.execute(instruction) {
                    failures.push(format!("{}: {stop}", case.text));
                    break;
                }
                let place = if case.text.contains("s[40:41]") { 40 } else { code::VCC };
                let mask = machine.wave.pair(place);
                for lane in 0..LANES {
                    let active = exec >> lane & 1 != 0;
                    let (expected, carry) = (case.expected)(before[lane]);
                    let found = machine.vector(20, 2, lane);
                    let kept = if case.words == 1 { before[lane].old & !0xffff_ffff } else { 0 };
                    let expected = if case.mask || !active { before[lane].old } else { expected | kept };
                    let nan = |bits: u64| (case.nan)(if case.words == 1 { bits & 0xffff_ffff } else { bits });
                    let same = found == expected || active && nan(found) && nan(expected) && found & kept == kept;
                    let same = same && carry.is_none_or(|carry| mask >> lane & 1 == u64::from(carry && active));
                    if !same || machine.vector(22, 2, lane) != lane as u64 {
                        failures.push(format!(
                            "{}: lane {lane} of {:x?} (active: {active}): found {found:x} and {}, expected {expected:x} and {carry:?}",
                            case.text,
                            before[lane],
                            mask >> lane & 1
                        ));
                        break 'rounds;
                    }
                }
                let written = if case.text.starts_with("v_cmpx") { mask } else { exec };
                if machine.wave.exec() != written {
                    failures.push(format!("{}: EXEC", case.text));
                    break;
                }
            }
        }
        assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), self.0.len(), failures.join("\n"));
    }
}

fn integers(cases: &mut Cases) {
    cases.one("v_mov_b32", |a: u32| a);
    cases.one("v_not_b32", |a: u32| !a);
    cases.one("v_bfrev_b32", |a: u32| (0..32).fold(0_u32, |all, bit| all | (a >> bit & 1) << (31 - bit)));
    cases.one("v_ffbh_u32", |a: u32| (0..32).find(|bit| a << bit >> 31 == 1).unwrap_or(u32::MAX));
    cases.one("v_ffbl_b32", |a: u32| (0..32).find(|bit| a >> bit & 1 == 1).unwrap_or(u32::MAX));
    cases.one("v_ffbh_i32", |a: u32| (1..32).find(|bit| a << bit >> 31 != a >> 31).unwrap_or(u32::MAX));
    cases.one("v_sat_pk_u8_i16", |a: u32| {
        let byte = |it: i16| it.clamp(0, 255) as u32;
        byte(a as i16) | byte((a >> 16) as i16) << 8
    });
    cases.two("v_mul_i32_i24", |a: u32, b: u32| ((a << 8) as i32 >> 8).wrapping_mul((b << 8) as i32 >> 8));
    cases.two("v_mul_hi_i32_i24", |a: u32, b: u32| {
        ((i64::from((a << 8) as i32 >> 8) * i64::from((b << 8) as i32 >> 8)) >> 32) as i32
    });
    cases.two("v_mul_u32_u24", |a: u32, b: u32| (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff));
    cases
        .two("v_mul_hi_u32_u24", |a: u32, b: u32| ((u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff)) >> 32) as u32);
    cases.two("v_min_i32", i32::min);
    cases.two("v_max_i32", i32::max);
    cases.two("v_min_u32", u32::min);
    cases.two("v_max_u32", u32::max);
    cases.two("v_lshrrev_b32", |a: u32, b: u32| b.wrapping_shr(a));
    cases.two("v_ashrrev_i32", |a: u32, b: i32| b.wrapping_shr(a));
    cases.two("v_lshlrev_b32", |a: u32, b: u32| b.wrapping_shl(a));
    cases.two("v_and_b32", |a: u32, b: u32| a & b);
    cases.two("v_or_b32", |a: u32, b: u32| a | b);
    cases.two("v_xor_b32", |a: u32, b: u32| a ^ b);
    cases.two("v_xnor_b32", |a: u32, b: u32| !(a ^ b));
    for (suffix, saturates) in [("_e32", false), ("_e64", false), ("_e64", true)] {
        let more = if saturates { " clamp" } else { "" };
        type Two<T> = fn(T, T) -> T;
        let pairs: [(&str, [Two<u32>; 2]); 3] = [
            ("v_add_u32", [u32::wrapping_add, u32::saturating_add]),
            ("v_sub_u32", [u32::wrapping_sub, u32::saturating_sub]),
            ("v_subrev_u32", [|a, b| b.wrapping_sub(a), |a, b| b.saturating_sub(a)]),
        ];
        for (name, functions) in pairs {
            cases.two_with(&format!("{name}{suffix}"), more, functions[usize::from(saturates)]);
        }
        let pairs: [(&str, [Two<u16>; 2]); 3] = [
            ("v_add_u16", [u16::wrapping_add, u16::saturating_add]),
            ("v_sub_u16", [u16::wrapping_sub, u16::saturating_sub]),
            ("v_subrev_u16", [|a, b| b.wrapping_sub(a), |a, b| b.saturating_sub(a)]),
        ];
        for (name, functions) in pairs {
            cases.two_with(&format!("{name}{suffix}"), more, functions[usize::from(saturates)]);
        }
    }
    cases.two("v_add_i32", i32::wrapping_add);
    cases.two("v_sub_i32", i32::wrapping_sub);
    cases.two_with("v_add_i32", " clamp", i32::saturating_add);
    cases.two_with("v_sub_i32", " clamp", i32::saturating_sub);
    cases.two("v_mul_lo_u16", u16::wrapping_mul);
    cases.two("v_lshlrev_b16", |a: u16, b: u16| b.wrapping_shl(a.into()));
    cases.two("v_lshrrev_b16", |a: u16, b: u16| b.wrapping_shr(a.into()));
    cases.two("v_ashrrev_i16", |a: u16, b: i16| b.wrapping_shr(a.into()));
    cases.two("v_max_u16", u16::max);
    cases.two("v_max_i16", i16::max);
    cases.two("v_min_u16", u16::min);
    cases.two("v_min_i16", i16::min);
    cases.two("v_mul_lo_u32", u32::wrapping_mul);
    cases.two("v_mul_hi_u32", |a: u32, b: u32| ((u64::from(a) * u64::from(b)) >> 32) as u32);
    cases.two("v_mul_hi_i32", |a: i32, b: i32| ((i64::from(a) * i64::from(b)) >> 32) as i32);
    cases.two("v_bcnt_u32_b32", |a: u32, b: u32| a.count_ones().wrapping_add(b));
    cases.two("v_lshlrev_b64", |a: u32, b: u64| b.wrapping_shl(a));
    cases.two("v_lshrrev_b64", |a: u32, b: u64| b.wrapping_shr(a));
    cases.two("v_ashrrev_i64", |a: u32, b: i64| b.wrapping_shr(a));
    cases.two("v_bfm_b32", |a: u32, b: u32| (1_u32.wrapping_shl(a) - 1).wrapping_shl(b));
    cases.two("v_cvt_pk_u16_u32", |a: u32, b: u32| a.min(0xffff) | b.min(0xffff) << 16);
    cases.two("v_cvt_pk_i16_i32", |a: i32, b: i32| {
        let half = |it: i32| u32::from(it.clamp(i16::MIN.into(), i16::MAX.into()) as u16);
        half(a) | half(b) << 16
    });
}

fn integers_of_three(cases: &mut Cases) {
    cases.three("v_mad_i32_i24", |a: u32, b: u32, c: i32| {
        ((a << 8) as i32 >> 8).wrapping_mul((b << 8) as i32 >> 8).wrapping_add(c)
    });
    cases.three_with("v_mad_i32_i24", " clamp", |a: u32, b: u32, c: i32| {
        let exact = i64::from((a << 8) as i32 >> 8) * i64::from((b << 8) as i32 >> 8) + i64::from(c);
        exact.clamp(i32::MIN.into(), i32::MAX.into()) as i32
    });
    cases.three("v_mad_u32_u24", |a: u32, b: u32, c: u32| (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff).wrapping_add(c));
    cases.three("v_bfe_u32", |a: u32, b: u32, c: u32| a.wrapping_shr(b) & (1_u32.wrapping_shl(c) - 1));
    cases.three("v_bfe_i32", |a: i32, b: u32, c: u32| {
        let part = i64::from(a) >> (b & 31);
        if c & 31 == 0 { 0 } else { (part << (64 - (c & 31)) >> (64 - (c & 31))) as i32 }
    });
    cases.three("v_bfi_b32", |a: u32, b: u32, c: u32| (a & b) | (!a & c));
    cases.three("v_lerp_u8", |a: u32, b: u32, c: u32| {
        (0..4).fold(0, |all, byte| {
            let part = |word: u32| word >> (8 * byte) & 0xff;
            all | (((part(a) + part(b) + (part(c) & 1)) / 2) << (8 * byte))
        })
    });
    cases.three("v_alignbit_b32", |a: u32, b: u32, c: u32| ((u64::from(a) << 32 | u64::from(b)) >> (c & 31)) as u32);
    cases.three("v_alignbyte_b32", |a: u32, b: u32, c: u32| {
        ((u64::from(a) << 32 | u64::from(b)) >> (8 * (c & 3))) as u32
    });
    cases.three("v_min3_i32", |a: i32, b: i32, c: i32| *[a, b, c].iter().min().unwrap());
    cases.three("v_max3_i32", |a: i32, b: i32, c: i32| *[a, b, c].iter().max().unwrap());
    cases.three("v_min3_u32", |a: u32, b: u32, c: u32| *[a, b, c].iter().min().unwrap());
    cases.three("v_max3_u32", |a: u32, b: u32, c: u32| *[a, b, c].iter().max().unwrap());
    cases.three("v_med3_i32", |a: i32, b: i32, c: i32| sorted([a, b, c]));
    cases.three("v_med3_u32", |a: u32, b: u32, c: u32| sorted([a, b, c]));
    fn bytes(a: u32, b: u32, counts: fn(u8) -> bool) -> u32 {
        let pairs = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
        pairs.map(|(a, b)| if counts(b) { u32::from(a.max(b) - a.min(b)) } else { 0 }).sum()
    }
    cases.three("v_sad_u8", |a: u32, b: u32, c: u32| bytes(a, b, |_| true).wrapping_add(c));
    cases.three_with("v_sad_u8", " clamp", |a: u32, b: u32, c: u32| bytes(a, b, |_| true).saturating_add(c));
    cases.three("v_sad_hi_u8", |a: u32, b: u32, c: u32| (bytes(a, b, |_| true) << 16).wrapping_add(c));
    cases.three("v_msad_u8", |a: u32, b: u32, c: u32| bytes(a, b, |reference| reference != 0).wrapping_add(c));
    cases.three("v_sad_u16", |a: u32, b: u32, c: u32| {
        let low = (a & 0xffff).abs_diff(b & 0xffff);
        low.wrapping_add((a >> 16).abs_diff(b >> 16)).wrapping_add(c)
    });
    cases.three("v_sad_u32", |a: u32, b: u32, c: u32| a.abs_diff(b).wrapping_add(c));
    cases.three("v_perm_b32", |a: u32, b: u32, c: u32| {
        let both = u64::from(a) << 32 | u64::from(b);
        (0..4).fold(0, |all, place| {
            let byte = match c >> (8 * place) & 0xff {
                select @ 0..=7 => both >> (8 * select) & 0xff,
                select @ 8..=11 => (both >> (16 * (select - 8) + 15) & 1) * 0xff,
                12 => 0,
                _ => 0xff,
            };
            all | (byte as u32) << (8 * place)
        })
    });
    cases.three("v_xad_u32", |a: u32, b: u32, c: u32| (a ^ b).wrapping_add(c));
    cases.three("v_lshl_add_u32", |a: u32, b: u32, c: u32| a.wrapping_shl(b).wrapping_add(c));
    cases.three("v_add_lshl_u32", |a: u32, b: u32, c: u32| a.wrapping_add(b).wrapping_shl(c));
    cases.three("v_add3_u32", |a: u32, b: u32, c: u32| a.wrapping_add(b).wrapping_add(c));
    cases.three("v_lshl_or_b32", |a: u32, b: u32, c: u32| a.wrapping_shl(b) | c);
    cases.three("v_and_or_b32", |a: u32, b: u32, c: u32| (a & b) | c);
    cases.three("v_or3_b32", |a: u32, b: u32, c: u32| a | b | c);
    cases.three("v_mad_legacy_u16", |a: u16, b: u16, c: u16| a.wrapping_mul(b).wrapping_add(c));
    cases.three("v_mad_legacy_i16", |a: i16, b: i16, c: i16| a.wrapping_mul(b).wrapping_add(c));
    cases.three("v_mad_u32_u16", |a: u16, b: u16, c: u32| (u32::from(a) * u32::from(b)).wrapping_add(c));
    cases.three("v_mad_i32_i16", |a: i16, b: i16, c: i32| (i32::from(a) * i32::from(b)).wrapping_add(c));
}

fn sorted<T: Ord + Copy>(mut values: [T; 3]) -> T {
    values.sort_unstable();
    values[1]
}

/// A 16-bit result beside the old high half.
fn kept(before: Before, half: u16) -> u32 {
    before.old as u32 & 0xffff_0000 | u32::from(half)
}

/// Instructions whose 16-bit result leaves the high half as it was, and that select halves.
fn selected_halves(cases: &mut Cases) {
    fn add<A: Number>(cases: &mut Cases, name: &str, count: usize, function: fn([A; 3]) -> A) {
        let names = ["v10", "v12", "v14"][..count].join(", ");
        let all = if count == 3 { "[1,0,1,0]" } else { "[1,0,0]" };
        let high = if count == 3 { "[0,1,0,1]" } else { "[0,1,1]" };
        cases.push::<u32>(format!("{name} v20, {names}"), move |before| {
            (kept(before, function(before.sources.map(A::of)).word() as u16), None)
        });
        cases.push::<u32>(format!("{name} v20, {names} op_sel:{all}"), move |before| {
            let [a, b, c] = before.sources;
            (kept(before, function([a >> 16, b, c >> 16].map(A::of)).word() as u16), None)
        });
        cases.push::<u32>(format!("{name} v20, {names} op_sel:{high}"), move |before| {
            let [a, b, c] = before.sources;
            let half = function([a, b >> 16, c].map(A::of)).word() as u32;
            (before.old as u32 & 0xffff | half << 16, None)
        });
    }
    add::<i16>(cases, "v_min3_i16", 3, |all| *all.iter().min().unwrap());
    add::<u16>(cases, "v_min3_u16", 3, |all| *all.iter().min().unwrap());
    add::<i16>(cases, "v_max3_i16", 3, |all| *all.iter().max().unwrap());
    add::<u16>(cases, "v_max3_u16", 3, |all| *all.iter().max().unwrap());
    add::<i16>(cases, "v_med3_i16", 3, sorted);
    add::<u16>(cases, "v_med3_u16", 3, sorted);
    add::<u16>(cases, "v_mad_u16", 3, |[a, b, c]| a.wrapping_mul(b).wrapping_add(c));
    add::<i16>(cases, "v_mad_i16", 3, |[a, b, c]| a.wrapping_mul(b).wrapping_add(c));
    add::<i16>(cases, "v_add_i16", 2, |[a, b, _]| a.wrapping_add(b));
    add::<i16>(cases, "v_sub_i16", 2, |[a, b, _]| a.wrapping_sub(b));
    cases.push::<u32>("v_mad_i16 v20, v10, v12, v14 clamp".into(), |before| {
        let [a, b, c] = before.sources.map(|word| i32::from(word as i16));
        (kept(before, (a * b).saturating_add(c).clamp(-32768, 32767) as u16), None)
    });
    cases.push::<u32>("v_pack_b32_f16 v20, v10, v12 op_sel:[1,0,0]".into(), |before| {
        let [a, b, _] = before.sources.map(|word| word as u32);
        (a >> 16 & 0xffff | b << 16, None)
    });
    cases.push::<u32>("v_mad_u32_u16 v20, v10, v12, v14 op_sel:[1,0,0,0]".into(), |before| {
        let [a, b, c] = before.sources.map(|word| word as u32);
        (((a >> 16) * (b & 0xffff)).wrapping_add(c), None)
    });
}

fn carries(cases: &mut Cases) {
    fn add(cases: &mut Cases, name: &str, takes: bool, function: fn(u32, u32, u32) -> (u32, bool), limit: u32) {
        let carry = if takes { ", vcc" } else { "" };
        for (form, clamp) in [("e32", false), ("e64", false), ("e64", true)] {
            let more = if clamp { " clamp" } else { "" };
            cases.push::<u32>(format!("{name}_{form} v20, vcc, v10, v12{carry}{more}"), move |before| {
                let taken = u32::from(takes && before.vcc);
                let (result, carried) = function(before.sources[0] as u32, before.sources[1] as u32, taken);
                (if clamp && carried { limit } else { result }, Some(carried))
            });
        }
    }
    fn sum(a: u32, b: u32, carry: u32) -> (u32, bool) {
        let sum = u64::from(a) + u64::from(b) + u64::from(carry);
        (sum as u32, sum > u64::from(u32::MAX))
    }
    fn difference(a: u32, b: u32, carry: u32) -> (u32, bool) {
        let difference = i64::from(a) - i64::from(b) - i64::from(carry);
        (difference as u32, difference < 0)
    }
    add(cases, "v_add_co_u32", false, sum, u32::MAX);
    add(cases, "v_addc_co_u32", true, sum, u32::MAX);
    add(cases, "v_sub_co_u32", false, difference, 0);
    add(cases, "v_subb_co_u32", true, difference, 0);
    add(cases, "v_subrev_co_u32", false, |a, b, carry| difference(b, a, carry), 0);
    add(cases, "v_subbrev_co_u32", true, |a, b, carry| difference(b, a, carry), 0);
    cases.push::<u64>("v_mad_u64_u32 v[20:21], vcc, v10, v12, v[14:15]".into(), |before| {
        let [a, b, c] = before.sources;
        let exact = u128::from(a as u32) * u128::from(b as u32) + u128::from(c);
        (exact as u64, Some(exact >> 64 != 0))
    });
    cases.push::<u64>("v_mad_i64_i32 v[20:21], s[40:41], v10, v12, v[14:15]".into(), |before| {
        let [a, b, c] = before.sources;
        ((i64::from(a as i32) * i64::from(b as i32)).wrapping_add(c as i64) as u64, None)
    });
    cases.push::<u32>("v_cndmask_b32 v20, v10, v12, vcc".into(), |before| {
        (before.sources[usize::from(before.vcc)] as u32, None)
    });
    cases.push::<u32>("v_cndmask_b32_e64 v20, -v10, |v12|, vcc".into(), |before| {
        let [a, b, _] = before.sources.map(|word| word as u32);
        (if before.vcc { b & 0x7fff_ffff } else { a ^ 0x8000_0000 }, None)
    });
}

fn singles(cases: &mut Cases) {
    cases.two("v_add_f32", |a: f32, b: f32| a + b);
    cases.two("v_sub_f32", |a: f32, b: f32| a - b);
    cases.two("v_subrev_f32", |a: f32, b: f32| b - a);
    cases.two("v_mul_f32", |a: f32, b: f32| a * b);
    cases.two("v_mul_legacy_f32", |a: f32, b: f32| if a == 0.0 || b == 0.0 { 0.0 } else { a * b });
    cases.two("v_min_f32", |a: f32, b: f32| smaller(a.into(), b.into()) as f32);
    cases.two("v_max_f32", |a: f32, b: f32| -smaller(-f64::from(a), -f64::from(b)) as f32);
    cases.two("v_ldexp_f32", |a: f32, b: i32| scaled(a.into(), b) as f32);
    cases.push::<f32>("v_mac_f32 v20, v10, v12".into(), |before| {
        let [a, b, _] = before.sources.map(f32::of);
        (a * b + f32::of(before.old), None)
    });
    cases.push::<f32>("v_fmac_f32 v20, v10, v12".into(), |before| {
        let [a, b, _] = before.sources.map(f32::of);
        (a.mul_add(b, f32::of(before.old)), None)
    });
    cases.push::<f32>("v_madmk_f32 v20, v10, 0x40490fdb, v12".into(), |before| {
        let [a, b, _] = before.sources.map(f32::of);
        (a * f32::from_bits(0x4049_0fdb) + b, None)
    });
    cases.push::<f32>("v_madak_f32 v20, v10, v12, 0x40490fdb".into(), |before| {
        let [a, b, _] = before.sources.map(f32::of);
        (a * b + f32::from_bits(0x4049_0fdb), None)
    });
    cases.three("v_mad_f32", |a: f32, b: f32, c: f32| a * b + c);
    cases.three("v_mad_legacy_f32", |a: f32, b: f32, c: f32| if a == 0.0 || b == 0.0 { 0.0 + c } else { a * b + c });
    cases.three("v_fma_f32", f32::mul_add);
    cases.three("v_min3_f32", |a: f32, b: f32, c: f32| smaller(smaller(a.into(), b.into()), c.into()) as f32);
    cases.three("v_max3_f32", |a: f32, b: f32, c: f32| {
        -smaller(smaller(-f64::from(a), -f64::from(b)), -f64::from(c)) as f32
    });
    cases.three("v_med3_f32", |a: f32, b: f32, c: f32| middle([a.into(), b.into(), c.into()]) as f32);
    cases.push::<f32>("v_add_f32_e64 v20, -v10, |v12| mul:2".into(), |before| {
        let [a, b, _] = before.sources.map(f32::of);
        ((-a + b.abs()) * 2.0, None)
    });
    cases.push::<f32>("v_mul_f32_e64 v20, v10, -|v12| clamp div:2".into(), |before| {
        let [a, b, _] = before.sources.map(f32::of);
        (clamped((a * -b.abs() * 0.5).into()) as f32, None)
    });
    cases.push::<f32>("v_fma_f32 v20, |v10|, -v12, -|v14| mul:4".into(), |before| {
        let [a, b, c] = before.sources.map(f32::of);
        (a.abs().mul_add(-b, -c.abs()) * 4.0, None)
    });
    cases.one("v_cvt_f32_i32", |a: i32| a as f32);
    cases.one("v_cvt_f32_u32", |a: u32| a as f32);
    cases.one("v_cvt_u32_f32", |a: f32| a as u32);
    cases.one("v_cvt_i32_f32", |a: f32| a as i32);
    cases.one("v_cvt_flr_i32_f32", |a: f32| a.floor() as i32);
    cases.one("v_cvt_off_f32_i4", |a: u32| {
        let value = (a & 15) as f32;
        if value >= 8.0 { (value - 16.0) / 16.0 } else { value / 16.0 }
    });
    cases.one("v_cvt_f32_f64", |a: f64| a as f32);
    cases.one("v_cvt_f32_ubyte0", |a: u32| f32::from(a.to_le_bytes()[0]));
    cases.one("v_cvt_f32_ubyte1", |a: u32| f32::from(a.to_le_bytes()[1]));
    cases.one("v_cvt_f32_ubyte2", |a: u32| f32::from(a.to_le_bytes()[2]));
    cases.one("v_cvt_f32_ubyte3", |a: u32| f32::from(a.to_le_bytes()[3]));
    cases.one(
        "v_fract_f32",
        |a: f32| if a.is_finite() { (a - a.floor()).min(f32::from_bits(0x3f7f_ffff)) } else { f32::NAN },
    );
    cases.one("v_trunc_f32", f32::trunc);
    cases.one("v_ceil_f32", f32::ceil);
    cases.one("v_rndne_f32", f32::round_ties_even);
    cases.one("v_floor_f32", f32::floor);
    cases.one("v_frexp_exp_i32_f32", |a: f32| exponent(a.into()));
    cases.one("v_frexp_mant_f32", |a: f32| mantissa(a.into()) as f32);
    cases.two("v_cvt_pknorm_i16_f32", |a: f32, b: f32| {
        let half = |it: f32| {
            let scaled = if it.is_nan() { 0.0 } else { (f64::from(it.clamp(-1.0, 1.0)) * 32767.0).round_ties_even() };
            u32::from(scaled as i16 as u16)
        };
        half(a) | half(b) << 16
    });
    cases.two("v_cvt_pknorm_u16_f32", |a: f32, b: f32| {
        let half =
            |it: f32| if it.is_nan() { 0 } else { (f64::from(it.clamp(0.0, 1.0)) * 65535.0).round_ties_even() as u32 };
        half(a) | half(b) << 16
    });
    cases.two("v_cvt_pkrtz_f16_f32", |a: f32, b: f32| toward_zero(a) | toward_zero(b) << 16);
    cases.three("v_cvt_pk_u8_f32", |a: f32, b: u32, c: u32| {
        let shift = 8 * (b & 3);
        let byte = if a.is_nan() { 0 } else { a.round_ties_even().clamp(0.0, 255.0) as u32 };
        c & !(0xff << shift) | byte << shift
    });
}

/// Rounds to 16 bits towards 0, by trying all numbers: the largest one that is not beyond.
fn toward_zero(value: f32) -> u32 {
    let sign = value.to_bits() >> 16 & 0x8000;
    if value.is_nan() {
        return u32::from(f16::from_f32(value).to_bits());
    }
    let magnitude = value.abs();
    let (mut low, mut high) = (0_u16, if magnitude.is_infinite() { 0x7c00 } else { 0x7bff });
    while low < high {
        let middle = (low + high).div_ceil(2);
        if f16::from_bits(middle).to_f32() <= magnitude { low = middle } else { high = middle - 1 }
    }
    u32::from(low) | sign
}

/// The smaller number, -0 before 0, and the number if one is none.
fn smaller(a: f64, b: f64) -> f64 {
    match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ if a.total_cmp(&b).is_lt() => a,
        _ => b,
    }
}

fn middle(values: [f64; 3]) -> f64 {
    if values.iter().any(|value| value.is_nan()) {
        return smaller(smaller(values[0], values[1]), values[2]);
    }
    // Zeroes of both signs are equal here, unlike in the two functions of two numbers.
    let [a, b, c] = values;
    let larger = |a: f64, b: f64| -smaller(-a, -b);
    match larger(larger(a, b), c) {
        largest if largest == a => larger(b, c),
        largest if largest == b => larger(a, c),
        _ => larger(a, b),
    }
}

fn clamped(value: f64) -> f64 {
    if value > 0.0 { value.min(1.0) } else { 0.0 }
}

/// A product with a power of two, by steps that are exact but for the last.
fn scaled(value: f64, exponent: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let whole = exponent_of(value) + i64::from(exponent);
    let mantissa = mantissa(value);
    if whole > 1024 {
        return f64::INFINITY.copysign(value);
    }
    if whole < -1080 {
        return 0.0_f64.copysign(value);
    }
    // The first product is exact.
    let near = mantissa * 2.0_f64.powi(((whole + 100).max(-900)) as i32 / 2);
    let rest = whole - i64::from(((whole + 100).max(-900)) as i32 / 2);
    near * 2.0_f64.powi(rest as i32)
}

fn exponent_of(value: f64) -> i64 {
    let mut exponent = 0;
    let mut value = value.abs();
    while value >= 1.0 {
        (value, exponent) = (value / 2.0, exponent + 1);
    }
    while value < 0.5 {
        (value, exponent) = (value * 2.0, exponent - 1);
    }
    exponent
}

fn exponent(value: f64) -> i32 {
    if value == 0.0 || !value.is_finite() { 0 } else { exponent_of(value) as i32 }
}

fn mantissa(value: f64) -> f64 {
    let mut value = value;
    while value.is_finite() && value.abs() >= 1.0 {
        value /= 2.0;
    }
    while value != 0.0 && value.abs() < 0.5 {
        value *= 2.0;
    }
    value
}

fn doubles(cases: &mut Cases) {
    cases.two("v_add_f64", |a: f64, b: f64| a + b);
    cases.two("v_mul_f64", |a: f64, b: f64| a * b);
    cases.two("v_min_f64", smaller);
    cases.two("v_max_f64", |a: f64, b: f64| -smaller(-a, -b));
    cases.two("v_ldexp_f64", scaled);
    cases.three("v_fma_f64", f64::mul_add);
    cases.push::<f64>("v_add_f64 v[20:21], -v[10:11], |v[12:13]| clamp".into(), |before| {
        let [a, b, _] = before.sources.map(f64::of);
        (clamped(-a + b.abs()), None)
    });
    cases.one("v_cvt_i32_f64", |a: f64| a as i32);
    cases.one("v_cvt_u32_f64", |a: f64| a as u32);
    cases.one("v_cvt_f64_i32", |a: i32| f64::from(a));
    cases.one("v_cvt_f64_u32", |a: u32| f64::from(a));
    cases.one("v_cvt_f64_f32", |a: f32| f64::from(a));
    cases.one("v_trunc_f64", f64::trunc);
    cases.one("v_ceil_f64", f64::ceil);
    cases.one("v_rndne_f64", f64::round_ties_even);
    cases.one("v_floor_f64", f64::floor);
    cases.one("v_fract_f64", |a: f64| {
        if a.is_finite() { (a - a.floor()).min(f64::from_bits(0x3fef_ffff_ffff_ffff)) } else { f64::NAN }
    });
    cases.one("v_frexp_exp_i32_f64", exponent);
    cases.one("v_frexp_mant_f64", mantissa);
}

fn halves(cases: &mut Cases) {
    cases.two("v_add_f16", sum16);
    cases.two("v_sub_f16", |a: f16, b: f16| sum16(a, -b));
    cases.two("v_subrev_f16", |a: f16, b: f16| sum16(b, -a));
    cases.two("v_mul_f16", product16);
    cases.two("v_min_f16", |a: f16, b: f16| f16::from_f32(smaller(a.into(), b.into()) as f32));
    cases.two("v_max_f16", |a: f16, b: f16| -f16::from_f32(smaller(-f64::from(a), -f64::from(b)) as f32));
    cases.two("v_ldexp_f16", |a: f16, b: i16| exact16(scaled(a.into(), i32::from(b).clamp(-60, 60))));
    cases.one("v_cvt_f16_f32", |a: f32| exact16(a.into()));
    cases.one("v_cvt_f32_f16", |a: f16| wide(a) as f32);
    cases.one("v_cvt_f16_u16", |a: u16| exact16(a.into()));
    cases.one("v_cvt_f16_i16", |a: i16| exact16(a.into()));
    cases.one("v_cvt_u16_f16", |a: f16| wide(a) as u16);
    cases.one("v_cvt_i16_f16", |a: f16| wide(a) as i16);
    cases.one("v_sqrt_f16", |a: f16| exact16(wide(a).sqrt()));
    cases.one("v_frexp_mant_f16", |a: f16| exact16(mantissa(wide(a))));
    cases.one("v_frexp_exp_i16_f16", |a: f16| exponent(wide(a)) as i16);
    cases.one("v_floor_f16", |a: f16| exact16(wide(a).floor()));
    cases.one("v_ceil_f16", |a: f16| exact16(wide(a).ceil()));
    cases.one("v_trunc_f16", |a: f16| exact16(wide(a).trunc()));
    cases.one("v_rndne_f16", |a: f16| exact16(wide(a).round_ties_even()));
    cases.one("v_fract_f16", |a: f16| {
        let fraction = wide(a) - wide(a).floor();
        if fraction.is_nan() { f16::NAN } else { exact16(fraction.min(0.999_511_718_75)) }
    });
    cases.one("v_cvt_norm_i16_f16", |a: f16| {
        if a.is_nan() { 0 } else { (wide(a).clamp(-1.0, 1.0) * 32767.0).round_ties_even() as i16 }
    });
    cases.one("v_cvt_norm_u16_f16", |a: f16| {
        if a.is_nan() { 0 } else { (wide(a).clamp(0.0, 1.0) * 65535.0).round_ties_even() as u16 }
    });
    cases.three("v_fma_legacy_f16", fused16);
    cases.three("v_mad_legacy_f16", |a: f16, b: f16, c: f16| sum16(product16(a, b), c));
    for (text, place) in
        [("v_madmk_f16 v20, v10, 0x4248, v12", [0, 3, 1]), ("v_madak_f16 v20, v10, v12, 0x4248", [0, 1, 3])]
    {
        cases.push::<f16>(text.into(), move |before| {
            let [a, b, c] = before.sources.map(f16::of);
            let all = [a, b, c, f16::from_bits(0x4248)];
            let [a, b, c] = place.map(|place: usize| all[place]);
            (sum16(product16(a, b), c), None)
        });
    }
    cases.push::<f16>("v_mac_f16 v20, v10, v12".into(), |before| {
        let [a, b, _] = before.sources.map(f16::of);
        (sum16(product16(a, b), f16::of(before.old)), None)
    });
    let selected: [(&str, fn(f16, f16, f16) -> f16); 5] = [
        ("v_fma_f16", fused16),
        ("v_mad_f16", |a, b, c| sum16(product16(a, b), c)),
        ("v_min3_f16", |a, b, c| exact16(smaller(smaller(wide(a), wide(b)), wide(c)))),
        ("v_max3_f16", |a, b, c| -exact16(smaller(smaller(-wide(a), -wide(b)), -wide(c)))),
        ("v_med3_f16", |a, b, c| exact16(middle([wide(a), wide(b), wide(c)]))),
    ];
    for (name, function) in selected {
        cases.push::<u32>(format!("{name} v20, v10, v12, v14"), move |before| {
            let [a, b, c] = before.sources.map(f16::of);
            (kept(before, quiet(function(a, b, c))), None)
        });
        cases.0.last_mut().unwrap().nan = |bits| bits & 0x7fff > 0x7c00;
    }
}

fn quiet(value: f16) -> u16 {
    value.to_bits()
}

fn wide(value: f16) -> f64 {
    let (exponent, fraction) = (i32::from(value.to_bits() >> 10 & 31), f64::from(value.to_bits() & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * 2.0_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (fraction + 1024.0) * 2.0_f64.powi(exponent - 25),
    };
    if value.is_sign_negative() { -magnitude } else { magnitude }
}

/// The nearest 16-bit number.
fn exact16(value: f64) -> f16 {
    if value.is_nan() || value.is_infinite() || value.abs() >= 65536.0 {
        let infinity = f16::INFINITY;
        return if value.is_nan() {
            f16::NAN
        } else if value > 0.0 {
            infinity
        } else {
            -infinity
        };
    }
    // 2^-90 and below decides nothing but the side of a tie, which is far from numbers so small.
    let units = value * 2.0_f64.powi(90);
    let inexact = if value != 0.0 && units.abs() < 1.0 { value.signum() } else { units };
    super::numbers::nearest(inexact as i128, 90, value.is_sign_negative())
}

fn comparisons(cases: &mut Cases) {
    fn floats<T: Number + PartialOrd>(cases: &mut Cases, suffix: &str) {
        type Holds<T> = fn(T, T) -> bool;
        let all: [(&str, Holds<T>); 16] = [
            ("f", |_, _| false),
            ("lt", |a, b| a < b),
            ("eq", |a, b| a == b),
            ("le", |a, b| a <= b),
            ("gt", |a, b| a > b),
            ("lg", |a, b| a.partial_cmp(&b).is_some_and(std::cmp::Ordering::is_ne)),
            ("ge", |a, b| a >= b),
            ("o", |a, b| a.partial_cmp(&b).is_some()),
            ("u", |a, b| a.partial_cmp(&b).is_none()),
            ("nge", |a, b| a.partial_cmp(&b).is_none_or(std::cmp::Ordering::is_lt)),
            ("nlg", |a, b| a.partial_cmp(&b).is_none_or(std::cmp::Ordering::is_eq)),
            ("ngt", |a, b| a.partial_cmp(&b).is_none_or(std::cmp::Ordering::is_le)),
            ("nle", |a, b| a.partial_cmp(&b).is_none_or(std::cmp::Ordering::is_gt)),
            ("neq", |a, b| a.partial_cmp(&b).is_none_or(std::cmp::Ordering::is_ne)),
            ("nlt", |a, b| a.partial_cmp(&b).is_none_or(std::cmp::Ordering::is_ge)),
            ("tru", |_, _| true),
        ];
        for (name, function) in all {
            cases.compare(&format!("{name}_{suffix}"), function);
        }
    }
    fn integers<T: Number + Ord>(cases: &mut Cases, suffix: &str) {
        type Holds<T> = fn(T, T) -> bool;
        let all: [(&str, Holds<T>); 8] = [
            ("f", |_, _| false),
            ("lt", |a, b| a < b),
            ("eq", |a, b| a == b),
            ("le", |a, b| a <= b),
            ("gt", |a, b| a > b),
            ("ne", |a, b| a != b),
            ("ge", |a, b| a >= b),
            ("t", |_, _| true),
        ];
        for (name, function) in all {
            cases.compare(&format!("{name}_{suffix}"), function);
        }
    }
    floats::<f16>(cases, "f16");
    floats::<f32>(cases, "f32");
    floats::<f64>(cases, "f64");
    integers::<i16>(cases, "i16");
    integers::<u16>(cases, "u16");
    integers::<i32>(cases, "i32");
    integers::<u32>(cases, "u32");
    integers::<i64>(cases, "i64");
    integers::<u64>(cases, "u64");
    cases.compare("class_f16", |a: f16, b: u32| {
        b >> class(wide(a), a.to_bits() >> 9 & 1 == 1, 2.0_f64.powi(-14)) & 1 == 1
    });
    cases.compare("class_f32", |a: f32, b: u32| {
        b >> class(a.into(), a.to_bits() >> 22 & 1 == 1, f32::MIN_POSITIVE.into()) & 1 == 1
    });
    cases.compare("class_f64", |a: f64, b: u32| b >> class(a, a.to_bits() >> 51 & 1 == 1, f64::MIN_POSITIVE) & 1 == 1);
}

/// The bit of a number's class; numbers below `normal` are denormal.
fn class(value: f64, quiet: bool, normal: f64) -> u32 {
    match value {
        _ if value.is_nan() => u32::from(quiet),
        f64::NEG_INFINITY => 2,
        f64::INFINITY => 9,
        _ if value == 0.0 => {
            if value.is_sign_negative() {
                5
            } else {
                6
            }
        }
        _ if value <= -normal => 3,
        _ if value < 0.0 => 4,
        _ if value < normal => 7,
        _ => 8,
    }
}

pub(super) fn check() {
    let mut cases = Cases::default();
    integers(&mut cases);
    integers_of_three(&mut cases);
    selected_halves(&mut cases);
    carries(&mut cases);
    singles(&mut cases);
    doubles(&mut cases);
    halves(&mut cases);
    comparisons(&mut cases);
    cases.check();
}

/// The face of a cube that a direction meets, and the point there: each instruction on directions of all faces.
pub(super) fn cubes() {
    // A direction, its face, the point with the direction's length, and twice the largest coordinate.
    const DIRECTIONS: [([f32; 3], [f32; 4]); 7] = [
        ([4.0, 2.0, 1.0], [0.0, -1.0, -2.0, 8.0]),
        ([-4.0, 2.0, 1.0], [1.0, 1.0, -2.0, -8.0]),
        ([1.0, 4.0, 2.0], [2.0, 1.0, 2.0, 8.0]),
        ([1.0, -4.0, 2.0], [3.0, 1.0, -2.0, -8.0]),
        ([1.0, 2.0, 4.0], [4.0, 1.0, -2.0, 8.0]),
        ([1.0, 2.0, -4.0], [5.0, -1.0, -2.0, -8.0]),
        // Of equal coordinates the last counts.
        ([3.0, -3.0, 3.0], [4.0, 3.0, 3.0, 6.0]),
    ];
    let mut machine = Machine::new();
    let direction = |lane: usize| &DIRECTIONS[lane % DIRECTIONS.len()];
    for axis in 0..3 {
        machine.set_word(10 + axis, |lane| direction(lane).0[axis].to_bits());
    }
    for (place, name) in ["cubeid", "cubesc", "cubetc", "cubema"].into_iter().enumerate() {
        machine.run(&format!("v_{name}_f32 v1, v10, v11, v12"));
        for lane in 0..LANES {
            let found = f32::from_bits(machine.vector(1, 1, lane) as u32);
            assert_eq!(found, direction(lane).1[place], "v_{name}_f32 of {:?}", direction(lane).0);
        }
    }
}
