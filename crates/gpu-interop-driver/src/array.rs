//! Array copies in units common to both drivers.

use gpu_interop_core::backend::{ArrayCopy, ArrayCopySide, DevicePtr, RawArray};
use gpu_interop_core::{Error, Result};

/// Array copy in `usize` units. The struct passed to the driver differs between the vendors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy3d {
    /// Side that is read.
    pub src: Side,
    /// Side that is written.
    pub dst: Side,
    /// Bytes per row, rows, slices.
    pub extent: [usize; 3],
}

/// One side of a [`Copy3d`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Side {
    /// Memory or array.
    pub place: Place,
    /// Origin of the copy in an array: byte within the row, row, slice. 0 for memory.
    pub offset: [usize; 3],
    /// Row pitch of memory in bytes. 0 for an array.
    pub pitch: usize,
    /// Slice pitch of memory in rows. 0 for an array.
    pub height: usize,
}

/// Location of a side of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Host memory.
    Host(*mut u8),
    /// Linear device memory.
    Device(DevicePtr),
    /// Array.
    Array(RawArray),
}

/// Converts a copy.
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

/// Returns the row pitch of memory in bytes and its slice pitch in rows.
///
/// Slices of a single row are described as rows one slice apart. The result is the same, and only this form works for
/// layered 1D arrays: measured on CUDA driver 580, a copy of these ignores the height.
fn pitch_and_height(operation: &'static str, row_pitch: u64, rows: u64, single_rows: bool) -> Result<[usize; 2]> {
    let (row_pitch, rows) = if single_rows { (row_pitch.saturating_mul(rows), 1) } else { (row_pitch, rows) };
    let [pitch, height, _] = sizes(operation, [row_pitch, rows, 0])?;
    Ok([pitch, height])
}

/// Converts an extent to `usize`.
///
/// # Errors
/// `InvalidArgument` for an extent that exceeds the address space.
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
    fn each_side_of_a_copy_is_converted() {
        let mut byte = 0_u8;
        let array = ArrayCopySide::Array { raw: RawArray::new(7), offset: [8, 2, 3] };
        let linear = ArrayCopySide::Linear { ptr: DevicePtr::new(0x1000), row_pitch: 64, rows: 5 };
        let host = ArrayCopySide::Host { ptr: &raw mut byte, row_pitch: 20, rows: 3 };
        let of_array = Side { place: Place::Array(RawArray::new(7)), offset: [8, 2, 3], pitch: 0, height: 0 };
        let of_linear = Side { place: Place::Device(DevicePtr::new(0x1000)), offset: [0; 3], pitch: 64, height: 5 };
        let of_host = Side { place: Place::Host(&raw mut byte), offset: [0; 3], pitch: 20, height: 3 };
        for (dst, src, expected) in [(linear, array, (of_linear, of_array)), (array, host, (of_array, of_host))] {
            let prepared = copy("op", &ArrayCopy { dst, src, extent: [20, 3, 2] }).expect("converts");
            assert_eq!(prepared.extent, [20, 3, 2]);
            assert_eq!((prepared.dst, prepared.src), expected);
        }
        let prepared = copy("op", &ArrayCopy { dst: array, src: linear, extent: [20, 1, 2] }).expect("converts");
        assert_eq!((prepared.src.pitch, prepared.src.height), (5 * 64, 1), "layers of one row");
    }
}
