//! Formats of elements in buffers and images.

use half::f16;

use crate::{Result, unknown};

/// The layout of an element, and how its numbers are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    data: u8,
    number: Number,
}

/// How the bits of a component become a number of 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    Unorm,
    Snorm,
    Uscaled,
    Sscaled,
    Uint,
    Sint,
    Float,
    Srgb,
    Unknown,
}

impl Number {
    const fn is_integer(self) -> bool {
        matches!(self, Self::Uint | Self::Sint)
    }
}

/// The data format of three mantissas with one exponent.
const SHARED: u8 = 34;

/// Bits of the components of a data format, from the lowest bit on.
const fn widths(data: u8) -> Option<&'static [u32]> {
    Some(match data {
        1 => &[8],
        2 => &[16],
        3 => &[8, 8],
        4 => &[32],
        5 => &[16, 16],
        6 => &[11, 11, 10],
        7 => &[10, 11, 11],
        8 => &[2, 10, 10, 10],
        9 => &[10, 10, 10, 2],
        10 => &[8, 8, 8, 8],
        11 => &[32, 32],
        12 => &[16, 16, 16, 16],
        13 => &[32, 32, 32],
        14 => &[32, 32, 32, 32],
        // Of images only.
        16 => &[5, 6, 5],
        17 => &[5, 5, 5, 1],
        18 => &[1, 5, 5, 5],
        19 => &[4, 4, 4, 4],
        SHARED => &[9, 9, 9, 5],
        _ => return None,
    })
}

impl Format {
    pub(crate) const fn of_buffer(data: u32, number: u32) -> Self {
        let number = match number {
            0 => Number::Unorm,
            1 => Number::Snorm,
            2 => Number::Uscaled,
            3 => Number::Sscaled,
            4 => Number::Uint,
            5 => Number::Sint,
            7 => Number::Float,
            _ => Number::Unknown,
        };
        Self { data: data as u8, number }
    }

    pub(crate) const fn of_image(data: u32, number: u32) -> Self {
        match number {
            9 => Self { data: data as u8, number: Number::Srgb },
            _ => Self::of_buffer(data, number),
        }
    }

    /// Bytes of an element.
    pub(crate) fn size(self) -> Result<u32> {
        let widths = widths(self.data).ok_or(unknown("the data format"))?;
        Ok(widths.iter().sum::<u32>() / 8)
    }

    /// The results are integers.
    pub(crate) const fn is_integer(self) -> bool {
        self.number.is_integer()
    }

    /// A result as 16 bits: a number of half the precision, or the low half of an integer.
    pub(crate) fn halved(self, result: u32) -> u16 {
        if self.is_integer() { result as u16 } else { f16::from_f32(f32::from_bits(result)).to_bits() }
    }

    /// The component that 16 bits stand for.
    pub(crate) fn doubled(self, half: u16) -> u32 {
        match self.number {
            Number::Uint => half.into(),
            Number::Sint => i32::from(half.cast_signed()).cast_unsigned(),
            _ => f16::from_bits(half).to_f32().to_bits(),
        }
    }

    /// The results are numbers from 0, or -1, to 1.
    pub(crate) const fn is_normalised(self) -> bool {
        matches!(self.number, Number::Unorm | Number::Snorm | Number::Srgb)
    }

    /// 1 in the type that the format's numbers become.
    pub(crate) const fn one(self) -> u32 {
        if self.number.is_integer() { 1 } else { 0x3f80_0000 }
    }

    /// Components of an element as 32-bit numbers; those that it lacks are 0, the last one 1.
    pub(crate) fn unpack(self, bytes: [u32; 4]) -> Result<[u32; 4]> {
        if self.data == SHARED {
            return Ok(from_shared(bytes[0]));
        }
        let mut components = [0, 0, 0, self.one()];
        let mut at = 0;
        for (place, width) in widths(self.data).ok_or(unknown("the data format"))?.iter().enumerate() {
            let word = bytes[at / 32] >> (at % 32) & mask(*width);
            let linear = place == 3 && self.number == Number::Srgb;
            components[place] = self.number(word, *width, linear)?;
            at += *width as usize;
        }
        Ok(components)
    }

