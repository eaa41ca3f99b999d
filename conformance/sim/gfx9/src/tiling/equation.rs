//! Offsets of elements in blocks.
//!
//! Each bit of an offset is the exclusive or of bits of the coordinates. So the offset is the exclusive or of what each
//! coordinate bit contributes.

use super::AddressConfig;
use crate::{Result, unknown};

/// Order of elements within a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Z,
    Standard,
    Display,
    Rotated,
}

/// How pipes and banks are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spread {
    Plain,
    /// By coordinates within the block, as sparse images need.
    Block,
    /// By the coordinates' higher bits, too.
    Image,
}

/// A swizzle mode other than the linear one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mode {
    /// Logarithm of a block's bytes.
    pub(super) block: u32,
    pub(super) order: Order,
    pub(super) spread: Spread,
}

impl Mode {
    pub(super) fn new(number: u32) -> Result<Self> {
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
pub(super) struct Equation {
    /// The address bits that each bit of each coordinate changes.
    changes: [[u32; COORDINATE]; 3],
    /// Logarithm of the block's bytes, and of its elements in each dimension.
    pub(super) block: u32,
    pub(super) size: [u32; 3],
}

impl Equation {
    pub(super) fn new(mode: Mode, volume: bool, element: u32, config: AddressConfig) -> Result<Self> {
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
        let pipes = config.pipes().min(mode.block.saturating_sub(first));
        let banks = config.banks().min(mode.block.saturating_sub(first + pipes));
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

    pub(super) fn offset(&self, place: [u32; 3]) -> u32 {
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
