//! Instructions of the scalar unit, one row after another: results and SCC.

use super::generate::Random;
use super::machine::{DENORMALS, Machine, assembled};
use super::numbers::Number;
use crate::wave::code;

/// Values before an instruction.
#[derive(Debug, Clone, Copy)]
struct Before {
    /// s[10:11] and s[12:13].
    sources: [u64; 2],
    /// s[20:21].
    old: u64,
    exec: u64,
    scc: bool,
}

/// Values after an instruction; `None`: as before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct After {
    result: Option<u64>,
    exec: Option<u64>,
    scc: Option<bool>,
}

struct Case {
    text: String,
    words: usize,
    expected: Box<dyn Fn(Before) -> After>,
}

#[derive(Default)]
struct Cases(Vec<Case>);

const fn register(place: usize, words: usize) -> &'static str {
    match (place, words) {
        (0, 1) => "s10",
        (1, 1) => "s12",
        (3, 1) => "s20",
        (0, _) => "s[10:11]",
        (1, _) => "s[12:13]",
        _ => "s[20:21]",
    }
}

impl Cases {
    fn push(&mut self, text: impl Into<String>, words: usize, expected: impl Fn(Before) -> After + 'static) {
        self.0.push(Case { text: text.into(), words, expected: Box::new(expected) });
    }

    fn one<A: Number, R: Number>(&mut self, name: &str, function: fn(A, bool) -> (R, bool)) {
        let text = format!("{name} {}, {}", register(3, R::WORDS), register(0, A::WORDS));
        self.push(text, R::WORDS, move |before| {
            let (result, scc) = function(A::of(before.sources[0]), before.scc);
            After { result: Some(result.word()), scc: Some(scc), exec: None }
        });
    }

    /// A function whose SCC tells whether the result is not 0.
    fn logic1<A: Number, R: Number>(&mut self, name: &str, function: fn(A) -> R) {
        let text = format!("{name} {}, {}", register(3, R::WORDS), register(0, A::WORDS));
        self.push(text, R::WORDS, move |before| {
            let result = function(A::of(before.sources[0])).word();
            After { result: Some(result), scc: Some(result != 0), exec: None }
        });
    }

    fn two<A: Number, B: Number, R: Number>(&mut self, name: &str, function: fn(A, B, bool) -> (R, bool)) {
        let text = format!("{name} {}, {}, {}", register(3, R::WORDS), register(0, A::WORDS), register(1, B::WORDS));
        self.push(text, R::WORDS, move |before| {
            let [a, b] = before.sources;
            let (result, scc) = function(A::of(a), B::of(b), before.scc);
            After { result: Some(result.word()), scc: Some(scc), exec: None }
        });
    }

    fn logic<A: Number, B: Number, R: Number>(&mut self, name: &str, function: fn(A, B) -> R) {
        let text = format!("{name} {}, {}, {}", register(3, R::WORDS), register(0, A::WORDS), register(1, B::WORDS));
        self.push(text, R::WORDS, move |before| {
            let result = function(A::of(before.sources[0]), B::of(before.sources[1])).word();
            After { result: Some(result), scc: Some(result != 0), exec: None }
        });
    }

    fn compare<A: Number, B: Number>(&mut self, name: &str, function: fn(A, B) -> bool) {
        let text = format!("{name} {}, {}", register(0, A::WORDS), register(1, B::WORDS));
        self.push(text, 1, move |before| After {
            scc: Some(function(A::of(before.sources[0]), B::of(before.sources[1]))),
            ..After::default()
        });
    }

