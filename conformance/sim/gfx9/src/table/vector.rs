//! Instructions of the vector unit with one result per lane.

use half::f16;

use super::math::{
    byte_differences, cosine, division_fixup16, division_fixup32, division_fixup64, division_scale32, division_scale64,
    division_step32, division_step64, exponent32, exponent64, fraction32, fraction64, fused_half, fused_single, half1,
    half2, mantissa32, mantissa64, maximum, means, median, minimum, permuted, reciprocal_root, scaled32, scaled64,
    signalling, sine, to_half, to_i32, to_u32,
};
use super::{
    ACCUMULATES, CARRY_IN, CARRY_OUT, Execute, LITERAL, LITERAL_LAST, MODIFIES, NO_CLAMP, NO_ROUTE, NO_SDWA, NO_VOP3,
    Row, SATURATE, SCALAR_LANE, SCALES, SELECT, Shape, Target, VECTORS, row,
};
use crate::cube::projected;
use crate::decode::Fields;
use crate::dispatch::Unit;
use crate::lanes;
use crate::value::{Kind, Value};
use crate::wave::{LANES, code};
use crate::{Result, unknown};

macro_rules! one {
    ($a:ty => $result:ty, $function:expr) => {
        one!($a => $result, 0, $function)
    };
    ($a:ty => $result:ty, $traits:expr, $function:expr) => {
        (
            Shape::alu(Target::Register(<$result>::KIND), &[<$a>::KIND], $traits),
            (|unit, fields| lanes::unary::<$a, $result>(unit.wave, fields, $function)) as Execute,
        )
    };
}

macro_rules! two {
    ($a:ty, $b:ty => $result:ty, $function:expr) => {
        two!($a, $b => $result, 0, $function)
    };
    ($a:ty, $b:ty => $result:ty, $traits:expr, $function:expr) => {
        (
            Shape::alu(Target::Register(<$result>::KIND), &[<$a>::KIND, <$b>::KIND], $traits),
            (|unit, fields| lanes::binary::<$a, $b, $result>(unit.wave, fields, $function)) as Execute,
        )
    };
}

/// The smaller or the larger number, whose result the mode of IEEE changes.
macro_rules! limit {
    ($type:ty, $function:expr) => {
        (
            Shape::alu(Target::Register(<$type>::KIND), &[<$type>::KIND, <$type>::KIND], 0),
            (|unit, fields| {
                if unit.wave.mode.is_ieee() {
                    let function = |a, b| signalling(a, b, $function);
                    return lanes::binary::<$type, $type, $type>(unit.wave, fields, function);
                }
                lanes::binary::<$type, $type, $type>(unit.wave, fields, $function)
            }) as Execute,
        )
    };
}

macro_rules! three {
    ($a:ty, $b:ty, $c:ty => $result:ty, $function:expr) => {
        three!($a, $b, $c => $result, 0, $function)
    };
    ($a:ty, $b:ty, $c:ty => $result:ty, $traits:expr, $function:expr) => {
        (
            Shape::alu(Target::Register(<$result>::KIND), &[<$a>::KIND, <$b>::KIND, <$c>::KIND], $traits),
            (|unit, fields| lanes::ternary::<$a, $b, $c, $result>(unit.wave, fields, $function)) as Execute,
        )
    };
}

/// A function whose exact result is 64 bits wide: it wraps, or saturates with the clamp.
macro_rules! exact {
    ($a:ty, $b:ty => $result:ty, $traits:expr, $function:expr) => {
        (
            Shape::alu(Target::Register(<$result>::KIND), &[<$a>::KIND, <$b>::KIND], SATURATE | $traits),
            (|unit, fields| lanes::exact_binary::<$a, $b, $result>(unit.wave, fields, $function)) as Execute,
        )
    };
    ($a:ty, $b:ty, $c:ty => $result:ty, $traits:expr, $function:expr) => {
        (
            Shape::alu(Target::Register(<$result>::KIND), &[<$a>::KIND, <$b>::KIND, <$c>::KIND], SATURATE | $traits),
            (|unit, fields| lanes::exact_ternary::<$a, $b, $c, $result>(unit.wave, fields, $function)) as Execute,
        )
    };
}

macro_rules! accumulate {
    ($type:ty, $traits:expr, $function:expr) => {
        (
            Shape::alu(
                Target::Register(<$type>::KIND),
                &[<$type>::KIND, <$type>::KIND],
                ACCUMULATES | NO_SDWA | $traits,
            ),
            (|unit, fields| lanes::accumulate::<$type, $type, $type>(unit.wave, fields, $function)) as Execute,
        )
    };
}

macro_rules! literal {
    ($type:ty, $traits:expr, $function:expr) => {
        (
            Shape::alu(
                Target::Register(<$type>::KIND),
                &[<$type>::KIND, <$type>::KIND],
                LITERAL | NO_VOP3 | NO_ROUTE | $traits,
            ),
            (|unit, fields| lanes::with_literal::<$type>(unit.wave, fields, $function)) as Execute,
        )
    };
}

macro_rules! carry {
    ($takes:literal, $limit:expr, $function:expr) => {
        (
            Shape::alu(
                Target::Register(Kind::Int32),
                &[Kind::Int32, Kind::Int32],
                CARRY_OUT | SATURATE | if $takes { CARRY_IN } else { 0 },
            ),
            (|unit, fields| lanes::carry(unit.wave, fields, $takes, $limit, $function)) as Execute,
        )
    };
}

