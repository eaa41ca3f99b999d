//! Committed resources that other APIs can import, and what resources are described with.

use gpu_interop_core::handle::{NtHandle, ObjectName};
use gpu_interop_core::{Error, MemoryHandle, MemoryImport, MipmappedArrayDesc, Result};
use windows::Win32::Graphics::Direct3D12::{
    D3D12_HEAP_FLAG_SHARED, D3D12_RESOURCE_DESC, D3D12_RESOURCE_DIMENSION, D3D12_RESOURCE_DIMENSION_BUFFER,
    D3D12_RESOURCE_DIMENSION_TEXTURE1D, D3D12_RESOURCE_DIMENSION_TEXTURE2D, D3D12_RESOURCE_DIMENSION_TEXTURE3D,
    D3D12_RESOURCE_STATE_COMMON, D3D12_TEXTURE_LAYOUT_ROW_MAJOR, ID3D12Resource,
};
use windows::Win32::Graphics::Dxgi::Common::DXGI_SAMPLE_DESC;

use super::interop::D3d12Interop;
use crate::dimension::SrvDimension;
use crate::flags::{ResourceFlags, array_usage};
use crate::handle::{created, keep_handle};
use crate::texture::TextureSpec;

/// What a resource holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Content {
    /// Bytes.
    Buffer(u64),
    Texture(TextureSpec),
}

/// A legal resource that is not created yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) content: Content,
    pub(super) flags: ResourceFlags,
    pub(super) desc: D3D12_RESOURCE_DESC,
}

const SINGLE_SAMPLE: DXGI_SAMPLE_DESC = DXGI_SAMPLE_DESC { Count: 1, Quality: 0 };

impl Plan {
    pub(super) fn buffer(operation: &'static str, size: u64, flags: ResourceFlags) -> Result<Self> {
        if size == 0 {
            return Err(Error::invalid(operation, "the size is 0 bytes; ask for at least one"));
        }
        check_flags(operation, flags, ResourceFlags::ALLOW_UNORDERED_ACCESS)?;
        let desc = D3D12_RESOURCE_DESC {
            Dimension: D3D12_RESOURCE_DIMENSION_BUFFER,
            Width: size,
            Height: 1,
            DepthOrArraySize: 1,
            MipLevels: 1,
            SampleDesc: SINGLE_SAMPLE,
            Layout: D3D12_TEXTURE_LAYOUT_ROW_MAJOR,
            Flags: flags.into(),
            ..D3D12_RESOURCE_DESC::default()
        };
        Ok(Self { content: Content::Buffer(size), flags, desc })
    }

    pub(super) fn texture(operation: &'static str, texture: &TextureSpec, flags: ResourceFlags) -> Result<Self> {
        texture.check(operation)?;
        let known = ResourceFlags::ALLOW_RENDER_TARGET
            | ResourceFlags::ALLOW_UNORDERED_ACCESS
            | ResourceFlags::ALLOW_SIMULTANEOUS_ACCESS;
        check_flags(operation, flags, known)?;
        let desc = D3D12_RESOURCE_DESC {
            Dimension: dimension(texture.dimension),
            Width: texture.width,
            Height: texture.height,
            DepthOrArraySize: texture.depth_or_array_size,
            MipLevels: texture.levels,
            Format: texture.format.into(),
            SampleDesc: SINGLE_SAMPLE,
            // Where the texels are is up to the driver, which the importer shares.
            Flags: flags.into(),
            ..D3D12_RESOURCE_DESC::default()
        };
        Ok(Self { content: Content::Texture(*texture), flags, desc })
    }

    /// What an importer maps a texture with that starts at `offset`.
    pub(super) fn array_desc(&self, operation: &'static str, offset: u64) -> Result<MipmappedArrayDesc> {
        match self.content {
            Content::Texture(texture) => Ok(texture.array_desc(array_usage(self.flags))?.with_offset(offset)),
            Content::Buffer(_) => Err(Error::invalid(operation, "a buffer is no array; map it as a buffer")),
        }
    }

    /// Bytes that the application asked for: a buffer's own size, the texels of a texture.
    pub(super) fn payload_size(&self) -> Result<u64> {
        match self.content {
            Content::Buffer(size) => Ok(size),
            Content::Texture(texture) => texture.packed_size(),
        }
    }
}

fn dimension(view: SrvDimension) -> D3D12_RESOURCE_DIMENSION {
    match view {
        SrvDimension::TEXTURE1D | SrvDimension::TEXTURE1DARRAY => D3D12_RESOURCE_DIMENSION_TEXTURE1D,
        SrvDimension::TEXTURE3D => D3D12_RESOURCE_DIMENSION_TEXTURE3D,
        _ => D3D12_RESOURCE_DIMENSION_TEXTURE2D,
    }
}

