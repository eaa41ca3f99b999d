//! Shape, format and usage of mipmapped arrays.

use std::fmt;

use bitflags::bitflags;

use crate::error::{Error, Result};

/// Type of one channel of a texel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ChannelType {
    /// 8-bit unsigned integer.
    Uint8,
    /// 16-bit unsigned integer.
    Uint16,
    /// 32-bit unsigned integer.
    Uint32,
    /// 8-bit signed integer.
    Sint8,
    /// 16-bit signed integer.
    Sint16,
    /// 32-bit signed integer.
    Sint32,
    /// 16-bit float.
    Float16,
    /// 32-bit float.
    Float32,
    /// 8 bits read as 0 to 1.
    Unorm8,
    /// 16 bits read as 0 to 1.
    Unorm16,
    /// 8 bits read as -1 to 1.
    Snorm8,
    /// 16 bits read as -1 to 1.
    Snorm16,
    /// Four channels packed into 32 bits, read as 0 to 1: ten bits each for red (the lowest), green and blue, two for
    /// alpha. Always four channels.
    Unorm1010102,
}

impl ChannelType {
    /// Width of one channel in bits; the widest one where they differ.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Self::Uint8 | Self::Sint8 | Self::Unorm8 | Self::Snorm8 => 8,
            Self::Uint16 | Self::Sint16 | Self::Float16 | Self::Unorm16 | Self::Snorm16 => 16,
            Self::Uint32 | Self::Sint32 | Self::Float32 => 32,
            Self::Unorm1010102 => 10,
        }
    }

    /// `true` if kernels read integers, unless a texture converts them.
    #[must_use]
    pub const fn is_integer(self) -> bool {
        matches!(self, Self::Uint8 | Self::Uint16 | Self::Uint32 | Self::Sint8 | Self::Sint16 | Self::Sint32)
    }

    /// `true` if the type has values below 0.
    #[must_use]
    pub const fn is_signed(self) -> bool {
        matches!(
            self,
            Self::Sint8 | Self::Sint16 | Self::Sint32 | Self::Snorm8 | Self::Snorm16 | Self::Float16 | Self::Float32
        )
    }
}

/// The format of a texel: 1, 2 or 4 channels of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(try_from = "RawFormat", into = "RawFormat")
)]
pub struct ArrayFormat {
    channel: ChannelType,
    channels: u8,
}

#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
struct RawFormat {
    channel: ChannelType,
    channels: u8,
}

impl ArrayFormat {
    /// A format of `channels` channels.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) unless `channels` is 1, 2 or 4: no driver
    /// has arrays of three channels. A packed type has four.
    pub fn new(channel: ChannelType, channels: u8) -> Result<Self> {
        if !matches!(channels, 1 | 2 | 4) {
            return Err(Error::invalid("ArrayFormat::new", "an array has 1, 2 or 4 channels")
                .with_context("channels", channels));
        }
        if channel == ChannelType::Unorm1010102 && channels != 4 {
            return Err(Error::invalid("ArrayFormat::new", "a packed type has 4 channels")
                .with_context("type", format_args!("{channel:?}"))
                .with_context("channels", channels));
        }
        Ok(Self { channel, channels })
    }

    /// A format of the table of formats, which is valid.
    pub(crate) const fn of_table(channel: ChannelType, channels: u8) -> Self {
        Self { channel, channels }
    }

    /// The type of each channel.
    #[must_use]
    pub const fn channel(self) -> ChannelType {
        self.channel
    }

    /// The number of channels: 1, 2 or 4.
    #[must_use]
    pub const fn channels(self) -> u8 {
        self.channels
    }

    /// Size of one texel in bytes.
    #[must_use]
    pub const fn texel_size(self) -> u32 {
        match self.channel {
            ChannelType::Unorm1010102 => 4,
            channel => channel.bits() / 8 * self.channels as u32,
        }
    }
}

#[cfg(feature = "serde")]
impl TryFrom<RawFormat> for ArrayFormat {
    type Error = Error;

    fn try_from(raw: RawFormat) -> Result<Self> {
        Self::new(raw.channel, raw.channels)
    }
}