const fn borrow(a: u32, b: u32, taken: bool) -> (u32, bool) {
    let (difference, first) = a.overflowing_sub(b);
    let (difference, second) = difference.overflowing_sub(taken as u32);
    (difference, first || second)
}

const fn add_carry(a: u32, b: u32, carried: bool) -> (u32, bool) {
    let (sum, first) = a.overflowing_add(b);
    let (sum, second) = sum.overflowing_add(carried as u32);
    (sum, first || second)
}

const fn signed24(value: u32) -> i32 {
    (value << 8).cast_signed() >> 8
}

const fn unsigned24(value: u32) -> u32 {
    value & 0xff_ffff
}

/// A multiplication in which 0 times anything is 0.
fn legacy_product(a: f32, b: f32) -> f32 {
    if a == 0.0 || b == 0.0 { 0.0 } else { a * b }
}

/// The mask of the lanes before this one: for counts of bits.
const fn before(lane: usize) -> u64 {
    (1 << lane) - 1
}

/// The bits of the first operand's mask in lanes before each lane, plus the second operand: of one half of the lanes.
fn count_before(unit: &mut Unit<'_, '_>, fields: &Fields, high: bool) -> Result<()> {
    let (mask, base) = (lanes::read::<u32>(unit.wave, fields, 0)?, lanes::read::<u32>(unit.wave, fields, 1)?);
    let results = std::array::from_fn::<u32, LANES, _>(|lane| {
        let part = if high { before(lane) >> 32 } else { before(lane) } as u32;
        base[lane].wrapping_add((mask[lane] & part).count_ones())
    });
    lanes::write(unit.wave, fields, results)
}

fn read_first_lane(unit: &mut Unit<'_, '_>, fields: &Fields) -> Result<()> {
    let lane = unit.wave.active().next().unwrap_or(0);
    read_lane_number(unit, fields, lane)
}

fn read_lane(unit: &mut Unit<'_, '_>, fields: &Fields) -> Result<()> {
    let lane = unit.wave.scalar::<u32>(fields.sources[1], fields.literal)? as usize % LANES;
    read_lane_number(unit, fields, lane)
}

fn read_lane_number(unit: &mut Unit<'_, '_>, fields: &Fields, lane: usize) -> Result<()> {
    let value = match fields.sources[0].checked_sub(code::VECTOR) {
        Some(number) => unit.wave.vector(usize::from(number))?[lane],
        None => unit.wave.scalar(fields.sources[0], fields.literal)?,
    };
    unit.wave.set_scalar(fields.destination, value)
}

fn write_lane(unit: &mut Unit<'_, '_>, fields: &Fields) -> Result<()> {
    let value: u32 = unit.wave.scalar(fields.sources[0], fields.literal)?;
    let lane = unit.wave.scalar::<u32>(fields.sources[1], fields.literal)? as usize % LANES;
    unit.wave.vector_mut(usize::from(fields.destination))?[lane] = value;
    Ok(())
}

fn swap(unit: &mut Unit<'_, '_>, fields: &Fields) -> Result<()> {
    let source = fields.sources[0].checked_sub(code::VECTOR).ok_or(unknown("a swap with a scalar"))?;
    let (a, b) = (usize::from(fields.destination), usize::from(source));
    let lanes: Vec<_> = unit.wave.active().collect();
    for lane in lanes {
        let (first, second) = (unit.wave.vector(a)?[lane], unit.wave.vector(b)?[lane]);
        unit.wave.vector_mut(a)?[lane] = second;
        unit.wave.vector_mut(b)?[lane] = first;
    }
    Ok(())
}

