//! Words to instructions.
//!
//! The decoder accepts the words that LLVM's disassembler accepts, and those of Mesa's compiler that LLVM lacks:
//! comparisons with DPP, and the negation of a source of `v_cndmask_b32` with SDWA. If these have reserved bits or registers, they have a
//! text, but are not executed.

mod memory;
mod operand;
mod vector;

use crate::table::{self, Encoding, Number, Row, Shape, Target};
use crate::wave::code;
pub(crate) use memory::{image_words, least_image_words};
use operand::Reserved;
pub(crate) use operand::{Scalar, is_number, named, scalar as scalar_registers};

/// Why words are not an instruction.
pub(crate) type Reason = &'static str;

/// The words are no instruction, or one that has no row in the tables.
pub const NO_ROW: &str = "the opcode";

/// A decoded instruction.
#[derive(Debug, Clone, Copy)]
pub struct Instruction {
    pub(crate) row: &'static Row,
    pub(crate) fields: Fields,
    pub(crate) length: u64,
    /// Why the instruction is not executed: it has values that the processor reserves.
    pub(crate) reserved: Option<Reason>,
}

impl Instruction {
    /// Bytes of the instruction: 4 or 8.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Why the instruction is not executed although it has a text: it has bits or registers that the processor reserves.
    pub fn reserved(&self) -> Option<&'static str> {
        self.reserved
    }
}

/// The fields of all encodings. A field that an encoding lacks is 0.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fields {
    /// The encoding of the words: an instruction of one of the shorter vector encodings has a form in VOP3 too.
    pub(crate) encoding: Encoding,
    /// The opcode as in the row, of the row's encoding.
    pub(crate) opcode: u16,
    /// A vector or scalar register.
    pub(crate) destination: u16,
    /// A scalar register: the carry or the mask of vector instructions; the base of addresses of memory instructions.
    pub(crate) scalar: u16,
    /// Source codes. Memory instructions: address, data, second data (vector registers without the bit of those), and
    /// the scalar offset.
    pub(crate) sources: [u16; 4],
    pub(crate) literal: u32,
    pub(crate) modifiers: Modifiers,
    pub(crate) route: Route,
    /// Offset in bytes, an immediate number, or a branch's distance in words.
    pub(crate) offset: i32,
    /// The bits of memory instructions, at the places of their first word.
    pub(crate) bits: u32,
    /// MTBUF: data and number format. MIMG: the mask of components.
    pub(crate) format: u32,
}

/// Modifiers of operands, one bit per source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Modifiers {
    pub(crate) absolute: u8,
    pub(crate) negate: u8,
    /// Selects the high half of sources; bit 3, of the destination.
    pub(crate) select: u8,
    /// Packed instructions: the half of each source for the high result.
    pub(crate) select_high: u8,
    pub(crate) clamp: bool,
    /// The result is multiplied by 1, 2, 4 or 0.5.
    pub(crate) scale: u8,
}

impl Modifiers {
    pub(crate) const NONE: Self = Self { absolute: 0, negate: 0, select: 0, select_high: 0, clamp: false, scale: 0 };
}

/// How lanes and parts of the registers reach a vector instruction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Route {
    #[default]
    Direct,
    Sdwa(Sdwa),
    Dpp(Dpp),
}

/// Parts of registers: a byte, a half or the whole of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sdwa {
    pub(crate) destination: u8,
    /// What the rest of the destination becomes: 0, the sign, or what it was.
    pub(crate) unused: u8,
    pub(crate) sources: [u8; 2],
    pub(crate) signed: [bool; 2],
}

/// Values of other lanes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Dpp {
    pub(crate) control: u16,
    /// Lanes without a source read 0, and are written.
    pub(crate) bound: bool,
    pub(crate) banks: u8,
    pub(crate) rows: u8,
}

/// A bit field of a word.
const fn bits(word: u32, low: u32, count: u32) -> u32 {
    word >> low & ((1 << count) - 1)
}

/// A bit field of at most 16 bits.
const fn field(word: u32, low: u32, count: u32) -> u16 {
    bits(word, low, count) as u16
}

const fn bit(word: u32, index: u32) -> bool {
    word >> index & 1 == 1
}

/// A signed bit field at the start of a word.
const fn signed(word: u32, count: u32) -> i32 {
    (word << (32 - count)).cast_signed() >> (32 - count)
}

