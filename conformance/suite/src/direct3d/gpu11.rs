//! A Direct3D 11 device with its context, and operations of the suite.

use std::time::Duration;

use gpu_interop::d3d::d3d11::{D3d11Interop, ExportableFence, KeyedMutex};
use gpu_interop::d3d::windows::Win32::Graphics::Direct3D11::{
    D3D11_BOX, D3D11_BUFFER_DESC, D3D11_CPU_ACCESS_READ, D3D11_CPU_ACCESS_WRITE, D3D11_MAP, D3D11_MAP_READ,
    D3D11_MAP_WRITE, D3D11_MAPPED_SUBRESOURCE, D3D11_TEXTURE2D_DESC, D3D11_USAGE_STAGING, ID3D11Buffer,
    ID3D11DeviceContext, ID3D11Resource, ID3D11Texture2D,
};
use gpu_interop::d3d::windows::core::Interface;
use gpu_interop::d3d::{TexelFormat, VideoTextureSpec};
use gpu_interop::{Device, PlaneLayout};

use super::Library;
use crate::ensure;
use crate::outcome::{Stop, Verdict};

/// The device. Used by one thread at a time, as its context must be.
pub(crate) struct Gpu11 {
    interop: D3d11Interop,
    context: ID3D11DeviceContext,
}

impl Gpu11 {
    /// The Direct3D 11 device of the importing device.
    pub(crate) fn open(importer: &Device) -> Verdict<Self> {
        let device = Library::open()?.adapter(importer)?.device11()?;
        let interop = D3d11Interop::for_importer(&device, importer.identity())?;
        // SAFETY: the device is live; the call has no arguments.
        let context = unsafe { device.GetImmediateContext() }?;
        Ok(Self { interop, context })
    }

    pub(crate) fn interop(&self) -> &D3d11Interop {
        &self.interop
    }

    /// Enqueues a signal of a fence after the context's earlier commands, and flushes: a wait for the value needs no
    /// further call.
    pub(crate) fn signal(&self, fence: &ExportableFence, value: u64) -> Verdict {
        // SAFETY: the context is that of the device, which the fence is of, and one thread uses this.
        unsafe { fence.context_signal(&self.context, value) }?;
        // SAFETY: the context is live.
        unsafe { self.context.Flush() };
        Ok(())
    }

    /// Enqueues a wait of the context for a fence of this device.
    pub(crate) fn wait(&self, fence: &ExportableFence, value: u64) -> Verdict {
        // SAFETY: as in `signal`.
        Ok(unsafe { fence.context_wait(&self.context, value) }?)
    }

    pub(crate) fn acquire(&self, mutex: &KeyedMutex, key: u64, timeout: Option<Duration>) -> gpu_interop::Result<()> {
        // SAFETY: only one thread uses this, and the mutex.
        unsafe { mutex.acquire(key, timeout) }
    }

    pub(crate) fn release(&self, mutex: &KeyedMutex, key: u64) -> gpu_interop::Result<()> {
        // SAFETY: as in `acquire`.
        unsafe { mutex.release(key) }
    }

    /// Enqueues a write of the first bytes of a buffer.
    pub(crate) fn write(&self, buffer: &ID3D11Resource, data: &[u8]) -> Verdict {
        let right = u32::try_from(data.len())?;
        let area = D3D11_BOX { left: 0, top: 0, front: 0, right, bottom: 1, back: 1 };
        // SAFETY: the buffer is live and has that size; the data is read during the call.
        unsafe {
            self.context.UpdateSubresource(buffer, 0, Some(&raw const area), data.as_ptr().cast(), 0, 0);
            self.context.Flush();
        }
        Ok(())
    }

    /// Reads a buffer once the context's work has completed.
    pub(crate) fn read(&self, buffer: &ID3D11Resource, size: usize) -> Verdict<Vec<u8>> {
        let desc = D3D11_BUFFER_DESC {
            ByteWidth: u32::try_from(size)?,
            Usage: D3D11_USAGE_STAGING,
            CPUAccessFlags: D3D11_CPU_ACCESS_READ.0.cast_unsigned(),
            ..D3D11_BUFFER_DESC::default()
        };
        let mut staging: Option<ID3D11Buffer> = None;
        // SAFETY: the description is plain data that outlives the call.
        unsafe { self.interop.device().CreateBuffer(&raw const desc, None, Some(&raw mut staging)) }?;
        let staging: ID3D11Resource = made(staging)?.cast()?;
        // SAFETY: both are live, of this device, and of one size.
        unsafe { self.context.CopyResource(&staging, buffer) };
        self.mapped(&staging, D3D11_MAP_READ, |address, _| {
            // SAFETY: the mapping has that size, and nothing writes to it.
            unsafe { std::slice::from_raw_parts(address, size) }.to_vec()
        })
    }

    /// Enqueues a write of all texels of level 0 of a two-dimensional texture; `data` is tightly packed.
    pub(crate) fn write_texture(&self, texture: &ID3D11Resource, data: &[u8]) -> Verdict {
        let (row, rows) = rows(&described(texture)?)?;
        ensure!(data.len() == row * rows, "{} bytes for {rows} rows of {row} each", data.len());
        let pitch = u32::try_from(row)?;
        // SAFETY: the texture is live; the data has that many rows of this length, and is read during the call.
        unsafe {
            self.context.UpdateSubresource(texture, 0, None, data.as_ptr().cast(), pitch, 0);
            self.context.Flush();
        }
        Ok(())
    }