pub(super) static VOP1: &[Row] = &[
    row(0, "v_nop", (Shape::alu(Target::None, &[], 0), |_, _| Ok(()))),
    row(1, "v_mov_b32", one!(u32 => u32, |a| a)),
    row(2, "v_readfirstlane_b32", (Shape::alu(Target::Scalar, &[Kind::Int32], NO_VOP3 | NO_ROUTE), read_first_lane)),
    row(3, "v_cvt_i32_f64", one!(f64 => i32, SCALES, to_i32)),
    row(4, "v_cvt_f64_i32", one!(i32 => f64, f64::from)),
    row(5, "v_cvt_f32_i32", one!(i32 => f32, |a| a as f32)),
    row(6, "v_cvt_f32_u32", one!(u32 => f32, |a| a as f32)),
    row(7, "v_cvt_u32_f32", one!(f32 => u32, SCALES, |a| a as u32)),
    row(8, "v_cvt_i32_f32", one!(f32 => i32, SCALES, |a| a as i32)),
    row(10, "v_cvt_f16_f32", one!(f32 => f16, f16::from_f32)),
    row(11, "v_cvt_f32_f16", one!(f16 => f32, f16::to_f32)),
    row(12, "v_cvt_rpi_i32_f32", one!(f32 => i32, |a| (a + 0.5).floor() as i32)),
    row(13, "v_cvt_flr_i32_f32", one!(f32 => i32, |a| a.floor() as i32)),
    row(14, "v_cvt_off_f32_i4", one!(u32 => f32, |a| (((a << 28).cast_signed() >> 28) as f32) / 16.0)),
    row(15, "v_cvt_f32_f64", one!(f64 => f32, |a| a as f32)),
    row(16, "v_cvt_f64_f32", one!(f32 => f64, f64::from)),
    row(17, "v_cvt_f32_ubyte0", one!(u32 => f32, |a| (a & 0xff) as f32)),
    row(18, "v_cvt_f32_ubyte1", one!(u32 => f32, |a| (a >> 8 & 0xff) as f32)),
    row(19, "v_cvt_f32_ubyte2", one!(u32 => f32, |a| (a >> 16 & 0xff) as f32)),
    row(20, "v_cvt_f32_ubyte3", one!(u32 => f32, |a| (a >> 24) as f32)),
    row(21, "v_cvt_u32_f64", one!(f64 => u32, SCALES, to_u32)),
    row(22, "v_cvt_f64_u32", one!(u32 => f64, f64::from)),
    row(23, "v_trunc_f64", one!(f64 => f64, f64::trunc)),
    row(24, "v_ceil_f64", one!(f64 => f64, f64::ceil)),
    row(25, "v_rndne_f64", one!(f64 => f64, f64::round_ties_even)),
    row(26, "v_floor_f64", one!(f64 => f64, f64::floor)),
    row(27, "v_fract_f32", one!(f32 => f32, fraction32)),
    row(28, "v_trunc_f32", one!(f32 => f32, f32::trunc)),
    row(29, "v_ceil_f32", one!(f32 => f32, f32::ceil)),
    row(30, "v_rndne_f32", one!(f32 => f32, f32::round_ties_even)),
    row(31, "v_floor_f32", one!(f32 => f32, f32::floor)),
    row(32, "v_exp_f32", one!(f32 => f32, |a| f64::from(a).exp2() as f32)),
    row(33, "v_log_f32", one!(f32 => f32, |a| f64::from(a).log2() as f32)),
    row(34, "v_rcp_f32", one!(f32 => f32, |a| 1.0 / a)),
    row(35, "v_rcp_iflag_f32", one!(f32 => f32, |a| 1.0 / a)),
    row(36, "v_rsq_f32", one!(f32 => f32, reciprocal_root)),
    row(37, "v_rcp_f64", one!(f64 => f64, |a| 1.0 / a)),
    row(38, "v_rsq_f64", one!(f64 => f64, |a| 1.0 / a.sqrt())),
    row(39, "v_sqrt_f32", one!(f32 => f32, f32::sqrt)),
    row(40, "v_sqrt_f64", one!(f64 => f64, f64::sqrt)),
    row(41, "v_sin_f32", one!(f32 => f32, sine)),
    row(42, "v_cos_f32", one!(f32 => f32, cosine)),
    row(43, "v_not_b32", one!(u32 => u32, |a| !a)),
    row(44, "v_bfrev_b32", one!(u32 => u32, u32::reverse_bits)),
    row(45, "v_ffbh_u32", one!(u32 => u32, |a| if a == 0 { u32::MAX } else { a.leading_zeros() })),
    row(46, "v_ffbl_b32", one!(u32 => u32, |a| if a == 0 { u32::MAX } else { a.trailing_zeros() })),
    row(
        47,
        "v_ffbh_i32",
        one!(u32 => u32, |a| {
            let changed = if a >> 31 != 0 { !a } else { a };
            if changed == 0 { u32::MAX } else { changed.leading_zeros() }
        }),
    ),
    row(48, "v_frexp_exp_i32_f64", one!(f64 => i32, SCALES, exponent64)),
    row(49, "v_frexp_mant_f64", one!(f64 => f64, mantissa64)),
    row(50, "v_fract_f64", one!(f64 => f64, fraction64)),
    row(51, "v_frexp_exp_i32_f32", one!(f32 => i32, exponent32)),
    row(52, "v_frexp_mant_f32", one!(f32 => f32, mantissa32)),
    row(57, "v_cvt_f16_u16", one!(u16 => f16, |a| f16::from_f32(a.into()))),
    row(58, "v_cvt_f16_i16", one!(i16 => f16, |a| f16::from_f32(a.into()))),
    row(59, "v_cvt_u16_f16", one!(f16 => u16, SCALES, |a| a.to_f32() as u16)),
    row(60, "v_cvt_i16_f16", one!(f16 => i16, SCALES, |a| a.to_f32() as i16)),
    row(61, "v_rcp_f16", one!(f16 => f16, half1(|a| 1.0 / a))),
    row(62, "v_sqrt_f16", one!(f16 => f16, half1(f32::sqrt))),
    row(63, "v_rsq_f16", one!(f16 => f16, half1(reciprocal_root))),
    row(64, "v_log_f16", one!(f16 => f16, |a| to_half(a.to_f64().log2()))),
    row(65, "v_exp_f16", one!(f16 => f16, |a| to_half(a.to_f64().exp2()))),
    row(66, "v_frexp_mant_f16", one!(f16 => f16, half1(mantissa32))),
    row(67, "v_frexp_exp_i16_f16", one!(f16 => i16, |a| exponent32(a.to_f32()) as i16)),
    row(68, "v_floor_f16", one!(f16 => f16, half1(f32::floor))),
    row(69, "v_ceil_f16", one!(f16 => f16, half1(f32::ceil))),
    row(70, "v_trunc_f16", one!(f16 => f16, half1(f32::trunc))),
    row(71, "v_rndne_f16", one!(f16 => f16, half1(f32::round_ties_even))),
    row(
        72,
        "v_fract_f16",
        one!(f16 => f16, |a| {
            let fraction = f16::from_f32(a.to_f32() - a.to_f32().floor());
            if fraction >= f16::ONE { f16::from_bits(0x3bff) } else { fraction }
        }),
    ),
    row(73, "v_sin_f16", one!(f16 => f16, half1(sine))),
    row(74, "v_cos_f16", one!(f16 => f16, half1(cosine))),
    row(75, "v_exp_legacy_f32", one!(f32 => f32, |a| f64::from(a).exp2() as f32)),
    row(76, "v_log_legacy_f32", one!(f32 => f32, |a| f64::from(a).log2() as f32)),
    row(
        77,
        "v_cvt_norm_i16_f16",
        one!(f16 => i16, |a| (a.to_f32().clamp(-1.0, 1.0) * 32767.0).round_ties_even() as i16),
    ),
    row(
        78,
        "v_cvt_norm_u16_f16",
        one!(f16 => u16, |a| (a.to_f32().clamp(0.0, 1.0) * 65535.0).round_ties_even() as u16),
    ),
    row(
        79,
        "v_sat_pk_u8_i16",
        one!(u32 => u16, |a| {
            let byte = |half: u32| (half as i16).clamp(0, 255) as u16;
            byte(a) | byte(a >> 16) << 8
        }),
    ),
    row(
        81,
        "v_swap_b32",
        (Shape::alu(Target::Register(Kind::Int32), &[Kind::Int32], NO_VOP3 | NO_ROUTE | VECTORS), swap),
    ),
];

