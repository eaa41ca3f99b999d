//! Registers and constants.

use std::fmt;

use crate::decode::{Scalar, is_number, named, scalar_registers};
use crate::value::{FLOATS, Kind};
use crate::wave::code;

/// Scalar registers, of the code of the first one.
pub(super) struct Scalars {
    pub(super) code: u16,
    pub(super) words: u16,
}

impl fmt::Display for Scalars {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match scalar_registers(self.code, self.words) {
            Some(Scalar::General(first)) => registers(formatter, "s", first, self.words),
            Some(Scalar::Trap(first)) => registers(formatter, "ttmp", first, self.words),
            Some(Scalar::Special(name)) => formatter.write_str(name),
            None => formatter.write_str(named(self.code).unwrap_or("a reserved register")),
        }
    }
}

/// Vector registers, of the number of the first one.
pub(super) struct Vectors {
    pub(super) first: u16,
    pub(super) words: u16,
}

impl fmt::Display for Vectors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        registers(formatter, "v", self.first, self.words)
    }
}

fn registers(formatter: &mut fmt::Formatter<'_>, prefix: &str, first: u16, words: u16) -> fmt::Result {
    match words {
        1 => write!(formatter, "{prefix}{first}"),
        _ => write!(formatter, "{prefix}[{first}:{}]", first + words - 1),
    }
}

/// A source of a type.
pub(super) struct Source {
    pub(super) code: u16,
    pub(super) kind: Kind,
    pub(super) literal: u32,
}

impl Source {
    pub(super) fn is_number(&self) -> bool {
        is_number(self.code)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.kind.words() as u16;
        match self.code {
            0..128 => Scalars { code: self.code, words }.fmt(formatter),
            128..=192 => write!(formatter, "{}", self.code - 128),
            193..=208 => write!(formatter, "{}", 192 - i32::from(self.code)),
            240..=248 => float(formatter, usize::from(self.code - 240), self.kind),
            code::LITERAL => Constant { value: self.literal, kind: self.kind }.fmt(formatter),
            code::VECTOR.. => Vectors { first: self.code - code::VECTOR, words }.fmt(formatter),
            _ => formatter.write_str(named(self.code).unwrap_or("a reserved source")),
        }
    }
}

/// The names of the floating-point constants.
const NAMES: [&str; 9] = ["0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0", "0.15915494"];

/// Writes a floating-point constant. Integers of 16 bits have its bits.
fn float(formatter: &mut fmt::Formatter<'_>, index: usize, kind: Kind) -> fmt::Result {
    match kind {
        Kind::Int16 | Kind::Pair16 => write!(formatter, "{:#x}", FLOATS[index][0]),
        Kind::Int64 | Kind::Float64 if index == 8 => formatter.write_str("0.15915494309189532"),
        _ => formatter.write_str(NAMES[index]),
    }
}

/// A literal. One with the value of a constant is written as the constant.
pub(super) struct Constant {
    pub(super) value: u32,
    pub(super) kind: Kind,
}

impl fmt::Display for Constant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = match self.kind {
            Kind::Int16 | Kind::Float16 | Kind::Pair16 | Kind::PairFloat16 => 0,
            Kind::Int32 | Kind::Float32 => 1,
            Kind::Int64 | Kind::Float64 => 2,
        };
        let signed = match size {
            0 => i64::from(self.value as i16),
            1 => i64::from(self.value.cast_signed()),
            _ => i64::from(self.value),
        };
        if (-16..=64).contains(&signed) {
            return write!(formatter, "{signed}");
        }
        if self.kind == Kind::Int16 {
            return write!(formatter, "{:#x}", self.value as u16);
        }
        match FLOATS.iter().position(|sizes| sizes[size] == u64::from(self.value)) {
            Some(index) => float(formatter, index, self.kind),
            None if size == 0 => write!(formatter, "{:#x}", self.value as u16),
            None => write!(formatter, "{:#x}", self.value),
        }
    }
}
