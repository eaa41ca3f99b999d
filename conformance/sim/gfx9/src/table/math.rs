//! Functions of floating-point numbers that Rust's library lacks, as the processor defines them.

use half::f16;

/// The smaller number; a number if only one of them is.
pub(super) fn minimum<T: PartialOrd + Float>(a: T, b: T) -> T {
    if a.is_nan() {
        return b.quiet();
    }
    if b.is_nan() {
        return a;
    }
    // -0 is smaller than 0.
    if a < b || a == b && a.is_negative() { a } else { b }
}

/// The larger number; a number if only one of them is.
pub(super) fn maximum<T: PartialOrd + Float>(a: T, b: T) -> T {
    if a.is_nan() {
        return b.quiet();
    }
    if b.is_nan() {
        return a;
    }
    if a > b || a == b && b.is_negative() { a } else { b }
}

/// As a function of [`minimum`] and [`maximum`] in the mode of IEEE: a signalling NaN is the result, and becomes quiet.
pub(super) fn signalling<T: Float>(a: T, b: T, function: impl Fn(T, T) -> T) -> T {
    match () {
        () if a.is_signalling() => a.quiet(),
        () if b.is_signalling() => b.quiet(),
        () => function(a, b),
    }
}

/// The number in the middle; the smallest if one of them is not a number.
pub(super) fn median<T: PartialOrd + Float>(a: T, b: T, c: T) -> T {
    if a.is_nan() || b.is_nan() || c.is_nan() {
        return minimum(minimum(a, b), c);
    }
    let largest = maximum(maximum(a, b), c);
    if largest == a {
        maximum(b, c)
    } else if largest == b {
        maximum(a, c)
    } else {
        maximum(a, b)
    }
}

/// What the functions here need of a type.
pub(super) trait Float: Copy {
    fn is_nan(self) -> bool;
    fn is_negative(self) -> bool;
    fn is_signalling(self) -> bool;
    /// Makes a signalling NaN quiet.
    fn quiet(self) -> Self;
}

macro_rules! floats {
    ($($type:ty, $quiet:literal;)*) => {
        $(
            impl Float for $type {
                fn is_nan(self) -> bool {
                    self != self
                }

                fn is_negative(self) -> bool {
                    self.is_sign_negative()
                }

                fn is_signalling(self) -> bool {
                    self != self && self.to_bits() & $quiet == 0
                }

                fn quiet(self) -> Self {
                    if self != self { Self::from_bits(self.to_bits() | $quiet) } else { self }
                }
            }
        )*
    };
}

floats! { f16, 0x200; f32, 0x40_0000; f64, 0x8_0000_0000_0000; }

/// A binary operation of 16-bit numbers, rounded once: 32 bits are more than twice as exact.
pub(super) fn half2(function: impl Fn(f32, f32) -> f32) -> impl Fn(f16, f16) -> f16 {
    move |a, b| f16::from_f32(function(a.to_f32(), b.to_f32()))
}

pub(super) fn half1(function: impl Fn(f32) -> f32) -> impl Fn(f16) -> f16 {
    move |a| f16::from_f32(function(a.to_f32()))
}

/// A fused multiplication and addition of 16-bit numbers, rounded once.
pub(super) fn fused_half(a: f16, b: f16, c: f16) -> f16 {
    // The product is exact.
    to_half(sum_to_odd(a.to_f64() * b.to_f64(), c.to_f64()))
}

/// A fused multiplication and addition of 32-bit numbers, rounded once, without a call of the C library for each lane.
#[inline]
pub(super) fn fused_single(a: f32, b: f32, c: f32) -> f32 {
    // The product of two mantissas of 24 bits is exact.
    sum_to_odd(f64::from(a) * f64::from(b), c.into()) as f32
}

/// A sum that is rounded to odd: another rounding, to at most 51 bits, is the only one that counts.
#[inline]
fn sum_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let virtual_b = sum - a;
    // Exact, by Knuth. NaN if the sum is infinite or NaN.
    let error = (a - (sum - virtual_b)) + (b - virtual_b);
    let bits = sum.to_bits();
    // The neighbour towards the exact sum: a larger magnitude has larger bits.
    let away = (error > 0.0) == (sum > 0.0);
    let neighbour = if away { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    let inexact = error.abs() > 0.0;
    f64::from_bits(if inexact && bits & 1 == 0 { neighbour } else { bits })
}

