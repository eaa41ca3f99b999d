//! Instructions that access LDS, and those that exchange values between lanes.

use super::memory::{Extend, Operation, Part, data_word, loaded, operation, set_data_word, stored};
use super::{Access, Execute, Row, Shape, row};
use crate::decode::{Fields, flag};
use crate::dispatch::Unit;
use crate::wave::{LANES, Lanes};
use crate::{Result, unknown};

/// Reads a number from LDS; beyond its end there are zeroes.
pub(super) fn load(shared: &[u8], at: u64, size: u64) -> u64 {
    let mut bytes = [0; 8];
    let (at, size) = (at as usize, size as usize);
    if let Some(from) = shared.get(at..at.saturating_add(size)) {
        bytes[..size].copy_from_slice(from);
    }
    u64::from_le_bytes(bytes)
}

/// Writes a number to LDS, unless it is beyond its end.
pub(super) fn store(shared: &mut [u8], at: u64, size: u64, value: u64) {
    let (at, size) = (at as usize, size as usize);
    if let Some(to) = shared.get_mut(at..at.saturating_add(size)) {
        to.copy_from_slice(&value.to_le_bytes()[..size]);
    }
}

fn address(unit: &Unit<'_, '_>, fields: &Fields, lane: usize) -> Result<u64> {
    if fields.bits & flag::DS_GDS != 0 {
        return Err(unknown("global data share"));
    }
    Ok(unit.wave.vector(fields.sources[0].into())?[lane].into())
}

/// The address with the instruction's offset.
fn single(unit: &Unit<'_, '_>, fields: &Fields, lane: usize) -> Result<u64> {
    Ok(u64::from((address(unit, fields, lane)? as u32).wrapping_add(fields.offset.cast_unsigned())))
}

/// Both addresses of an instruction with two offsets, in units of the element, or of 64 elements.
fn double(unit: &Unit<'_, '_>, fields: &Fields, lane: usize, unit_size: u64) -> Result<[u64; 2]> {
    let base = address(unit, fields, lane)?;
    let offset = fields.offset.cast_unsigned();
    Ok([offset & 0xff, offset >> 8 & 0xff].map(|offset| base + u64::from(offset) * unit_size))
}

fn read(unit: &mut Unit<'_, '_>, fields: &Fields, part: Part) -> Result<()> {
    let register = usize::from(fields.destination);
    for lane in unit.wave.active() {
        let at = single(unit, fields, lane)?;
        match part {
            Part::Words(words) => {
                for word in 0..u64::from(words) {
                    let value = load(unit.shared, at + word * 4, 4) as u32;
                    unit.wave.vector_mut(register + word as usize)?[lane] = value;
                }
            }
            part => {
                let value = load(unit.shared, at, part.bytes().into()) as u32;
                let target = &mut unit.wave.vector_mut(register)?[lane];
                *target = loaded(part, value, *target);
            }
        }
    }
    Ok(())
}

fn write(unit: &mut Unit<'_, '_>, fields: &Fields, part: Part) -> Result<()> {
    let data = usize::from(fields.sources[1]);
    for lane in unit.wave.active() {
        let at = single(unit, fields, lane)?;
        match part {
            Part::Words(words) => {
                for word in 0..u64::from(words) {
                    let value = unit.wave.vector(data + word as usize)?[lane];
                    store(unit.shared, at + word * 4, 4, value.into());
                }
            }
            part => {
                let value = stored(part, unit.wave.vector(data)?[lane]);
                store(unit.shared, at, part.bytes().into(), value.into());
            }
        }
    }
    Ok(())
}

fn read2(unit: &mut Unit<'_, '_>, fields: &Fields, size: u64, scale: u64) -> Result<()> {
    let register = usize::from(fields.destination);
    for lane in unit.wave.active() {
        let addresses = double(unit, fields, lane, size * scale)?;
        let values = addresses.map(|at| load(unit.shared, at, size));
        for (place, value) in values.into_iter().enumerate() {
            set_data_word(unit, register + place * (size / 4) as usize, size, lane, value)?;
        }
    }
    Ok(())
}

fn write2(unit: &mut Unit<'_, '_>, fields: &Fields, size: u64, scale: u64) -> Result<()> {
    for lane in unit.wave.active() {
        let addresses = double(unit, fields, lane, size * scale)?;
        for (at, data) in addresses.into_iter().zip(&fields.sources[1..]) {
            let value = data_word(unit, usize::from(*data), size, lane)?;
            store(unit.shared, at, size, value);
        }
    }
    Ok(())
}

