//! The instructions: one row each, in the file of their encoding.
//!
//! A row has the opcode, the assembler's name, the operands, and the meaning as a closure. To add an instruction, add
//! its row: the decoder, the text and the interpreter follow it.

mod compare;
mod image;
mod math;
mod memory;
mod packed;
mod scalar;
mod shared;
mod vector;

use std::sync::LazyLock;

use crate::Result;
use crate::decode::Fields;
use crate::dispatch::Unit;
use crate::value::Kind;

/// Encoding of an instruction's words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Encoding {
    #[default]
    Sop2,
    Sop1,
    Sopc,
    Sopk,
    Sopp,
    Smem,
    Vop1,
    Vop2,
    Vopc,
    Vop3,
    Vop3p,
    Ds,
    Flat,
    Scratch,
    Global,
    Mubuf,
    Mtbuf,
    Mimg,
}

/// Executes an instruction.
pub(crate) type Execute = fn(&mut Unit<'_, '_>, &Fields) -> Result<()>;

/// An instruction.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) opcode: u16,
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) execute: Execute,
}

const fn row(opcode: u16, name: &'static str, (shape, execute): (Shape, Execute)) -> Row {
    Row { opcode, name, shape, execute }
}

/// Operands of an instruction.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    Alu(Alu),
    Access(Access),
}

/// Operands of an instruction of the scalar or vector units.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Alu {
    pub(crate) target: Target,
    pub(crate) sources: &'static [Kind],
    /// Of SOPK and SOPP.
    pub(crate) number: Number,
    /// The constants below.
    pub(crate) traits: u32,
}

/// How the assembler writes the 16-bit number of SOPK and SOPP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    /// There is none: its bits are 0.
    None,
    /// As a constant.
    Plain,
    Hexadecimal,
    /// If it is not 0.
    Optional,
    /// A branch's distance in words.
    Distance,
    /// The counters of `s_waitcnt`.
    Counters,
    /// A message to the host.
    Message,
    /// Bits of a hardware register.
    HardwareRegister,
}

impl Alu {
    pub(crate) const fn has(&self, property: u32) -> bool {
        self.traits & property != 0
    }

    /// `true` if the assembler sees floating-point sources.
    pub(crate) fn modifies(&self) -> bool {
        self.has(MODIFIES) || self.sources.iter().any(|kind| kind.is_float())
    }
}

/// The destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    None,
    /// Vector registers; of the scalar encodings, scalar ones.
    Register(Kind),
    /// A scalar register written by a vector instruction.
    Scalar,
    /// A mask of lanes in a pair of scalar registers.
    Mask,
}

/// The words include a literal.
pub(crate) const LITERAL: u32 = 1;
/// There is no form in VOP3.
pub(crate) const NO_VOP3: u32 = 1 << 1;
/// There are no forms with SDWA and DPP.
pub(crate) const NO_ROUTE: u32 = 1 << 2;
/// A mask of carries is read, and written.
pub(crate) const CARRY_IN: u32 = 1 << 3;
pub(crate) const CARRY_OUT: u32 = 1 << 4;
/// Halves of registers can be selected.
pub(crate) const SELECT: u32 = 1 << 5;
/// An integer instruction with a clamp, as saturation.
pub(crate) const SATURATE: u32 = 1 << 6;
/// A floating-point instruction as the assembler sees it, although its operands are moved as integers: their signs can be
/// changed.
pub(crate) const MODIFIES: u32 = 1 << 7;
/// The number precedes the register (of `s_setreg`).
pub(crate) const NUMBER_FIRST: u32 = 1 << 8;
/// The destination is also the last source (of `v_mac`).
pub(crate) const ACCUMULATES: u32 = 1 << 9;
/// The result can be scaled in VOP3 although it is not a floating-point number.
pub(crate) const SCALES: u32 = 1 << 10;
/// There is no clamp in VOP3 although there are floating-point operands.
pub(crate) const NO_CLAMP: u32 = 1 << 11;
/// There is no form with SDWA.
pub(crate) const NO_SDWA: u32 = 1 << 12;
/// The source is a vector register: its code has 8 bits.
pub(crate) const VECTORS: u32 = 1 << 13;
/// The literal is the last operand (of `v_madak`).
pub(crate) const LITERAL_LAST: u32 = 1 << 14;
/// Sources are words or halves of words (of `v_fma_mix`).
pub(crate) const MIXES: u32 = 1 << 15;
/// Sources are registers, not numbers.
pub(crate) const NO_NUMBER: u32 = 1 << 16;
/// The second source is the number of a lane, which is scalar.
pub(crate) const SCALAR_LANE: u32 = 1 << 17;

impl Shape {
    pub(crate) const fn alu(target: Target, sources: &'static [Kind], traits: u32) -> Self {
        Self::Alu(Alu { target, sources, number: Number::None, traits })
    }

    pub(crate) const fn number(target: Target, number: Number, traits: u32) -> Self {
        Self::Alu(Alu { target, sources: &[], number, traits })
    }
}

