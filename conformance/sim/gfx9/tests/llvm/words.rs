//! Words of instructions: random ones of each encoding, and complete series.

/// Marsaglia's xorshift64.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(crate) fn word(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as u32
    }

    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        ((u64::from(self.word()) * u64::from(limit)) >> 32) as u32
    }

    /// `true` once in a number of times.
    fn once_in(&mut self, times: u32) -> bool {
        self.below(times) == 0
    }

    /// A code of a source with 8 or 9 bits: all kinds are about equally frequent.
    fn source(&mut self, vectors: bool) -> u32 {
        match self.below(if vectors { 10 } else { 6 }) {
            0 => self.below(128),
            1 => 102 + self.below(26),
            2 => 128 + self.below(81),
            3 => 235 + self.below(21),
            4 => self.below(104) & !1,
            5 => {
                if self.once_in(4) {
                    255
                } else {
                    self.below(256)
                }
            }
            6 => 508 + self.below(4),
            _ => 256 + self.below(256),
        }
    }

    /// A literal: often a number that is a constant, too.
    fn literal(&mut self) -> u32 {
        const SPECIAL: [u32; 12] = [
            0,
            64,
            65,
            0xffff_fff0,
            0xffff_ffef,
            0x3f80_0000,
            0xbf00_0000,
            0x3e22_f983,
            0x3c00,
            0x3118,
            0xfff0,
            0xc400,
        ];
        match self.below(4) {
            0 => SPECIAL[self.below(SPECIAL.len() as u32) as usize],
            1 => SPECIAL[self.below(SPECIAL.len() as u32) as usize] | self.word() << 16,
            2 => self.below(256),
            _ => self.word(),
        }
    }

    /// Random bits of a mask, each set once in four times.
    fn sparse(&mut self, mask: u32) -> u32 {
        self.word() & self.word() & mask
    }
}

/// An encoding: its fixed bits, and its opcode's place and width in the first word.
#[derive(Debug)]
pub(crate) struct Encoding {
    pub(crate) name: &'static str,
    fixed: u32,
    pub(crate) opcode: (u32, u32),
    operands: fn(&mut Random) -> [u32; 2],
}

impl Encoding {
    const fn new(name: &'static str, fixed: u32, opcode: (u32, u32), operands: fn(&mut Random) -> [u32; 2]) -> Self {
        Self { name, fixed, opcode, operands }
    }

    /// Words with any opcode. Of some, all bits other than those of the encoding are random.
    pub(crate) fn random(&self, random: &mut Random) -> [u32; 2] {
        let opcode = random.below(1 << self.opcode.1);
        if random.once_in(8) {
            let high = !(u32::MAX >> self.fixed.leading_ones().max(6));
            let first = random.word() & !high & !(((1 << self.opcode.1) - 1) << self.opcode.0);
            let words = [self.fixed | first | opcode << self.opcode.0, random.word()];
            return self.answerable(words);
        }
        self.with_opcode(random, opcode)
    }

    pub(crate) fn with_opcode(&self, random: &mut Random, opcode: u32) -> [u32; 2] {
        let [first, second] = (self.operands)(random);
        self.answerable([self.fixed | opcode << self.opcode.0 | first, second])
    }

    /// Changes words for which LLVM 14's answer is wrong: it does not know the bit for a scalar offset.
    fn answerable(&self, [first, second]: [u32; 2]) -> [u32; 2] {
        match self.name {
            "SMEM" => [first & !(1 << 14), second],
            _ => with_selections([first, second]),
        }
    }
}

/// Changes selections of SDWA that do not exist. LLVM's text of them is undefined.
fn with_selections([first, mut second]: [u32; 2]) -> [u32; 2] {
    if first >> 31 == 0 && first & 0x1ff == 249 {
        for place in [8, 16, 24] {
            if second >> place & 7 == 7 {
                second &= !(1 << place);
            }
        }
        if second >> 11 & 3 == 3 {
            second &= !(1 << 11);
        }
    }
    [first, second]
}

fn sop(random: &mut Random) -> [u32; 2] {
    [random.source(false) | random.source(false) << 8 | random.below(128) << 16, random.literal()]
}

fn sop1(random: &mut Random) -> [u32; 2] {
    [random.source(false) | random.below(128) << 16, random.literal()]
}

fn sopc(random: &mut Random) -> [u32; 2] {
    [random.source(false) | random.source(false) << 8, random.literal()]
}

fn sopk(random: &mut Random) -> [u32; 2] {
    [random.below(0x10000) | random.below(128) << 16, random.literal()]
}

fn sopp(random: &mut Random) -> [u32; 2] {
    [if random.once_in(3) { 0 } else { random.below(0x10000) }, random.literal()]
}

fn smem(random: &mut Random) -> [u32; 2] {
    let first = random.below(64) | random.below(128) << 6 | random.sparse(1 << 16 | 1 << 17) | random.sparse(0xe000);
    [first, if random.once_in(2) { random.below(256) } else { random.word() }]
}

