//! Writes a module of SPIR-V and its text.

use std::collections::HashMap;

use spirv::{Capability, Decoration, GlslStd450Op, Op, StorageClass};

/// The number of a type, a constant, a variable or a value.
pub(crate) type Id = u32;

/// A module with one function.
#[derive(Debug)]
pub(crate) struct Module {
    next: Id,
    annotations: Vec<u32>,
    declarations: Vec<u32>,
    locals: Vec<u32>,
    body: Vec<u32>,
    inputs: Vec<Id>,
    modes: Vec<(spirv::ExecutionMode, Vec<u32>)>,
    /// Types and constants are declared once.
    declared: HashMap<(Op, Vec<u32>), Id>,
    /// How the text names types and constants.
    names: HashMap<Id, String>,
    /// The function's instructions.
    text: Vec<String>,
}

/// GLSL's operations, and the function.
const EXTENDED: Id = 1;
const MAIN: Id = 2;

const CAPABILITIES: [Capability; 20] = [
    Capability::Shader,
    Capability::Int8,
    Capability::Int16,
    Capability::Int64,
    Capability::Float16,
    Capability::Float64,
    Capability::Int64Atomics,
    Capability::StorageBuffer8BitAccess,
    Capability::StorageBuffer16BitAccess,
    Capability::GroupNonUniform,
    Capability::GroupNonUniformVote,
    Capability::GroupNonUniformArithmetic,
    Capability::GroupNonUniformBallot,
    Capability::GroupNonUniformShuffle,
    Capability::GroupNonUniformShuffleRelative,
    Capability::GroupNonUniformQuad,
    Capability::SignedZeroInfNanPreserve,
    Capability::RoundingModeRTE,
    Capability::DotProduct,
    Capability::DotProductInput4x8BitPacked,
];

const EXTENSIONS: [&str; 4] =
    ["SPV_KHR_8bit_storage", "SPV_KHR_16bit_storage", "SPV_KHR_float_controls", "SPV_KHR_integer_dot_product"];

/// A text as SPIR-V holds it: with a zero at the end, in whole words.
fn text_words(text: &str) -> Vec<u32> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(text.len() / 4 * 4 + 4, 0);
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
}

fn write(words: &mut Vec<u32>, operation: Op, operands: &[u32]) {
    words.push(u32::try_from(operands.len() + 1).unwrap_or(0) << 16 | operation as u32);
    words.extend(operands);
}

impl Module {
    pub(crate) fn new(local: [u32; 3]) -> Self {
        let mut module = Self {
            next: MAIN + 1,
            annotations: Vec::new(),
            declarations: Vec::new(),
            locals: Vec::new(),
            body: Vec::new(),
            inputs: Vec::new(),
            modes: vec![(spirv::ExecutionMode::LocalSize, local.to_vec())],
            declared: HashMap::new(),
            names: HashMap::new(),
            text: vec![format!("group of {local:?}")],
        };
        for width in [16, 32, 64] {
            module.modes.push((spirv::ExecutionMode::SignedZeroInfNanPreserve, vec![width]));
            module.modes.push((spirv::ExecutionMode::RoundingModeRTE, vec![width]));
        }
        module
    }

    /// The words of the module, and its text.
    pub(crate) fn finish(mut self) -> (Vec<u32>, String) {
        let void = self.declare(Op::TypeVoid, &[], "void");
        let function = self.declare(Op::TypeFunction, &[void], "function");
        let mut words = vec![spirv::MAGIC_NUMBER, 0x0001_0300, 0, self.next + 1, 0];
        for capability in CAPABILITIES {
            write(&mut words, Op::Capability, &[capability as u32]);
        }
        for extension in EXTENSIONS {
            write(&mut words, Op::Extension, &text_words(extension));
        }
        write(&mut words, Op::ExtInstImport, &[&[EXTENDED][..], &text_words("GLSL.std.450")].concat());
        write(&mut words, Op::MemoryModel, &[0, 1]);
        let model = spirv::ExecutionModel::GLCompute as u32;
        write(&mut words, Op::EntryPoint, &[&[model, MAIN][..], &text_words("main"), &self.inputs].concat());
        for (mode, operands) in &self.modes {
            write(&mut words, Op::ExecutionMode, &[&[MAIN, *mode as u32][..], operands].concat());
        }
        words.extend(self.annotations);
        words.extend(self.declarations);
        write(&mut words, Op::Function, &[void, MAIN, 0, function]);
        write(&mut words, Op::Label, &[self.next]);
        words.extend(self.locals);
        words.extend(self.body);
        write(&mut words, Op::Return, &[]);
        write(&mut words, Op::FunctionEnd, &[]);
        (words, self.text.join("\n"))
    }

