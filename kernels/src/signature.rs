//! Signatures and effects of the kernels, in the order of `device/*`.

use std::ffi::CStr;

/// Type of a kernel parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ParameterType {
    /// Device address.
    Ptr,
    /// 32-bit integer.
    U32,
    /// 64-bit integer, including surface and texture objects.
    U64,
}

impl ParameterType {
    /// Size and alignment in bytes.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::U32 => 4,
            Self::Ptr | Self::U64 => 8,
        }
    }
}

/// Parameter of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Parameter {
    /// Name in the source.
    pub name: &'static str,
    /// Type.
    pub ty: ParameterType,
}

/// Name and parameters of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signature {
    /// Name of the kernel in a loaded module.
    pub name: &'static CStr,
    /// Parameters in order.
    pub parameters: &'static [Parameter],
    /// True if only the PTX contains the kernel.
    pub nvidia_only: bool,
}

macro_rules! signature {
    ($name:literal, $nvidia_only:literal, $($parameter:ident: $ty:ident),*) => {
        Signature {
            name: $name,
            parameters: &[$(Parameter { name: stringify!($parameter), ty: ParameterType::$ty }),*],
            nvidia_only: $nvidia_only,
        }
    };
}

/// Converts NV12 or P010 to RGBA or BGRA. The addresses are those of the planes; [`convert`](crate::convert) describes the
/// result. [`Conversion::yuv_to_rgba_numbers`](crate::convert::Conversion::yuv_to_rgba_numbers) are the other arguments.
///
/// * `luma_pitch`, `chroma_pitch`, `rgba_pitch`: bytes from one row to the next;
/// * `width`, `height`: of luma and RGBA, in texels;
/// * `sample_size`: 1 or 2 bytes;
/// * `siting`: 0 is left, 1 is centre;
/// * `blue_first`: 0 is RGBA, 1 is BGRA;
/// * the rest are coefficients of the sums, with 20 bits of fraction.
pub const YUV_TO_RGBA: Signature = signature!(
    c"yuv_to_rgba", false,
    luma: Ptr, chroma: Ptr, rgba: Ptr, luma_pitch: U32, chroma_pitch: U32, rgba_pitch: U32, width: U32, height: U32,
    sample_size: U32, siting: U32, blue_first: U32, luma_scale: U32, red_v: U32, green_u: U32, green_v: U32,
    blue_u: U32, red_base: U32, green_base: U32, blue_base: U32
);

/// Converts RGBA or BGRA to NV12 or P010. The arguments up to `siting` are those of [`YUV_TO_RGBA`], and
/// [`Conversion::rgba_to_yuv_numbers`](crate::convert::Conversion::rgba_to_yuv_numbers) are all after the addresses. The
/// coefficients are those of the first three bytes of a texel.
pub const RGBA_TO_YUV: Signature = signature!(
    c"rgba_to_yuv", false,
    luma: Ptr, chroma: Ptr, rgba: Ptr, luma_pitch: U32, chroma_pitch: U32, rgba_pitch: U32, width: U32, height: U32,
    sample_size: U32, siting: U32, luma_0: U32, luma_1: U32, luma_2: U32, u_0: U32, u_1: U32, u_2: U32, v_0: U32,
    v_1: U32, v_2: U32, luma_base: U32, chroma_base: U32
);

/// Writes [`pattern_word`](crate::pattern_word)`(seed, n)` to word `n`, for all `n < count`.
pub const FILL_PATTERN: Signature = signature!(c"fill_pattern", false, words: Ptr, count: U64, seed: U32);

/// Adds to `*mismatches` the number of the `count` words that differ from [`pattern_word`](crate::pattern_word)`(seed,
/// n)`.
pub const VERIFY_PATTERN: Signature =
    signature!(c"verify_pattern", false, words: Ptr, count: U64, seed: U32, mismatches: Ptr);

/// Adds 1 to each of `count` words.
pub const INCREMENT: Signature = signature!(c"increment", false, words: Ptr, count: U64);