#[cfg(feature = "serde")]
impl From<ArrayFormat> for RawFormat {
    fn from(format: ArrayFormat) -> Self {
        Self { channel: format.channel, channels: format.channels }
    }
}

impl fmt::Display for ArrayFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {:?}", self.channels, self.channel)
    }
}

/// Dimensions of level 0, in texels. The width of a cube is also its height.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "shape", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum ArrayShape {
    /// One dimension.
    D1 {
        /// Texels in a row.
        width: u64,
    },
    /// Layers of one dimension.
    D1Layered {
        /// Texels in a row.
        width: u64,
        /// Number of layers.
        layers: u64,
    },
    /// Two dimensions.
    D2 {
        /// Texels in a row.
        width: u64,
        /// Rows.
        height: u64,
    },
    /// Layers of two dimensions.
    D2Layered {
        /// Texels in a row.
        width: u64,
        /// Rows.
        height: u64,
        /// Number of layers.
        layers: u64,
    },
    /// Three dimensions.
    D3 {
        /// Texels in a row.
        width: u64,
        /// Rows.
        height: u64,
        /// Slices.
        depth: u64,
    },
    /// Six square faces.
    Cube {
        /// Texels in a row, and rows.
        width: u64,
    },
    /// Several cubes.
    CubeLayered {
        /// Texels in a row, and rows.
        width: u64,
        /// Number of cubes, six faces each.
        cubes: u64,
    },
}

impl fmt::Display for ArrayShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::D1 { width } => write!(f, "1D, {width}"),
            Self::D1Layered { width, layers } => write!(f, "1D layered, {width}, {layers} layers"),
            Self::D2 { width, height } => write!(f, "2D, {width} x {height}"),
            Self::D2Layered { width, height, layers } => write!(f, "2D layered, {width} x {height}, {layers} layers"),
            Self::D3 { width, height, depth } => write!(f, "3D, {width} x {height} x {depth}"),
            Self::Cube { width } => write!(f, "cube, {width} x {width}"),
            Self::CubeLayered { width, cubes } => write!(f, "cube layered, {width} x {width}, {cubes} cubes"),
        }
    }
}

impl ArrayShape {
    /// Width, height and depth in the form of the drivers' descriptors: unused dimensions are 0, and the depth of a
    /// layered array counts layers (faces, for cubes).
    #[must_use]
    pub const fn driver_extent(self) -> [u64; 3] {
        match self {
            Self::D1 { width } => [width, 0, 0],
            Self::D1Layered { width, layers } => [width, 0, layers],
            Self::D2 { width, height } => [width, height, 0],
            Self::D2Layered { width, height, layers } => [width, height, layers],
            Self::D3 { width, height, depth } => [width, height, depth],
            Self::Cube { width } => [width, width, 6],
            Self::CubeLayered { width, cubes } => [width, width, cubes.saturating_mul(6)],
        }
    }

    /// Texels of a mip level in each dimension, at least 1: each level halves width, height and depth. The number of
    /// layers or faces, the third dimension of the other shapes, is constant.
    #[must_use]
    pub fn level_extent(self, level: u32) -> [u64; 3] {
        let [width, height, depth] = self.driver_extent();
        let halved = |n: u64| n.checked_shr(level).unwrap_or(0).max(1);
        let depth = if matches!(self, Self::D3 { .. }) { halved(depth) } else { depth.max(1) };
        [halved(width), halved(height), depth]
    }

    /// Dimensions given by the application, each of which must be at least 1.
    fn named_dimensions(self) -> [u64; 3] {
        match self {
            Self::D1 { width } | Self::Cube { width } => [width, 1, 1],
            Self::D1Layered { width, layers: other } | Self::CubeLayered { width, cubes: other } => [width, other, 1],
            Self::D2 { width, height } => [width, height, 1],
            Self::D2Layered { width, height, layers: depth } | Self::D3 { width, height, depth } => {
                [width, height, depth]
            }
        }
    }

