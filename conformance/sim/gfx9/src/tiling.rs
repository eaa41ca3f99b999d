//! Where an image's elements lie in memory: the swizzle modes of GFX9.
//!
//! A tiled image consists of blocks. Each bit of an element's offset in its block is the exclusive or of bits of the
//! coordinates, so the offset is the exclusive or of what each coordinate bit contributes. [`Equation`] holds these
//! contributions; [`Layout`] adds the order of the blocks and the places of mip levels.

use crate::{Result, unknown};

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

/// Order of elements within a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Z,
    Standard,
    Display,
    Rotated,
}

/// How pipes and banks are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spread {
    Plain,
    /// By coordinates within the block, as sparse images need.
    Block,
    /// By the coordinates' higher bits, too.
    Image,
}

/// A swizzle mode other than the linear one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mode {
    /// Logarithm of a block's bytes.
    block: u32,
    order: Order,
    spread: Spread,
}

impl Mode {
    fn new(number: u32) -> Result<Self> {
        let (block, spread) = match number {
            1..=3 => (8, Spread::Plain),
            4..=7 => (12, Spread::Plain),
            8..=11 => (16, Spread::Plain),
            16..=19 => (16, Spread::Block),
            20..=23 => (12, Spread::Image),
            24..=27 => (16, Spread::Image),
            _ => return Err(unknown("the swizzle mode")),
        };
        let order = [Order::Z, Order::Standard, Order::Display, Order::Rotated][(number & 3) as usize];
        Ok(Self { block, order, spread })
    }
}

/// The coordinate bits that become the lowest address bits above those of the element, from its lowest bit on. One row
/// for each order, with a column for each logarithm of an element's bytes. Empty: there is no such mode.
const THIN_Z: [&str; 5] = ["x0y0x1y1x2y2", "x0y0x1y1x2", "x0y0x1y1", "x0y0x1", ""];
const THIN_STANDARD: [&str; 5] = ["x0x1x2x3y0y1y2y3", "x0x1x2y0y1y2x3", "x0x1y0y1y2x2", "x0y0y1x1x2", "y0y1x0x1"];
const THIN_DISPLAY: [&str; 5] = ["x0x1x2y1y0y2x3y3", "x0x1x2y0y1y2x3", "x0x1y0x2y1y2", "x0y0x1x2y1", "x0y0x1y1"];
const THIN_ROTATED: [&str; 5] = ["y0y1y2x1x0x2x3y3", "y0y1y2x0x1x2x3", "y0y1x0y2x1x2", "y0x0y1x1x2", ""];
const THICK_Z: [&str; 5] =
    ["x0y0x1y1z0z1x2z2y2x3", "x0y0x1y1z0z1z2y2x2", "x0y0x1z0y1z1y2x2", "x0y0z0x1z1y1x2", "x0y0z0z1y1x1"];
const THICK_STANDARD: [&str; 5] =
    ["x0x1x2x3y0y1z0z1z2y2", "x0x1x2y0y1z0z1z2y2", "x0x1y0y1z0z1y2x2", "x0y0y1z0z1x1x2", "y0y1z0z1x0x1"];

/// Address bits that an equation may refer to: those of the largest block, and three times the bits of pipes or banks.
const BITS: usize = 40;
/// The most bits of a coordinate.
const COORDINATE: usize = 16;

/// The offset of an element in its block.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Equation {
    /// The address bits that each bit of each coordinate changes.
    changes: [[u32; COORDINATE]; 3],
    /// Logarithm of the block's bytes, and of its elements in each dimension.
    block: u32,
    size: [u32; 3],
}

