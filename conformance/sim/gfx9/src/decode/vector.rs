//! The encodings of the vector unit.

use super::operand::{Reserved, is_number, vector};
use super::{Dpp, Fields, Instruction, Modifiers, NO_ROW, Reason, Route, Sdwa, alu, bit, bits, field};
use crate::table::{self, Alu, Encoding, Row, Target};
use crate::value::Kind;
use crate::wave::code;

/// VOP1, VOP2 and VOPC.
pub(super) fn short(first: u32, second: u32) -> Result<Instruction, Reason> {
    let (encoding, opcode) = match bits(first, 25, 6) {
        0x3f => (Encoding::Vop1, field(first, 9, 8)),
        0x3e => (Encoding::Vopc, field(first, 17, 8)),
        opcode => (Encoding::Vop2, opcode as u16),
    };
    let (row, shape) = alu(encoding, opcode)?;
    let mut fields = Fields { encoding, opcode, literal: second, ..Fields::default() };
    let mut reserved = Reserved::default();
    if encoding != Encoding::Vop1 {
        fields.scalar = code::VCC;
    }
    if encoding != Encoding::Vopc {
        set_target(&mut fields, shape, field(first, 17, 8), &mut reserved)?;
    }
    if shape.has(table::CARRY_IN) {
        fields.sources[2] = code::VCC;
    }
    let numbers = [field(first, 0, 9), field(first, 9, 8)];
    let length = match (numbers[0], shape.sources) {
        // The source of an instruction without sources is ignored.
        (code::DPP, []) if second & 0xf0_00ff == 0 => {
            dpp(&mut fields, shape, second, 0, &mut reserved)?;
            8
        }
        (code::SDWA, []) if second & !0x4040_1f00 == 0 => 8,
        (_, []) => 4,
        (code::SDWA, _) if !shape.has(table::VECTORS) => {
            sdwa(&mut fields, shape, second, numbers[1], &mut reserved)?;
            8
        }
        (code::DPP, _) if !shape.has(table::VECTORS) => {
            dpp(&mut fields, shape, second, numbers[1], &mut reserved)?;
            8
        }
        (source, _) => {
            direct(&mut fields, shape, source, numbers[1], &mut reserved)?;
            if shape.has(table::LITERAL) || source == code::LITERAL && !shape.has(table::VECTORS) { 8 } else { 4 }
        }
    };
    Ok(Instruction { row, fields, length, reserved: reserved.reason() })
}

/// Sets the destination: vector registers, or scalar ones.
fn set_target(fields: &mut Fields, shape: &Alu, number: u16, reserved: &mut Reserved) -> Result<(), Reason> {
    match shape.target {
        Target::Register(kind) => fields.destination = vector(number, kind.words() as u16)?,
        Target::Scalar => fields.destination = reserved.destination(number, 1)?,
        Target::Mask => fields.scalar = reserved.destination(number, 2)?,
        Target::None if number != 0 => return Err("bits that must be 0"),
        Target::None => {}
    }
    Ok(())
}

/// Sets the sources of an instruction without SDWA and DPP.
fn direct(fields: &mut Fields, shape: &Alu, source: u16, second: u16, reserved: &mut Reserved) -> Result<(), Reason> {
    let words = |index: usize| shape.sources.get(index).map_or(1, |kind| kind.words() as u16);
    fields.sources[0] = if shape.has(table::VECTORS) {
        reserved.note(source < code::VECTOR, "a scalar source of an instruction with vector registers only");
        source & 0xff | code::VECTOR
    } else {
        reserved.source(source, words(0), true)?
    };
    if shape.target == Target::Scalar {
        reads_lane(source, reserved)?;
    }
    if shape.sources.len() > 1 {
        fields.sources[1] = vector(second, words(1))? + code::VECTOR;
    }
    Ok(())
}

/// Checks the source of an instruction that reads a lane.
fn reads_lane(source: u16, reserved: &mut Reserved) -> Result<(), Reason> {
    reserved.note(source < code::LDS_DIRECT, "a scalar source of an instruction that reads a lane");
    if is_number(source) { Err("a number as the source") } else { Ok(()) }
}

/// `true` if an instruction has forms with SDWA and DPP.
fn has_routes(shape: &Alu) -> bool {
    let wide = |kind: &Kind| kind.words() > 1;
    let wide_target = matches!(shape.target, Target::Register(kind) if wide(&kind));
    !shape.has(table::NO_ROUTE) && !wide_target && !shape.sources.iter().any(wide)
}

/// The code of SDWA's source: a vector register, or one of the scalar sources.
fn sdwa_source(low: u16, scalar: bool, reserved: &mut Reserved) -> Result<u16, Reason> {
    if scalar { reserved.source(low, 1, false) } else { Ok(low + code::VECTOR) }
}