/// Converts to 16 bits, rounded once.
pub(super) fn to_half(value: f64) -> f16 {
    let single = value as f32;
    let error = value - f64::from(single);
    // NaN, infinities and exact numbers.
    if !(error != 0.0 && single.is_finite()) || single.to_bits() & 1 != 0 {
        return f16::from_f32(single);
    }
    let away = (error > 0.0) == (value > 0.0);
    f16::from_f32(f32::from_bits(if away { single.to_bits() + 1 } else { single.to_bits() - 1 }))
}

/// Converts to an integer, towards 0, between two limits; NaN becomes 0.
pub(super) fn to_u32(value: f64) -> u32 {
    value as u32
}

pub(super) fn to_i32(value: f64) -> i32 {
    value as i32
}

/// The fraction, smaller than 1.
pub(super) fn fraction32(value: f32) -> f32 {
    let fraction = value - value.floor();
    if fraction >= 1.0 { f32::from_bits(0x3f7f_ffff) } else { fraction }
}

pub(super) fn fraction64(value: f64) -> f64 {
    let fraction = value - value.floor();
    if fraction >= 1.0 { f64::from_bits(0x3fef_ffff_ffff_ffff) } else { fraction }
}

/// The exponent for which the mantissa is 0.5 to 1; 0 for 0, infinities and NaN.
pub(super) fn exponent64(value: f64) -> i32 {
    if value == 0.0 || !value.is_finite() {
        return 0;
    }
    let bits = value.abs().to_bits();
    match (bits >> 52) as i32 {
        // A denormal number: its first bit.
        0 => -1010 - bits.leading_zeros().cast_signed(),
        exponent => exponent - 1022,
    }
}

/// The mantissa for [`exponent64`].
pub(super) fn mantissa64(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() { value } else { scaled64(value, -exponent64(value)) }
}

pub(super) fn exponent32(value: f32) -> i32 {
    exponent64(value.into())
}

pub(super) fn mantissa32(value: f32) -> f32 {
    mantissa64(value.into()) as f32
}

/// Multiplies by a power of two, rounded once.
pub(super) fn scaled64(value: f64, exponent: i32) -> f64 {
    scaled_part(value, false, exponent)
}

/// As [`scaled64`]. `more`: the number has more bits than the value, which was rounded towards 0.
fn scaled_part(value: f64, more: bool, exponent: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value.quiet();
    }
    let sign = value.to_bits() & 1 << 63;
    // 53 bits, of which the first is 1.
    let significand = value.abs().to_bits() << 11;
    let significand = match value.is_normal() {
        true => significand >> 11 & ((1 << 52) - 1) | 1 << 52,
        false => significand << significand.leading_zeros() >> 11,
    };
    let exponent = exponent64(value).saturating_add(exponent);
    f64::from_bits(match exponent {
        1025.. => sign | f64::INFINITY.to_bits(),
        // The first bit of the significand adds 1 to the exponent.
        -1021.. => sign | ((((exponent + 1021) as u64) << 52) + significand),
        _ => {
            let shift = (-1021_i32).saturating_sub(exponent).min(60);
            let (kept, lost) = (significand >> shift, significand & ((1 << shift) - 1));
            let half = 1 << (shift - 1);
            sign | (kept + u64::from(lost > half || lost == half && (more || kept & 1 != 0)))
        }
    })
}

pub(super) fn scaled32(value: f32, exponent: i32) -> f32 {
    // 64 bits hold the exact product, down to where every result is 0.
    scaled64(value.into(), exponent.clamp(-600, 600)) as f32
}

pub(super) fn sine(turns: f32) -> f32 {
    (f64::from(turns).fract() * std::f64::consts::TAU).sin() as f32
}

pub(super) fn cosine(turns: f32) -> f32 {
    (f64::from(turns).fract() * std::f64::consts::TAU).cos() as f32
}

pub(super) fn reciprocal_root(value: f32) -> f32 {
    (1.0 / f64::from(value).sqrt()) as f32
}

/// The class of a number as a bit: signalling NaN, quiet NaN, -infinity, -normal, -denormal, -0, and the positive ones in
/// the other order.
pub(super) fn class64(value: f64) -> u32 {
    class(value.is_nan(), value.to_bits() >> 51 & 1 != 0, value.is_sign_negative(), value.classify())
}

pub(super) fn class32(value: f32) -> u32 {
    class(value.is_nan(), value.to_bits() >> 22 & 1 != 0, value.is_sign_negative(), value.classify())
}

pub(super) fn class16(value: f16) -> u32 {
    class(value.is_nan(), value.to_bits() >> 9 & 1 != 0, value.is_sign_negative(), value.classify())
}