fn vop1(random: &mut Random) -> [u32; 2] {
    [random.source(true) | random.below(256) << 17, random.literal()]
}

fn vop2(random: &mut Random) -> [u32; 2] {
    [random.source(true) | random.below(256) << 9 | random.below(256) << 17, random.literal()]
}

fn vopc(random: &mut Random) -> [u32; 2] {
    [random.source(true) | random.below(256) << 9, random.literal()]
}

/// The word of SDWA, with selections and modifiers.
fn sdwa(random: &mut Random) -> u32 {
    let scalar = random.once_in(4);
    let source = if scalar { random.source(false) | 1 << 23 } else { random.below(256) };
    let selections = random.below(7) << 8 | random.below(3) << 11 | random.below(7) << 16;
    source | selections | random.sparse(1 << 13 | 3 << 14 | 1 << 19 | 3 << 20 | 1 << 22)
}

fn sdwa1(random: &mut Random) -> [u32; 2] {
    [249 | random.below(256) << 17, sdwa(random) | random.sparse(1 << 30)]
}

fn second_sdwa(random: &mut Random) -> (u32, u32) {
    let scalar = random.once_in(4);
    let source = if scalar { random.source(false) } else { random.below(256) };
    let word = sdwa(random) | random.below(7) << 24 | random.sparse(1 << 27 | 3 << 28 | 1 << 30);
    (source, word | u32::from(scalar) << 31)
}

fn sdwa2(random: &mut Random) -> [u32; 2] {
    let (source, word) = second_sdwa(random);
    [249 | source << 9 | random.below(256) << 17, word]
}

fn sdwac(random: &mut Random) -> [u32; 2] {
    let (source, word) = second_sdwa(random);
    let target = if random.once_in(2) { random.below(128) << 8 | 1 << 15 } else { 0 };
    [249 | source << 9, word & !0xff00 | target]
}

fn dpp(random: &mut Random) -> u32 {
    let control = match random.below(3) {
        0 => random.below(256),
        1 => 0x100 + random.below(0x50),
        _ => random.below(512),
    };
    random.below(256) | control << 8 | random.sparse(0x00fe_0000) | random.word() & 0xff00_0000
}

fn dpp1(random: &mut Random) -> [u32; 2] {
    [250 | random.below(256) << 17, dpp(random)]
}

fn dpp2(random: &mut Random) -> [u32; 2] {
    [250 | random.below(256) << 9 | random.below(256) << 17, dpp(random)]
}

/// Fields of VOP3 that some instructions lack are 0 in half of the words.
fn vop3(random: &mut Random) -> [u32; 2] {
    let half = |random: &mut Random, bits: u32| if random.once_in(2) { bits } else { 0 };
    let third = random.source(true) << 18;
    let (third, modifiers) = (half(random, third), random.sparse(0xf800_0000));
    let low = random.word() & 0xff00;
    let low = if random.once_in(2) { random.sparse(0xff00) } else { low };
    let first = random.below(256) | half(random, low);
    [first, random.source(true) | random.source(true) << 9 | third | half(random, modifiers)]
}

/// As VOP3 with one source.
fn vop3_one(random: &mut Random) -> [u32; 2] {
    let [first, second] = vop3(random);
    [first, second & 0xf800_01ff]
}

fn vop3p(random: &mut Random) -> [u32; 2] {
    let third = if random.once_in(2) { random.source(true) << 18 } else { 0 };
    let negations = if random.once_in(2) { random.sparse(0xe000_0000) } else { 0 };
    let halves = random.word() & 0x1800_0000;
    let first = random.below(256) | random.sparse(0xff00);
    [first, random.source(true) | random.source(true) << 9 | third | negations | halves]
}

fn optional(random: &mut Random, shift: u32) -> u32 {
    if random.once_in(2) { random.below(256) << shift } else { 0 }
}

fn ds(random: &mut Random) -> [u32; 2] {
    let offset = if random.once_in(3) { 0 } else { random.below(0x10000) };
    let second = random.below(256) | optional(random, 8) | optional(random, 16) | optional(random, 24);
    [offset | random.sparse(1 << 16 | 1 << 25), second]
}

fn flat(random: &mut Random) -> [u32; 2] {
    let first = random.below(0x2000) | random.sparse(3 << 16 | 1 << 25);
    [first, random.below(256) | random.below(256) << 8 | random.below(256) << 24 | random.sparse(1 << 23)]
}

fn global(random: &mut Random) -> [u32; 2] {
    let [first, second] = flat(random);
    let scalar = if random.once_in(2) { 0x7f } else { random.below(128) };
    [first, second | scalar << 16]
}

fn buffer(random: &mut Random) -> [u32; 2] {
    let first = random.below(0x1000) | random.word() & 3 << 12 | random.sparse(0x0203_c000);
    let second = random.below(256) | random.below(256) << 8 | random.below(32) << 16 | random.sparse(7 << 21);
    [first, second | random.source(false) << 24]
}

