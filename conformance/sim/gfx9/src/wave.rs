//! The registers of a wave, and how scalar operands are read and written.

use crate::value::{FLOATS, Kind, Value};
use crate::{Result, Stop, unknown};

/// Work items of a wave.
pub(crate) const LANES: usize = 64;

/// A register of all lanes.
pub(crate) type Lanes = [u32; LANES];

/// Numbers of special scalar registers, and source codes.
pub(crate) mod code {
    pub(crate) const FLAT_SCRATCH: u16 = 102;
    pub(crate) const VCC: u16 = 106;
    /// The first of the trap handler's registers.
    pub(crate) const TTMP: u16 = 108;
    pub(crate) const M0: u16 = 124;
    pub(crate) const EXEC: u16 = 126;
    pub(crate) const SDWA: u16 = 249;
    pub(crate) const DPP: u16 = 250;
    pub(crate) const LDS_DIRECT: u16 = 254;
    pub(crate) const LITERAL: u16 = 255;
    pub(crate) const VECTOR: u16 = 256;
}

/// What a wave does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    /// It waits for the other waves of its workgroup.
    Barrier,
    /// It gives way to others for a while.
    Asleep,
    Ended,
}

/// How floating-point numbers are treated, as the register MODE describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mode {
    pub(crate) bits: u32,
    /// Denormal numbers of 32 bits become 0.
    pub(crate) flush_single: bool,
    /// Denormal numbers of 16 and 64 bits become 0.
    pub(crate) flush_other: bool,
}

impl Mode {
    /// The mode of the low 12 bits of MODE. `None`: rounding other than to nearest even.
    pub(crate) fn new(bits: u32) -> Option<Self> {
        let nearest = bits & 0xf == 0;
        nearest.then_some(Self { bits, flush_single: bits >> 4 & 3 != 3, flush_other: bits >> 6 & 3 != 3 })
    }

    /// `true` if the clamp makes 0 of NaN.
    pub(crate) const fn clamps_nan(self) -> bool {
        self.bits >> 8 & 1 != 0
    }

    /// `true` if a signalling NaN is the result of a minimum or maximum.
    pub(crate) const fn is_ieee(self) -> bool {
        self.bits >> 9 & 1 != 0
    }

    /// `true` if denormal numbers of a type become 0.
    pub(crate) fn flushes(self, kind: Kind) -> bool {
        match kind {
            Kind::Float32 => self.flush_single,
            Kind::Float16 | Kind::Float64 | Kind::PairFloat16 => self.flush_other,
            _ => false,
        }
    }
}

/// The addresses through which flat instructions reach memory that is not global, in their high words.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Apertures {
    pub(crate) shared: u32,
    pub(crate) private: u32,
}

/// A wave: its registers and its state.
#[derive(Debug)]
pub(crate) struct Wave {
    pub(crate) scalars: [u32; 128],
    pub(crate) vectors: Vec<Lanes>,
    pub(crate) scc: bool,
    pub(crate) pc: u64,
    pub(crate) mode: Mode,
    pub(crate) state: State,
    pub(crate) apertures: Apertures,
    /// The lanes of EXEC as masks of all bits, for the value of EXEC beside it.
    mask: (u64, Lanes),
}

impl Wave {
    pub(crate) fn new(vectors: usize, mode: Mode, apertures: Apertures) -> Self {
        Self {
            scalars: [0; 128],
            vectors: vec![[0; LANES]; vectors],
            scc: false,
            pc: 0,
            mode,
            state: State::Ready,
            apertures,
            mask: (0, [0; LANES]),
        }
    }

    pub(crate) fn pair(&self, number: u16) -> u64 {
        let number = usize::from(number & 126);
        u64::from(self.scalars[number + 1]) << 32 | u64::from(self.scalars[number])
    }

    pub(crate) fn set_pair(&mut self, number: u16, value: u64) {
        let number = usize::from(number & 126);
        self.scalars[number] = value as u32;
        self.scalars[number + 1] = (value >> 32) as u32;
    }

    pub(crate) fn exec(&self) -> u64 {
        self.pair(code::EXEC)
    }

    pub(crate) fn vcc(&self) -> u64 {
        self.pair(code::VCC)
    }

    /// The active lanes as masks.
    #[cfg(test)]
    pub(crate) fn mask(&mut self) -> &Lanes {
        self.refresh_mask();
        &self.mask.1
    }

    fn refresh_mask(&mut self) {
        let exec = self.exec();
        if self.mask.0 != exec {
            self.mask = (exec, std::array::from_fn(|lane| 0_u32.wrapping_sub((exec >> lane & 1) as u32)));
        }
    }

    /// Writes the active lanes of a register.
    pub(crate) fn set_active(&mut self, number: usize, words: impl Fn(usize) -> u32) -> Result<()> {
        let all = self.exec() == u64::MAX;
        if !all {
            self.refresh_mask();
        }
        let mask = &self.mask.1;
        let Some(register) = self.vectors.get_mut(number) else { return Err(NO_VECTOR) };
        if all {
            *register = std::array::from_fn(words);
        } else {
            for (lane, word) in register.iter_mut().enumerate() {
                *word = *word & !mask[lane] | words(lane) & mask[lane];
            }
        }
        Ok(())
    }

