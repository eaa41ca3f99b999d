//! Direct3D 11 and 12 as the exporter's side.

mod fence;
mod keyed_mutex;
mod leaks;
mod memory11;
mod memory12;
mod refusal;
mod texture12;

use gpu_interop::d3d::d3d11::ExportableResource;
use gpu_interop::d3d::{BindFlags, Sharing};
use gpu_interop::handle::ObjectName;
use gpu_interop::{ErrorKind, MappedBuffer, MappedMipmappedArray, MemoryImport, MipmappedArrayDesc};

use crate::context::Context;
use crate::direct3d::{Gpu11, Gpu12};
use crate::outcome::Verdict;
use crate::scenario::Scenario;

/// The scenarios of this group.
pub(super) fn scenarios() -> Vec<Scenario> {
    [
        memory12::SCENARIOS,
        texture12::SCENARIOS,
        fence::SCENARIOS,
        memory11::SCENARIOS,
        keyed_mutex::SCENARIOS,
        refusal::SCENARIOS,
        leaks::SCENARIOS,
    ]
    .concat()
}

/// Bytes that most of these share.
const SIZE: usize = 64 << 10;

/// The device's Direct3D 12, for handles of a kind that the device imports.
fn open12(context: &Context, kinds: &[gpu_interop::MemoryHandleKind]) -> Verdict<Gpu12> {
    kinds.iter().try_for_each(|kind| context.need_memory(*kind))?;
    Gpu12::open(context.device())
}

/// As [`open12`], Direct3D 11.
fn open11(context: &Context, sharing: &[Sharing]) -> Verdict<Gpu11> {
    sharing.iter().try_for_each(|sharing| context.need_memory(sharing.memory_handle_kind()))?;
    Gpu11::open(context.device())
}

/// Stops unless the device imports keyed mutexes of these kinds.
fn need_mutexes(context: &Context, sharing: &[Sharing]) -> Verdict {
    let mut kinds = sharing.iter().filter_map(|sharing| sharing.semaphore_handle_kind());
    kinds.try_for_each(|kind| context.need_semaphore(kind))
}

/// All of what a request is for.
fn import(context: &Context, request: MemoryImport) -> Verdict<MappedBuffer> {
    Ok(context.device().import_memory(request)?.map_buffer(..)?)
}

/// Maps a texture; `None`, and recorded as left out, if the device has no such arrays.
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