    fn check(self) {
        let text: String = self.0.iter().map(|case| format!("{}\n", case.text)).collect();
        let instructions = assembled(&text);
        assert_eq!(instructions.len(), self.0.len());
        let mut random = Random::new(9);
        let mut failures = Vec::new();
        for (case, instruction) in self.0.iter().zip(&instructions) {
            let mut machine = Machine::new();
            for _ in 0..300 {
                let before = Before {
                    sources: [random.word(), random.word()],
                    old: random.word(),
                    exec: random.word(),
                    scc: random.below(2) == 0,
                };
                machine.wave.set_pair(10, before.sources[0]);
                machine.wave.set_pair(12, before.sources[1]);
                machine.wave.set_pair(20, before.old);
                machine.wave.set_pair(code::EXEC, before.exec);
                machine.wave.scc = before.scc;
                if let Err(stop) = machine.execute(instruction) {
                    failures.push(format!("{}: {stop}", case.text));
                    break;
                }
                let after = (case.expected)(before);
                let result = match after.result {
                    None => before.old,
                    Some(result) if case.words == 1 => before.old & !0xffff_ffff | result & 0xffff_ffff,
                    Some(result) => result,
                };
                let expected = (result, after.exec.unwrap_or(before.exec), after.scc.unwrap_or(before.scc));
                let found = (machine.wave.pair(20), machine.wave.exec(), machine.wave.scc);
                if found != expected || machine.wave.pair(10) != before.sources[0] {
                    failures.push(format!("{}: {before:x?}: found {found:x?}, expected {expected:x?}", case.text));
                    break;
                }
            }
        }
        assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), self.0.len(), failures.join("\n"));
    }
}

fn arithmetic(cases: &mut Cases) {
    cases.two("s_add_u32", |a: u32, b: u32, _| a.overflowing_add(b));
    cases.two("s_sub_u32", |a: u32, b: u32, _| a.overflowing_sub(b));
    cases.two("s_add_i32", |a: i32, b: i32, _| a.overflowing_add(b));
    cases.two("s_sub_i32", |a: i32, b: i32, _| a.overflowing_sub(b));
    cases.two("s_addc_u32", |a: u32, b: u32, scc| {
        let sum = u128::from(a) + u128::from(b) + u128::from(scc);
        (sum as u32, sum >= 1 << 32)
    });
    cases.two("s_subb_u32", |a: u32, b: u32, scc| {
        let difference = i128::from(a) - i128::from(b) - i128::from(scc);
        (difference as u32, difference < 0)
    });
    cases.two("s_min_i32", |a: i32, b: i32, _| (a.min(b), a < b));
    cases.two("s_min_u32", |a: u32, b: u32, _| (a.min(b), a < b));
    cases.two("s_max_i32", |a: i32, b: i32, _| (a.max(b), a > b));
    cases.two("s_max_u32", |a: u32, b: u32, _| (a.max(b), a > b));
    cases.two("s_cselect_b32", |a: u32, b: u32, scc| (if scc { a } else { b }, scc));
    cases.two("s_cselect_b64", |a: u64, b: u64, scc| (if scc { a } else { b }, scc));
    cases.two("s_mul_i32", |a: i32, b: i32, scc| (a.wrapping_mul(b), scc));
    cases.two("s_mul_hi_u32", |a: u32, b: u32, scc| (((u64::from(a) * u64::from(b)) >> 32) as u32, scc));
    cases.two("s_mul_hi_i32", |a: i32, b: i32, scc| (((i64::from(a) * i64::from(b)) >> 32) as i32, scc));
    cases.logic("s_absdiff_i32", |a: i32, b: i32| {
        let difference = a.wrapping_sub(b);
        if difference < 0 { 0_i32.wrapping_sub(difference) } else { difference }
    });
    type Shifted = fn(u32, u32, bool) -> (u32, bool);
    let shifts: [(&str, Shifted); 4] = [
        ("s_lshl1_add_u32", |a, b, _| shift_add(a, b, 1)),
        ("s_lshl2_add_u32", |a, b, _| shift_add(a, b, 2)),
        ("s_lshl3_add_u32", |a, b, _| shift_add(a, b, 3)),
        ("s_lshl4_add_u32", |a, b, _| shift_add(a, b, 4)),
    ];
    for (name, function) in shifts {
        cases.two(name, function);
    }
    cases.two("s_pack_ll_b32_b16", |a: u32, b: u32, scc| (a & 0xffff | b << 16, scc));
    cases.two("s_pack_lh_b32_b16", |a: u32, b: u32, scc| (a & 0xffff | b >> 16 << 16, scc));
    cases.two("s_pack_hh_b32_b16", |a: u32, b: u32, scc| (a >> 16 | b >> 16 << 16, scc));
}