    fn number(self, word: u32, width: u32, linear: bool) -> Result<u32> {
        let signed = (word << (32 - width)).cast_signed() >> (32 - width);
        Ok(match self.number {
            Number::Uint => word,
            Number::Sint => signed.cast_unsigned(),
            Number::Unorm => unorm(word, width).to_bits(),
            Number::Snorm => ((f64::from(signed) / f64::from(mask(width - 1))).max(-1.0) as f32).to_bits(),
            Number::Uscaled => (word as f32).to_bits(),
            Number::Sscaled => (signed as f32).to_bits(),
            Number::Srgb if linear => unorm(word, width).to_bits(),
            Number::Srgb => from_srgb(unorm(word, width)).to_bits(),
            Number::Float => match width {
                32 => word,
                16 => f16::from_bits(word as u16).to_f32().to_bits(),
                11 => f16::from_bits((word << 4) as u16).to_f32().to_bits(),
                10 => f16::from_bits((word << 5) as u16).to_f32().to_bits(),
                _ => return Err(unknown("the width of a floating-point component")),
            },
            Number::Unknown => return Err(unknown("the number format")),
        })
    }

    /// An element of components.
    pub(crate) fn pack(self, components: [u32; 4]) -> Result<[u32; 4]> {
        if self.data == SHARED {
            return Err(unknown("a store with a shared exponent"));
        }
        let mut words = [0; 4];
        let mut at = 0;
        for (place, width) in widths(self.data).ok_or(unknown("the data format"))?.iter().enumerate() {
            let word = self.bits(components[place], *width, place == 3)? & mask(*width);
            words[at / 32] |= word << (at % 32);
            at += *width as usize;
        }
        Ok(words)
    }

    fn bits(self, component: u32, width: u32, last: bool) -> Result<u32> {
        let float = f32::from_bits(component);
        Ok(match self.number {
            Number::Uint => component.min(mask(width)),
            Number::Sint if width < 32 => {
                let limit = mask(width - 1).cast_signed();
                component.cast_signed().clamp(-limit - 1, limit).cast_unsigned()
            }
            Number::Sint => component,
            Number::Unorm => to_unorm(float, width),
            Number::Srgb => to_unorm(if last { float } else { to_srgb(float) }, width),
            Number::Snorm => {
                let scaled = f64::from(float.clamp(-1.0, 1.0)) * f64::from(mask(width - 1));
                if float.is_nan() { 0 } else { (scaled.round_ties_even() as i32).cast_unsigned() }
            }
            Number::Uscaled => float as u32,
            Number::Sscaled => (float as i32).cast_unsigned(),
            Number::Float => match width {
                32 => component,
                16 => f16::from_f32(float).to_bits().into(),
                11 => small_float(float, 4),
                10 => small_float(float, 5),
                _ => return Err(unknown("the width of a floating-point component")),
            },
            Number::Unknown => return Err(unknown("the number format")),
        })
    }
}

const fn mask(width: u32) -> u32 {
    ((1_u64 << width) - 1) as u32
}

fn unorm(word: u32, width: u32) -> f32 {
    (f64::from(word) / f64::from(mask(width))) as f32
}

fn to_unorm(value: f32, width: u32) -> u32 {
    (f64::from(value.clamp(0.0, 1.0)) * f64::from(mask(width))).round_ties_even() as u32
}

fn from_srgb(value: f32) -> f32 {
    let value = f64::from(value);
    (if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }) as f32
}

fn to_srgb(value: f32) -> f32 {
    let value = f64::from(value.clamp(0.0, 1.0));
    (if value <= 0.003_130_8 { value * 12.92 } else { 1.055 * value.powf(1.0 / 2.4) - 0.055 }) as f32
}

/// The components of an element whose mantissas have 9 bits, and a common exponent above them.
fn from_shared(word: u32) -> [u32; 4] {
    let scale = f64::exp2(f64::from(word >> 27) - 24.0);
    let component = |low: u32| ((f64::from(word >> low & 0x1ff) * scale) as f32).to_bits();
    [component(0), component(9), component(18), 1.0_f32.to_bits()]
}