/// Operands of a memory instruction, in registers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    /// Registers of the result.
    pub(crate) result: u8,
    /// Registers of the data that are written, of one operand.
    pub(crate) data: u8,
    /// Operands of data: 0 to 2.
    pub(crate) operands: u8,
    /// An atomic operation: the result is optional.
    pub(crate) atomic: bool,
    /// LDS: the offset is two of 8 bits.
    pub(crate) pair: bool,
    /// There is an address.
    pub(crate) address: bool,
    /// SMEM: scalar registers of the base.
    pub(crate) base: u8,
    /// LDS: an exchange between lanes, without access to memory.
    pub(crate) exchange: bool,
    /// MUBUF: the result can be stored in LDS.
    pub(crate) to_shared: bool,
    /// MIMG: registers of the address before the coordinates.
    pub(crate) before: u8,
    /// MIMG: there is a sampler.
    pub(crate) sampled: bool,
    /// MIMG: the results are one component of four elements.
    pub(crate) gather: bool,
}

impl Access {
    const NONE: Self = Self {
        result: 0,
        data: 0,
        operands: 0,
        atomic: false,
        pair: false,
        address: false,
        base: 2,
        exchange: false,
        to_shared: false,
        before: 0,
        sampled: false,
        gather: false,
    };

    const fn load(result: u8) -> Shape {
        Shape::Access(Self { result, address: true, ..Self::NONE })
    }

    /// A scalar load through a descriptor.
    const fn load_described(result: u8) -> Shape {
        Shape::Access(Self { result, address: true, base: 4, ..Self::NONE })
    }

    /// A load into vector registers, or into LDS.
    const fn load_anywhere(result: u8) -> Shape {
        Shape::Access(Self { result, address: true, to_shared: true, ..Self::NONE })
    }

    /// A result without an access: a clock.
    const fn result(result: u8) -> Shape {
        Shape::Access(Self { result, ..Self::NONE })
    }

    const fn store(data: u8) -> Shape {
        Shape::Access(Self { data, operands: 1, address: true, ..Self::NONE })
    }

    const fn nothing() -> Shape {
        Shape::Access(Self::NONE)
    }
}

/// The rows of an encoding by opcode.
type Index = Vec<Option<&'static Row>>;

/// The row of an opcode.
pub(crate) fn find(encoding: Encoding, opcode: u16) -> Option<&'static Row> {
    static INDEX: LazyLock<[Index; ENCODINGS.len()]> = LazyLock::new(|| {
        ENCODINGS.map(|(_, tables)| {
            let mut index = vec![None; 0x400];
            for row in tables.iter().copied().flatten() {
                index[usize::from(row.opcode)] = Some(row);
            }
            index
        })
    });
    INDEX.get(encoding as usize)?.get(usize::from(opcode)).copied().flatten()
}

/// All rows.
#[cfg(all(test, target_os = "linux"))]
pub(crate) fn rows() -> impl Iterator<Item = (Encoding, &'static Row)> {
    ENCODINGS.iter().flat_map(|(encoding, tables)| tables.iter().copied().flatten().map(|row| (*encoding, row)))
}

/// All tables, in the order of [`Encoding`].
static ENCODINGS: [(Encoding, &[&[Row]]); 18] = [
    (Encoding::Sop2, &[scalar::SOP2]),
    (Encoding::Sop1, &[scalar::SOP1]),
    (Encoding::Sopc, &[scalar::SOPC]),
    (Encoding::Sopk, &[scalar::SOPK]),
    (Encoding::Sopp, &[scalar::SOPP]),
    (Encoding::Smem, &[memory::SMEM]),
    (Encoding::Vop1, &[vector::VOP1]),
    (Encoding::Vop2, &[vector::VOP2]),
    (Encoding::Vopc, &[compare::CLASSES, compare::HALF, compare::SINGLE, compare::DOUBLE, compare::INTEGERS]),
    (Encoding::Vop3, &[vector::VOP3]),
    (Encoding::Vop3p, &[packed::VOP3P]),
    (Encoding::Ds, &[shared::DS]),
    (Encoding::Flat, &[memory::FLAT, memory::FLAT_ATOMICS]),
    (Encoding::Scratch, &[memory::SCRATCH]),
    (Encoding::Global, &[memory::GLOBAL, memory::GLOBAL_ATOMICS]),
    (Encoding::Mubuf, &[memory::MUBUF_FORMATS, memory::MUBUF, memory::MUBUF_CACHES, memory::MUBUF_ATOMICS]),
    (Encoding::Mtbuf, &[memory::MTBUF]),
    (Encoding::Mimg, &[image::MIMG]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_in_order_and_no_opcode_is_twice() {
        for (place, (encoding, tables)) in ENCODINGS.iter().enumerate() {
            assert_eq!(*encoding as usize, place);
            let mut opcodes: Vec<_> = tables.iter().copied().flatten().map(|row| row.opcode).collect();
            opcodes.sort_unstable();
            for pair in opcodes.windows(2) {
                assert_ne!(pair[0], pair[1], "{encoding:?}");
            }
        }
    }
}