fn shift_add(a: u32, b: u32, shift: u32) -> (u32, bool) {
    let sum = u128::from(a) * (1 << shift) + u128::from(b);
    (sum as u32, sum >= 1 << 32)
}

fn logic(cases: &mut Cases) {
    macro_rules! both {
        ($($name:literal $function:expr;)*) => {
            $(
                cases.logic(concat!($name, "_b32"), |a: u32, b: u32| {
                    let function: fn(u64, u64) -> u64 = $function;
                    function(a.into(), b.into()) as u32
                });
                cases.logic(concat!($name, "_b64"), |a: u64, b: u64| {
                    let function: fn(u64, u64) -> u64 = $function;
                    function(a, b)
                });
            )*
        };
    }
    both! {
        "s_and" |a, b| a & b;
        "s_or" |a, b| a | b;
        "s_xor" |a, b| a ^ b;
        "s_andn2" |a, b| a & !b;
        "s_orn2" |a, b| a | !b;
        "s_nand" |a, b| !(a & b);
        "s_nor" |a, b| !(a | b);
        "s_xnor" |a, b| !(a ^ b);
    }
    cases.logic("s_lshl_b32", |a: u32, b: u32| a.wrapping_shl(b));
    cases.logic("s_lshl_b64", |a: u64, b: u32| a.wrapping_shl(b));
    cases.logic("s_lshr_b32", |a: u32, b: u32| a.wrapping_shr(b));
    cases.logic("s_lshr_b64", |a: u64, b: u32| a.wrapping_shr(b));
    cases.logic("s_ashr_i32", |a: i32, b: u32| a.wrapping_shr(b));
    cases.logic("s_ashr_i64", |a: i64, b: u32| a.wrapping_shr(b));
    cases.two("s_bfm_b32", |a: u32, b: u32, scc| ((((1_u64 << (a & 31)) - 1) << (b & 31)) as u32, scc));
    cases.two("s_bfm_b64", |a: u32, b: u32, scc| ((((1_u128 << (a & 63)) - 1) << (b & 63)) as u64, scc));
    cases.logic("s_bfe_u32", |a: u32, b: u32| bits(a.into(), b & 31, (b >> 16 & 127).min(32)) as u32);
    cases.logic("s_bfe_u64", |a: u64, b: u32| bits(a, b & 63, (b >> 16 & 127).min(64)));
    cases.logic("s_bfe_i32", |a: i32, b: u32| {
        let width = (b >> 16 & 127).min(32 - (b & 31));
        extended(bits(a as u32 as u64, b & 31, width), width) as i32
    });
    cases.logic("s_bfe_i64", |a: i64, b: u32| {
        let width = (b >> 16 & 127).min(64 - (b & 63));
        extended(bits(a as u64, b & 63, width), width) as i64
    });
}

/// A bit field, bit for bit.
fn bits(value: u64, offset: u32, width: u32) -> u64 {
    (0..width).filter(|bit| offset + bit < 64 && value >> (offset + bit) & 1 == 1).fold(0, |all, bit| all | 1 << bit)
}

fn extended(value: u64, width: u32) -> u64 {
    (0..64).fold(0, |all, bit| all | (value >> bit.min(width.saturating_sub(1)) & 1) << bit)
}

