//! Operations of subgroups, compared with a loop over what the subgroup's invocations have written to workgroup memory:
//! implementations have subgroups of different sizes.

use spirv::{GlslStd450Op as GLOp, GroupOperation, Op, Scope, StorageClass};

use super::{Generator, place};
use crate::assembler::Id;

/// How two values become one.
#[derive(Debug, Clone, Copy)]
enum Combination {
    Core(Op),
    Extended(GLOp),
}

/// An operation on all values of a subgroup: its instruction, the combination, and the value of no lanes.
#[derive(Debug, Clone, Copy)]
struct Arithmetic(Op, Combination, Empty);

#[derive(Debug, Clone, Copy)]
enum Empty {
    Zero,
    One,
    Ones,
    Least,
    Most,
}

const ARITHMETIC: [Arithmetic; 9] = [
    Arithmetic(Op::GroupNonUniformIAdd, Combination::Core(Op::IAdd), Empty::Zero),
    Arithmetic(Op::GroupNonUniformIMul, Combination::Core(Op::IMul), Empty::One),
    Arithmetic(Op::GroupNonUniformBitwiseAnd, Combination::Core(Op::BitwiseAnd), Empty::Ones),
    Arithmetic(Op::GroupNonUniformBitwiseOr, Combination::Core(Op::BitwiseOr), Empty::Zero),
    Arithmetic(Op::GroupNonUniformBitwiseXor, Combination::Core(Op::BitwiseXor), Empty::Zero),
    Arithmetic(Op::GroupNonUniformSMin, Combination::Extended(GLOp::SMin), Empty::Most),
    Arithmetic(Op::GroupNonUniformSMax, Combination::Extended(GLOp::SMax), Empty::Least),
    Arithmetic(Op::GroupNonUniformUMin, Combination::Extended(GLOp::UMin), Empty::Ones),
    Arithmetic(Op::GroupNonUniformUMax, Combination::Extended(GLOp::UMax), Empty::Zero),
];

/// The lanes that count for a lane: all, those up to it, or those before it.
const WAYS: [GroupOperation; 3] =
    [GroupOperation::Reduce, GroupOperation::InclusiveScan, GroupOperation::ExclusiveScan];

impl Generator {
    /// An operation in the invocations for which a condition holds, or in all.
    pub(super) fn subgroup(&mut self) {
        let word = self.module.integer(32);
        let width = self.random.pick(&[32, 32, 8, 16, 64]);
        let value = self.expression(width, 2, false);
        let condition = if self.random.chance(50) { self.condition(1, false) } else { self.module.truth() };
        // The table of lanes: first all are inactive.
        let (zero, one, last, most) = (self.word(0), self.word(1), self.word(127), self.word(self.group));
        for first in [zero, most] {
            let at = self.module.value(Op::IAdd, word, &[self.local_index, first]);
            let at = self.module.extended(GLOp::UMin, word, &[at, last]);
            let target = self.element(StorageClass::Workgroup, self.active, 32, &[at]);
            // A group of 32 has two subgroups of 64 lanes, or less.
            self.module.act(Op::Store, &[target, zero], &[]);
        }
        self.barrier();
        let first = self.module.value(Op::IMul, word, &[self.subgroup, self.subgroup_size]);
        let own = self.module.value(Op::IAdd, word, &[first, self.lane]);
        let together = std::mem::take(&mut self.together);
        self.only_if(condition, |this| {
            let table = this.element(StorageClass::Workgroup, this.shared[place(width)], width, &[own]);
            this.module.act(Op::Store, &[table, value], &[]);
            let active = this.element(StorageClass::Workgroup, this.active, 32, &[own]);
            this.module.act(Op::Store, &[active, one], &[]);
        });
        self.barrier();
        let table = Table { first, width };
        let result = self.module.local(word, "equal");
        self.module.act(Op::Store, &[result, one], &[]);
        self.only_if(condition, |this| {
            let equal = match this.random.below(10) {
                0..5 => this.arithmetic(table, value),
                5..7 => this.shuffle(table, value),
                7 => this.vote(table, value),
                _ => this.ballot(table, value),
            };
            let equal = this.module.value(Op::Select, word, &[equal, one, zero]);
            this.module.act(Op::Store, &[result, equal], &[]);
        });
        self.together = together;
        self.barrier();
        let equal = self.module.value(Op::Load, word, &[result]);
        self.store(32, equal, Some(1));
    }

