//! Conversions in double precision from the definitions of ITU-T H.273, without coefficients of the kernels.

use gpu_interop_kernels::convert::{Conversion, Matrix, Range, Siting};

use crate::picture::{Direction, Picture};

/// Black, the range of luma, neutral chroma, the range of chroma, and the greatest sample.
struct Codes {
    black: f64,
    luma: f64,
    neutral: f64,
    chroma: f64,
    greatest: f64,
}

fn codes(range: Range, bits: u32) -> Codes {
    let scale = f64::from(1_u32 << (bits - 8));
    let greatest = 256.0 * scale - 1.0;
    let neutral = 128.0 * scale;
    match range {
        Range::Limited => Codes { black: 16.0 * scale, luma: 219.0 * scale, neutral, chroma: 224.0 * scale, greatest },
        _ => Codes { black: 0.0, luma: greatest, neutral, chroma: greatest, greatest },
    }
}

/// KR and KB.
fn weights(matrix: Matrix) -> (f64, f64) {
    match matrix {
        Matrix::Bt601 => (0.299, 0.114),
        Matrix::Bt709 => (0.2126, 0.0722),
        Matrix::Bt2020 => (0.2627, 0.0593),
        other => unreachable!("{other:?}"),
    }
}

/// Column of chroma sample 0, in columns of luma.
fn first_column(siting: Siting) -> f64 {
    if siting == Siting::Left { 0.0 } else { 0.5 }
}

/// Fails unless the result of a conversion is within one code value of exact arithmetic, and all else is as before. A
/// rounded value is within one half, so the bound is smaller.
pub(crate) fn check(direction: Direction, conversion: &Conversion, before: &Picture, after: &Picture) {
    const MOST: f64 = 0.51;
    let mut expected = before.clone();
    let [width, height] = before.extent();
    for (x, y) in (0..height).flat_map(|y| (0..width).map(move |x| (x, y))) {
        let what = || format!("({x}, {y}) of {direction:?} {conversion:?} {:?}", before.layout);
        match direction {
            Direction::ToRgba => {
                let (found, exact) = (after.texel(x, y), to_rgb(conversion, before, x, y));
                for (found, exact) in found.map(f64::from).into_iter().zip(exact) {
                    assert!((found - exact).abs() < MOST, "{found}, not {exact} at {}", what());
                }
                assert_eq!(after.alpha(x, y), 255, "alpha at {}", what());
            }
            Direction::ToYuv => {
                let (found, exact) = (f64::from(after.sample(0, x, y)), luma(conversion, before, x, y));
                assert!((found - exact).abs() < MOST, "luma {found}, not {exact} at {}", what());
                expected.set_sample(0, x, y, after.sample(0, x, y));
            }
        }
    }
    if direction == Direction::ToRgba {
        let row = 4 * width;
        let pitch = before.layout.pitches[2] as usize;
        for (found, expected) in after.planes[2].chunks(pitch).zip(expected.planes[2].chunks_mut(pitch)) {
            expected[..row].copy_from_slice(&found[..row]);
        }
    } else {
        let [chroma_width, chroma_height] = before.chroma_extent();
        for (x, y) in (0..chroma_height).flat_map(|y| (0..chroma_width).map(move |x| (x, y))) {
            for (which, exact) in chroma(conversion, before, x, y).into_iter().enumerate() {
                let found = f64::from(after.sample(1, 2 * x + which, y));
                let what = || format!("({x}, {y}) of {which} of {conversion:?} {:?}", before.layout);
                assert!((found - exact).abs() < MOST, "chroma {found}, not {exact} at {}", what());
                expected.set_sample(1, 2 * x + which, y, after.sample(1, 2 * x + which, y));
            }
        }
    }
    assert!(*after == expected, "bytes between rows, of the source, or below the bits of samples");
}

fn to_rgb(conversion: &Conversion, picture: &Picture, x: usize, y: usize) -> [f64; 3] {
    let codes = codes(conversion.range, picture.layout.yuv.bits());
    let (red_weight, blue_weight) = weights(conversion.matrix);
    let luma = (f64::from(picture.sample(0, x, y)) - codes.black) / codes.luma;
    // Where the texel is among the chroma samples.
    let (column, row) = ((x as f64 - first_column(conversion.siting)) / 2.0, (y as f64 - 0.5) / 2.0);
    let [blue_difference, red_difference] = [0, 1].map(|which| {
        let at = |x: f64, y: f64| {
            let [width, height] = picture.chroma_extent().map(|size| size as f64 - 1.0);
            f64::from(picture.sample(1, 2 * x.clamp(0.0, width) as usize + which, y.clamp(0.0, height) as usize))
        };
        let [(left, right), (upper, lower)] = [column, row].map(|at| (at.floor(), at - at.floor()));
        let between = |y: f64| at(left, y) * (1.0 - right) + at(left + 1.0, y) * right;
        let value = between(upper) * (1.0 - lower) + between(upper + 1.0) * lower;
        (value - codes.neutral) / codes.chroma
    });
    let red = luma + 2.0 * (1.0 - red_weight) * red_difference;
    let blue = luma + 2.0 * (1.0 - blue_weight) * blue_difference;
    let green = (luma - red_weight * red - blue_weight * blue) / (1.0 - red_weight - blue_weight);
    [red, green, blue].map(|channel| (255.0 * channel).clamp(0.0, 255.0))
}

/// Luma, and the differences of blue and of red, from 0 to 1 and from -0.5 to 0.5.
fn components(conversion: &Conversion, picture: &Picture, x: usize, y: usize) -> [f64; 3] {
    let (red_weight, blue_weight) = weights(conversion.matrix);
    let [red, green, blue] = picture.texel(x, y).map(|channel| f64::from(channel) / 255.0);
    let luma = red_weight * red + (1.0 - red_weight - blue_weight) * green + blue_weight * blue;
    [luma, (blue - luma) / (2.0 * (1.0 - blue_weight)), (red - luma) / (2.0 * (1.0 - red_weight))]
}

fn luma(conversion: &Conversion, picture: &Picture, x: usize, y: usize) -> f64 {
    let codes = codes(conversion.range, picture.layout.yuv.bits());
    codes.black + codes.luma * components(conversion, picture, x, y)[0]
}

fn chroma(conversion: &Conversion, picture: &Picture, x: usize, y: usize) -> [f64; 2] {
    let codes = codes(conversion.range, picture.layout.yuv.bits());
    let [width, height] = picture.extent();
    // Weights of the columns around the chroma sample, and the same for its two rows.
    let columns: &[(isize, f64)] = match conversion.siting {
        Siting::Left => &[(-1, 0.25), (0, 0.5), (1, 0.25)],
        _ => &[(0, 0.5), (1, 0.5)],
    };
    let mut sums = [0.0; 2];
    for (column, weight) in columns {
        for row in [0, 1] {
            let x = (2 * x).saturating_add_signed(*column).min(width - 1);
            let [_, blue, red] = components(conversion, picture, x, (2 * y + row).min(height - 1));
            sums[0] += weight / 2.0 * blue;
            sums[1] += weight / 2.0 * red;
        }
    }
    sums.map(|sum| (codes.neutral + codes.chroma * sum).clamp(0.0, codes.greatest))
}
