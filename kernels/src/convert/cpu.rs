//! CPU versions of the conversion kernels, one texel at a time.
//!
//! `planes` are luma, chroma and RGBA with the sizes of [`plane_sizes`], and `numbers` the kernels' 32-bit arguments.
//! Atomics permit concurrent access by an exporter.

use std::sync::atomic::{AtomicU8, Ordering};

use super::coefficients::FRACTION;
use super::{LAYOUT_NUMBERS, RGBA_TO_YUV_NUMBERS, YUV_TO_RGBA_NUMBERS, plane_sizes};

/// Luma, chroma and RGBA.
pub type Planes<'a> = [&'a [AtomicU8]; 3];

/// CPU version of [`YUV_TO_RGBA`](crate::YUV_TO_RGBA).
///
/// # Panics
/// If a plane is smaller than [`plane_sizes`], or the numbers are not of a [`Conversion`](super::Conversion).
pub fn yuv_to_rgba(planes: Planes<'_>, numbers: &[u32; YUV_TO_RGBA_NUMBERS]) {
    let Some(picture) = Picture::new(planes, numbers) else { return };
    let [blue_first, scale, red_v, green_u, green_v, blue_u, red_base, green_base, blue_base] =
        picture.coefficients(numbers);
    let product = u32::wrapping_mul;
    for y in 0..picture.height {
        let rows = [y / 2, if y % 2 == 0 { (y / 2).saturating_sub(1) } else { picture.within([0, y / 2 + 1])[1] }];
        for x in 0..picture.width {
            let neighbour = if x % 2 == 0 { (x / 2).saturating_sub(1) } else { picture.within([x / 2 + 1, 0])[0] };
            // Parts of the column's own chroma, of 4. Those of its own row are always 3.
            let own = if x % 2 == 0 { 4 - picture.siting } else { 2 + picture.siting };
            let chroma = |which| {
                let column = |x| 3 * picture.chroma([x, rows[0]], which) + picture.chroma([x, rows[1]], which);
                own * column(x / 2) + (4 - own) * column(neighbour)
            };
            let (u, v) = (chroma(0), chroma(1));
            let luma = product(picture.sample(0, x, y), scale);
            let red = to_byte(luma.wrapping_add(red_base).wrapping_add(product(v, red_v)));
            let green = to_byte(
                luma.wrapping_add(green_base).wrapping_add(product(u, green_u)).wrapping_add(product(v, green_v)),
            );
            let blue = to_byte(luma.wrapping_add(blue_base).wrapping_add(product(u, blue_u)));
            let texel = if blue_first == 0 { [red, green, blue, 255] } else { [blue, green, red, 255] };
            for (channel, byte) in (0..).zip(texel) {
                picture.rgba(x, y, channel).store(byte, Ordering::Relaxed);
            }
        }
    }
}

/// CPU version of [`RGBA_TO_YUV`](crate::RGBA_TO_YUV).
///
/// # Panics
/// If a plane is smaller than [`plane_sizes`], or the numbers are not of a [`Conversion`](super::Conversion).
pub fn rgba_to_yuv(planes: Planes<'_>, numbers: &[u32; RGBA_TO_YUV_NUMBERS]) {
    let Some(picture) = Picture::new(planes, numbers) else { return };
    let [l0, l1, l2, u0, u1, u2, v0, v1, v2, luma_base, chroma_base] = picture.coefficients(numbers);
    let channel = |x, y, which| u32::from(picture.rgba(x, y, which).load(Ordering::Relaxed));
    let dot = |channels: [u32; 3], factors: [u32; 3], base: u32| {
        let products = channels.iter().zip(factors).map(|(channel, factor)| channel.wrapping_mul(factor));
        products.fold(base, u32::wrapping_add) >> FRACTION
    };
    for y in 0..picture.height {
        for x in 0..picture.width {
            let luma = dot([0, 1, 2].map(|which| channel(x, y, which)), [l0, l1, l2], luma_base);
            picture.set_sample(0, x, y, luma);
        }
    }
    let [chroma_width, chroma_height] = picture.chroma_extent();
    let greatest = if picture.sample_size == 1 { 255 } else { 1023 };
    for y in 0..chroma_height {
        let rows = [2 * y, (2 * y + 1).min(picture.height - 1)];
        for x in 0..chroma_width {
            let left = (2 * x).saturating_sub(1);
            let right = (2 * x + 1).min(picture.width - 1);
            let columns = [if picture.siting == 0 { left } else { right }, 2 * x, 2 * x, right];
            let sum =
                |which| -> u32 { columns.map(|x| rows.map(|y| channel(x, y, which)).iter().sum::<u32>()).iter().sum() };
            let colour = [0, 1, 2].map(sum);
            picture.set_sample(1, 2 * x, y, dot(colour, [u0, u1, u2], chroma_base).min(greatest));
            picture.set_sample(1, 2 * x + 1, y, dot(colour, [v0, v1, v2], chroma_base).min(greatest));
        }
    }
}