fn class(nan: bool, quiet: bool, negative: bool, category: std::num::FpCategory) -> u32 {
    use std::num::FpCategory::{Infinite, Nan, Normal, Subnormal, Zero};
    if nan {
        return 1 << u32::from(quiet);
    }
    let place = match category {
        Infinite | Nan => 0,
        Normal => 1,
        Subnormal => 2,
        Zero => 3,
    };
    1 << if negative { 2 + place } else { 9 - place }
}

/// Prepares an operand of a division: scales it if a step of the division would leave the range. The second result tells
/// `v_div_fmas` to scale back.
pub(super) fn division_scale32(value: f32, denominator: f32, numerator: f32) -> (f32, bool) {
    if denominator == 0.0 || numerator == 0.0 {
        return (f32::NAN, false);
    }
    let difference = exponent32(numerator) - exponent32(denominator);
    let small = |quotient: f64| quotient.abs() < f64::from(f32::MIN_POSITIVE);
    let (one_over, quotient) = (1.0 / f64::from(denominator), f64::from(numerator) / f64::from(denominator));
    let scaled = |when: bool, exponent: i32| if when { scaled32(value, exponent) } else { value };
    let of_denominator = value.to_bits() == denominator.to_bits();
    let of_numerator = value.to_bits() == numerator.to_bits();
    if difference >= 96 {
        (scaled(of_denominator, 64), true)
    } else if small(denominator.into()) {
        (scaled32(value, 64), false)
    } else if small(one_over) && small(quotient) {
        (scaled(of_denominator, -64), true)
    } else if small(one_over) {
        (scaled32(value, -64), false)
    } else if small(quotient) {
        (scaled(of_numerator, 64), true)
    } else if biased32(numerator) <= 23 {
        (scaled32(value, 64), false)
    } else {
        (value, false)
    }
}

const fn biased32(value: f32) -> u32 {
    value.to_bits() >> 23 & 0xff
}

pub(super) fn division_scale64(value: f64, denominator: f64, numerator: f64) -> (f64, bool) {
    if denominator == 0.0 || numerator == 0.0 {
        return (f64::NAN, false);
    }
    let difference = exponent64(numerator) - exponent64(denominator);
    let small = |quotient: f64| quotient.abs() < f64::MIN_POSITIVE;
    let (one_over, quotient) = (1.0 / denominator, numerator / denominator);
    let scaled = |when: bool, exponent: i32| if when { scaled64(value, exponent) } else { value };
    let of_denominator = value.to_bits() == denominator.to_bits();
    let of_numerator = value.to_bits() == numerator.to_bits();
    if difference >= 768 {
        (scaled(of_denominator, 128), true)
    } else if small(denominator) {
        (scaled64(value, 128), false)
    } else if small(one_over) && small(quotient) {
        (scaled(of_denominator, -128), true)
    } else if small(one_over) {
        (scaled64(value, -128), false)
    } else if small(quotient) {
        (scaled(of_numerator, 128), true)
    } else if numerator.to_bits() >> 52 & 0x7ff <= 53 {
        (scaled64(value, 128), false)
    } else {
        (value, false)
    }
}

/// The last step of a division, rounded once: `a * b + c`, scaled back if an operand was scaled. Large quotients had a
/// large denominator, small ones a large numerator.
pub(super) fn division_step32(a: f32, b: f32, c: f32, scaled: bool) -> f32 {
    if !scaled {
        return fused_single(a, b, c);
    }
    let exact = sum_to_odd(f64::from(a) * f64::from(b), c.into());
    scaled64(exact, if biased32(c) > 127 { 64 } else { -64 }) as f32
}

/// As [`division_step32`].
pub(super) fn division_step64(a: f64, b: f64, c: f64, scaled: bool) -> f64 {
    let nearest = a.mul_add(b, c);
    if !scaled {
        return nearest;
    }
    let exponent = if c.to_bits() >> 52 & 0x7ff > 1023 { 128 } else { -128 };
    let result = scaled64(nearest, exponent);
    if result.abs() > f64::MIN_POSITIVE || nearest == 0.0 {
        return result;
    }
    // The result loses bits of the sum, whose own rounding must not count: its error decides ties.
    let (product, sum) = (a * b, a * b + c);
    let virtual_c = sum - product;
    let rest = (product - (sum - virtual_c)) + (c - virtual_c);
    let error = ((sum - nearest) + rest) + a.mul_add(b, -product);
    // The sum, rounded towards 0.
    let beyond = error != 0.0 && (error > 0.0) != (nearest > 0.0);
    scaled_part(f64::from_bits(nearest.to_bits() - u64::from(beyond)), error != 0.0, exponent)
}

