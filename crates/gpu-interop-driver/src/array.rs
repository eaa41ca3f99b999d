//! Copies of arrays in the terms of both drivers.

use gpu_interop_core::backend::{ArrayCopy, ArrayCopySide, DevicePtr, RawArray};
use gpu_interop_core::{Error, Result};

/// A copy in the units of this process. Drivers differ in how they lay it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy3d {
    /// What is read.
    pub src: Side,
    /// What is written.
    pub dst: Side,
    /// Bytes in a row, rows, slices.
    pub extent: [usize; 3],
}

/// One side of a [`Copy3d`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Side {
    /// Where it is.
    pub place: Place,
    /// Where the copy starts in an array: bytes in the row, row, slice. 0 in memory.
    pub offset: [usize; 3],
    /// Bytes from row to row of memory. 0 for an array.
    pub pitch: usize,
    /// Rows from slice to slice of memory. 0 for an array.
    pub height: usize,
}

/// Where a side of a copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In host memory.
    Host(*mut u8),
    /// In linear device memory.
    Device(DevicePtr),
    /// In an array.
    Array(RawArray),
}

/// Prepares a copy.
///
/// # Errors
/// `InvalidArgument` for extents that exceed the address space.
pub fn copy(operation: &'static str, copy: &ArrayCopy) -> Result<Copy3d> {
    let extent = sizes(operation, copy.extent)?;
    let side = |of| side(operation, of, extent[1] == 1 && extent[2] > 1);
    Ok(Copy3d { src: side(copy.src)?, dst: side(copy.dst)?, extent })
}

fn side(operation: &'static str, side: ArrayCopySide, single_rows: bool) -> Result<Side> {
    let memory = |place, row_pitch, rows| {
        let [pitch, height] = pitch_and_height(operation, row_pitch, rows, single_rows)?;
        Ok(Side { place, offset: [0; 3], pitch, height })
    };
    match side {
        ArrayCopySide::Host { ptr, row_pitch, rows } => memory(Place::Host(ptr), row_pitch, rows),
        ArrayCopySide::Linear { ptr, row_pitch, rows } => memory(Place::Device(ptr), row_pitch, rows),
        ArrayCopySide::Array { raw, offset } => {
            Ok(Side { place: Place::Array(raw), offset: sizes(operation, offset)?, pitch: 0, height: 0 })
        }
    }
}

/// Pitch and height of memory: bytes from row to row, rows from slice to slice.
///
/// Slices of a single row are given as rows that are a slice apart. It is the same, and the only way that works with
/// layers of one dimension: measured on CUDA's driver 580, a copy of these ignores the height.
fn pitch_and_height(operation: &'static str, row_pitch: u64, rows: u64, single_rows: bool) -> Result<[usize; 2]> {
    let (row_pitch, rows) = if single_rows { (row_pitch.saturating_mul(rows), 1) } else { (row_pitch, rows) };
    let [pitch, height, _] = sizes(operation, [row_pitch, rows, 0])?;
    Ok([pitch, height])
}

/// Sizes of this process.
///
/// # Errors
/// `InvalidArgument` for what exceeds the address space.
pub fn sizes(operation: &'static str, extent: [u64; 3]) -> Result<[usize; 3]> {
    let mut out = [0; 3];
    for (out, n) in out.iter_mut().zip(extent) {
        *out = usize::try_from(n)
            .map_err(|_| Error::invalid(operation, "the extent exceeds the address space").with_context("extent", n))?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_of_a_copy_is_prepared() {
        let mut byte = 0_u8;
        let array = ArrayCopySide::Array { raw: RawArray::new(7), offset: [8, 2, 3] };
        let linear = ArrayCopySide::Linear { ptr: DevicePtr::new(0x1000), row_pitch: 64, rows: 5 };
        let host = ArrayCopySide::Host { ptr: &raw mut byte, row_pitch: 20, rows: 3 };
        let of_array = Side { place: Place::Array(RawArray::new(7)), offset: [8, 2, 3], pitch: 0, height: 0 };
        let of_linear = Side { place: Place::Device(DevicePtr::new(0x1000)), offset: [0; 3], pitch: 64, height: 5 };
        let of_host = Side { place: Place::Host(&raw mut byte), offset: [0; 3], pitch: 20, height: 3 };
        for (dst, src, expected) in [(linear, array, (of_linear, of_array)), (array, host, (of_array, of_host))] {
            let prepared = copy("op", &ArrayCopy { dst, src, extent: [20, 3, 2] }).expect("prepares");
            assert_eq!(prepared.extent, [20, 3, 2]);
            assert_eq!((prepared.dst, prepared.src), expected);
        }
        let prepared = copy("op", &ArrayCopy { dst: array, src: linear, extent: [20, 1, 2] }).expect("prepares");
        assert_eq!((prepared.src.pitch, prepared.src.height), (5 * 64, 1), "layers of one row");
    }
}
