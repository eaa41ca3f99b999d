//! Direct3D 11 and 12 as exporters.

pub(super) mod fence;
pub(super) mod misuse;
pub(super) mod resources11;
pub(super) mod resources12;
pub(super) mod video;

use gpu_interop::d3d::d3d11::ExportableResource;
use gpu_interop::d3d::{BindFlags, DxgiFormat, Sharing};
use gpu_interop::handle::ObjectName;
use gpu_interop::{ErrorKind, MappedBuffer, MappedMipmappedArray, MemoryImport, MipmappedArrayDesc};

use crate::context::Context;
use crate::direct3d::{Gpu11, Gpu12};
use crate::outcome::Verdict;

/// Size of most shared buffers, bytes.
const SIZE: usize = 64 << 10;

/// Formats of video textures.
const VIDEO_FORMATS: [DxgiFormat; 4] = [DxgiFormat::NV12, DxgiFormat::P010, DxgiFormat::P016, DxgiFormat::P208];

/// Width and height of a video texture. No row ends at a multiple of an alignment. With an odd height, which only P208 may
/// have, Direct3D 12 leaves a gap before the second plane.
fn video_size(format: DxgiFormat) -> [u32; 2] {
    if format == DxgiFormat::P208 { [198, 113] } else { [198, 114] }
}

/// Direct3D 12 on the device under test.
fn open12(context: &Context) -> Verdict<Gpu12> {
    Gpu12::open(context.device())
}

/// Direct3D 11 on the device under test.
fn open11(context: &Context) -> Verdict<Gpu11> {
    Gpu11::open(context.device())
}

/// Imports a resource of the exporter and maps its first `size` bytes.
fn import_sized(context: &Context, request: MemoryImport, size: usize) -> Verdict<MappedBuffer> {
    Ok(context.device().import_memory(request)?.map_buffer(0..size as u64)?)
}

/// Imports a request and maps all of it.
fn import(context: &Context, request: MemoryImport) -> Verdict<MappedBuffer> {
    Ok(context.device().import_memory(request)?.map_buffer(..)?)
}

/// Maps a texture; `None`, and recorded as omitted, if the device does not support such arrays.
fn map_array(
    context: &Context,
    request: MemoryImport,
    desc: &MipmappedArrayDesc,
    what: &str,
) -> Verdict<Option<MappedMipmappedArray>> {
    match context.device().import_memory(request)?.map_mipmapped_array(desc) {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            context.leave_out(format!("{what}: {error}"));
            Ok(None)
        }
        mapped => Ok(Some(mapped?)),
    }
}

/// A buffer of Direct3D 11.
fn buffer11(gpu: &Gpu11, size: usize, sharing: Sharing) -> Verdict<ExportableResource> {
    Ok(ExportableResource::buffer(gpu.interop(), size as u64, BindFlags::SHADER_RESOURCE, sharing)?)
}

/// A name that no other process and no other scenario uses.
fn name(of: &str) -> Verdict<ObjectName> {
    Ok(ObjectName::new(&format!("gpu-interop-conformance-{}-{of}", std::process::id()))?)
}
