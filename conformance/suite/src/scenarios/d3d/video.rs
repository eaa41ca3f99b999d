//! Video textures of Direct3D 11 and 12.

use gpu_interop::d3d::d3d12::ExportableResource;
use gpu_interop::d3d::windows::Win32::Foundation::E_FAIL;
use gpu_interop::d3d::windows::Win32::Graphics::Direct3D11::{
    D3D11_FORMAT_SUPPORT_CPU_LOCKABLE, D3D11_FORMAT_SUPPORT_TEXTURE2D, D3D11_TEXTURE2D_DESC, D3D11_USAGE_DEFAULT,
    ID3D11Resource,
};
use gpu_interop::d3d::windows::Win32::Graphics::Direct3D12::{
    D3D12_FEATURE_DATA_FORMAT_SUPPORT, D3D12_FEATURE_FORMAT_SUPPORT, D3D12_FORMAT_SUPPORT1_TEXTURE2D,
    D3D12_HEAP_TYPE_DEFAULT, D3D12_PLACED_SUBRESOURCE_FOOTPRINT, D3D12_RESOURCE_DESC,
    D3D12_RESOURCE_DIMENSION_TEXTURE2D, D3D12_RESOURCE_STATE_COMMON, ID3D12Resource,
};
use gpu_interop::d3d::windows::Win32::Graphics::Dxgi::Common::DXGI_SAMPLE_DESC;
use gpu_interop::d3d::{DxgiFormat, ResourceFlags, Sharing, VideoTextureSpec};
use gpu_interop::{MappedPlanes, PlaneLayout};

use super::{VIDEO_FORMATS, buffer11, open11, open12, video_size};
use crate::context::Context;
use crate::direct3d::{Gpu11, Gpu12, Subresource, Way};
use crate::ensure_eq;
use crate::image::for_each;
use crate::outcome::{Stop, Verdict};
use crate::scenario::scenarios;

scenarios! {
    "d3d.video_11", None,
        "The planes of NV12, P010, P016 and P208 textures of Direct3D 11 are copied to a shared buffer, in the layout that \
         the host maps, and back: every byte in both directions.",
        videos, needs [memory D3d11Resource, MappedBuffer];
    "d3d.video_12", None,
        "The planes of NV12, P010, P016 and P208 textures of Direct3D 12 are copied to a shared buffer, in the layout that \
         Direct3D computes, and back: every byte in both directions.",
        videos12, needs [memory D3d12Resource, MappedBuffer];
}

fn videos(context: &Context) -> Verdict {
    let gpu = open11(context)?;
    for_each(|what| context.leave_out(what), &VIDEO_FORMATS, false, |format| goes_both_ways(context, &gpu, format))
}

fn goes_both_ways(context: &Context, gpu: &Gpu11, format: DxgiFormat) -> Verdict {
    let spec = VideoTextureSpec::new(format, video_size(format))?;
    let texture = texture(gpu, &spec, format)?;
    let (pattern, stream) = (context.pattern(), context.stream()?);
    // Each plane has data of its own.
    gpu.write_video(&spec, &texture, |bytes, layout| {
        let mut pattern = pattern;
        for plane in layout {
            unpack(bytes, plane, &pattern.bytes(0, packed_size(plane)?))?;
            pattern = pattern.other();
        }
        Ok(())
    })?;
    let (bytes, layout) = gpu.read_video(&spec, &texture)?;
    // The last row has no padding in the texture; other scenarios test sizes of all kinds.
    let size = bytes.len().next_multiple_of(256);
    let buffer = buffer11(gpu, size, Sharing::NtHandle)?;
    gpu.write(buffer.resource(), &bytes)?;
    // Returns after the context's work.
    gpu.read(buffer.resource(), size)?;
    let planes = layout.iter().map(|plane| (0, *plane)).collect();
    let mapped = MappedPlanes::import(context.device(), vec![buffer.import_request()?], planes)?;
    let mut pattern = pattern;
    for (number, plane) in layout.iter().enumerate() {
        let what = format!("plane {number} of {format:?}");
        let mut found = vec![0; packed_size(plane)?];
        mapped.read(&stream, number, &mut found)?;
        pattern.verify(0, &found, format_args!("{what}: Direct3D's data"))?;
        pattern = pattern.other();
        mapped.write(&stream, number, &pattern.bytes(0, found.len()))?;
    }

    // Back through the texture, which may be mapped with another pitch.
    let shared = gpu.read(buffer.resource(), size)?;
    gpu.write_video(&spec, &texture, |bytes, places| {
        layout.iter().zip(places).try_for_each(|(from, to)| unpack(bytes, to, &pack(&shared, from)?))
    })?;
    let (bytes, layout) = gpu.read_video(&spec, &texture)?;
    let mut pattern = context.pattern();
    for (number, plane) in layout.iter().enumerate() {
        pattern = pattern.other();
        pattern.verify(0, &pack(&bytes, plane)?, format_args!("plane {number} of {format:?}: the device's data"))?;
    }
    Ok(())
}

