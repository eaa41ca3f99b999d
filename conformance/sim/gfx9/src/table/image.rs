//! Instructions that access images through descriptors.

use sample::{sample, with};

use super::memory::{Operation, data_word, load_element, operation, set_data_word, store_element};
use super::{Access, Execute, Row, Shape, row};
use crate::decode::{Fields, flag};
use crate::dispatch::Unit;
use crate::format::Format;
use crate::image::{Descriptor, Kind};
use crate::{Result, unknown};

/// The image that an instruction accesses. `None`: a descriptor of zeroes.
fn image(unit: &Unit<'_, '_>, fields: &Fields) -> Result<Option<Descriptor>> {
    match () {
        () if fields.bits & (flag::IMAGE_TFE | flag::IMAGE_LWE) != 0 => Err(unknown("an image access with a status")),
        () if fields.format == 0 => Err(unknown("an image access without components")),
        () => Descriptor::read(unit.wave, fields.scalar, unit.addresses),
    }
}

/// A register of the address operand.
fn operand(unit: &Unit<'_, '_>, fields: &Fields, number: usize, lane: usize) -> Result<u32> {
    Ok(unit.wave.vector(usize::from(fields.sources[0]) + number)?[lane])
}

/// A part of an address, which may be half of a register.
fn part(unit: &Unit<'_, '_>, fields: &Fields, number: usize, lane: usize) -> Result<u32> {
    if fields.bits & flag::IMAGE_A16 == 0 {
        return operand(unit, fields, number, lane);
    }
    Ok(operand(unit, fields, number / 2, lane)? >> (16 * (number % 2)) & 0xffff)
}

/// The place that a lane accesses, and the number of its parts.
fn place(unit: &Unit<'_, '_>, fields: &Fields, image: &Descriptor, lane: usize) -> Result<([u32; 3], usize)> {
    let count = image.dimensions();
    let mut place = [0; 3];
    for (number, coordinate) in place.iter_mut().enumerate().take(count) {
        *coordinate = part(unit, fields, number, lane)?;
    }
    if !has_layer(fields, image) {
        return Ok((place, count));
    }
    place[2] = part(unit, fields, count, lane)?;
    Ok((place, count + 1))
}

/// The address has the number of a layer.
fn has_layer(fields: &Fields, image: &Descriptor) -> bool {
    match image.kind {
        Kind::Volume => false,
        Kind::Cube => true,
        Kind::Line | Kind::Plane => fields.bits & flag::IMAGE_ARRAY != 0,
    }
}

/// The components of the mask, in order.
fn components(mask: u32) -> impl Iterator<Item = usize> {
    (0..4).filter(move |component| mask >> component & 1 != 0)
}

/// Writes results of a lane to registers, or to halves of them.
fn write(
    unit: &mut Unit<'_, '_>,
    fields: &Fields,
    lane: usize,
    format: Format,
    results: impl Iterator<Item = u32>,
) -> Result<()> {
    let first = usize::from(fields.destination);
    for (number, result) in results.enumerate() {
        if fields.bits & flag::IMAGE_D16 == 0 {
            unit.wave.vector_mut(first + number)?[lane] = result;
        } else {
            let register = &mut unit.wave.vector_mut(first + number / 2)?[lane];
            let half = u32::from(format.halved(result));
            *register = if number % 2 == 0 { half } else { *register | half << 16 };
        }
    }
    Ok(())
}

/// The data of a lane: those components that the mask selects, the others 0.
fn data(unit: &Unit<'_, '_>, fields: &Fields, lane: usize, format: Format) -> Result<[u32; 4]> {
    let first = usize::from(fields.destination);
    let mut data = [0; 4];
    for (number, component) in components(fields.format).enumerate() {
        data[component] = if fields.bits & flag::IMAGE_D16 == 0 {
            unit.wave.vector(first + number)?[lane]
        } else {
            format.doubled((unit.wave.vector(first + number / 2)?[lane] >> (16 * (number % 2))) as u16)
        };
    }
    Ok(data)
}

/// Where a lane accesses an image.
fn lane_address(
    unit: &Unit<'_, '_>,
    fields: &Fields,
    image: &Descriptor,
    lane: usize,
    mip: bool,
) -> Result<Option<u64>> {
    let (place, next) = place(unit, fields, image, lane)?;
    let level = if mip { part(unit, fields, next, lane)? } else { 0 };
    Ok(image.address(place, level))
}