pub(super) static VOP2: &[Row] = &[
    row(
        0,
        "v_cndmask_b32",
        (
            Shape::alu(Target::Register(Kind::Int32), &[Kind::Int32; 2], CARRY_IN | MODIFIES | NO_CLAMP),
            |unit, fields| lanes::choose(unit.wave, fields),
        ),
    ),
    row(1, "v_add_f32", two!(f32, f32 => f32, |a, b| a + b)),
    row(2, "v_sub_f32", two!(f32, f32 => f32, |a, b| a - b)),
    row(3, "v_subrev_f32", two!(f32, f32 => f32, |a, b| b - a)),
    row(4, "v_mul_legacy_f32", two!(f32, f32 => f32, legacy_product)),
    row(5, "v_mul_f32", two!(f32, f32 => f32, |a, b| a * b)),
    row(6, "v_mul_i32_i24", exact!(u32, u32 => i32, 0, |a, b| i64::from(signed24(a)) * i64::from(signed24(b)))),
    row(
        7,
        "v_mul_hi_i32_i24",
        two!(u32, u32 => i32, |a, b| ((i64::from(signed24(a)) * i64::from(signed24(b))) >> 32) as i32),
    ),
    row(8, "v_mul_u32_u24", exact!(u32, u32 => u32, 0, |a, b| i64::from(unsigned24(a)) * i64::from(unsigned24(b)))),
    row(
        9,
        "v_mul_hi_u32_u24",
        two!(u32, u32 => u32, |a, b| ((u64::from(unsigned24(a)) * u64::from(unsigned24(b))) >> 32) as u32),
    ),
    row(10, "v_min_f32", limit!(f32, minimum)),
    row(11, "v_max_f32", limit!(f32, maximum)),
    row(12, "v_min_i32", two!(i32, i32 => i32, i32::min)),
    row(13, "v_max_i32", two!(i32, i32 => i32, i32::max)),
    row(14, "v_min_u32", two!(u32, u32 => u32, u32::min)),
    row(15, "v_max_u32", two!(u32, u32 => u32, u32::max)),
    row(16, "v_lshrrev_b32", two!(u32, u32 => u32, |a, b| b >> (a & 31))),
    row(17, "v_ashrrev_i32", two!(u32, i32 => i32, |a, b| b >> (a & 31))),
    row(18, "v_lshlrev_b32", two!(u32, u32 => u32, |a, b| b << (a & 31))),
    row(19, "v_and_b32", two!(u32, u32 => u32, |a, b| a & b)),
    row(20, "v_or_b32", two!(u32, u32 => u32, |a, b| a | b)),
    row(21, "v_xor_b32", two!(u32, u32 => u32, |a, b| a ^ b)),
    row(22, "v_mac_f32", accumulate!(f32, 0, |a, b, c| a * b + c)),
    row(23, "v_madmk_f32", literal!(f32, 0, |a, b, k| a * k + b)),
    row(24, "v_madak_f32", literal!(f32, LITERAL_LAST, |a, b, k| a * b + k)),
    row(25, "v_add_co_u32", carry!(false, u32::MAX, add_carry)),
    row(26, "v_sub_co_u32", carry!(false, 0, borrow)),
    row(27, "v_subrev_co_u32", carry!(false, 0, |a, b, taken| borrow(b, a, taken))),
    row(28, "v_addc_co_u32", carry!(true, u32::MAX, add_carry)),
    row(29, "v_subb_co_u32", carry!(true, 0, borrow)),
    row(30, "v_subbrev_co_u32", carry!(true, 0, |a, b, taken| borrow(b, a, taken))),
    row(31, "v_add_f16", two!(f16, f16 => f16, half2(|a, b| a + b))),
    row(32, "v_sub_f16", two!(f16, f16 => f16, half2(|a, b| a - b))),
    row(33, "v_subrev_f16", two!(f16, f16 => f16, half2(|a, b| b - a))),
    row(34, "v_mul_f16", two!(f16, f16 => f16, half2(|a, b| a * b))),
    row(
        35,
        "v_mac_f16",
        accumulate!(f16, 0, |a, b, c| f16::from_f32((f16::from_f32(a.to_f32() * b.to_f32())).to_f32() + c.to_f32())),
    ),
    row(
        36,
        "v_madmk_f16",
        literal!(f16, 0, |a, b, k| f16::from_f32((f16::from_f32(a.to_f32() * k.to_f32())).to_f32() + b.to_f32())),
    ),
    row(
        37,
        "v_madak_f16",
        literal!(f16, LITERAL_LAST, |a, b, k| f16::from_f32(
            (f16::from_f32(a.to_f32() * b.to_f32())).to_f32() + k.to_f32()
        )),
    ),
    row(38, "v_add_u16", exact!(u16, u16 => u16, 0, |a, b| i64::from(a) + i64::from(b))),
    row(39, "v_sub_u16", exact!(u16, u16 => u16, 0, |a, b| i64::from(a) - i64::from(b))),
    row(40, "v_subrev_u16", exact!(u16, u16 => u16, 0, |a, b| i64::from(b) - i64::from(a))),
    row(41, "v_mul_lo_u16", two!(u16, u16 => u16, u16::wrapping_mul)),
    row(42, "v_lshlrev_b16", two!(u16, u16 => u16, |a, b| b << (a & 15))),
    row(43, "v_lshrrev_b16", two!(u16, u16 => u16, |a, b| b >> (a & 15))),
    row(44, "v_ashrrev_i16", two!(u16, i16 => i16, |a, b| b >> (a & 15))),
    row(45, "v_max_f16", limit!(f16, maximum)),
    row(46, "v_min_f16", limit!(f16, minimum)),
    row(47, "v_max_u16", two!(u16, u16 => u16, u16::max)),
    row(48, "v_max_i16", two!(i16, i16 => i16, i16::max)),
    row(49, "v_min_u16", two!(u16, u16 => u16, u16::min)),
    row(50, "v_min_i16", two!(i16, i16 => i16, i16::min)),
    row(51, "v_ldexp_f16", two!(f16, i16 => f16, |a, b| to_half(scaled64(a.to_f64(), b.into())))),
    row(52, "v_add_u32", exact!(u32, u32 => u32, 0, |a, b| i64::from(a) + i64::from(b))),
    row(53, "v_sub_u32", exact!(u32, u32 => u32, 0, |a, b| i64::from(a) - i64::from(b))),
    row(54, "v_subrev_u32", exact!(u32, u32 => u32, 0, |a, b| i64::from(b) - i64::from(a))),
    row(59, "v_fmac_f32", accumulate!(f32, 0, fused_single)),
    row(61, "v_xnor_b32", two!(u32, u32 => u32, |a, b| !(a ^ b))),
];

