//! Generates compute shaders: random statements on variables of all widths of integers, whose values are stored.
//!
//! Every invocation stores its values in slots. Results depend neither on the order of invocations nor on the size of
//! subgroups.

mod float;
mod integer;
pub(crate) mod memory;
mod subgroup;

use spirv::{BuiltIn, Decoration, Op, StorageClass};

use crate::assembler::{Id, Module};
use crate::random::Random;

/// The widths of integers, in the order of their variables and slots.
pub(crate) const WIDTHS: [u32; 4] = [32, 8, 16, 64];

/// Words of the input, of the uniform buffer and of the push constants, and the counters of 32 and of 64 bits.
pub(crate) const INPUT: u32 = 1024;
pub(crate) const UNIFORM: u32 = 64;
pub(crate) const CONSTANTS: u32 = 4;
pub(crate) const COUNTERS: u32 = 64;

/// The formats of the images, and their width and height.
pub(crate) const IMAGES: [spirv::ImageFormat; 3] =
    [spirv::ImageFormat::R32ui, spirv::ImageFormat::Rgba8ui, spirv::ImageFormat::Rgba16ui];
pub(crate) const SIDE: u32 = 32;

/// The bindings: the input and the output in all widths, then these.
pub(crate) const COUNTERS_BINDING: u32 = 8;
pub(crate) const UNIFORM_BINDING: u32 = 10;
pub(crate) const IMAGE_BINDING: u32 = 11;

/// Variables of each width.
const VARIABLES: usize = 4;

/// The most statements of a shader, without those in others.
pub(crate) const MOST: u32 = 15;

/// A program, and how its output is read.
#[derive(Debug)]
pub(crate) struct Shader {
    pub(crate) seed: u64,
    pub(crate) words: Vec<u32>,
    pub(crate) text: String,
    pub(crate) groups: u32,
    pub(crate) invocations: u32,
    /// Contents of each slot, by width.
    pub(crate) slots: [Vec<Slot>; 4],
}

#[derive(Debug)]
pub(crate) struct Slot {
    /// The value's number in the text.
    pub(crate) value: Id,
    /// The value that every invocation must store.
    pub(crate) always: Option<u64>,
}

/// A loop around a statement: its end, and its next iteration.
#[derive(Debug, Clone, Copy)]
struct Loop {
    end: Id,
    next: Id,
}

#[derive(Debug)]
struct Generator {
    random: Random,
    module: Module,
    /// Invocations of a group.
    group: u32,
    variables: [Vec<Id>; 4],
    inputs: [Id; 4],
    outputs: [Id; 4],
    counters: [Id; 2],
    uniforms: Id,
    constants: Id,
    images: [Id; 3],
    /// Workgroup memory of each width, and its counters.
    shared: [Id; 4],
    shared_counters: [Id; 2],
    /// Workgroup memory for references of subgroups: whether a lane is active.
    active: Id,
    /// The index in the group, the group, and the index in the launch.
    local_index: Id,
    workgroup: Id,
    index: Id,
    invocations: u32,
    lane: Id,
    subgroup: Id,
    subgroup_size: Id,
    slots: [Vec<Slot>; 4],
    /// Loops around the statement, and `true` if all invocations of the group execute it together.
    loops: Vec<Loop>,
    together: bool,
    depth: u32,
    /// The operation of each counter: the order of equal operations does not count.
    operations: Vec<Op>,
}

/// The index of a width.
pub(crate) fn place(width: u32) -> usize {
    WIDTHS.iter().position(|it| *it == width).unwrap_or(0)
}

/// The shader of a seed, with at most so many statements.
pub(crate) fn shader(seed: u64, most: u32) -> Shader {
    let mut random = Random::new(seed);
    let local = random.pick(&[[64, 1, 1], [32, 1, 1], [128, 1, 1], [100, 1, 1], [8, 8, 1], [16, 4, 2], [96, 1, 1]]);
    let groups = random.pick(&[1, 2, 3]);
    let mut generator = Generator::new(random, local, groups);
    generator.start();
    let statements = MOST - generator.random.below(8);
    for _ in 0..statements.min(most) {
        generator.statement();
    }
    generator.finish();
    let Generator { module, slots, invocations, .. } = generator;
    let (words, text) = module.finish();
    Shader { seed, words, text, groups, invocations, slots }
}

