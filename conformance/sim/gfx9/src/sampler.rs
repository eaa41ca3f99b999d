//! Sampler descriptors: the elements that a sampled coordinate touches, and their weights.

use crate::cube::{self, Face};
use crate::image::{Descriptor, Kind};
use crate::wave::Wave;
use crate::{Result, unknown};

/// How a coordinate outside the image is brought into it, by the number of the mode.
mod clamp {
    pub(super) const WRAP: u8 = 0;
    pub(super) const MIRROR: u8 = 1;
    pub(super) const LAST: u8 = 2;
    pub(super) const MIRROR_ONCE_LAST: u8 = 3;
    pub(super) const HALF_BORDER: u8 = 4;
    pub(super) const MIRROR_ONCE_HALF_BORDER: u8 = 5;
    pub(super) const BORDER: u8 = 6;
}

/// The four words that describe a sampler.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sampler {
    clamp: [u8; 3],
    /// Coordinates count elements.
    pub(crate) unnormalised: bool,
    /// Number of the comparison with the reference value.
    compare: u8,
    /// Coordinates of the nearest element are cut off, and not rounded to 1/256 before.
    truncate: bool,
    /// Filters do not cross the edges of a cube.
    separate_faces: bool,
    levels: [f32; 2],
    bias: f32,
    /// Whether several elements are weighted: if the image is enlarged, if it is reduced, and of slices of a volume.
    linear: [bool; 2],
    linear_slices: Option<bool>,
    /// 0: the first level; 1: the nearest one; 2: a mixture of two.
    mip: u8,
    border: u8,
    anisotropic: bool,
}

/// A coordinate for a lane.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Coordinate {
    /// The image's dimensions.
    pub(crate) place: [f32; 3],
    /// The layer; of a cube, its face, and 8 for each further cube.
    pub(crate) layer: f32,
    /// Elements that are added.
    pub(crate) offset: [i32; 3],
}

/// An element that takes part in a result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tap {
    /// `None`: the border's colour.
    pub(crate) place: Option<[u32; 3]>,
    /// Level, counted from the first one.
    pub(crate) level: u32,
    pub(crate) weight: f32,
}

impl Sampler {
    pub(crate) fn new(words: [u32; 4]) -> Result<Self> {
        let bits = |word: usize, low: u32, count: u32| words[word] >> low & ((1 << count) - 1);
        match () {
            () if bits(0, 29, 2) != 0 => return Err(unknown("a sampler for the least or largest element")),
            () if bits(0, 20, 1) != 0 || bits(3, 12, 1) != 0 => {
                return Err(unknown("a sampler with its own conversion of sRGB"));
            }
            () => {}
        }
        let fixed = |value: u32| value as f32 / 256.0;
        let filters = [bits(2, 20, 2), bits(2, 22, 2)];
        Ok(Self {
            clamp: [bits(0, 0, 3), bits(0, 3, 3), bits(0, 6, 3)].map(|mode| mode as u8),
            unnormalised: bits(0, 15, 1) != 0,
            compare: bits(0, 12, 3) as u8,
            truncate: bits(0, 27, 1) != 0,
            separate_faces: bits(0, 28, 1) != 0,
            levels: [fixed(bits(1, 0, 12)), fixed(bits(1, 12, 12))],
            bias: ((bits(2, 0, 14) << 18).cast_signed() >> 18) as f32 / 256.0,
            linear: filters.map(|filter| filter & 1 != 0),
            linear_slices: match bits(2, 24, 2) {
                0 => None,
                filter => Some(filter == 2),
            },
            mip: match bits(2, 26, 2) {
                3 => return Err(unknown("a filter of levels with anisotropy")),
                filter => filter as u8,
            },
            border: bits(3, 30, 2) as u8,
            anisotropic: filters.iter().any(|filter| filter & 2 != 0) && bits(0, 9, 3) != 0,
        })
    }

    pub(crate) fn read(wave: &Wave, register: u16, unnormalised: bool) -> Result<Self> {
        let mut words = [0; 4];
        for (word, number) in words.iter_mut().zip(register..) {
            *word = wave.scalar(number, 0)?;
        }
        let sampler = Self::new(words)?;
        Ok(Self { unnormalised: sampler.unnormalised || unnormalised, ..sampler })
    }

