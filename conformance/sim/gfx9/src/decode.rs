//! Words to instructions.

use crate::table::{self, Encoding, Row, Shape};
use crate::wave::code;

/// Why words are not an instruction.
pub(crate) type Reason = &'static str;

/// A decoded instruction.
#[derive(Debug, Clone, Copy)]
pub struct Instruction {
    pub(crate) row: &'static Row,
    pub(crate) fields: Fields,
    pub(crate) length: u64,
}

impl Instruction {
    /// Bytes of the instruction: 4 or 8.
    pub fn length(&self) -> u64 {
        self.length
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
        0b11_0000 => memory(Encoding::Smem, words, field(first, 18, 8), scalar_memory),
        0b11_0100 if first >> 23 == 0x1a7 => packed(words),
        0b11_0100 => vector3(words),
        0b11_0110 => memory(Encoding::Ds, words, field(first, 17, 8), shared),
        0b11_0111 => {
            let encoding = match bits(first, 14, 2) {
                0 => Encoding::Flat,
                1 => Encoding::Scratch,
                2 => Encoding::Global,
                _ => return Err("no segment of flat instructions"),
            };
            memory(encoding, words, field(first, 18, 7), flat)
        }
        0b11_1000 => memory(Encoding::Mubuf, words, field(first, 18, 7), buffer),
        0b11_1010 => memory(Encoding::Mtbuf, words, field(first, 15, 4), buffer),
        0b11_1100 => memory(Encoding::Mimg, words, field(first, 18, 7), image),
        _ if !bit(first, 31) => vector(first, second),
        _ if first >> 30 == 0b10 => scalar(first, second),
        _ => Err("no encoding of compute programs"),
    }
}

fn scalar(first: u32, second: u32) -> Result<Instruction, Reason> {
    let mut fields = Fields { literal: second, ..Fields::default() };
    fields.destination = field(first, 16, 7);
    fields.sources = [field(first, 0, 8), field(first, 8, 8), 0, 0];
    let (encoding, opcode) = match first >> 23 {
        0x17d => (Encoding::Sop1, field(first, 8, 8)),
        0x17e => (Encoding::Sopc, field(first, 16, 7)),
        0x17f => (Encoding::Sopp, field(first, 16, 7)),
        _ if first >> 28 == 0xb => (Encoding::Sopk, field(first, 23, 5)),
        _ => (Encoding::Sop2, field(first, 23, 7)),
    };
    let row = table::find(encoding, opcode).ok_or("the opcode")?;
    let Shape::Alu(shape) = &row.shape else { return Err("the row's shape") };
    (fields.encoding, fields.opcode) = (encoding, opcode);
    let mut length = 4;
    match encoding {
        Encoding::Sopp | Encoding::Sopk => {
            fields.offset = signed(first, 16);
            // The one with a literal beside its number.
            if shape.has(table::LITERAL) {
                length = 8;
            }
        }
        Encoding::Sopc => fields.destination = 0,
        _ => {}
    }
    if matches!(encoding, Encoding::Sop1) {
        fields.sources[1] = 0;
    }
    if !matches!(encoding, Encoding::Sopp | Encoding::Sopk)
        && fields.sources.iter().take(shape.sources.len()).any(|source| *source == code::LITERAL)
    {
        length = 8;
    }
    Ok(Instruction { row, fields, length })
}

fn vector(first: u32, second: u32) -> Result<Instruction, Reason> {
    let mut fields = Fields { literal: second, ..Fields::default() };
    fields.destination = field(first, 17, 8);
    fields.sources = [field(first, 0, 9), field(first, 9, 8) + code::VECTOR, 0, 0];
    let (encoding, opcode) = match bits(first, 25, 6) {
        0x3f => (Encoding::Vop1, field(first, 9, 8)),
        0x3e => (Encoding::Vopc, field(first, 17, 8)),
        opcode => (Encoding::Vop2, opcode as u16),
    };
    let row = table::find(encoding, opcode).ok_or("the opcode")?;
    let Shape::Alu(shape) = &row.shape else { return Err("the row's shape") };
    (fields.encoding, fields.opcode) = (encoding, opcode);
    match encoding {
        Encoding::Vop1 => fields.sources[1] = 0,
        Encoding::Vopc => (fields.destination, fields.scalar) = (0, code::VCC),
        _ => fields.scalar = code::VCC,
    }
    fields.sources[2] = if shape.has(table::CARRY_IN) { code::VCC } else { 0 };
    let mut length = 4;
    if shape.has(table::LITERAL) {
        length = 8;
        if matches!(fields.sources[0], code::SDWA | code::DPP) {
            return Err("a literal and another route");
        }
    }
    let used = !shape.sources.is_empty();
    match fields.sources[0] {
        code::LITERAL if used => length = 8,
        code::SDWA if used => {
            length = 8;
            sdwa(&mut fields, encoding, second)?;
        }
        code::DPP if used => {
            length = 8;
            dpp(&mut fields, second)?;
        }
        _ => {}
    }
    if !matches!(fields.route, Route::Direct) && shape.has(table::NO_ROUTE) {
        return Err("the route of the operands");
    }
    Ok(Instruction { row, fields, length })
}