    /// Reads all texels of level 0 of a two-dimensional texture, tightly packed.
    pub(crate) fn read_texture(&self, texture: &ID3D11Resource) -> Verdict<Vec<u8>> {
        let (row, rows) = rows(&described(texture)?)?;
        let staging = self.staging(texture)?;
        // SAFETY: both are live, of this device, and have the same description.
        unsafe { self.context.CopyResource(&staging, texture) };
        self.mapped(&staging, D3D11_MAP_READ, |address, pitch| {
            ensure!(row <= pitch, "rows of {row} bytes are mapped {pitch} apart");
            let rows = (0..rows).flat_map(|y| {
                // SAFETY: the mapping has that many rows of this pitch, which is not shorter, and nothing writes to it.
                unsafe { std::slice::from_raw_parts(address.add(y * pitch), row) }.to_vec()
            });
            Ok(rows.collect())
        })?
    }

    /// A texture that the host reads and writes, and otherwise like this two-dimensional one.
    fn staging(&self, texture: &ID3D11Resource) -> Verdict<ID3D11Resource> {
        let desc = D3D11_TEXTURE2D_DESC {
            Usage: D3D11_USAGE_STAGING,
            CPUAccessFlags: (D3D11_CPU_ACCESS_READ | D3D11_CPU_ACCESS_WRITE).0.cast_unsigned(),
            BindFlags: 0,
            MiscFlags: 0,
            ..described(texture)?
        };
        self.texture(&desc)
    }

    /// A two-dimensional texture that is not shared.
    pub(crate) fn texture(&self, desc: &D3D11_TEXTURE2D_DESC) -> Verdict<ID3D11Resource> {
        let mut texture: Option<ID3D11Texture2D> = None;
        // SAFETY: the description is plain data that outlives the call.
        unsafe { self.interop.device().CreateTexture2D(desc, None, Some(&raw mut texture)) }?;
        Ok(made(texture)?.cast()?)
    }

    /// Reads a video texture, all planes as the host maps them, and their layout.
    pub(crate) fn read_video(
        &self,
        spec: &VideoTextureSpec,
        texture: &ID3D11Resource,
    ) -> Verdict<(Vec<u8>, Vec<PlaneLayout>)> {
        let staging = self.staging(texture)?;
        // SAFETY: both are live, of this device, and have the same description.
        unsafe { self.context.CopyResource(&staging, texture) };
        self.mapped(&staging, D3D11_MAP_READ, |address, pitch| {
            let layout = spec.mapped_layout(pitch as u64)?;
            // SAFETY: Direct3D maps `pitch * height` bytes of luma and, behind them, as many rows of chroma as the format has,
            // with the same pitch: the planes of the layout. Nothing writes to them.
            let bytes = unsafe { std::slice::from_raw_parts(address, end(&layout)?) };
            Ok((bytes.to_vec(), layout))
        })?
    }

    /// Writes a video texture; `fill` gets all planes as the host maps them, and their layout.
    pub(crate) fn write_video(
        &self,
        spec: &VideoTextureSpec,
        texture: &ID3D11Resource,
        fill: impl FnOnce(&mut [u8], &[PlaneLayout]) -> Verdict,
    ) -> Verdict {
        let staging = self.staging(texture)?;
        self.mapped(&staging, D3D11_MAP_WRITE, |address, pitch| {
            let layout = spec.mapped_layout(pitch as u64)?;
            // SAFETY: as in `read_video`, and nothing else uses them.
            fill(unsafe { std::slice::from_raw_parts_mut(address, end(&layout)?) }, &layout)
        })??;
        // SAFETY: both are live, of this device, and have the same description.
        unsafe {
            self.context.CopyResource(texture, &staging);
            self.context.Flush();
        }
        Ok(())
    }

    /// Calls a function with the address of the memory, mapped for reading or writing, and its row pitch.
    fn mapped<T>(
        &self,
        staging: &ID3D11Resource,
        access: D3D11_MAP,
        run: impl FnOnce(*mut u8, usize) -> T,
    ) -> Verdict<T> {
        let mut mapped = D3D11_MAPPED_SUBRESOURCE::default();
        // SAFETY: the resource is live and has a subresource 0; Direct3D rejects an access that it was not created for.
        // Unmapped below.
        unsafe { self.context.Map(staging, 0, access, 0, Some(&raw mut mapped)) }?;
        let result = run(mapped.pData.cast(), mapped.RowPitch as usize);
        // SAFETY: mapped above.
        unsafe { self.context.Unmap(staging, 0) };
        Ok(result)
    }
}

/// The end of the last plane, bytes.
fn end(layout: &[PlaneLayout]) -> Verdict<usize> {
    Ok(usize::try_from(layout.iter().filter_map(PlaneLayout::end).max().unwrap_or_default())?)
}

/// The description of a two-dimensional texture.
fn described(texture: &ID3D11Resource) -> Verdict<D3D11_TEXTURE2D_DESC> {
    let mut desc = D3D11_TEXTURE2D_DESC::default();
    let flat: ID3D11Texture2D = texture.cast()?;
    // SAFETY: the texture is live, and the result goes to a live variable.
    unsafe { flat.GetDesc(&raw mut desc) };
    Ok(desc)
}

/// The size of a row of level 0 of a texture without planes, bytes, and the number of rows.
fn rows(desc: &D3D11_TEXTURE2D_DESC) -> Verdict<(usize, usize)> {
    let texel = TexelFormat::from_dxgi(desc.Format)?.array.texel_size();
    Ok((desc.Width as usize * texel as usize, desc.Height as usize))
}

fn made<T>(created: Option<T>) -> Verdict<T> {
    created.ok_or_else(|| Stop::failed("Direct3D 11 reported success without an object".into()))
}
