//! Direct3D 12 beneath wgpu.
//!
//! Other APIs use a resource in `D3D12_RESOURCE_STATE_COMMON`. wgpu's tracker has states for that, so its own
//! transitions (`Native::texture_state`) are all the barriers of a hand-over. Committed resources start
//! with zeroes. Waits and signals go to the command queue directly: it executes in order, and any thread may call it.

use std::sync::Arc;

use gpu_interop::d3d::d3d12::{D3d12Interop, ExportableFence, ExportableResource};
use gpu_interop::d3d::windows::Win32::Graphics::Direct3D12::{
    D3D12_CONSTANT_BUFFER_DATA_PLACEMENT_ALIGNMENT, ID3D12CommandQueue,
};
use gpu_interop::d3d::{ResourceFlags, SrvDimension, TextureSpec};
use gpu_interop::{Device, DeviceIdentity, Error, Result, Timeline};
use wgpu::hal::api::Dx12;

use super::objects::{Exporter, Layout, NativeTimeline, NewBuffer, NewTexture, Resource};
use crate::format;
use crate::tiling::TextureOptions;

/// The `ID3D12Device` of a wgpu device.
#[derive(Debug)]
pub(crate) struct D3d12Device {
    interop: D3d12Interop,
    /// wgpu's only queue. All wgpu devices of an adapter are one `ID3D12Device`, each with its own queue.
    queue: ID3D12CommandQueue,
}

impl D3d12Device {
    /// Returns `None` if the device is not of wgpu's Direct3D 12 backend.
    pub(super) fn new(device: &wgpu::Device) -> Result<Option<Self>> {
        // SAFETY: the guard destroys nothing.
        let Some(hal) = (unsafe { device.as_hal::<Dx12>() }) else { return Ok(None) };
        Ok(Some(Self { interop: D3d12Interop::new(hal.raw_device())?, queue: hal.raw_queue().clone() }))
    }

    pub(super) fn identity(&self) -> &DeviceIdentity {
        self.interop.identity()
    }

    pub(super) fn owns(&self, queue: &wgpu::Queue) -> bool {
        // SAFETY: the guard destroys nothing.
        let hal = unsafe { queue.as_hal::<Dx12>() };
        hal.is_some_and(|hal| *hal.as_raw() == self.queue)
    }

    pub(super) fn create_buffer(
        &self,
        device: &wgpu::Device,
        desc: &wgpu::BufferDescriptor<'_>,
        size: u64,
    ) -> Result<NewBuffer> {
        // wgpu's own shaders validate indirect arguments and normalise timestamps.
        let written = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::INDIRECT | wgpu::BufferUsages::QUERY_RESOLVE;
        let flags = flag(desc.usage.intersects(written), ResourceFlags::ALLOW_UNORDERED_ACCESS);
        // wgpu rounds its views of constants up to whole blocks, and its own buffers as well.
        let blocks = desc.usage.contains(wgpu::BufferUsages::UNIFORM);
        let block = u64::from(if blocks { D3D12_CONSTANT_BUFFER_DATA_PLACEMENT_ALIGNMENT } else { 1 });
        let Some(size) = size.checked_next_multiple_of(block) else {
            return Err(Error::invalid("Interop::create_buffer", "the size is too large").with_context("size", size));
        };
        let exported = ExportableResource::buffer(&self.interop, size, flags)?;
        // SAFETY: the resource is a buffer of at least this size; the reference keeps it alive.
        let hal = unsafe { wgpu::hal::dx12::Device::buffer_from_raw(exported.resource().clone(), desc.size) };
        // SAFETY: the buffer is of this device, allows the usage, and starts with zeroes.
        let buffer = unsafe { device.create_buffer_from_hal::<Dx12>(hal, desc) };
        Ok(NewBuffer { buffer, resource: Resource::D3d12, exporter: Exporter::D3d12(exported) })
    }

