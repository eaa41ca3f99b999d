//! Random functions in C, of numbers of all types: expressions, loops, branches, switches and early returns.

use std::fmt::Write as _;

/// A type of C's prelude.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Integer { signed: bool, bits: u32 },
    Float(u32),
}

use Type::{Float, Integer};

/// All types.
pub(crate) const TYPES: [Type; 11] = [
    Integer { signed: false, bits: 8 },
    Integer { signed: true, bits: 8 },
    Integer { signed: false, bits: 16 },
    Integer { signed: true, bits: 16 },
    Integer { signed: false, bits: 32 },
    Integer { signed: true, bits: 32 },
    Integer { signed: false, bits: 64 },
    Integer { signed: true, bits: 64 },
    Float(16),
    Float(32),
    Float(64),
];

impl Type {
    fn name(self) -> &'static str {
        let place = TYPES.iter().position(|other| *other == self).expect("a type");
        ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "f32", "f64"][place]
    }

    /// Bits of a value: those above are not compared.
    pub(crate) const fn bits(self) -> u32 {
        match self {
            Integer { bits, .. } | Float(bits) => bits,
        }
    }
}

/// A sequence of random numbers that depends on its seed only.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        ((self.next() >> 32) as usize) % limit
    }

    pub(crate) fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    /// A word of 64 bits: often one at a limit of some type.
    pub(crate) fn word(&mut self) -> u64 {
        match self.below(8) {
            0..3 => self.pick(&EDGES),
            3 => u64::from(self.pick(&SINGLES)) << 32 | u64::from(self.pick(&SINGLES)),
            4 => (0..4).fold(0, |word, _| word << 16 | u64::from(self.pick(&HALVES))),
            5 => u64::from(self.single()) << 32 | u64::from(self.single()),
            // A double of a moderate size.
            6 => self.next() & 0x800f_ffff_ffff_ffff | (1023 - 40 + self.below(80) as u64) << 52,
            _ => self.next(),
        }
    }

    /// A single of a moderate size.
    fn single(&mut self) -> u32 {
        self.next() as u32 & 0x807f_ffff | (127 - 20 + self.below(40) as u32) << 23
    }
}

/// Limits of 64-bit types.
const EDGES: [u64; 24] = [
    0,
    1,
    2,
    u64::MAX,
    u64::MAX - 1,
    1 << 63,
    (1 << 63) + 1,
    u64::MAX >> 1,
    1 << 31,
    u32::MAX as u64,
    1 << 32,
    0x7fff_ffff,
    0x3ff0_0000_0000_0000,
    0xbff0_0000_0000_0000,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7ff8_0000_0000_0000,
    0x000f_ffff_ffff_ffff,
    0x8000_0000_0000_0001,
    0x0010_0000_0000_0000,
    0x7fef_ffff_ffff_ffff,
    0x43e0_0000_0000_0000,
    0x41ef_ffff_ffe0_0000,
    0xc3e0_0000_0000_0000,
];

/// Limits of 32-bit types.
pub(crate) const SINGLES: [u32; 26] = [
    0,
    1,
    0xffff_ffff,
    0x8000_0000,
    0x7fff_ffff,
    0x8000_0001,
    0x3f80_0000,
    0xbf80_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0x007f_ffff,
    0x807f_ffff,
    0x0080_0000,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x4f00_0000,
    0x4f7f_ffff,
    0x5eff_ffff,
    0x3f00_0000,
    0x3fc0_0000,
    0x4b7f_ffff,
    0xcb00_0001,
    0x0000_ffff,
    0x0001_0000,
    0x00ff_00ff,
];

/// Limits of 16-bit types.
pub(crate) const HALVES: [u16; 16] = [
    0, 1, 0xffff, 0x8000, 0x7fff, 0x8001, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00, 0x03ff, 0x0400, 0x7bff, 0xfbff,
    0x3800,
];

