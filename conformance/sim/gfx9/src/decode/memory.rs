//! The encodings of instructions that access memory.

use super::operand::{Reserved, vector};
use super::{Fields, Instruction, NO_ROW, Reason, bit, bits, field, flag, signed};
use crate::table::{self, Access, Encoding, Row, Shape};
use crate::wave::code;

fn access(encoding: Encoding, opcode: u16) -> Result<(&'static Row, &'static Access), Reason> {
    let row = table::find(encoding, opcode).ok_or(NO_ROW)?;
    match &row.shape {
        Shape::Access(shape) => Ok((row, shape)),
        Shape::Alu(_) => Err("the row's shape"),
    }
}

const NOT_ZERO: Reason = "bits that must be 0";

pub(super) fn scalar([first, second]: [u32; 2]) -> Result<Instruction, Reason> {
    let opcode = field(first, 18, 8);
    let (row, shape) = access(Encoding::Smem, opcode)?;
    let mut fields = Fields { encoding: Encoding::Smem, opcode, bits: first, ..Fields::default() };
    let mut reserved = Reserved::default();
    let words = shape.result.max(shape.data);
    if words > 0 {
        fields.destination = reserved.scalar(field(first, 6, 7), words.into())?;
        let special = matches!(fields.destination, code::M0 | code::EXEC..);
        reserved.note(special, "M0 or EXEC as the data of a scalar access");
    }
    let immediate = fields.bits & flag::SMEM_IMMEDIATE != 0;
    let register = fields.bits & flag::SMEM_SOFFSET != 0;
    if shape.address {
        fields.scalar = reserved.scalar(field(first, 0, 6) << 1, shape.base.into())?;
        fields.offset = if immediate { signed(second, 21) } else { 0 };
        fields.sources[3] = match (register, immediate) {
            (true, _) => reserved.scalar(field(second, 25, 7), 1)?,
            (false, false) => reserved.scalar(field(second, 0, 7), 1)?,
            (false, true) => 0,
        };
    } else if immediate {
        return Err(NOT_ZERO);
    }
    Ok(Instruction { row, fields, length: 8, reserved: reserved.reason() })
}

pub(super) fn shared([first, second]: [u32; 2]) -> Result<Instruction, Reason> {
    let opcode = field(first, 17, 8);
    let (row, shape) = access(Encoding::Ds, opcode)?;
    let mut fields = Fields { encoding: Encoding::Ds, opcode, bits: first, ..Fields::default() };
    fields.offset = i32::from(field(first, 0, 16));
    let registers = [
        (field(second, 0, 8), u8::from(shape.address)),
        (field(second, 8, 8), if shape.operands > 0 { shape.data } else { 0 }),
        (field(second, 16, 8), if shape.operands > 1 { shape.data } else { 0 }),
        (field(second, 24, 8), shape.result),
    ];
    for (number, words) in registers {
        match words {
            0 if number != 0 => return Err("a register that the instruction lacks"),
            0 => {}
            words => _ = vector(number, words.into())?,
        }
    }
    let [address, data, second_data, destination] = registers.map(|(number, _)| number);
    fields.sources = [address, data, second_data, 0];
    fields.destination = destination;
    let gds = fields.bits & flag::DS_GDS != 0;
    if gds && (shape.exchange || !shape.address) || !shape.address && fields.offset != 0 {
        return Err(NOT_ZERO);
    }
    Ok(Instruction { row, fields, length: 8, reserved: None })
}

/// The code of the scalar address that states that there is none.
const NO_SCALAR: u16 = 0x7f;

pub(super) fn flat([first, second]: [u32; 2]) -> Result<Instruction, Reason> {
    let encoding = match bits(first, 14, 2) {
        0 => Encoding::Flat,
        1 => Encoding::Scratch,
        2 => Encoding::Global,
        _ => return Err("no segment of flat instructions"),
    };
    let opcode = field(first, 18, 7);
    let (row, shape) = access(encoding, opcode)?;
    let mut fields = Fields { encoding, opcode, bits: first, ..Fields::default() };
    let mut reserved = Reserved::default();
    if fields.bits & flag::FLAT_LDS != 0 {
        return Err("a load into LDS");
    }
    fields.scalar = field(second, 16, 7);
    let address_words = match encoding {
        Encoding::Flat => {
            if fields.scalar != 0 {
                return Err(NOT_ZERO);
            }
            fields.offset = bits(first, 0, 13).cast_signed();
            reserved.note(bit(first, 12), "an offset of 13 bits");
            2
        }
        Encoding::Global => {
            fields.offset = signed(first, 13);
            if fields.scalar == NO_SCALAR {
                2
            } else {
                fields.scalar = reserved.scalar(fields.scalar, 2)?;
                1
            }
        }
        _ => {
            fields.offset = signed(first, 13);
            // Either a vector register or a scalar one.
            if fields.scalar == NO_SCALAR {
                1
            } else {
                fields.scalar = reserved.scalar(fields.scalar, 1)?;
                0
            }
        }
    };
    fields.sources = [vector(field(second, 0, 8), address_words)?, field(second, 8, 8), 0, 0];
    fields.destination = field(second, 24, 8);
    if shape.data > 0 {
        vector(fields.sources[1], shape.data.into())?;
    }
    if shape.result > 0 && (!shape.atomic || fields.bits & flag::FLAT_GLC != 0) {
        vector(fields.destination, shape.result.into())?;
    }
    Ok(Instruction { row, fields, length: 8, reserved: reserved.reason() })
}

