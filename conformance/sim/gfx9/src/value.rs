//! Types of operands: how registers and constants become numbers.

use half::f16;

/// Type of an operand as the assembler writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Int16,
    Int32,
    Int64,
    Float16,
    Float32,
    Float64,
    /// A pair of 16-bit integers.
    Pair16,
    /// A pair of 16-bit floating-point numbers.
    PairFloat16,
}

impl Kind {
    /// Registers that an operand occupies.
    pub(crate) const fn words(self) -> usize {
        match self {
            Self::Int64 | Self::Float64 => 2,
            _ => 1,
        }
    }

    pub(crate) const fn is_short(self) -> bool {
        matches!(self, Self::Int16 | Self::Float16)
    }

    pub(crate) const fn is_float(self) -> bool {
        matches!(self, Self::Float16 | Self::Float32 | Self::Float64 | Self::PairFloat16)
    }
}

/// Sizes of one constant.
pub(crate) const fn constant(half: u16, single: u32, double: u64) -> [u64; 3] {
    [half as u64, single as u64, double]
}

/// The floating-point constants with source codes 240 to 248.
pub(crate) const FLOATS: [[u64; 3]; 9] = [
    constant(0x3800, 0x3f00_0000, 0x3fe0_0000_0000_0000),
    constant(0xb800, 0xbf00_0000, 0xbfe0_0000_0000_0000),
    constant(0x3c00, 0x3f80_0000, 0x3ff0_0000_0000_0000),
    constant(0xbc00, 0xbf80_0000, 0xbff0_0000_0000_0000),
    constant(0x4000, 0x4000_0000, 0x4000_0000_0000_0000),
    constant(0xc000, 0xc000_0000, 0xc000_0000_0000_0000),
    constant(0x4400, 0x4080_0000, 0x4010_0000_0000_0000),
    constant(0xc400, 0xc080_0000, 0xc010_0000_0000_0000),
    constant(0x3118, 0x3e22_f983, 0x3fc4_5f30_6dc9_c882),
];

/// A value of one lane.
pub(crate) trait Value: Copy + Default {
    const KIND: Kind;

    fn from_words(low: u32, high: u32) -> Self;

    fn low(self) -> u32;

    fn high(self) -> u32 {
        0
    }

    /// Applies the source modifiers of floating-point operands. Integers have none.
    fn modified(self, _absolute: bool, _negate: bool) -> Self {
        self
    }

    /// Applies the output modifiers: multiplication by a power of two, and the clamp to 0 to 1, which makes 0 of NaN
    /// or keeps it. `None`: not implemented for this type.
    fn finished(self, _scale: u8, _clamp: bool, _clamps_nan: bool) -> Option<Self> {
        None
    }

    /// Replaces a denormal number by 0 of the same sign.
    fn flushed(self) -> Self {
        self
    }
}

macro_rules! integers {
    ($($type:ty, $kind:ident, $low:expr, $high:expr, $from:expr;)*) => {
        $(
            impl Value for $type {
                const KIND: Kind = Kind::$kind;

                fn from_words(low: u32, high: u32) -> Self {
                    let from: fn(u32, u32) -> $type = $from;
                    from(low, high)
                }

                fn low(self) -> u32 {
                    let low: fn($type) -> u32 = $low;
                    low(self)
                }

                fn high(self) -> u32 {
                    let high: fn($type) -> u32 = $high;
                    high(self)
                }
            }
        )*
    };
}

integers! {
    u32, Int32, |it| it, |_| 0, |low, _| low;
    i32, Int32, i32::cast_unsigned, |_| 0, |low, _| low.cast_signed();
    u16, Int16, |it| it.into(), |_| 0, |low, _| low as u16;
    i16, Int16, |it| it.cast_unsigned().into(), |_| 0, |low, _| low as i16;
    u64, Int64, |it| it as u32, |it| (it >> 32) as u32, |low, high| u64::from(high) << 32 | u64::from(low);
    i64, Int64, |it| it as u32, |it| (it >> 32) as u32,
        |low, high| (u64::from(high) << 32 | u64::from(low)).cast_signed();
}