fn single_operands(cases: &mut Cases) {
    cases.one("s_mov_b32", |a: u32, scc| (a, scc));
    cases.one("s_mov_b64", |a: u64, scc| (a, scc));
    for (name, words) in [("s_cmov_b32 s20, s10", 1), ("s_cmov_b64 s[20:21], s[10:11]", 2)] {
        cases.push(name, words, |before| After {
            result: Some(if before.scc { before.sources[0] } else { before.old }),
            ..After::default()
        });
    }
    cases.logic1("s_not_b32", |a: u32| !a);
    cases.logic1("s_not_b64", |a: u64| !a);
    cases.logic1("s_wqm_b32", |a: u32| quads(a.into(), 32) as u32);
    cases.logic1("s_wqm_b64", |a: u64| quads(a, 64));
    cases.one("s_brev_b32", |a: u32, scc| ((0..32).fold(0_u32, |all, bit| all << 1 | a >> bit & 1), scc));
    cases.one("s_brev_b64", |a: u64, scc| ((0..64).fold(0_u64, |all, bit| all << 1 | a >> bit & 1), scc));
    cases.logic1("s_bcnt0_i32_b32", |a: u32| 32 - bits_set(a.into()));
    cases.logic1("s_bcnt0_i32_b64", |a: u64| 64 - bits_set(a));
    cases.logic1("s_bcnt1_i32_b32", |a: u32| bits_set(a.into()));
    cases.logic1("s_bcnt1_i32_b64", bits_set);
    cases.one("s_ff0_i32_b32", |a: u32, scc| (find(32, |bit| a >> bit & 1 == 0), scc));
    cases.one("s_ff0_i32_b64", |a: u64, scc| (find(64, |bit| a >> bit & 1 == 0), scc));
    cases.one("s_ff1_i32_b32", |a: u32, scc| (find(32, |bit| a >> bit & 1 == 1), scc));
    cases.one("s_ff1_i32_b64", |a: u64, scc| (find(64, |bit| a >> bit & 1 == 1), scc));
    cases.one("s_flbit_i32_b32", |a: u32, scc| (find(32, |bit| a >> (31 - bit) & 1 == 1), scc));
    cases.one("s_flbit_i32_b64", |a: u64, scc| (find(64, |bit| a >> (63 - bit) & 1 == 1), scc));
    cases.one("s_flbit_i32", |a: u32, scc| (find(32, |bit| a >> (31 - bit) & 1 != a >> 31), scc));
    cases.one("s_flbit_i32_i64", |a: u64, scc| (find(64, |bit| a >> (63 - bit) & 1 != a >> 63), scc));
    cases.one("s_sext_i32_i8", |a: u32, scc| (extended(u64::from(a & 0xff), 8) as u32, scc));
    cases.one("s_sext_i32_i16", |a: u32, scc| (extended(u64::from(a & 0xffff), 16) as u32, scc));
    for (name, words, set) in [
        ("s_bitset0_b32 s20, s10", 1, false),
        ("s_bitset0_b64 s[20:21], s10", 2, false),
        ("s_bitset1_b32 s20, s10", 1, true),
        ("s_bitset1_b64 s[20:21], s10", 2, true),
    ] {
        cases.push(name, words, move |before| {
            let bit = 1_u64 << (before.sources[0] % if words == 1 { 32 } else { 64 });
            let result = if set { before.old | bit } else { before.old & !bit };
            After { result: Some(result), ..After::default() }
        });
    }
    cases.logic1("s_quadmask_b32", |a: u32| quad_bits(a.into()) as u32);
    cases.logic1("s_quadmask_b64", quad_bits);
    cases.logic1("s_abs_i32", i32::wrapping_abs);
    cases.one("s_bitreplicate_b64_b32", |a: u32, scc| {
        ((0..64).fold(0_u64, |all, bit| all | u64::from(a >> (bit / 2) & 1) << bit), scc)
    });
}

fn bits_set(value: u64) -> u32 {
    (0..64).map(|bit| (value >> bit & 1) as u32).sum()
}

fn find(size: u32, is: impl Fn(u32) -> bool) -> u32 {
    (0..size).find(|bit| is(*bit)).unwrap_or(u32::MAX)
}

fn quads(value: u64, size: u32) -> u64 {
    (0..size).filter(|bit| value >> (bit & !3) & 15 != 0).fold(0, |all, bit| all | 1 << bit)
}

fn quad_bits(value: u64) -> u64 {
    (0..16).filter(|quad| value >> (quad * 4) & 15 != 0).fold(0, |all, quad| all | 1 << quad)
}