/// An atomic operation. `returns`: the destination becomes what the word was.
fn atomic(unit: &mut Unit<'_, '_>, fields: &Fields, size: u64, returns: bool, operation: Operation) -> Result<()> {
    for lane in unit.wave.active() {
        let at = single(unit, fields, lane)?;
        let value = data_word(unit, fields.sources[1].into(), size, lane)?;
        let second = data_word(unit, fields.sources[2].into(), size, lane).unwrap_or(0);
        let old = load(unit.shared, at, size);
        store(unit.shared, at, size, operation(old, value, second, size));
        if returns {
            set_data_word(unit, fields.destination.into(), size, lane, old)?;
        }
    }
    Ok(())
}

/// Here the first operand is what is compared, and the second one is written.
fn compare_swap(old: u64, compare: u64, data: u64, _: u64) -> u64 {
    if old == compare { data } else { old }
}

/// Clears the bits of the first operand, and sets those of the second one.
fn masked_or(old: u64, mask: u64, data: u64, _: u64) -> u64 {
    old & !mask | data
}

fn float(function: impl Fn(f32, f32) -> f32, old: u64, data: u64) -> u64 {
    function(f32::from_bits(old as u32), f32::from_bits(data as u32)).to_bits().into()
}

fn add_float(old: u64, data: u64, _: u64, _: u64) -> u64 {
    float(|a, b| a + b, old, data)
}

fn min_float(old: u64, data: u64, _: u64, _: u64) -> u64 {
    float(super::math::minimum, old, data)
}

fn max_float(old: u64, data: u64, _: u64, _: u64) -> u64 {
    float(super::math::maximum, old, data)
}

/// Counts down by the data, and continues from the second operand.
fn wrap(old: u64, data: u64, second: u64, _: u64) -> u64 {
    if old >= data { old - data } else { old.wrapping_add(second) }
}

/// The values of one register, read from other lanes: `from` names the lane for each; one that is not active gives 0.
fn exchange(unit: &mut Unit<'_, '_>, fields: &Fields, register: u16, from: impl Fn(usize) -> usize) -> Result<()> {
    let values: Lanes = *unit.wave.vector(register.into())?;
    let exec = unit.wave.exec();
    for lane in unit.wave.active() {
        let from = from(lane) % LANES;
        let value = if exec >> from & 1 != 0 { values[from] } else { 0 };
        unit.wave.vector_mut(fields.destination.into())?[lane] = value;
    }
    Ok(())
}

fn swizzle(unit: &mut Unit<'_, '_>, fields: &Fields) -> Result<()> {
    let offset = fields.offset as usize;
    match offset {
        0..0x8000 => {
            let (and, or, xor) = (offset & 31, offset >> 5 & 31, offset >> 10 & 31);
            exchange(unit, fields, fields.sources[0], |lane| lane & 32 | ((lane & 31 & and) | or) ^ xor)
        }
        0x8000..0x8100 => exchange(unit, fields, fields.sources[0], |lane| lane & !3 | offset >> (2 * (lane & 3)) & 3),
        _ => Err(unknown("the pattern of the swizzle")),
    }
}

fn backward_permute(unit: &mut Unit<'_, '_>, fields: &Fields) -> Result<()> {
    let addresses: Lanes = *unit.wave.vector(fields.sources[0].into())?;
    let offset = fields.offset.cast_unsigned();
    exchange(unit, fields, fields.sources[1], |lane| (addresses[lane].wrapping_add(offset) / 4) as usize)
}

fn permute(unit: &mut Unit<'_, '_>, fields: &Fields) -> Result<()> {
    let addresses: Lanes = *unit.wave.vector(fields.sources[0].into())?;
    let values: Lanes = *unit.wave.vector(fields.sources[1].into())?;
    let mut results = [0; LANES];
    for lane in unit.wave.active() {
        let to = addresses[lane].wrapping_add(fields.offset.cast_unsigned()) / 4;
        results[to as usize % LANES] = values[lane];
    }
    for lane in unit.wave.active() {
        unit.wave.vector_mut(fields.destination.into())?[lane] = results[lane];
    }
    Ok(())
}

const fn shape(result: u8, data: u8, operands: u8, pair: bool) -> Shape {
    Shape::Access(Access { result, data, operands, pair, address: true, ..Access::NONE })
}

/// The shape of an exchange between lanes.
const EXCHANGE: Shape =
    Shape::Access(Access { result: 1, data: 1, operands: 1, address: true, exchange: true, ..Access::NONE });

macro_rules! read {
    ($registers:literal, $part:expr) => {
        (shape($registers, 0, 0, false), (|unit, fields| read(unit, fields, $part)) as Execute)
    };
}

macro_rules! write {
    ($registers:literal, $part:expr) => {
        (shape(0, $registers, 1, false), (|unit, fields| write(unit, fields, $part)) as Execute)
    };
}

