//! Numbers of tests: registers as numbers of all types, and 16-bit arithmetic by integers.

use half::f16;

/// A number that occupies one or two registers.
pub(crate) trait Number: Copy + 'static {
    const WORDS: usize;

    fn of(word: u64) -> Self;

    fn word(self) -> u64;

    /// `true` if the bits are those of a NaN, which are all the same here.
    fn nan(_: u64) -> bool {
        false
    }
}

macro_rules! numbers {
    ($($type:ty, $words:literal, $of:expr, $word:expr, $nan:expr;)*) => {
        $(impl Number for $type {
            const WORDS: usize = $words;

            fn of(word: u64) -> Self {
                let of: fn(u64) -> $type = $of;
                of(word)
            }

            fn word(self) -> u64 {
                let word: fn($type) -> u64 = $word;
                word(self)
            }

            fn nan(bits: u64) -> bool {
                let nan: fn(u64) -> bool = $nan;
                nan(bits)
            }
        })*
    };
}

numbers! {
    u8, 1, |word| word as u8, u64::from, |_| false;
    u16, 1, |word| word as u16, u64::from, |_| false;
    i16, 1, |word| word as i16, |it| (it as u16).into(), |_| false;
    u32, 1, |word| word as u32, u64::from, |_| false;
    i32, 1, |word| word as i32, |it| (it as u32).into(), |_| false;
    u64, 2, |word| word, |it| it, |_| false;
    i64, 2, |word| word as i64, |it| it as u64, |_| false;
    f16, 1, |word| f16::from_bits(word as u16), |it| it.to_bits().into(), |bits| bits & 0x7fff > 0x7c00;
    f32, 1, |word| f32::from_bits(word as u32), |it| it.to_bits().into(), |bits| f32::from_bits(bits as u32).is_nan();
    f64, 2, f64::from_bits, f64::to_bits, |bits| f64::from_bits(bits).is_nan();
}

/// A finite 16-bit number as a multiple of 2^-24.
fn fixed(value: f16) -> i128 {
    let (exponent, fraction) = (value.to_bits() >> 10 & 31, i128::from(value.to_bits() & 0x3ff));
    let magnitude = if exponent == 0 { fraction } else { (fraction | 0x400) << (exponent - 1) };
    if value.is_sign_negative() { -magnitude } else { magnitude }
}

/// The nearest 16-bit number of a multiple of 2^-`unit`.
pub(crate) fn nearest(value: i128, unit: u32, negative_zero: bool) -> f16 {
    let magnitude = value.unsigned_abs();
    let negative = value < 0 || value == 0 && negative_zero;
    // The place of the last bit: at least that of denormal numbers, 2^-24.
    let shift = (128 - magnitude.leading_zeros()).saturating_sub(11).max(unit - 24);
    let (kept, lost) = (magnitude >> shift, magnitude & ((1 << shift) - 1));
    let half = (1_u128 << shift) >> 1;
    let up = u128::from(lost > half || lost == half && half != 0 && kept & 1 != 0);
    let bits = if shift > unit + 8 { 0x7c00 } else { ((kept + up) as u32 + ((shift + 24 - unit) << 10)).min(0x7c00) };
    f16::from_bits(bits as u16 | if negative { 0x8000 } else { 0 })
}

/// `a * b + c`, rounded once.
pub(crate) fn fused16(a: f16, b: f16, c: f16) -> f16 {
    let (wide_a, wide_b, wide_c) = (a.to_f64(), b.to_f64(), c.to_f64());
    if !(a.is_finite() && b.is_finite() && c.is_finite()) {
        return f16::from_f32((wide_a * wide_b + wide_c) as f32);
    }
    let exact = fixed(a) * fixed(b) + (fixed(c) << 24);
    let negative_zero = (wide_a * wide_b + wide_c).is_sign_negative();
    nearest(exact, 48, negative_zero)
}

pub(crate) fn product16(a: f16, b: f16) -> f16 {
    let zero = if a.is_sign_negative() == b.is_sign_negative() { f16::ZERO } else { f16::NEG_ZERO };
    fused16(a, b, zero)
}

pub(crate) fn sum16(a: f16, b: f16) -> f16 {
    fused16(a, f16::ONE, b)
}