/// A division's operand, scaled; the carry tells which lanes `v_div_fmas` scales back.
fn division_scale<T: Value>(
    unit: &mut Unit<'_, '_>,
    fields: &Fields,
    function: impl Fn(T, T, T) -> (T, bool),
) -> Result<()> {
    let wave = &mut *unit.wave;
    let (a, b) = (lanes::read::<T>(wave, fields, 0)?, lanes::read::<T>(wave, fields, 1)?);
    let c = lanes::read::<T>(wave, fields, 2)?;
    let mut mask = 0;
    let results = std::array::from_fn::<T, LANES, _>(|lane| {
        let (result, scaled) = function(a[lane], b[lane], c[lane]);
        mask |= u64::from(scaled) << lane;
        result
    });
    let exec = wave.exec();
    lanes::write(wave, fields, results)?;
    wave.set_pair(fields.scalar, mask & exec);
    Ok(())
}

/// A fused multiplication and addition, scaled where VCC says so.
fn division_step<T: Value>(
    unit: &mut Unit<'_, '_>,
    fields: &Fields,
    function: impl Fn(T, T, T, bool) -> T,
) -> Result<()> {
    let wave = &mut *unit.wave;
    let (a, b) = (lanes::read::<T>(wave, fields, 0)?, lanes::read::<T>(wave, fields, 1)?);
    let c = lanes::read::<T>(wave, fields, 2)?;
    let vcc = wave.vcc();
    let results = std::array::from_fn::<T, LANES, _>(|lane| function(a[lane], b[lane], c[lane], vcc >> lane & 1 != 0));
    lanes::write(wave, fields, results)
}

macro_rules! wide_product {
    ($type:ty, $wide:ty, $function:expr) => {
        (
            Shape::alu(Target::Register(Kind::Int64), &[Kind::Int32, Kind::Int32, Kind::Int64], CARRY_OUT | SATURATE),
            (|unit, fields| {
                let function: fn($type, $type, $wide) -> ($wide, bool) = $function;
                let wave = &mut *unit.wave;
                let (a, b) = (lanes::read::<$type>(wave, fields, 0)?, lanes::read::<$type>(wave, fields, 1)?);
                let c = lanes::read::<$wide>(wave, fields, 2)?;
                let mut carries = 0;
                let results = std::array::from_fn::<$wide, LANES, _>(|lane| {
                    let (result, carry) = function(a[lane], b[lane], c[lane]);
                    carries |= u64::from(carry) << lane;
                    result
                });
                let exec = wave.exec();
                lanes::write(wave, fields, results)?;
                wave.set_pair(fields.scalar, carries & exec);
                Ok(())
            }) as Execute,
        )
    };
}