fn exec(cases: &mut Cases) {
    type Changed = fn(u64, u64) -> u64;
    let saving: [(&str, Changed); 10] = [
        ("s_and_saveexec_b64", |a, exec| a & exec),
        ("s_or_saveexec_b64", |a, exec| a | exec),
        ("s_xor_saveexec_b64", |a, exec| a ^ exec),
        ("s_andn2_saveexec_b64", |a, exec| a & !exec),
        ("s_orn2_saveexec_b64", |a, exec| a | !exec),
        ("s_nand_saveexec_b64", |a, exec| !(a & exec)),
        ("s_nor_saveexec_b64", |a, exec| !(a | exec)),
        ("s_xnor_saveexec_b64", |a, exec| !(a ^ exec)),
        ("s_andn1_saveexec_b64", |a, exec| !a & exec),
        ("s_orn1_saveexec_b64", |a, exec| !a | exec),
    ];
    for (name, function) in saving {
        cases.push(format!("{name} s[20:21], s[10:11]"), 2, move |before| {
            let changed = function(before.sources[0], before.exec);
            After { result: Some(before.exec), exec: Some(changed), scc: Some(changed != 0) }
        });
    }
    let writing: [(&str, Changed); 2] =
        [("s_andn1_wrexec_b64", |a, exec| !a & exec), ("s_andn2_wrexec_b64", |a, exec| a & !exec)];
    for (name, function) in writing {
        cases.push(format!("{name} s[20:21], s[10:11]"), 2, move |before| {
            let changed = function(before.sources[0], before.exec);
            After { result: Some(changed), exec: Some(changed), scc: Some(changed != 0) }
        });
    }
}

fn comparisons(cases: &mut Cases) {
    macro_rules! all {
        ($($name:literal $operator:tt;)*) => {
            $(
                cases.compare(concat!("s_cmp_", $name, "_i32"), |a: i32, b: i32| a $operator b);
                cases.compare(concat!("s_cmp_", $name, "_u32"), |a: u32, b: u32| a $operator b);
                for number in [-32768_i32, -1, 0, 1, 32767] {
                    cases.push(format!(concat!("s_cmpk_", $name, "_i32 s20, {}"), number), 1, move |before| After {
                        scc: Some((before.old as i32) $operator number),
                        ..After::default()
                    });
                    let number = u32::from(number as u16);
                    cases.push(format!(concat!("s_cmpk_", $name, "_u32 s20, {}"), number), 1, move |before| After {
                        scc: Some((before.old as u32) $operator number),
                        ..After::default()
                    });
                }
            )*
        };
    }
    all! { "eq" ==; "lg" !=; "gt" >; "ge" >=; "lt" <; "le" <=; }
    cases.compare("s_cmp_eq_u64", |a: u64, b: u64| a == b);
    cases.compare("s_cmp_lg_u64", |a: u64, b: u64| a != b);
    cases.compare("s_bitcmp0_b32", |a: u32, b: u32| a.wrapping_shr(b) & 1 == 0);
    cases.compare("s_bitcmp1_b32", |a: u32, b: u32| a.wrapping_shr(b) & 1 == 1);
    cases.compare("s_bitcmp0_b64", |a: u64, b: u32| a.wrapping_shr(b) & 1 == 0);
    cases.compare("s_bitcmp1_b64", |a: u64, b: u32| a.wrapping_shr(b) & 1 == 1);
    for number in [-32768_i32, -1, 0, 1, 32767] {
        cases.push(format!("s_movk_i32 s20, {number}"), 1, move |_| After {
            result: Some(number as u64),
            ..After::default()
        });
        cases.push(format!("s_cmovk_i32 s20, {number}"), 1, move |before| After {
            result: Some(if before.scc { number as u64 } else { before.old }),
            ..After::default()
        });
        cases.push(format!("s_addk_i32 s20, {number}"), 1, move |before| {
            let (sum, carry) = (before.old as i32).overflowing_add(number);
            After { result: Some(sum as u64), scc: Some(carry), exec: None }
        });
        cases.push(format!("s_mulk_i32 s20, {number}"), 1, move |before| After {
            result: Some((before.old as i32).wrapping_mul(number) as u64),
            ..After::default()
        });
    }
}

