//! Instructions of the vector unit.

use std::fmt;

use super::List;
use super::operand::{Scalars, Source, Vectors};
use crate::decode::{Dpp, Fields, Modifiers, Route, Sdwa};
use crate::table::{self, Alu, Encoding, Row, Target};
use crate::value::Kind;
use crate::wave::code;

pub(super) fn write(formatter: &mut fmt::Formatter<'_>, row: &Row, shape: &Alu, fields: &Fields) -> fmt::Result {
    formatter.write_str(row.name)?;
    formatter.write_str(suffix(row, shape, fields))?;
    let mut list = List::new(formatter);
    match shape.target {
        Target::None => {}
        Target::Register(kind) => {
            list.operand(Vectors { first: fields.destination, words: kind.words() as u16 })?;
        }
        Target::Scalar => list.operand(Scalars { code: fields.destination, words: 1 })?,
        Target::Mask => list.operand(Scalars { code: fields.scalar, words: 2 })?,
    }
    if shape.has(table::CARRY_OUT) {
        list.operand(Scalars { code: fields.scalar, words: 2 })?;
    }
    for index in 0..shape.sources.len() {
        // The literal of `v_madmk` is the second factor.
        if index == 1 && shape.has(table::LITERAL) && !shape.has(table::LITERAL_LAST) {
            list.operand(format_args!("{:#x}", fields.literal))?;
        }
        list.operand(Modified { shape, fields, index })?;
    }
    if shape.has(table::LITERAL_LAST) {
        list.operand(format_args!("{:#x}", fields.literal))?;
    }
    if shape.has(table::CARRY_IN) {
        let mask = fields.sources[shape.sources.len()];
        list.operand(Source { code: mask, kind: Kind::Int64, literal: 0 })?;
    }
    match fields.encoding {
        Encoding::Vop3p => packed(&mut list, shape, &fields.modifiers),
        _ => modifiers(&mut list, shape, fields),
    }
}

/// The form of an instruction that has several.
fn suffix(row: &Row, shape: &Alu, fields: &Fields) -> &'static str {
    let only_long = row.opcode >= 0x1c0 || fields.encoding == Encoding::Vop3p;
    match (fields.route, fields.encoding) {
        _ if shape.target == Target::None => "",
        (Route::Sdwa(_), _) => "_sdwa",
        (Route::Dpp(_), _) => "_dpp",
        _ if only_long || shape.has(table::NO_VOP3) => "",
        (_, Encoding::Vop3) => "_e64",
        _ => "_e32",
    }
}

/// A source with the change of its sign.
struct Modified<'a> {
    shape: &'a Alu,
    fields: &'a Fields,
    index: usize,
}

impl fmt::Display for Modified<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shape, fields, index } = self;
        let kind = shape.sources[*index];
        let number = fields.sources[*index];
        let written = match fields.route {
            // The exponent of `v_ldexp`.
            _ if kind == Kind::Int16 && shape.modifies() => Kind::Float16,
            Route::Direct
                if number == code::LITERAL && shape.has(table::LITERAL) && !shape.has(table::LITERAL_LAST) =>
            {
                Kind::Int32
            }
            _ => kind,
        };
        let source = Source { code: number, kind: written, literal: fields.literal };
        let has = |bits: u8| bits >> index & 1 != 0;
        let mixes = shape.has(table::MIXES);
        if fields.encoding == Encoding::Vop3p && !mixes {
            return source.fmt(formatter);
        }
        let negate = has(fields.modifiers.negate);
        let signed = matches!(fields.route, Route::Sdwa(sdwa) if sdwa.signed[*index]);
        if signed || negate && !kind.is_float() && !shape.has(table::MODIFIES) {
            return write!(formatter, "sext({source})");
        }
        match (negate, has(fields.modifiers.absolute)) {
            (false, false) => source.fmt(formatter),
            (false, true) => write!(formatter, "|{source}|"),
            // A minus sign before a number would be the number's.
            (true, false) if source.is_number() => write!(formatter, "neg({source})"),
            (true, false) => write!(formatter, "-{source}"),
            (true, true) => write!(formatter, "-|{source}|"),
        }
    }
}

