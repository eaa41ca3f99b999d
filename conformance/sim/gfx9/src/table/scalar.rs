//! Instructions of the scalar unit.

use std::sync::atomic::{Ordering, fence};

use super::{Execute, LITERAL, NO_NUMBER, NUMBER_FIRST, Number, Row, Shape, Target, row};
use crate::decode::Fields;
use crate::dispatch::Unit;
use crate::value::{Kind, Value};
use crate::wave::{Mode, State, code};
use crate::{Result, Stop, unknown};

/// One operand, a result, and SCC.
fn one<A: Value, R: Value>(
    unit: &mut Unit<'_, '_>,
    fields: &Fields,
    function: impl Fn(A, &mut bool) -> R,
) -> Result<()> {
    let wave = &mut *unit.wave;
    let a = wave.scalar(fields.sources[0], fields.literal)?;
    let result = function(a, &mut wave.scc);
    wave.set_scalar(fields.destination, result)
}

/// Two operands, a result, and SCC.
fn two<A: Value, B: Value, R: Value>(
    unit: &mut Unit<'_, '_>,
    fields: &Fields,
    function: impl Fn(A, B, &mut bool) -> R,
) -> Result<()> {
    let wave = &mut *unit.wave;
    let a = wave.scalar(fields.sources[0], fields.literal)?;
    let b = wave.scalar(fields.sources[1], fields.literal)?;
    let result = function(a, b, &mut wave.scc);
    wave.set_scalar(fields.destination, result)
}

macro_rules! one {
    ($a:ty => $result:ty, $function:expr) => {
        (
            Shape::alu(Target::Register(<$result>::KIND), &[<$a>::KIND], 0),
            (|unit, fields| one::<$a, $result>(unit, fields, $function)) as Execute,
        )
    };
}

macro_rules! two {
    ($a:ty, $b:ty => $result:ty, $function:expr) => {
        (
            Shape::alu(Target::Register(<$result>::KIND), &[<$a>::KIND, <$b>::KIND], 0),
            (|unit, fields| two::<$a, $b, $result>(unit, fields, $function)) as Execute,
        )
    };
}

/// A result whose SCC tells whether it is not 0.
macro_rules! logic {
    ($type:ty, $function:expr) => {
        two!($type, $type => $type, |a, b, scc| {
            let function: fn($type, $type) -> $type = $function;
            let result = function(a, b);
            *scc = result != 0;
            result
        })
    };
}

macro_rules! logic_one {
    ($a:ty => $result:ty, $function:expr) => {
        one!($a => $result, |a, scc| {
            let function: fn($a) -> $result = $function;
            let result = function(a);
            *scc = result != 0;
            result
        })
    };
}

/// The smaller or larger operand; SCC tells whether it is the first.
macro_rules! pick {
    ($type:ty, $first:expr) => {
        two!($type, $type => $type, |a, b, scc| {
            let first: fn($type, $type) -> bool = $first;
            *scc = first(a, b);
            if *scc { a } else { b }
        })
    };
}

const fn overflowing((value, carry): (u32, bool), scc: &mut bool) -> u32 {
    *scc = carry;
    value
}

const fn overflowing_signed((value, carry): (i32, bool), scc: &mut bool) -> i32 {
    *scc = carry;
    value
}

/// A shift by 1 to 4, and an addition whose carry includes the bits that were shifted out.
const fn shift_add(a: u32, b: u32, shift: u32, scc: &mut bool) -> u32 {
    let sum = ((a as u64) << shift) + b as u64;
    *scc = sum >> 32 != 0;
    sum as u32
}

/// The offset and the width of a bit field of at most `size` bits.
const fn bit_field(operand: u32, size: u32) -> (u32, u32) {
    (operand & (size - 1), operand >> 16 & 0x7f)
}

const fn field_u64(value: u64, operand: u32) -> u64 {
    let (offset, width) = bit_field(operand, 64);
    let part = value >> offset;
    if width >= 64 { part } else { part & ((1 << width) - 1) }
}

const fn field_i64(value: i64, operand: u32) -> i64 {
    let (offset, width) = bit_field(operand, 64);
    match width {
        0 => 0,
        _ if width + offset >= 64 => value >> offset,
        _ => value << (64 - width - offset) >> (64 - width),
    }
}