/// A texture of this format that is not shared, and that only copies use.
fn texture(gpu: &Gpu11, spec: &VideoTextureSpec, format: DxgiFormat) -> Verdict<ID3D11Resource> {
    let needed = (D3D11_FORMAT_SUPPORT_TEXTURE2D.0 | D3D11_FORMAT_SUPPORT_CPU_LOCKABLE.0).cast_unsigned();
    // SAFETY: the device is live; the result is a number.
    let support = match unsafe { gpu.interop().device().CheckFormatSupport(format.into()) } {
        // The answer for unknown formats.
        Err(error) if error.code() == E_FAIL => 0,
        support => support?,
    };
    if support & needed != needed {
        return Err(Stop::unsupported(format!("the device has no textures of {format:?}")));
    }
    let [width, height] = spec.extent();
    gpu.texture(&D3D11_TEXTURE2D_DESC {
        Width: width,
        Height: height,
        MipLevels: 1,
        ArraySize: 1,
        Format: format.into(),
        SampleDesc: DXGI_SAMPLE_DESC { Count: 1, Quality: 0 },
        Usage: D3D11_USAGE_DEFAULT,
        ..D3D11_TEXTURE2D_DESC::default()
    })
}

/// The size of a plane without padding, bytes.
fn packed_size(plane: &PlaneLayout) -> Verdict<usize> {
    in_memory(plane, plane.size())
}

/// The offset of each row of a plane, and the size of a row, bytes.
fn rows(plane: &PlaneLayout) -> Verdict<(Vec<usize>, usize)> {
    let offsets = (0..plane.extent[1]).map(|row| in_memory(plane, plane.row(row)));
    Ok((offsets.collect::<Verdict<_>>()?, in_memory(plane, Some(plane.row_size()))?))
}

/// A size or offset of a plane that is in memory, bytes.
fn in_memory(plane: &PlaneLayout, bytes: Option<u64>) -> Verdict<usize> {
    let bytes = bytes.ok_or_else(|| Stop::failed(format!("a plane is larger than any memory: {plane:?}")))?;
    Ok(usize::try_from(bytes)?)
}

/// A plane without padding.
fn pack(bytes: &[u8], plane: &PlaneLayout) -> Verdict<Vec<u8>> {
    let (offsets, size) = rows(plane)?;
    Ok(offsets.into_iter().flat_map(|offset| &bytes[offset..offset + size]).copied().collect())
}

/// Writes a plane without padding to its place.
fn unpack(bytes: &mut [u8], plane: &PlaneLayout, packed: &[u8]) -> Verdict {
    let (offsets, size) = rows(plane)?;
    for (offset, row) in offsets.into_iter().zip(packed.chunks(size)) {
        bytes[offset..offset + size].copy_from_slice(row);
    }
    Ok(())
}

fn videos12(context: &Context) -> Verdict {
    let gpu = open12(context)?;
    for_each(|what| context.leave_out(what), &VIDEO_FORMATS, false, |format| goes_both_ways12(context, &gpu, format))
}