    pub(crate) const fn id(&mut self) -> Id {
        self.next += 1;
        self.next - 1
    }

    fn named(&self, id: Id) -> String {
        self.names.get(&id).cloned().unwrap_or_else(|| format!("%{id}"))
    }

    pub(crate) fn decorate(&mut self, id: Id, decoration: Decoration, operands: &[u32]) {
        write(&mut self.annotations, Op::Decorate, &[&[id, decoration as u32], operands].concat());
    }

    fn declare(&mut self, operation: Op, operands: &[u32], name: &str) -> Id {
        if let Some(id) = self.declared.get(&(operation, operands.to_vec())) {
            return *id;
        }
        let id = self.id();
        // A constant's type comes first.
        let constant = matches!(operation, Op::Constant | Op::ConstantTrue | Op::ConstantFalse);
        let place = usize::from(constant);
        write(&mut self.declarations, operation, &[&operands[..place], &[id], &operands[place..]].concat());
        self.declared.insert((operation, operands.to_vec()), id);
        self.names.insert(id, name.to_owned());
        id
    }

    pub(crate) fn boolean(&mut self) -> Id {
        self.declare(Op::TypeBool, &[], "bool")
    }

    pub(crate) fn integer(&mut self, width: u32) -> Id {
        self.declare(Op::TypeInt, &[width, 0], &format!("u{width}"))
    }

    pub(crate) fn float(&mut self, width: u32) -> Id {
        self.declare(Op::TypeFloat, &[width], &format!("f{width}"))
    }

    pub(crate) fn vector(&mut self, element: Id, count: u32) -> Id {
        let name = format!("{}x{count}", self.named(element));
        self.declare(Op::TypeVector, &[element, count], &name)
    }

    /// A structure of two equal members.
    pub(crate) fn pair(&mut self, element: Id) -> Id {
        let name = format!("two {}", self.named(element));
        self.declare(Op::TypeStruct, &[element, element], &name)
    }

    pub(crate) fn array(&mut self, element: Id, count: u32) -> Id {
        let length = self.constant(32, count.into());
        let name = format!("{} {}", self.named(length), self.named(element));
        self.declare(Op::TypeArray, &[element, length], &name)
    }

    pub(crate) fn pointer(&mut self, class: StorageClass, target: Id) -> Id {
        let name = format!("{class:?} {}", self.named(target));
        self.declare(Op::TypePointer, &[class as u32, target], &name)
    }

    fn bits(&mut self, kind: Id, width: u32, bits: u64, name: &str) -> Id {
        let (low, high) = (bits as u32, (bits >> 32) as u32);
        if width == 64 {
            self.declare(Op::Constant, &[kind, low, high], name)
        } else {
            self.declare(Op::Constant, &[kind, low], name)
        }
    }

    /// An unsigned number, without the bits above its width.
    pub(crate) fn constant(&mut self, width: u32, value: u64) -> Id {
        let value = value & u64::MAX >> (64 - width);
        let kind = self.integer(width);
        self.bits(kind, width, value, &format!("{value:#x}"))
    }

    pub(crate) fn float_constant(&mut self, width: u32, bits: u64) -> Id {
        let kind = self.float(width);
        self.bits(kind, width, bits, &format!("f{width}({bits:#x})"))
    }

    pub(crate) fn truth(&mut self) -> Id {
        let kind = self.boolean();
        self.declare(Op::ConstantTrue, &[kind], "true")
    }

    /// A variable outside of the function.
    pub(crate) fn global(&mut self, class: StorageClass, target: Id, name: &str) -> Id {
        let (kind, id) = (self.pointer(class, target), self.id());
        write(&mut self.declarations, Op::Variable, &[kind, id, class as u32]);
        self.names.insert(id, name.to_owned());
        id
    }

    /// A value of the launch.
    pub(crate) fn input(&mut self, target: Id, what: spirv::BuiltIn) -> Id {
        let id = self.global(StorageClass::Input, target, &format!("{what:?}"));
        self.inputs.push(id);
        self.decorate(id, Decoration::BuiltIn, &[what as u32]);
        id
    }

