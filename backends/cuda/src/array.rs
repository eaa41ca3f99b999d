//! Copies, surfaces and textures of arrays as the driver describes them.

use std::ffi::c_uint;
use std::ptr;

use gpu_interop_core::backend::{ArrayCopy, ArrayCopySide, TextureSource};
use gpu_interop_core::{AddressMode, Error, FilterMode, ReadMode, Result, TextureDesc};

use crate::sys;
use crate::sys::array::{Memcpy3d, Memcpy3dSide, ResourceDesc, memory_type, resource_type, texture_flag};

/// Encodes a copy.
pub(crate) fn copy(copy: &ArrayCopy) -> Result<Memcpy3d> {
    let [width_in_bytes, height, depth] = extent(copy.extent)?;
    let side = |of| side(of, height == 1 && depth > 1);
    Ok(Memcpy3d { source: side(copy.source)?, target: side(copy.target)?, width_in_bytes, height, depth })
}

/// Pitch and height of memory: bytes from row to row, rows from slice to slice.
///
/// Slices of a single row are given as rows that are a slice apart. It is the same, and the only way that works with
/// layers of one dimension: measured on driver 580, a copy of these ignores the height.
fn pitch_and_height(row_pitch: u64, rows: u64, single_rows: bool) -> Result<[usize; 2]> {
    let (row_pitch, rows) = if single_rows { (row_pitch.saturating_mul(rows), 1) } else { (row_pitch, rows) };
    let [pitch, height, _] = extent([row_pitch, rows, 0])?;
    Ok([pitch, height])
}

fn extent(extent: [u64; 3]) -> Result<[usize; 3]> {
    let mut out = [0; 3];
    for (out, n) in out.iter_mut().zip(extent) {
        *out = usize::try_from(n).map_err(|_| {
            Error::invalid("cuMemcpy3DAsync", "the extent exceeds the address space").with_context("extent", n)
        })?;
    }
    Ok(out)
}

fn side(side: ArrayCopySide, single_rows: bool) -> Result<Memcpy3dSide> {
    let mut out = Memcpy3dSide {
        x_in_bytes: 0,
        y: 0,
        z: 0,
        level_of_detail: 0,
        memory_type: 0,
        host: ptr::null_mut(),
        device: 0,
        array: 0,
        reserved: ptr::null_mut(),
        pitch: 0,
        height: 0,
    };
    match side {
        ArrayCopySide::Host { ptr, row_pitch, rows } => {
            out.memory_type = memory_type::HOST;
            out.host = ptr.cast();
            [out.pitch, out.height] = pitch_and_height(row_pitch, rows, single_rows)?;
        }
        ArrayCopySide::Linear { ptr, row_pitch, rows } => {
            out.memory_type = memory_type::DEVICE;
            out.device = ptr.get();
            [out.pitch, out.height] = pitch_and_height(row_pitch, rows, single_rows)?;
        }
        ArrayCopySide::Array { raw, origin } => {
            out.memory_type = memory_type::ARRAY;
            out.array = raw.get();
            [out.x_in_bytes, out.y, out.z] = extent(origin)?;
        }
    }
    Ok(out)
}

/// What a texture samples.
pub(crate) fn resource(source: TextureSource) -> ResourceDesc {
    match source {
        TextureSource::Array(array) => ResourceDesc::new(resource_type::ARRAY, array.get()),
        TextureSource::MipmappedArray { raw, .. } => ResourceDesc::new(resource_type::MIPMAPPED_ARRAY, raw.get()),
    }
}

/// Encodes how a texture is sampled.
pub(crate) fn texture(source: TextureSource, desc: &TextureDesc) -> Result<sys::array::TextureDesc> {
    const OPERATION: &str = "cuTexObjectCreate";
    let unknown = || Error::unsupported(OPERATION, "CUDA has no such filter, address or read mode");
    // CUfilter_mode.
    let filter = |mode| match mode {
        FilterMode::Nearest => Ok(0),
        FilterMode::Linear => Ok(1),
        _ => Err(unknown()),
    };
    // CUaddress_mode.
    let address: c_uint = match desc.address {
        AddressMode::Wrap => 0,
        AddressMode::Clamp => 1,
        AddressMode::Mirror => 2,
        AddressMode::Border => 3,
        _ => return Err(unknown()),
    };
    let read = match desc.read {
        ReadMode::Element => texture_flag::READ_AS_INTEGER,
        ReadMode::NormalizedFloat => 0,
        ReadMode::Srgb => texture_flag::SRGB,
        _ => return Err(unknown()),
    };
    let last_level = match source {
        TextureSource::Array(_) => 0,
        TextureSource::MipmappedArray { levels, .. } => u16::try_from(levels.saturating_sub(1)).unwrap_or(u16::MAX),
    };
    let normalized = if desc.normalized_coordinates { texture_flag::NORMALIZED_COORDINATES } else { 0 };
    Ok(sys::array::TextureDesc {
        address_mode: [address; 3],
        filter_mode: filter(desc.filter)?,
        flags: read | normalized,
        max_anisotropy: 0,
        mipmap_filter_mode: filter(desc.mip_filter)?,
        mipmap_level_bias: 0.0,
        min_mipmap_level_clamp: 0.0,
        max_mipmap_level_clamp: last_level.into(),
        border_color: [0.0; 4],
        reserved: [0; 12],
    })
}