/// The code of SDWA's source: a vector register, or one of the scalar sources.
fn sdwa_source(low: u16, scalar: bool) -> u16 {
    if scalar { low } else { low + code::VECTOR }
}

fn sdwa(fields: &mut Fields, encoding: Encoding, word: u32) -> Result<(), Reason> {
    fields.sources[0] = sdwa_source(field(word, 0, 8), bit(word, 23));
    if encoding != Encoding::Vop1 {
        fields.sources[1] = sdwa_source(fields.sources[1] - code::VECTOR, bit(word, 31));
    }
    let mut sdwa = Sdwa {
        destination: 6,
        unused: 0,
        sources: [bits(word, 16, 3) as u8, bits(word, 24, 3) as u8],
        signed: [bit(word, 19), bit(word, 27)],
    };
    fields.modifiers.negate = (bits(word, 20, 1) | bits(word, 28, 1) << 1) as u8;
    fields.modifiers.absolute = (bits(word, 21, 1) | bits(word, 29, 1) << 1) as u8;
    if encoding == Encoding::Vopc {
        if bit(word, 15) {
            fields.scalar = field(word, 8, 7);
        }
    } else {
        sdwa.destination = bits(word, 8, 3) as u8;
        sdwa.unused = bits(word, 11, 2) as u8;
        fields.modifiers.clamp = bit(word, 13);
        fields.modifiers.scale = bits(word, 14, 2) as u8;
    }
    if sdwa.destination == 7 || sdwa.unused == 3 || sdwa.sources.contains(&7) {
        return Err("a selection of SDWA");
    }
    fields.route = Route::Sdwa(sdwa);
    Ok(())
}

fn dpp(fields: &mut Fields, word: u32) -> Result<(), Reason> {
    fields.sources[0] = field(word, 0, 8) + code::VECTOR;
    fields.modifiers.negate = (bits(word, 20, 1) | bits(word, 22, 1) << 1) as u8;
    fields.modifiers.absolute = (bits(word, 21, 1) | bits(word, 23, 1) << 1) as u8;
    let control = field(word, 8, 9);
    match control {
        0..=0xff | 0x101..=0x10f | 0x111..=0x11f | 0x121..=0x12f | 0x130 | 0x134 | 0x138 | 0x13c | 0x140..=0x143 => {}
        _ => return Err("a control of DPP"),
    }
    fields.route = Route::Dpp(Dpp {
        control,
        bound: bit(word, 19),
        banks: bits(word, 24, 4) as u8,
        rows: bits(word, 28, 4) as u8,
    });
    Ok(())
}

/// The row of an opcode of VOP3, which contains the shorter encodings.
fn vector3_row(opcode: u16) -> Option<(&'static Row, u16)> {
    let (encoding, opcode) = match opcode {
        0..0x100 => (Encoding::Vopc, opcode),
        0x100..0x140 => (Encoding::Vop2, opcode - 0x100),
        0x140..0x1c0 => (Encoding::Vop1, opcode - 0x140),
        _ => (Encoding::Vop3, opcode),
    };
    table::find(encoding, opcode).map(|row| (row, opcode))
}

fn vector3(words: [u32; 2]) -> Result<Instruction, Reason> {
    let [first, second] = words;
    let (row, opcode) = vector3_row(field(first, 16, 10)).ok_or("the opcode")?;
    let Shape::Alu(shape) = &row.shape else { return Err("the row's shape") };
    if shape.has(table::NO_VOP3) {
        return Err("the opcode in VOP3");
    }
    let mut fields = Fields { encoding: Encoding::Vop3, opcode, ..Fields::default() };
    fields.sources = [field(second, 0, 9), field(second, 9, 9), field(second, 18, 9), 0];
    fields.destination = field(first, 0, 8);
    fields.modifiers.clamp = bit(first, 15);
    fields.modifiers.scale = bits(second, 27, 2) as u8;
    fields.modifiers.negate = bits(second, 29, 3) as u8;
    let used = shape.sources.len() + usize::from(shape.has(table::CARRY_IN));
    if shape.has(table::CARRY_OUT) {
        fields.scalar = field(first, 8, 7);
    } else {
        fields.modifiers.absolute = bits(first, 8, 3) as u8;
        fields.modifiers.select = bits(first, 11, 4) as u8;
    }
    if shape.target == table::Target::Mask {
        (fields.scalar, fields.destination) = (fields.destination, 0);
    }
    if shape.target == table::Target::None {
        fields.destination = 0;
    }
    if fields.sources[..used].iter().any(|source| matches!(*source, code::LITERAL | code::SDWA | code::DPP)) {
        return Err("a source of VOP3");
    }
    let unused = u8::MAX << shape.sources.len();
    let modifiers = fields.modifiers;
    if fields.sources[used..3].iter().any(|source| *source != 0)
        || (modifiers.negate | modifiers.absolute) & unused != 0
        || modifiers.select != 0 && !shape.has(table::SELECT)
        || modifiers.select & 7 & unused != 0
    {
        return Err("bits that must be 0");
    }
    Ok(Instruction { row, fields, length: 8 })
}