impl Equation {
    fn new(mode: Mode, volume: bool, element: u32, config: AddressConfig) -> Result<Self> {
        let thick = volume && matches!(mode.order, Order::Z | Order::Standard);
        let rows = match (mode.order, volume) {
            (Order::Z, false) => THIN_Z,
            (Order::Standard, false) | (Order::Display, true) => THIN_STANDARD,
            (Order::Display, false) => THIN_DISPLAY,
            (Order::Rotated, false) => THIN_ROTATED,
            (Order::Z, true) => THICK_Z,
            (Order::Standard, true) => THICK_STANDARD,
            (Order::Rotated, true) => [""; 5],
        };
        let row = rows[element as usize];
        if row.is_empty() || volume && mode.block == 8 {
            return Err(unknown("the swizzle mode for this type of image and size of element"));
        }
        let bits = coordinate_bits(row, thick, element);
        let mut equation = Self { changes: [[0; COORDINATE]; 3], block: mode.block, size: [0; 3] };
        for address in element..mode.block {
            let (axis, _) = bits[address as usize];
            equation.size[axis] += 1;
            equation.add(&bits, address, address);
        }
        if mode.spread != Spread::Plain {
            equation.spread(mode, thick, &bits, config);
        }
        Ok(equation)
    }

    /// Adds the coordinate bit of an address bit to a bit of the offset.
    fn add(&mut self, bits: &[(usize, usize); BITS], from: u32, to: u32) {
        let (axis, bit) = bits[from as usize];
        if let Some(change) = self.changes[axis].get_mut(bit) {
            *change ^= 1 << to;
        }
    }

    /// Adds further coordinate bits to those address bits that choose the pipe and the bank.
    fn spread(&mut self, mode: Mode, thick: bool, bits: &[(usize, usize); BITS], config: AddressConfig) {
        let first = config.interleave();
        let pipes = config.pipes().min(mode.block - first);
        let banks = config.banks().min(mode.block - first - pipes);
        for (start, count) in [(first, pipes), (first + pipes, banks)] {
            for bit in 0..count {
                // In reverse order: one bit of those above in a thin block, two in a thick one.
                let sources = if thick {
                    [start + 3 * count - 1 - 2 * bit, start + 3 * count - 2 - 2 * bit]
                } else {
                    [start + 2 * count - 1 - bit, u32::MAX]
                };
                for source in sources.into_iter().filter(|source| *source != u32::MAX) {
                    if source < mode.block || mode.spread == Spread::Image {
                        self.add(bits, source, start + bit);
                    }
                }
            }
        }
        if mode.spread == Spread::Image && !thick {
            // The slice: its lowest bits for the pipe, the next ones for the bank.
            for bit in 0..pipes {
                self.changes[2][(pipes - 1 - bit) as usize] ^= 1 << (first + bit);
            }
            for bit in 0..banks {
                self.changes[2][(pipes + banks - 1 - bit) as usize] ^= 1 << (first + pipes + bit);
            }
        }
    }

    fn offset(&self, place: [u32; 3]) -> u32 {
        let mut offset = 0;
        for (changes, mut rest) in self.changes.iter().zip(place) {
            while rest != 0 {
                offset ^= changes.get(rest.trailing_zeros() as usize).copied().unwrap_or(0);
                rest &= rest - 1;
            }
        }
        offset & ((1 << self.block) - 1)
    }
}

/// The dimension and the bit of the coordinate that each address bit comes from, without exclusive or: the row's, then
/// the dimensions in turn. Those of the element itself are no bits.
fn coordinate_bits(row: &str, thick: bool, element: u32) -> [(usize, usize); BITS] {
    let mut bits = [(0, usize::MAX); BITS];
    let mut next = [0; 3];
    let mut low = row.as_bytes().chunks_exact(2).map(|pair| (usize::from(pair[0] - b'x'), usize::from(pair[1] - b'0')));
    for (address, slot) in bits.iter_mut().enumerate().skip(element as usize) {
        *slot = low.next().unwrap_or_else(|| {
            let axis = if thick { [0, 2, 1][address % 3] } else { [1, 0][address % 2] };
            (axis, next[axis])
        });
        next[slot.0] += 1;
    }
    bits
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