    /// The border's colour, with a 1 of the image's type of numbers.
    pub(crate) fn border(&self, one: u32) -> Result<[u32; 4]> {
        match self.border {
            0 => Ok([0; 4]),
            1 => Ok([0, 0, 0, one]),
            2 => Ok([one; 4]),
            _ => Err(unknown("a border colour from memory")),
        }
    }

    /// The comparison of a reference value with an element.
    pub(crate) fn compares(&self, reference: f32, element: f32) -> bool {
        match self.compare {
            0 => false,
            1 => reference < element,
            2 => reference == element,
            3 => reference <= element,
            4 => reference > element,
            5 => reference != element,
            6 => reference >= element,
            _ => true,
        }
    }

    /// The elements for a coordinate. `level`: the level of detail without the sampler's bias, as a logarithm of the
    /// number of elements between results. `implicit`: it was computed from neighbouring coordinates.
    pub(crate) fn taps(
        &self,
        image: &Descriptor,
        coordinate: &Coordinate,
        level: f32,
        implicit: bool,
    ) -> Result<Vec<Tap>> {
        if implicit && self.anisotropic {
            return Err(unknown("an anisotropic filter"));
        }
        let last = image.levels[1].saturating_sub(image.levels[0]);
        let level = (level + self.bias).max(self.levels[0]).min(self.levels[1]);
        let linear = self.linear[usize::from(level > 0.0)];
        let level = ((level.clamp(0.0, last as f32) * 256.0).round() / 256.0).clamp(0.0, last as f32);
        let mut taps = Vec::with_capacity(8);
        match self.mip {
            0 => self.level_taps(image, coordinate, 0, 1.0, linear, &mut taps),
            1 => self.level_taps(image, coordinate, (level + 0.5) as u32, 1.0, linear, &mut taps),
            _ => {
                let part = level.fract();
                self.level_taps(image, coordinate, level as u32, 1.0 - part, linear, &mut taps);
                if part != 0.0 {
                    self.level_taps(image, coordinate, level as u32 + 1, part, linear, &mut taps);
                }
            }
        }
        Ok(taps)
    }

    /// The four elements around a coordinate, in the order of a gather's results. `level` is as in `taps`.
    pub(crate) fn gathered(&self, image: &Descriptor, coordinate: &Coordinate, level: f32) -> Result<[Tap; 4]> {
        if !matches!(image.kind, Kind::Plane | Kind::Cube) {
            return Err(unknown("a gather of other than two dimensions"));
        }
        let last = image.levels[1].saturating_sub(image.levels[0]);
        let level = (level + self.bias).max(self.levels[0]).min(self.levels[1]).clamp(0.0, last as f32);
        let level = if self.mip == 0 { 0 } else { (level + 0.5) as u32 };
        let ([x, y, _], layer) = self.axes(image, coordinate, level, [true, true, false]);
        Ok([(0, 1), (1, 1), (1, 0), (0, 0)].map(|(right, below)| {
            let place = [x.first + right, y.first + below, layer];
            Tap { place: self.inside(image, place, level, [true; 3]), level, weight: 1.0 }
        }))
    }

    fn level_taps(
        &self,
        image: &Descriptor,
        coordinate: &Coordinate,
        level: u32,
        weight: f32,
        linear: bool,
        taps: &mut Vec<Tap>,
    ) {
        let count = image.dimensions();
        let slices = self.linear_slices.unwrap_or(linear);
        let filters = [linear, linear && count > 1, slices && count > 2];
        let (axes, layer) = self.axes(image, coordinate, level, filters);
        let start = taps.len();
        let mut corner = 0.0;
        for choice in 0..8_u8 {
            let mut place = [0, 0, layer];
            let mut share = weight;
            for (axis, Axis { first, part }) in axes.iter().enumerate().take(count) {
                let next = choice >> axis & 1 != 0;
                place[axis] = first + i64::from(next);
                share *= if next { *part } else { 1.0 - part };
            }
            if share == 0.0 || choice >> count != 0 {
                continue;
            }
            if image.kind == Kind::Cube && self.is_corner(image, place, level) {
                corner += share;
            } else {
                taps.push(Tap { place: self.inside(image, place, level, filters), level, weight: share });
            }
        }
        // Three faces meet at a cube's corner: the fourth element is the mean of the others.
        let others = &mut taps[start..];
        if corner != 0.0 {
            let share = corner / others.len() as f32;
            others.iter_mut().for_each(|tap| tap.weight += share);
        }
    }

