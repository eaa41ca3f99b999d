//! The expected result of a texture fetch, computed from a texel's bytes.

use gpu_interop::{ArrayFormat, ChannelType, ReadMode};

use crate::outcome::{Stop, Verdict};

/// Tolerance of a normalised value: a few units in the last place of a 32-bit float below 1, and a sixteenth of a step
/// of a 16-bit channel.
const TOLERANCE: f64 = 1.0 / (1 << 20) as f64;

/// One channel of a fetched texel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fetched {
    /// Exactly these 32 bits: integers and floats.
    Bits(u32),
    /// A float close to this value: normalised integers.
    Near(f64),
    /// A float that is closer to this sRGB code, of 0 to 255, than to its neighbours.
    SrgbCode(u8),
}

impl Fetched {
    pub(crate) fn expected(format: ArrayFormat, read: ReadMode, texel: &[u8]) -> Verdict<Vec<Self>> {
        use ChannelType as T;
        let normalised = read != ReadMode::Element;
        if format.channel() == T::Unorm1010102 {
            let word = u32::from_le_bytes(fixed(texel)?);
            let channel = |shift: u32, most: u32| Self::Near(f64::from(word >> shift & most) / f64::from(most));
            return Ok(vec![channel(0, 1023), channel(10, 1023), channel(20, 1023), channel(30, 3)]);
        }
        let size = format.texel_size() as usize / usize::from(format.channels());
        let channel = |(index, bytes): (usize, &[u8])| {
            Ok(match format.channel() {
                T::Unorm8 if read == ReadMode::Srgb && index < 3 => Self::SrgbCode(bytes[0]),
                T::Uint8 if read == ReadMode::Srgb && index < 3 => Self::SrgbCode(bytes[0]),
                T::Uint8 if !normalised => Self::Bits(bytes[0].into()),
                T::Uint16 if !normalised => Self::Bits(u16::from_le_bytes(fixed(bytes)?).into()),
                T::Sint8 if !normalised => Self::Bits(i32::from(i8::from_le_bytes(fixed(bytes)?)).cast_unsigned()),
                T::Sint16 if !normalised => Self::Bits(i32::from(i16::from_le_bytes(fixed(bytes)?)).cast_unsigned()),
                T::Uint32 | T::Sint32 | T::Float32 => Self::Bits(u32::from_le_bytes(fixed(bytes)?)),
                T::Float16 => Self::Bits(widened(u16::from_le_bytes(fixed(bytes)?))),
                T::Uint8 | T::Unorm8 => Self::Near(f64::from(bytes[0]) / 255.0),
                T::Uint16 | T::Unorm16 => Self::Near(f64::from(u16::from_le_bytes(fixed(bytes)?)) / 65535.0),
                T::Sint8 | T::Snorm8 => Self::Near((f64::from(i8::from_le_bytes(fixed(bytes)?)) / 127.0).max(-1.0)),
                T::Sint16 | T::Snorm16 => {
                    Self::Near((f64::from(i16::from_le_bytes(fixed(bytes)?)) / 32767.0).max(-1.0))
                }
                other => return Err(Stop::failed(format!("the suite does not support fetches of {other:?}"))),
            })
        };
        texel.chunks_exact(size).enumerate().map(channel).collect()
    }

    /// True if the fetched 32 bits match.
    pub(crate) fn is_met_by(self, bits: u32) -> bool {
        let float = f64::from(f32::from_bits(bits));
        match self {
            Self::Bits(expected) => bits == expected,
            Self::Near(expected) => (float - expected).abs() <= TOLERANCE,
            Self::SrgbCode(code) => (encoded(float) * 255.0 - f64::from(code)).abs() <= 0.5,
        }
    }
}

/// Replaces infinities, NaNs and denormals, which a texture unit may change, by other floats.
pub(crate) fn make_finite(channel: ChannelType, data: &mut [u8]) -> Verdict {
    match channel {
        ChannelType::Float32 => {
            for bytes in data.chunks_exact_mut(4) {
                let bits = u32::from_le_bytes(fixed(bytes)?);
                let exponent = 1 + (bits >> 23 & 0xff) % 254;
                bytes.copy_from_slice(&(bits & 0x807f_ffff | exponent << 23).to_le_bytes());
            }
        }
        ChannelType::Float16 => {
            for bytes in data.chunks_exact_mut(2) {
                let bits = u16::from_le_bytes(fixed(bytes)?);
                let exponent = 1 + (bits >> 10 & 0x1f) % 30;
                bytes.copy_from_slice(&(bits & 0x83ff | exponent << 10).to_le_bytes());
            }
        }
        _ => {}
    }
    Ok(())
}

fn fixed<const N: usize>(bytes: &[u8]) -> Verdict<[u8; N]> {
    bytes.try_into().map_err(|_| Stop::failed(format!("{} bytes instead of {N}", bytes.len())))
}

/// Converts a normal 16-bit float to a 32-bit one.
fn widened(half: u16) -> u32 {
    let half = u32::from(half);
    let (sign, exponent, fraction) = (half >> 15, half >> 10 & 0x1f, half & 0x3ff);
    // The exponents' biases are 15 and 127.
    sign << 31 | (exponent + 112) << 23 | fraction << 13
}

