//! Which codes name an operand.

use super::Reason;
use crate::wave::code;

/// What a code of a scalar operand names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    /// The first of a group of general registers.
    General(u16),
    /// The first of a group of the trap handler's registers.
    Trap(u16),
    /// The name of a special register, or of a pair of them.
    Special(&'static str),
}

/// A register's name if it is one of a pair, and the name of the pair that it starts.
const SPECIAL: [(u16, &str, Option<&str>); 10] = [
    (102, "flat_scratch_lo", Some("flat_scratch")),
    (103, "flat_scratch_hi", None),
    (104, "xnack_mask_lo", Some("xnack_mask")),
    (105, "xnack_mask_hi", None),
    (106, "vcc_lo", Some("vcc")),
    (107, "vcc_hi", None),
    (124, "m0", None),
    (NULL, "null", Some("null")),
    (126, "exec_lo", Some("exec")),
    (127, "exec_hi", None),
];

/// A code that GFX9 reserves.
const NULL: u16 = 125;

/// Sources that are neither registers nor numbers.
const NAMED: [(u16, &str); 9] = [
    (235, "src_shared_base"),
    (236, "src_shared_limit"),
    (237, "src_private_base"),
    (238, "src_private_limit"),
    (239, "src_pops_exiting_wave_id"),
    (251, "src_vccz"),
    (252, "src_execz"),
    (253, "src_scc"),
    (code::LDS_DIRECT, "src_lds_direct"),
];

/// The registers that a code of 7 bits names as the first one of `words`.
pub(crate) fn scalar(code: u16, words: u16) -> Option<Scalar> {
    // Groups start at multiples of their size, up to 4. The assembler's tools accept other codes and round them down.
    let first = |number: u16| number & !(words.min(4) - 1);
    match code {
        0..code::FLAT_SCRATCH => {
            let first = first(code);
            (first + words <= 104).then_some(Scalar::General(first))
        }
        code::TTMP..code::M0 => {
            let first = first(code - code::TTMP);
            (first + words <= 16).then_some(Scalar::Trap(first))
        }
        _ => {
            let (_, single, pair) = SPECIAL.iter().find(|(number, ..)| *number == code)?;
            match words {
                1 => Some(Scalar::Special(single)),
                2 | 4 => pair.map(Scalar::Special),
                _ => None,
            }
        }
    }
}

/// `true` for the codes of constants and literals.
pub(crate) const fn is_number(code: u16) -> bool {
    matches!(code, 128..=208 | 240..=248 | code::LITERAL)
}

/// The name of a source that is neither a register nor a number.
pub(crate) fn named(code: u16) -> Option<&'static str> {
    NAMED.iter().find(|(number, _)| *number == code).map(|(_, name)| *name)
}

/// What the processor does with an instruction is unknown if it has a text, but its fields have values that are reserved.
#[derive(Debug, Default)]
pub(super) struct Reserved(Option<Reason>);

impl Reserved {
    /// Notes a reserved value, if there is one.
    pub(super) fn note(&mut self, is_reserved: bool, reason: Reason) {
        if is_reserved {
            self.0.get_or_insert(reason);
        }
    }

    pub(super) fn reason(self) -> Option<Reason> {
        self.0
    }

    /// Checks the code of scalar registers. Returns it as the first register's number.
    pub(super) fn scalar(&mut self, code: u16, words: u16) -> Result<u16, Reason> {
        let registers = scalar(code, words).ok_or("scalar registers")?;
        self.note(code == NULL, "the scalar register 125");
        let first = match registers {
            Scalar::General(first) => {
                self.note(first + words > code::FLAT_SCRATCH, "scalar registers beyond the last one");
                first
            }
            Scalar::Trap(first) => code::TTMP + first,
            Scalar::Special(_) => {
                self.note(words > 2, "special registers as a group of four");
                code
            }
        };
        self.note(first != code, "scalar registers that are not aligned");
        Ok(first)
    }

    /// Checks the code of a scalar destination with 8 bits, of which only those of 7 are registers.
    pub(super) fn destination(&mut self, code: u16, words: u16) -> Result<u16, Reason> {
        match code {
            0..128 => self.scalar(code, words),
            code::LDS_DIRECT if words > 1 => Err("a scalar destination"),
            _ if named(code).is_some() => {
                self.note(true, "a scalar destination that cannot be written");
                Ok(code)
            }
            _ => Err("a scalar destination"),
        }
    }

    /// As [`source`](Self::source), of instructions that do not read vector registers.
    pub(super) fn scalar_source(&mut self, code: u16, words: u16, literal: bool) -> Result<u16, Reason> {
        self.note(code == code::LDS_DIRECT || code >= code::VECTOR, "a vector as a scalar source");
        self.source(code, words, literal)
    }

    /// Checks the code of a source with 9 bits. Returns it with the first register's number.
    pub(super) fn source(&mut self, code: u16, words: u16, literal: bool) -> Result<u16, Reason> {
        match code {
            0..128 => self.scalar(code, words),
            128..=208 | 235..=248 | 251..=253 => Ok(code),
            code::LDS_DIRECT if words == 1 => Ok(code),
            code::LITERAL if literal => Ok(code),
            code::VECTOR.. => vector(code - code::VECTOR, words).map(|number| number + code::VECTOR),
            _ => Err("a source"),
        }
    }
}

/// Checks the number of a vector register, the first one of `words`.
pub(super) fn vector(number: u16, words: u16) -> Result<u16, Reason> {
    if number + words <= 256 { Ok(number) } else { Err("vector registers beyond the last one") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_registers_are_aligned_and_end_at_the_last_one() {
        assert_eq!(scalar(5, 1), Some(Scalar::General(5)));
        assert_eq!(scalar(5, 2), Some(Scalar::General(4)));
        assert_eq!(scalar(88, 16), Some(Scalar::General(88)));
        assert_eq!(scalar(92, 16), None);
        assert_eq!(scalar(103, 2), None);
        assert_eq!(scalar(106, 2), Some(Scalar::Special("vcc")));
        assert_eq!(scalar(120, 4), Some(Scalar::Trap(12)));
        assert_eq!(scalar(120, 8), None);
        assert_eq!(vector(254, 2), Ok(254));
        assert!(vector(255, 2).is_err());
    }

    #[test]
    fn reserved_values_are_noted() {
        let reason = |code, words| {
            let mut reserved = Reserved::default();
            reserved.scalar(code, words).map(|_| reserved.reason().is_some())
        };
        assert_eq!(reason(4, 2), Ok(false));
        assert_eq!(reason(5, 2), Ok(true));
        assert_eq!(reason(125, 1), Ok(true));
        assert_eq!(reason(102, 2), Ok(false));
        assert_eq!(reason(102, 4), Ok(true));
        assert_eq!(reason(100, 4), Ok(true));
        assert!(reason(124, 2).is_err());
    }
}