fn check_flags(operation: &'static str, flags: ResourceFlags, known: ResourceFlags) -> Result<()> {
    if known.contains(flags) {
        return Ok(());
    }
    Err(Error::unsupported(operation, "a shared resource of this sort has no such flag")
        .with_context("flags", format_args!("{flags:?}"))
        .with_context("possible", format_args!("{known:?}")))
}

/// A committed resource, buffer or texture, whose memory can be exported. The device frees it once this, every handle
/// and every importer are gone.
///
/// It is created in `D3D12_RESOURCE_STATE_COMMON`, and must be in that state whenever the other API uses it.
#[derive(Debug, Clone)]
pub struct ExportableResource {
    interop: D3d12Interop,
    resource: ID3D12Resource,
    plan: Plan,
    size: u64,
}

impl ExportableResource {
    /// A buffer of `size` bytes; of the flags, `ALLOW_UNORDERED_ACCESS` is possible. Rests on
    /// `ID3D12Device::CreateCommittedResource` with `D3D12_HEAP_FLAG_SHARED`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a size of 0, `Unsupported` for
    /// other flags or if the device has no such resource, `OutOfMemory`, or what else the driver answers.
    pub fn buffer(interop: &D3d12Interop, size: u64, flags: ResourceFlags) -> Result<Self> {
        Self::create(interop, Plan::buffer("ExportableResource::buffer", size, flags)?)
    }

    /// A texture; of the flags, `ALLOW_RENDER_TARGET`, `ALLOW_UNORDERED_ACCESS` and `ALLOW_SIMULTANEOUS_ACCESS` are
    /// possible. Rests on `ID3D12Device::CreateCommittedResource` with `D3D12_HEAP_FLAG_SHARED`.
    ///
    /// # Errors
    /// Those of [`TextureSpec::array_desc`], found before the device is asked; otherwise as [`buffer`](Self::buffer).
    pub fn texture(interop: &D3d12Interop, texture: &TextureSpec, flags: ResourceFlags) -> Result<Self> {
        Self::create(interop, Plan::texture("ExportableResource::texture", texture, flags)?)
    }

    fn create(interop: &D3d12Interop, plan: Plan) -> Result<Self> {
        let size = interop.allocation(&plan.desc)?.SizeInBytes;
        let memory = interop.memory();
        let mut resource = None;
        // SAFETY: the descriptions are plain data that outlives the call; the resource is asked for by the interface
        // that it is kept as.
        let answer = unsafe {
            interop.device().CreateCommittedResource(
                &raw const memory,
                D3D12_HEAP_FLAG_SHARED,
                &raw const plan.desc,
                D3D12_RESOURCE_STATE_COMMON,
                None,
                &raw mut resource,
            )
        };
        let resource = created("ID3D12Device::CreateCommittedResource", answer, resource)
            .map_err(|error| interop.failed(error).with_context("content", format_args!("{:?}", plan.content)))?;
        Ok(Self { interop: interop.clone(), resource, plan, size })
    }

    /// The resource.
    #[must_use]
    pub fn resource(&self) -> &ID3D12Resource {
        &self.resource
    }

    /// Size of the allocation, bytes, as an importer is told it; at least what was asked for.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What an importer maps a texture with.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a buffer.
    pub fn array_desc(&self) -> Result<MipmappedArrayDesc> {
        self.plan.array_desc("ExportableResource::array_desc", 0)
    }

    fn share(&self, name: Option<&ObjectName>) -> Result<NtHandle> {
        self.interop.share(&self.resource, name)
    }

    /// `handle` is of this resource: its callers have just shared it.
    fn request(&self, handle: MemoryHandle) -> MemoryImport {
        // SAFETY: Direct3D shared this resource just before as the handle, or by the name that is in it, of which the request
        // is given a handle to keep. The variant is that of a resource. It is a committed one, with a dedicated allocation of
        // the size that the device says it takes, and no compute backend's. The device that exported it is named.
        let request = unsafe { MemoryImport::new(handle, self.size).dedicated(true) };
        let request = request.exported_by(self.interop.identity().clone());
        match self.array_desc() {
            // SAFETY: the texture was created with what it is described by.
            Ok(desc) => unsafe { request.of_image(desc) },
            // A buffer is no array.
            Err(_) => request,
        }
    }
}

nt_exports!(
    ExportableResource,
    "memory",
    "ID3D12Device::CreateSharedHandle",
    MemoryHandle::D3d12Resource,
    MemoryImport,
    "handle, allocation size, dedicated flag, device identity, and for a texture its description (`array_desc`)"
);
