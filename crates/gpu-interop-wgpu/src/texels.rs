//! Copies of texels between the host and a shared texture, through a stream.

use gpu_interop::{ArrayRegion, Error, Result, Stream};

use crate::texture::{SharedTexture, TextureMapping};
use crate::tiling::LinearLayout;

/// One layer of a mip level.
struct Subresource {
    /// Bytes in a row, rows, slices.
    extent: [u64; 3],
}

impl Subresource {
    fn packed_size(&self) -> u64 {
        self.extent.iter().product()
    }

    /// Bytes from the first texel to the end of the last, with the pitches of `layout`.
    fn span(&self, layout: LinearLayout) -> u64 {
        let [row, rows, slices] = self.extent;
        (slices - 1) * layout.slice_pitch + (rows - 1) * layout.row_pitch + row
    }

    /// Calls `copy` with the place of each row: in memory with pitches, and packed.
    fn rows(&self, layout: LinearLayout, mut copy: impl FnMut(std::ops::Range<usize>, std::ops::Range<usize>)) {
        let [row, rows, slices] = self.extent;
        let range = |start: u64| {
            let index = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
            index(start)..index(start + row)
        };
        for slice in 0..slices {
            for line in 0..rows {
                let pitched = slice * layout.slice_pitch + line * layout.row_pitch;
                copy(range(pitched), range((slice * rows + line) * row));
            }
        }
    }
}

impl SharedTexture {
    /// Reads one layer of a mip level through `stream`, with rows and slices packed. Blocks until the stream has done
    /// so. For tests and small results: it goes through host memory.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop::ErrorKind::InvalidArgument) if the texture has no such level or
    /// layer; otherwise the error of the stream.
    pub fn read_texels(&self, stream: &Stream, level: u32, layer: u32) -> Result<Vec<u8>> {
        let of = self.subresource("SharedTexture::read_texels", level, layer)?;
        let mut packed = zeroes(of.packed_size());
        match (&self.mapping, self.linear(level, layer)) {
            (TextureMapping::Linear(_), Some((memory, layout))) => {
                let mut pitched = zeroes(of.span(layout));
                stream.read(memory.slice(..of.span(layout))?, &mut pitched)?;
                of.rows(layout, |from, to| packed[to].copy_from_slice(&pitched[from]));
            }
            _ => stream.read_array(self.region(level, layer)?, &mut packed)?,
        }
        Ok(packed)
    }

    /// Writes one layer of a mip level through `stream`, from packed rows and slices. Blocks until the stream has done
    /// so.
    ///
    /// # Errors
    /// As [`read_texels`](Self::read_texels), and
    /// [`ErrorKind::InvalidArgument`](gpu_interop::ErrorKind::InvalidArgument) if `texels` has another size.
    pub fn write_texels(&self, stream: &Stream, level: u32, layer: u32, texels: &[u8]) -> Result<()> {
        const OPERATION: &str = "SharedTexture::write_texels";
        let of = self.subresource(OPERATION, level, layer)?;
        if texels.len() as u64 != of.packed_size() {
            let error = Error::invalid(OPERATION, "the texels have another size than the level; pack rows and slices");
            return Err(error.with_context("size", texels.len()).with_context("expected", of.packed_size()));
        }
        match (&self.mapping, self.linear(level, layer)) {
            (TextureMapping::Linear(_), Some((memory, layout))) => {
                let memory = memory.slice(..of.span(layout))?;
                // What is between the rows may belong to another layer.
                let mut pitched = zeroes(of.span(layout));
                if of.span(layout) != of.packed_size() {
                    stream.read(memory, &mut pitched)?;
                }
                of.rows(layout, |to, from| pitched[to].copy_from_slice(&texels[from]));
                stream.write(memory, &pitched)
            }
            _ => stream.write_array(self.region(level, layer)?, texels),
        }
    }

    /// One layer of a mip level of an array, for copies.
    fn region(&self, level: u32, layer: u32) -> Result<ArrayRegion<'_>> {
        let TextureMapping::Array(array) = &self.mapping else {
            return Err(Error::invalid("SharedTexture::region", "the texture has linear tiling"));
        };
        let region = array.level(level)?;
        let is_3d = self.wgpu().dimension() == wgpu::TextureDimension::D3;
        if is_3d || self.wgpu().depth_or_array_layers() == 1 {
            return Ok(region);
        }
        let [width, height, _] = region.extent();
        region.region([0, 0, layer.into()], [width, height, 1])
    }

    fn subresource(&self, operation: &'static str, level: u32, layer: u32) -> Result<Subresource> {
        let texture = self.wgpu();
        let is_3d = texture.dimension() == wgpu::TextureDimension::D3;
        let layers = if is_3d { 1 } else { texture.depth_or_array_layers() };
        if level >= texture.mip_level_count() || layer >= layers {
            return Err(Error::invalid(operation, "the texture has no such mip level or layer")
                .with_context("level", level)
                .with_context("levels", texture.mip_level_count())
                .with_context("layer", layer)
                .with_context("layers", layers));
        }
        let halved = |n: u32| u64::from((n >> level).max(1));
        let size = texture.size();
        let slices = if is_3d { halved(size.depth_or_array_layers) } else { 1 };
        let row = halved(size.width) * u64::from(self.format.texel_size());
        Ok(Subresource { extent: [row, halved(size.height), slices] })
    }
}

fn zeroes(size: u64) -> Vec<u8> {
    vec![0; usize::try_from(size).unwrap_or(usize::MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_their_pitches() {
        let of = Subresource { extent: [4, 2, 3] };
        let layout = LinearLayout { offset: 100, row_pitch: 8, slice_pitch: 20 };
        assert_eq!((of.packed_size(), of.span(layout)), (24, 52));
        let mut found = Vec::new();
        of.rows(layout, |pitched, packed| found.push((pitched.start, packed.start, pitched.len())));
        assert_eq!(found, [(0, 0, 4), (8, 4, 4), (20, 8, 4), (28, 12, 4), (40, 16, 4), (48, 20, 4)]);
    }
}
