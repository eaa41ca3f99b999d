//! Expressions of floating-point numbers whose results are exact or rounded once, in every implementation.
//!
//! A number is a multiple of a power of two and smaller than another one. So no result is infinite, denormal or NaN,
//! whose treatment implementations may choose. The sign of zero is not stored: that of a minimum is free.

use spirv::{Decoration, GlslStd450Op as GLOp, Op};

use super::Generator;
use crate::assembler::Id;

/// A multiple of `1 << low`, smaller than `1 << high`.
#[derive(Debug, Clone, Copy)]
struct Number {
    id: Id,
    low: i32,
    high: i32,
}

/// A type: the width, the bits of a mantissa, and the exponents of normal numbers.
#[derive(Debug, Clone, Copy)]
struct Float {
    width: u32,
    mantissa: i32,
    least: i32,
    most: i32,
}

const FLOATS: [Float; 3] = [
    Float { width: 32, mantissa: 24, least: -126, most: 127 },
    Float { width: 16, mantissa: 11, least: -14, most: 15 },
    Float { width: 64, mantissa: 53, least: -1022, most: 1023 },
];

impl Float {
    /// `true` if no such number is denormal, or too large.
    const fn has(self, low: i32, high: i32) -> bool {
        low >= self.least && high <= self.most
    }

    /// `true` if such numbers are not rounded.
    const fn is_exact(self, low: i32, high: i32) -> bool {
        self.has(low, high) && high - low <= self.mantissa
    }

    /// A power of two.
    const fn power(self, exponent: i32) -> u64 {
        ((exponent + self.most) as u64) << (self.mantissa - 1)
    }
}

impl Generator {
    fn float(&mut self, float: Float, exponent: i32) -> Id {
        self.module.float_constant(float.width, float.power(exponent))
    }

    /// An operation that must not be combined with another one.
    fn exact(&mut self, operation: Op, kind: Id, operands: &[Id]) -> Id {
        let id = self.module.value(operation, kind, operands);
        self.module.decorate(id, Decoration::NoContraction, &[]);
        id
    }

    /// A number of an integer, or of its bits.
    fn number_leaf(&mut self, float: Float, uniform: bool) -> Number {
        let Float { width, mantissa, .. } = float;
        let kind = self.module.float(width);
        let signed = self.random.chance(50);
        let operation = if signed { Op::ConvertSToF } else { Op::ConvertUToF };
        if self.random.chance(40) {
            // The sign and the mantissa, with an exponent near 0.
            let integer = self.module.integer(width);
            let mask = 1 << (width - 1) | ((1 << (mantissa - 1)) - 1);
            let exponent = self.random.below(9) as i32 - 4;
            let (bits, power) = (self.masked(width, 1, uniform, mask), float.power(exponent));
            let power = self.module.constant(width, power);
            let bits = self.module.value(Op::BitwiseOr, integer, &[bits, power]);
            let id = self.module.value(Op::Bitcast, kind, &[bits]);
            return Number { id, low: exponent - mantissa + 1, high: exponent + 1 };
        }
        if width == 16 {
            let from = self.random.pick(&[8, 16, 32]);
            let mask = if from == 8 { 0xff } else { 0x3ff };
            let value = self.masked(from, 1, uniform, mask);
            let id = self.module.value(operation, kind, &[value]);
            return Number { id, low: 0, high: 10 };
        }
        let from = self.random.pick(&[8, 16, 32, 32, 64]);
        // RADV rounds 64 bits to 53 first, and then to 24.
        let mask = if (from, width) == (64, 32) { (1 << 53) - 1 } else { u64::MAX };
        let value = self.masked(from, 1, uniform, mask);
        let id = self.module.value(operation, kind, &[value]);
        // Rounding can lead to the next power of two.
        Number { id, low: 0, high: from as i32 + 1 }
    }