/// One bit per operand: `op_sel:[1,0]`.
struct Bits(&'static str, u8, usize);

impl fmt::Display for Bits {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name, bits, count) = self;
        write!(formatter, "{name}:[")?;
        for index in 0..*count {
            let separator = if index == 0 { "" } else { "," };
            write!(formatter, "{separator}{}", bits >> index & 1)?;
        }
        formatter.write_str("]")
    }
}

fn packed(list: &mut List<'_, '_>, shape: &Alu, modifiers: &Modifiers) -> fmt::Result {
    let count = shape.sources.len();
    let all = (1 << count) - 1;
    let Modifiers { absolute, negate, select, select_high, clamp, .. } = *modifiers;
    let mixes = shape.has(table::MIXES);
    // Packed instructions take the high result from the high halves, mixed ones whole words.
    let usual = if mixes { 0 } else { all };
    list.modifier(select & all != 0, Bits("op_sel", select, count))?;
    list.modifier(select_high & all != usual, Bits("op_sel_hi", select_high, count))?;
    if !mixes {
        list.modifier(negate & all != 0, Bits("neg_lo", negate, count))?;
        list.modifier(absolute & all != 0, Bits("neg_hi", absolute, count))?;
    }
    list.modifier(clamp, "clamp")
}

fn modifiers(list: &mut List<'_, '_>, shape: &Alu, fields: &Fields) -> fmt::Result {
    let Modifiers { select, clamp, scale, .. } = fields.modifiers;
    if select != 0 {
        // The last bit is that of the destination.
        let count = shape.sources.len();
        let bits = select & ((1 << count) - 1) | select >> 3 << count;
        list.modifier(true, Bits("op_sel", bits, count + 1))?;
    }
    list.modifier(clamp, "clamp")?;
    list.modifier(scale != 0, ["", "mul:2", "mul:4", "div:2"][usize::from(scale & 3)])?;
    match &fields.route {
        Route::Direct => Ok(()),
        Route::Sdwa(sdwa) => selections(list, shape, sdwa),
        Route::Dpp(dpp) => lanes(list, dpp),
    }
}

const PARTS: [&str; 8] = ["BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD", "reserved"];
const UNUSED: [&str; 4] = ["PAD", "SEXT", "PRESERVE", "reserved"];

fn selections(list: &mut List<'_, '_>, shape: &Alu, sdwa: &Sdwa) -> fmt::Result {
    let part = |number: u8| PARTS[usize::from(number & 7)];
    if shape.target != Target::Mask {
        list.modifier(true, format_args!("dst_sel:{}", part(sdwa.destination)))?;
        list.modifier(true, format_args!("dst_unused:UNUSED_{}", UNUSED[usize::from(sdwa.unused & 3)]))?;
    }
    list.modifier(true, format_args!("src0_sel:{}", part(sdwa.sources[0])))?;
    list.modifier(shape.sources.len() > 1, format_args!("src1_sel:{}", part(sdwa.sources[1])))
}

fn lanes(list: &mut List<'_, '_>, dpp: &Dpp) -> fmt::Result {
    let control = dpp.control;
    match control {
        0..=0xff => {
            let lane = |place: u16| control >> (2 * place) & 3;
            list.modifier(true, format_args!("quad_perm:[{},{},{},{}]", lane(0), lane(1), lane(2), lane(3)))?;
        }
        0x130 => list.modifier(true, "wave_shl:1")?,
        0x134 => list.modifier(true, "wave_rol:1")?,
        0x138 => list.modifier(true, "wave_shr:1")?,
        0x13c => list.modifier(true, "wave_ror:1")?,
        0x140 => list.modifier(true, "row_mirror")?,
        0x141 => list.modifier(true, "row_half_mirror")?,
        0x142 => list.modifier(true, "row_bcast:15")?,
        0x143 => list.modifier(true, "row_bcast:31")?,
        _ => {
            let direction = ["shl", "shr", "ror"][usize::from((control >> 4 & 3).min(2))];
            list.modifier(true, format_args!("row_{direction}:{}", control & 15))?;
        }
    }
    list.modifier(true, format_args!("row_mask:{:#x}", dpp.rows))?;
    list.modifier(true, format_args!("bank_mask:{:#x}", dpp.banks))?;
    list.modifier(dpp.bound, "bound_ctrl:1")
}
