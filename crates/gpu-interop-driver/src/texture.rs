//! Descriptors of surfaces and textures, identical for both drivers. The tests of the backends compare layouts and
//! constants with the vendors' headers.

use std::ffi::{c_int, c_uint};

use gpu_interop_core::backend::TextureSource;
use gpu_interop_core::{AddressMode, Error, FilterMode, ReadMode, Result, TextureDesc as Sampling};

/// `CUresourcetype`, `HIPresourcetype`.
pub mod resource_type {
    use std::ffi::c_uint;

    /// Array: a single level.
    pub const ARRAY: c_uint = 0;
    /// Mipmapped array.
    pub const MIPMAPPED_ARRAY: c_uint = 1;
}

/// `CU_TRSF_*`; HIP's constants have the same values.
pub mod texture_flag {
    use std::ffi::c_uint;

    /// Integer elements are not normalised.
    pub const READ_AS_INTEGER: c_uint = 0x01;
    /// Coordinates range from 0 to 1.
    pub const NORMALIZED_COORDINATES: c_uint = 0x02;
    /// Elements are converted from sRGB.
    pub const SRGB: c_uint = 0x10;
}

/// `CUDA_RESOURCE_DESC`, `HIP_RESOURCE_DESC` of an array or a mipmapped array. The headers' union has 128 bytes,
/// aligned to 8. `hipResourceDesc`, from which HIP creates surfaces, is a prefix of it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ResourceDesc {
    /// [`resource_type`].
    pub kind: c_uint,
    /// Handle of the array.
    pub array: u64,
    /// 0.
    pub rest: [u64; 15],
    /// 0.
    pub flags: c_uint,
}

/// `CUDA_TEXTURE_DESC`, `HIP_TEXTURE_DESC`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct TextureDesc {
    /// `CUaddress_mode` of each dimension.
    pub address_mode: [c_uint; 3],
    /// `CUfilter_mode`.
    pub filter_mode: c_uint,
    /// [`texture_flag`].
    pub flags: c_uint,
    /// 0.
    pub max_anisotropy: c_uint,
    /// `CUfilter_mode`, between levels.
    pub mipmap_filter_mode: c_uint,
    /// 0.
    pub mipmap_level_bias: f32,
    /// First level.
    pub min_mipmap_level_clamp: f32,
    /// Last level.
    pub max_mipmap_level_clamp: f32,
    /// Colour outside the image.
    pub border_color: [f32; 4],
    /// 0.
    pub reserved: [c_int; 12],
}

/// Encodes the source of a surface or texture.
#[must_use]
pub fn resource(source: TextureSource) -> ResourceDesc {
    let desc = |kind, array: usize| ResourceDesc { kind, array: array as u64, rest: [0; 15], flags: 0 };
    match source {
        TextureSource::Array(array) => desc(resource_type::ARRAY, array.get()),
        TextureSource::MipmappedArray { raw, .. } => desc(resource_type::MIPMAPPED_ARRAY, raw.get()),
    }
}

/// Encodes the sampling of a texture.
///
/// # Errors
/// `Unsupported` for modes of a later version.
pub fn sampling(operation: &'static str, source: TextureSource, desc: &Sampling) -> Result<TextureDesc> {
    let unknown = || Error::unsupported(operation, "the driver has no such filter, address or read mode");
    // CUfilter_mode, HIPfilter_mode.
    let filter = |mode| match mode {
        FilterMode::Nearest => Ok(0),
        FilterMode::Linear => Ok(1),
        _ => Err(unknown()),
    };
    // CUaddress_mode, HIPaddress_mode.
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
    Ok(TextureDesc {
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
