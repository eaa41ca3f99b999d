//! Descriptions of the images of exporters.

use std::fmt;

use gpu_interop::vulkan::{OwnedImage, TexelFormat};
use gpu_interop::{ArrayShape, ArrayUsage, MemoryImport, MipmappedArrayDesc};

use super::Placement;
use crate::outcome::Verdict;

/// Tiling of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tiling {
    /// Layout chosen by the exporter's driver; importers map an array.
    Optimal,
    /// Row by row, with padding; importers map a buffer.
    Linear,
}

/// The description of a requested object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageSpec {
    /// Dimensions of level 0.
    pub shape: ArrayShape,
    /// Texel format.
    pub format: TexelFormat,
    /// Number of mip levels, at least 1.
    pub levels: u32,
    /// Tiling.
    pub tiling: Tiling,
    /// The exporter's usage, in addition to copies and sampling.
    pub usage: ArrayUsage,
    /// `true` if it is a dedicated allocation.
    pub dedicated: bool,
    /// Placement.
    pub placement: Placement,
    /// Minimum number of bytes before the image in its memory.
    pub offset: u64,
}

impl ImageSpec {
    /// An image of one level and optimal tiling that is device-local and not dedicated.
    #[must_use]
    pub fn new(shape: ArrayShape, format: TexelFormat) -> Self {
        Self {
            shape,
            format,
            levels: 1,
            tiling: Tiling::Optimal,
            usage: ArrayUsage::empty(),
            dedicated: false,
            placement: Placement::DeviceLocal,
            offset: 0,
        }
    }

    /// Number of layers; six for each cube, and one for shapes without layers.
    #[must_use]
    pub fn layers(&self) -> u32 {
        match self.shape {
            ArrayShape::D3 { .. } => 1,
            shape => u32::try_from(shape.level_extent(0)[2]).unwrap_or(u32::MAX),
        }
    }

    /// Every layer of every level, as (level, layer).
    pub fn subresources(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let layers = self.layers();
        (0..self.levels).flat_map(move |level| (0..layers).map(move |layer| (level, layer)))
    }

    /// Width, height and slices of one layer of a level, texels.
    #[must_use]
    pub fn layer_extent(&self, level: u32) -> [u64; 3] {
        let [width, height, depth] = self.shape.level_extent(level);
        [width, height, if matches!(self.shape, ArrayShape::D3 { .. }) { depth } else { 1 }]
    }

    /// Size of a row of a level, tightly packed, bytes.
    #[must_use]
    pub fn row_size(&self, level: u32) -> u64 {
        self.layer_extent(level)[0] * u64::from(self.format.array.texel_size())
    }

    /// Size of one layer of a level, tightly packed, bytes.
    #[must_use]
    pub fn layer_size(&self, level: u32) -> u64 {
        let [_, height, slices] = self.layer_extent(level);
        self.row_size(level) * height * slices
    }

    /// Size of all layers of a level, tightly packed, bytes.
    #[must_use]
    pub fn level_size(&self, level: u32) -> u64 {
        self.layer_size(level) * u64::from(self.layers())
    }
}

impl fmt::Display for ImageSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TexelFormat { array, order, encoding } = self.format;
        write!(f, "{:?}, {array} {order:?} {encoding:?}, levels: {}, {:?}", self.shape, self.levels, self.tiling)
    }
}

/// Layout of one layer of one level of a linear image in its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowLayout {
    /// Offset of the first row, bytes.
    pub offset: u64,
    /// Row pitch, bytes.
    pub row_pitch: u64,
    /// Slice pitch, bytes; unused with a single slice.
    pub slice_pitch: u64,
    /// Size of a row without padding, bytes.
    pub row_size: u64,
    /// Rows of a slice.
    pub rows: u64,
    /// Number of slices.
    pub slices: u64,
}

impl RowLayout {
    /// Every row: its offset in the memory, and its range in the tightly packed texels, bytes.
    pub fn places(self) -> impl Iterator<Item = (u64, u64)> {
        let places = (0..self.slices).flat_map(move |slice| (0..self.rows).map(move |row| (slice, row)));
        places.map(move |(slice, row)| {
            let place = self.offset + slice * self.slice_pitch + row * self.row_pitch;
            (place, (slice * self.rows + row) * self.row_size)
        })
    }
}

/// An image allocated by the exporter. Between calls the importer owns it, also before the first call.
pub trait ExportedImage: Send + Sync {
    /// The requested image.
    fn spec(&self) -> &ImageSpec;

