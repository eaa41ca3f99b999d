//! Copies between textures of Direct3D 12 and the host.

use std::mem::ManuallyDrop;

use gpu_interop::d3d::windows::Win32::Graphics::Direct3D12::{
    D3D12_PLACED_SUBRESOURCE_FOOTPRINT, D3D12_RESOURCE_STATE_COMMON, D3D12_RESOURCE_STATE_COPY_DEST,
    D3D12_RESOURCE_STATE_COPY_SOURCE, D3D12_SUBRESOURCE_FOOTPRINT, D3D12_TEXTURE_COPY_LOCATION,
    D3D12_TEXTURE_COPY_LOCATION_0, D3D12_TEXTURE_COPY_TYPE_PLACED_FOOTPRINT, D3D12_TEXTURE_COPY_TYPE_SUBRESOURCE_INDEX,
    D3D12_TEXTURE_DATA_PITCH_ALIGNMENT, ID3D12Resource,
};
use gpu_interop::d3d::windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT;

use super::gpu12::{Gpu12, Way, transition};
use crate::outcome::Verdict;

/// One subresource of a texture: a level of a layer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subresource<'a> {
    pub(crate) texture: &'a ID3D12Resource,
    pub(crate) number: u32,
    pub(crate) format: DXGI_FORMAT,
    /// Texels per row, rows, slices.
    pub(crate) extent: [u32; 3],
    /// Bytes per texel.
    pub(crate) texel: usize,
}

impl Subresource<'_> {
    /// Bytes per row.
    fn row(&self) -> usize {
        self.extent[0] as usize * self.texel
    }

    /// Row pitch in a buffer of a copy.
    fn pitch(&self) -> usize {
        self.row().next_multiple_of(D3D12_TEXTURE_DATA_PITCH_ALIGNMENT as usize)
    }

    /// Rows of all slices.
    fn rows(&self) -> usize {
        self.extent[1] as usize * self.extent[2] as usize
    }

    fn location(&self) -> D3D12_TEXTURE_COPY_LOCATION {
        D3D12_TEXTURE_COPY_LOCATION {
            pResource: ManuallyDrop::new(Some(self.texture.clone())),
            Type: D3D12_TEXTURE_COPY_TYPE_SUBRESOURCE_INDEX,
            Anonymous: D3D12_TEXTURE_COPY_LOCATION_0 { SubresourceIndex: self.number },
        }
    }

    /// A place in a buffer as the other side.
    fn in_buffer(&self, buffer: &ID3D12Resource, offset: u64) -> Verdict<D3D12_TEXTURE_COPY_LOCATION> {
        let [width, height, depth] = self.extent;
        let pitch = u32::try_from(self.pitch())?;
        let footprint = D3D12_SUBRESOURCE_FOOTPRINT {
            Format: self.format,
            Width: width,
            Height: height,
            Depth: depth,
            RowPitch: pitch,
        };
        Ok(D3D12_TEXTURE_COPY_LOCATION {
            pResource: ManuallyDrop::new(Some(buffer.clone())),
            Type: D3D12_TEXTURE_COPY_TYPE_PLACED_FOOTPRINT,
            Anonymous: D3D12_TEXTURE_COPY_LOCATION_0 {
                PlacedFootprint: D3D12_PLACED_SUBRESOURCE_FOOTPRINT { Offset: offset, Footprint: footprint },
            },
        })
    }
}

impl Gpu12 {
    /// Writes all texels of a subresource from tightly packed `data` by the queue, and blocks until completion. The
    /// texture is in the common state before and after.
    pub(crate) fn write_texture(&self, to: Subresource<'_>, data: &[u8]) -> Verdict {
        let mut staging = self.staging(Way::Up, to.pitch() * to.rows())?;
        for (row, texels) in data.chunks_exact(to.row()).take(to.rows()).enumerate() {
            let start = row * to.pitch();
            staging.bytes(start..start + to.row())?.copy_from_slice(texels);
        }
        self.copy_plane(to, &staging.resource, 0, Way::Up)?;
        self.give_back(staging);
        Ok(())
    }

    /// Reads all texels of a subresource, tightly packed.
    pub(crate) fn read_texture(&self, from: Subresource<'_>) -> Verdict<Vec<u8>> {
        let mut staging = self.staging(Way::Down, from.pitch() * from.rows())?;
        self.copy_plane(from, &staging.resource, 0, Way::Down)?;
        let mut found = Vec::with_capacity(from.row() * from.rows());
        for row in 0..from.rows() {
            let start = row * from.pitch();
            found.extend_from_slice(staging.bytes(start..start + from.row())?);
        }
        self.give_back(staging);
        Ok(found)
    }

    /// Copies a subresource from or to a buffer, with the smallest row pitch that Direct3D allows, and blocks until
    /// completion.
    pub(crate) fn copy_plane(&self, of: Subresource<'_>, buffer: &ID3D12Resource, offset: u64, way: Way) -> Verdict {
        let mut buffer = of.in_buffer(buffer, offset)?;
        let mut texture = of.location();
        let uses: Vec<ID3D12Resource> =
            [&buffer, &texture].into_iter().filter_map(|side| side.pResource.as_ref().cloned()).collect();
        let (state, target, source) = match way {
            Way::Up => (D3D12_RESOURCE_STATE_COPY_DEST, &raw const texture, &raw const buffer),
            Way::Down => (D3D12_RESOURCE_STATE_COPY_SOURCE, &raw const buffer, &raw const texture),
        };
        let submitted = self.submit(None, None, uses, |list| {
            transition(list, of.texture, D3D12_RESOURCE_STATE_COMMON, state);
            // SAFETY: both sides are live, of this device and kept, and have the stated size; the structures outlive
            // the call.
            unsafe { list.CopyTextureRegion(target, 0, 0, 0, source, None) };
            transition(list, of.texture, state, D3D12_RESOURCE_STATE_COMMON);
            Ok(())
        });
        for side in [&mut buffer, &mut texture] {
            // SAFETY: the reference is released once; the submitted list keeps the resources alive.
            unsafe { ManuallyDrop::drop(&mut side.pResource) };
        }
        self.finish(submitted?)
    }
}