const fn mask(width: u32, offset: u32) -> u64 {
    ((1_u64 << width) - 1) << offset
}

pub(super) static SOP2: &[Row] = &[
    row(0, "s_add_u32", two!(u32, u32 => u32, |a, b, scc| overflowing(a.overflowing_add(b), scc))),
    row(1, "s_sub_u32", two!(u32, u32 => u32, |a, b, scc| overflowing(a.overflowing_sub(b), scc))),
    row(2, "s_add_i32", two!(i32, i32 => i32, |a, b, scc| overflowing_signed(a.overflowing_add(b), scc))),
    row(3, "s_sub_i32", two!(i32, i32 => i32, |a, b, scc| overflowing_signed(a.overflowing_sub(b), scc))),
    row(
        4,
        "s_addc_u32",
        two!(u32, u32 => u32, |a, b, scc| {
            let sum = u64::from(a) + u64::from(b) + u64::from(*scc);
            *scc = sum >> 32 != 0;
            sum as u32
        }),
    ),
    row(
        5,
        "s_subb_u32",
        two!(u32, u32 => u32, |a, b, scc| {
            let taken = u64::from(b) + u64::from(*scc);
            *scc = taken > u64::from(a);
            u64::from(a).wrapping_sub(taken) as u32
        }),
    ),
    row(6, "s_min_i32", pick!(i32, |a, b| a < b)),
    row(7, "s_min_u32", pick!(u32, |a, b| a < b)),
    row(8, "s_max_i32", pick!(i32, |a, b| a > b)),
    row(9, "s_max_u32", pick!(u32, |a, b| a > b)),
    row(10, "s_cselect_b32", two!(u32, u32 => u32, |a, b, scc| if *scc { a } else { b })),
    row(11, "s_cselect_b64", two!(u64, u64 => u64, |a, b, scc| if *scc { a } else { b })),
    row(12, "s_and_b32", logic!(u32, |a, b| a & b)),
    row(13, "s_and_b64", logic!(u64, |a, b| a & b)),
    row(14, "s_or_b32", logic!(u32, |a, b| a | b)),
    row(15, "s_or_b64", logic!(u64, |a, b| a | b)),
    row(16, "s_xor_b32", logic!(u32, |a, b| a ^ b)),
    row(17, "s_xor_b64", logic!(u64, |a, b| a ^ b)),
    row(18, "s_andn2_b32", logic!(u32, |a, b| a & !b)),
    row(19, "s_andn2_b64", logic!(u64, |a, b| a & !b)),
    row(20, "s_orn2_b32", logic!(u32, |a, b| a | !b)),
    row(21, "s_orn2_b64", logic!(u64, |a, b| a | !b)),
    row(22, "s_nand_b32", logic!(u32, |a, b| !(a & b))),
    row(23, "s_nand_b64", logic!(u64, |a, b| !(a & b))),
    row(24, "s_nor_b32", logic!(u32, |a, b| !(a | b))),
    row(25, "s_nor_b64", logic!(u64, |a, b| !(a | b))),
    row(26, "s_xnor_b32", logic!(u32, |a, b| !(a ^ b))),
    row(27, "s_xnor_b64", logic!(u64, |a, b| !(a ^ b))),
    row(28, "s_lshl_b32", logic!(u32, |a, b| a << (b & 31))),
    row(
        29,
        "s_lshl_b64",
        two!(u64, u32 => u64, |a, b, scc| {
            let result = a << (b & 63);
            *scc = result != 0;
            result
        }),
    ),
    row(30, "s_lshr_b32", logic!(u32, |a, b| a >> (b & 31))),
    row(
        31,
        "s_lshr_b64",
        two!(u64, u32 => u64, |a, b, scc| {
            let result = a >> (b & 63);
            *scc = result != 0;
            result
        }),
    ),
    row(
        32,
        "s_ashr_i32",
        two!(i32, u32 => i32, |a, b, scc| {
            let result = a >> (b & 31);
            *scc = result != 0;
            result
        }),
    ),
    row(
        33,
        "s_ashr_i64",
        two!(i64, u32 => i64, |a, b, scc| {
            let result = a >> (b & 63);
            *scc = result != 0;
            result
        }),
    ),
    row(34, "s_bfm_b32", two!(u32, u32 => u32, |a, b, _| mask(a & 31, b & 31) as u32)),
    row(35, "s_bfm_b64", two!(u32, u32 => u64, |a, b, _| mask(a & 63, b & 63))),
    row(36, "s_mul_i32", two!(i32, i32 => i32, |a, b, _| a.wrapping_mul(b))),
    row(
        37,
        "s_bfe_u32",
        two!(u32, u32 => u32, |a, b, scc| {
            let (offset, width) = bit_field(b, 32);
            let result = field_u64(u64::from(a >> offset), width << 16) as u32;
            *scc = result != 0;
            result
        }),
    ),
    row(
        38,
        "s_bfe_i32",
        two!(i32, u32 => i32, |a, b, scc| {
            let (offset, width) = bit_field(b, 32);
            let result = field_i64(i64::from(a), width.min(32) << 16 | offset) as i32;
            *scc = result != 0;
            result
        }),
    ),
    row(
        39,
        "s_bfe_u64",
        two!(u64, u32 => u64, |a, b, scc| {
            let result = field_u64(a, b);
            *scc = result != 0;
            result
        }),
    ),
    row(
        40,
        "s_bfe_i64",
        two!(i64, u32 => i64, |a, b, scc| {
            let result = field_i64(a, b);
            *scc = result != 0;
            result
        }),
    ),
    row(
        42,
        "s_absdiff_i32",
        two!(i32, i32 => i32, |a, b, scc| {
            let result = a.wrapping_sub(b).wrapping_abs();
            *scc = result != 0;
            result
        }),
    ),
    row(44, "s_mul_hi_u32", two!(u32, u32 => u32, |a, b, _| ((u64::from(a) * u64::from(b)) >> 32) as u32)),
    row(45, "s_mul_hi_i32", two!(i32, i32 => i32, |a, b, _| ((i64::from(a) * i64::from(b)) >> 32) as i32)),
    row(46, "s_lshl1_add_u32", two!(u32, u32 => u32, |a, b, scc| shift_add(a, b, 1, scc))),
    row(47, "s_lshl2_add_u32", two!(u32, u32 => u32, |a, b, scc| shift_add(a, b, 2, scc))),
    row(48, "s_lshl3_add_u32", two!(u32, u32 => u32, |a, b, scc| shift_add(a, b, 3, scc))),
    row(49, "s_lshl4_add_u32", two!(u32, u32 => u32, |a, b, scc| shift_add(a, b, 4, scc))),
    row(50, "s_pack_ll_b32_b16", two!(u16, u16 => u32, |a, b, _| u32::from(a) | u32::from(b) << 16)),
    row(51, "s_pack_lh_b32_b16", two!(u16, u32 => u32, |a, b, _| u32::from(a) | b & 0xffff_0000)),
    row(52, "s_pack_hh_b32_b16", two!(u32, u32 => u32, |a, b, _| a >> 16 | b & 0xffff_0000)),
];

