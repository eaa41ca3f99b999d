//! Coefficients as fixed-point numbers: 32-bit words, negative ones in two's complement, modulo 2^32 as the sums are.

use super::{Conversion, Matrix, Range, YuvFormat};

/// Bits of the fraction of a sum, as in `device/convert.h`.
pub(super) const FRACTION: u32 = 20;
/// Half of 1, so that cutting the fraction off rounds.
const HALF: u32 = 1 << (FRACTION - 1);
/// An interpolated chroma value is a sum of 16 parts.
const INTERPOLATED: f64 = 16.0;
/// The colour of a chroma sample is a sum of 8 parts.
const AVERAGED: f64 = 8.0;
/// Greatest value of red, green and blue.
const WHITE: f64 = 255.0;

/// Code values of luma and chroma.
struct Codes {
    black: u32,
    /// Chroma of a grey.
    neutral: u32,
    /// From black to white, and from the least to the greatest chroma.
    luma: f64,
    chroma: f64,
}

impl Codes {
    fn of(range: Range, format: YuvFormat) -> Self {
        let bits = format.bits();
        let (step, all) = (1_u32 << (bits - 8), f64::from((1_u32 << bits) - 1));
        let neutral = 128 * step;
        match range {
            Range::Limited => {
                Self { black: 16 * step, neutral, luma: f64::from(219 * step), chroma: f64::from(224 * step) }
            }
            Range::Full => Self { black: 0, neutral, luma: all, chroma: all },
        }
    }
}

/// Weights of red, green and blue in luma.
fn weights(matrix: Matrix) -> [f64; 3] {
    let (red, blue) = match matrix {
        Matrix::Bt601 => (0.299, 0.114),
        Matrix::Bt709 => (0.2126, 0.0722),
        Matrix::Bt2020 => (0.2627, 0.0593),
    };
    [red, 1.0 - red - blue, blue]
}

/// The nearest fixed-point number.
fn fixed(value: f64) -> u32 {
    // Coefficients are below 2^23; the sign is kept in two's complement.
    #[allow(clippy::cast_possible_truncation)]
    let nearest = (value * f64::from(1_u32 << FRACTION)).round() as i32;
    nearest.cast_unsigned()
}

/// Scale of luma; red of Cr, green of Cb and of Cr, blue of Cb; then the constants of red, green and blue.
pub(super) fn to_rgb(conversion: &Conversion, format: YuvFormat) -> [u32; 8] {
    let codes = Codes::of(conversion.range, format);
    let [red, green, blue] = weights(conversion.matrix);
    let scale = fixed(WHITE / codes.luma);
    let of_chroma = |factor: f64| fixed(factor * WHITE / codes.chroma / INTERPOLATED);
    let (red_v, blue_u) = (of_chroma(2.0 * (1.0 - red)), of_chroma(2.0 * (1.0 - blue)));
    let green_u = of_chroma(-2.0 * (1.0 - blue) * blue / green);
    let green_v = of_chroma(-2.0 * (1.0 - red) * red / green);
    // The chroma of a grey cancels exactly.
    let constant = |chroma: u32| {
        let offset = codes.black.wrapping_mul(scale).wrapping_add((16 * codes.neutral).wrapping_mul(chroma));
        HALF.wrapping_sub(offset)
    };
    let bases = [red_v, green_u.wrapping_add(green_v), blue_u].map(constant);
    [scale, red_v, green_u, green_v, blue_u, bases[0], bases[1], bases[2]]
}

/// Red, green and blue of luma, Cb and Cr; then the constants of luma and of chroma.
pub(super) fn to_yuv(conversion: &Conversion, format: YuvFormat) -> ([[u32; 3]; 3], [u32; 2]) {
    let codes = Codes::of(conversion.range, format);
    let [red, _, blue] = weights(conversion.matrix);
    let of_luma = |factor: f64| fixed(factor * codes.luma / WHITE);
    let of_chroma = |factor: f64| fixed(factor * codes.chroma / WHITE / AVERAGED);
    // Green is the rest, so that white has the greatest luma, and greys have no chroma.
    let rest = |all: u32, [one, other]: [u32; 2]| all.wrapping_sub(one).wrapping_sub(other);
    let [luma_red, luma_blue] = [red, blue].map(of_luma);
    let luma = [luma_red, rest(of_luma(1.0), [luma_red, luma_blue]), luma_blue];
    let [u_red, u_blue] = [-0.5 * red / (1.0 - blue), 0.5].map(of_chroma);
    let [v_red, v_blue] = [0.5, -0.5 * blue / (1.0 - red)].map(of_chroma);
    let (u, v) = ([u_red, rest(0, [u_red, u_blue]), u_blue], [v_red, rest(0, [v_red, v_blue]), v_blue]);
    ([luma, u, v], [codes.black, codes.neutral].map(|code| (code << FRACTION) + HALF))
}
