//! Expressions of integers, and conditions.

use spirv::{GlslStd450Op as GLOp, Op, StorageClass};

use super::{CONSTANTS, Generator, UNIFORM, VARIABLES, WIDTHS};
use crate::assembler::Id;

const SIMPLE: [Op; 6] = [Op::IAdd, Op::ISub, Op::IMul, Op::BitwiseAnd, Op::BitwiseOr, Op::BitwiseXor];
const LIMITS: [GLOp; 4] = [GLOp::SMin, GLOp::SMax, GLOp::UMin, GLOp::UMax];
const SHIFTS: [Op; 3] = [Op::ShiftLeftLogical, Op::ShiftRightLogical, Op::ShiftRightArithmetic];
const COMPARISONS: [Op; 10] = [
    Op::IEqual,
    Op::INotEqual,
    Op::ULessThan,
    Op::SLessThan,
    Op::UGreaterThan,
    Op::SGreaterThan,
    Op::ULessThanEqual,
    Op::SLessThanEqual,
    Op::UGreaterThanEqual,
    Op::SGreaterThanEqual,
];

impl Generator {
    /// A random constant: often one of those at a limit.
    pub(super) fn constant(&mut self, width: u32) -> Id {
        let random = self.random.next();
        let top = 1_u64 << (width - 1);
        let shift = self.random.below(width);
        let value = self.random.pick(&[0, 1, 2, 3, 0xff, 0xffff, u64::MAX, top, top - 1, 1 << shift, random, random]);
        self.module.constant(width, value)
    }

    /// A value without an operation; a uniform one is equal in all invocations of a group.
    fn leaf(&mut self, width: u32, uniform: bool) -> Id {
        if self.random.chance(20) {
            return self.constant(width);
        }
        if !uniform {
            if self.random.chance(15) {
                let at = self.expression(32, 1, false);
                return self.load_input(width, at);
            }
            let number = self.random.below(VARIABLES as u32) as usize;
            return self.variable(width, number);
        }
        let word = self.module.integer(32);
        let value = match self.random.below(3) {
            0 => self.workgroup,
            1 => {
                let at = self.random.below(CONSTANTS);
                let at = self.word(at);
                let pointer = self.element(StorageClass::PushConstant, self.constants, 32, &[0, at]);
                self.module.value(Op::Load, word, &[pointer])
            }
            _ => {
                let (four, element) = (self.random.below(UNIFORM / 4), self.random.below(4));
                let (four, element) = (self.word(four), self.word(element));
                let pointer = self.element(StorageClass::Uniform, self.uniforms, 32, &[0, four, element]);
                self.module.value(Op::Load, word, &[pointer])
            }
        };
        if width == 32 { value } else { self.converted(value, width) }
    }

    /// A word in another width.
    pub(super) fn converted(&mut self, value: Id, width: u32) -> Id {
        let kind = self.module.integer(width);
        let operation = self.random.pick(&[Op::UConvert, Op::SConvert]);
        self.module.value(operation, kind, &[value])
    }

    /// An expression of at most so many levels.
    pub(super) fn expression(&mut self, width: u32, depth: u32, uniform: bool) -> Id {
        if depth == 0 || self.random.chance(15) {
            return self.leaf(width, uniform);
        }
        let depth = depth - 1;
        let kind = self.module.integer(width);
        match self.random.below(100) {
            0..28 => {
                let operation = self.random.pick(&SIMPLE);
                self.two(operation, width, depth, uniform)
            }
            28..38 => {
                let operation = self.random.pick(&SHIFTS);
                let value = self.expression(width, depth, uniform);
                let amount = self.masked(width, depth, uniform, u64::from(width) - 1);
                self.module.value(operation, kind, &[value, amount])
            }
            38..44 => {
                let operation = self.random.pick(&LIMITS);
                let (a, b) = (self.expression(width, depth, uniform), self.expression(width, depth, uniform));
                self.module.extended(operation, kind, &[a, b])
            }
            44..48 => {
                let a = self.expression(width, depth, uniform);
                match self.random.below(4) {
                    0 => self.module.value(Op::Not, kind, &[a]),
                    1 => self.module.value(Op::SNegate, kind, &[a]),
                    2 => self.module.extended(GLOp::SAbs, kind, &[a]),
                    _ => self.module.extended(GLOp::SSign, kind, &[a]),
                }
            }
            48..52 => self.division(width, depth, uniform),
            52..58 => {
                let (yes, no) = (self.expression(width, depth, uniform), self.expression(width, depth, uniform));
                let condition = self.condition(depth, uniform);
                self.module.value(Op::Select, kind, &[condition, yes, no])
            }
            58..68 => {
                let others: Vec<u32> = WIDTHS.into_iter().filter(|other| *other != width).collect();
                let other = self.random.pick(&others);
                let value = self.expression(other, depth, uniform);
                self.converted(value, width)
            }
            68..84 => self.float_bits(width, depth, uniform),
            _ => match width {
                32 => self.of_words(depth, uniform),
                16 => self.of_pairs(depth, uniform),
                64 => self.of_halves(depth, uniform),
                _ => self.two(Op::ISub, width, depth, uniform),
            },
        }
    }