/// Stores EXEC in the destination, and changes EXEC by it and the source.
fn save_exec(unit: &mut Unit<'_, '_>, fields: &Fields, function: impl Fn(u64, u64) -> u64) -> Result<()> {
    let wave = &mut *unit.wave;
    let source: u64 = wave.scalar(fields.sources[0], fields.literal)?;
    let exec = wave.exec();
    wave.set_scalar(fields.destination, exec)?;
    let changed = function(source, exec);
    wave.set_pair(code::EXEC, changed);
    wave.scc = changed != 0;
    Ok(())
}

/// Changes EXEC by itself and the source, and stores the result in the destination, too.
fn write_exec(unit: &mut Unit<'_, '_>, fields: &Fields, function: impl Fn(u64, u64) -> u64) -> Result<()> {
    let wave = &mut *unit.wave;
    let source: u64 = wave.scalar(fields.sources[0], fields.literal)?;
    let changed = function(source, wave.exec());
    wave.set_pair(code::EXEC, changed);
    wave.scc = changed != 0;
    wave.set_scalar(fields.destination, changed)
}

macro_rules! exec {
    ($function:ident, $operation:expr) => {
        (
            Shape::alu(Target::Register(Kind::Int64), &[Kind::Int64], 0),
            (|unit, fields| $function(unit, fields, $operation)) as Execute,
        )
    };
}

