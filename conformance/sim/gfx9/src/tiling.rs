//! Where an image's elements lie in memory: the swizzle modes of GFX9.
//!
//! A tiled image consists of blocks. [`Equation`] has the offset of an element in its block. [`Layout`] adds the order
//! of the blocks and the places of mip levels.

use crate::{Result, unknown};

use equation::{Equation, Mode, Order, Spread};

mod equation;

/// The register `GB_ADDR_CONFIG`: the numbers of pipes, banks and shader engines among which tiled images are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressConfig(pub u32);

impl Default for AddressConfig {
    /// The value of gfx906.
    fn default() -> Self {
        Self(0x2a11_4042)
    }
}

impl AddressConfig {
    /// Logarithm of the bytes that one pipe holds in a row.
    const fn interleave(self) -> u32 {
        8 + (self.0 >> 3 & 7)
    }

    /// Logarithm of the number of pipes of all shader engines.
    const fn pipes(self) -> u32 {
        (self.0 & 7) + (self.0 >> 19 & 3)
    }

    const fn banks(self) -> u32 {
        self.0 >> 12 & 7
    }
}

/// What determines where an image's elements lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Number of the swizzle mode.
    pub(crate) mode: u32,
    /// The image has three dimensions.
    pub(crate) volume: bool,
    /// Logarithm of an element's bytes.
    pub(crate) element: u32,
    /// Elements of level 0; the third one only counts for a volume.
    pub(crate) size: [u32; 3],
    pub(crate) levels: u32,
    /// Elements of a row with its padding. With several levels, this is the extent of all levels of a slice in the
    /// direction in which level 1 follows level 0: mostly its height.
    pub(crate) pitch: u32,
}

/// The places of an image's elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    shape: Shape,
    /// `None`: the image is linear.
    equation: Option<Equation>,
    /// The base address's low bits choose the pipe and bank of the first element.
    spread: bool,
}

/// The place of a mip level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Level {
    /// First block in each dimension.
    start: [u32; 3],
    /// Offset in that block. The last levels share one block.
    tail: u32,
    /// Blocks of a row, and rows of a slice, of all levels.
    row: u32,
    rows: u32,
}

impl Layout {
    pub(crate) fn new(shape: Shape, config: AddressConfig) -> Result<Self> {
        if shape.mode == 0 {
            return Ok(Self { shape, equation: None, spread: false });
        }
        let mode = Mode::new(shape.mode)?;
        if mode.block == 8 && shape.levels > 1 {
            return Err(unknown("mip levels in blocks of 256 bytes"));
        }
        let [width, height, depth] = shape.size;
        if shape.volume && mode.order == Order::Display && shape.levels > 1 && depth >= width.max(height) {
            return Err(unknown("mip levels of a volume with thin blocks that is deepest"));
        }
        let equation = Equation::new(mode, shape.volume, shape.element, config)?;
        Ok(Self { shape, equation: Some(equation), spread: mode.spread != Spread::Plain })
    }

    /// The address of an element. The third coordinate is the slice of a volume, or the layer.
    pub(crate) fn address(&self, base: u64, place: [u32; 3], level: u32) -> u64 {
        let Some(equation) = &self.equation else { return base.wrapping_add(self.linear(place, level)) };
        let Level { start, tail, row, rows } = self.level(equation, level);
        let blocks: [u64; 3] =
            std::array::from_fn(|axis| u64::from((place[axis] >> equation.size[axis]) + start[axis]));
        let block = (blocks[2] * u64::from(rows) + blocks[1]) * u64::from(row) + blocks[0];
        let offset = u64::from(equation.offset(place) ^ tail);
        let mask = if self.spread { (1 << equation.block) - 1 } else { 0 };
        (base & !mask).wrapping_add(block << equation.block).wrapping_add(offset ^ base & mask)
    }

    fn linear(&self, [x, y, z]: [u32; 3], level: u32) -> u64 {
        let Shape { element, size: [width, height, _], levels, pitch, .. } = self.shape;
        let (row, rows) = if levels == 1 { (pitch, height) } else { (width.next_multiple_of(256 >> element), pitch) };
        // The levels lie below each other. Their heights are rounded up here.
        let before: u32 = (0..level).map(|level| halved(height, level)).sum();
        let y = u64::from(z) * u64::from(rows) + u64::from(before) + u64::from(y);
        (y * u64::from(row) + u64::from(x)) << element
    }

    /// The dimension in which a level fits only if it has at most half a block's elements, to be in the shared block.
    fn short_axis(&self, equation: &Equation) -> usize {
        if equation.size[2] != 0 { [1, 0, 2][(equation.block % 3) as usize] } else { 0 }
    }

    fn level(&self, equation: &Equation, level: u32) -> Level {
        let Shape { size, levels, pitch, .. } = self.shape;
        let thick = equation.size[2] != 0;
        let depth = if thick { size[2] } else { 1 };
        let elements = [size[0], size[1], depth];
        let mut blocks: [u32; 3] = std::array::from_fn(|axis| elements[axis].div_ceil(1 << equation.size[axis]));
        if levels == 1 {
            return Level { start: [0; 3], tail: 0, row: pitch >> equation.size[0], rows: blocks[1] };
        }
        let short = self.short_axis(equation);
        let limit = |axis: usize| (1 << equation.size[axis]) >> u32::from(axis == short);
        if (0..3).all(|axis| elements[axis] <= limit(axis)) {
            return Level { start: [0; 3], tail: tail(equation.block, level), row: 1, rows: 1 };
        }
        // Levels 1 and 3 follow in the direction across the largest dimension, the others along it.
        let [x, y, z] = blocks;
        let deepest = thick && (if x < y { y } else { x }) < z;
        let (along, across) = match () {
            () if deepest => (2, 1),
            () if x < y => (1, 0),
            () => (0, 1),
        };
        let (row, rows) = if across == 0 { (pitch >> equation.size[0], y) } else { (x, pitch >> equation.size[1]) };
        let mut start = [0; 3];
        for step in 1..=level {
            let axis = if matches!(step, 1 | 3) { across } else { along };
            start[axis] += blocks[axis];
            if (0..3).all(|axis| blocks[axis] <= if axis == short { 1 } else { 2 }) {
                return Level { start, tail: tail(equation.block, level - step), row, rows };
            }
            blocks = blocks.map(|count| count.div_ceil(2));
        }
        Level { start, tail: 0, row, rows }
    }
}

/// A size halved for each level, rounded up.
fn halved(size: u32, level: u32) -> u32 {
    (0..level).fold(size, |size, _| size.div_ceil(2))
}

/// The offset of one of the levels that share a block: the first one has the upper half, the next one a half of the
/// rest. The last ones, of 2 KiB and less, have 256 bytes each.
fn tail(block: u32, index: u32) -> u32 {
    let large = block - 11;
    if index < large { 1 << (block - 1 - index) } else { 6_u32.saturating_sub(index - large) << 8 }
}

#[cfg(test)]
mod checks;