/// Writes functions.
#[derive(Debug)]
pub(crate) struct Generator {
    pub(crate) random: Random,
    /// Variables of the function: numbers of them, with their types.
    variables: Vec<Type>,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), variables: Vec::new() }
    }

    /// A kernel of expressions: results of each item, in words of 64 bits, have the returned types.
    pub(crate) fn expressions(&mut self, name: &str, results: &[Type], depth: u32) -> String {
        let mut body = String::new();
        self.arguments(&mut body);
        for (place, kind) in results.iter().enumerate() {
            let value = self.expression(*kind, depth);
            let _ = writeln!(body, "    result[{place}] = {};", stored(*kind, &value));
        }
        kernel(name, results.len(), &body)
    }

    /// A kernel of statements, whose variables are the results.
    pub(crate) fn statements(&mut self, name: &str, types: &[Type; 3]) -> String {
        let mut body = String::new();
        self.arguments(&mut body);
        let first = self.variables.len();
        self.variables.extend(types);
        for (place, kind) in types.iter().enumerate() {
            let value = self.expression_before(*kind, 2, first);
            let _ = writeln!(body, "    {} v{} = {value};", kind.name(), first + place);
        }
        body.push_str("    do {\n");
        for _ in 0..4 {
            self.statement(&mut body, first, 3, 2);
        }
        body.push_str("    } while (0);\n");
        for (place, kind) in types.iter().enumerate() {
            let value = stored(*kind, &format!("v{}", first + place));
            let _ = writeln!(body, "    result[{place}] = {value};");
        }
        kernel(name, types.len(), &body)
    }

    /// The arguments of an item, three words, as variables of all types.
    fn arguments(&mut self, body: &mut String) {
        self.variables.clear();
        for place in 0..3 {
            for kind in TYPES {
                let number = self.variables.len();
                let name = kind.name();
                let value = match kind {
                    Integer { .. } => format!("({name})a[{place}]"),
                    Float(bits) => format!("from_{name}((u{bits})a[{place}])"),
                };
                let _ = writeln!(body, "    {name} v{number} = {value};");
                self.variables.push(kind);
            }
        }
    }

    fn statement(&mut self, body: &mut String, first: usize, depth: u32, loops: u32) {
        let number = first + self.random.below(3);
        let kind = self.variables[number];
        let choice = if depth == 0 { 0 } else { self.random.below(9) };
        match choice {
            3 | 4 => {
                let condition = self.condition(1);
                let _ = writeln!(body, "    if ({condition}) {{");
                self.block(body, first, depth - 1, loops);
                body.push_str("    } else {\n");
                self.block(body, first, depth - 1, loops);
                body.push_str("    }\n");
            }
            5 | 6 if loops > 0 => {
                let count = self.expression(Integer { signed: false, bits: 32 }, 1);
                let _ = writeln!(body, "    for (u32 i = 0, n = ({count}) & 7; i < n; i++) {{");
                self.block(body, first, depth - 1, loops - 1);
                let (leave, skip) = (self.condition(1), self.condition(1));
                let _ = writeln!(body, "    if ({leave}) break;\n    if ({skip}) continue;");
                self.block(body, first, depth - 1, loops - 1);
                body.push_str("    }\n");
            }
            7 => {
                let selector = self.expression(Integer { signed: false, bits: 32 }, 1);
                let _ = writeln!(body, "    switch (({selector}) % 6) {{");
                for case in [0, 1, 2, 4] {
                    let _ = writeln!(body, "    case {case}: {{");
                    self.block(body, first, depth - 1, loops);
                    // One case falls into the next.
                    body.push_str(if case == 1 { "    } __attribute__((fallthrough));\n" } else { "    } break;\n" });
                }
                body.push_str("    default: ;\n    }\n");
            }
            8 if depth == 3 => {
                let condition = self.condition(1);
                let _ = writeln!(body, "    if ({condition}) break;");
            }
            _ => {
                let value = self.expression(kind, 2);
                let _ = writeln!(body, "    v{number} = {value};");
            }
        }
    }

    fn block(&mut self, body: &mut String, first: usize, depth: u32, loops: u32) {
        for _ in 0..=self.random.below(2) {
            self.statement(body, first, depth, loops);
        }
    }

    fn condition(&mut self, depth: u32) -> String {
        let kind = self.random.pick(&TYPES);
        let operator = self.random.pick(&["<", "<=", ">", ">=", "==", "!="]);
        format!("({} {operator} {})", self.expression(kind, depth), self.expression(kind, depth))
    }

    /// An expression of the variables before one.
    fn expression_before(&mut self, kind: Type, depth: u32, limit: usize) -> String {
        let after = self.variables.split_off(limit);
        let value = self.expression(kind, depth);
        self.variables.extend(after);
        value
    }

    fn expression(&mut self, kind: Type, depth: u32) -> String {
        if depth == 0 {
            return self.leaf(kind);
        }
        match kind {
            Integer { .. } => self.integer(kind, depth),
            Float(bits) => self.float(kind, bits, depth),
        }
    }

    fn leaf(&mut self, kind: Type) -> String {
        if self.random.below(5) == 0 {
            return match kind {
                Integer { signed: false, bits } => {
                    format!("((u{bits}){}u)", self.random.pick(&[0_u32, 1, 3, 64, 255, 0x8000]))
                }
                Integer { signed: true, bits } => {
                    format!("((i{bits}){})", self.random.pick(&[0, 1, -1, -16, 64, 100, -77]))
                }
                Float(bits) => {
                    format!("((f{bits}){})", self.random.pick(&["0.5", "1.0", "-4.0", "0.0", "3.25", "1e-5"]))
                }
            };
        }
        let same: Vec<_> = (0..self.variables.len()).filter(|number| self.variables[*number] == kind).collect();
        format!("v{}", self.random.pick(&same))
    }

    fn integer(&mut self, kind: Type, depth: u32) -> String {
        let name = kind.name();
        let next = depth - 1;
        let mut operand = |kind: Type| self.expression(kind, next);
        let (a, b, c) = (operand(kind), operand(kind), operand(kind));
        match self.random.below(19) {
            0 => format!("({name})({a} + {b})"),
            1 => format!("({name})({a} - {b})"),
            2 => format!("({name})({a} * {b})"),
            3 => {
                let operator = self.random.pick(&["&", "|", "^"]);
                format!("({name})({a} {operator} {b})")
            }
            4 => format!("({name})({}{a})", self.random.pick(&["~", "-"])),
            5 | 6 => format!("{}_{name}({a}, {b})", self.random.pick(&["shl", "shr", "rot"])),
            7 => format!("{}_{name}({a}, {b})", self.random.pick(&["div", "rem"])),
            8 => format!("{}_{name}({a}, {b})", self.random.pick(&["min", "max", "high"])),
            9 => format!("{}_{name}({a}, {b})", self.random.pick(&["sat_add", "sat_sub"])),
            10 | 11 => format!("{}_{name}({a})", self.random.pick(&["reverse", "ones", "leading", "trailing", "swap"])),
            12 => format!("{}_{name}({a}, {b}, {c})", self.random.pick(&["field", "insert", "med"])),
            13 => format!("({name})({a} * {b} + {c})"),
            14 => format!("({} ? {a} : {b})", self.condition(next.min(1))),
            15 => format!("({name}){}", self.condition(next)),
            16 => {
                let from = self.random.pick(&TYPES[..8]);
                format!("({name})({})", self.expression(from, next))
            }
            17 => {
                let from = self.random.pick(&TYPES[8..]);
                format!("{name}_of_{}({})", from.name(), self.expression(from, next))
            }
            _ if kind.bits() == 8 => format!("({name})abs_i8((i8)({a}))"),
            _ => {
                let from = Float(kind.bits());
                format!("({name})bits_{}({})", from.name(), self.expression(from, next))
            }
        }
    }

    fn float(&mut self, kind: Type, bits: u32, depth: u32) -> String {
        let name = kind.name();
        let next = depth - 1;
        let mut operand = || self.expression(kind, next);
        let (a, b, c) = (operand(), operand(), operand());
        match self.random.below(16) {
            0 => format!("({name})({a} + {b})"),
            1 => format!("({name})({a} - {b})"),
            2 | 3 => format!("({name})({a} * {b})"),
            4 => format!("quotient_{name}({a}, {b})"),
            5 if bits != 16 => format!("root_{name}({a})"),
            6 if bits != 16 => format!("fused_{name}({a}, {b}, {c})"),
            7 => format!("ROUND({})({a})", self.random.pick(&["floor", "ceil", "trunc", "roundeven"])),
            8 => format!("{}_{name}({a}, {b})", self.random.pick(&["min", "max", "sign"])),
            9 => format!("({name})-({a})"),
            10 => format!("(({name})__builtin_elementwise_abs({a}) + {b})"),
            11 => format!("({} ? {a} : {b})", self.condition(next.min(1))),
            12 => {
                let from = self.random.pick(&TYPES[..8]);
                format!("({name})({})", self.expression(from, next))
            }
            13 => {
                let from = self.random.pick(&TYPES[8..]);
                // LLVM ignores the sign of 0 in products and differences that it converts to 16 bits.
                let function = if bits == 16 && from == Float(32) { "narrow" } else { name };
                format!("({function})({})", self.expression(from, next))
            }
            14 if bits != 16 => {
                let exponent = self.expression(Integer { signed: true, bits: 32 }, next);
                format!("scale_{name}({a}, {exponent})")
            }
            15 if bits != 16 => {
                if self.random.below(2) == 0 {
                    format!("mantissa_{name}({a})")
                } else {
                    format!("({name})exponent_{name}({a})")
                }
            }
            _ => {
                let from = Integer { signed: false, bits };
                format!("from_{name}({})", self.expression(from, next))
            }
        }
    }
}

/// A value as a word of 64 bits.
fn stored(kind: Type, value: &str) -> String {
    match kind {
        Integer { signed: true, bits } => format!("(u64)(u{bits})({value})"),
        Integer { .. } => format!("(u64)({value})"),
        Float(_) => format!("(u64)bits_{}({value})", kind.name()),
    }
}

fn kernel(name: &str, results: usize, body: &str) -> String {
    format!(
        "ITEMS({name}) {{\n    if (INDEX >= n) return;\n    const GLOBAL u64 *a = (const GLOBAL u64 *)in + INDEX * 3;\n    \
         GLOBAL u64 *result = (GLOBAL u64 *)out + INDEX * {results};\n{body}}}\n\n"
    )
}