impl Generator {
    fn new(random: Random, local: [u32; 3], groups: u32) -> Self {
        let mut module = Module::new(local);
        let group = local.iter().product();
        let types = WIDTHS.map(|width| module.integer(width));
        let mut binding = 0;
        let mut bind = |module: &mut Module, id: Id| {
            module.decorate(id, Decoration::DescriptorSet, &[0]);
            module.decorate(id, Decoration::Binding, &[binding]);
            binding += 1;
            id
        };
        let mut buffer = |module: &mut Module, place: usize| {
            let id = module.block(StorageClass::StorageBuffer, types[place], WIDTHS[place] / 8, None);
            bind(module, id)
        };
        let inputs = [0, 1, 2, 3].map(|place| buffer(&mut module, place));
        let outputs = [0, 1, 2, 3].map(|place| buffer(&mut module, place));
        let counters = [0, 3].map(|place| buffer(&mut module, place));
        let four = module.vector(types[0], 4);
        let uniforms = module.block(StorageClass::Uniform, four, 16, Some(UNIFORM / 4));
        bind(&mut module, uniforms);
        let images = IMAGES.map(|format| {
            let kind = module.image(format);
            let id = module.global(StorageClass::UniformConstant, kind, &format!("{format:?}"));
            bind(&mut module, id)
        });
        let constants = module.block(StorageClass::PushConstant, types[0], 4, Some(CONSTANTS));
        let shared = types.map(|kind| {
            let array = module.array(kind, 128);
            module.global(StorageClass::Workgroup, array, "shared")
        });
        let array = module.array(types[0], 128);
        let active = module.global(StorageClass::Workgroup, array, "active");
        let shared_counters = [types[0], types[3]].map(|kind| {
            let array = module.array(kind, memory::COUNTED);
            module.global(StorageClass::Workgroup, array, "shared_counters")
        });
        Self {
            random,
            module,
            group,
            variables: Default::default(),
            inputs,
            outputs,
            counters,
            uniforms,
            constants,
            images,
            shared,
            shared_counters,
            active,
            local_index: 0,
            workgroup: 0,
            index: 0,
            invocations: group * groups,
            lane: 0,
            subgroup: 0,
            subgroup_size: 0,
            slots: Default::default(),
            loops: Vec::new(),
            together: true,
            depth: 0,
            operations: Vec::new(),
        }
    }

    /// Reads the launch's values and sets the variables.
    fn start(&mut self) {
        let word = self.module.integer(32);
        let three = self.module.vector(word, 3);
        let input = |this: &mut Self, kind, what| {
            let variable = this.module.input(kind, what);
            this.module.value(Op::Load, kind, &[variable])
        };
        self.local_index = input(self, word, BuiltIn::LocalInvocationIndex);
        let workgroup = input(self, three, BuiltIn::WorkgroupId);
        self.workgroup = self.module.value_with(Op::CompositeExtract, word, &[workgroup], &[0]);
        self.lane = input(self, word, BuiltIn::SubgroupLocalInvocationId);
        self.subgroup = input(self, word, BuiltIn::SubgroupId);
        self.subgroup_size = input(self, word, BuiltIn::SubgroupSize);
        let group = self.word(self.group);
        let first = self.module.value(Op::IMul, word, &[self.workgroup, group]);
        self.index = self.module.value(Op::IAdd, word, &[first, self.local_index]);
        for (place, width) in WIDTHS.into_iter().enumerate() {
            for number in 0..VARIABLES {
                let kind = self.module.integer(width);
                let variable = self.module.local(kind, &format!("u{width}_{number}"));
                // Any place of the input.
                let offset = self.random.below(256);
                let (factor, offset) = (self.word(1 + 2 * number as u32), self.word(offset));
                let at = self.module.value(Op::IMul, word, &[self.index, factor]);
                let at = self.module.value(Op::IAdd, word, &[at, offset]);
                let value = self.load_input(width, at);
                self.module.act(Op::Store, &[variable, value], &[]);
                self.variables[place].push(variable);
            }
        }
        self.start_counters();
    }