    fn number(&mut self, float: Float, depth: u32, uniform: bool) -> Number {
        if depth == 0 || self.random.chance(10) {
            return self.number_leaf(float, uniform);
        }
        let depth = depth - 1;
        let kind = self.module.float(float.width);
        let a = self.number(float, depth, uniform);
        match self.random.below(100) {
            0..40 => {
                let b = self.number(float, depth, uniform);
                let (operation, low, high) = match self.random.below(3) {
                    0 => (Op::FAdd, a.low.min(b.low), a.high.max(b.high) + 1),
                    1 => (Op::FSub, a.low.min(b.low), a.high.max(b.high) + 1),
                    _ => (Op::FMul, a.low + b.low, a.high + b.high),
                };
                if !float.has(low, high) {
                    return a;
                }
                let id = if float.width == 16 && self.random.chance(50) {
                    self.pair_of(operation, a.id, b.id)
                } else {
                    self.exact(operation, kind, &[a.id, b.id])
                };
                Number { id, low, high }
            }
            40..50 => {
                let (b, c) = (self.number(float, depth, uniform), self.number(float, depth, uniform));
                let (low, high) = ((a.low + b.low).min(c.low), (a.high + b.high).max(c.high) + 1);
                // Implementations may round the product, too.
                if !float.is_exact(low, high) {
                    return a;
                }
                let id = self.module.extended(GLOp::Fma, kind, &[a.id, b.id, c.id]);
                Number { id, low, high }
            }
            50..60 => {
                let b = self.number(float, depth, uniform);
                let operation = self.random.pick(&[GLOp::FMin, GLOp::FMax]);
                let id = self.module.extended(operation, kind, &[a.id, b.id]);
                Number { id, low: a.low.min(b.low), high: a.high.max(b.high) }
            }
            60..70 => {
                let operation = self.random.pick(&[GLOp::Floor, GLOp::Ceil, GLOp::Trunc, GLOp::RoundEven]);
                let id = self.module.extended(operation, kind, &[a.id]);
                Number { id, low: a.low.max(0), high: a.high.max(0) + 1 }
            }
            70..76 => {
                let id = match self.random.below(2) {
                    0 => self.module.value(Op::FNegate, kind, &[a.id]),
                    _ => self.module.extended(GLOp::FAbs, kind, &[a.id]),
                };
                Number { id, ..a }
            }
            76..80 => {
                let id = self.module.extended(GLOp::FSign, kind, &[a.id]);
                Number { id, low: 0, high: 1 }
            }
            80..85 => {
                let (b, condition) = (self.number(float, depth, uniform), self.condition(depth, uniform));
                let id = self.module.value(Op::Select, kind, &[condition, a.id, b.id]);
                Number { id, low: a.low.min(b.low), high: a.high.max(b.high) }
            }
            85..90 => {
                let (first, last) = (self.random.below(5) as i32 - 5, self.random.below(9) as i32);
                let (first_id, last_id) = (self.float(float, first), self.float(float, last));
                let id = self.module.extended(GLOp::FClamp, kind, &[a.id, first_id, last_id]);
                Number { id, low: a.low.min(first), high: last + 1 }
            }
            90..94 => {
                let exponent = self.random.below(11) as i32 - 5;
                if !float.has(a.low + exponent, a.high + exponent) {
                    return a;
                }
                let exponent_id = self.module.constant(32, exponent as u64);
                let id = self.module.extended(GLOp::Ldexp, kind, &[a.id, exponent_id]);
                Number { id, low: a.low + exponent, high: a.high + exponent }
            }
            _ => {
                let others: Vec<Float> = FLOATS.into_iter().filter(|other| other.width != float.width).collect();
                let other = self.random.pick(&others);
                let from = self.number(other, depth, uniform);
                if !float.has(from.low, from.high + 1) {
                    return a;
                }
                let id = self.module.value(Op::FConvert, kind, &[from.id]);
                Number { id, low: from.low, high: from.high + 1 }
            }
        }
    }

    /// One of two equal operations at once.
    fn pair_of(&mut self, operation: Op, a: Id, b: Id) -> Id {
        let kind = self.module.float(16);
        let pair = self.module.vector(kind, 2);
        let [first, second] = [[a, b], [b, a]].map(|both| self.module.value(Op::CompositeConstruct, pair, &both));
        let both = self.exact(operation, pair, &[first, second]);
        self.module.value_with(Op::CompositeExtract, kind, &[both], &[0])
    }

    /// An integer of a random number: its bits, its integral part, or a comparison.
    pub(super) fn float_bits(&mut self, width: u32, depth: u32, uniform: bool) -> Id {
        let integer = self.module.integer(width);
        let float = self.random.pick(&FLOATS);
        let number = self.number(float, depth + 1, uniform);
        if width == float.width && self.random.chance(60) {
            let (flag, zero) = (self.module.boolean(), self.module.float_constant(width, 0));
            let is_zero = self.module.value(Op::FOrdEqual, flag, &[number.id, zero]);
            let bits = self.module.value(Op::Bitcast, integer, &[number.id]);
            let zero = self.module.constant(width, 0);
            return self.module.value(Op::Select, integer, &[is_zero, zero, bits]);
        }
        if number.high < width as i32 {
            // Mesa 22.3's compiler for AMD shifts numbers of 24 bits and more by 32 bits too many here: it puts the
            // mantissa into the high word, and shifts it to the left.
            let wrong = width == 64 && float.width < 64 && number.high > 23;
            if self.random.chance(50) || wrong {
                return self.module.value(Op::ConvertFToS, integer, &[number.id]);
            }
            let kind = self.module.float(float.width);
            let positive = self.module.extended(GLOp::FAbs, kind, &[number.id]);
            return self.module.value(Op::ConvertFToU, integer, &[positive]);
        }
        let other = self.number(float, depth, uniform);
        let condition = self.float_comparison(number.id, other.id);
        let (yes, no) = (self.constant(width), self.constant(width));
        self.module.value(Op::Select, integer, &[condition, yes, no])
    }

    fn float_comparison(&mut self, a: Id, b: Id) -> Id {
        let flag = self.module.boolean();
        let operation = self.random.pick(&[
            Op::FOrdEqual,
            Op::FUnordEqual,
            Op::FOrdNotEqual,
            Op::FUnordNotEqual,
            Op::FOrdLessThan,
            Op::FUnordLessThan,
            Op::FOrdGreaterThan,
            Op::FUnordGreaterThan,
            Op::FOrdLessThanEqual,
            Op::FUnordLessThanEqual,
            Op::FOrdGreaterThanEqual,
            Op::FUnordGreaterThanEqual,
        ]);
        self.module.value(operation, flag, &[a, b])
    }

    /// A condition of numbers that can be infinite or NaN, but not denormal.
    pub(super) fn float_condition(&mut self, depth: u32, uniform: bool) -> Id {
        let float = self.random.pick(&FLOATS);
        let kind = self.module.float(float.width);
        let integer = self.module.integer(float.width);
        let [a, b] = [(); 2].map(|()| {
            let bits = self.expression(float.width, depth.min(1), uniform);
            let exponent = self.random.pick(&[1 - float.most, float.most, float.most + 1]);
            let ones = self.module.constant(float.width, float.power(exponent));
            let bits = self.module.value(Op::BitwiseOr, integer, &[bits, ones]);
            self.module.value(Op::Bitcast, kind, &[bits])
        });
        let flag = self.module.boolean();
        match self.random.below(8) {
            0 => self.module.value(Op::IsNan, flag, &[a]),
            1 => self.module.value(Op::IsInf, flag, &[a]),
            _ => self.float_comparison(a, b),
        }
    }
}