/// The integer part of a sum, within 8 bits.
fn to_byte(sum: u32) -> u8 {
    u8::try_from((sum.cast_signed() >> FRACTION).clamp(0, 255)).unwrap_or(u8::MAX)
}

/// The planes with their layout.
struct Picture<'a> {
    planes: Planes<'a>,
    pitches: [usize; 3],
    width: usize,
    height: usize,
    sample_size: usize,
    siting: u32,
}

impl<'a> Picture<'a> {
    /// Returns `None` for a picture without texels.
    fn new(planes: Planes<'a>, numbers: &[u32]) -> Option<Self> {
        plane_sizes(numbers)?;
        let &[luma, chroma, rgba, width, height, sample_size, siting, ..] = numbers else { return None };
        let of = |number: u32| number as usize;
        Some(Self {
            planes,
            pitches: [luma, chroma, rgba].map(of),
            width: of(width),
            height: of(height),
            sample_size: of(sample_size),
            siting,
        })
    }

    /// The arguments after the layout.
    fn coefficients<const N: usize>(&self, numbers: &[u32]) -> [u32; N] {
        let mut found = [0; N];
        found.copy_from_slice(&numbers[LAYOUT_NUMBERS..]);
        found
    }

    fn chroma_extent(&self) -> [usize; 2] {
        [self.width, self.height].map(|size| size.div_ceil(2))
    }

    /// The nearest chroma sample of the picture.
    fn within(&self, [x, y]: [usize; 2]) -> [usize; 2] {
        let [width, height] = self.chroma_extent();
        [x.min(width - 1), y.min(height - 1)]
    }

    /// Sample `x` of row `y` of luma or chroma.
    fn sample(&self, plane: usize, x: usize, y: usize) -> u32 {
        let byte = |at: usize| u32::from(self.planes[plane][at].load(Ordering::Relaxed));
        let at = y * self.pitches[plane] + x * self.sample_size;
        if self.sample_size == 1 { byte(at) } else { (byte(at) | byte(at + 1) << 8) >> 6 }
    }

    fn set_sample(&self, plane: usize, x: usize, y: usize, value: u32) {
        let at = y * self.pitches[plane] + x * self.sample_size;
        let bytes = if self.sample_size == 1 { value } else { value << 6 }.to_le_bytes();
        for (target, byte) in self.planes[plane][at..at + self.sample_size].iter().zip(bytes) {
            target.store(byte, Ordering::Relaxed);
        }
    }

    /// Cb (0) or Cr (1).
    fn chroma(&self, [x, y]: [usize; 2], which: usize) -> u32 {
        self.sample(1, 2 * x + which, y)
    }

    fn rgba(&self, x: usize, y: usize, channel: usize) -> &'a AtomicU8 {
        &self.planes[2][y * self.pitches[2] + 4 * x + channel]
    }
}