/// Fills one level of an image with the pattern through a surface object. Its tightly packed texels are then the
/// pattern's bytes, as [`pattern_word`](crate::pattern_word) describes.
///
/// * `object`: a `CUsurfObject` of the level;
/// * `shape`: a [`SurfaceShape`];
/// * `width`, `height`, `depth`: the level's extent in texels. `depth` counts slices, layers or faces; dimensions that
///   the shape lacks are 1. Texels outside the surface are not written;
/// * `texel_size`: 1, 2, 4, 8 or 16 bytes. Other values and unknown shapes write nothing.
///
/// The surface instructions take x in bytes, y in rows and z in slices; the kernel multiplies x by `texel_size`.
pub const SURFACE_FILL: Signature = signature!(
    c"surface_fill", true,
    object: U64, shape: U32, width: U32, height: U32, depth: U32, texel_size: U32, seed: U32
);

/// Adds to `*mismatches` the number of texels of one level that differ from those [`SURFACE_FILL`] writes with the same
/// arguments. Reads outside the surface return 0; with an unknown shape or texel size every texel differs.
pub const SURFACE_VERIFY: Signature = signature!(
    c"surface_verify", true,
    object: U64, shape: U32, width: U32, height: U32, depth: U32, texel_size: U32, seed: U32, mismatches: Ptr
);

/// Fetches all texels of a two-dimensional texture object at integer coordinates, which the object's filter, address
/// mode and normalisation do not affect.
///
/// Texel `(x, y)` is written to `channels` from word `4 * (y * width + x)`: four 32-bit channels, 16 bytes per texel.
/// Channels that the format lacks are undefined. `texel_type` is a [`TexelType`]; other values write zeros.
pub const TEXTURE_READ: Signature = signature!(
    c"texture_read", true,
    texture: U64, channels: Ptr, width: U32, height: U32, texel_type: U32
);

/// Fetches the texels of one level of a mipmapped, two-dimensional texture object, which must have normalised
/// coordinates (the only kind that CUDA creates from a mipmapped array), point filters between texels and levels, and
/// no level bias.
///
/// `width` and `height` are those of the level. The other arguments are those of [`TEXTURE_READ`].
pub const TEXTURE_READ_LEVEL: Signature = signature!(
    c"texture_read_level", true,
    texture: U64, channels: Ptr, width: U32, height: U32, texel_type: U32, level: U32
);

/// All kernels.
pub const KERNELS: &[Signature] = &[
    YUV_TO_RGBA,
    RGBA_TO_YUV,
    FILL_PATTERN,
    VERIFY_PATTERN,
    INCREMENT,
    SURFACE_FILL,
    SURFACE_VERIFY,
    TEXTURE_READ,
    TEXTURE_READ_LEVEL,
];

/// `shape` argument of [`SURFACE_FILL`] and [`SURFACE_VERIFY`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SurfaceShape {
    /// One dimension; `height` and `depth` are 1.
    D1,
    /// Two dimensions; `depth` is 1.
    D2,
    /// Three dimensions.
    D3,
    /// Layers of one dimension; `height` is 1, `depth` the number of layers.
    D1Layered,
    /// Layers of two dimensions; `depth` is their number. A cube has six layers, in the order +x, -x, +y, -y, +z, -z.
    D2Layered,
}

impl SurfaceShape {
    /// Value of the argument.
    #[must_use]
    pub const fn argument(self) -> u32 {
        match self {
            Self::D1 => 0,
            Self::D2 => 1,
            Self::D3 => 2,
            Self::D1Layered => 3,
            Self::D2Layered => 4,
        }
    }
}

/// `texel_type` argument of [`TEXTURE_READ`] and [`TEXTURE_READ_LEVEL`]: the type that the texture object returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TexelType {
    /// 32-bit floats: float formats, and integers read as normalised.
    Float,
    /// Unsigned integers.
    Uint,
    /// Signed integers.
    Sint,
}

impl TexelType {
    /// Value of the argument.
    #[must_use]
    pub const fn argument(self) -> u32 {
        match self {
            Self::Float => 0,
            Self::Uint => 1,
            Self::Sint => 2,
        }
    }
}
