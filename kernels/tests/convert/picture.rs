//! Pictures of the tests.

use std::sync::atomic::{AtomicU8, Ordering};

use gpu_interop_kernels::convert::{Conversion, Layout, RgbOrder, YuvFormat, cpu, plane_sizes};
use gpu_interop_kernels::pattern_word;

/// Direction of a conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    ToRgba,
    ToYuv,
}

/// A picture in both formats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Picture {
    pub(crate) layout: Layout,
    /// Luma, chroma and RGBA, with the padding between rows.
    pub(crate) planes: [Vec<u8>; 3],
}

/// A layout with padding, and rows that are aligned to 16 bytes, or to 4.
pub(crate) fn layout([width, height]: [u32; 2], yuv: YuvFormat, rgb: RgbOrder, align: u32) -> Layout {
    let sample = yuv.sample_size();
    let padded = |row: u32| (row + 5).next_multiple_of(16) + align % 16;
    let pitches = [padded(width * sample), padded(width.div_ceil(2) * 2 * sample), padded(width * 4)];
    Layout { extent: [width, height], yuv, rgb, pitches }
}

impl Picture {
    /// Without a picture: bytes that stay as they are between rows.
    pub(crate) fn new(layout: Layout) -> Self {
        // The layout is the same for every conversion.
        let [luma, chroma, rgba] = layout.pitches;
        let [width, height] = layout.extent;
        let sizes = plane_sizes(&[luma, chroma, rgba, width, height, layout.yuv.sample_size()]).expect("a size");
        Self { layout, planes: sizes.map(|size| vec![0xA5; size as usize]) }
    }

    /// With random bytes in the source of a conversion.
    pub(crate) fn random(layout: Layout, direction: Direction, seed: u32) -> Self {
        let mut picture = Self::new(layout);
        for (number, plane) in (0..).zip(&mut picture.planes) {
            if (number == 2) == (direction == Direction::ToYuv) {
                for (index, byte) in (0..).zip(plane) {
                    *byte = pattern_word(3 * seed + number, index) as u8;
                }
            }
        }
        picture
    }

    /// Of one colour: luma, Cb and Cr, or red, green and blue.
    pub(crate) fn of_one_colour(layout: Layout, direction: Direction, colour: [u32; 3]) -> Self {
        let mut picture = Self::new(layout);
        let [width, height] = picture.extent();
        for (x, y) in (0..height).flat_map(|y| (0..width).map(move |x| (x, y))) {
            match direction {
                Direction::ToRgba => {
                    picture.set_sample(0, x, y, colour[0]);
                    picture.set_sample(1, x / 2 * 2, y / 2, colour[1]);
                    picture.set_sample(1, x / 2 * 2 + 1, y / 2, colour[2]);
                }
                Direction::ToYuv => picture.set_texel(x, y, colour.map(|channel| channel as u8)),
            }
        }
        picture
    }

    pub(crate) fn extent(&self) -> [usize; 2] {
        self.layout.extent.map(|size| size as usize)
    }

    pub(crate) fn chroma_extent(&self) -> [usize; 2] {
        self.extent().map(|size| size.div_ceil(2))
    }

    fn place(&self, plane: usize, x: usize, y: usize) -> usize {
        y * self.layout.pitches[plane] as usize + x * self.layout.yuv.sample_size() as usize
    }

    /// Luma (plane 0), or Cb and Cr in even and odd columns (plane 1).
    pub(crate) fn sample(&self, plane: usize, x: usize, y: usize) -> u32 {
        let bytes = &self.planes[plane][self.place(plane, x, y)..];
        match self.layout.yuv {
            YuvFormat::Nv12 => bytes[0].into(),
            _ => u32::from(u16::from_le_bytes([bytes[0], bytes[1]]) >> 6),
        }
    }

    pub(crate) fn set_sample(&mut self, plane: usize, x: usize, y: usize, value: u32) {
        let at = self.place(plane, x, y);
        match self.layout.yuv {
            YuvFormat::Nv12 => self.planes[plane][at] = value as u8,
            _ => self.planes[plane][at..at + 2].copy_from_slice(&(value as u16).wrapping_shl(6).to_le_bytes()),
        }
    }

    /// Red, green and blue.
    pub(crate) fn texel(&self, x: usize, y: usize) -> [u8; 3] {
        let at = y * self.layout.pitches[2] as usize + 4 * x;
        let [a, b, c] = [0, 1, 2].map(|channel| self.planes[2][at + channel]);
        if self.layout.rgb == RgbOrder::Rgba { [a, b, c] } else { [c, b, a] }
    }

    pub(crate) fn alpha(&self, x: usize, y: usize) -> u8 {
        self.planes[2][y * self.layout.pitches[2] as usize + 4 * x + 3]
    }

    pub(crate) fn set_texel(&mut self, x: usize, y: usize, [red, green, blue]: [u8; 3]) {
        let at = y * self.layout.pitches[2] as usize + 4 * x;
        let texel = if self.layout.rgb == RgbOrder::Rgba { [red, green, blue, 7] } else { [blue, green, red, 7] };
        self.planes[2][at..at + 4].copy_from_slice(&texel);
    }

    /// Runs the CPU version of a kernel.
    pub(crate) fn convert(&mut self, direction: Direction, conversion: &Conversion) {
        let planes = self.planes.each_ref().map(|plane| plane.iter().copied().map(AtomicU8::new).collect::<Vec<_>>());
        let [luma, chroma, rgba] = planes.each_ref().map(Vec::as_slice);
        match direction {
            Direction::ToRgba => {
                cpu::yuv_to_rgba([luma, chroma, rgba], &conversion.yuv_to_rgba_numbers(&self.layout));
            }
            Direction::ToYuv => {
                cpu::rgba_to_yuv([luma, chroma, rgba], &conversion.rgba_to_yuv_numbers(&self.layout));
            }
        }
        self.planes = planes.map(|plane| plane.iter().map(|byte| byte.load(Ordering::Relaxed)).collect());
    }
}