/// The index of the first bit that is set, or -1.
const fn first_bit(value: u64) -> i32 {
    if value == 0 { -1 } else { value.trailing_zeros() as i32 }
}

/// The number of bits before the first one that is set, of `size` bits, or -1.
const fn leading(value: u64, size: u32) -> i32 {
    if value == 0 { -1 } else { (value.leading_zeros() - (64 - size)) as i32 }
}

/// The number of bits before the first one that differs from the sign, or -1.
const fn leading_sign(value: i64, size: u32) -> i32 {
    let changed = (if value < 0 { !value } else { value }) as u64;
    leading(changed, size)
}

/// Each group of four bits becomes all ones if one of them is set.
const fn whole_quads(value: u64) -> u64 {
    let any = value | value >> 1 | value >> 2 | value >> 3;
    (any & 0x1111_1111_1111_1111) * 0xf
}

/// One bit per group of four: whether one of them is set.
const fn quad_mask(value: u64) -> u64 {
    let mut mask = 0;
    let mut quad = 0;
    while quad < 16 {
        if value >> (quad * 4) & 0xf != 0 {
            mask |= 1 << quad;
        }
        quad += 1;
    }
    mask
}

/// Every bit twice.
const fn replicated(value: u32) -> u64 {
    let mut result = 0;
    let mut bit = 0;
    while bit < 32 {
        if value >> bit & 1 != 0 {
            result |= 3_u64 << (bit * 2);
        }
        bit += 1;
    }
    result
}

/// Sets or clears a bit of the destination.
fn set_bit<T: Value>(unit: &mut Unit<'_, '_>, fields: &Fields, function: impl Fn(T, u32) -> T) -> Result<()> {
    let bit: u32 = unit.wave.scalar(fields.sources[0], fields.literal)?;
    let old: T = unit.wave.scalar(fields.destination, 0)?;
    unit.wave.set_scalar(fields.destination, function(old, bit))
}

macro_rules! bit {
    ($type:ty, $function:expr) => {
        (
            Shape::alu(Target::Register(<$type>::KIND), &[Kind::Int32], 0),
            (|unit, fields| set_bit::<$type>(unit, fields, $function)) as Execute,
        )
    };
}

/// Copies the source if SCC is set.
fn conditional<T: Value>(unit: &mut Unit<'_, '_>, fields: &Fields) -> Result<()> {
    let wave = &mut *unit.wave;
    let value: T = wave.scalar(fields.sources[0], fields.literal)?;
    if wave.scc { wave.set_scalar(fields.destination, value) } else { Ok(()) }
}

/// A register's number plus M0.
fn relative(unit: &Unit<'_, '_>, number: u16) -> Result<u16> {
    let index = u32::from(number).wrapping_add(unit.wave.scalars[usize::from(code::M0)]);
    u16::try_from(index).ok().filter(|index| *index < code::VCC).ok_or(unknown("an index beyond the scalar registers"))
}

fn move_relative<T: Value>(unit: &mut Unit<'_, '_>, fields: &Fields, source: bool) -> Result<()> {
    let from = if source { relative(unit, fields.sources[0])? } else { fields.sources[0] };
    let to = if source { fields.destination } else { relative(unit, fields.destination)? };
    let value: T = unit.wave.scalar(from, fields.literal)?;
    unit.wave.set_scalar(to, value)
}