    fn two(&mut self, operation: Op, width: u32, depth: u32, uniform: bool) -> Id {
        let kind = self.module.integer(width);
        let (a, b) = (self.expression(width, depth, uniform), self.expression(width, depth, uniform));
        self.module.value(operation, kind, &[a, b])
    }

    /// An expression without other bits than those of the mask.
    pub(super) fn masked(&mut self, width: u32, depth: u32, uniform: bool, mask: u64) -> Id {
        let kind = self.module.integer(width);
        let (value, mask) = (self.expression(width, depth, uniform), self.module.constant(width, mask));
        self.module.value(Op::BitwiseAnd, kind, &[value, mask])
    }

    /// Divisors are odd. Signed remainders are of positive numbers, and signed divisors are positive: no quotient
    /// overflows.
    fn division(&mut self, width: u32, depth: u32, uniform: bool) -> Id {
        let (kind, one) = (self.module.integer(width), self.module.constant(width, 1));
        let positive = u64::MAX >> (65 - width);
        let operation = self.random.pick(&[Op::UDiv, Op::UMod, Op::SDiv, Op::SRem, Op::SMod]);
        let (dividends, divisors) = match operation {
            Op::UDiv | Op::UMod => (u64::MAX, u64::MAX),
            Op::SDiv => (u64::MAX, positive),
            _ => (positive, positive),
        };
        let dividend = self.masked(width, depth, uniform, dividends);
        let divisor = if self.random.chance(30) {
            let value = self.random.next() & divisors | 1;
            self.module.constant(width, value)
        } else {
            let shift = self.random.below(width - 1);
            let value = self.masked(width, depth, uniform, (divisors & u64::MAX >> (64 - width)) >> shift);
            self.module.value(Op::BitwiseOr, kind, &[value, one])
        };
        self.module.value(operation, kind, &[dividend, divisor])
    }

    /// Operations that only words have.
    fn of_words(&mut self, depth: u32, uniform: bool) -> Id {
        let word = self.module.integer(32);
        let [a, b, c] = [(); 3].map(|()| self.expression(32, depth.min(1), uniform));
        match self.random.below(13) {
            0 => self.module.value(Op::BitCount, word, &[a]),
            1 => self.module.value(Op::BitReverse, word, &[a]),
            2 => {
                let operation = self.random.pick(&[GLOp::FindILsb, GLOp::FindSMsb, GLOp::FindUMsb]);
                self.module.extended(operation, word, &[a])
            }
            operation @ 3..6 => {
                // The offset and the count are within the word: 0 to 15, 0 to 16.
                let (offset, count) = if self.random.chance(50) {
                    let offset = self.random.below(32);
                    let count = self.random.below(33 - offset);
                    (self.word(offset), self.word(count))
                } else {
                    (self.masked(32, 1, uniform, 15), self.masked(32, 1, uniform, 15))
                };
                match operation {
                    3 => self.module.value(Op::BitFieldInsert, word, &[a, b, offset, count]),
                    4 => self.module.value(Op::BitFieldSExtract, word, &[a, offset, count]),
                    _ => self.module.value(Op::BitFieldUExtract, word, &[a, offset, count]),
                }
            }
            6 | 7 => {
                let operation = self.random.pick(&[Op::UMulExtended, Op::SMulExtended, Op::IAddCarry, Op::ISubBorrow]);
                let (pair, half) = (self.module.pair(word), self.random.below(2));
                let both = self.module.value(operation, pair, &[a, b]);
                self.module.value_with(Op::CompositeExtract, word, &[both], &[half])
            }
            8 => {
                // Four products of bytes.
                let signed = self.random.pick(&[Op::SDot, Op::UDot, Op::SUDot]);
                self.module.value_with(signed, word, &[a, b], &[0])
            }
            9 => {
                let operation = self.random.pick(&[Op::SDotAccSat, Op::UDotAccSat, Op::SUDotAccSat]);
                self.module.value_with(operation, word, &[a, b, c], &[0])
            }
            10 => {
                let value = self.expression(64, depth, uniform);
                let pair = self.module.vector(word, 2);
                let (both, half) = (self.module.value(Op::Bitcast, pair, &[value]), self.random.below(2));
                self.module.value_with(Op::CompositeExtract, word, &[both], &[half])
            }
            11 => {
                let halves = [(); 2].map(|()| self.expression(16, depth, uniform));
                let half = self.module.integer(16);
                let pair = self.module.vector(half, 2);
                let both = self.module.value(Op::CompositeConstruct, pair, &halves);
                self.module.value(Op::Bitcast, word, &[both])
            }
            _ => {
                let bytes = [(); 4].map(|()| self.expression(8, depth, uniform));
                let byte = self.module.integer(8);
                let four = self.module.vector(byte, 4);
                let all = self.module.value(Op::CompositeConstruct, four, &bytes);
                self.module.value(Op::Bitcast, word, &[all])
            }
        }
    }

