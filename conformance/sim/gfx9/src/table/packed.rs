//! Packed instructions: two 16-bit operations per lane, dot products, and mixed precision.

use half::f16;

use super::math::{fused_half, fused_single, half2, maximum, minimum};
use super::{Execute, MIXES, Row, SATURATE, Shape, Target, row};
use crate::decode::Fields;
use crate::dispatch::Unit;
use crate::lanes::wrapping;
use crate::value::{Integer, Kind, Pair, Value};
use crate::wave::LANES;
use crate::{Result, lanes};

macro_rules! two {
    ($type:ty, $traits:expr, $function:expr) => {
        (
            Shape::alu(Target::Register(<Pair<$type>>::KIND), &[<Pair<$type>>::KIND; 2], $traits),
            (|unit, fields| lanes::packed_binary::<$type>(unit.wave, fields, $function)) as Execute,
        )
    };
}

macro_rules! three {
    ($type:ty, $traits:expr, $function:expr) => {
        (
            Shape::alu(Target::Register(<Pair<$type>>::KIND), &[<Pair<$type>>::KIND; 3], $traits),
            (|unit, fields| lanes::packed_ternary::<$type>(unit.wave, fields, $function)) as Execute,
        )
    };
}

/// A function whose exact result is 64 bits wide: it wraps, or saturates with the clamp.
macro_rules! exact {
    ($type:ty, |$a:ident, $b:ident| $function:expr) => {
        (
            Shape::alu(Target::Register(<Pair<$type>>::KIND), &[<Pair<$type>>::KIND; 2], SATURATE),
            (|unit, fields| {
                lanes::packed_binary::<$type>(
                    unit.wave,
                    &wrapping(fields),
                    saturating!(fields, $type, |$a, $b| $function),
                )
            }) as Execute,
        )
    };
    ($type:ty, |$a:ident, $b:ident, $c:ident| $function:expr) => {
        (
            Shape::alu(Target::Register(<Pair<$type>>::KIND), &[<Pair<$type>>::KIND; 3], SATURATE),
            (|unit, fields| {
                let function = saturating!(fields, $type, |$a, $b, $c| $function);
                lanes::packed_ternary::<$type>(unit.wave, &wrapping(fields), function)
            }) as Execute,
        )
    };
}

macro_rules! saturating {
    ($fields:expr, $type:ty, |$($operand:ident),*| $function:expr) => {{
        let clamp = $fields.modifiers.clamp;
        move |$($operand: $type),*| {
            $(let $operand = i64::from($operand);)*
            let exact: i64 = $function;
            if clamp { <$type>::saturated(exact) } else { <$type>::wrapped(exact) }
        }
    }};
}

macro_rules! dot {
    ($kind:expr, $type:ty, $function:expr) => {
        (
            Shape::alu(Target::Register(Kind::Int32), &[$kind, $kind, Kind::Int32], SATURATE),
            (|unit, fields| {
                // The halves of integers have no modifiers.
                lanes::exact_ternary::<u32, u32, $type, $type>(unit.wave, fields, $function)
            }) as Execute,
        )
    };
}

/// The sum of the products of parts of two words, plus a word.
fn dot_signed(a: u32, b: u32, c: i32, bits: u32) -> i64 {
    let part = |word: u32, at: u32| i64::from((word << (32 - bits - at)).cast_signed() >> (32 - bits));
    (0..32).step_by(bits as usize).fold(c.into(), |sum, at| sum + part(a, at) * part(b, at))
}

fn dot_unsigned(a: u32, b: u32, c: u32, bits: u32) -> i64 {
    let part = |word: u32, at: u32| i64::from(word << (32 - bits - at) >> (32 - bits));
    (0..32).step_by(bits as usize).fold(c.into(), |sum, at| sum + part(a, at) * part(b, at))
}

/// A source of a mixed-precision instruction: 32 bits, or one of two halves, as `select_high` and `select` say.
fn mixed_source(unit: &Unit<'_, '_>, fields: &Fields, index: usize) -> Result<[f32; LANES]> {
    let has = |bits: u8| bits >> index & 1 != 0;
    let modifiers = fields.modifiers;
    let single = Fields { modifiers: crate::decode::Modifiers::NONE, ..*fields };
    let values = if has(modifiers.select_high) {
        let words = lanes::read::<u32>(unit.wave, &single, index)?;
        words.map(|word| {
            let half = f16::from_bits(if has(modifiers.select) { (word >> 16) as u16 } else { word as u16 });
            if unit.wave.mode.flush_other { half.flushed().to_f32() } else { half.to_f32() }
        })
    } else {
        lanes::read::<f32>(unit.wave, &single, index)?
    };
    // The high halves' negation is the absolute value here.
    Ok(values.map(|value| value.modified(has(modifiers.absolute), has(modifiers.negate))))
}