fn sdwa(fields: &mut Fields, shape: &Alu, word: u32, second: u16, reserved: &mut Reserved) -> Result<(), Reason> {
    if !has_routes(shape) || shape.has(table::NO_SDWA) {
        return Err("the instruction with SDWA");
    }
    fields.sources[0] = sdwa_source(field(word, 0, 8), bit(word, 23), reserved)?;
    if shape.sources.len() > 1 {
        fields.sources[1] = sdwa_source(second, bit(word, 31), reserved)?;
    } else if word >> 24 & 0xbf != 0 {
        return Err("bits of SDWA that must be 0");
    }
    let mut sdwa = Sdwa {
        destination: 6,
        unused: 0,
        sources: [bits(word, 16, 3) as u8, bits(word, 24, 3) as u8],
        signed: [bit(word, 19), bit(word, 27)],
    };
    fields.modifiers.negate = (bits(word, 20, 1) | bits(word, 28, 1) << 1) as u8;
    fields.modifiers.absolute = (bits(word, 21, 1) | bits(word, 29, 1) << 1) as u8;
    for (index, kind) in shape.sources.iter().enumerate() {
        let modified = (fields.modifiers.negate | fields.modifiers.absolute) >> index & 1 != 0;
        let (float, both) = (kind.is_float(), shape.has(table::MODIFIES));
        if if float || both && modified { sdwa.signed[index] } else { modified } {
            return Err("a modifier of SDWA that the source lacks");
        }
    }
    if fields.encoding == Encoding::Vopc {
        if bit(word, 15) {
            fields.scalar = reserved.scalar(field(word, 8, 7), 2)?;
        }
    } else {
        sdwa.destination = bits(word, 8, 3) as u8;
        sdwa.unused = bits(word, 11, 2) as u8;
        fields.modifiers.clamp = bit(word, 13);
        fields.modifiers.scale = bits(word, 14, 2) as u8;
        if fields.modifiers.scale != 0 && !target_is_float(shape) {
            return Err("the scale of a result that is an integer");
        }
    }
    if sdwa.destination == 7 || sdwa.unused == 3 || sdwa.sources.contains(&7) {
        return Err("a selection of SDWA");
    }
    fields.route = Route::Sdwa(sdwa);
    Ok(())
}

