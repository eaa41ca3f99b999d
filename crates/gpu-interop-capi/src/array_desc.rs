//! Descriptions of mipmapped arrays.

use gpu_interop::{ArrayFormat, ArrayShape, ArrayUsage, ChannelType, Error, MipmappedArrayDesc, Result};

/// Shape: one dimension.
pub const GPI_SHAPE_1D: i32 = 1;
/// Shape: layers of one dimension; `depth` is their number.
pub const GPI_SHAPE_1D_LAYERED: i32 = 2;
/// Shape: two dimensions.
pub const GPI_SHAPE_2D: i32 = 3;
/// Shape: layers of two dimensions; `depth` is their number.
pub const GPI_SHAPE_2D_LAYERED: i32 = 4;
/// Shape: three dimensions.
pub const GPI_SHAPE_3D: i32 = 5;
/// Shape: six square faces of `width`.
pub const GPI_SHAPE_CUBE: i32 = 6;
/// Shape: several cubes; `depth` is their number.
pub const GPI_SHAPE_CUBE_LAYERED: i32 = 7;

/// Channel: 8-bit unsigned integer.
pub const GPI_CHANNEL_UINT8: i32 = 1;
/// Channel: 16-bit unsigned integer.
pub const GPI_CHANNEL_UINT16: i32 = 2;
/// Channel: 32-bit unsigned integer.
pub const GPI_CHANNEL_UINT32: i32 = 3;
/// Channel: 8-bit signed integer.
pub const GPI_CHANNEL_SINT8: i32 = 4;
/// Channel: 16-bit signed integer.
pub const GPI_CHANNEL_SINT16: i32 = 5;
/// Channel: 32-bit signed integer.
pub const GPI_CHANNEL_SINT32: i32 = 6;
/// Channel: 16-bit float.
pub const GPI_CHANNEL_FLOAT16: i32 = 7;
/// Channel: 32-bit float.
pub const GPI_CHANNEL_FLOAT32: i32 = 8;
/// Channel: 8 bits read as 0 to 1.
pub const GPI_CHANNEL_UNORM8: i32 = 9;
/// Channel: 16 bits read as 0 to 1.
pub const GPI_CHANNEL_UNORM16: i32 = 10;
/// Channel: 8 bits read as -1 to 1.
pub const GPI_CHANNEL_SNORM8: i32 = 11;
/// Channel: 16 bits read as -1 to 1.
pub const GPI_CHANNEL_SNORM16: i32 = 12;
/// Channel: four channels in 32 bits, read as 0 to 1: ten bits each for red (the lowest), green and blue, two for alpha.
pub const GPI_CHANNEL_UNORM_10_10_10_2: i32 = 13;

/// Usage of an array: kernels read and write it as a surface.
pub const GPI_ARRAY_SURFACE_LOAD_STORE: u32 = 1;
/// Usage of an array: kernels gather from it.
pub const GPI_ARRAY_TEXTURE_GATHER: u32 = 2;
/// Usage of an array: the exporter may render to it (`VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT`).
pub const GPI_ARRAY_COLOR_ATTACHMENT: u32 = 4;

/// An image in imported memory. It must be the exporter's image, with all of its mip levels.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct gpi_array_desc {
    /// Offset of the image in the imported memory, in bytes.
    pub offset: u64,
    /// Texels in a row of level 0.
    pub width: u64,
    /// Rows of level 0, for shapes of two and three dimensions; else 0.
    pub height: u64,
    /// Slices of three dimensions, or the number of layers or cubes; else 0.
    pub depth: u64,
    /// A `GPI_SHAPE_*`.
    pub shape: i32,
    /// A `GPI_CHANNEL_*`.
    pub channel: i32,
    /// Number of channels: 1, 2 or 4.
    pub channels: u32,
    /// Number of mip levels, at least 1.
    pub levels: u32,
    /// Number of levels in the memory layout of each layer, if that is not `levels`; else 0. The functions that export set
    /// it where NVIDIA's driver needs it.
    pub layout_levels: u32,
    /// `GPI_ARRAY_*`, beyond sampling.
    pub usage: u32,
}

const CHANNELS: [(i32, ChannelType); 13] = [
    (GPI_CHANNEL_UINT8, ChannelType::Uint8),
    (GPI_CHANNEL_UINT16, ChannelType::Uint16),
    (GPI_CHANNEL_UINT32, ChannelType::Uint32),
    (GPI_CHANNEL_SINT8, ChannelType::Sint8),
    (GPI_CHANNEL_SINT16, ChannelType::Sint16),
    (GPI_CHANNEL_SINT32, ChannelType::Sint32),
    (GPI_CHANNEL_FLOAT16, ChannelType::Float16),
    (GPI_CHANNEL_FLOAT32, ChannelType::Float32),
    (GPI_CHANNEL_UNORM8, ChannelType::Unorm8),
    (GPI_CHANNEL_UNORM16, ChannelType::Unorm16),
    (GPI_CHANNEL_SNORM8, ChannelType::Snorm8),
    (GPI_CHANNEL_SNORM16, ChannelType::Snorm16),
    (GPI_CHANNEL_UNORM_10_10_10_2, ChannelType::Unorm1010102),
];

