//! Instructions that access memory.

use std::fmt;

use super::List;
use super::operand::{Scalars, Source, Vectors};
use crate::decode::{Fields, flag, image_words, least_image_words};
use crate::table::{Access, Encoding};
use crate::value::Kind;

pub(super) fn write(
    formatter: &mut fmt::Formatter<'_>,
    name: &'static str,
    shape: &Access,
    fields: &Fields,
) -> fmt::Result {
    formatter.write_str(name)?;
    let mut list = List::new(formatter);
    match fields.encoding {
        Encoding::Smem => scalar(&mut list, shape, fields),
        Encoding::Ds => shared(&mut list, name, shape, fields),
        Encoding::Flat | Encoding::Global | Encoding::Scratch => flat(&mut list, shape, fields),
        Encoding::Mubuf | Encoding::Mtbuf => buffer(&mut list, shape, fields),
        Encoding::Mimg => image(&mut list, shape, fields),
        _ => Ok(()),
    }
}

/// The vector registers of an operand, of which there may be none.
fn vectors(list: &mut List<'_, '_>, first: u16, words: u8) -> fmt::Result {
    if words == 0 { Ok(()) } else { list.operand(Vectors { first, words: words.into() }) }
}

fn scalar(list: &mut List<'_, '_>, shape: &Access, fields: &Fields) -> fmt::Result {
    let words = shape.result.max(shape.data);
    if words > 0 {
        list.operand(Scalars { code: fields.destination, words: words.into() })?;
    }
    if !shape.address {
        return Ok(());
    }
    list.operand(Scalars { code: fields.scalar, words: shape.base.into() })?;
    let immediate = fields.bits & flag::SMEM_IMMEDIATE != 0;
    let register = fields.bits & flag::SMEM_SOFFSET != 0;
    let offset = Hexadecimal(fields.offset);
    if register || !immediate {
        list.operand(Scalars { code: fields.sources[3], words: 1 })?;
        list.modifier(immediate, format_args!("offset:{offset}"))?;
    } else {
        list.operand(offset)?;
    }
    list.modifier(fields.bits & flag::SMEM_GLC != 0, "glc")
}

/// A number with its sign.
struct Hexadecimal(i32);

impl fmt::Display for Hexadecimal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{:#x}", if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs())
    }
}

fn shared(list: &mut List<'_, '_>, name: &str, shape: &Access, fields: &Fields) -> fmt::Result {
    vectors(list, fields.destination, shape.result)?;
    vectors(list, fields.sources[0], shape.address.into())?;
    for data in &fields.sources[1..=usize::from(shape.operands)] {
        vectors(list, *data, shape.data)?;
    }
    let offset = fields.offset;
    if shape.pair {
        let [first, second] = [offset & 0xff, offset >> 8];
        list.modifier(first != 0, format_args!("offset0:{first}"))?;
        list.modifier(second != 0, format_args!("offset1:{second}"))?;
    } else if name == "ds_swizzle_b32" {
        list.modifier(offset != 0, format_args!("offset:{}", Swizzle(offset)))?;
    } else {
        list.modifier(offset != 0, format_args!("offset:{offset}"))?;
    }
    list.modifier(fields.bits & flag::DS_GDS != 0, "gds")
}

/// The pattern of a swizzle.
struct Swizzle(i32);

impl fmt::Display for Swizzle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pattern = self.0;
        if pattern & 0xff00 == 0x8000 {
            let lane = |place: i32| pattern >> (2 * place) & 3;
            return write!(formatter, "swizzle(QUAD_PERM,{},{},{},{})", lane(0), lane(1), lane(2), lane(3));
        }
        if pattern >= 0x8000 {
            return write!(formatter, "{pattern}");
        }
        let (and, or, xor) = (pattern & 31, pattern >> 5 & 31, pattern >> 10 & 31);
        if and == 31 && or == 0 && xor.count_ones() == 1 {
            return write!(formatter, "swizzle(SWAP,{xor})");
        }
        if and == 31 && or == 0 && xor > 0 && (xor + 1).count_ones() == 1 {
            return write!(formatter, "swizzle(REVERSE,{})", xor + 1);
        }
        let group = 32 - and;
        if group > 1 && group.count_ones() == 1 && or < group && xor == 0 {
            return write!(formatter, "swizzle(BROADCAST,{group},{or})");
        }
        formatter.write_str("swizzle(BITMASK_PERM,\"")?;
        for bit in (0..5).rev() {
            let [and, or, xor] = [and, or, xor].map(|mask| mask >> bit & 1);
            // The bit of the lane's number for 0, and for 1.
            formatter.write_str(match (or ^ xor, (and | or) ^ xor) {
                (0, 0) => "0",
                (1, 1) => "1",
                (0, _) => "p",
                _ => "i",
            })?;
        }
        formatter.write_str("\")")
    }
}

/// The code of the scalar address that states that there is none.
const NO_SCALAR: u16 = 0x7f;

