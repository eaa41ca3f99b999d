//! Statements on buffers, workgroup memory, atomics, images and arrays.

use spirv::{MemorySemantics, Op, Scope, StorageClass};

use super::{Generator, INPUT, SIDE, VARIABLES, WIDTHS, place};
use crate::assembler::Id;

/// Counters of each kind: first those with an operation each.
pub(super) const COUNTED: u32 = 12;
const OPERATIONS: u32 = 8;
const TICKET: u32 = 8;
const EXCHANGED: u32 = 9;
/// The host sets it to 0, too.
pub(crate) const COMPARED: u32 = 10;
const SUM: u32 = 11;

impl Generator {
    /// An element of the input; the index can be any number.
    pub(super) fn load_input(&mut self, width: u32, at: Id) -> Id {
        let (word, mask) = (self.module.integer(32), self.word(INPUT * 32 / width - 1));
        let at = self.module.value(Op::BitwiseAnd, word, &[at, mask]);
        let pointer = self.element(StorageClass::StorageBuffer, self.inputs[place(width)], width, &[0, at]);
        let kind = self.module.integer(width);
        self.module.value(Op::Load, kind, &[pointer])
    }

    /// Waits for the other invocations of the group, and for what they have written.
    pub(super) fn barrier(&mut self) {
        let semantics =
            MemorySemantics::ACQUIRE_RELEASE | MemorySemantics::WORKGROUP_MEMORY | MemorySemantics::UNIFORM_MEMORY;
        let (scope, semantics) = (self.word(Scope::Workgroup as u32), self.word(semantics.bits()));
        self.module.act(Op::ControlBarrier, &[scope, scope, semantics], &[]);
    }

    /// Sets a random variable.
    fn set(&mut self, width: u32, value: Id) {
        let number = self.random.below(VARIABLES as u32) as usize;
        self.module.act(Op::Store, &[self.variables[place(width)][number], value], &[]);
        self.store(width, value, None);
    }

    /// A number smaller than a constant.
    fn smaller(&mut self, limit: u32) -> Id {
        let (word, limit) = (self.module.integer(32), self.word(limit));
        let value = self.expression(32, 1, false);
        self.module.value(Op::UMod, word, &[value, limit])
    }

    /// Each invocation writes a value, and reads another one's.
    pub(super) fn exchange(&mut self) {
        let width = self.random.pick(&WIDTHS);
        let kind = self.module.integer(width);
        let array = self.shared[place(width)];
        let value = self.expression(width, 2, false);
        let own = self.element(StorageClass::Workgroup, array, width, &[self.local_index]);
        self.module.act(Op::Store, &[own, value], &[]);
        self.barrier();
        let at = self.smaller(self.group);
        let other = self.element(StorageClass::Workgroup, array, width, &[at]);
        let value = self.module.value(Op::Load, kind, &[other]);
        self.barrier();
        self.set(width, value);
    }

    /// An array whose elements are written and read at any index.
    pub(super) fn local_array(&mut self) {
        let width = self.random.pick(&WIDTHS);
        let (kind, count) = (self.module.integer(width), self.random.pick(&[5, 80]));
        let array = self.module.array(kind, count);
        let array = self.module.local(array, "array");
        let (first, limit) = (self.expression(width, 1, false), self.word(count));
        self.count(limit, |this, at, _| {
            let step = this.converted(at, width);
            let value = this.module.value(Op::IAdd, kind, &[first, step]);
            let target = this.element(StorageClass::Function, array, width, &[at]);
            this.module.act(Op::Store, &[target, value], &[]);
        });
        let at = self.smaller(count);
        let target = self.element(StorageClass::Function, array, width, &[at]);
        let value = self.expression(width, 1, false);
        self.module.act(Op::Store, &[target, value], &[]);
        let at = self.smaller(count);
        let source = self.element(StorageClass::Function, array, width, &[at]);
        let value = self.module.value(Op::Load, kind, &[source]);
        self.set(width, value);
    }

    /// Sets the counters of the group, and chooses the operations of all counters.
    pub(super) fn start_counters(&mut self) {
        let operations = [
            Op::AtomicIAdd,
            Op::AtomicISub,
            Op::AtomicAnd,
            Op::AtomicOr,
            Op::AtomicXor,
            Op::AtomicSMin,
            Op::AtomicSMax,
            Op::AtomicUMin,
            Op::AtomicUMax,
        ];
        self.operations = (0..OPERATIONS).map(|_| self.random.pick(&operations)).collect();
        for (kind, width) in [32, 64].into_iter().enumerate() {
            for at in 0..COUNTED {
                let value = if at < OPERATIONS { self.constant(width) } else { self.module.constant(width, 0) };
                let index = self.word(at);
                let target = self.element(StorageClass::Workgroup, self.shared_counters[kind], width, &[index]);
                self.module.act(Op::Store, &[target, value], &[]);
            }
        }
        self.barrier();
    }