    /// Maximum number of mip levels for this shape: each level halves the largest dimension, and the last one is a
    /// single texel.
    #[must_use]
    pub fn max_levels(self) -> u32 {
        let largest = match self {
            Self::D1 { width } | Self::D1Layered { width, .. } => width,
            Self::D2 { width, height } | Self::D2Layered { width, height, .. } => width.max(height),
            Self::D3 { width, height, depth } => width.max(height).max(depth),
            Self::Cube { width } | Self::CubeLayered { width, .. } => width,
        };
        u64::BITS - largest.leading_zeros()
    }
}

bitflags! {
    /// Uses of an array beyond sampling.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    pub struct ArrayUsage: u32 {
        /// Kernels read and write it as a surface.
        const SURFACE_LOAD_STORE = 1;
        /// Kernels gather from it. Valid only for two dimensions without layers ([`ArrayShape::D2`]).
        const TEXTURE_GATHER = 2;
        /// The exporter may render to it (`VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT`). CUDA requires the flag; HIP has none,
        /// and the HIP backend drops it.
        const COLOR_ATTACHMENT = 4;
    }
}

impl fmt::Display for ArrayUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() { f.write_str("sampled") } else { bitflags::parser::to_writer(self, f) }
    }
}

/// A mipmapped array inside imported memory.
#[doc(alias(
    "CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC",
    "CUDA_ARRAY3D_DESCRIPTOR",
    "cudaExternalMemoryMipmappedArrayDesc"
))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct MipmappedArrayDesc {
    /// Offset of the image in the imported memory, in bytes.
    pub offset: u64,
    /// Dimensions of level 0.
    pub shape: ArrayShape,
    /// Texel format.
    pub format: ArrayFormat,
    /// Number of mip levels, at least 1.
    pub levels: u32,
    /// Number of mip levels in the memory layout of each layer, if that is not [`Self::levels`].
    ///
    /// NVIDIA's Vulkan driver (580) lays out the layers of an image with two or more levels as if it had the maximum
    /// number of levels for its size; the CUDA driver computes the layout from the number it is given. Without this
    /// field, every layer but the first is read from the wrong offset. The allocation includes the memory of the unused
    /// levels.
    pub layout_levels: Option<u32>,
    /// Uses beyond sampling.
    pub usage: ArrayUsage,
}

impl fmt::Display for MipmappedArrayDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, shape, format, levels, layout_levels, usage } = self;
        let plural = if *levels == 1 { "" } else { "s" };
        write!(f, "{shape}, {format}, {levels} mip level{plural}")?;
        if let Some(layout_levels) = layout_levels {
            write!(f, " (layout of {layout_levels})")?;
        }
        write!(f, ", offset {offset}, usage {usage}")
    }
}

impl MipmappedArrayDesc {
    /// A single-level array at offset 0 that is only sampled.
    #[must_use]
    pub fn new(shape: ArrayShape, format: ArrayFormat) -> Self {
        Self { offset: 0, shape, format, levels: 1, layout_levels: None, usage: ArrayUsage::empty() }
    }

    /// Number of levels passed to the driver: that of the memory layout.
    #[must_use]
    pub fn driver_levels(&self) -> u32 {
        self.layout_levels.unwrap_or(self.levels)
    }