fn flat(list: &mut List<'_, '_>, shape: &Access, fields: &Fields) -> fmt::Result {
    let no_scalar = fields.scalar == NO_SCALAR;
    let (address, scalar) = match fields.encoding {
        Encoding::Flat => (2, None),
        Encoding::Global => (if no_scalar { 2 } else { 1 }, Some(2)),
        _ => (u8::from(no_scalar), Some(1)),
    };
    if shape.result > 0 && (!shape.atomic || fields.bits & flag::FLAT_GLC != 0) {
        vectors(list, fields.destination, shape.result)?;
    }
    if address > 0 {
        vectors(list, fields.sources[0], address)?;
    } else {
        list.operand("off")?;
    }
    vectors(list, fields.sources[1], shape.data)?;
    match scalar {
        Some(_) if no_scalar => list.operand("off")?,
        Some(words) => list.operand(Scalars { code: fields.scalar, words })?,
        None => {}
    }
    list.modifier(fields.offset != 0, format_args!("offset:{}", fields.offset))?;
    list.modifier(fields.bits & flag::FLAT_GLC != 0, "glc")?;
    list.modifier(fields.bits & flag::FLAT_SLC != 0, "slc")
}

fn buffer(list: &mut List<'_, '_>, shape: &Access, fields: &Fields) -> fmt::Result {
    if !shape.address {
        return Ok(());
    }
    let has = |bit: u32| fields.bits & bit != 0;
    vectors(list, fields.destination, shape.result.max(shape.data))?;
    let addresses = u8::from(has(flag::BUFFER_OFFEN)) + u8::from(has(flag::BUFFER_IDXEN));
    if addresses > 0 {
        vectors(list, fields.sources[0], addresses)?;
    } else {
        list.operand("off")?;
    }
    list.operand(Scalars { code: fields.scalar, words: 4 })?;
    list.operand(Source { code: fields.sources[3], kind: Kind::Int32, literal: 0 })?;
    let typed = fields.encoding == Encoding::Mtbuf;
    if typed {
        format(list, fields.format & 15, fields.format >> 4)?;
    }
    list.modifier(has(flag::BUFFER_IDXEN), "idxen")?;
    list.modifier(has(flag::BUFFER_OFFEN), "offen")?;
    list.modifier(fields.offset != 0, format_args!("offset:{}", fields.offset))?;
    list.modifier(has(flag::BUFFER_GLC), "glc")?;
    list.modifier(has(if typed { flag::TYPED_SLC } else { flag::BUFFER_SLC }), "slc")?;
    let to_shared = !typed && has(flag::BUFFER_LDS);
    list.modifier(has(flag::BUFFER_TFE) && !shape.atomic && !to_shared, "tfe")?;
    list.modifier(to_shared, "lds")
}

fn image(list: &mut List<'_, '_>, shape: &Access, fields: &Fields) -> fmt::Result {
    let has = |bit: u32| fields.bits & bit != 0;
    let least = least_image_words(shape);
    let words = image_words(shape, fields);
    let exists = match (shape.atomic, shape.gather) {
        (true, _) => words == 2 * shape.data,
        (_, true) => words != 3,
        _ => true,
    };
    let fits = fields.destination + u16::from(words) <= 256;
    vectors(list, fields.destination, if exists && fits { words } else { least })?;
    vectors(list, fields.sources[0], shape.before + 1)?;
    list.operand(Scalars { code: fields.scalar, words: 8 })?;
    if shape.sampled {
        list.operand(Scalars { code: fields.sources[2], words: 4 })?;
    }
    list.modifier(fields.format != 0, format_args!("dmask:{:#x}", fields.format))?;
    let modifiers = [
        (flag::IMAGE_UNORMALIZED, "unorm"),
        (flag::IMAGE_GLC, "glc"),
        (flag::IMAGE_SLC, "slc"),
        (flag::IMAGE_A16, "a16"),
        (flag::IMAGE_TFE, "tfe"),
        (flag::IMAGE_LWE, "lwe"),
        (flag::IMAGE_ARRAY, "da"),
        (flag::IMAGE_D16, "d16"),
    ];
    modifiers.into_iter().try_for_each(|(bit, name)| list.modifier(has(bit), name))
}

const DATA_FORMATS: [&str; 16] = [
    "INVALID",
    "8",
    "16",
    "8_8",
    "32",
    "16_16",
    "10_11_11",
    "11_11_10",
    "10_10_10_2",
    "2_10_10_10",
    "8_8_8_8",
    "32_32",
    "16_16_16_16",
    "32_32_32",
    "32_32_32_32",
    "RESERVED_15",
];

const NUMBER_FORMATS: [&str; 8] = ["UNORM", "SNORM", "USCALED", "SSCALED", "UINT", "SINT", "RESERVED_6", "FLOAT"];

/// Writes the format's parts other than 8 bits and UNORM.
fn format(list: &mut List<'_, '_>, data: u32, number: u32) -> fmt::Result {
    let data_name = DATA_FORMATS[data as usize & 15];
    let number_name = NUMBER_FORMATS[number as usize & 7];
    match (data, number) {
        (1, 0) => Ok(()),
        (_, 0) => list.modifier(true, format_args!("format:[BUF_DATA_FORMAT_{data_name}]")),
        (1, _) => list.modifier(true, format_args!("format:[BUF_NUM_FORMAT_{number_name}]")),
        _ => list.modifier(true, format_args!("format:[BUF_DATA_FORMAT_{data_name},BUF_NUM_FORMAT_{number_name}]")),
    }
}