/// MTBUF: the place of MUBUF's low opcode bits has the format.
fn typed(random: &mut Random) -> [u32; 2] {
    let [first, second] = buffer(random);
    [first & 0x7fff | random.below(128) << 19, second]
}

fn image(random: &mut Random) -> [u32; 2] {
    let first = random.below(16) << 8 | random.sparse(0x0203_f080);
    let second = random.below(256) | random.below(256) << 8 | random.below(32) << 16;
    [first, second | random.below(32) << 21 | random.sparse(1 << 31)]
}

/// All encodings of the interpreter, those of vector instructions in all forms.
pub(crate) const ENCODINGS: &[Encoding] = &[
    Encoding::new("SOP2", 0x8000_0000, (23, 7), sop),
    Encoding::new("SOP1", 0xbe80_0000, (8, 8), sop1),
    Encoding::new("SOPC", 0xbf00_0000, (16, 7), sopc),
    Encoding::new("SOPK", 0xb000_0000, (23, 5), sopk),
    Encoding::new("SOPP", 0xbf80_0000, (16, 7), sopp),
    Encoding::new("SMEM", 0xc000_0000, (18, 8), smem),
    Encoding::new("VOP1", 0x7e00_0000, (9, 8), vop1),
    Encoding::new("VOP2", 0x0000_0000, (25, 6), vop2),
    Encoding::new("VOPC", 0x7c00_0000, (17, 8), vopc),
    Encoding::new("VOP1 SDWA", 0x7e00_0000, (9, 8), sdwa1),
    Encoding::new("VOP2 SDWA", 0x0000_0000, (25, 6), sdwa2),
    Encoding::new("VOPC SDWA", 0x7c00_0000, (17, 8), sdwac),
    Encoding::new("VOP1 DPP", 0x7e00_0000, (9, 8), dpp1),
    Encoding::new("VOP2 DPP", 0x0000_0000, (25, 6), dpp2),
    // Several times: it has the most opcodes and fields.
    Encoding::new("VOP3", 0xd000_0000, (16, 10), vop3),
    Encoding::new("VOP3", 0xd1c0_0000, (16, 6), vop3),
    Encoding::new("VOP3", 0xd1f0_0000, (16, 4), vop3),
    Encoding::new("VOP3", 0xd280_0000, (16, 5), vop3),
    Encoding::new("VOP3 of VOP1", 0xd140_0000, (16, 7), vop3_one),
    Encoding::new("VOP3P", 0xd380_0000, (16, 7), vop3p),
    Encoding::new("DS", 0xd800_0000, (17, 8), ds),
    Encoding::new("FLAT", 0xdc00_0000, (18, 7), flat),
    Encoding::new("SCRATCH", 0xdc00_4000, (18, 7), global),
    Encoding::new("GLOBAL", 0xdc00_8000, (18, 7), global),
    Encoding::new("MUBUF", 0xe000_0000, (18, 7), buffer),
    Encoding::new("MTBUF", 0xe800_0000, (15, 4), typed),
    Encoding::new("MIMG", 0xf000_0000, (18, 7), image),
];

/// Series of words with all values of one field.
pub(crate) fn complete() -> Vec<(&'static str, Vec<[u32; 2]>)> {
    let numbers = |first: u32| (0..0x10000).map(move |number| [first | number, 0]).collect::<Vec<_>>();
    let mut sources = Vec::new();
    for code in 0..256 {
        for literal in
            [0, 1, 64, 65, 0xffff_fff0, 0x3f80_0000, 0x3c00, 0xb800, 0x3118, 0x3e22_f983, 0x1_0005, 0xffff_8000]
        {
            // The moves of 32 and 64 bits.
            sources.extend([[0xbe80_0000 | code, literal], [0xbe80_0100 | code, literal]]);
            // Of each type of one operand: all opcodes of VOP1.
            sources.extend((0..0x60).map(|opcode| [0x7e00_0000 | opcode << 9 | code, literal]));
            sources.extend((0..0x3f).map(|opcode| [opcode << 25 | code, literal]));
        }
    }
    let controls =
        (0..512).flat_map(|control| [0x7e00_02fa, 0x0200_00fa].map(|first| [first, control << 8 | 0xff00_0000]));
    vec![
        ("s_waitcnt", numbers(0xbf8c_0000)),
        ("s_sendmsg", numbers(0xbf90_0000)),
        ("s_getreg", numbers(0xb880_0000)),
        ("s_movk", numbers(0xb000_0000)),
        ("ds_swizzle", numbers(0xd87a_0000)),
        ("s_load offsets", (0..1 << 21).step_by(37).map(|offset| [0xc002_0000, offset]).collect()),
        ("DPP controls", controls.collect()),
        ("sources", sources.into_iter().map(with_selections).collect()),
    ]
}