    /// Calls a function for each active lane of the subgroup, with the lane and its value.
    fn lanes(&mut self, table: Table, body: impl FnOnce(&mut Self, Id, Id)) {
        self.count(self.subgroup_size, |this, lane, _| {
            let (active, value) = this.lane_value(table, lane);
            this.only_if(active, |this| body(this, lane, value));
        });
    }

    /// If a lane is active, and its value.
    fn lane_value(&mut self, table: Table, lane: Id) -> (Id, Id) {
        let (word, flag) = (self.module.integer(32), self.module.boolean());
        let kind = self.module.integer(table.width);
        let at = self.module.value(Op::IAdd, word, &[table.first, lane]);
        let active = self.element(StorageClass::Workgroup, self.active, 32, &[at]);
        let active = self.module.value(Op::Load, word, &[active]);
        let zero = self.word(0);
        let active = self.module.value(Op::INotEqual, flag, &[active, zero]);
        let value = self.element(StorageClass::Workgroup, self.shared[place(table.width)], table.width, &[at]);
        (active, self.module.value(Op::Load, kind, &[value]))
    }

    /// A variable, set to a value.
    fn start_at(&mut self, width: u32, value: Id) -> Id {
        let kind = self.module.integer(width);
        let variable = self.module.local(kind, "reference");
        self.module.act(Op::Store, &[variable, value], &[]);
        variable
    }

    fn arithmetic(&mut self, table: Table, value: Id) -> Id {
        let (kind, flag) = (self.module.integer(table.width), self.module.boolean());
        let Arithmetic(operation, combination, empty) = self.random.pick(&ARITHMETIC);
        let way = self.random.pick(&WAYS);
        let result = self.module.group(operation, kind, way, value);
        let top = 1_u64 << (table.width - 1);
        let empty = match empty {
            Empty::Zero => 0,
            Empty::One => 1,
            Empty::Ones => u64::MAX,
            Empty::Least => top,
            Empty::Most => top - 1,
        };
        let empty = self.module.constant(table.width, empty);
        let reference = self.start_at(table.width, empty);
        self.lanes(table, |this, lane, other| {
            let counts = this.contributes(way, lane);
            this.only_if(counts, |this| {
                let sum = this.module.value(Op::Load, kind, &[reference]);
                let sum = match combination {
                    Combination::Core(operation) => this.module.value(operation, kind, &[sum, other]),
                    Combination::Extended(operation) => this.module.extended(operation, kind, &[sum, other]),
                };
                this.module.act(Op::Store, &[reference, sum], &[]);
            });
        });
        let reference = self.module.value(Op::Load, kind, &[reference]);
        self.module.value(Op::IEqual, flag, &[result, reference])
    }

    fn contributes(&mut self, way: GroupOperation, lane: Id) -> Id {
        let flag = self.module.boolean();
        match way {
            GroupOperation::InclusiveScan => self.module.value(Op::ULessThanEqual, flag, &[lane, self.lane]),
            GroupOperation::ExclusiveScan => self.module.value(Op::ULessThan, flag, &[lane, self.lane]),
            _ => self.module.truth(),
        }
    }

