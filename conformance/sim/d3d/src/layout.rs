//! Layout of texels: the layout that the simulators of compute drivers use for images.

use windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT;

use crate::section::Part;

/// Rows are aligned to a cache line, and images to a raster block: lavapipe's layout, in which levels follow one
/// another, and a level's slices and layers.
const LINE: usize = 64;
const BLOCK: usize = 4;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Texture {
    /// Texels per row of level 0.
    pub(crate) width: usize,
    /// Rows of level 0; 0 for textures of one dimension.
    pub(crate) height: usize,
    /// Slices of level 0, or layers.
    pub(crate) depth: usize,
    /// `true` if `depth` counts layers.
    pub(crate) layered: bool,
    pub(crate) levels: u32,
    pub(crate) format: DXGI_FORMAT,
}

/// Layout of a subresource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rows {
    /// Offset of the first byte.
    pub(crate) offset: usize,
    /// Row pitch, bytes.
    pub(crate) pitch: usize,
    /// Slice pitch, bytes.
    pub(crate) slice_pitch: usize,
    /// Bytes per row without padding, rows, slices.
    pub(crate) extent: [usize; 3],
}

/// Layout of all subresources.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// Levels, or planes.
    levels: Vec<Rows>,
    layers: usize,
    /// Bytes per texel of each level or plane.
    texels: Vec<usize>,
    /// Size in bytes.
    pub(crate) size: usize,
}

impl Layout {
    /// The layout of a buffer: one row.
    pub(crate) fn buffer(size: usize) -> Self {
        let rows = Rows { offset: 0, pitch: size, slice_pitch: size, extent: [size, 1, 1] };
        Self { levels: vec![rows], layers: 1, texels: vec![1], size }
    }

    /// The layout of a texture with planes: each as a texture of its own.
    fn planar(texture: &Texture, planes: &[Plane]) -> Option<Self> {
        let fits = |plane: &Plane| {
            texture.width.is_multiple_of(plane.subsampling[0]) && texture.height.is_multiple_of(plane.subsampling[1])
        };
        if texture.levels != 1 || texture.depth != 1 || texture.height == 0 || !planes.iter().all(fits) {
            return None;
        }
        let (mut levels, mut size) = (Vec::new(), 0_usize);
        for Plane { texel, subsampling: [x, y] } in planes {
            let (width, height) = (texture.width / x, texture.height / y);
            let pitch = width.checked_next_multiple_of(BLOCK)?.checked_mul(*texel)?.checked_next_multiple_of(LINE)?;
            let slice_pitch = pitch.checked_mul(height.checked_next_multiple_of(BLOCK)?)?;
            levels.push(Rows { offset: size, pitch, slice_pitch, extent: [width * texel, height, 1] });
            size = size.checked_add(slice_pitch)?;
        }
        Some(Self { levels, layers: 1, texels: planes.iter().map(|plane| plane.texel).collect(), size })
    }

    /// The layout of a texture that the host maps: planes directly behind one another, with one row pitch.
    pub(crate) fn mapped(texture: &Texture) -> Option<Self> {
        let mut layout = Self::texture(texture)?;
        if planes(texture.format).is_some() {
            let pitch = layout.levels.iter().map(|rows| rows.pitch).max()?;
            layout.size = 0;
            for rows in &mut layout.levels {
                let slice_pitch = pitch.checked_mul(rows.extent[1])?;
                *rows = Rows { offset: layout.size, pitch, slice_pitch, ..*rows };
                layout.size = layout.size.checked_add(slice_pitch)?;
            }
        }
        Some(layout)
    }

    /// The layout of a texture; `None` if it exceeds the address space.
    pub(crate) fn texture(texture: &Texture) -> Option<Self> {
        if let Some(planes) = planes(texture.format) {
            return Self::planar(texture, planes);
        }
        let texel = texel_size(texture.format);
        let mut offset = 0_usize;
        let level = |level: u32| {
            let shrunk = |n: usize| n.checked_shr(level).unwrap_or(0).max(1);
            let (width, height) = (shrunk(texture.width), shrunk(texture.height));
            let slices = if texture.layered { texture.depth } else { shrunk(texture.depth) };
            let rows = if texture.height == 0 { 1 } else { height.checked_next_multiple_of(BLOCK)? };
            let pitch = width.checked_next_multiple_of(BLOCK)?.checked_mul(texel)?.checked_next_multiple_of(LINE)?;
            let slice_pitch = pitch.checked_mul(rows)?;
            let size = slice_pitch.checked_mul(slices)?.checked_next_multiple_of(LINE)?;
            let rows = Rows { offset, pitch, slice_pitch, extent: [width * texel, height, slices] };
            offset = offset.checked_add(size)?;
            Some(rows)
        };
        let levels = (0..texture.levels).map(level).collect::<Option<Vec<_>>>()?;
        let (layers, texels) = (if texture.layered { texture.depth } else { 1 }, vec![texel; levels.len()]);
        Some(Self { levels, layers, texels, size: offset })
    }