/// Registers that M0 selects, the hardware's, and the program counter.
fn others() {
    let mut machine = Machine::new();
    for number in 0..64 {
        machine.wave.scalars[number] = 100 + number as u32;
    }
    machine.wave.scalars[usize::from(code::M0)] = 6;
    machine.run("s_movrels_b32 s0, s10\ns_movrels_b64 s[2:3], s[12:13]");
    machine.run("s_movreld_b32 s30, s20\ns_movreld_b64 s[32:33], s[22:23]");
    let scalars = machine.wave.scalars;
    assert_eq!((scalars[0], scalars[2], scalars[3]), (116, 118, 119));
    assert_eq!((scalars[36], scalars[38], scalars[39]), (120, 122, 123));

    machine.wave.pc = 0x1_0000_1000;
    machine.run("s_getpc_b64 s[0:1]\ns_swappc_b64 s[2:3], s[4:5]");
    assert_eq!((machine.wave.pair(0), machine.wave.pair(2)), (0x1_0000_1000, 0x1_0000_1000));
    assert_eq!(machine.wave.pc, 105 << 32 | 104);
    machine.run("s_setpc_b64 s[0:1]");
    assert_eq!(machine.wave.pc, 0x1_0000_1000);
    machine.run("s_call_b64 s[2:3], -2");
    assert_eq!((machine.wave.pc, machine.wave.pair(2)), (0x1_0000_0ff8, 0x1_0000_1000));

    // The denormal mode of single numbers, and all of MODE.
    machine.run("s_getreg_b32 s0, hwreg(HW_REG_MODE, 4, 4)");
    assert_eq!(machine.wave.scalars[0], 15);
    machine.run("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0");
    assert!(machine.wave.mode.flush_single && !machine.wave.mode.flush_other);
    machine.wave.scalars[0] = 3;
    machine.run("s_setreg_b32 hwreg(HW_REG_MODE, 4, 2), s0\ns_getreg_b32 s1, hwreg(HW_REG_MODE)");
    assert!(!machine.wave.mode.flush_single);
    assert_eq!(machine.wave.scalars[1], DENORMALS);
    machine
        .run("s_getreg_b32 s0, hwreg(HW_REG_SH_MEM_BASES, 16, 16)\ns_getreg_b32 s1, hwreg(HW_REG_SH_MEM_BASES, 0, 16)");
    assert_eq!(machine.wave.scalars[..2], [1, 2]);

    for (text, taken) in [
        ("s_branch 2", [true; 4]),
        ("s_cbranch_scc0 2", [true, false, true, false]),
        ("s_cbranch_scc1 2", [false, true, false, true]),
        ("s_cbranch_vccz 2", [true, true, false, false]),
        ("s_cbranch_vccnz 2", [false, false, true, true]),
        ("s_cbranch_execz 2", [true, true, false, false]),
        ("s_cbranch_execnz 2", [false, false, true, true]),
    ] {
        let instruction = assembled(text).remove(0);
        for (state, taken) in taken.into_iter().enumerate() {
            machine.wave.pc = 0x1000;
            machine.wave.scc = state & 1 != 0;
            // A bit of the high half counts.
            let mask = if state & 2 != 0 { 1 << 63 } else { 0 };
            machine.wave.set_pair(code::VCC, mask);
            machine.wave.set_pair(code::EXEC, mask);
            machine.execute(&instruction).unwrap();
            assert_eq!(machine.wave.pc, if taken { 0x1008 } else { 0x1000 }, "{text} {state}");
        }
    }
    machine.run("s_nop 3\ns_setprio 1\ns_incperflevel 1\ns_decperflevel 1\ns_ttracedata\ns_waitcnt 0\ns_icache_inv");
    assert!(machine.execute(&assembled("s_trap 2")[0]).is_err());
    assert!(machine.execute(&assembled("s_sendmsg 1")[0]).is_err());
    for (text, state) in [
        ("s_barrier", crate::wave::State::Barrier),
        ("s_sleep 1", crate::wave::State::Asleep),
        ("s_endpgm", crate::wave::State::Ended),
    ] {
        machine.run(text);
        assert_eq!(machine.wave.state, state);
    }
}

pub(super) fn check() {
    let mut cases = Cases::default();
    arithmetic(&mut cases);
    logic(&mut cases);
    single_operands(&mut cases);
    exec(&mut cases);
    comparisons(&mut cases);
    cases.check();
    others();
}