pub(super) static SOP1: &[Row] = &[
    row(0, "s_mov_b32", one!(u32 => u32, |a, _| a)),
    row(1, "s_mov_b64", one!(u64 => u64, |a, _| a)),
    row(2, "s_cmov_b32", (one!(u32 => u32, |a, _| a).0, |unit, fields| conditional::<u32>(unit, fields))),
    row(3, "s_cmov_b64", (one!(u64 => u64, |a, _| a).0, |unit, fields| conditional::<u64>(unit, fields))),
    row(4, "s_not_b32", logic_one!(u32 => u32, |a| !a)),
    row(5, "s_not_b64", logic_one!(u64 => u64, |a| !a)),
    row(6, "s_wqm_b32", logic_one!(u32 => u32, |a| whole_quads(a.into()) as u32)),
    row(7, "s_wqm_b64", logic_one!(u64 => u64, whole_quads)),
    row(8, "s_brev_b32", one!(u32 => u32, |a, _| a.reverse_bits())),
    row(9, "s_brev_b64", one!(u64 => u64, |a, _| a.reverse_bits())),
    row(10, "s_bcnt0_i32_b32", logic_one!(u32 => u32, u32::count_zeros)),
    row(11, "s_bcnt0_i32_b64", logic_one!(u64 => u32, u64::count_zeros)),
    row(12, "s_bcnt1_i32_b32", logic_one!(u32 => u32, u32::count_ones)),
    row(13, "s_bcnt1_i32_b64", logic_one!(u64 => u32, u64::count_ones)),
    row(14, "s_ff0_i32_b32", one!(u32 => i32, |a, _| first_bit((!a).into()))),
    row(15, "s_ff0_i32_b64", one!(u64 => i32, |a, _| first_bit(!a))),
    row(16, "s_ff1_i32_b32", one!(u32 => i32, |a, _| first_bit(a.into()))),
    row(17, "s_ff1_i32_b64", one!(u64 => i32, |a, _| first_bit(a))),
    row(18, "s_flbit_i32_b32", one!(u32 => i32, |a, _| leading(a.into(), 32))),
    row(19, "s_flbit_i32_b64", one!(u64 => i32, |a, _| leading(a, 64))),
    row(20, "s_flbit_i32", one!(i32 => i32, |a, _| leading_sign(a.into(), 32))),
    row(21, "s_flbit_i32_i64", one!(i64 => i32, |a, _| leading_sign(a, 64))),
    row(22, "s_sext_i32_i8", one!(u32 => i32, |a, _| i32::from(a as i8))),
    row(23, "s_sext_i32_i16", one!(u32 => i32, |a, _| i32::from(a as i16))),
    row(24, "s_bitset0_b32", bit!(u32, |old, bit| old & !(1 << (bit & 31)))),
    row(25, "s_bitset0_b64", bit!(u64, |old, bit| old & !(1 << (bit & 63)))),
    row(26, "s_bitset1_b32", bit!(u32, |old, bit| old | 1 << (bit & 31))),
    row(27, "s_bitset1_b64", bit!(u64, |old, bit| old | 1 << (bit & 63))),
    row(
        28,
        "s_getpc_b64",
        (Shape::alu(Target::Register(Kind::Int64), &[], 0), |unit, fields| {
            unit.wave.set_scalar(fields.destination, unit.wave.pc)
        }),
    ),
    row(
        29,
        "s_setpc_b64",
        (Shape::alu(Target::None, &[Kind::Int64], NO_NUMBER), |unit, fields| {
            unit.wave.pc = unit.wave.scalar(fields.sources[0], fields.literal)?;
            Ok(())
        }),
    ),
    row(
        30,
        "s_swappc_b64",
        (Shape::alu(Target::Register(Kind::Int64), &[Kind::Int64], 0), |unit, fields| {
            let target = unit.wave.scalar(fields.sources[0], fields.literal)?;
            unit.wave.set_scalar(fields.destination, unit.wave.pc)?;
            unit.wave.pc = target;
            Ok(())
        }),
    ),
    row(32, "s_and_saveexec_b64", exec!(save_exec, |a, exec| a & exec)),
    row(33, "s_or_saveexec_b64", exec!(save_exec, |a, exec| a | exec)),
    row(34, "s_xor_saveexec_b64", exec!(save_exec, |a, exec| a ^ exec)),
    row(35, "s_andn2_saveexec_b64", exec!(save_exec, |a, exec| a & !exec)),
    row(36, "s_orn2_saveexec_b64", exec!(save_exec, |a, exec| a | !exec)),
    row(37, "s_nand_saveexec_b64", exec!(save_exec, |a, exec| !(a & exec))),
    row(38, "s_nor_saveexec_b64", exec!(save_exec, |a, exec| !(a | exec))),
    row(39, "s_xnor_saveexec_b64", exec!(save_exec, |a, exec| !(a ^ exec))),
    row(40, "s_quadmask_b32", logic_one!(u32 => u32, |a| quad_mask(a.into()) as u32)),
    row(41, "s_quadmask_b64", logic_one!(u64 => u64, quad_mask)),
    row(
        42,
        "s_movrels_b32",
        (Shape::alu(Target::Register(Kind::Int32), &[Kind::Int32], NO_NUMBER), |unit, fields| {
            move_relative::<u32>(unit, fields, true)
        }),
    ),
    row(
        43,
        "s_movrels_b64",
        (Shape::alu(Target::Register(Kind::Int64), &[Kind::Int64], NO_NUMBER), |unit, fields| {
            move_relative::<u64>(unit, fields, true)
        }),
    ),
    row(44, "s_movreld_b32", (one!(u32 => u32, |a, _| a).0, |unit, fields| move_relative::<u32>(unit, fields, false))),
    row(45, "s_movreld_b64", (one!(u64 => u64, |a, _| a).0, |unit, fields| move_relative::<u64>(unit, fields, false))),
    row(48, "s_abs_i32", logic_one!(i32 => i32, i32::wrapping_abs)),
    row(51, "s_andn1_saveexec_b64", exec!(save_exec, |a, exec| !a & exec)),
    row(52, "s_orn1_saveexec_b64", exec!(save_exec, |a, exec| !a | exec)),
    row(53, "s_andn1_wrexec_b64", exec!(write_exec, |a, exec| !a & exec)),
    row(54, "s_andn2_wrexec_b64", exec!(write_exec, |a, exec| a & !exec)),
    row(55, "s_bitreplicate_b64_b32", one!(u32 => u64, |a, _| replicated(a))),
];

