//! FFmpeg's libswscale, through the program `ffmpeg`.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread;

use gpu_interop_kernels::convert::{Conversion, Layout, Matrix, Range, RgbOrder, Siting, YuvFormat};

use crate::picture::{Direction, Picture};
use crate::{DIRECTIONS, FORMATS, conversions, triples};

const EXTENT: [u32; 2] = [16, 16];

/// Every conversion in both directions. Without `ffmpeg` it prints the reason, or fails if `GPU_INTEROP_REQUIRE_C` is set.
pub(crate) fn compare() {
    if let Err(error) = Command::new("ffmpeg").arg("-version").stdout(Stdio::null()).status() {
        assert!(std::env::var_os("GPU_INTEROP_REQUIRE_C").is_none(), "GPU_INTEROP_REQUIRE_C is set; install ffmpeg");
        eprintln!("left out: needs the package ffmpeg: {error}");
        return;
    }
    for conversion in conversions() {
        for yuv in FORMATS {
            let rgb = if yuv == YuvFormat::Nv12 { RgbOrder::Rgba } else { RgbOrder::Bgra };
            for direction in DIRECTIONS {
                compare_one(direction, &conversion, yuv, rgb);
            }
        }
    }
}

fn compare_one(direction: Direction, conversion: &Conversion, yuv: YuvFormat, rgb: RgbOrder) {
    let [width, _] = EXTENT;
    let sample = yuv.sample_size();
    let layout = Layout { extent: EXTENT, yuv, rgb, pitches: [width * sample, width * sample, width * 4] };
    let before = pictures(layout, direction);
    let input: Vec<u8> = before.iter().flat_map(|picture| bytes(picture, direction == Direction::ToYuv)).collect();
    let found = convert(direction, conversion, layout, input);
    // From 8 bits to 10, libswscale rounds twice: its largest error is one value of 8 bits.
    let most = if direction == Direction::ToYuv && yuv == YuvFormat::P010 { 4 } else { 2 };
    let mut frames = found.chunks(found.len() / before.len());
    for (number, mut picture) in before.into_iter().enumerate() {
        picture.convert(direction, conversion);
        let mut other = picture.clone();
        set_result(&mut other, direction, frames.next().expect("a frame"));
        let greatest = differences(direction, &picture, &other);
        assert!(greatest <= most, "{greatest} in picture {number}, {direction:?} {conversion:?} {layout:?}");
    }
}

/// Random samples for RGBA, whose chroma both interpolate linearly. For the other direction slopes, so
/// steep that half a column changes chroma by more than 2: the filters differ in their width and not in the position of
/// their centre. Then pictures of one colour.
fn pictures(layout: Layout, direction: Direction) -> Vec<Picture> {
    let mut first = Picture::random(layout, direction, 1);
    let [width, height] = first.extent();
    let step = 1 << (layout.yuv.bits() - 8);
    if direction == Direction::ToRgba {
        // Beyond twice the range of RGB, libswscale's sums overflow.
        for (x, y) in (0..height).flat_map(|y| (0..width).map(move |x| (x, y))) {
            first.set_sample(0, x, y, 16 * step + first.sample(0, x, y) * 7 / 8);
            if y % 2 == 0 {
                first.set_sample(1, x, y / 2, 16 * step + first.sample(1, x, y / 2) * 7 / 8);
            }
        }
    }
    if direction == Direction::ToYuv {
        for (x, y) in (0..height).flat_map(|y| (0..width).map(move |x| (x, y))) {
            let texel = [17 * x, 255 - 9 * x - 8 * y, 17 * y].map(|channel| channel as u8);
            first.set_texel(x, y, texel);
        }
    }
    let values = if direction == Direction::ToRgba { [16 * step, 100 * step, 235 * step] } else { [0, 100, 255] };
    let flat = triples(&values).map(|colour| Picture::of_one_colour(layout, direction, colour)).collect::<Vec<_>>();
    [first].into_iter().chain(flat).collect()
}

