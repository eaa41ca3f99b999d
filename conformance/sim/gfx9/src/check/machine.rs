//! Single instructions on a wave whose registers are set and read directly.

use super::compile::assemble;
use super::space::Space;
use crate::Result;
use crate::decode::{Instruction, decode};
use crate::dispatch::Unit;
use crate::memory::Bus;
use crate::tiling::AddressConfig;
use crate::wave::{Apertures, LANES, Lanes, Mode, Wave};

/// All denormal numbers are kept.
pub(crate) const DENORMALS: u32 = 0x1f0;

#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) wave: Wave,
    pub(crate) shared: Vec<u8>,
    pub(crate) space: Space,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let mode = Mode::new(DENORMALS).unwrap();
        let mut wave = Wave::new(64, mode, Apertures { shared: 0x1_0000, private: 0x2_0000 });
        wave.set_pair(crate::wave::code::EXEC, u64::MAX);
        Self { wave, shared: vec![0; 8192], space: Space::default() }
    }

    pub(crate) fn execute(&mut self, instruction: &Instruction) -> Result<()> {
        super::rows::record(instruction);
        let mut bus = Bus::new(&self.space);
        let mut unit = Unit {
            wave: &mut self.wave,
            shared: &mut self.shared,
            bus: &mut bus,
            addresses: AddressConfig::default(),
            forget_code: false,
        };
        (instruction.row.execute)(&mut unit, &instruction.fields)
    }

    /// Assembles and executes instructions.
    pub(crate) fn run(&mut self, text: &str) {
        for instruction in assembled(text) {
            self.execute(&instruction).unwrap_or_else(|stop| panic!("{text}: {stop}"));
        }
    }

    /// A vector register, or a pair of them, as one number.
    pub(crate) fn vector(&self, number: usize, words: usize, lane: usize) -> u64 {
        let high = if words == 2 { self.wave.vectors[number + 1][lane] } else { 0 };
        u64::from(high) << 32 | u64::from(self.wave.vectors[number][lane])
    }

    pub(crate) fn set_vector(&mut self, number: usize, values: impl Fn(usize) -> u64) {
        for lane in 0..LANES {
            let value = values(lane);
            self.wave.vectors[number][lane] = value as u32;
            self.wave.vectors[number + 1][lane] = (value >> 32) as u32;
        }
    }

    pub(crate) fn set_word(&mut self, number: usize, values: impl Fn(usize) -> u32) {
        self.wave.vectors[number] = std::array::from_fn(values);
    }

    pub(crate) fn lanes(&self, number: usize) -> Lanes {
        self.wave.vectors[number]
    }
}

/// Instructions of an assembler's text.
pub(crate) fn assembled(text: &str) -> Vec<Instruction> {
    let words = assemble(text);
    let mut instructions = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let pair = [words[at], words.get(at + 1).copied().unwrap_or(0)];
        let line = text.lines().nth(instructions.len()).unwrap_or("");
        let instruction = decode(pair).unwrap_or_else(|reason| panic!("{line} ({pair:08x?}): {reason}"));
        at += (instruction.length / 4) as usize;
        instructions.push(instruction);
    }
    instructions
}