    pub(super) fn create_texture(
        &self,
        device: &wgpu::Device,
        desc: &wgpu::TextureDescriptor<'_>,
        options: TextureOptions,
        linear: bool,
    ) -> Result<NewTexture> {
        if linear {
            let message = "Direct3D 12 shares no textures with linear tiling, and this compute device maps no others; share \
                           a buffer and copy to it";
            return Err(Error::unsupported("Interop::create_texture", message));
        }
        if desc.view_formats.iter().any(|format| *format != desc.format) {
            let message = "Direct3D 12 views other formats of typeless resources only, which compute does not map; leave \
                           `view_formats` empty";
            return Err(Error::unsupported("Interop::create_texture", message));
        }
        let spec = texture_spec(desc, options)?;
        let storage = wgpu::TextureUsages::STORAGE_BINDING | wgpu::TextureUsages::STORAGE_ATOMIC;
        let flags =
            flag(desc.usage.contains(wgpu::TextureUsages::RENDER_ATTACHMENT), ResourceFlags::ALLOW_RENDER_TARGET)
                | flag(desc.usage.intersects(storage), ResourceFlags::ALLOW_UNORDERED_ACCESS);
        let exported = ExportableResource::texture(&self.interop, &spec, flags)?;
        // SAFETY: the resource has this description; the reference keeps it alive.
        let hal = unsafe {
            wgpu::hal::dx12::Device::texture_from_raw(
                exported.resource().clone(),
                desc.format,
                desc.dimension,
                desc.size,
                desc.mip_level_count,
                desc.sample_count,
            )
        };
        // SAFETY: the texture is of this device and of this description; it starts with zeroes, in the state COMMON,
        // which is wgpu's PRESENT.
        let texture = unsafe { device.create_texture_from_hal::<Dx12>(hal, desc, wgpu::TextureUses::PRESENT) };
        let layout = Layout::Array(exported.array_desc()?);
        let format = spec.texel_format()?.array;
        Ok(NewTexture { texture, resource: Resource::D3d12, exporter: Exporter::D3d12(exported), format, layout })
    }

    pub(super) fn create_timeline(&self, compute: &Device, initial: u64) -> Result<(NativeTimeline, Timeline)> {
        let fence = ExportableFence::new(&self.interop, initial)?;
        let timeline = Timeline::new(compute, Arc::new(fence.clone()))?;
        Ok((NativeTimeline::D3d12(fence), timeline))
    }

    pub(super) fn stage_wait(&self, queue: &wgpu::Queue, timeline: &NativeTimeline, value: u64) -> Result<()> {
        with_queue(queue, timeline, |queue, fence| fence.queue_wait(queue.as_raw(), value))
    }

    pub(super) fn signal(&self, queue: &wgpu::Queue, timeline: &NativeTimeline, value: u64) -> Result<()> {
        with_queue(queue, timeline, |queue, fence| fence.queue_signal(queue.as_raw(), value))
    }
}

fn with_queue(
    queue: &wgpu::Queue,
    timeline: &NativeTimeline,
    call: impl FnOnce(&wgpu::hal::dx12::Queue, &ExportableFence) -> Result<()>,
) -> Result<()> {
    // SAFETY: the guard destroys nothing.
    let hal = unsafe { queue.as_hal::<Dx12>() };
    match (hal, timeline) {
        (Some(hal), NativeTimeline::D3d12(fence)) => call(&hal, fence),
        _ => Err(Error::invalid("Queue::as_hal", "the queue is not of the device's backend")),
    }
}

fn flag(used: bool, flag: ResourceFlags) -> ResourceFlags {
    if used { flag } else { ResourceFlags::empty() }
}

fn texture_spec(desc: &wgpu::TextureDescriptor<'_>, options: TextureOptions) -> Result<TextureSpec> {
    const OPERATION: &str = "Interop::create_texture";
    let wgpu::Extent3d { width, height, depth_or_array_layers } = desc.size;
    let dimension = match desc.dimension {
        wgpu::TextureDimension::D1 => SrvDimension::TEXTURE1D,
        wgpu::TextureDimension::D3 => SrvDimension::TEXTURE3D,
        wgpu::TextureDimension::D2 if options.cube && depth_or_array_layers == 6 => SrvDimension::TEXTURECUBE,
        wgpu::TextureDimension::D2 if options.cube => SrvDimension::TEXTURECUBEARRAY,
        wgpu::TextureDimension::D2 if depth_or_array_layers > 1 => SrvDimension::TEXTURE2DARRAY,
        wgpu::TextureDimension::D2 => SrvDimension::TEXTURE2D,
    };
    let narrow = |value: u32| {
        u16::try_from(value).map_err(|_| {
            Error::invalid(OPERATION, "Direct3D 12 has at most 65,535 layers, slices and levels")
                .with_context("value", value)
        })
    };
    let format = format::row(OPERATION, desc.format)?.dxgi;
    let size = (u64::from(width), height, narrow(depth_or_array_layers)?);
    Ok(TextureSpec::new(dimension, size, format).levels(narrow(desc.mip_level_count)?))
}
