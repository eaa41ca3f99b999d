//! Instructions as LLVM's disassembler writes them.

mod memory;
mod number;
mod operand;
mod vector;

use std::fmt;

use crate::decode::Instruction;
use crate::table::{self, Alu, Encoding, Number, Shape, Target};
use crate::value::Kind;
use operand::{Scalars, Source};

impl fmt::Display for Instruction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.row.shape {
            Shape::Access(shape) => memory::write(formatter, self.row.name, shape, &self.fields),
            Shape::Alu(shape) => match self.fields.encoding {
                Encoding::Sop2 | Encoding::Sop1 | Encoding::Sopc | Encoding::Sopk | Encoding::Sopp => {
                    scalar(formatter, self, shape)
                }
                _ => vector::write(formatter, self.row, shape, &self.fields),
            },
        }
    }
}

/// Writes operands with what separates them.
struct List<'a, 'f> {
    formatter: &'a mut fmt::Formatter<'f>,
    separator: &'static str,
}

impl<'a, 'f> List<'a, 'f> {
    /// The operands after a name.
    fn new(formatter: &'a mut fmt::Formatter<'f>) -> Self {
        Self { formatter, separator: " " }
    }

    fn operand(&mut self, operand: impl fmt::Display) -> fmt::Result {
        write!(self.formatter, "{}{operand}", self.separator)?;
        self.separator = ", ";
        Ok(())
    }

    /// Writes what follows the operands, without a comma.
    fn modifier(&mut self, present: bool, modifier: impl fmt::Display) -> fmt::Result {
        if present { write!(self.formatter, " {modifier}") } else { Ok(()) }
    }
}

fn scalar(formatter: &mut fmt::Formatter<'_>, instruction: &Instruction, shape: &Alu) -> fmt::Result {
    let fields = &instruction.fields;
    formatter.write_str(instruction.row.name)?;
    let mut list = List::new(formatter);
    let number = number::Text { number: shape.number, bits: fields.offset as u16 };
    let has_number = match shape.number {
        Number::None => false,
        Number::Optional => fields.offset != 0,
        _ => true,
    };
    if has_number && shape.has(table::NUMBER_FIRST) {
        list.operand(&number)?;
    }
    if let Target::Register(kind) = shape.target {
        list.operand(Scalars { code: fields.destination, words: kind.words() as u16 })?;
    }
    for (code, kind) in fields.sources.iter().zip(shape.sources) {
        // Halves of scalar registers are written as the whole ones.
        let kind = if kind.is_short() { Kind::Int32 } else { *kind };
        list.operand(Source { code: *code, kind, literal: fields.literal })?;
    }
    if has_number && !shape.has(table::NUMBER_FIRST) {
        list.operand(&number)?;
    }
    if shape.has(table::LITERAL) {
        list.operand(operand::Constant { value: fields.literal, kind: Kind::Int32 })?;
    }
    Ok(())
}