fn load(unit: &mut Unit<'_, '_>, fields: &Fields, mip: bool) -> Result<()> {
    let Some(image) = image(unit, fields)? else { return clear(unit, fields, components(fields.format).count()) };
    for lane in unit.wave.active() {
        let element = match lane_address(unit, fields, &image, lane, mip)? {
            Some(address) => image.format.unpack(load_element(unit, address, image.format.size()?)?)?,
            None => [0; 4],
        };
        let results = image.selected(element);
        write(unit, fields, lane, image.format, components(fields.format).map(|component| results[component]))?;
    }
    Ok(())
}

/// Writes 0 to the results: the image has no elements.
fn clear(unit: &mut Unit<'_, '_>, fields: &Fields, count: usize) -> Result<()> {
    let nothing = Format::of_image(0, 0);
    unit.wave.active().try_for_each(|lane| write(unit, fields, lane, nothing, std::iter::repeat_n(0, count)))
}

fn store(unit: &mut Unit<'_, '_>, fields: &Fields, mip: bool) -> Result<()> {
    let Some(image) = image(unit, fields)? else { return Ok(()) };
    for lane in unit.wave.active() {
        let Some(address) = lane_address(unit, fields, &image, lane, mip)? else { continue };
        let element = image.format.pack(image.stored(data(unit, fields, lane, image.format)?))?;
        store_element(unit, address, image.format.size()?, element)?;
    }
    Ok(())
}

fn atomic(unit: &mut Unit<'_, '_>, fields: &Fields, operands: u32, operation: Operation) -> Result<()> {
    let image = image(unit, fields)?;
    let size = match fields.format {
        mask if mask == (1 << operands) - 1 => 4,
        mask if mask == (1 << (2 * operands)) - 1 => 8,
        _ => return Err(unknown("the components of an atomic operation")),
    };
    let register = usize::from(fields.destination);
    for lane in unit.wave.active() {
        let mut old = 0;
        if let Some(image) = &image {
            if u64::from(image.format.size()?) != size {
                return Err(unknown("an atomic operation on elements of another size"));
            }
            if let Some(address) = lane_address(unit, fields, image, lane, false)? {
                let value = data_word(unit, register, size, lane)?;
                let compare =
                    if operands == 2 { data_word(unit, register + (size / 4) as usize, size, lane)? } else { 0 };
                old = unit.bus.atomic(address, size, |old| operation(old, value, compare, size))?;
            }
        }
        if fields.bits & flag::IMAGE_GLC != 0 {
            set_data_word(unit, register, size, lane, old)?;
        }
    }
    Ok(())
}

/// The size of a level, the number of layers, and that of levels.
fn size(unit: &mut Unit<'_, '_>, fields: &Fields) -> Result<()> {
    let Some(image) = image(unit, fields)? else { return clear(unit, fields, components(fields.format).count()) };
    let [first, last] = image.levels;
    for lane in unit.wave.active() {
        let level = first.saturating_add(part(unit, fields, 0, lane)?);
        let [width, height, depth] = image.size(level);
        let depth = if image.kind == Kind::Volume { depth } else { image.layer_count() };
        let results = [width, height, depth, (last + 1).saturating_sub(first)];
        write(unit, fields, lane, image.format, components(fields.format).map(|component| results[component]))?;
    }
    Ok(())
}

const fn access(result: u8, data: u8, atomic: bool) -> Shape {
    Shape::Access(Access { result, data, operands: (data != 0) as u8, atomic, address: true, ..Access::NONE })
}

/// The operands of an instruction that samples.
const fn sampling(parts: u8) -> Shape {
    // Of the derivatives, one register at least.
    let before = (parts & (with::OFFSET | with::BIAS | with::COMPARE | with::DERIVATIVES)).count_ones() as u8;
    let gather = parts & with::GATHER != 0;
    Shape::Access(Access { result: 4, address: true, sampled: true, before, gather, ..Access::NONE })
}

macro_rules! read {
    ($function:ident $(, $argument:expr)*) => {
        (access(4, 0, false), (|unit, fields| $function(unit, fields $(, $argument)*)) as Execute)
    };
}

macro_rules! sample {
    ($parts:expr) => {
        (sampling($parts), (|unit, fields| sample(unit, fields, $parts)) as Execute)
    };
}

macro_rules! change {
    ($data:literal, $operation:path) => {
        (access($data, $data, true), (|unit, fields| atomic(unit, fields, $data, $operation)) as Execute)
    };
}

