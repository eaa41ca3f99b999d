//! Instructions that sample images.

use half::f16;

use super::{clear, components, has_layer, image, operand, part, write};
use crate::decode::{Fields, flag};
use crate::dispatch::Unit;
use crate::image::{Descriptor, Kind};
use crate::sampler::{Coordinate, Sampler, Tap};
use crate::table::memory::load_element;
use crate::wave::LANES;
use crate::{Result, unknown};

/// What a sampling instruction has beside the coordinates.
pub(super) mod with {
    /// Offsets of elements.
    pub(in crate::table) const OFFSET: u8 = 1;
    /// A bias of the level.
    pub(in crate::table) const BIAS: u8 = 1 << 1;
    /// A reference value.
    pub(in crate::table) const COMPARE: u8 = 1 << 2;
    /// The derivatives of the coordinates.
    pub(in crate::table) const DERIVATIVES: u8 = 1 << 3;
    /// The level.
    pub(in crate::table) const LEVEL: u8 = 1 << 4;
    /// The level is 0.
    pub(in crate::table) const ZERO: u8 = 1 << 5;
    /// The elements are results, unfiltered.
    pub(in crate::table) const GATHER: u8 = 1 << 6;
}

/// The operands of a lane of a sampling instruction.
#[derive(Debug, Clone, Copy, Default)]
struct Request {
    coordinate: Coordinate,
    reference: f32,
    bias: f32,
    level: f32,
    /// Changes of the coordinates to the next result in both directions.
    derivatives: [[f32; 3]; 2],
}

fn request(unit: &Unit<'_, '_>, fields: &Fields, image: &Descriptor, lane: usize, parts: u8) -> Result<Request> {
    let mut number = 0;
    let mut next = || {
        number += 1;
        operand(unit, fields, number - 1, lane)
    };
    let has = |part: u8| parts & part != 0;
    let mut request = Request::default();
    let count = image.dimensions();
    let short = fields.bits & flag::IMAGE_A16 != 0;
    if short && has(with::BIAS | with::DERIVATIVES) {
        return Err(unknown("a bias or derivatives of 16 bits"));
    }
    if has(with::OFFSET) {
        let word = next()?;
        request.coordinate.offset = [0, 8, 16].map(|low| (word << (26 - low)).cast_signed() >> 26);
    }
    if has(with::BIAS) {
        request.bias = f32::from_bits(next()?);
    }
    if has(with::COMPARE) {
        request.reference = f32::from_bits(next()?);
    }
    if has(with::DERIVATIVES) {
        if image.kind == Kind::Cube {
            return Err(unknown("derivatives of a cube's coordinates"));
        }
        for derivative in &mut request.derivatives {
            for part in derivative.iter_mut().take(count) {
                *part = f32::from_bits(next()?);
            }
        }
    }
    let rest = Fields { sources: [fields.sources[0] + number as u16, 0, 0, 0], ..*fields };
    let mut number = 0;
    let mut next = || {
        number += 1;
        let word = part(unit, &rest, number - 1, lane)?;
        Ok(if short { f16::from_bits(word as u16).to_f32() } else { f32::from_bits(word) })
    };
    for coordinate in request.coordinate.place.iter_mut().take(count) {
        *coordinate = next()?;
    }
    if has_layer(fields, image) {
        request.coordinate.layer = next()?;
    }
    if has(with::LEVEL) {
        request.level = next()?;
    }
    Ok(request)
}

/// Sets the derivatives of all lanes from the differences within each four lanes.
fn derive(requests: &mut [Request; LANES]) {
    for four in requests.chunks_exact_mut(4) {
        let place = |lane: usize| four[lane].coordinate.place;
        let difference = |lane: usize| std::array::from_fn(|axis| place(lane)[axis] - place(0)[axis]);
        let derivatives = [difference(1), difference(2)];
        four.iter_mut().for_each(|request| request.derivatives = derivatives);
    }
}

/// The level of detail for derivatives: the logarithm of the larger distance in elements.
fn detail(image: &Descriptor, derivatives: &[[f32; 3]; 2], unnormalised: bool) -> f32 {
    let size = image.size(image.levels[0]);
    let distance = |derivative: &[f32; 3]| {
        let scaled = derivative.iter().zip(size).take(image.dimensions());
        scaled.map(|(part, size)| (part * if unnormalised { 1.0 } else { size as f32 }).powi(2)).sum::<f32>().sqrt()
    };
    distance(&derivatives[0]).max(distance(&derivatives[1])).log2()
}

