//! Committed resources that other APIs can import, and resource descriptions.

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

/// Content of a resource.
#[derive(Debug, Clone, Copy)]
pub(super) enum Content {
    /// Size, bytes.
    Buffer(u64),
    Texture(TextureSpec),
}

/// A checked description of a resource to create.
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
            return Err(Error::invalid(operation, "the size is 0 bytes; use at least 1"));
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
            // The layout stays unknown, the driver's own, which the importer's driver shares.
            Flags: flags.into(),
            ..D3D12_RESOURCE_DESC::default()
        };
        Ok(Self { content: Content::Texture(*texture), flags, desc })
    }

    /// The array description of a texture at `offset`, for an importer.
    pub(super) fn array_desc(&self, operation: &'static str, offset: u64) -> Result<MipmappedArrayDesc> {
        match self.content {
            Content::Texture(texture) => Ok(texture.array_desc(array_usage(self.flags))?.with_offset(offset)),
            Content::Buffer(_) => Err(Error::invalid(operation, "a buffer is not an array; map it as a buffer")),
        }
    }

    /// Size of the content, bytes: that of a buffer, or of the tightly packed texels.
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
    Err(Error::unsupported(operation, "this kind of shared resource does not support these flags")
        .with_context("flags", format_args!("{flags:?}"))
        .with_context("supported", format_args!("{known:?}")))
}

/// A committed resource, buffer or texture, whose memory can be exported. The memory is freed when this object, every
/// handle and every import are released.
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
    /// Creates a buffer of `size` bytes; of the flags, `ALLOW_UNORDERED_ACCESS` is supported. Rests on
    /// `ID3D12Device::CreateCommittedResource` with `D3D12_HEAP_FLAG_SHARED`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a size of 0, `Unsupported` for
    /// other flags or if the device does not support such a resource, `OutOfMemory`, or the driver's error.
    pub fn buffer(interop: &D3d12Interop, size: u64, flags: ResourceFlags) -> Result<Self> {
        Self::create(interop, Plan::buffer("ExportableResource::buffer", size, flags)?)
    }

    /// Creates a texture; of the flags, `ALLOW_RENDER_TARGET`, `ALLOW_UNORDERED_ACCESS` and `ALLOW_SIMULTANEOUS_ACCESS`
    /// are supported. Calls `ID3D12Device::CreateCommittedResource` with `D3D12_HEAP_FLAG_SHARED`.
    ///
    /// # Errors
    /// Those of [`TextureSpec::array_desc`], before any driver call; otherwise as [`buffer`](Self::buffer).
    pub fn texture(interop: &D3d12Interop, texture: &TextureSpec, flags: ResourceFlags) -> Result<Self> {
        Self::create(interop, Plan::texture("ExportableResource::texture", texture, flags)?)
    }

    fn create(interop: &D3d12Interop, plan: Plan) -> Result<Self> {
        let size = interop.allocation(&plan.desc)?.SizeInBytes;
        let memory = interop.memory();
        let mut resource = None;
        // SAFETY: the descriptions are plain data that outlives the call; the requested interface is the type of
        // `resource`.
        let result = unsafe {
            interop.device().CreateCommittedResource(
                &raw const memory,
                D3D12_HEAP_FLAG_SHARED,
                &raw const plan.desc,
                D3D12_RESOURCE_STATE_COMMON,
                None,
                &raw mut resource,
            )
        };
        let resource = created("ID3D12Device::CreateCommittedResource", result, resource)
            .map_err(|error| interop.failed(error).with_context("content", format_args!("{:?}", plan.content)))?;
        Ok(Self { interop: interop.clone(), resource, plan, size })
    }

    /// The resource.
    #[must_use]
    pub fn resource(&self) -> &ID3D12Resource {
        &self.resource
    }

    /// Size of the allocation, bytes, as in import requests; at least the requested size.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The array description of a texture, for an importer.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a buffer.
    pub fn array_desc(&self) -> Result<MipmappedArrayDesc> {
        self.plan.array_desc("ExportableResource::array_desc", 0)
    }

    fn share(&self, name: Option<&ObjectName>) -> Result<NtHandle> {
        self.interop.share(&self.resource, name)
    }

    /// Builds the request for a handle that was just exported from this resource.
    fn request(&self, handle: MemoryHandle) -> MemoryImport {
        // SAFETY: Direct3D just shared this resource as the handle, or under the name in it, for which the caller adds
        // a handle to the request. The variant is that of a resource. It is a committed resource, with a dedicated
        // allocation of the size that the device reports, and not native memory of a compute backend. The exporting
        // device is named.
        let request = unsafe { MemoryImport::new(handle, self.size).dedicated(true) };
        let request = request.exported_by(self.interop.identity().clone());
        match self.array_desc() {
            // SAFETY: the texture was created with this description.
            Ok(desc) => unsafe { request.of_image(desc) },
            // A buffer has none.
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