macro_rules! compare {
    ($a:ty, $b:ty, $function:expr) => {
        (
            Shape::alu(Target::None, &[<$a>::KIND, <$b>::KIND], 0),
            (|unit, fields| {
                let function: fn($a, $b) -> bool = $function;
                let a = unit.wave.scalar(fields.sources[0], fields.literal)?;
                let b = unit.wave.scalar(fields.sources[1], fields.literal)?;
                unit.wave.scc = function(a, b);
                Ok(())
            }) as Execute,
        )
    };
}

pub(super) static SOPC: &[Row] = &[
    row(0, "s_cmp_eq_i32", compare!(i32, i32, |a, b| a == b)),
    row(1, "s_cmp_lg_i32", compare!(i32, i32, |a, b| a != b)),
    row(2, "s_cmp_gt_i32", compare!(i32, i32, |a, b| a > b)),
    row(3, "s_cmp_ge_i32", compare!(i32, i32, |a, b| a >= b)),
    row(4, "s_cmp_lt_i32", compare!(i32, i32, |a, b| a < b)),
    row(5, "s_cmp_le_i32", compare!(i32, i32, |a, b| a <= b)),
    row(6, "s_cmp_eq_u32", compare!(u32, u32, |a, b| a == b)),
    row(7, "s_cmp_lg_u32", compare!(u32, u32, |a, b| a != b)),
    row(8, "s_cmp_gt_u32", compare!(u32, u32, |a, b| a > b)),
    row(9, "s_cmp_ge_u32", compare!(u32, u32, |a, b| a >= b)),
    row(10, "s_cmp_lt_u32", compare!(u32, u32, |a, b| a < b)),
    row(11, "s_cmp_le_u32", compare!(u32, u32, |a, b| a <= b)),
    row(12, "s_bitcmp0_b32", compare!(u32, u32, |a, b| a >> (b & 31) & 1 == 0)),
    row(13, "s_bitcmp1_b32", compare!(u32, u32, |a, b| a >> (b & 31) & 1 == 1)),
    row(14, "s_bitcmp0_b64", compare!(u64, u32, |a, b| a >> (b & 63) & 1 == 0)),
    row(15, "s_bitcmp1_b64", compare!(u64, u32, |a, b| a >> (b & 63) & 1 == 1)),
    row(18, "s_cmp_eq_u64", compare!(u64, u64, |a, b| a == b)),
    row(19, "s_cmp_lg_u64", compare!(u64, u64, |a, b| a != b)),
];

/// An operation on the destination and the 16-bit number.
macro_rules! immediate {
    ($function:expr) => {
        (
            Shape::number(Target::Register(Kind::Int32), Number::Hexadecimal, 0),
            (|unit, fields| {
                let function: fn(i32, i32, &mut bool) -> i32 = $function;
                let wave = &mut *unit.wave;
                let old = wave.scalar(fields.destination, 0)?;
                let result = function(old, fields.offset, &mut wave.scc);
                wave.set_scalar(fields.destination, result)
            }) as Execute,
        )
    };
}