    /// The elements of each dimension, and the layer.
    fn axes(&self, image: &Descriptor, coordinate: &Coordinate, level: u32, filters: [bool; 3]) -> ([Axis; 3], i64) {
        let size = image.size(level + image.levels[0]);
        let cube = image.kind == Kind::Cube;
        let axes = std::array::from_fn(|axis| {
            if axis >= image.dimensions() {
                return Axis { first: 0, part: 0.0 };
            }
            let size = size[axis] as f32;
            // Coordinates of a face are 1 to 2.
            let place = coordinate.place[axis] - if cube { 1.0 } else { 0.0 };
            let scaled = if self.unnormalised { place } else { place * size };
            let at = scaled + coordinate.offset[axis] as f32;
            let at = match self.clamp[axis] {
                clamp::HALF_BORDER if !cube => at.clamp(0.0, size),
                clamp::MIRROR_ONCE_HALF_BORDER if !cube => at.abs().clamp(0.0, size),
                _ => at,
            };
            self.axis(at, filters[axis])
        });
        let layers = i64::from(image.layer_count());
        let layer = coordinate.layer.round_ties_even() as i64;
        let layer = if cube {
            // Each cube has six faces.
            let (cubes, face) = (layers / 6, layer & 7);
            (layer >> 3).clamp(0, (cubes - 1).max(0)) * 6 + face.min(5)
        } else {
            layer.clamp(0, (layers - 1).max(0))
        };
        (axes, layer)
    }

    fn axis(&self, at: f32, linear: bool) -> Axis {
        let rounded = |value: f64| (value * 256.0).round() / 256.0;
        let at = f64::from(at);
        if linear {
            let at = rounded(at - 0.5);
            Axis { first: at.floor() as i64, part: (at - at.floor()) as f32 }
        } else {
            let at = if self.truncate { at } else { rounded(at) };
            Axis { first: at.floor() as i64, part: 0.0 }
        }
    }

    fn is_corner(&self, image: &Descriptor, [x, y, _]: [i64; 3], level: u32) -> bool {
        let size = i64::from(image.size(level + image.levels[0])[0]);
        let outside = |place: i64| place < 0 || place >= size;
        !self.separate_faces && outside(x) && outside(y)
    }

    /// The element of a place that may be outside the image.
    fn inside(&self, image: &Descriptor, place: [i64; 3], level: u32, filters: [bool; 3]) -> Option<[u32; 3]> {
        let size = image.size(level + image.levels[0]).map(i64::from);
        let mut found = place;
        if image.kind == Kind::Cube {
            if self.separate_faces || self.is_corner(image, place, level) {
                (found[0], found[1]) = (place[0].clamp(0, size[0] - 1), place[1].clamp(0, size[0] - 1));
            } else {
                let here = Face { face: (place[2] % 6) as u8, x: place[0], y: place[1] };
                let there = cube::neighbour(here, size[0]);
                found = [there.x, there.y, place[2] / 6 * 6 + i64::from(there.face)];
            }
        } else {
            for axis in 0..image.dimensions() {
                found[axis] = clamped(place[axis], size[axis], self.clamp[axis], filters[axis])?;
            }
        }
        Some(found.map(|place| place as u32))
    }
}

/// The elements of one dimension: the first one, and how much of the next one.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Axis {
    first: i64,
    part: f32,
}

/// Brings a place into an image. `None`: the border.
fn clamped(place: i64, size: i64, mode: u8, linear: bool) -> Option<i64> {
    let once = if place < 0 { -1 - place } else { place };
    let bordered = |place: i64| (0..size).contains(&place).then_some(place);
    match mode {
        clamp::WRAP => Some(place.rem_euclid(size)),
        clamp::MIRROR => {
            let place = place.rem_euclid(2 * size);
            Some(place.min(2 * size - 1 - place))
        }
        clamp::LAST => Some(place.clamp(0, size - 1)),
        clamp::MIRROR_ONCE_LAST => Some(once.min(size - 1)),
        clamp::HALF_BORDER if !linear => Some(place.clamp(0, size - 1)),
        clamp::MIRROR_ONCE_HALF_BORDER if !linear => Some(once.min(size - 1)),
        clamp::HALF_BORDER | clamp::BORDER => bordered(place),
        _ => bordered(once),
    }
}

#[cfg(test)]
mod tests;