    /// Stores all variables, and what the group has counted.
    fn finish(&mut self) {
        self.module.comment("the end");
        for width in WIDTHS {
            for number in 0..VARIABLES {
                let value = self.variable(width, number);
                self.store(width, value, None);
            }
        }
        self.store_counters();
    }

    fn word(&mut self, value: u32) -> Id {
        self.module.constant(32, value.into())
    }

    fn variable(&mut self, width: u32, number: usize) -> Id {
        let kind = self.module.integer(width);
        self.module.value(Op::Load, kind, &[self.variables[place(width)][number]])
    }

    /// Stores a value in its own slot.
    fn store(&mut self, width: u32, value: Id, always: Option<u64>) {
        let slots = &mut self.slots[place(width)];
        let slot = u32::try_from(slots.len()).unwrap_or(0);
        slots.push(Slot { value, always });
        let first = self.word(slot * self.invocations);
        let word = self.module.integer(32);
        let at = self.module.value(Op::IAdd, word, &[first, self.index]);
        let target = self.element(StorageClass::StorageBuffer, self.outputs[place(width)], width, &[0, at]);
        self.module.act(Op::Store, &[target, value], &[]);
    }

    /// A pointer to an element of a buffer's block (after a 0) or of an array.
    fn element(&mut self, class: StorageClass, base: Id, width: u32, indices: &[Id]) -> Id {
        let zero = self.word(0);
        let indices: Vec<Id> = indices.iter().map(|index| if *index == 0 { zero } else { *index }).collect();
        let kind = self.module.integer(width);
        let pointer = self.module.pointer(class, kind);
        self.module.value(Op::AccessChain, pointer, &[&[base], &indices[..]].concat())
    }

    /// A random statement.
    fn statement(&mut self) {
        match self.random.below(100) {
            0..40 => self.assign(),
            40..48 => self.atomic(),
            48..52 => self.image(),
            52..55 => self.local_array(),
            55..63 if self.together => self.exchange(),
            63..74 if self.together => self.subgroup(),
            // Control flow, not too deep.
            _ if self.depth >= 3 => self.assign(),
            55..82 => self.branch(),
            82..93 => self.repeat(),
            _ => self.choose(),
        }
    }

    /// Sets a variable. Where control flow does not reach a store, the slot keeps its zeroes.
    fn assign(&mut self) {
        let width = self.random.pick(&[32, 32, 32, 8, 16, 64]);
        let uniform = self.random.chance(20);
        let depth = self.random.pick(&[1, 2, 2, 3]);
        let value = self.expression(width, depth, uniform);
        let number = self.random.below(VARIABLES as u32) as usize;
        self.module.act(Op::Store, &[self.variables[place(width)][number], value], &[]);
        if self.random.chance(60) {
            self.store(width, value, None);
        }
    }

    fn statements(&mut self) {
        self.depth += 1;
        for _ in 0..=self.random.below(2) {
            self.statement();
        }
        self.depth -= 1;
    }

    fn branch(&mut self) {
        let uniform = self.random.chance(20);
        let condition = self.condition(2, uniform);
        let together = std::mem::take(&mut self.together);
        let [yes, no, end] = [self.module.id(), self.module.id(), self.module.id()];
        self.module.act(Op::SelectionMerge, &[end], &[0]);
        self.module.act(Op::BranchConditional, &[condition, yes, no], &[]);
        self.module.label(yes);
        self.statements();
        self.leave_loop();
        self.module.act(Op::Branch, &[end], &[]);
        self.module.label(no);
        if self.random.chance(50) {
            self.statements();
        }
        self.module.act(Op::Branch, &[end], &[]);
        self.module.label(end);
        self.together = together;
    }