    /// Exports its memory as a new handle with the allocation's size, dedicated flag and exporter.
    ///
    /// # Errors
    /// If the exporter's driver fails.
    fn import_request(&self) -> Verdict<MemoryImport>;

    /// The description for an importer.
    ///
    /// # Errors
    /// If the tiling is linear.
    fn array_desc(&self) -> Verdict<MipmappedArrayDesc>;

    /// The layout of one layer of one level for an importer.
    ///
    /// # Errors
    /// If the tiling is optimal, or the level or layer is missing.
    fn row_layout(&self, level: u32, layer: u32) -> Verdict<RowLayout>;

    /// Writes all texels of one layer of one level from tightly packed data, and blocks until completion.
    ///
    /// # Errors
    /// If `data` has not their size, or the exporter's driver fails.
    fn write(&self, level: u32, layer: u32, data: &[u8]) -> Verdict;

    /// Reads all texels of one layer of one level, tightly packed.
    ///
    /// # Errors
    /// If `data` has not their size, or the exporter's driver fails.
    fn read(&self, level: u32, layer: u32, data: &mut [u8]) -> Verdict;

    /// Sets every texel of an image of floats or normalised integers to a colour: red, green, blue, alpha.
    ///
    /// # Errors
    /// If the exporter's driver fails.
    fn clear(&self, color: [f32; 4]) -> Verdict;

    /// Vulkan's image, for commands that a scenario records itself; `None` for other exporters. The importer owns it, in the
    /// layout `GENERAL`.
    fn vulkan(&self) -> Option<&OwnedImage> {
        None
    }
}

#[cfg(test)]
mod tests {
    use gpu_interop::vulkan::{ChannelOrder, ColorEncoding};
    use gpu_interop::{ArrayFormat, ChannelType};

    use super::*;

    fn spec(shape: ArrayShape, channel: ChannelType, channels: u8) -> ImageSpec {
        let array = ArrayFormat::new(channel, channels).expect("a format");
        let format = TexelFormat { array, order: ChannelOrder::Rgba, encoding: ColorEncoding::Linear };
        ImageSpec { levels: shape.max_levels(), ..ImageSpec::new(shape, format) }
    }

    #[test]
    fn only_layers_are_layers() {
        let layers = |shape| spec(shape, ChannelType::Uint8, 1).layers();
        assert_eq!(layers(ArrayShape::D1 { width: 9 }), 1);
        assert_eq!(layers(ArrayShape::D1Layered { width: 9, layers: 5 }), 5);
        assert_eq!(layers(ArrayShape::D2 { width: 9, height: 7 }), 1);
        assert_eq!(layers(ArrayShape::D2Layered { width: 9, height: 7, layers: 5 }), 5);
        assert_eq!(layers(ArrayShape::D3 { width: 9, height: 7, depth: 5 }), 1);
        assert_eq!(layers(ArrayShape::Cube { width: 9 }), 6);
        assert_eq!(layers(ArrayShape::CubeLayered { width: 9, cubes: 2 }), 12);
    }

    #[test]
    fn layers_and_slices_are_counted_once() {
        let volume = spec(ArrayShape::D3 { width: 9, height: 7, depth: 5 }, ChannelType::Uint16, 2);
        assert_eq!((volume.row_size(0), volume.layer_size(0), volume.level_size(0)), (36, 1260, 1260));
        assert_eq!((volume.row_size(1), volume.layer_size(1), volume.level_size(1)), (16, 96, 96));
        let layered = spec(ArrayShape::D2Layered { width: 9, height: 7, layers: 5 }, ChannelType::Uint16, 2);
        assert_eq!((layered.layer_size(0), layered.level_size(0)), (252, 1260));
        assert_eq!((layered.layer_size(1), layered.level_size(1)), (48, 240));
        let lines = spec(ArrayShape::D1Layered { width: 9, layers: 5 }, ChannelType::Uint8, 1);
        assert_eq!((lines.layer_extent(1), lines.layer_size(1), lines.level_size(1)), ([4, 1, 1], 4, 20));
        assert_eq!(lines.subresources().count(), 4 * 5);
        assert_eq!(lines.subresources().last(), Some((3, 4)));
    }

    #[test]
    fn every_row_has_a_place() {
        let layout = RowLayout { offset: 100, row_pitch: 16, slice_pitch: 64, row_size: 10, rows: 2, slices: 2 };
        assert_eq!(layout.places().collect::<Vec<_>>(), [(100, 0), (116, 10), (164, 20), (180, 30)]);
    }
}
