//! Conversions compared with exact arithmetic, with the kernels' source compiled for this machine, and with FFmpeg.

#![allow(clippy::expect_used, reason = "these are tests, also outside of the test functions")]
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "samples are small")]

mod native;
mod picture;
mod reference;
mod swscale;

use gpu_interop_kernels::convert::{Conversion, Layout, Matrix, Range, RgbOrder, Siting, YuvFormat};
use picture::{Direction, Picture};

const MATRICES: [Matrix; 3] = [Matrix::Bt601, Matrix::Bt709, Matrix::Bt2020];
const RANGES: [Range; 2] = [Range::Limited, Range::Full];
const SITINGS: [Siting; 2] = [Siting::Left, Siting::Center];
const FORMATS: [YuvFormat; 2] = [YuvFormat::Nv12, YuvFormat::P010];
const ORDERS: [RgbOrder; 2] = [RgbOrder::Rgba, RgbOrder::Bgra];
const DIRECTIONS: [Direction; 2] = [Direction::ToRgba, Direction::ToYuv];
/// One texel, blocks and less than blocks of the kernels' threads, and odd sizes.
const SIZES: [[u32; 2]; 9] = [[1, 1], [2, 2], [1, 5], [7, 1], [3, 3], [4, 2], [8, 4], [33, 9], [64, 6]];

fn conversions() -> impl Iterator<Item = Conversion> {
    let of = |matrix| RANGES.into_iter().map(move |range| (matrix, range));
    let pairs = MATRICES.into_iter().flat_map(of);
    pairs.flat_map(|(matrix, range)| SITINGS.map(|siting| Conversion { matrix, range, siting }))
}

/// Every format, order, size and alignment.
fn layouts() -> impl Iterator<Item = Layout> {
    FORMATS.into_iter().flat_map(|yuv| ORDERS.map(|rgb| (yuv, rgb))).flat_map(|(yuv, rgb)| {
        SIZES.into_iter().flat_map(move |extent| [16, 4].map(|align| picture::layout(extent, yuv, rgb, align)))
    })
}

/// Random pictures of every layout and conversion, in both directions.
#[test]
fn random_pictures_are_within_one_of_exact_arithmetic() {
    for (seed, layout) in (0..).zip(layouts()) {
        for conversion in conversions() {
            for direction in DIRECTIONS {
                let before = Picture::random(layout, direction, seed);
                let mut after = before.clone();
                after.convert(direction, &conversion);
                reference::check(direction, &conversion, &before, &after);
            }
        }
    }
}

/// Pictures of one colour: all corners of the cubes, and the limits of the limited range.
#[test]
fn corner_colours_are_within_one_of_exact_arithmetic() {
    for conversion in conversions() {
        for yuv in FORMATS {
            let step = 1 << (yuv.bits() - 8);
            let samples = [0, 16 * step, 128 * step, 235 * step, 240 * step, 256 * step - 1];
            for direction in DIRECTIONS {
                let values = if direction == Direction::ToRgba { &samples[..] } else { &[0, 1, 127, 128, 254, 255] };
                for colour in triples(values) {
                    let layout = picture::layout([4, 2], yuv, RgbOrder::Rgba, 16);
                    let before = Picture::of_one_colour(layout, direction, colour);
                    let mut after = before.clone();
                    after.convert(direction, &conversion);
                    reference::check(direction, &conversion, &before, &after);
                }
            }
        }
    }
}

fn triples(values: &[u32]) -> impl Iterator<Item = [u32; 3]> {
    values.iter().flat_map(move |a| values.iter().flat_map(move |b| values.iter().map(|c| [*a, *b, *c])))
}

/// Black, white and greys: neutral chroma, the limits of the range, equal channels, and back within 1: the limited range
/// has fewer values.
#[test]
fn greys_stay_grey() {
    for conversion in conversions() {
        for yuv in FORMATS {
            let step = 1 << (yuv.bits() - 8);
            let [black, white] = match conversion.range {
                Range::Limited => [16 * step, 235 * step],
                _ => [0, 256 * step - 1],
            };
            for grey in 0..=255 {
                let layout = picture::layout([2, 2], yuv, RgbOrder::Bgra, 16);
                let mut picture = Picture::of_one_colour(layout, Direction::ToYuv, [grey; 3]);
                picture.convert(Direction::ToYuv, &conversion);
                assert_eq!(
                    [picture.sample(1, 0, 0), picture.sample(1, 1, 0)],
                    [128 * step; 2],
                    "{conversion:?} {grey}"
                );
                let luma = picture.sample(0, 1, 1);
                assert!(grey != 0 || luma == black, "{conversion:?}: black is {luma}");
                assert!(grey != 255 || luma == white, "{conversion:?}: white is {luma}");
                picture.convert(Direction::ToRgba, &conversion);
                let [red, green, blue] = picture.texel(0, 1);
                assert_eq!([red, green], [blue; 2], "{conversion:?} {yuv:?} {grey}");
                assert!(grey.abs_diff(blue.into()) <= 1, "{conversion:?} {yuv:?} {grey}, not {blue}");
            }
        }
    }
}

/// Reference values for other implementations: colours of a test pattern in BT.709 and BT.601, limited range.
#[test]
fn bars_have_their_published_values() {
    let of = |matrix, colour| {
        let conversion = Conversion { matrix, range: Range::Limited, siting: Siting::Left };
        let layout = picture::layout([2, 2], YuvFormat::Nv12, RgbOrder::Rgba, 16);
        let mut picture = Picture::of_one_colour(layout, Direction::ToYuv, colour);
        picture.convert(Direction::ToYuv, &conversion);
        [picture.sample(0, 0, 0), picture.sample(1, 0, 0), picture.sample(1, 1, 0)]
    };
    assert_eq!(of(Matrix::Bt601, [255, 0, 0]), [81, 90, 240]);
    assert_eq!(of(Matrix::Bt601, [0, 255, 0]), [145, 54, 34]);
    assert_eq!(of(Matrix::Bt601, [0, 0, 255]), [41, 240, 110]);
    assert_eq!(of(Matrix::Bt709, [255, 0, 0]), [63, 102, 240]);
    assert_eq!(of(Matrix::Bt709, [0, 255, 0]), [173, 42, 26]);
    assert_eq!(of(Matrix::Bt709, [0, 0, 255]), [32, 240, 118]);
}

/// The source of the GPUs' kernels, compiled for this machine, writes the same bytes as the CPU versions, in launches of
/// any number of threads, and none between rows or after a plane.
#[test]
fn the_source_of_the_kernels_writes_the_same_bytes() {
    let Some(program) = native::build() else { return };
    let mut cases = Vec::new();
    for (seed, layout) in (0..).zip(layouts()) {
        for conversion in conversions().step_by(5).chain(conversions().skip(1).step_by(5)) {
            for direction in DIRECTIONS {
                cases.push((direction, conversion, Picture::random(layout, direction, seed), 1 + seed % 70));
            }
        }
    }
    let found = program.run(&cases);
    assert_eq!(found.len(), cases.len());
    for ((direction, conversion, before, threads), found) in cases.into_iter().zip(found) {
        let mut expected = before;
        expected.convert(direction, &conversion);
        for (plane, (found, expected)) in found.iter().zip(&expected.planes).enumerate() {
            assert!(found == expected, "plane {plane}, {direction:?} {conversion:?}, {threads} threads");
        }
    }
}

/// FFmpeg's libswscale differs by at most 2, and by 4 of 1,023 where it converts 8 bits to 10.
#[test]
fn swscale_agrees() {
    swscale::compare();
}