    /// A value of another lane, if that is active.
    fn shuffle(&mut self, table: Table, value: Id) -> Id {
        let (word, kind, flag) = (self.module.integer(32), self.module.integer(table.width), self.module.boolean());
        let scope = self.word(Scope::Subgroup as u32);
        let one = self.word(1);
        let last = self.module.value(Op::ISub, word, &[self.subgroup_size, one]);
        let amount = self.random.below(8);
        let constant = self.word(amount);
        let operations = [
            Op::GroupNonUniformShuffle,
            Op::GroupNonUniformShuffleXor,
            Op::GroupNonUniformShuffleUp,
            Op::GroupNonUniformShuffleDown,
            Op::GroupNonUniformBroadcast,
            Op::GroupNonUniformBroadcastFirst,
            Op::GroupNonUniformQuadBroadcast,
            Op::GroupNonUniformQuadSwap,
        ];
        let operation = self.random.pick(&operations);
        let (operand, source) = match operation {
            Op::GroupNonUniformShuffle => {
                let any = self.expression(32, 1, false);
                let lane = self.module.value(Op::BitwiseAnd, word, &[any, last]);
                (Some(lane), lane)
            }
            Op::GroupNonUniformShuffleXor => {
                (Some(constant), self.module.value(Op::BitwiseXor, word, &[self.lane, constant]))
            }
            Op::GroupNonUniformShuffleUp => (Some(constant), self.module.value(Op::ISub, word, &[self.lane, constant])),
            Op::GroupNonUniformShuffleDown => {
                (Some(constant), self.module.value(Op::IAdd, word, &[self.lane, constant]))
            }
            Op::GroupNonUniformBroadcast => (Some(constant), constant),
            Op::GroupNonUniformQuadBroadcast => {
                let (three, in_quad) = (self.word(!3), self.word(amount & 3));
                let first = self.module.value(Op::BitwiseAnd, word, &[self.lane, three]);
                (Some(in_quad), self.module.value(Op::BitwiseOr, word, &[first, in_quad]))
            }
            Op::GroupNonUniformQuadSwap => {
                // Horizontal, vertical, diagonal.
                let direction = amount % 3;
                let distance = self.word(direction + 1);
                let direction = self.word(direction);
                (Some(direction), self.module.value(Op::BitwiseXor, word, &[self.lane, distance]))
            }
            _ => (None, self.first_lane(table)),
        };
        let operands: Vec<Id> = [scope, value].into_iter().chain(operand).collect();
        let result = self.module.value(operation, kind, &operands);
        // Lanes beyond the subgroup are not active, and are not looked up.
        let known = self.module.value(Op::ULessThanEqual, flag, &[source, last]);
        let looked_up = self.module.extended(GLOp::UMin, word, &[source, last]);
        let (active, other) = self.lane_value(table, looked_up);
        let known = self.module.value(Op::LogicalAnd, flag, &[known, active]);
        let (unknown, equal) =
            (self.module.value(Op::LogicalNot, flag, &[known]), self.module.value(Op::IEqual, flag, &[result, other]));
        self.module.value(Op::LogicalOr, flag, &[unknown, equal])
    }

    /// The first active lane.
    fn first_lane(&mut self, table: Table) -> Id {
        let (word, none) = (self.module.integer(32), self.word(u32::MAX));
        let reference = self.start_at(32, none);
        self.lanes(table, |this, lane, _| {
            let first = this.module.value(Op::Load, word, &[reference]);
            let first = this.module.extended(GLOp::UMin, word, &[first, lane]);
            this.module.act(Op::Store, &[reference, first], &[]);
        });
        self.module.value(Op::Load, word, &[reference])
    }

    /// A bit of a lane's value, which decides votes and ballots.
    fn decision(&mut self, width: u32, value: Id) -> Id {
        let (kind, flag) = (self.module.integer(width), self.module.boolean());
        let (one, zero) = (self.module.constant(width, 1), self.module.constant(width, 0));
        let bit = self.module.value(Op::BitwiseAnd, kind, &[value, one]);
        self.module.value(Op::INotEqual, flag, &[bit, zero])
    }

    fn vote(&mut self, table: Table, value: Id) -> Id {
        let (word, flag) = (self.module.integer(32), self.module.boolean());
        let scope = self.word(Scope::Subgroup as u32);
        let operation = self.random.pick(&[
            Op::GroupNonUniformAll,
            Op::GroupNonUniformAny,
            Op::GroupNonUniformAllEqual,
            Op::GroupNonUniformElect,
        ]);
        if operation as u32 == Op::GroupNonUniformElect as u32 {
            let elected = self.module.value(operation, flag, &[scope]);
            let first = self.first_lane(table);
            let is_first = self.module.value(Op::IEqual, flag, &[first, self.lane]);
            return self.module.value(Op::LogicalEqual, flag, &[elected, is_first]);
        }
        let own = self.decision(table.width, value);
        let vote = self.module.value(operation, flag, &[scope, own]);
        let (zero, one) = (self.word(0), self.word(1));
        let (yes, no) = (self.start_at(32, zero), self.start_at(32, zero));
        self.lanes(table, |this, _, other| {
            let other = this.decision(table.width, other);
            for (variable, [of_true, of_false]) in [(yes, [one, zero]), (no, [zero, one])] {
                let old = this.module.value(Op::Load, word, &[variable]);
                let counted = this.module.value(Op::Select, word, &[other, of_true, of_false]);
                let new = this.module.value(Op::IAdd, word, &[old, counted]);
                this.module.act(Op::Store, &[variable, new], &[]);
            }
        });
        let [yes, no] = [yes, no].map(|variable| self.module.value(Op::Load, word, &[variable]));
        let (no_yes, no_no) =
            (self.module.value(Op::IEqual, flag, &[yes, zero]), self.module.value(Op::IEqual, flag, &[no, zero]));
        let expected = match operation {
            Op::GroupNonUniformAll => no_no,
            Op::GroupNonUniformAny => self.module.value(Op::LogicalNot, flag, &[no_yes]),
            _ => self.module.value(Op::LogicalOr, flag, &[no_yes, no_no]),
        };
        self.module.value(Op::LogicalEqual, flag, &[vote, expected])
    }