    pub(super) fn store_counters(&mut self) {
        self.barrier();
        let word = self.module.integer(32);
        let count = self.word(COUNTED);
        let at = self.module.value(Op::UMod, word, &[self.local_index, count]);
        for (kind, width) in [32, 64].into_iter().enumerate() {
            let source = self.element(StorageClass::Workgroup, self.shared_counters[kind], width, &[at]);
            let integer = self.module.integer(width);
            let value = self.module.value(Op::Load, integer, &[source]);
            self.store(width, value, None);
        }
    }

    /// An operation on a counter. What it returns depends on the order; the sum of it does not, where all operations of
    /// the counter have equal operands.
    pub(super) fn atomic(&mut self) {
        let (which, shared) = (self.random.below(2) as usize, self.random.chance(50));
        let width = [32, 64][which];
        let (class, scope) = match shared {
            true => (StorageClass::Workgroup, Scope::Workgroup),
            false => (StorageClass::StorageBuffer, Scope::Device),
        };
        let kind = self.module.integer(width);
        let (scope, relaxed) = (self.word(scope as u32), self.word(0));
        let counter = |this: &mut Self, at| {
            let index = this.word(at);
            match shared {
                true => this.element(class, this.shared_counters[which], width, &[index]),
                false => this.element(class, this.counters[which], width, &[0, index]),
            }
        };
        let old = match self.random.below(6) {
            0 => {
                let (target, one) = (counter(self, TICKET), self.module.constant(width, 1));
                self.module.value(Op::AtomicIAdd, kind, &[target, scope, relaxed, one])
            }
            1 => {
                let (target, value) = (counter(self, EXCHANGED), self.module.constant(width, 0x1234_5678_9abc_def1));
                self.module.value(Op::AtomicExchange, kind, &[target, scope, relaxed, value])
            }
            2 => {
                let (target, zero) = (counter(self, COMPARED), self.module.constant(width, 0));
                let value = self.module.constant(width, 0x0fed_cba9_8765_4321);
                let operands = [target, scope, relaxed, relaxed, value, zero];
                self.module.value(Op::AtomicCompareExchange, kind, &operands)
            }
            _ => {
                let at = self.random.below(OPERATIONS);
                let operation = self.operations[at as usize];
                let (target, uniform) = (counter(self, at), self.random.chance(20));
                let value = self.expression(width, 2, uniform);
                self.module.value(operation, kind, &[target, scope, relaxed, value]);
                return;
            }
        };
        let target = counter(self, SUM);
        self.module.value(Op::AtomicIAdd, kind, &[target, scope, relaxed, old]);
    }

    /// Writes the invocation's own texel, changes it, and reads it.
    pub(super) fn image(&mut self) {
        let which = self.random.below(3) as usize;
        let word = self.module.integer(32);
        let (pair, four) = (self.module.vector(word, 2), self.module.vector(word, 4));
        let side = self.word(SIDE);
        let x = self.module.value(Op::UMod, word, &[self.index, side]);
        let y = self.module.value(Op::UDiv, word, &[self.index, side]);
        let texel = self.module.value(Op::CompositeConstruct, pair, &[x, y]);
        // Numbers that are too large for a format become its largest, or lose bits: implementations differ.
        let mask = [u64::from(u32::MAX), 0xff, 0xffff][which];
        let values = [(); 4].map(|()| self.masked(32, 1, false, mask));
        let value = self.module.value(Op::CompositeConstruct, four, &values);
        let kind = self.module.image(super::IMAGES[which]);
        let image = self.module.value(Op::Load, kind, &[self.images[which]]);
        self.module.act(Op::ImageWrite, &[image, texel, value], &[]);
        if which == 0 {
            let operations = [Op::AtomicIAdd, Op::AtomicAnd, Op::AtomicXor, Op::AtomicSMin, Op::AtomicUMax];
            let operation = self.random.pick(&operations);
            let (scope, relaxed) = (self.word(Scope::Device as u32), self.word(0));
            let pointer = self.module.pointer(StorageClass::Image, word);
            let pointer = self.module.value(Op::ImageTexelPointer, pointer, &[self.images[which], texel, relaxed]);
            let operand = self.expression(32, 1, false);
            let old = self.module.value(operation, word, &[pointer, scope, relaxed, operand]);
            self.set(32, old);
        }
        let value = self.module.value(Op::ImageRead, four, &[image, texel]);
        let elements = [1, 4, 4][which];
        for at in 0..elements {
            let value = self.module.value_with(Op::CompositeExtract, word, &[value], &[at]);
            self.set(32, value);
        }
    }
}