    /// Numbers of the active lanes.
    pub(crate) fn active(&self) -> impl Iterator<Item = usize> + use<> {
        let mut rest = self.exec();
        std::iter::from_fn(move || {
            let lane = (rest != 0).then_some(rest.trailing_zeros() as usize);
            rest &= rest.wrapping_sub(1);
            lane
        })
    }

    pub(crate) fn vector(&self, number: usize) -> Result<&Lanes> {
        match self.vectors.get(number) {
            Some(register) => Ok(register),
            None => Err(NO_VECTOR),
        }
    }

    pub(crate) fn vector_mut(&mut self, number: usize) -> Result<&mut Lanes> {
        match self.vectors.get_mut(number) {
            Some(register) => Ok(register),
            None => Err(NO_VECTOR),
        }
    }

    /// Reads a scalar operand.
    pub(crate) fn scalar<T: Value>(&self, source: u16, literal: u32) -> Result<T> {
        let (low, high) = self.scalar_words(source, literal, T::KIND)?;
        Ok(T::from_words(low, high))
    }

    /// The words of a scalar operand of a type.
    pub(crate) fn scalar_words(&self, source: u16, literal: u32, kind: Kind) -> Result<(u32, u32)> {
        let index = usize::from(source);
        let wide = kind.words() == 2;
        let integer = |value: i32| (value.cast_unsigned(), (value >> 31).cast_unsigned());
        Ok(match source {
            0..128 if wide => (self.scalars[index], self.scalars.get(index + 1).copied().unwrap_or(0)),
            0..128 => (self.scalars[index], 0),
            128..=192 => integer(i32::from(source) - 128),
            193..=208 => integer(192 - i32::from(source)),
            // The apertures' limits are those of 32 bits; as a pair, the high word is the base.
            235 if wide => (0, self.apertures.shared),
            237 if wide => (0, self.apertures.private),
            240..=248 => {
                let [half, single, double] = FLOATS[index - 240];
                match kind {
                    Kind::Int16 | Kind::Float16 | Kind::PairFloat16 => (half as u32, 0),
                    // A pair of integers is the whole word.
                    Kind::Int32 | Kind::Float32 | Kind::Pair16 => (single as u32, 0),
                    Kind::Int64 | Kind::Float64 => (double as u32, (double >> 32) as u32),
                }
            }
            251 => (u32::from(self.vcc() == 0), 0),
            252 => (u32::from(self.exec() == 0), 0),
            253 => (u32::from(self.scc), 0),
            code::LITERAL if kind == Kind::Float64 => (0, literal),
            code::LITERAL => (literal, 0),
            _ => return Err(unknown("a scalar source")),
        })
    }

    /// Writes a scalar register, or a pair of them.
    pub(crate) fn set_scalar<T: Value>(&mut self, number: u16, value: T) -> Result<()> {
        let index = usize::from(number);
        let words = [value.low(), value.high()];
        let Some(target) = self.scalars.get_mut(index..index + T::KIND.words()) else {
            return Err(unknown("a scalar destination"));
        };
        target.copy_from_slice(&words[..T::KIND.words()]);
        Ok(())
    }
}

const NO_VECTOR: Stop = unknown("a vector register that the program did not ask for");

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;

    fn wave() -> Wave {
        Wave::new(4, Mode::new(0xc0).unwrap(), Apertures { shared: 1, private: 2 })
    }

    #[test]
    fn constants_have_the_operands_type() {
        let wave = wave();
        assert_eq!(wave.scalar::<u32>(240, 0), Ok(0x3f00_0000));
        assert_eq!(wave.scalar::<f16>(240, 0), Ok(f16::from_f32(0.5)));
        assert_eq!(wave.scalar::<f64>(248, 0).unwrap(), 0.159_154_943_091_895_32);
        assert_eq!(wave.scalar::<i64>(193, 0), Ok(-1));
        assert_eq!(wave.scalar::<u32>(208, 0), Ok(-16_i32 as u32));
        assert_eq!(wave.scalar::<f64>(255, 0x3ff0_0000), Ok(1.0));
        assert_eq!(wave.scalar::<u64>(255, 0x8000_0000), Ok(0x8000_0000));
        assert_eq!(wave.scalar::<u64>(237, 0), Ok(2 << 32));
        assert!(wave.scalar::<u32>(209, 0).is_err());
    }

    #[test]
    fn the_mask_follows_exec() {
        let mut wave = wave();
        for exec in [0, 1, u64::MAX, 1 << 63 | 4] {
            wave.set_pair(code::EXEC, exec);
            let mask = *wave.mask();
            let lanes: Vec<_> = wave.active().collect();
            assert_eq!(lanes, (0..LANES).filter(|lane| mask[*lane] == u32::MAX).collect::<Vec<_>>());
            assert_eq!(lanes.len() as u32, exec.count_ones());
        }
    }
}