    /// A ballot, and what is computed of it.
    fn ballot(&mut self, table: Table, value: Id) -> Id {
        let (word, flag) = (self.module.integer(32), self.module.boolean());
        let (four, scope) = (self.module.vector(word, 4), self.word(Scope::Subgroup as u32));
        let own = self.decision(table.width, value);
        let ballot = self.module.value(Op::GroupNonUniformBallot, four, &[scope, own]);
        if self.random.chance(20) {
            let own_again = self.module.value(Op::GroupNonUniformInverseBallot, flag, &[scope, ballot]);
            return self.module.value(Op::LogicalEqual, flag, &[own_again, own]);
        }
        let (kind, part) = (self.random.below(4), self.random.below(4));
        let way = self.random.pick(&WAYS);
        let (zero, one, none) = (self.word(0), self.word(1), self.word(u32::MAX));
        let find = [Op::GroupNonUniformBallotFindLSB, Op::GroupNonUniformBallotFindMSB];
        let (result, start) = match kind {
            0 => (self.module.group(Op::GroupNonUniformBallotBitCount, word, way, ballot), zero),
            1 => (self.module.value(find[0], word, &[scope, ballot]), none),
            2 => (self.module.value(find[1], word, &[scope, ballot]), zero),
            _ => (self.module.value_with(Op::CompositeExtract, word, &[ballot], &[part]), zero),
        };
        let reference = self.start_at(32, start);
        let count = self.start_at(32, zero);
        self.lanes(table, |this, lane, other| {
            let other = this.decision(table.width, other);
            this.only_if(other, |this| {
                let old = this.module.value(Op::Load, word, &[count]);
                let new = this.module.value(Op::IAdd, word, &[old, one]);
                this.module.act(Op::Store, &[count, new], &[]);
                let old = this.module.value(Op::Load, word, &[reference]);
                let new = match kind {
                    0 => {
                        let counts = this.contributes(way, lane);
                        let counted = this.module.value(Op::Select, word, &[counts, one, zero]);
                        this.module.value(Op::IAdd, word, &[old, counted])
                    }
                    1 => this.module.extended(GLOp::UMin, word, &[old, lane]),
                    2 => this.module.extended(GLOp::UMax, word, &[old, lane]),
                    _ => {
                        let [part, five, last] = [part, 5, 31].map(|number| this.word(number));
                        let lane_part = this.module.value(Op::ShiftRightLogical, word, &[lane, five]);
                        let shift = this.module.value(Op::BitwiseAnd, word, &[lane, last]);
                        let bit = this.module.value(Op::ShiftLeftLogical, word, &[one, shift]);
                        let counts = this.module.value(Op::IEqual, flag, &[lane_part, part]);
                        let bit = this.module.value(Op::Select, word, &[counts, bit, zero]);
                        this.module.value(Op::BitwiseOr, word, &[old, bit])
                    }
                };
                this.module.act(Op::Store, &[reference, new], &[]);
            });
        });
        let reference = self.module.value(Op::Load, word, &[reference]);
        let equal = self.module.value(Op::IEqual, flag, &[result, reference]);
        if kind == 0 || kind == 3 {
            return equal;
        }
        // Of no bits, there is no first or last one.
        let count = self.module.value(Op::Load, word, &[count]);
        let nothing = self.module.value(Op::IEqual, flag, &[count, zero]);
        self.module.value(Op::LogicalOr, flag, &[equal, nothing])
    }
}

/// Where the values of the subgroup's lanes are, in workgroup memory.
#[derive(Debug, Clone, Copy)]
struct Table {
    first: Id,
    width: u32,
}