/// A number without sign whose low bits are cut off from 16 bits: towards 0, with 0 for negative ones.
fn small_float(value: f32, cut: u32) -> u32 {
    if value.is_nan() {
        return u32::from(f16::NAN.to_bits()) >> cut;
    }
    if value <= 0.0 {
        return 0;
    }
    let bits = value.to_bits();
    if value.is_infinite() {
        return 0x7c00 >> cut;
    }
    // The exponent and the mantissa, cut off without rounding.
    let exponent = (bits >> 23).cast_signed() - 127;
    let half = match exponent {
        16.. => 0x7bff,
        -14..=15 => ((exponent + 15).cast_unsigned() << 10) | bits >> 13 & 0x3ff,
        -24..=-15 => (bits & 0x7f_ffff | 0x80_0000) >> (-exponent - 1).cast_unsigned(),
        _ => 0,
    };
    half >> cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_normalised_numbers_survive() {
        for (data, count, width) in [(1, 1, 8), (3, 2, 8), (10, 4, 8), (5, 2, 16), (12, 4, 16), (9, 4, 10), (14, 4, 32)]
        {
            for number in [0, 1, 4, 5, 7] {
                let format = Format::of_buffer(data, number);
                let element = [0x7654_3210, 0x0fed_cba9, 0x3f80_0000, 0x1234_5678];
                if number == 7 && !matches!(width, 16 | 32) || width == 32 && number < 2 {
                    continue;
                }
                let components = format.unpack(element).unwrap();
                let packed = format.pack(components).unwrap();
                let bits = format.size().unwrap() * 8;
                for word in 0..4 {
                    let used = bits.saturating_sub(word * 32).min(32);
                    let kept = mask(used);
                    assert_eq!(packed[word as usize], element[word as usize] & kept, "{format:?} {count}");
                }
            }
        }
    }

    #[test]
    fn small_floats_are_those_of_their_format() {
        for value in [0.5_f32, 1.0, 1.5, 64512.0, 6.1e-5, 3.0e-6] {
            let format = Format::of_buffer(6, 7);
            let words = format.pack([value.to_bits(), value.to_bits(), value.to_bits(), 0]).unwrap();
            let components = format.unpack(words).unwrap().map(f32::from_bits);
            for component in &components[..3] {
                assert!(*component <= value && *component > value * 0.6, "{value}: {components:?}");
            }
        }
    }

    #[test]
    fn components_start_at_the_lowest_bit() {
        let unpack = |data, word| Format::of_image(data, 4).unpack([word, 0, 0, 0]).unwrap();
        assert_eq!(unpack(9, 3 << 30 | 0x3ff), [0x3ff, 0, 0, 3]);
        assert_eq!(unpack(8, 0x3ff << 22 | 3), [3, 0, 0, 0x3ff]);
        assert_eq!(unpack(6, 0x3ff << 22 | 0x7ff)[..3], [0x7ff, 0, 0x3ff]);
        assert_eq!(unpack(16, 0x1f << 11 | 0x3f << 5)[..3], [0, 0x3f, 0x1f]);
        assert_eq!(unpack(17, 1 << 15 | 0x1f), [0x1f, 0, 0, 1]);
    }

    #[test]
    fn a_shared_exponent_scales_all_mantissas() {
        let found = Format::of_image(SHARED.into(), 7).unpack([24 << 27 | 3 << 18 | 2 << 9 | 1, 0, 0, 0]).unwrap();
        assert_eq!(found.map(f32::from_bits), [1.0, 2.0, 3.0, 1.0]);
    }

    #[test]
    fn srgb_and_linear_meet_at_their_ends() {
        let format = Format::of_image(10, 9);
        let components = format.unpack([0xff00_ff00, 0, 0, 0]).unwrap().map(f32::from_bits);
        assert_eq!(components, [0.0, 1.0, 0.0, 1.0]);
        for byte in 0..=255_u32 {
            assert_eq!(format.pack(format.unpack([byte; 4]).unwrap()).unwrap()[0] & 0xff, byte);
        }
    }
}