/// Encodes a brightness as sRGB.
fn encoded(linear: f64) -> f64 {
    if linear <= 0.003_130_8 { linear * 12.92 } else { 1.055 * linear.powf(1.0 / 2.4) - 0.055 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(channel: ChannelType, channels: u8, read: ReadMode, texel: &[u8]) -> Vec<Fetched> {
        let format = ArrayFormat::new(channel, channels).expect("a format");
        Fetched::expected(format, read, texel).expect("a texel")
    }

    fn float(value: f32) -> u32 {
        value.to_bits()
    }

    #[test]
    fn integers_are_extended_by_their_sign() {
        use ChannelType as T;
        let element = |channel, texel: &[u8]| expected(channel, 2, ReadMode::Element, texel);
        assert_eq!(element(T::Uint8, &[0xff, 3]), [Fetched::Bits(0xff), Fetched::Bits(3)]);
        assert_eq!(element(T::Sint8, &[0xff, 3]), [Fetched::Bits(u32::MAX), Fetched::Bits(3)]);
        assert_eq!(element(T::Uint16, &[1, 0x80, 0, 1]), [Fetched::Bits(0x8001), Fetched::Bits(256)]);
        assert_eq!(element(T::Sint16, &[1, 0x80, 0, 1]), [Fetched::Bits(0xffff_8001), Fetched::Bits(256)]);
        assert_eq!(element(T::Sint32, &[1, 2, 3, 0xf4, 0, 0, 0, 0]), [Fetched::Bits(0xf403_0201), Fetched::Bits(0)]);
    }

    #[test]
    fn floats_are_widened_exactly() {
        let half = |bits: u16| expected(ChannelType::Float16, 1, ReadMode::Element, &bits.to_le_bytes())[0];
        for (bits, value) in [(0x3c00, 1.0), (0xc000, -2.0), (0x3555, 0.333_251_95), (0x7bff, 65504.0)] {
            assert_eq!(half(bits), Fetched::Bits(float(value)), "{bits:#x}");
        }
        // The smallest normal one.
        assert_eq!(half(0x0400), Fetched::Bits(float(2.0_f32.powi(-14))));
        let texel = 1.5_f32.to_le_bytes();
        assert_eq!(expected(ChannelType::Float32, 1, ReadMode::Element, &texel), [Fetched::Bits(float(1.5))]);
    }

    #[test]
    fn normalised_values_are_quotients() {
        let near = |channel, texel: &[u8], value: f32| {
            let found = expected(channel, 1, ReadMode::NormalizedFloat, texel)[0];
            assert!(found.is_met_by(float(value)), "{channel:?}: {found:?}");
            assert!(!found.is_met_by(float(value + 0.00001)), "{channel:?}: {found:?}");
            assert!(!found.is_met_by(f32::NAN.to_bits()));
        };
        near(ChannelType::Unorm8, &[51], 0.2);
        near(ChannelType::Uint8, &[255], 1.0);
        near(ChannelType::Unorm16, &[0x33, 0x33], 0.2);
        near(ChannelType::Snorm8, &[0x80], -1.0);
        near(ChannelType::Snorm8, &[0x81], -1.0);
        near(ChannelType::Snorm16, &[0, 0x80], -1.0);
        near(ChannelType::Sint16, &[0xff, 0x7f], 1.0);
    }

    #[test]
    fn packed_channels_begin_at_the_lowest_bit() {
        let word = 1023_u32 | 341 << 20 | 2 << 30;
        let found = expected(ChannelType::Unorm1010102, 4, ReadMode::NormalizedFloat, &word.to_le_bytes());
        for (channel, value) in found.iter().zip([1.0, 0.0, 1.0 / 3.0, 2.0 / 3.0]) {
            assert!(channel.is_met_by(float(value)), "{found:?}");
        }
    }

    #[test]
    fn srgb_codes_are_told_apart() {
        let decode = |code: u8| {
            let encoded = f64::from(code) / 255.0;
            if encoded <= 0.04045 { encoded / 12.92 } else { ((encoded + 0.055) / 1.055).powf(2.4) }
        };
        #[allow(clippy::cast_possible_truncation, reason = "rounds")]
        let bits = |code: u8| float(decode(code) as f32);
        for code in 0..=u8::MAX {
            let expected = Fetched::SrgbCode(code);
            assert!(expected.is_met_by(bits(code)), "{code}");
            assert!(!code.checked_add(1).is_some_and(|next| expected.is_met_by(bits(next))), "{code}");
            // Not decoded.
            assert!(matches!(code, 0 | 255) || !expected.is_met_by(float(f32::from(code) / 255.0)), "{code}");
        }
        let texel = expected(ChannelType::Unorm8, 4, ReadMode::Srgb, &[1, 2, 3, 255]);
        assert_eq!(texel[..3], [1, 2, 3].map(Fetched::SrgbCode));
        assert_eq!(texel[3], Fetched::Near(1.0), "alpha is not encoded");
    }

    #[test]
    fn finite_floats_are_normal() {
        let mut data: Vec<u8> = (0..0x1_0000_u32).flat_map(|bits| (bits << 16 | bits).to_le_bytes()).collect();
        make_finite(ChannelType::Float32, &mut data).expect("whole floats");
        assert!(data.chunks_exact(4).all(|bytes| f32::from_le_bytes(fixed(bytes).expect("four")).is_normal()));
        let mut halves: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        make_finite(ChannelType::Float16, &mut halves).expect("whole floats");
        let exponents = halves.chunks_exact(2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]) >> 10 & 0x1f);
        assert!(exponents.into_iter().all(|exponent| (1..=30).contains(&exponent)));
        let mut integers = vec![0xff; 8];
        make_finite(ChannelType::Uint32, &mut integers).expect("left alone");
        assert_eq!(integers, [0xff; 8]);
    }
}