macro_rules! atomic {
    ($size:literal, $operands:literal, $operation:path) => {
        (
            shape(0, $size / 4, $operands, false),
            (|unit, fields| atomic(unit, fields, $size, false, $operation)) as Execute,
        )
    };
    (returns $size:literal, $operands:literal, $operation:path) => {
        (
            shape($size / 4, $size / 4, $operands, false),
            (|unit, fields| atomic(unit, fields, $size, true, $operation)) as Execute,
        )
    };
}

macro_rules! read2 {
    ($size:literal, $scale:literal) => {
        (shape($size / 2, 0, 0, true), (|unit, fields| read2(unit, fields, $size, $scale)) as Execute)
    };
}

macro_rules! write2 {
    ($size:literal, $scale:literal) => {
        (shape(0, $size / 4, 2, true), (|unit, fields| write2(unit, fields, $size, $scale)) as Execute)
    };
}

pub(super) static DS: &[Row] = &[
    row(0, "ds_add_u32", atomic!(4, 1, operation::add)),
    row(1, "ds_sub_u32", atomic!(4, 1, operation::sub)),
    row(2, "ds_rsub_u32", atomic!(4, 1, operation::reverse_sub)),
    row(3, "ds_inc_u32", atomic!(4, 1, operation::increment)),
    row(4, "ds_dec_u32", atomic!(4, 1, operation::decrement)),
    row(5, "ds_min_i32", atomic!(4, 1, operation::signed_min)),
    row(6, "ds_max_i32", atomic!(4, 1, operation::signed_max)),
    row(7, "ds_min_u32", atomic!(4, 1, operation::unsigned_min)),
    row(8, "ds_max_u32", atomic!(4, 1, operation::unsigned_max)),
    row(9, "ds_and_b32", atomic!(4, 1, operation::and)),
    row(10, "ds_or_b32", atomic!(4, 1, operation::or)),
    row(11, "ds_xor_b32", atomic!(4, 1, operation::xor)),
    row(12, "ds_mskor_b32", atomic!(4, 2, masked_or)),
    row(13, "ds_write_b32", write!(1, Part::Words(1))),
    row(14, "ds_write2_b32", write2!(4, 1)),
    row(15, "ds_write2st64_b32", write2!(4, 64)),
    row(16, "ds_cmpst_b32", atomic!(4, 2, compare_swap)),
    row(18, "ds_min_f32", atomic!(4, 1, min_float)),
    row(19, "ds_max_f32", atomic!(4, 1, max_float)),
    row(20, "ds_nop", (Shape::Access(Access::NONE), |_, _| Ok(()))),
    row(21, "ds_add_f32", atomic!(4, 1, add_float)),
    row(30, "ds_write_b8", write!(1, Part::Unsigned(8))),
    row(31, "ds_write_b16", write!(1, Part::Unsigned(16))),
    row(32, "ds_add_rtn_u32", atomic!(returns 4, 1, operation::add)),
    row(33, "ds_sub_rtn_u32", atomic!(returns 4, 1, operation::sub)),
    row(34, "ds_rsub_rtn_u32", atomic!(returns 4, 1, operation::reverse_sub)),
    row(35, "ds_inc_rtn_u32", atomic!(returns 4, 1, operation::increment)),
    row(36, "ds_dec_rtn_u32", atomic!(returns 4, 1, operation::decrement)),
    row(37, "ds_min_rtn_i32", atomic!(returns 4, 1, operation::signed_min)),
    row(38, "ds_max_rtn_i32", atomic!(returns 4, 1, operation::signed_max)),
    row(39, "ds_min_rtn_u32", atomic!(returns 4, 1, operation::unsigned_min)),
    row(40, "ds_max_rtn_u32", atomic!(returns 4, 1, operation::unsigned_max)),
    row(41, "ds_and_rtn_b32", atomic!(returns 4, 1, operation::and)),
    row(42, "ds_or_rtn_b32", atomic!(returns 4, 1, operation::or)),
    row(43, "ds_xor_rtn_b32", atomic!(returns 4, 1, operation::xor)),
    row(44, "ds_mskor_rtn_b32", atomic!(returns 4, 2, masked_or)),
    row(45, "ds_wrxchg_rtn_b32", atomic!(returns 4, 1, operation::swap)),
    row(48, "ds_cmpst_rtn_b32", atomic!(returns 4, 2, compare_swap)),
    row(50, "ds_min_rtn_f32", atomic!(returns 4, 1, min_float)),
    row(51, "ds_max_rtn_f32", atomic!(returns 4, 1, max_float)),
    row(52, "ds_wrap_rtn_b32", atomic!(returns 4, 2, wrap)),
    row(53, "ds_add_rtn_f32", atomic!(returns 4, 1, add_float)),
    row(54, "ds_read_b32", read!(1, Part::Words(1))),
    row(55, "ds_read2_b32", read2!(4, 1)),
    row(56, "ds_read2st64_b32", read2!(4, 64)),
    row(57, "ds_read_i8", read!(1, Part::Signed(8))),
    row(58, "ds_read_u8", read!(1, Part::Unsigned(8))),
    row(59, "ds_read_i16", read!(1, Part::Signed(16))),
    row(60, "ds_read_u16", read!(1, Part::Unsigned(16))),
    row(61, "ds_swizzle_b32", (shape(1, 0, 0, false), swizzle)),
    row(62, "ds_permute_b32", (EXCHANGE, permute)),
    row(63, "ds_bpermute_b32", (EXCHANGE, backward_permute)),
    row(64, "ds_add_u64", atomic!(8, 1, operation::add)),
    row(65, "ds_sub_u64", atomic!(8, 1, operation::sub)),
    row(66, "ds_rsub_u64", atomic!(8, 1, operation::reverse_sub)),
    row(67, "ds_inc_u64", atomic!(8, 1, operation::increment)),
    row(68, "ds_dec_u64", atomic!(8, 1, operation::decrement)),
    row(69, "ds_min_i64", atomic!(8, 1, operation::signed_min)),
    row(70, "ds_max_i64", atomic!(8, 1, operation::signed_max)),
    row(71, "ds_min_u64", atomic!(8, 1, operation::unsigned_min)),
    row(72, "ds_max_u64", atomic!(8, 1, operation::unsigned_max)),
    row(73, "ds_and_b64", atomic!(8, 1, operation::and)),
    row(74, "ds_or_b64", atomic!(8, 1, operation::or)),
    row(75, "ds_xor_b64", atomic!(8, 1, operation::xor)),
    row(76, "ds_mskor_b64", atomic!(8, 2, masked_or)),
    row(77, "ds_write_b64", write!(2, Part::Words(2))),
    row(78, "ds_write2_b64", write2!(8, 1)),
    row(79, "ds_write2st64_b64", write2!(8, 64)),
    row(80, "ds_cmpst_b64", atomic!(8, 2, compare_swap)),
    row(84, "ds_write_b8_d16_hi", write!(1, Part::High(Extend::Byte))),
    row(85, "ds_write_b16_d16_hi", write!(1, Part::High(Extend::Short))),
    row(86, "ds_read_u8_d16", read!(1, Part::Low(Extend::Byte))),
    row(87, "ds_read_u8_d16_hi", read!(1, Part::High(Extend::Byte))),
    row(88, "ds_read_i8_d16", read!(1, Part::Low(Extend::SignedByte))),
    row(89, "ds_read_i8_d16_hi", read!(1, Part::High(Extend::SignedByte))),
    row(90, "ds_read_u16_d16", read!(1, Part::Low(Extend::Short))),
    row(91, "ds_read_u16_d16_hi", read!(1, Part::High(Extend::Short))),
    row(96, "ds_add_rtn_u64", atomic!(returns 8, 1, operation::add)),
    row(97, "ds_sub_rtn_u64", atomic!(returns 8, 1, operation::sub)),
    row(98, "ds_rsub_rtn_u64", atomic!(returns 8, 1, operation::reverse_sub)),
    row(99, "ds_inc_rtn_u64", atomic!(returns 8, 1, operation::increment)),
    row(100, "ds_dec_rtn_u64", atomic!(returns 8, 1, operation::decrement)),
    row(101, "ds_min_rtn_i64", atomic!(returns 8, 1, operation::signed_min)),
    row(102, "ds_max_rtn_i64", atomic!(returns 8, 1, operation::signed_max)),
    row(103, "ds_min_rtn_u64", atomic!(returns 8, 1, operation::unsigned_min)),
    row(104, "ds_max_rtn_u64", atomic!(returns 8, 1, operation::unsigned_max)),
    row(105, "ds_and_rtn_b64", atomic!(returns 8, 1, operation::and)),
    row(106, "ds_or_rtn_b64", atomic!(returns 8, 1, operation::or)),
    row(107, "ds_xor_rtn_b64", atomic!(returns 8, 1, operation::xor)),
    row(108, "ds_mskor_rtn_b64", atomic!(returns 8, 2, masked_or)),
    row(109, "ds_wrxchg_rtn_b64", atomic!(returns 8, 1, operation::swap)),
    row(112, "ds_cmpst_rtn_b64", atomic!(returns 8, 2, compare_swap)),
    row(118, "ds_read_b64", read!(2, Part::Words(2))),
    row(119, "ds_read2_b64", read2!(8, 1)),
    row(120, "ds_read2st64_b64", read2!(8, 64)),
    row(222, "ds_write_b96", write!(3, Part::Words(3))),
    row(223, "ds_write_b128", write!(4, Part::Words(4))),
    row(254, "ds_read_b96", read!(3, Part::Words(3))),
    row(255, "ds_read_b128", read!(4, Part::Words(4))),
];