/// A comparison of the destination with the 16-bit number.
macro_rules! compare_immediate {
    ($type:ty, $number:expr, $function:expr) => {
        (
            Shape::number(Target::Register(Kind::Int32), Number::Hexadecimal, 0),
            (|unit, fields| {
                let number: fn(i32) -> $type = $number;
                let function: fn($type, $type) -> bool = $function;
                let value = unit.wave.scalar(fields.destination, 0)?;
                unit.wave.scc = function(value, number(fields.offset));
                Ok(())
            }) as Execute,
        )
    };
}

/// The number without a sign.
const fn unsigned(number: i32) -> u32 {
    number as u16 as u32
}

/// The hardware register, the first bit and the number of bits of `s_getreg` and `s_setreg`.
const fn hardware(number: i32) -> (u32, u32, u32) {
    let number = unsigned(number);
    (number & 0x3f, number >> 6 & 0x1f, (number >> 11 & 0x1f) + 1)
}

const MODE: u32 = 1;

/// A hardware register. HW_ID and the like are those of a wave that is alone on the GPU.
fn hardware_register(unit: &Unit<'_, '_>, register: u32) -> Result<u32> {
    match register {
        MODE => Ok(unit.wave.mode.bits),
        // TRAPSTS: no exception occurred. HW_ID: the first processor.
        3 | 4 => Ok(0),
        // SH_MEM_BASES: the apertures.
        15 => Ok(unit.wave.apertures.private >> 16 | unit.wave.apertures.shared & 0xffff_0000),
        _ => Err(unknown("the hardware register")),
    }
}

fn set_hardware(unit: &mut Unit<'_, '_>, fields: &Fields, value: u32) -> Result<()> {
    let (register, offset, count) = hardware(fields.offset);
    if register != MODE {
        return Err(unknown("a write of the hardware register"));
    }
    let bits = (mask(count, offset) & u64::from(u32::MAX)) as u32;
    let mode = unit.wave.mode.bits & !bits | value << offset & bits;
    unit.wave.mode = Mode::new(mode).ok_or(unknown("rounding other than to nearest even"))?;
    Ok(())
}

pub(super) static SOPK: &[Row] = &[
    row(0, "s_movk_i32", immediate!(|_, number, _| number)),
    row(1, "s_cmovk_i32", immediate!(|old, number, scc| if *scc { number } else { old })),
    row(2, "s_cmpk_eq_i32", compare_immediate!(i32, |number| number, |a, b| a == b)),
    row(3, "s_cmpk_lg_i32", compare_immediate!(i32, |number| number, |a, b| a != b)),
    row(4, "s_cmpk_gt_i32", compare_immediate!(i32, |number| number, |a, b| a > b)),
    row(5, "s_cmpk_ge_i32", compare_immediate!(i32, |number| number, |a, b| a >= b)),
    row(6, "s_cmpk_lt_i32", compare_immediate!(i32, |number| number, |a, b| a < b)),
    row(7, "s_cmpk_le_i32", compare_immediate!(i32, |number| number, |a, b| a <= b)),
    row(8, "s_cmpk_eq_u32", compare_immediate!(u32, unsigned, |a, b| a == b)),
    row(9, "s_cmpk_lg_u32", compare_immediate!(u32, unsigned, |a, b| a != b)),
    row(10, "s_cmpk_gt_u32", compare_immediate!(u32, unsigned, |a, b| a > b)),
    row(11, "s_cmpk_ge_u32", compare_immediate!(u32, unsigned, |a, b| a >= b)),
    row(12, "s_cmpk_lt_u32", compare_immediate!(u32, unsigned, |a, b| a < b)),
    row(13, "s_cmpk_le_u32", compare_immediate!(u32, unsigned, |a, b| a <= b)),
    row(14, "s_addk_i32", immediate!(|old, number, scc| overflowing_signed(old.overflowing_add(number), scc))),
    row(15, "s_mulk_i32", immediate!(|old, number, _| old.wrapping_mul(number))),
    row(
        17,
        "s_getreg_b32",
        (Shape::number(Target::Register(Kind::Int32), Number::HardwareRegister, 0), |unit, fields| {
            let (register, offset, count) = hardware(fields.offset);
            let value = u64::from(hardware_register(unit, register)? >> offset) & mask(count, 0);
            unit.wave.set_scalar(fields.destination, value as u32)
        }),
    ),
    row(
        18,
        "s_setreg_b32",
        (Shape::number(Target::Register(Kind::Int32), Number::HardwareRegister, NUMBER_FIRST), |unit, fields| {
            let value = unit.wave.scalar(fields.destination, 0)?;
            set_hardware(unit, fields, value)
        }),
    ),
    row(
        20,
        "s_setreg_imm32_b32",
        (Shape::number(Target::None, Number::HardwareRegister, LITERAL), |unit, fields| {
            set_hardware(unit, fields, fields.literal)
        }),
    ),
    row(
        21,
        "s_call_b64",
        (Shape::number(Target::Register(Kind::Int64), Number::Distance, 0), |unit, fields| {
            unit.wave.set_scalar(fields.destination, unit.wave.pc)?;
            jump(unit, fields)
        }),
    ),
];

