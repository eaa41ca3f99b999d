//! Encoding of array copies.

use std::ffi::{c_uint, c_void};
use std::ptr;

use gpu_interop_core::backend::{ArrayCopy, ArrayCopySide};
use gpu_interop_core::{Error, Result};

use crate::functions::{DeviceAddress, Handle};

/// `CU_MEMORYTYPE_HOST`, and `hipMemoryTypeHost` since HIP 6.
pub const MEMORY_TYPE_HOST: c_uint = 1;
/// `CU_MEMORYTYPE_DEVICE`, and `hipMemoryTypeDevice` since HIP 6.
pub const MEMORY_TYPE_DEVICE: c_uint = 2;

/// Side of a [`Memcpy3d`].
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Memcpy3dSide<R> {
    /// Origin of the copy in an array: byte within the row, row, slice. 0 for memory.
    pub offset: [usize; 3],
    /// 0.
    pub level_of_detail: usize,
    /// [`MEMORY_TYPE_HOST`], [`MEMORY_TYPE_DEVICE`] or the vendor's number of arrays. The fields of the other types are 0.
    pub memory_type: c_uint,
    /// Host memory.
    pub host: *mut c_void,
    /// Linear device memory.
    pub device: DeviceAddress,
    /// Array.
    pub array: Handle,
    /// 0: bytes that only NVIDIA's struct has.
    pub reserved: R,
    /// Row pitch of memory in bytes. 0 for an array.
    pub pitch: usize,
    /// Slice pitch of memory in rows. 0 for an array.
    pub height: usize,
}

/// `CUDA_MEMCPY3D` if `R` is `usize`, `HIP_MEMCPY3D` of HIP 6 and later if `R` is `[usize; 0]`. Both sides have the same
/// fields.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Memcpy3d<R> {
    /// Side that is read.
    pub src: Memcpy3dSide<R>,
    /// Side that is written.
    pub dst: Memcpy3dSide<R>,
    /// Bytes per row, rows, slices.
    pub extent: [usize; 3],
}

impl<R: Default> Memcpy3d<R> {
    /// Encodes a copy. `array` is the vendor's `memory_type` of arrays.
    ///
    /// # Errors
    /// `InvalidArgument` for extents that exceed the address space.
    pub fn new(operation: &'static str, copy: &ArrayCopy, array: c_uint) -> Result<Self> {
        let extent = sizes(operation, copy.extent)?;
        let side = |of| side(operation, of, array, extent[1] == 1 && extent[2] > 1);
        Ok(Self { src: side(copy.src)?, dst: side(copy.dst)?, extent })
    }
}

fn side<R: Default>(
    operation: &'static str,
    side: ArrayCopySide,
    array_type: c_uint,
    single_rows: bool,
) -> Result<Memcpy3dSide<R>> {
    let mut encoded = Memcpy3dSide {
        offset: [0; 3],
        level_of_detail: 0,
        memory_type: array_type,
        host: ptr::null_mut(),
        device: 0,
        array: 0,
        reserved: R::default(),
        pitch: 0,
        height: 0,
    };
    match side {
        ArrayCopySide::Host { ptr, row_pitch, rows } => {
            (encoded.memory_type, encoded.host) = (MEMORY_TYPE_HOST, ptr.cast());
            [encoded.pitch, encoded.height] = pitch_and_height(operation, row_pitch, rows, single_rows)?;
        }
        ArrayCopySide::Linear { ptr, row_pitch, rows } => {
            (encoded.memory_type, encoded.device) = (MEMORY_TYPE_DEVICE, ptr.get());
            [encoded.pitch, encoded.height] = pitch_and_height(operation, row_pitch, rows, single_rows)?;
        }
        ArrayCopySide::Array { raw, offset } => {
            (encoded.array, encoded.offset) = (raw.get(), sizes(operation, offset)?);
        }
    }
    Ok(encoded)
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
    use gpu_interop_core::backend::{DevicePtr, RawArray};

    use super::*;

    #[test]
    fn each_side_of_a_copy_is_encoded() {
        let mut byte = 0_u8;
        let array = ArrayCopySide::Array { raw: RawArray::new(7), offset: [8, 2, 3] };
        let linear = ArrayCopySide::Linear { ptr: DevicePtr::new(0x1000), row_pitch: 64, rows: 5 };
        let host = ArrayCopySide::Host { ptr: &raw mut byte, row_pitch: 20, rows: 3 };
        let encode =
            |dst, src, extent| Memcpy3d::<usize>::new("op", &ArrayCopy { dst, src, extent }, 3).expect("encodes");
        let Memcpy3d { src, dst, extent } = encode(linear, array, [20, 3, 2]);
        assert_eq!(extent, [20, 3, 2]);
        assert_eq!((src.memory_type, src.array, src.device, src.host), (3, 7, 0, ptr::null_mut()));
        assert_eq!((src.offset, src.pitch, src.height), ([8, 2, 3], 0, 0));
        assert_eq!((dst.memory_type, dst.array, dst.device, dst.host), (2, 0, 0x1000, ptr::null_mut()));
        assert_eq!((dst.offset, dst.pitch, dst.height), ([0; 3], 64, 5));
        let Memcpy3d { src, dst, .. } = encode(array, host, [20, 3, 2]);
        assert_eq!((src.memory_type, src.array, src.device, src.host), (1, 0, 0, (&raw mut byte).cast()));
        assert_eq!((src.offset, src.pitch, src.height), ([0; 3], 20, 3));
        assert_eq!(dst.array, 7);
        let layers = encode(array, linear, [20, 1, 2]);
        assert_eq!((layers.src.pitch, layers.src.height), (5 * 64, 1), "layers of one row");
    }
}