    /// Validates the description without a driver: dimensions of 0, no levels or more than the dimensions allow,
    /// unknown usage bits, a usage that the shape does not support, texels that exceed the memory. CUDA's driver has
    /// crashed on such requests.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) with the value and its bound.
    pub fn validate(&self, memory_size: u64) -> Result<()> {
        const OPERATION: &str = "ExternalMemory::map_mipmapped_array";
        if self.shape.named_dimensions().contains(&0) {
            return Err(
                Error::invalid(OPERATION, "every dimension must be at least 1").with_context("shape", self.shape)
            );
        }
        let max_levels = self.shape.max_levels();
        if self.levels == 0 || self.levels > max_levels {
            return Err(Error::invalid(OPERATION, format!("the number of mip levels must be from 1 to {max_levels}"))
                .with_context("levels", self.levels)
                .with_context("shape", self.shape));
        }
        if let Some(layout_levels) = self.layout_levels
            && !(self.levels..=max_levels).contains(&layout_levels)
        {
            return Err(Error::invalid(
                OPERATION,
                format!("the number of levels in the layout must be from {} to {max_levels}", self.levels),
            )
            .with_context("layout levels", layout_levels)
            .with_context("shape", self.shape));
        }
        if ArrayUsage::from_bits(self.usage.bits()).is_none() {
            return Err(Error::invalid(OPERATION, "the usage contains unknown bits")
                .with_context("usage", format_args!("{:#x}", self.usage.bits())));
        }
        if self.usage.contains(ArrayUsage::TEXTURE_GATHER) && !matches!(self.shape, ArrayShape::D2 { .. }) {
            return Err(Error::invalid(OPERATION, "texture gather requires two dimensions without layers")
                .with_context("shape", self.shape));
        }
        if self.offset >= memory_size {
            return Err(Error::invalid(OPERATION, "the array starts past the end of the memory")
                .with_context("offset", self.offset)
                .with_context("memory size", memory_size));
        }
        // Lower bound: tightly packed texels of all levels.
        let size = (0..self.levels).try_fold(0_u64, |sum, level| {
            let texels = self.shape.level_extent(level).into_iter().try_fold(1_u64, u64::checked_mul)?;
            sum.checked_add(texels.checked_mul(u64::from(self.format.texel_size()))?)
        });
        let end = size.and_then(|size| size.checked_add(self.offset));
        if end.is_none_or(|end| end > memory_size) {
            return Err(Error::invalid(OPERATION, "the texels of all levels exceed the memory after the offset")
                .with_context("offset", self.offset)
                .with_context("shape", self.shape)
                .with_context("levels", self.levels)
                .with_context("format", self.format)
                .with_context("memory size", memory_size));
        }
        Ok(())
    }
}