fn jump(unit: &mut Unit<'_, '_>, fields: &Fields) -> Result<()> {
    unit.wave.pc = unit.wave.pc.wrapping_add_signed(i64::from(fields.offset) * 4);
    Ok(())
}

macro_rules! branch {
    ($condition:expr) => {
        (
            Shape::number(Target::None, Number::Distance, 0),
            (|unit, fields| {
                let condition: fn(&Unit<'_, '_>) -> bool = $condition;
                if condition(unit) { jump(unit, fields) } else { Ok(()) }
            }) as Execute,
        )
    };
}

/// Nothing that this interpreter emulates: waits are for accesses that were executed in order, and priorities are for
/// timing.
const NOTHING: (Shape, Execute) = (Shape::number(Target::None, Number::Plain, 0), |_, _| Ok(()));

pub(super) static SOPP: &[Row] = &[
    row(0, "s_nop", NOTHING),
    row(
        1,
        "s_endpgm",
        (Shape::number(Target::None, Number::Optional, 0), |unit, _| {
            unit.wave.state = State::Ended;
            Ok(())
        }),
    ),
    row(2, "s_branch", branch!(|_| true)),
    row(4, "s_cbranch_scc0", branch!(|unit| !unit.wave.scc)),
    row(5, "s_cbranch_scc1", branch!(|unit| unit.wave.scc)),
    row(6, "s_cbranch_vccz", branch!(|unit| unit.wave.vcc() == 0)),
    row(7, "s_cbranch_vccnz", branch!(|unit| unit.wave.vcc() != 0)),
    row(8, "s_cbranch_execz", branch!(|unit| unit.wave.exec() == 0)),
    row(9, "s_cbranch_execnz", branch!(|unit| unit.wave.exec() != 0)),
    row(
        10,
        "s_barrier",
        (Shape::alu(Target::None, &[], 0), |unit, _| {
            unit.wave.state = State::Barrier;
            Ok(())
        }),
    ),
    // The processor's own stores are visible before the loads that follow.
    row(
        12,
        "s_waitcnt",
        (Shape::number(Target::None, Number::Counters, 0), |_, _| {
            fence(Ordering::SeqCst);
            Ok(())
        }),
    ),
    row(
        14,
        "s_sleep",
        (Shape::number(Target::None, Number::Plain, 0), |unit, _| {
            unit.wave.state = State::Asleep;
            Ok(())
        }),
    ),
    row(15, "s_setprio", NOTHING),
    row(
        16,
        "s_sendmsg",
        (Shape::number(Target::None, Number::Message, 0), |_, _| Err(unknown("a message to the host"))),
    ),
    row(
        18,
        "s_trap",
        (Shape::number(Target::None, Number::Plain, 0), |_, fields| Err(Stop::Trap(fields.offset as u8))),
    ),
    row(
        19,
        "s_icache_inv",
        (Shape::alu(Target::None, &[], 0), |unit, _| {
            unit.forget_code = true;
            Ok(())
        }),
    ),
    row(20, "s_incperflevel", NOTHING),
    row(21, "s_decperflevel", NOTHING),
    row(22, "s_ttracedata", (Shape::alu(Target::None, &[], 0), |_, _| Ok(()))),
];