pub(super) fn sample(unit: &mut Unit<'_, '_>, fields: &Fields, parts: u8) -> Result<()> {
    let image = image(unit, fields)?;
    let unnormalised = fields.bits & flag::IMAGE_UNORMALIZED != 0;
    let sampler = Sampler::read(unit.wave, fields.sources[2], unnormalised)?;
    let Some(image) = image else {
        let count = if parts & with::GATHER != 0 { 4 } else { components(fields.format).count() };
        return clear(unit, fields, count);
    };
    let mut requests = [Request::default(); LANES];
    for (lane, slot) in requests.iter_mut().enumerate() {
        *slot = request(unit, fields, &image, lane, parts)?;
    }
    let explicit = parts & (with::LEVEL | with::ZERO) != 0;
    if !explicit && parts & with::DERIVATIVES == 0 {
        derive(&mut requests);
    }
    let sampling = Sampling { image: &image, sampler: &sampler, compare: parts & with::COMPARE != 0 };
    for lane in unit.wave.active() {
        let request = &requests[lane];
        let level = if explicit {
            request.level
        } else {
            detail(&image, &request.derivatives, sampler.unnormalised) + request.bias
        };
        if parts & with::GATHER != 0 {
            let results = sampling.gather(unit, fields.format, request, level)?;
            write(unit, fields, lane, image.format, results.into_iter())?;
        } else {
            let results = sampling.filter(unit, request, level, !explicit)?;
            write(unit, fields, lane, image.format, components(fields.format).map(|component| results[component]))?;
        }
    }
    Ok(())
}

struct Sampling<'a> {
    image: &'a Descriptor,
    sampler: &'a Sampler,
    compare: bool,
}

impl Sampling<'_> {
    /// The components of an element, or its comparison with the reference value.
    fn element(&self, unit: &mut Unit<'_, '_>, tap: &Tap, reference: f32) -> Result<[u32; 4]> {
        let format = self.image.format;
        let found = match tap.place {
            Some(place) => match self.image.address(place, tap.level) {
                Some(address) => format.unpack(load_element(unit, address, format.size()?)?)?,
                None => [0; 4],
            },
            None => self.image.bordered(self.sampler.border(format.one())?),
        };
        if !self.compare {
            return Ok(found);
        }
        let reference = if format.is_normalised() { reference.clamp(0.0, 1.0) } else { reference };
        let result = if self.sampler.compares(reference, f32::from_bits(found[0])) { format.one() } else { 0 };
        Ok([result, 0, 0, format.one()])
    }

    fn filter(&self, unit: &mut Unit<'_, '_>, request: &Request, level: f32, implicit: bool) -> Result<[u32; 4]> {
        let taps = self.sampler.taps(self.image, &request.coordinate, level, implicit)?;
        if let [tap] = taps.as_slice() {
            return Ok(self.image.selected(self.element(unit, tap, request.reference)?));
        }
        if self.image.format.is_integer() {
            return Err(unknown("a filter of integers"));
        }
        let mut sums = [0.0; 4];
        for tap in &taps {
            let found = self.element(unit, tap, request.reference)?;
            for (sum, component) in sums.iter_mut().zip(found) {
                *sum += f32::from_bits(component) * tap.weight;
            }
        }
        Ok(self.image.selected(sums.map(f32::to_bits)))
    }

    /// One component of four elements.
    fn gather(&self, unit: &mut Unit<'_, '_>, mask: u32, request: &Request, level: f32) -> Result<[u32; 4]> {
        let component = mask.trailing_zeros() as usize;
        if mask.count_ones() != 1 {
            return Err(unknown("a gather of several components"));
        }
        let taps = self.sampler.gathered(self.image, &request.coordinate, level)?;
        let mut results = [0; 4];
        for (result, tap) in results.iter_mut().zip(&taps) {
            *result = self.image.selected(self.element(unit, tap, request.reference)?)[component];
        }
        Ok(results)
    }
}