    /// Number of subresources.
    pub(crate) fn subresources(&self) -> usize {
        self.levels.len() * self.layers
    }

    /// All subresources, in the order of their numbers.
    pub(crate) fn all(&self) -> Vec<Rows> {
        (0..).take(self.subresources()).map(|number| self.subresource(number)).collect()
    }

    /// `true` if the subresources are planes, which differ in their texels.
    pub(crate) fn is_planar(&self) -> bool {
        self.texels.iter().any(|texel| *texel != self.texels[0])
    }

    /// Bytes per texel of a subresource.
    pub(crate) fn texel(&self, number: u32) -> usize {
        self.texels[number as usize % self.texels.len()]
    }

    /// A subresource by Direct3D's number: levels of the first layer, then of the next; planes follow one another.
    ///
    /// # Panics
    /// If the subresource does not exist.
    pub(crate) fn subresource(&self, number: u32) -> Rows {
        let number = number as usize;
        let (layer, level) = (number / self.levels.len(), number % self.levels.len());
        assert!(layer < self.layers, "subresource {number} does not exist");
        let rows = self.levels[level];
        if self.layers == 1 {
            return rows;
        }
        let [width, height, _] = rows.extent;
        Rows { offset: rows.offset + layer * rows.slice_pitch, extent: [width, height, 1], ..rows }
    }
}

impl Rows {
    /// A box in the rows: byte in the row, row and slice of its origin, and its extent.
    ///
    /// # Panics
    /// If it is not inside.
    pub(crate) fn part(self, origin: [usize; 3], extent: [usize; 3]) -> Self {
        for ((origin, extent), most) in origin.into_iter().zip(extent).zip(self.extent) {
            assert!(origin.checked_add(extent).is_some_and(|end| end <= most), "{extent} from {origin} of {most}");
        }
        let [x, y, z] = origin;
        Self { offset: self.offset + z * self.slice_pitch + y * self.pitch + x, extent, ..self }
    }

    /// Bytes from the first to the end of the last.
    ///
    /// # Panics
    /// If it is empty, or exceeds the address space.
    pub(crate) fn size(&self) -> usize {
        let [width, height, slices] = self.extent;
        let [last_row, last_slice] = [height, slices].map(|count| count.checked_sub(1).expect("rows"));
        let size = last_slice.checked_mul(self.slice_pitch).zip(last_row.checked_mul(self.pitch));
        size.and_then(|(a, b)| a.checked_add(b)?.checked_add(width)).expect("less than the address space")
    }

    fn row(&self, row: usize, slice: usize) -> usize {
        self.offset + slice * self.slice_pitch + row * self.pitch
    }

    /// Copies rows to others of the same extent.
    pub(crate) fn copy(self, from: &Part, target: Self, to: &Part) {
        let [width, height, slices] = self.extent;
        for slice in 0..slices {
            for row in 0..height {
                Part::copy((from, self.row(row, slice)), (to, target.row(row, slice)), width);
            }
        }
    }

    /// Writes rows from memory with these pitches.
    pub(crate) fn write(self, to: &Part, data: &[u8], pitch: usize, slice_pitch: usize) {
        let [width, height, slices] = self.extent;
        for slice in 0..slices {
            for row in 0..height {
                let start = slice * slice_pitch + row * pitch;
                to.write(self.row(row, slice), &data[start..start + width]);
            }
        }
    }
}

/// A plane of a format.
pub(crate) struct Plane {
    /// Bytes per texel.
    texel: usize,
    subsampling: [usize; 2],
}

/// The planes of NV12, P010, P016 and P208.
pub(crate) fn planes(format: DXGI_FORMAT) -> Option<&'static [Plane]> {
    const NV12: &[Plane] = &[Plane { texel: 1, subsampling: [1, 1] }, Plane { texel: 2, subsampling: [2, 2] }];
    const P010: &[Plane] = &[Plane { texel: 2, subsampling: [1, 1] }, Plane { texel: 4, subsampling: [2, 2] }];
    const P208: &[Plane] = &[Plane { texel: 1, subsampling: [1, 1] }, Plane { texel: 2, subsampling: [2, 1] }];
    match format.0 {
        103 => Some(NV12),
        104 | 105 => Some(P010),
        130 => Some(P208),
        _ => None,
    }
}