/// MUBUF and MTBUF.
pub(super) fn buffer(encoding: Encoding, opcode: u16, [first, second]: [u32; 2]) -> Result<Instruction, Reason> {
    let (row, shape) = access(encoding, opcode)?;
    let mut fields = Fields { encoding, opcode, ..Fields::default() };
    let mut reserved = Reserved::default();
    fields.bits = first & 0x3fff_ffff | bits(second, 23, 1) << 31 | bits(second, 22, 1) << 30;
    let addresses = fields.bits & (flag::BUFFER_OFFEN | flag::BUFFER_IDXEN);
    if !shape.address {
        // Those of caches have no operands.
        let used = flag::BUFFER_OFFEN | flag::BUFFER_IDXEN | flag::BUFFER_GLC | 1 << 15 | flag::BUFFER_LDS;
        return if first & used != 0 {
            Err(NOT_ZERO)
        } else {
            Ok(Instruction { row, fields, length: 8, reserved: None })
        };
    }
    if encoding == Encoding::Mubuf && fields.bits & flag::BUFFER_LDS != 0 && !shape.to_shared {
        return Err("a result in LDS");
    }
    fields.offset = bits(first, 0, 12).cast_signed();
    let resource = reserved.scalar(field(second, 16, 5) << 2, 4)?;
    let offset = reserved.scalar_source(field(second, 24, 8), 1, false)?;
    fields.sources = [vector(field(second, 0, 8), addresses.count_ones() as u16)?, field(second, 8, 8), 0, offset];
    fields.destination = vector(fields.sources[1], shape.result.max(shape.data).into())?;
    fields.scalar = resource;
    fields.format = bits(first, 19, 7);
    Ok(Instruction { row, fields, length: 8, reserved: reserved.reason() })
}

/// The opcode of `image_get_resinfo`.
const RESOURCE_INFO: u16 = 14;

pub(super) fn image([first, second]: [u32; 2]) -> Result<Instruction, Reason> {
    let opcode = field(first, 18, 7) | field(first, 0, 1) << 7;
    let (row, shape) = access(Encoding::Mimg, opcode)?;
    let mut fields = Fields { encoding: Encoding::Mimg, opcode, ..Fields::default() };
    let mut reserved = Reserved::default();
    fields.bits = first & 0x7fff_ffff | bits(second, 31, 1) << 31;
    fields.format = bits(first, 8, 4);
    let sampler = field(second, 21, 5) << 2;
    if sampler != 0 && !shape.sampled {
        return Err(NOT_ZERO);
    }
    // Atomic operations and those that return sizes have no data of 16 bits.
    if (shape.atomic || opcode == RESOURCE_INFO) && fields.bits & flag::IMAGE_D16 != 0 {
        return Err(NOT_ZERO);
    }
    let sampler = if shape.sampled { reserved.scalar(sampler, 4)? } else { 0 };
    let address = vector(field(second, 0, 8), u16::from(shape.before) + 1)?;
    fields.sources = [address, field(second, 8, 8), sampler, 0];
    fields.destination = vector(fields.sources[1], least_image_words(shape).into())?;
    fields.scalar = reserved.scalar(field(second, 16, 5) << 2, 8)?;
    let words = image_words(shape, &fields);
    reserved.note(vector(fields.destination, words.into()).is_err(), "vector registers beyond the last one");
    Ok(Instruction { row, fields, length: 8, reserved: reserved.reason() })
}

/// Vector registers of the data of an image instruction whose other fields do not ask for another number.
pub(crate) fn least_image_words(shape: &Access) -> u8 {
    match (shape.gather, shape.atomic) {
        (true, _) => 4,
        (_, true) => shape.data,
        _ => 1,
    }
}

/// Vector registers of the data of an image instruction.
pub(crate) fn image_words(shape: &Access, fields: &Fields) -> u8 {
    let count = if shape.gather { 4 } else { fields.format.count_ones().max(1) as u8 };
    let halves = fields.bits & flag::IMAGE_D16 != 0;
    let count = if halves { count.div_ceil(2) } else { count };
    count + u8::from(fields.bits & flag::IMAGE_TFE != 0)
}