fn mixed(unit: &Unit<'_, '_>, fields: &Fields) -> Result<[f32; LANES]> {
    let (a, b) = (mixed_source(unit, fields, 0)?, mixed_source(unit, fields, 1)?);
    let c = mixed_source(unit, fields, 2)?;
    let (clamp, clamps_nan) = (fields.modifiers.clamp, unit.wave.mode.clamps_nan());
    Ok(std::array::from_fn(|lane| {
        let result = fused_single(a[lane], b[lane], c[lane]);
        result.finished(0, clamp, clamps_nan).unwrap_or(result)
    }))
}

/// Writes one half of the destination.
fn mixed_half(unit: &mut Unit<'_, '_>, fields: &Fields, shift: u32) -> Result<()> {
    let results = mixed(unit, fields)?;
    let (active, flushes) = (unit.wave.active(), unit.wave.mode.flush_other);
    let register = unit.wave.vector_mut(fields.destination.into())?;
    for lane in active {
        let half = f16::from_f32(results[lane]);
        let half = u32::from(if flushes { half.flushed() } else { half }.to_bits()) << shift;
        register[lane] = register[lane] & !(0xffff << shift) | half;
    }
    Ok(())
}

const MIXED: &[Kind] = &[Kind::Float16; 3];

pub(super) static VOP3P: &[Row] = &[
    row(0, "v_pk_mad_i16", exact!(i16, |a, b, c| a * b + c)),
    row(1, "v_pk_mul_lo_u16", two!(u16, 0, u16::wrapping_mul)),
    row(2, "v_pk_add_i16", exact!(i16, |a, b| a + b)),
    row(3, "v_pk_sub_i16", exact!(i16, |a, b| a - b)),
    row(4, "v_pk_lshlrev_b16", two!(u16, 0, |a, b| b << (a & 15))),
    row(5, "v_pk_lshrrev_b16", two!(u16, 0, |a, b| b >> (a & 15))),
    row(6, "v_pk_ashrrev_i16", two!(i16, 0, |a, b| b >> (a & 15))),
    row(7, "v_pk_max_i16", two!(i16, 0, i16::max)),
    row(8, "v_pk_min_i16", two!(i16, 0, i16::min)),
    row(9, "v_pk_mad_u16", exact!(u16, |a, b, c| a * b + c)),
    row(10, "v_pk_add_u16", exact!(u16, |a, b| a + b)),
    row(11, "v_pk_sub_u16", exact!(u16, |a, b| a - b)),
    row(12, "v_pk_max_u16", two!(u16, 0, u16::max)),
    row(13, "v_pk_min_u16", two!(u16, 0, u16::min)),
    row(14, "v_pk_fma_f16", three!(f16, 0, fused_half)),
    row(15, "v_pk_add_f16", two!(f16, 0, half2(|a, b| a + b))),
    row(16, "v_pk_mul_f16", two!(f16, 0, half2(|a, b| a * b))),
    row(17, "v_pk_min_f16", two!(f16, 0, minimum)),
    row(18, "v_pk_max_f16", two!(f16, 0, maximum)),
    row(
        32,
        "v_fma_mix_f32",
        (Shape::alu(Target::Register(Kind::Float32), MIXED, MIXES), |unit, fields| {
            let results = mixed(unit, fields)?;
            let plain = Fields { modifiers: crate::decode::Modifiers::NONE, ..*fields };
            lanes::write(unit.wave, &plain, results)
        }),
    ),
    row(
        33,
        "v_fma_mixlo_f16",
        (Shape::alu(Target::Register(Kind::Float16), MIXED, MIXES), |unit, fields| mixed_half(unit, fields, 0)),
    ),
    row(
        34,
        "v_fma_mixhi_f16",
        (Shape::alu(Target::Register(Kind::Float16), MIXED, MIXES), |unit, fields| mixed_half(unit, fields, 16)),
    ),
    row(38, "v_dot2_i32_i16", dot!(Kind::Pair16, i32, |a, b, c| dot_signed(a, b, c, 16))),
    row(39, "v_dot2_u32_u16", dot!(Kind::Pair16, u32, |a, b, c| dot_unsigned(a, b, c, 16))),
    row(40, "v_dot4_i32_i8", dot!(Kind::Int32, i32, |a, b, c| dot_signed(a, b, c, 8))),
    row(41, "v_dot4_u32_u8", dot!(Kind::Int32, u32, |a, b, c| dot_unsigned(a, b, c, 8))),
    row(42, "v_dot8_i32_i4", dot!(Kind::Int32, i32, |a, b, c| dot_signed(a, b, c, 4))),
    row(43, "v_dot8_u32_u4", dot!(Kind::Int32, u32, |a, b, c| dot_unsigned(a, b, c, 4))),
];