/// Bytes per texel.
///
/// # Panics
/// For formats that the simulator does not support.
pub(crate) fn texel_size(format: DXGI_FORMAT) -> usize {
    bytes(format).unwrap_or_else(|| panic!("the simulator has no textures of {format:?}"))
}

/// `true` if the simulator supports textures of the format.
pub(crate) fn has_texels(format: DXGI_FORMAT) -> bool {
    bytes(format).is_some()
}

fn bytes(format: DXGI_FORMAT) -> Option<usize> {
    match format.0 {
        1..=4 => Some(16),
        5..=8 => Some(12),
        9..=22 => Some(8),
        23..=47 | 87..=93 => Some(4),
        48..=59 | 85 | 86 | 115 => Some(2),
        60..=65 => Some(1),
        _ => None,
    }
}

/// `true` for formats whose views name the type of the texels.
pub(crate) fn is_typeless(format: DXGI_FORMAT) -> bool {
    matches!(format.0, 1 | 5 | 9 | 15 | 19 | 23 | 27 | 33 | 39 | 44 | 48 | 53 | 60 | 90 | 92)
}

#[cfg(test)]
mod tests {
    use windows::Win32::Graphics::Dxgi::Common::{DXGI_FORMAT_NV12, DXGI_FORMAT_R8G8B8A8_UNORM};

    use super::*;

    #[test]
    fn subresources_lie_where_the_other_simulators_look_for_them() {
        let format = DXGI_FORMAT_R8G8B8A8_UNORM;
        let texture = Texture { width: 100, height: 37, depth: 3, layered: true, levels: 2, format };
        let layout = Layout::texture(&texture).expect("a small one");
        let rows = |number| layout.subresource(number);
        assert_eq!((rows(0).offset, rows(0).pitch, rows(0).extent), (0, 448, [400, 37, 1]));
        assert_eq!((rows(1).offset, rows(1).pitch, rows(1).extent), (3 * 17_920, 256, [200, 18, 1]));
        assert_eq!((rows(2).offset, rows(3).offset), (17_920, 3 * 17_920 + 5120));
        let volume = Layout::texture(&Texture { layered: false, ..texture }).expect("a small one");
        assert_eq!((volume.subresource(0).extent, volume.subresource(1).extent), ([400, 37, 3], [200, 18, 1]));
        assert_eq!(rows(0).part([8, 1, 0], [4, 2, 1]).offset, 456);
        assert_eq!((rows(0).size(), volume.subresource(0).size()), (36 * 448 + 400, 2 * 17_920 + 36 * 448 + 400));
    }

    #[test]
    fn planes_are_subresources() {
        let texture = |width, height, levels| Texture {
            width,
            height,
            depth: 1,
            layered: true,
            levels,
            format: DXGI_FORMAT_NV12,
        };
        let layout = Layout::texture(&texture(100, 38, 1)).expect("a small one");
        assert_eq!((layout.subresources(), layout.texel(0), layout.texel(1)), (2, 1, 2));
        let [luma, chroma] = [0, 1].map(|plane| layout.subresource(plane));
        assert_eq!((luma.offset, luma.pitch, luma.extent), (0, 128, [100, 38, 1]));
        assert_eq!((chroma.offset, chroma.pitch, chroma.extent), (128 * 40, 128, [100, 19, 1]));
        let mapped = Layout::mapped(&texture(100, 38, 1)).expect("a small one");
        assert_eq!((mapped.subresource(0), mapped.size), (Rows { slice_pitch: 128 * 38, ..luma }, 128 * 57));
        assert_eq!(mapped.subresource(1), Rows { offset: 128 * 38, slice_pitch: 128 * 19, ..chroma });
        for rejected in [texture(101, 38, 1), texture(100, 37, 1), texture(100, 38, 2)] {
            assert!(Layout::texture(&rejected).is_none(), "{rejected:?}");
        }
    }

    #[test]
    fn what_exceeds_the_address_space_has_no_layout() {
        let format = DXGI_FORMAT_R8G8B8A8_UNORM;
        let small = Texture { width: 4, height: 4, depth: 1, layered: true, levels: 1, format };
        let most = usize::MAX;
        for texture in [
            Texture { width: most, ..small },
            Texture { width: most / 4 - 1, ..small },
            Texture { height: most, ..small },
            Texture { height: most / 64, ..small },
            Texture { depth: most / 256 + 1, ..small },
            Texture { width: 1 << 30, height: 1 << 30, depth: 1 << 30, ..small },
            Texture { width: 1 << 31, height: (1 << 31) - 4, levels: 2, ..small },
        ] {
            assert!(Layout::texture(&texture).is_none(), "{texture:?}");
        }
    }
}