/// The quotient with its special cases.
pub(super) fn division_fixup32(quotient: f32, denominator: f32, numerator: f32) -> f32 {
    let negative = denominator.is_sign_negative() != numerator.is_sign_negative();
    let signed = |magnitude: f32| if negative { -magnitude } else { magnitude };
    if numerator.is_nan() {
        numerator.quiet()
    } else if denominator.is_nan() {
        denominator.quiet()
    } else if denominator == 0.0 && numerator == 0.0 || denominator.is_infinite() && numerator.is_infinite() {
        f32::from_bits(0xffc0_0000)
    } else if denominator == 0.0 || numerator.is_infinite() {
        signed(f32::INFINITY)
    } else if denominator.is_infinite() || numerator == 0.0 || exponent32(numerator) - exponent32(denominator) < -150 {
        signed(0.0)
    } else if exponent32(numerator) - exponent32(denominator) > 128 {
        signed(f32::INFINITY)
    } else {
        signed(quotient.abs())
    }
}

pub(super) fn division_fixup64(quotient: f64, denominator: f64, numerator: f64) -> f64 {
    let negative = denominator.is_sign_negative() != numerator.is_sign_negative();
    let signed = |magnitude: f64| if negative { -magnitude } else { magnitude };
    if numerator.is_nan() {
        numerator.quiet()
    } else if denominator.is_nan() {
        denominator.quiet()
    } else if denominator == 0.0 && numerator == 0.0 || denominator.is_infinite() && numerator.is_infinite() {
        f64::from_bits(0xfff8_0000_0000_0000)
    } else if denominator == 0.0 || numerator.is_infinite() {
        signed(f64::INFINITY)
    } else if denominator.is_infinite() || numerator == 0.0 || exponent64(numerator) - exponent64(denominator) < -1075 {
        signed(0.0)
    } else if exponent64(numerator) - exponent64(denominator) > 1024 {
        signed(f64::INFINITY)
    } else {
        signed(quotient.abs())
    }
}

pub(super) fn division_fixup16(quotient: f16, denominator: f16, numerator: f16) -> f16 {
    f16::from_f32(division_fixup32(quotient.to_f32(), denominator.to_f32(), numerator.to_f32()))
}

/// The sum of the absolute differences of bytes, of those that `counts` names.
pub(super) fn byte_differences(a: u32, b: u32, counts: impl Fn(u8, u8) -> bool) -> u32 {
    let pairs = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
    pairs.filter(|(a, b)| counts(*a, *b)).map(|(a, b)| u32::from(a.abs_diff(b))).sum()
}

/// Bytes chosen from two words, the second one the low half: `v_perm_b32`.
pub(super) fn permuted(high: u32, low: u32, selectors: u32) -> u32 {
    let bytes = (u64::from(high) << 32 | u64::from(low)).to_le_bytes();
    let sign = |byte: u8| if byte & 0x80 != 0 { 0xff } else { 0 };
    u32::from_le_bytes(selectors.to_le_bytes().map(|selector| match selector {
        0..8 => bytes[usize::from(selector)],
        // The signs of the halves.
        8..12 => sign(bytes[usize::from(selector - 8) * 2 + 1]),
        12 => 0,
        _ => 0xff,
    }))
}