/// The planes of RGBA, or of luma and chroma, as `ffmpeg` reads and writes them.
fn bytes(picture: &Picture, rgba: bool) -> Vec<u8> {
    let [luma, chroma, texels] = &picture.planes;
    if rgba { texels.clone() } else { [&luma[..], chroma].concat() }
}

/// Takes luma and chroma, or green, blue and red.
fn set_result(picture: &mut Picture, direction: Direction, bytes: &[u8]) {
    let [width, height] = picture.extent();
    match direction {
        Direction::ToYuv => {
            let [luma, chroma, _] = &mut picture.planes;
            let (first, second) = bytes.split_at(luma.len());
            luma.copy_from_slice(first);
            chroma.copy_from_slice(second);
        }
        Direction::ToRgba => {
            for (x, y) in (0..height).flat_map(|y| (0..width).map(move |x| (x, y))) {
                let [green, blue, red] = [0, 1, 2].map(|plane| bytes[(plane * height + y) * width + x]);
                picture.set_texel(x, y, [red, green, blue]);
            }
        }
    }
}

/// The greatest difference of a channel or a sample: without the edge of luma and chroma, beyond which the filters' widths
/// matter.
fn differences(direction: Direction, one: &Picture, other: &Picture) -> u32 {
    let [width, height] = one.extent();
    let edge = if direction == Direction::ToYuv { 2 } else { 0 };
    let places = (edge..height - edge).flat_map(|y| (edge..width - edge).map(move |x| (x, y)));
    let of = |(x, y): (usize, usize)| match direction {
        Direction::ToRgba => {
            let channels = one.texel(x, y).into_iter().zip(other.texel(x, y));
            channels.map(|(one, other)| one.abs_diff(other).into()).max().unwrap_or(0)
        }
        Direction::ToYuv => [(0, y), (1, y / 2)]
            .map(|(plane, y)| one.sample(plane, x, y).abs_diff(other.sample(plane, x, y)))
            .into_iter()
            .max()
            .unwrap_or(0),
    };
    places.map(of).max().unwrap_or(0)
}

/// Pipes frames through `ffmpeg`.
fn convert(direction: Direction, conversion: &Conversion, layout: Layout, input: Vec<u8>) -> Vec<u8> {
    let yuv = if layout.yuv == YuvFormat::Nv12 { "nv12" } else { "p010le" };
    let rgb = if layout.rgb == RgbOrder::Rgba { "rgba" } else { "bgra" };
    let matrix = match conversion.matrix {
        Matrix::Bt601 => "bt601",
        Matrix::Bt709 => "bt709",
        _ => "bt2020",
    };
    let range = if conversion.range == Range::Limited { "limited" } else { "full" };
    let column = if conversion.siting == Siting::Left { 0 } else { 128 };
    let ((from, to), (yuv_side, rgb_side)) = match direction {
        // To packed RGBA, libswscale takes the nearest row of chroma or the mean of two; to planes it interpolates.
        Direction::ToRgba => ((yuv, "gbrp"), ("in", "out")),
        Direction::ToYuv => ((rgb, yuv), ("out", "in")),
    };
    let filter = format!(
        "scale={yuv_side}_color_matrix={matrix}:{yuv_side}_range={range}:{rgb_side}_range=full:\
         {yuv_side}_h_chr_pos={column}:{yuv_side}_v_chr_pos=128:\
         flags=bilinear+accurate_rnd+full_chroma_int+full_chroma_inp+bitexact"
    );
    let size = format!("{}x{}", layout.extent[0], layout.extent[1]);
    let mut command = Command::new("ffmpeg");
    command.args(["-hide_banner", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", from, "-s", &size, "-i", "-"]);
    command.args(["-vf", &filter, "-f", "rawvideo", "-pix_fmt", to, "-"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("ffmpeg starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let writer = thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("output");
    writer.join().expect("the writer").expect("ffmpeg reads everything");
    assert!(output.status.success(), "{command:?}: {}", output.status);
    output.stdout
}