pub(super) static MIMG: &[Row] = &[
    row(0, "image_load", read!(load, false)),
    row(1, "image_load_mip", read!(load, true)),
    row(8, "image_store", (access(0, 4, false), |unit, fields| store(unit, fields, false))),
    row(9, "image_store_mip", (access(0, 4, false), |unit, fields| store(unit, fields, true))),
    row(14, "image_get_resinfo", read!(size)),
    row(16, "image_atomic_swap", change!(1, operation::swap)),
    row(17, "image_atomic_cmpswap", change!(2, operation::compare_swap)),
    row(18, "image_atomic_add", change!(1, operation::add)),
    row(19, "image_atomic_sub", change!(1, operation::sub)),
    row(20, "image_atomic_smin", change!(1, operation::signed_min)),
    row(21, "image_atomic_umin", change!(1, operation::unsigned_min)),
    row(22, "image_atomic_smax", change!(1, operation::signed_max)),
    row(23, "image_atomic_umax", change!(1, operation::unsigned_max)),
    row(24, "image_atomic_and", change!(1, operation::and)),
    row(25, "image_atomic_or", change!(1, operation::or)),
    row(26, "image_atomic_xor", change!(1, operation::xor)),
    row(27, "image_atomic_inc", change!(1, operation::increment)),
    row(28, "image_atomic_dec", change!(1, operation::decrement)),
    row(32, "image_sample", sample!(0)),
    row(34, "image_sample_d", sample!(with::DERIVATIVES)),
    row(36, "image_sample_l", sample!(with::LEVEL)),
    row(37, "image_sample_b", sample!(with::BIAS)),
    row(39, "image_sample_lz", sample!(with::ZERO)),
    row(40, "image_sample_c", sample!(with::COMPARE)),
    row(42, "image_sample_c_d", sample!(with::COMPARE | with::DERIVATIVES)),
    row(44, "image_sample_c_l", sample!(with::COMPARE | with::LEVEL)),
    row(45, "image_sample_c_b", sample!(with::COMPARE | with::BIAS)),
    row(47, "image_sample_c_lz", sample!(with::COMPARE | with::ZERO)),
    row(48, "image_sample_o", sample!(with::OFFSET)),
    row(50, "image_sample_d_o", sample!(with::OFFSET | with::DERIVATIVES)),
    row(52, "image_sample_l_o", sample!(with::OFFSET | with::LEVEL)),
    row(53, "image_sample_b_o", sample!(with::OFFSET | with::BIAS)),
    row(55, "image_sample_lz_o", sample!(with::OFFSET | with::ZERO)),
    row(56, "image_sample_c_o", sample!(with::OFFSET | with::COMPARE)),
    row(58, "image_sample_c_d_o", sample!(with::OFFSET | with::COMPARE | with::DERIVATIVES)),
    row(60, "image_sample_c_l_o", sample!(with::OFFSET | with::COMPARE | with::LEVEL)),
    row(61, "image_sample_c_b_o", sample!(with::OFFSET | with::COMPARE | with::BIAS)),
    row(63, "image_sample_c_lz_o", sample!(with::OFFSET | with::COMPARE | with::ZERO)),
    row(64, "image_gather4", sample!(with::GATHER)),
    row(68, "image_gather4_l", sample!(with::GATHER | with::LEVEL)),
    row(69, "image_gather4_b", sample!(with::GATHER | with::BIAS)),
    row(71, "image_gather4_lz", sample!(with::GATHER | with::ZERO)),
    row(72, "image_gather4_c", sample!(with::GATHER | with::COMPARE)),
    row(76, "image_gather4_c_l", sample!(with::GATHER | with::COMPARE | with::LEVEL)),
    row(77, "image_gather4_c_b", sample!(with::GATHER | with::COMPARE | with::BIAS)),
    row(79, "image_gather4_c_lz", sample!(with::GATHER | with::COMPARE | with::ZERO)),
    row(80, "image_gather4_o", sample!(with::GATHER | with::OFFSET)),
    row(84, "image_gather4_l_o", sample!(with::GATHER | with::OFFSET | with::LEVEL)),
    row(85, "image_gather4_b_o", sample!(with::GATHER | with::OFFSET | with::BIAS)),
    row(87, "image_gather4_lz_o", sample!(with::GATHER | with::OFFSET | with::ZERO)),
    row(88, "image_gather4_c_o", sample!(with::GATHER | with::OFFSET | with::COMPARE)),
    row(92, "image_gather4_c_l_o", sample!(with::GATHER | with::OFFSET | with::COMPARE | with::LEVEL)),
    row(93, "image_gather4_c_b_o", sample!(with::GATHER | with::OFFSET | with::COMPARE | with::BIAS)),
    row(95, "image_gather4_c_lz_o", sample!(with::GATHER | with::OFFSET | with::COMPARE | with::ZERO)),
];

mod sample;
#[cfg(test)]
mod tests;