fn packed(words: [u32; 2]) -> Result<Instruction, Reason> {
    let [first, second] = words;
    let opcode = field(first, 16, 7);
    let row = table::find(Encoding::Vop3p, opcode).ok_or("the opcode")?;
    let Shape::Alu(shape) = &row.shape else { return Err("the row's shape") };
    let mut fields = Fields { encoding: Encoding::Vop3p, opcode, ..Fields::default() };
    fields.sources = [field(second, 0, 9), field(second, 9, 9), field(second, 18, 9), 0];
    fields.destination = field(first, 0, 8);
    // `absolute` is the negation of the high halves.
    fields.modifiers = Modifiers {
        absolute: bits(first, 8, 3) as u8,
        negate: bits(second, 29, 3) as u8,
        select: bits(first, 11, 3) as u8,
        select_high: (bits(second, 27, 2) | bits(first, 14, 1) << 2) as u8,
        clamp: bit(first, 15),
        scale: 0,
    };
    let used = shape.sources.len();
    if fields.sources[..used].iter().any(|source| matches!(*source, code::LITERAL | code::SDWA | code::DPP)) {
        return Err("a source of VOP3P");
    }
    Ok(Instruction { row, fields, length: 8 })
}

/// Decodes a memory instruction: its row, then the fields of its encoding.
fn memory(
    encoding: Encoding,
    words: [u32; 2],
    opcode: u16,
    read: fn([u32; 2], &mut Fields) -> Result<(), Reason>,
) -> Result<Instruction, Reason> {
    let row = table::find(encoding, opcode).ok_or("the opcode")?;
    let mut fields = Fields { encoding, opcode, bits: words[0], ..Fields::default() };
    read(words, &mut fields)?;
    Ok(Instruction { row, fields, length: 8 })
}

/// Bits of `Fields::bits`, by encoding.
#[allow(dead_code)]
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

fn scalar_memory(words: [u32; 2], fields: &mut Fields) -> Result<(), Reason> {
    let [first, second] = words;
    fields.scalar = field(first, 0, 6) << 1;
    fields.destination = field(first, 6, 7);
    let immediate = fields.bits & flag::SMEM_IMMEDIATE != 0;
    let register = fields.bits & flag::SMEM_SOFFSET != 0;
    fields.offset = if immediate { signed(second, 21) } else { 0 };
    fields.sources[3] = match (register, immediate) {
        (true, _) => field(second, 25, 7),
        (false, false) => field(second, 0, 7),
        (false, true) => 0,
    };
    Ok(())
}

fn shared(words: [u32; 2], fields: &mut Fields) -> Result<(), Reason> {
    let [first, second] = words;
    fields.offset = i32::from(field(first, 0, 16));
    fields.sources = [field(second, 0, 8), field(second, 8, 8), field(second, 16, 8), 0];
    fields.destination = field(second, 24, 8);
    Ok(())
}

fn flat(words: [u32; 2], fields: &mut Fields) -> Result<(), Reason> {
    let [first, second] = words;
    fields.offset =
        if fields.encoding == Encoding::Flat { bits(first, 0, 12).cast_signed() } else { signed(first, 13) };
    fields.sources = [field(second, 0, 8), field(second, 8, 8), 0, 0];
    fields.scalar = field(second, 16, 7);
    fields.destination = field(second, 24, 8);
    Ok(())
}

fn buffer(words: [u32; 2], fields: &mut Fields) -> Result<(), Reason> {
    let [first, second] = words;
    fields.offset = bits(first, 0, 12).cast_signed();
    fields.sources = [field(second, 0, 8), field(second, 8, 8), 0, field(second, 24, 8)];
    fields.destination = fields.sources[1];
    fields.scalar = field(second, 16, 5) << 2;
    fields.format = bits(first, 19, 7);
    fields.bits = fields.bits & 0x3fff_ffff | bits(second, 23, 1) << 31 | bits(second, 22, 1) << 30;
    Ok(())
}

fn image(words: [u32; 2], fields: &mut Fields) -> Result<(), Reason> {
    let [first, second] = words;
    fields.format = bits(first, 8, 4);
    fields.sources = [field(second, 0, 8), field(second, 8, 8), field(second, 21, 5) << 2, 0];
    fields.destination = fields.sources[1];
    fields.scalar = field(second, 16, 5) << 2;
    fields.bits = fields.bits & 0x7fff_ffff | bits(second, 31, 1) << 31;
    Ok(())
}
