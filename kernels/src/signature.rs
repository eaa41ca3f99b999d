//! What each kernel takes and does. The order is that of `device/*`.

use std::ffi::CStr;

/// The type of a kernel's parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ParameterType {
    /// A device address of 32-bit words.
    Ptr,
    /// A 32-bit integer.
    U32,
    /// A 64-bit integer; surface and texture objects are such.
    U64,
}

impl ParameterType {
    /// Size and alignment, bytes.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::U32 => 4,
            Self::Ptr | Self::U64 => 8,
        }
    }
}

/// A parameter of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Parameter {
    /// Its name in the source.
    pub name: &'static str,
    /// Its type.
    pub ty: ParameterType,
}

/// A kernel: its name and parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signature {
    /// The name that a loaded module finds it by.
    pub name: &'static CStr,
    /// Its parameters, in order.
    pub parameters: &'static [Parameter],
    /// Whether only the PTX has it.
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

/// Writes [`pattern_word`](crate::pattern_word)`(seed, n)` to word `n`, for all `n < count`.
pub const FILL_PATTERN: Signature = signature!(c"fill_pattern", false, words: Ptr, count: U64, seed: U32);

/// Adds to `*mismatches` how many of `count` words differ from [`pattern_word`](crate::pattern_word)`(seed, n)`.
pub const VERIFY_PATTERN: Signature =
    signature!(c"verify_pattern", false, words: Ptr, count: U64, seed: U32, mismatches: Ptr);

/// Adds 1 to each of `count` words.
pub const INCREMENT: Signature = signature!(c"increment", false, words: Ptr, count: U64);

/// Fills one level of an image with the pattern, through a surface object. Its texels, tightly packed, are then the
/// pattern's bytes, as [`pattern_word`](crate::pattern_word) says.
///
/// * `object`: a `CUsurfObject` of the level;
/// * `shape`: a [`SurfaceShape`];
/// * `width`, `height`, `depth`: the level's extent in texels. `depth` counts slices, layers or faces; dimensions that
///   the shape lacks are 1. What lies outside of the surface is not written;
/// * `texel_size`: 1, 2, 4, 8 or 16 bytes. With another value, or an unknown shape, nothing is written.
///
/// The surface instructions take x in bytes and y and z in rows and slices; the kernel multiplies x by `texel_size`.
pub const SURFACE_FILL: Signature = signature!(
    c"surface_fill", true,
    object: U64, shape: U32, width: U32, height: U32, depth: U32, texel_size: U32, seed: U32
);

/// Adds to `*mismatches` how many texels of one level differ from what [`SURFACE_FILL`] writes with the same arguments.
/// Outside of the surface it reads 0; with an unknown shape or texel size every texel differs.
pub const SURFACE_VERIFY: Signature = signature!(
    c"surface_verify", true,
    object: U64, shape: U32, width: U32, height: U32, depth: U32, texel_size: U32, seed: U32, mismatches: Ptr
);

/// Fetches all texels of a two-dimensional texture object at integer coordinates, which the object's filter, address
/// mode and normalisation do not change.
///
/// Texel `(x, y)` goes to words `4 * (y * width + x)` and following of `channels`: four 32-bit channels, 16 bytes a
/// texel. Channels that the format lacks mean nothing. `texel_type` is a [`TexelType`]; with another value, zeros.
pub const TEXTURE_READ: Signature = signature!(
    c"texture_read", true,
    texture: U64, channels: Ptr, width: U32, height: U32, texel_type: U32
);

/// Fetches the texels of one level of a mipmapped, two-dimensional texture object, which must have normalised
/// coordinates (CUDA makes no other of a mipmapped array), point filters between texels and levels, and no level bias.
///
/// `width` and `height` are those of the level. The rest is as in [`TEXTURE_READ`].
pub const TEXTURE_READ_LEVEL: Signature = signature!(
    c"texture_read_level", true,
    texture: U64, channels: Ptr, width: U32, height: U32, texel_type: U32, level: U32
);

/// Every kernel.
pub const KERNELS: &[Signature] =
    &[FILL_PATTERN, VERIFY_PATTERN, INCREMENT, SURFACE_FILL, SURFACE_VERIFY, TEXTURE_READ, TEXTURE_READ_LEVEL];

/// The `shape` argument of [`SURFACE_FILL`] and [`SURFACE_VERIFY`].
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
    /// Layers of two dimensions; `depth` is their number. Cubes are such, six layers each, in the order +x, -x, +y, -y,
    /// +z, -z.
    D2Layered,
}

impl SurfaceShape {
    /// The argument.
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

/// The `texel_type` argument of [`TEXTURE_READ`] and [`TEXTURE_READ_LEVEL`]: what the texture object returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TexelType {
    /// 32-bit floats: float formats, and integers that the object reads as normalised.
    Float,
    /// Unsigned integers.
    Uint,
    /// Signed integers.
    Sint,
}

impl TexelType {
    /// The argument.
    #[must_use]
    pub const fn argument(self) -> u32 {
        match self {
            Self::Float => 0,
            Self::Uint => 1,
            Self::Sint => 2,
        }
    }
}