#[cfg(test)]
mod tests {
    use cudarc::driver::sys as cuda;
    use gpu_interop_core::DevicePtr;
    use gpu_interop_core::backend::{RawArray, RawMipmappedArray};

    use super::*;

    #[test]
    fn each_side_of_a_copy_is_encoded() {
        let mut byte = 0_u8;
        let array = ArrayCopySide::Array { raw: RawArray::new(7), origin: [8, 2, 3] };
        let linear = ArrayCopySide::Linear { ptr: DevicePtr::new(0x1000), row_pitch: 64, rows: 5 };
        let host = ArrayCopySide::Host { ptr: &raw mut byte, row_pitch: 20, rows: 3 };
        let encoded = copy(&ArrayCopy { target: linear, source: array, extent: [20, 3, 2] }).expect("encodes");
        assert_eq!((encoded.width_in_bytes, encoded.height, encoded.depth), (20, 3, 2));
        let (source, target) = (encoded.source, encoded.target);
        assert_eq!((source.memory_type, source.array), (memory_type::ARRAY, 7));
        assert_eq!((source.x_in_bytes, source.y, source.z), (8, 2, 3));
        assert_eq!((target.memory_type, target.device), (memory_type::DEVICE, 0x1000));
        assert_eq!((target.pitch, target.height), (64, 5));
        let encoded = copy(&ArrayCopy { target: array, source: host, extent: [20, 3, 2] }).expect("encodes");
        assert_eq!((encoded.source.memory_type, encoded.source.host.cast()), (memory_type::HOST, &raw mut byte));
        assert_eq!((encoded.source.pitch, encoded.source.height), (20, 3));
        assert_eq!(encoded.target.array, 7);
        let encoded = copy(&ArrayCopy { target: array, source: linear, extent: [20, 1, 2] }).expect("encodes");
        assert_eq!((encoded.source.pitch, encoded.source.height), (5 * 64, 1), "layers of one row");
    }

    #[test]
    fn sampling_is_encoded_with_the_numbers_of_the_header() {
        use cuda::{CUaddress_mode_enum as A, CUfilter_mode_enum as F};
        let texture = |desc: &TextureDesc| texture(TextureSource::Array(RawArray::new(1)), desc);
        let desc = TextureDesc::new();
        let encoded = texture(&desc).expect("encodes");
        assert_eq!(encoded.flags, cuda::CU_TRSF_READ_AS_INTEGER);
        assert_eq!(encoded.filter_mode, F::CU_TR_FILTER_MODE_POINT as u32);
        let modes = [
            (AddressMode::Wrap, A::CU_TR_ADDRESS_MODE_WRAP),
            (AddressMode::Clamp, A::CU_TR_ADDRESS_MODE_CLAMP),
            (AddressMode::Mirror, A::CU_TR_ADDRESS_MODE_MIRROR),
            (AddressMode::Border, A::CU_TR_ADDRESS_MODE_BORDER),
        ];
        for (ours, theirs) in modes {
            assert_eq!(texture(&desc.with_address(ours)).expect("encodes").address_mode, [theirs as u32; 3]);
        }
        let linear = desc.with_filter(FilterMode::Linear).with_normalized_coordinates(true).with_read(ReadMode::Srgb);
        let encoded = texture(&linear).expect("encodes");
        assert_eq!(encoded.flags, cuda::CU_TRSF_NORMALIZED_COORDINATES | cuda::CU_TRSF_SRGB);
        assert_eq!(encoded.filter_mode, F::CU_TR_FILTER_MODE_LINEAR as u32);
        assert_eq!(encoded.mipmap_filter_mode, F::CU_TR_FILTER_MODE_LINEAR as u32);
        let all = TextureSource::MipmappedArray { raw: RawMipmappedArray::new(1), levels: 5 };
        assert!((super::texture(all, &linear).expect("encodes").max_mipmap_level_clamp - 4.0).abs() < f32::EPSILON);
    }
}