pub(super) static VOP3: &[Row] = &[
    row(0x1c0, "v_mad_legacy_f32", three!(f32, f32, f32 => f32, |a, b, c| legacy_product(a, b) + c)),
    row(0x1c1, "v_mad_f32", three!(f32, f32, f32 => f32, |a, b, c| a * b + c)),
    row(
        0x1c2,
        "v_mad_i32_i24",
        exact!(u32, u32, i32 => i32, 0, |a, b, c| {
            i64::from(signed24(a)) * i64::from(signed24(b)) + i64::from(c)
        }),
    ),
    row(
        0x1c3,
        "v_mad_u32_u24",
        exact!(u32, u32, u32 => u32, 0, |a, b, c| {
            i64::from(unsigned24(a)) * i64::from(unsigned24(b)) + i64::from(c)
        }),
    ),
    row(0x1c4, "v_cubeid_f32", three!(f32, f32, f32 => f32, |x, y, z| projected([x, y, z].map(f64::from)).0.into())),
    row(0x1c5, "v_cubesc_f32", three!(f32, f32, f32 => f32, |x, y, z| projected([x, y, z].map(f64::from)).1 as f32)),
    row(0x1c6, "v_cubetc_f32", three!(f32, f32, f32 => f32, |x, y, z| projected([x, y, z].map(f64::from)).2 as f32)),
    row(
        0x1c7,
        "v_cubema_f32",
        three!(f32, f32, f32 => f32, |x, y, z| (2.0 * projected([x, y, z].map(f64::from)).3) as f32),
    ),
    row(
        0x1c8,
        "v_bfe_u32",
        three!(u32, u32, u32 => u32, |a, b, c| {
            let part = a >> (b & 31);
            part & ((1_u64 << (c & 31)) - 1) as u32
        }),
    ),
    row(
        0x1c9,
        "v_bfe_i32",
        three!(i32, u32, u32 => i32, |a, b, c| {
            let (offset, width) = (b & 31, c & 31);
            match width {
                0 => 0,
                _ if offset + width >= 32 => a >> offset,
                _ => a << (32 - offset - width) >> (32 - width),
            }
        }),
    ),
    row(0x1ca, "v_bfi_b32", three!(u32, u32, u32 => u32, |a, b, c| a & b | !a & c)),
    row(0x1cb, "v_fma_f32", three!(f32, f32, f32 => f32, fused_single)),
    row(0x1cc, "v_fma_f64", three!(f64, f64, f64 => f64, f64::mul_add)),
    row(0x1cd, "v_lerp_u8", three!(u32, u32, u32 => u32, means)),
    row(
        0x1ce,
        "v_alignbit_b32",
        three!(u32, u32, u32 => u32, |a, b, c| {
            ((u64::from(a) << 32 | u64::from(b)) >> (c & 31)) as u32
        }),
    ),
    row(
        0x1cf,
        "v_alignbyte_b32",
        three!(u32, u32, u32 => u32, |a, b, c| {
            ((u64::from(a) << 32 | u64::from(b)) >> (8 * (c & 3))) as u32
        }),
    ),
    row(0x1d0, "v_min3_f32", three!(f32, f32, f32 => f32, |a, b, c| minimum(minimum(a, b), c))),
    row(0x1d1, "v_min3_i32", three!(i32, i32, i32 => i32, |a, b, c| a.min(b).min(c))),
    row(0x1d2, "v_min3_u32", three!(u32, u32, u32 => u32, |a, b, c| a.min(b).min(c))),
    row(0x1d3, "v_max3_f32", three!(f32, f32, f32 => f32, |a, b, c| maximum(maximum(a, b), c))),
    row(0x1d4, "v_max3_i32", three!(i32, i32, i32 => i32, |a, b, c| a.max(b).max(c))),
    row(0x1d5, "v_max3_u32", three!(u32, u32, u32 => u32, |a, b, c| a.max(b).max(c))),
    row(0x1d6, "v_med3_f32", three!(f32, f32, f32 => f32, median)),
    row(0x1d7, "v_med3_i32", three!(i32, i32, i32 => i32, |a, b, c| a.min(b).max(a.max(b).min(c)))),
    row(0x1d8, "v_med3_u32", three!(u32, u32, u32 => u32, |a, b, c| a.min(b).max(a.max(b).min(c)))),
    row(
        0x1d9,
        "v_sad_u8",
        exact!(u32, u32, u32 => u32, 0, |a, b, c| i64::from(c) + i64::from(byte_differences(a, b, |_, _| true))),
    ),
    row(
        0x1da,
        "v_sad_hi_u8",
        exact!(u32, u32, u32 => u32, 0, |a, b, c| {
            i64::from(c) + (i64::from(byte_differences(a, b, |_, _| true)) << 16)
        }),
    ),
    row(
        0x1db,
        "v_sad_u16",
        exact!(u32, u32, u32 => u32, 0, |a, b, c| {
            let difference = |shift: u32| i64::from(((a >> shift) as u16).abs_diff((b >> shift) as u16));
            i64::from(c) + difference(0) + difference(16)
        }),
    ),
    row(0x1dc, "v_sad_u32", exact!(u32, u32, u32 => u32, 0, |a, b, c| i64::from(c) + i64::from(a.abs_diff(b)))),
    row(
        0x1dd,
        "v_cvt_pk_u8_f32",
        three!(f32, u32, u32 => u32, |a, b, c| {
            let shift = 8 * (b & 3);
            c & !(0xff << shift) | u32::from(a.round_ties_even() as u8) << shift
        }),
    ),
    row(0x1de, "v_div_fixup_f32", three!(f32, f32, f32 => f32, division_fixup32)),
    row(0x1df, "v_div_fixup_f64", three!(f64, f64, f64 => f64, division_fixup64)),
    row(
        0x1e0,
        "v_div_scale_f32",
        (Shape::alu(Target::Register(Kind::Float32), &[Kind::Float32; 3], CARRY_OUT), |unit, fields| {
            division_scale(unit, fields, division_scale32)
        }),
    ),
    row(
        0x1e1,
        "v_div_scale_f64",
        (Shape::alu(Target::Register(Kind::Float64), &[Kind::Float64; 3], CARRY_OUT), |unit, fields| {
            division_scale(unit, fields, division_scale64)
        }),
    ),
    row(
        0x1e2,
        "v_div_fmas_f32",
        (Shape::alu(Target::Register(Kind::Float32), &[Kind::Float32; 3], 0), |unit, fields| {
            division_step::<f32>(unit, fields, division_step32)
        }),
    ),
    row(
        0x1e3,
        "v_div_fmas_f64",
        (Shape::alu(Target::Register(Kind::Float64), &[Kind::Float64; 3], 0), |unit, fields| {
            division_step::<f64>(unit, fields, division_step64)
        }),
    ),
    row(
        0x1e4,
        "v_msad_u8",
        exact!(u32, u32, u32 => u32, 0, |a, b, c| {
            i64::from(c) + i64::from(byte_differences(a, b, |_, reference| reference != 0))
        }),
    ),
    row(0x1e8, "v_mad_u64_u32", wide_product!(u32, u64, |a, b, c| (u64::from(a) * u64::from(b)).overflowing_add(c))),
    row(0x1e9, "v_mad_i64_i32", wide_product!(i32, i64, |a, b, c| (i64::from(a) * i64::from(b)).overflowing_add(c))),
    row(
        0x1ea,
        "v_mad_legacy_f16",
        three!(f16, f16, f16 => f16, |a, b, c| half2(|a, b| a + b)(half2(|a, b| a * b)(a, b), c)),
    ),
    row(
        0x1eb,
        "v_mad_legacy_u16",
        exact!(u16, u16, u16 => u16, 0, |a, b, c| i64::from(a) * i64::from(b) + i64::from(c)),
    ),
    row(
        0x1ec,
        "v_mad_legacy_i16",
        exact!(i16, i16, i16 => i16, 0, |a, b, c| i64::from(a) * i64::from(b) + i64::from(c)),
    ),
    row(0x1ed, "v_perm_b32", three!(u32, u32, u32 => u32, permuted)),
    row(0x1ee, "v_fma_legacy_f16", three!(f16, f16, f16 => f16, fused_half)),
    row(0x1ef, "v_div_fixup_legacy_f16", three!(f16, f16, f16 => f16, division_fixup16)),
    row(
        0x1f1,
        "v_mad_u32_u16",
        exact!(u16, u16, u32 => u32, SELECT, |a, b, c| i64::from(a) * i64::from(b) + i64::from(c)),
    ),
    row(
        0x1f2,
        "v_mad_i32_i16",
        exact!(i16, i16, i32 => i32, SELECT, |a, b, c| i64::from(a) * i64::from(b) + i64::from(c)),
    ),
    row(0x1f3, "v_xad_u32", three!(u32, u32, u32 => u32, |a, b, c| (a ^ b).wrapping_add(c))),
    row(0x1f4, "v_min3_f16", three!(f16, f16, f16 => f16, SELECT, |a, b, c| minimum(minimum(a, b), c))),
    row(0x1f5, "v_min3_i16", three!(i16, i16, i16 => i16, SELECT, |a, b, c| a.min(b).min(c))),
    row(0x1f6, "v_min3_u16", three!(u16, u16, u16 => u16, SELECT, |a, b, c| a.min(b).min(c))),
    row(0x1f7, "v_max3_f16", three!(f16, f16, f16 => f16, SELECT, |a, b, c| maximum(maximum(a, b), c))),
    row(0x1f8, "v_max3_i16", three!(i16, i16, i16 => i16, SELECT, |a, b, c| a.max(b).max(c))),
    row(0x1f9, "v_max3_u16", three!(u16, u16, u16 => u16, SELECT, |a, b, c| a.max(b).max(c))),
    row(0x1fa, "v_med3_f16", three!(f16, f16, f16 => f16, SELECT, median)),
    row(0x1fb, "v_med3_i16", three!(i16, i16, i16 => i16, SELECT, |a, b, c| a.min(b).max(a.max(b).min(c)))),
    row(0x1fc, "v_med3_u16", three!(u16, u16, u16 => u16, SELECT, |a, b, c| a.min(b).max(a.max(b).min(c)))),
    row(0x1fd, "v_lshl_add_u32", three!(u32, u32, u32 => u32, |a, b, c| (a << (b & 31)).wrapping_add(c))),
    row(0x1fe, "v_add_lshl_u32", three!(u32, u32, u32 => u32, |a, b, c| a.wrapping_add(b) << (c & 31))),
    row(0x1ff, "v_add3_u32", three!(u32, u32, u32 => u32, |a, b, c| a.wrapping_add(b).wrapping_add(c))),
    row(0x200, "v_lshl_or_b32", three!(u32, u32, u32 => u32, |a, b, c| a << (b & 31) | c)),
    row(0x201, "v_and_or_b32", three!(u32, u32, u32 => u32, |a, b, c| a & b | c)),
    row(0x202, "v_or3_b32", three!(u32, u32, u32 => u32, |a, b, c| a | b | c)),
    row(
        0x203,
        "v_mad_f16",
        three!(f16, f16, f16 => f16, SELECT, |a, b, c| half2(|a, b| a + b)(half2(|a, b| a * b)(a, b), c)),
    ),
    row(0x204, "v_mad_u16", exact!(u16, u16, u16 => u16, SELECT, |a, b, c| i64::from(a) * i64::from(b) + i64::from(c))),
    row(0x205, "v_mad_i16", exact!(i16, i16, i16 => i16, SELECT, |a, b, c| i64::from(a) * i64::from(b) + i64::from(c))),
    row(0x206, "v_fma_f16", three!(f16, f16, f16 => f16, SELECT, fused_half)),
    row(0x207, "v_div_fixup_f16", three!(f16, f16, f16 => f16, SELECT, division_fixup16)),
    row(0x280, "v_add_f64", two!(f64, f64 => f64, |a, b| a + b)),
    row(0x281, "v_mul_f64", two!(f64, f64 => f64, |a, b| a * b)),
    row(0x282, "v_min_f64", limit!(f64, minimum)),
    row(0x283, "v_max_f64", limit!(f64, maximum)),
    row(0x284, "v_ldexp_f64", two!(f64, i32 => f64, scaled64)),
    row(0x285, "v_mul_lo_u32", two!(u32, u32 => u32, u32::wrapping_mul)),
    row(0x286, "v_mul_hi_u32", two!(u32, u32 => u32, |a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32)),
    row(0x287, "v_mul_hi_i32", two!(i32, i32 => i32, |a, b| ((i64::from(a) * i64::from(b)) >> 32) as i32)),
    row(0x288, "v_ldexp_f32", two!(f32, i32 => f32, scaled32)),
    row(0x289, "v_readlane_b32", (Shape::alu(Target::Scalar, &[Kind::Int32; 2], SCALAR_LANE), read_lane)),
    row(
        0x28a,
        "v_writelane_b32",
        (Shape::alu(Target::Register(Kind::Int32), &[Kind::Int32; 2], SCALAR_LANE), write_lane),
    ),
    row(0x28b, "v_bcnt_u32_b32", two!(u32, u32 => u32, |a, b| a.count_ones().wrapping_add(b))),
    row(
        0x28c,
        "v_mbcnt_lo_u32_b32",
        (Shape::alu(Target::Register(Kind::Int32), &[Kind::Int32; 2], 0), |unit, fields| {
            count_before(unit, fields, false)
        }),
    ),
    row(
        0x28d,
        "v_mbcnt_hi_u32_b32",
        (Shape::alu(Target::Register(Kind::Int32), &[Kind::Int32; 2], 0), |unit, fields| {
            count_before(unit, fields, true)
        }),
    ),
    row(0x28f, "v_lshlrev_b64", two!(u32, u64 => u64, |a, b| b << (a & 63))),
    row(0x290, "v_lshrrev_b64", two!(u32, u64 => u64, |a, b| b >> (a & 63))),
    row(0x291, "v_ashrrev_i64", two!(u32, i64 => i64, |a, b| b >> (a & 63))),
    // Classes are compared by the row of VOPC; the trigonometric reduction has no user here.
    row(0x293, "v_bfm_b32", two!(u32, u32 => u32, |a, b| (((1_u64 << (a & 31)) - 1) << (b & 31)) as u32)),
    row(
        0x294,
        "v_cvt_pknorm_i16_f32",
        two!(f32, f32 => u32, |a, b| {
            let half = |value: f32| u32::from((value.clamp(-1.0, 1.0) * 32767.0).round_ties_even() as i16 as u16);
            half(a) | half(b) << 16
        }),
    ),
    row(
        0x295,
        "v_cvt_pknorm_u16_f32",
        two!(f32, f32 => u32, |a, b| {
            let half = |value: f32| u32::from((value.clamp(0.0, 1.0) * 65535.0).round_ties_even() as u16);
            half(a) | half(b) << 16
        }),
    ),
    row(0x296, "v_cvt_pkrtz_f16_f32", two!(f32, f32 => u32, SCALES, |a, b| towards_zero(a) | towards_zero(b) << 16)),
    row(0x297, "v_cvt_pk_u16_u32", two!(u32, u32 => u32, |a, b| a.min(0xffff) | b.min(0xffff) << 16)),
    row(
        0x298,
        "v_cvt_pk_i16_i32",
        two!(i32, i32 => u32, |a, b| {
            let half = |value: i32| u32::from(value.clamp(-0x8000, 0x7fff) as u16);
            half(a) | half(b) << 16
        }),
    ),
    row(0x29c, "v_add_i32", exact!(i32, i32 => i32, 0, |a, b| i64::from(a) + i64::from(b))),
    row(0x29d, "v_sub_i32", exact!(i32, i32 => i32, 0, |a, b| i64::from(a) - i64::from(b))),
    row(0x29e, "v_add_i16", exact!(i16, i16 => i16, SELECT, |a, b| i64::from(a) + i64::from(b))),
    row(0x29f, "v_sub_i16", exact!(i16, i16 => i16, SELECT, |a, b| i64::from(a) - i64::from(b))),
    row(
        0x2a0,
        "v_pack_b32_f16",
        two!(f16, f16 => u32, SELECT, |a, b| u32::from(a.to_bits()) | u32::from(b.to_bits()) << 16),
    ),
];

/// Converts to 16 bits, rounding towards 0.
fn towards_zero(value: f32) -> u32 {
    let nearest = f16::from_f32(value);
    if !value.is_finite() {
        return nearest.to_bits().into();
    }
    let beyond = nearest.to_f32().abs() > value.abs();
    u32::from(nearest.to_bits() - u16::from(beyond))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_towards_zero_never_grows() {
        for value in [1.0_f32, 1.0009, -1.0009, 65504.0, 65519.0, 65520.0, 1e9, -1e9, 1e-9, -3.0e-8, 2049.0] {
            let converted = f16::from_bits(towards_zero(value) as u16).to_f32();
            assert!(converted.abs() <= value.abs(), "{value}: {converted}");
            let next = f16::from_bits(towards_zero(value) as u16 + 1).to_f32();
            assert!(next.abs() > value.abs(), "{value}: {converted}, {next}");
        }
    }
}