/// The mean of bytes, rounded up where the third operand's bit is set: `v_lerp_u8`.
pub(super) fn means(a: u32, b: u32, rounding: u32) -> u32 {
    let [a, b, rounding] = [a, b, rounding].map(u32::to_le_bytes);
    u32::from_le_bytes(std::array::from_fn(|byte| {
        let sum = u16::from(a[byte]) + u16::from(b[byte]) + u16::from(rounding[byte] & 1);
        (sum >> 1) as u8
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_and_mantissas_make_the_number() {
        let mut bits = 1_u64;
        for _ in 0..20_000 {
            bits = bits.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            for value in [f64::from_bits(bits), f64::from_bits(bits >> 12)] {
                if value.is_finite() {
                    let (mantissa, exponent) = (mantissa64(value), exponent64(value));
                    assert!((0.5..1.0).contains(&mantissa.abs()), "{value:e}: {mantissa}");
                    assert_eq!(scaled64(mantissa, exponent).to_bits(), value.to_bits(), "{value:e}");
                }
            }
        }
        assert_eq!((exponent32(1.0), mantissa32(-3.0)), (1, -0.75));
    }

    #[test]
    fn a_scaled_number_is_rounded_once() {
        for (value, exponent, bits) in [
            (f64::MAX, -2097, 1 << 1),
            (f64::MAX, -2098, 1),
            (f64::MAX, -2099, 0),
            (1.5, -1074, 2),
            (2.5, -1075, 1),
            (-1.0, -1075, 1 << 63),
            (f64::from_bits(1), 2097, 0x7fe0_0000_0000_0000),
            (f64::from_bits(1), 2098, 0x7ff0_0000_0000_0000),
            (f64::from_bits(3), -1, 2),
            (f64::from_bits(0x000f_ffff_ffff_ffff), 1, 0x001f_ffff_ffff_fffe),
            (f64::MIN_POSITIVE, i32::MIN, 0),
        ] {
            assert_eq!(scaled64(value, exponent).to_bits(), bits, "{value:e} {exponent}");
        }
    }

    // MinGW's `fmaf`, which it is compared with, rounds twice.
    #[cfg(not(windows))]
    #[test]
    fn a_fused_single_is_rounded_once() {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as u32
        };
        let special = [0, 1, 0x7f_ffff, 0x80_0000, 0x3f80_0001, 0x7f7f_ffff, 0x7f80_0000, 0x7fc0_0000];
        for round in 0..2_000_000 {
            let mut numbers = [next(), next(), next()];
            match round % 5 {
                0 => {}
                // Products of 25 bits, often between two numbers: a much smaller number decides.
                4 => {
                    let [a, b] = [numbers[0] >> 21 | 0x801, numbers[1] >> 20 | 0x1001].map(|odd| odd as f32);
                    numbers[2] = numbers[2] & 0x81ff_ffff | 0x2000_0000;
                    numbers[0] = a.to_bits() | numbers[0] << 31;
                    numbers[1] = b.to_bits();
                }
                // Results that are near the product, at the limit to denormal numbers, and special numbers.
                1 => numbers = numbers.map(|bits| bits & 0x83ff_ffff | 0x3c00_0000),
                2 => {
                    numbers[0] = numbers[0] & 0x80ff_ffff | 0x2000_0000;
                    numbers[1] = numbers[1] & 0x80ff_ffff | 0x1f00_0000;
                    numbers[2] &= 0x80ff_ffff;
                }
                _ => numbers[next() as usize % 3] = special[next() as usize % 8] | next() & 1 << 31,
            }
            let [a, b, c] = numbers.map(f32::from_bits);
            let (ours, exact) = (fused_single(a, b, c), a.mul_add(b, c));
            assert!(
                ours.to_bits() == exact.to_bits() || ours.is_nan() && exact.is_nan(),
                "{numbers:x?}: {ours:e}, not {exact:e}"
            );
        }
    }

    #[test]
    fn a_fused_half_is_rounded_once() {
        // 1 + 2^-10 times itself is 1 + 2^-9 + 2^-20: with -2^-9 of addend, 1 + 2^-20 remains.
        let value = f16::from_bits(0x3c01);
        let addend = f16::from_f32(-(2.0_f32.powi(-9)));
        assert_eq!(fused_half(value, value, addend), f16::ONE);
        assert_eq!(fused_half(value, value, f16::NEG_INFINITY), f16::NEG_INFINITY);
        // 2048 + 1 is between two numbers, and 2^-24 more decides.
        let (large, one, tiny) = (f16::from_f32(2048.0), f16::ONE, f16::from_bits(1));
        let sum = fused_half(large, one, one);
        assert_eq!(sum.to_f32(), 2048.0);
        let more = fused_half(f16::from_f32(1.0 + 2.0_f32.powi(-10)), f16::from_f32(2047.0), tiny);
        assert_eq!(more, f16::from_f64(2047.0 * (1.0 + 2.0_f64.powi(-10)) + 2.0_f64.powi(-24)));
    }

    #[test]
    fn classes_have_one_bit() {
        let values = [f32::NEG_INFINITY, -1.0, -1e-40, -0.0, 0.0, 1e-40, 1.0, f32::INFINITY];
        for (place, value) in values.into_iter().enumerate() {
            assert_eq!(class32(value), 4 << place);
        }
        assert_eq!((class32(f32::NAN), class32(f32::from_bits(0x7f80_0001))), (2, 1));
    }
}
