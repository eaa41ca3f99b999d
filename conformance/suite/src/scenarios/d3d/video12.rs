//! Video textures of Direct3D 12.

use gpu_interop::d3d::d3d12::ExportableResource;
use gpu_interop::d3d::windows::Win32::Graphics::Direct3D12::{
    D3D12_FEATURE_DATA_FORMAT_SUPPORT, D3D12_FEATURE_FORMAT_SUPPORT, D3D12_FORMAT_SUPPORT1_TEXTURE2D,
    D3D12_HEAP_TYPE_DEFAULT, D3D12_PLACED_SUBRESOURCE_FOOTPRINT, D3D12_RESOURCE_DESC,
    D3D12_RESOURCE_DIMENSION_TEXTURE2D, D3D12_RESOURCE_STATE_COMMON, ID3D12Resource,
};
use gpu_interop::d3d::windows::Win32::Graphics::Dxgi::Common::DXGI_SAMPLE_DESC;
use gpu_interop::d3d::{DxgiFormat, ResourceFlags, VideoTextureSpec};
use gpu_interop::{MappedPlanes, PlaneLayout};

use super::{VIDEO_FORMATS, open12, video_size};
use crate::direct3d::{Gpu12, Subresource, Way};
use crate::image::for_each;
use crate::scenario::scenarios;
use crate::{Context, Stop, Verdict, ensure_eq};

scenarios! {
    "d3d.video_12", None,
        "The planes of NV12, P010, P016 and P208 textures of Direct3D 12 are copied to a shared buffer, in the layout that \
         Direct3D computes, and back: every byte in both directions.",
        videos, needs [memory D3d12Resource, MappedBuffer];
}

fn videos(context: &Context) -> Verdict {
    let gpu = open12(context)?;
    for_each(|what| context.leave_out(what), &VIDEO_FORMATS, false, |format| goes_both_ways(context, &gpu, format))
}

fn goes_both_ways(context: &Context, gpu: &Gpu12, format: DxgiFormat) -> Verdict {
    let spec = VideoTextureSpec::new(format, video_size(format))?;
    let texture = texture(gpu, &spec, format)?;
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
        pattern.verify(0, &found, &format!("{what}: Direct3D's data"))?;

        pattern = pattern.other();
        mapped.write(&stream, number as usize, &pattern.bytes(0, data.len()))?;
        gpu.copy_plane(subresource, buffer.resource(), plane.offset, Way::Up)?;
        pattern.verify(0, &gpu.read_texture(subresource)?, &format!("{what}: the device's data"))?;
    }
    Ok(())
}

/// A texture of this format that is not shared.
fn texture(gpu: &Gpu12, spec: &VideoTextureSpec, format: DxgiFormat) -> Verdict<ID3D12Resource> {
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