fn dpp(fields: &mut Fields, shape: &Alu, word: u32, second: u16, reserved: &mut Reserved) -> Result<(), Reason> {
    if !has_routes(shape) {
        return Err("the instruction with DPP");
    }
    if !shape.sources.is_empty() {
        fields.sources[0] = field(word, 0, 8) + code::VECTOR;
    }
    if shape.sources.len() > 1 {
        fields.sources[1] = second + code::VECTOR;
    }
    let negate = (bits(word, 20, 1) | bits(word, 22, 1) << 1) as u8;
    let absolute = (bits(word, 21, 1) | bits(word, 23, 1) << 1) as u8;
    if shape.has(table::MODIFIES) {
        reserved.note(negate | absolute != 0, "a modifier with DPP");
    } else {
        set_modifiers(&mut fields.modifiers, shape, negate, absolute, reserved)?;
    }
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

fn target_is_float(shape: &Alu) -> bool {
    matches!(shape.target, Target::Register(kind) if kind.is_float())
}

/// Sets the sources' modifiers of VOP3 and DPP. Of a floating-point instruction, integer sources have the extension of
/// their sign instead of the negation.
fn set_modifiers(
    modifiers: &mut Modifiers,
    shape: &Alu,
    negate: u8,
    absolute: u8,
    reserved: &mut Reserved,
) -> Result<(), Reason> {
    for index in 0..3 {
        let bit = 1 << index;
        match shape.sources.get(index) {
            Some(kind) if kind.is_float() || shape.has(table::MODIFIES) => modifiers.absolute |= absolute & bit,
            // Comparisons with classes have none.
            Some(_) if shape.modifies() && !shape.has(table::NO_CLAMP) => {
                reserved.note((negate | absolute) & bit != 0, "a modifier of an integer source");
            }
            _ if (negate | absolute) & bit != 0 => return Err("a modifier that the source lacks"),
            _ => {}
        }
        modifiers.negate |= negate & bit;
    }
    Ok(())
}

/// The row of an opcode of VOP3, which contains the shorter encodings.
fn vector3_row(opcode: u16) -> Result<(&'static Row, &'static Alu, u16), Reason> {
    let (encoding, opcode) = match opcode {
        0..0x100 => (Encoding::Vopc, opcode),
        0x100..0x140 => (Encoding::Vop2, opcode - 0x100),
        0x140..0x1c0 => (Encoding::Vop1, opcode - 0x140),
        _ => (Encoding::Vop3, opcode),
    };
    let (row, shape) = alu(encoding, opcode)?;
    if shape.has(table::NO_VOP3) {
        return Err("the instruction in VOP3");
    }
    Ok((row, shape, opcode))
}

pub(super) fn vector3(words: [u32; 2]) -> Result<Instruction, Reason> {
    let [first, second] = words;
    let (row, shape, opcode) = vector3_row(field(first, 16, 10))?;
    let mut fields = Fields { encoding: Encoding::Vop3, opcode, ..Fields::default() };
    let mut reserved = Reserved::default();
    set_target(&mut fields, shape, field(first, 0, 8), &mut reserved)?;
    let codes = [field(second, 0, 9), field(second, 9, 9), field(second, 18, 9)];
    let mut used = shape.sources.len();
    for ((place, code), kind) in fields.sources.iter_mut().zip(codes).zip(shape.sources) {
        *place = reserved.source(code, kind.words() as u16, false)?;
    }
    if shape.has(table::SCALAR_LANE) {
        reserved.note(codes[1] >= code::VECTOR, "a vector register as the number of a lane");
    }
    if shape.has(table::CARRY_IN) {
        reserved.note(codes[used] >= 128, "a mask of lanes that is no scalar register");
        fields.sources[used] = reserved.source(codes[used], 2, false)?;
        if is_number(codes[used]) {
            return Err("a number as the mask of lanes");
        }
        used += 1;
    }
    let mut negate = bits(second, 29, 3) as u8;
    let (mut absolute, mut select) = (0, 0);
    if shape.has(table::CARRY_OUT) {
        fields.scalar = reserved.scalar(field(first, 8, 7), 2)?;
    } else {
        absolute = bits(first, 8, 3) as u8;
        select = bits(first, 11, 4) as u8;
    }
    if shape.target == Target::Scalar {
        reads_lane(codes[0], &mut reserved)?;
        let ignored = negate | absolute | select != 0 || codes[2] != 0;
        reserved.note(ignored, "bits that must be 0");
        (negate, absolute, select) = (0, 0, 0);
    } else if codes[used..].iter().any(|code| *code != 0) {
        return Err("a source that the instruction lacks");
    }
    set_modifiers(&mut fields.modifiers, shape, negate, absolute, &mut reserved)?;
    if shape.has(table::SELECT) {
        if used == 2 && select & 4 != 0 {
            return Err("the half of a source that the instruction lacks");
        }
        fields.modifiers.select = select;
    } else {
        reserved.note(select != 0, "halves of sources of 32 bits");
    }
    fields.modifiers.clamp = bit(first, 15);
    let clamps = shape.has(table::SATURATE | table::SELECT)
        || !shape.has(table::NO_CLAMP) && (shape.modifies() || target_is_float(shape));
    if fields.modifiers.clamp && !clamps {
        return Err("a clamp that the instruction lacks");
    }
    fields.modifiers.scale = bits(second, 27, 2) as u8;
    let scales = shape.has(table::SCALES) || target_is_float(shape) && !shape.has(table::SELECT);
    if fields.modifiers.scale != 0 && !scales {
        return Err("the scale of a result that is an integer");
    }
    Ok(Instruction { row, fields, length: 8, reserved: reserved.reason() })
}

pub(super) fn packed(words: [u32; 2]) -> Result<Instruction, Reason> {
    let [first, second] = words;
    let opcode = field(first, 16, 7);
    let (row, shape) = alu(Encoding::Vop3p, opcode).map_err(|_| NO_ROW)?;
    let mut fields = Fields { encoding: Encoding::Vop3p, opcode, ..Fields::default() };
    let mut reserved = Reserved::default();
    set_target(&mut fields, shape, field(first, 0, 8), &mut reserved)?;
    // `absolute` is the negation of the high halves.
    fields.modifiers = Modifiers {
        absolute: bits(first, 8, 3) as u8,
        negate: bits(second, 29, 3) as u8,
        select: bits(first, 11, 3) as u8,
        select_high: (bits(second, 27, 2) | bits(first, 14, 1) << 2) as u8,
        clamp: bit(first, 15),
        scale: 0,
    };
    let codes = [field(second, 0, 9), field(second, 9, 9), field(second, 18, 9)];
    for (index, code) in codes.into_iter().enumerate() {
        let negated = (fields.modifiers.absolute | fields.modifiers.negate) >> index & 1 != 0;
        let Some(kind) = shape.sources.get(index) else {
            if code != 0 || negated || fields.modifiers.select >> index & 1 != 0 {
                return Err("a source that the instruction lacks");
            }
            continue;
        };
        fields.sources[index] = reserved.source(code, 1, false)?;
        if negated && !kind.is_float() {
            // Only the first one of several pairs of integers can be negated.
            if index > 0 && *kind == Kind::Pair16 {
                return Err("the negation of integers");
            }
            reserved.note(true, "the negation of integers");
        }
    }
    Ok(Instruction { row, fields, length: 8, reserved: reserved.reason() })
}