/// An integer that saturates.
pub(crate) trait Integer: Value {
    fn wrapped(exact: i64) -> Self;

    fn saturated(exact: i64) -> Self;
}

macro_rules! saturating {
    ($($type:ty),*) => {
        $(
            impl Integer for $type {
                fn wrapped(exact: i64) -> Self {
                    exact as $type
                }

                fn saturated(exact: i64) -> Self {
                    exact.clamp(<$type>::MIN.into(), <$type>::MAX.into()) as $type
                }
            }
        )*
    };
}

saturating! { u16, i16, u32, i32 }

macro_rules! floats {
    ($($type:ty, $kind:ident, $bits:ty, $exponent:literal, $zero:expr, $one:expr, $scales:expr;)*) => {
        $(
            impl Value for $type {
                const KIND: Kind = Kind::$kind;

                fn from_words(low: u32, high: u32) -> Self {
                    Self::from_bits((u64::from(high) << 32 | u64::from(low)) as $bits)
                }

                fn low(self) -> u32 {
                    u64::from(self.to_bits()) as u32
                }

                fn high(self) -> u32 {
                    (u64::from(self.to_bits()) >> 32) as u32
                }

                fn modified(self, absolute: bool, negate: bool) -> Self {
                    let sign = 1 << (<$bits>::BITS - 1);
                    let bits = if absolute { self.to_bits() & !sign } else { self.to_bits() };
                    Self::from_bits(if negate { bits ^ sign } else { bits })
                }

                fn finished(self, scale: u8, clamp: bool, clamps_nan: bool) -> Option<Self> {
                    let scales: [Self; 4] = $scales;
                    let scaled = if scale == 0 { self } else { self * scales[usize::from(scale & 3)] };
                    Some(match clamp {
                        true if !clamps_nan && scaled.is_nan() => scaled,
                        true if scaled.partial_cmp(&$zero).is_none_or(std::cmp::Ordering::is_le) => $zero,
                        true if scaled > $one => $one,
                        _ => scaled,
                    })
                }

                fn flushed(self) -> Self {
                    let bits = self.to_bits();
                    let sign = 1 << (<$bits>::BITS - 1);
                    Self::from_bits(if bits & $exponent == 0 { bits & sign } else { bits })
                }
            }
        )*
    };
}

floats! {
    f16, Float16, u16, 0x7c00, f16::ZERO, f16::ONE, [0x3c00, 0x4000, 0x4400, 0x3800].map(f16::from_bits);
    f32, Float32, u32, 0x7f80_0000, 0.0, 1.0, [1.0, 2.0, 4.0, 0.5];
    f64, Float64, u64, 0x7ff0_0000_0000_0000, 0.0, 1.0, [1.0, 2.0, 4.0, 0.5];
}

/// A pair of 16-bit values in one register, for packed instructions.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Pair<T>(pub(crate) T, pub(crate) T);

macro_rules! pairs {
    ($($type:ty, $kind:ident;)*) => {
        $(
            impl Value for Pair<$type> {
                const KIND: Kind = Kind::$kind;

                fn from_words(low: u32, _: u32) -> Self {
                    Self(<$type>::from_words(low & 0xffff, 0), <$type>::from_words(low >> 16, 0))
                }

                fn low(self) -> u32 {
                    self.0.low() | self.1.low() << 16
                }

                fn finished(self, scale: u8, clamp: bool, clamps_nan: bool) -> Option<Self> {
                    let half = |half: $type| half.finished(scale, clamp, clamps_nan);
                    Some(Self(half(self.0)?, half(self.1)?))
                }

                fn flushed(self) -> Self {
                    Self(self.0.flushed(), self.1.flushed())
                }
            }
        )*
    };
}

pairs! { u16, Pair16; i16, Pair16; f16, PairFloat16; }