impl gpi_array_desc {
    /// No image.
    pub(crate) const EMPTY: Self = Self {
        offset: 0,
        width: 0,
        height: 0,
        depth: 0,
        shape: 0,
        channel: 0,
        channels: 0,
        levels: 0,
        layout_levels: 0,
        usage: 0,
    };

    /// Converts the description. Mapping validates it further.
    pub(crate) fn desc(&self, operation: &'static str) -> Result<MipmappedArrayDesc> {
        let invalid = |message: &str, value: i32| Error::invalid(operation, message).with_context("value", value);
        let Self { width, height, depth, .. } = *self;
        let shape = match self.shape {
            GPI_SHAPE_1D => ArrayShape::D1 { width },
            GPI_SHAPE_1D_LAYERED => ArrayShape::D1Layered { width, layers: depth },
            GPI_SHAPE_2D => ArrayShape::D2 { width, height },
            GPI_SHAPE_2D_LAYERED => ArrayShape::D2Layered { width, height, layers: depth },
            GPI_SHAPE_3D => ArrayShape::D3 { width, height, depth },
            GPI_SHAPE_CUBE => ArrayShape::Cube { width },
            GPI_SHAPE_CUBE_LAYERED => ArrayShape::CubeLayered { width, cubes: depth },
            other => return Err(invalid("unknown shape; pass a GPI_SHAPE_*", other)),
        };
        let channel = CHANNELS.iter().find(|(number, _)| *number == self.channel).map(|(_, channel)| *channel);
        let channel = channel.ok_or_else(|| invalid("unknown channel; pass a GPI_CHANNEL_*", self.channel))?;
        let format = ArrayFormat::new(channel, u8::try_from(self.channels).unwrap_or(0))?;
        Ok(MipmappedArrayDesc::new(shape, format)
            .with_offset(self.offset)
            .with_levels(self.levels)
            .with_layout_levels((self.layout_levels != 0).then_some(self.layout_levels))
            .with_usage(ArrayUsage::from_bits_retain(self.usage)))
    }
}

impl From<&MipmappedArrayDesc> for gpi_array_desc {
    fn from(desc: &MipmappedArrayDesc) -> Self {
        let (shape, [width, height, depth]) = match desc.shape {
            ArrayShape::D1 { width } => (GPI_SHAPE_1D, [width, 0, 0]),
            ArrayShape::D1Layered { width, layers } => (GPI_SHAPE_1D_LAYERED, [width, 0, layers]),
            ArrayShape::D2 { width, height } => (GPI_SHAPE_2D, [width, height, 0]),
            ArrayShape::D2Layered { width, height, layers } => (GPI_SHAPE_2D_LAYERED, [width, height, layers]),
            ArrayShape::D3 { width, height, depth } => (GPI_SHAPE_3D, [width, height, depth]),
            ArrayShape::Cube { width } => (GPI_SHAPE_CUBE, [width, 0, 0]),
            ArrayShape::CubeLayered { width, cubes } => (GPI_SHAPE_CUBE_LAYERED, [width, 0, cubes]),
            other => (0, other.driver_extent()),
        };
        let channel = desc.format.channel();
        Self {
            offset: desc.offset,
            width,
            height,
            depth,
            shape,
            channel: CHANNELS.iter().find(|(_, known)| *known == channel).map_or(0, |(number, _)| *number),
            channels: desc.format.channels().into(),
            levels: desc.levels,
            layout_levels: desc.layout_levels.unwrap_or(0),
            usage: desc.usage.bits(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_round_trip() {
        let (width, height, depth) = (8, 4, 2);
        let shapes = [
            ArrayShape::D1 { width },
            ArrayShape::D1Layered { width, layers: depth },
            ArrayShape::D2 { width, height },
            ArrayShape::D2Layered { width, height, layers: depth },
            ArrayShape::D3 { width, height, depth },
            ArrayShape::Cube { width },
            ArrayShape::CubeLayered { width, cubes: depth },
        ];
        for (_, channel) in CHANNELS {
            let format = ArrayFormat::new(channel, 4).expect("four channels");
            for shape in shapes {
                let desc = MipmappedArrayDesc::new(shape, format).with_offset(16).with_levels(2);
                let desc = desc.with_layout_levels(4).with_usage(ArrayUsage::COLOR_ATTACHMENT);
                assert_eq!(gpi_array_desc::from(&desc).desc("test").expect("valid"), desc);
            }
        }
        assert!(gpi_array_desc::EMPTY.desc("test").is_err());
    }
}