    /// Two 16-bit numbers in one operation.
    fn of_pairs(&mut self, depth: u32, uniform: bool) -> Id {
        let half = self.module.integer(16);
        let pair = self.module.vector(half, 2);
        let mut both = || {
            let values = [(); 2].map(|()| self.expression(16, depth.min(1), uniform));
            self.module.value(Op::CompositeConstruct, pair, &values)
        };
        let (a, b) = (both(), both());
        let result = match self.random.below(3) {
            0 => {
                let operation = self.random.pick(&SIMPLE);
                self.module.value(operation, pair, &[a, b])
            }
            1 => {
                let (operation, fifteen) = (self.random.pick(&SHIFTS), self.module.constant(16, 15));
                let mask = self.module.value(Op::CompositeConstruct, pair, &[fifteen, fifteen]);
                let amounts = self.module.value(Op::BitwiseAnd, pair, &[b, mask]);
                self.module.value(operation, pair, &[a, amounts])
            }
            _ => {
                let operation = self.random.pick(&LIMITS);
                self.module.extended(operation, pair, &[a, b])
            }
        };
        let [low, high] = [0, 1].map(|at| self.module.value_with(Op::CompositeExtract, half, &[result], &[at]));
        self.module.value(Op::BitwiseXor, half, &[low, high])
    }

    fn of_halves(&mut self, depth: u32, uniform: bool) -> Id {
        let (word, long) = (self.module.integer(32), self.module.integer(64));
        if self.random.chance(50) {
            let pair = self.module.vector(word, 2);
            let halves = [(); 2].map(|()| self.expression(32, depth, uniform));
            let both = self.module.value(Op::CompositeConstruct, pair, &halves);
            return self.module.value(Op::Bitcast, long, &[both]);
        }
        // A product of words, which compilers find.
        let operation = self.random.pick(&[Op::UConvert, Op::SConvert]);
        let factors = [(); 2].map(|()| {
            let value = self.expression(32, depth, uniform);
            self.module.value(operation, long, &[value])
        });
        let product = self.module.value(Op::IMul, long, &factors);
        let addend = self.expression(64, depth, uniform);
        self.module.value(Op::IAdd, long, &[product, addend])
    }

    pub(super) fn condition(&mut self, depth: u32, uniform: bool) -> Id {
        let flag = self.module.boolean();
        match self.random.below(10) {
            0..6 => {
                let (width, operation) = (self.random.pick(&WIDTHS), self.random.pick(&COMPARISONS));
                let (a, b) = (self.expression(width, depth, uniform), self.expression(width, depth, uniform));
                self.module.value(operation, flag, &[a, b])
            }
            6 | 7 if depth > 0 => {
                let operations = [Op::LogicalAnd, Op::LogicalOr, Op::LogicalEqual, Op::LogicalNotEqual];
                let operation = self.random.pick(&operations);
                let (a, b) = (self.condition(depth - 1, uniform), self.condition(depth - 1, uniform));
                self.module.value(operation, flag, &[a, b])
            }
            8 if depth > 0 => {
                let a = self.condition(depth - 1, uniform);
                self.module.value(Op::LogicalNot, flag, &[a])
            }
            _ => self.float_condition(depth, uniform),
        }
    }
}