    /// A variable of the function.
    pub(crate) fn local(&mut self, target: Id, name: &str) -> Id {
        let (kind, id) = (self.pointer(StorageClass::Function, target), self.id());
        write(&mut self.locals, Op::Variable, &[kind, id, StorageClass::Function as u32]);
        self.names.insert(id, name.to_owned());
        id
    }

    /// A structure with an array without an end, as a buffer holds it; `stride` is the elements' distance.
    pub(crate) fn block(&mut self, class: StorageClass, element: Id, stride: u32, count: Option<u32>) -> Id {
        let array = self.id();
        match count {
            None => write(&mut self.declarations, Op::TypeRuntimeArray, &[array, element]),
            Some(count) => {
                let length = self.constant(32, count.into());
                write(&mut self.declarations, Op::TypeArray, &[array, element, length]);
            }
        }
        self.decorate(array, Decoration::ArrayStride, &[stride]);
        let block = self.id();
        write(&mut self.declarations, Op::TypeStruct, &[block, array]);
        self.decorate(block, Decoration::Block, &[]);
        write(&mut self.annotations, Op::MemberDecorate, &[block, 0, Decoration::Offset as u32, 0]);
        self.global(class, block, &format!("block{block}"))
    }

    /// A two-dimensional image of unsigned numbers.
    pub(crate) fn image(&mut self, format: spirv::ImageFormat) -> Id {
        let word = self.integer(32);
        let name = format!("image {format:?}");
        self.declare(Op::TypeImage, &[word, spirv::Dim::Dim2D as u32, 0, 0, 0, 2, format as u32], &name)
    }

    fn line(&mut self, operation: &str, id: Option<Id>, kind: Option<Id>, ids: &[Id], literals: &[u32]) {
        let mut line = id.map_or_else(String::new, |id| format!("%{id} = "));
        line += operation;
        for id in kind.iter().chain(ids) {
            line += &format!(" {}", self.named(*id));
        }
        for literal in literals {
            line += &format!(" #{literal}");
        }
        self.text.push(line);
    }

    /// An instruction with a result; the literals come last.
    pub(crate) fn value_with(&mut self, operation: Op, kind: Id, ids: &[Id], literals: &[u32]) -> Id {
        let id = self.id();
        self.line(&format!("{operation:?}"), Some(id), Some(kind), ids, literals);
        write(&mut self.body, operation, &[&[kind, id], ids, literals].concat());
        id
    }

    pub(crate) fn value(&mut self, operation: Op, kind: Id, ids: &[Id]) -> Id {
        self.value_with(operation, kind, ids, &[])
    }

    /// An operation of GLSL.
    pub(crate) fn extended(&mut self, operation: GlslStd450Op, kind: Id, ids: &[Id]) -> Id {
        let id = self.id();
        self.line(&format!("{operation:?}"), Some(id), Some(kind), ids, &[]);
        write(&mut self.body, Op::ExtInst, &[&[kind, id, EXTENDED, operation as u32], ids].concat());
        id
    }

    /// An operation of a subgroup on a value.
    pub(crate) fn group(&mut self, operation: Op, kind: Id, way: spirv::GroupOperation, value: Id) -> Id {
        let (id, scope) = (self.id(), self.constant(32, spirv::Scope::Subgroup as u64));
        self.line(&format!("{operation:?} {way:?}"), Some(id), Some(kind), &[value], &[]);
        write(&mut self.body, operation, &[kind, id, scope, way as u32, value]);
        id
    }

    /// An instruction without a result; the literals come last.
    pub(crate) fn act(&mut self, operation: Op, ids: &[Id], literals: &[u32]) {
        self.line(&format!("{operation:?}"), None, None, ids, literals);
        write(&mut self.body, operation, &[ids, literals].concat());
    }

    pub(crate) fn switch(&mut self, selector: Id, default: Id, cases: &[Id]) {
        self.line("Switch", None, None, &[&[selector, default], cases].concat(), &[]);
        let pairs: Vec<u32> = (0..).zip(cases).flat_map(|(number, label)| [number, *label]).collect();
        write(&mut self.body, Op::Switch, &[&[selector, default][..], &pairs].concat());
    }

    pub(crate) fn label(&mut self, id: Id) {
        self.line(&format!("Label %{id}"), None, None, &[], &[]);
        write(&mut self.body, Op::Label, &[id]);
    }

    pub(crate) fn comment(&mut self, text: &str) {
        self.text.push(format!("; {text}"));
    }
}