fn goes_both_ways12(context: &Context, gpu: &Gpu12, format: DxgiFormat) -> Verdict {
    let spec = VideoTextureSpec::new(format, video_size(format))?;
    let texture = texture12(gpu, &spec, format)?;
    let layout = spec.footprints(0)?;
    ensure_eq!(
        places(&layout),
        direct3ds_places(gpu, &texture, layout.len())?,
        "footprints of the planes of {format:?}"
    );
    let bytes = layout.iter().filter_map(PlaneLayout::end).max().unwrap_or_default();
    let buffer = ExportableResource::buffer(gpu.interop(), bytes, ResourceFlags::empty())?;
    let planes = layout.iter().map(|plane| (0, *plane)).collect();
    let mapped = MappedPlanes::import(context.device(), vec![buffer.import_request()?], planes)?;
    let stream = context.stream()?;
    let mut pattern = context.pattern();
    for (number, plane) in (0..).zip(&layout) {
        let what = format!("plane {number} of {format:?}");
        let [width, height] = plane.extent;
        let subresource = Subresource {
            texture: &texture,
            number,
            format: spec.plane_format(number as usize).into(),
            extent: [width, height, 1],
            texel: plane.texel.texel_size() as usize,
        };
        let data = pattern.bytes(0, usize::try_from(plane.row_size() * u64::from(height))?);
        gpu.write_texture(subresource, &data)?;
        gpu.copy_plane(subresource, buffer.resource(), plane.offset, Way::Down)?;
        let mut found = vec![0; data.len()];
        mapped.read(&stream, number as usize, &mut found)?;
        pattern.verify(0, &found, format_args!("{what}: Direct3D's data"))?;

        pattern = pattern.other();
        mapped.write(&stream, number as usize, &pattern.bytes(0, data.len()))?;
        gpu.copy_plane(subresource, buffer.resource(), plane.offset, Way::Up)?;
        pattern.verify(0, &gpu.read_texture(subresource)?, format_args!("{what}: the device's data"))?;
    }
    Ok(())
}

/// A texture of this format that is not shared.
fn texture12(gpu: &Gpu12, spec: &VideoTextureSpec, format: DxgiFormat) -> Verdict<ID3D12Resource> {
    let device = gpu.interop().device();
    let mut support = D3D12_FEATURE_DATA_FORMAT_SUPPORT { Format: format.into(), ..Default::default() };
    let size = u32::try_from(size_of_val(&support))?;
    // SAFETY: the structure is that of the feature, and outlives the call.
    unsafe { device.CheckFeatureSupport(D3D12_FEATURE_FORMAT_SUPPORT, (&raw mut support).cast(), size) }?;
    if !support.Support1.contains(D3D12_FORMAT_SUPPORT1_TEXTURE2D) {
        return Err(Stop::unsupported(format!("the device has no textures of {format:?}")));
    }
    let desc = D3D12_RESOURCE_DESC {
        Dimension: D3D12_RESOURCE_DIMENSION_TEXTURE2D,
        Width: spec.extent()[0].into(),
        Height: spec.extent()[1],
        DepthOrArraySize: 1,
        MipLevels: 1,
        Format: format.into(),
        SampleDesc: DXGI_SAMPLE_DESC { Count: 1, Quality: 0 },
        ..D3D12_RESOURCE_DESC::default()
    };
    gpu.unshared(D3D12_HEAP_TYPE_DEFAULT, &desc, D3D12_RESOURCE_STATE_COMMON)
}

/// Offset, row pitch and extent of each plane.
type Places = Vec<(u64, u64, [u32; 2])>;

fn places(layout: &[PlaneLayout]) -> Places {
    layout.iter().map(|plane| (plane.offset, plane.pitch, plane.extent)).collect()
}

/// As Direct3D computes them.
fn direct3ds_places(gpu: &Gpu12, texture: &ID3D12Resource, count: usize) -> Verdict<Places> {
    let mut footprints = vec![D3D12_PLACED_SUBRESOURCE_FOOTPRINT::default(); count];
    let number = u32::try_from(count)?;
    let to = Some(footprints.as_mut_ptr());
    // SAFETY: the resource is live and has a subresource for each plane; the array has as many elements and outlives the
    // call.
    unsafe {
        let desc = texture.GetDesc();
        gpu.interop().device().GetCopyableFootprints(&raw const desc, 0, number, 0, to, None, None, None);
    }
    let place = |placed: &D3D12_PLACED_SUBRESOURCE_FOOTPRINT| {
        let print = placed.Footprint;
        (placed.Offset, u64::from(print.RowPitch), [print.Width, print.Height])
    };
    Ok(footprints.iter().map(place).collect())
}