/// Decodes the instruction that two words start with.
///
/// # Errors
///
/// The words are no instruction of gfx906, or one that the interpreter lacks.
pub fn decode(words: [u32; 2]) -> Result<Instruction, Reason> {
    let [first, second] = words;
    match first >> 26 {
        0b11_0000 => memory::scalar(words),
        0b11_0100 if first >> 23 == 0x1a7 => vector::packed(words),
        0b11_0100 => vector::vector3(words),
        0b11_0110 => memory::shared(words),
        0b11_0111 => memory::flat(words),
        0b11_1000 => memory::buffer(Encoding::Mubuf, field(first, 18, 7), words),
        0b11_1010 => memory::buffer(Encoding::Mtbuf, field(first, 15, 4), words),
        0b11_1100 => memory::image(words),
        _ if !bit(first, 31) => vector::short(first, second),
        _ if first >> 30 == 0b10 => scalar(first, second),
        _ => Err(NO_ROW),
    }
}

/// The row of an opcode, and the operands of its instruction.
fn alu(encoding: Encoding, opcode: u16) -> Result<(&'static Row, &'static table::Alu), Reason> {
    let row = table::find(encoding, opcode).ok_or(NO_ROW)?;
    match &row.shape {
        Shape::Alu(shape) => Ok((row, shape)),
        Shape::Access(_) => Err("the row's shape"),
    }
}

fn scalar(first: u32, second: u32) -> Result<Instruction, Reason> {
    let (encoding, opcode) = match first >> 23 {
        0x17d => (Encoding::Sop1, field(first, 8, 8)),
        0x17e => (Encoding::Sopc, field(first, 16, 7)),
        0x17f => (Encoding::Sopp, field(first, 16, 7)),
        _ if first >> 28 == 0xb => (Encoding::Sopk, field(first, 23, 5)),
        _ => (Encoding::Sop2, field(first, 23, 7)),
    };
    let (row, shape) = alu(encoding, opcode)?;
    let mut fields = Fields { encoding, opcode, literal: second, ..Fields::default() };
    let mut reserved = Reserved::default();
    if let Target::Register(kind) = shape.target {
        fields.destination = reserved.scalar(field(first, 16, 7), kind.words() as u16)?;
    }
    let codes = [field(first, 0, 8), field(first, 8, 8)];
    for ((place, code), kind) in fields.sources.iter_mut().zip(codes).zip(shape.sources) {
        *place = reserved.scalar_source(code, kind.words() as u16, true)?;
        if shape.has(table::NO_NUMBER) && operand::is_number(code) {
            return Err("a number as the source");
        }
    }
    if matches!(encoding, Encoding::Sopp | Encoding::Sopk) {
        fields.offset = signed(first, 16);
        if shape.number == Number::None && fields.offset != 0 {
            return Err("bits that must be 0");
        }
    }
    let literal = shape.has(table::LITERAL) || fields.sources.contains(&code::LITERAL);
    Ok(Instruction { row, fields, length: if literal { 8 } else { 4 }, reserved: reserved.reason() })
}

/// Bits of `Fields::bits`, by encoding.
pub(crate) mod flag {
    pub(crate) const SMEM_GLC: u32 = 1 << 16;
    pub(crate) const SMEM_SOFFSET: u32 = 1 << 14;
    pub(crate) const SMEM_IMMEDIATE: u32 = 1 << 17;
    pub(crate) const DS_GDS: u32 = 1 << 16;
    pub(crate) const FLAT_LDS: u32 = 1 << 13;
    pub(crate) const FLAT_GLC: u32 = 1 << 16;
    pub(crate) const FLAT_SLC: u32 = 1 << 17;
    pub(crate) const BUFFER_OFFEN: u32 = 1 << 12;
    pub(crate) const BUFFER_IDXEN: u32 = 1 << 13;
    pub(crate) const BUFFER_GLC: u32 = 1 << 14;
    pub(crate) const BUFFER_LDS: u32 = 1 << 16;
    /// Of MUBUF; of MTBUF it is a bit of the number format.
    pub(crate) const BUFFER_SLC: u32 = 1 << 17;
    pub(crate) const IMAGE_UNORMALIZED: u32 = 1 << 12;
    pub(crate) const IMAGE_GLC: u32 = 1 << 13;
    pub(crate) const IMAGE_ARRAY: u32 = 1 << 14;
    pub(crate) const IMAGE_A16: u32 = 1 << 15;
    pub(crate) const IMAGE_TFE: u32 = 1 << 16;
    pub(crate) const IMAGE_LWE: u32 = 1 << 17;
    pub(crate) const IMAGE_SLC: u32 = 1 << 25;
    /// Of the second word, at a place that the first does not use.
    pub(crate) const IMAGE_D16: u32 = 1 << 31;
    /// As `IMAGE_D16`: the bit of MUBUF and MTBUF in the second word.
    pub(crate) const BUFFER_TFE: u32 = 1 << 31;
    /// As `IMAGE_D16`: MTBUF's bit in the second word.
    pub(crate) const TYPED_SLC: u32 = 1 << 30;
}