setters! {
    MipmappedArrayDesc {
        /// Sets where the image starts in the imported memory, in bytes.
        with_offset => offset: u64;
        /// Sets the number of mip levels.
        with_levels => levels: u32;
        /// Sets the number of mip levels that the memory is laid out for.
        with_layout_levels => layout_levels: impl Into<Option<u32>>;
        /// Sets the usage.
        with_usage => usage: ArrayUsage;
        /// Sets the dimensions of level 0.
        with_shape => shape: ArrayShape;
        /// Sets the texel format.
        with_format => format: ArrayFormat;
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    fn rgba8() -> ArrayFormat {
        ArrayFormat::new(ChannelType::Uint8, 4).expect("four channels")
    }

    #[test]
    fn three_channels_are_rejected_also_from_json() {
        for channels in [0, 3, 5, 255] {
            assert!(ArrayFormat::new(ChannelType::Uint8, channels).is_err(), "{channels}");
        }
        assert!(serde_json::from_str::<ArrayFormat>(r#"{"channel":"uint8","channels":3}"#).is_err());
        assert!(serde_json::from_str::<ArrayFormat>(r#"{"channel":"uint8","channels":2}"#).is_ok());
    }

    #[test]
    fn texels_of_a_packed_type_have_four_channels_and_four_bytes() {
        for channels in [1, 2] {
            assert!(ArrayFormat::new(ChannelType::Unorm1010102, channels).is_err(), "{channels}");
        }
        let packed = ArrayFormat::new(ChannelType::Unorm1010102, 4).expect("four channels");
        assert_eq!((packed.channels(), packed.texel_size()), (4, 4));
        assert_eq!(rgba8().texel_size(), 4);
        assert_eq!(ArrayFormat::new(ChannelType::Float16, 2).expect("two channels").texel_size(), 4);
        assert_eq!(ArrayFormat::new(ChannelType::Sint32, 4).expect("four channels").texel_size(), 16);
    }

    #[test]
    fn levels_are_bounded_by_the_largest_dimension() {
        let desc = |levels| MipmappedArrayDesc {
            levels,
            ..MipmappedArrayDesc::new(ArrayShape::D2 { width: 256, height: 128 }, rgba8())
        };
        for levels in 1..=9 {
            desc(levels).validate(1 << 20).expect("a legal number of levels");
        }
        for levels in [0, 10, 20, u32::MAX] {
            assert!(desc(levels).validate(1 << 20).is_err(), "{levels}");
        }
        // Layers do not shrink from level to level.
        assert_eq!(ArrayShape::D1Layered { width: 1, layers: 64 }.max_levels(), 1);
    }

    #[test]
    fn layout_levels_are_between_the_levels_and_the_maximum() {
        let shape = ArrayShape::D2Layered { width: 64, height: 32, layers: 2 };
        let desc =
            |layout_levels| MipmappedArrayDesc { levels: 3, layout_levels, ..MipmappedArrayDesc::new(shape, rgba8()) };
        for (layout_levels, driver_levels) in [(None, 3), (Some(3), 3), (Some(7), 7)] {
            desc(layout_levels).validate(1 << 20).expect("a legal layout");
            assert_eq!(desc(layout_levels).driver_levels(), driver_levels);
        }
        for layout_levels in [0, 2, 8, u32::MAX] {
            assert!(desc(Some(layout_levels)).validate(1 << 20).is_err(), "{layout_levels}");
        }
    }

    #[test]
    fn levels_halve_all_dimensions_but_layers() {
        let extents = |shape: ArrayShape| [0, 1, 3, 64].map(|level| shape.level_extent(level));
        assert_eq!(extents(ArrayShape::D1 { width: 5 }), [[5, 1, 1], [2, 1, 1], [1, 1, 1], [1, 1, 1]]);
        assert_eq!(
            extents(ArrayShape::D1Layered { width: 16, layers: 3 }),
            [[16, 1, 3], [8, 1, 3], [2, 1, 3], [1, 1, 3]]
        );
        assert_eq!(
            extents(ArrayShape::D2Layered { width: 16, height: 4, layers: 3 }),
            [[16, 4, 3], [8, 2, 3], [2, 1, 3], [1, 1, 3]]
        );
        assert_eq!(
            extents(ArrayShape::D3 { width: 16, height: 4, depth: 32 }),
            [[16, 4, 32], [8, 2, 16], [2, 1, 4], [1, 1, 1]]
        );
        assert_eq!(
            extents(ArrayShape::CubeLayered { width: 8, cubes: 2 }),
            [[8, 8, 12], [4, 4, 12], [1, 1, 12], [1, 1, 12]]
        );
    }

    #[test]
    fn zero_dimensions_and_overflow_are_rejected() {
        let validate = |shape| MipmappedArrayDesc::new(shape, rgba8()).validate(1 << 30);
        assert!(validate(ArrayShape::D2 { width: 0, height: 1 }).is_err());
        assert!(validate(ArrayShape::D2 { width: 1, height: 0 }).is_err());
        assert!(validate(ArrayShape::CubeLayered { width: 4, cubes: 0 }).is_err());
        assert!(validate(ArrayShape::D3 { width: u64::MAX, height: u64::MAX, depth: 2 }).is_err());
        assert!(validate(ArrayShape::D3 { width: 64, height: 64, depth: 64 }).is_ok());
    }

    #[test]
    fn all_levels_must_fit() {
        let desc = MipmappedArrayDesc {
            levels: 3,
            ..MipmappedArrayDesc::new(ArrayShape::D2Layered { width: 16, height: 16, layers: 2 }, rgba8())
        };
        let size = 2 * 4 * (16 * 16 + 8 * 8 + 4 * 4);
        assert!(desc.validate(size).is_ok());
        assert!(desc.validate(size - 1).is_err());
        assert!(desc.validate(2 * 4 * 16 * 16).is_err(), "level 0 alone fits");
    }

    #[test]
    fn an_array_must_fit_behind_its_offset() {
        let at = |offset| MipmappedArrayDesc {
            offset,
            ..MipmappedArrayDesc::new(ArrayShape::D2 { width: 16, height: 16 }, rgba8())
        };
        assert!(at(1024).validate(2048).is_ok());
        assert!(at(1025).validate(2048).is_err());
        assert!(at(2048).validate(2048).is_err());
        assert!(at(u64::MAX).validate(u64::MAX).is_err());
    }
}