    /// Sometimes leaves the loop, or the iteration, under a condition.
    fn leave_loop(&mut self) {
        let Some(Loop { end, next }) = self.loops.last().copied() else { return };
        if !self.random.chance(30) {
            return;
        }
        let condition = self.condition(1, false);
        let target = if self.random.chance(50) { end } else { next };
        let stay = self.module.id();
        self.module.act(Op::SelectionMerge, &[stay], &[0]);
        self.module.act(Op::BranchConditional, &[condition, target, stay], &[]);
        self.module.label(stay);
    }

    /// A loop of a constant number of iterations, or of another number in each invocation.
    fn repeat(&mut self) {
        let word = self.module.integer(32);
        let together = self.together;
        self.together = self.together && self.random.chance(40);
        let limit = if self.together {
            let limit = 1 + self.random.below(4);
            self.word(limit)
        } else {
            let (value, mask) = (self.expression(32, 1, false), self.word(7));
            self.module.value(Op::BitwiseAnd, word, &[value, mask])
        };
        // A loop that all execute together is not left early.
        let outer = self.together.then(|| std::mem::take(&mut self.loops));
        self.count(limit, |this, _, around| {
            let leaves = !this.together;
            if leaves {
                this.loops.push(around);
            }
            this.statements();
            this.leave_loop();
            if leaves {
                this.loops.pop();
            }
        });
        self.loops = outer.unwrap_or_else(|| std::mem::take(&mut self.loops));
        self.together = together;
    }

    /// A loop with a counter from 0 to a limit.
    fn count(&mut self, limit: Id, body: impl FnOnce(&mut Self, Id, Loop)) {
        let (word, flag) = (self.module.integer(32), self.module.boolean());
        let (counter, zero, one) = (self.module.local(word, "counter"), self.word(0), self.word(1));
        let [header, test, inside, next, end] = [(); 5].map(|()| self.module.id());
        self.module.act(Op::Store, &[counter, zero], &[]);
        self.module.act(Op::Branch, &[header], &[]);
        self.module.label(header);
        self.module.act(Op::LoopMerge, &[end, next], &[0]);
        self.module.act(Op::Branch, &[test], &[]);
        self.module.label(test);
        let count = self.module.value(Op::Load, word, &[counter]);
        let goes_on = self.module.value(Op::ULessThan, flag, &[count, limit]);
        self.module.act(Op::BranchConditional, &[goes_on, inside, end], &[]);
        self.module.label(inside);
        body(self, count, Loop { end, next });
        self.module.act(Op::Branch, &[next], &[]);
        self.module.label(next);
        let count = self.module.value(Op::Load, word, &[counter]);
        let count = self.module.value(Op::IAdd, word, &[count, one]);
        self.module.act(Op::Store, &[counter, count], &[]);
        self.module.act(Op::Branch, &[header], &[]);
        self.module.label(end);
    }

    /// Statements under a condition.
    fn only_if(&mut self, condition: Id, body: impl FnOnce(&mut Self)) {
        let (inside, end) = (self.module.id(), self.module.id());
        self.module.act(Op::SelectionMerge, &[end], &[0]);
        self.module.act(Op::BranchConditional, &[condition, inside, end], &[]);
        self.module.label(inside);
        body(self);
        self.module.act(Op::Branch, &[end], &[]);
        self.module.label(end);
    }

    fn choose(&mut self) {
        let word = self.module.integer(32);
        let uniform = self.random.chance(20);
        let (value, mask) = (self.expression(32, 1, uniform), self.word(7));
        let selector = self.module.value(Op::BitwiseAnd, word, &[value, mask]);
        let together = std::mem::take(&mut self.together);
        // A switch in a loop: only what is around the loop could be left from here.
        let loops = std::mem::take(&mut self.loops);
        let (end, default) = (self.module.id(), self.module.id());
        let cases: Vec<Id> = (0..2 + self.random.below(5)).map(|_| self.module.id()).collect();
        self.module.act(Op::SelectionMerge, &[end], &[0]);
        self.module.switch(selector, default, &cases);
        for label in cases.into_iter().chain([default]) {
            self.module.label(label);
            self.statements();
            self.module.act(Op::Branch, &[end], &[]);
        }
        self.module.label(end);
        self.loops = loops;
        self.together = together;
    }
}
