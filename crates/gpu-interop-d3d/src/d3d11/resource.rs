//! Buffers and textures that other APIs can import.

use std::sync::Arc;

use gpu_interop_core::handle::{KmtHandle, NtHandle, ObjectName};
use gpu_interop_core::{Error, MemoryHandle, MemoryHandleKind, MemoryImport, MipmappedArrayDesc, Result};
use windows::Win32::Graphics::Direct3D11::{
    D3D11_BUFFER_DESC, D3D11_TEXTURE1D_DESC, D3D11_TEXTURE2D_DESC, D3D11_TEXTURE3D_DESC, D3D11_USAGE_DEFAULT,
    ID3D11Buffer, ID3D11Resource, ID3D11Texture1D, ID3D11Texture2D, ID3D11Texture3D,
};
use windows::Win32::Graphics::Dxgi::Common::DXGI_SAMPLE_DESC;
use windows::Win32::Graphics::Dxgi::{IDXGIResource, IDXGIResource1};
use windows::core::Interface;

use super::interop::{ACCESS, D3d11Interop};
use crate::dimension::SrvDimension;
use crate::flags::Sharing;
use crate::flags::{BindFlags, MiscFlags, array_usage_of_bindings};
use crate::handle::{Checked, created, exported, given, keep_handle, with_name};
use crate::texture::TextureSpec;

/// A buffer or texture whose memory can be exported. The memory is freed when this object, every NT handle and every
/// import are released.
#[derive(Debug, Clone)]
pub struct ExportableResource {
    interop: D3d11Interop,
    resource: ID3D11Resource,
    texture: Option<(TextureSpec, BindFlags)>,
    sharing: Sharing,
    size: u64,
}

impl ExportableResource {
    /// Creates a buffer of `size` bytes, usable for `bind`. Calls `ID3D11Device::CreateBuffer`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a size of 0 or of 4 GiB or
    /// more, `Unsupported` if the device does not support such buffers, `OutOfMemory`, or the driver's error.
    pub fn buffer(interop: &D3d11Interop, size: u64, bind: BindFlags, sharing: Sharing) -> Result<Self> {
        let bytes = u32::try_from(size).ok().filter(|bytes| *bytes > 0);
        let desc = D3D11_BUFFER_DESC {
            ByteWidth: bytes.ok_or_else(|| {
                Error::invalid("ExportableResource::buffer", "a Direct3D 11 buffer has from 1 to 2^32 - 1 bytes")
                    .with_context("size", size)
            })?,
            Usage: D3D11_USAGE_DEFAULT,
            BindFlags: bind.bits(),
            MiscFlags: sharing.misc_flags().bits(),
            ..D3D11_BUFFER_DESC::default()
        };
        let mut buffer: Option<ID3D11Buffer> = None;
        // SAFETY: the description is plain data that outlives the call; no initial data is passed.
        let result = unsafe { interop.device().CreateBuffer(&raw const desc, None, Some(&raw mut buffer)) };
        let buffer = created("ID3D11Device::CreateBuffer", result, buffer)
            .map_err(|error| interop.failed(error).with_context("size", size).with_context("sharing", text(sharing)))?;
        Ok(Self { interop: interop.clone(), resource: buffer.into(), texture: None, sharing, size })
    }

    /// Creates a texture; of the flags, `SHADER_RESOURCE`, `RENDER_TARGET` and `UNORDERED_ACCESS` are supported. Rests
    /// on `ID3D11Device::CreateTexture1D`, `CreateTexture2D` and `CreateTexture3D`.
    ///
    /// # Errors
    /// Those of [`TextureSpec::array_desc`] and `Unsupported` for other flags, before any driver call;
    /// `Unsupported` if the device does not support such textures, `OutOfMemory`, or the driver's error.
    pub fn texture(interop: &D3d11Interop, texture: &TextureSpec, bind: BindFlags, sharing: Sharing) -> Result<Self> {
        const OPERATION: &str = "ExportableResource::texture";
        texture.check(OPERATION)?;
        let known = BindFlags::SHADER_RESOURCE | BindFlags::RENDER_TARGET | BindFlags::UNORDERED_ACCESS;
        if !known.contains(bind) {
            return Err(Error::unsupported(OPERATION, "a shared texture does not support these flags")
                .with_context("flags", format_args!("{bind:?}"))
                .with_context("supported", format_args!("{known:?}")));
        }
        let size = texture.packed_size()?;
        let resource = create(interop, texture, bind, sharing).map_err(|error| {
            interop
                .failed(error)
                .with_context("texture", format_args!("{texture:?}"))
                .with_context("sharing", text(sharing))
        })?;
        Ok(Self { interop: interop.clone(), resource, texture: Some((*texture, bind)), sharing, size })
    }

    /// The resource.
    #[must_use]
    pub fn resource(&self) -> &ID3D11Resource {
        &self.resource
    }

    /// Size of the buffer, or of the tightly packed texels of the texture, bytes. Direct3D 11 does not report the size
    /// of the allocation.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The sharing mode.
    #[must_use]
    pub fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// The array description of a texture, for an importer.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a buffer.
    pub fn array_desc(&self) -> Result<MipmappedArrayDesc> {
        match &self.texture {
            Some((texture, bind)) => texture.array_desc(array_usage_of_bindings(*bind)),
            None => {
                Err(Error::invalid("ExportableResource::array_desc", "a buffer is not an array; map it as a buffer"))
            }
        }
    }

    /// Exports the memory: a new NT handle, owned by the caller, that keeps the memory alive, or the KMT handle, a
    /// number valid as long as the resource. Calls `IDXGIResource1::CreateSharedHandle` or
    /// `IDXGIResource::GetSharedHandle`.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) if this implementation of Direct3D does
    /// not support sharing; otherwise the driver's error. No handle is left open.
    pub fn export(&self) -> Result<MemoryHandle> {
        if self.sharing.is_nt() {
            return Ok(MemoryHandle::D3d11Resource(self.nt_handle(None)?.into()));
        }
        Ok(MemoryHandle::D3d11ResourceKmt(self.kmt_handle()?))
    }

    /// Exports the memory as an import request: handle, size, dedicated flag, device identity, and for a texture its
    /// description ([`array_desc`](Self::array_desc)). With a KMT handle, the request keeps the resource alive.
    ///
    /// # Errors
    /// As [`export`](Self::export).
    pub fn import_request(&self) -> Result<MemoryImport> {
        Ok(self.request(self.export()?))
    }

    /// Exports the memory under a name, and returns a request with the name instead of the handle. The name is valid in
    /// this and other processes of the session until the returned handle and all other handles to the object are
    /// closed; the request keeps one open until it is dropped.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the name is taken or longer than
    /// 260 UTF-16 code units, or the resource is shared by KMT handle; otherwise as [`export`](Self::export).
    pub fn import_request_by_name(&self, name: &ObjectName) -> Result<(NtHandle, MemoryImport)> {
        self.check_named("ExportableResource::import_request_by_name")?;
        let handle = self.nt_handle(Some(name))?;
        let request = self.request(MemoryHandle::D3d11Resource(name.clone().into()));
        let request =
            keep_handle(&handle, request, MemoryImport::keeping).map_err(|error| self.interop.failed(error))?;
        Ok((handle, request))
    }

    /// Rejects a resource without an NT handle, which cannot have a name.
    pub(super) fn check_named(&self, operation: &'static str) -> Result<()> {
        if self.sharing.is_nt() {
            return Ok(());
        }
        Err(Error::invalid(operation, "only resources shared by NT handle have names")
            .with_context("sharing", text(self.sharing)))
    }

    pub(super) fn interop(&self) -> &D3d11Interop {
        &self.interop
    }

    pub(super) fn nt_handle(&self, name: Option<&ObjectName>) -> Result<NtHandle> {
        const OPERATION: &str = "IDXGIResource1::CreateSharedHandle";
        let resource: IDXGIResource1 = self.query()?;
        with_name(OPERATION, name, |name| {
            // SAFETY: the resource is a live object, the name ends with NUL and outlives the call.
            let result = unsafe { resource.CreateSharedHandle(None, ACCESS, name) };
            // SAFETY: the method creates a new handle for its caller.
            unsafe { exported(OPERATION, result) }
        })
        .map_err(|error| self.interop.failed(error))
    }

    pub(super) fn kmt_handle(&self) -> Result<KmtHandle> {
        const OPERATION: &str = "IDXGIResource::GetSharedHandle";
        let resource: IDXGIResource = self.query()?;
        // SAFETY: the resource is a live object; the call has no arguments.
        let result = unsafe { resource.GetSharedHandle() };
        given(OPERATION, result)
            .and_then(|handle| KmtHandle::new(handle.0.addr()))
            .map_err(|error| self.interop.failed(error))
    }

    pub(super) fn query<T: Interface>(&self) -> Result<T> {
        self.resource.cast().checked("ID3D11Resource::QueryInterface").map_err(|error| self.interop.failed(error))
    }

    /// Builds the request for a handle that was just exported from this resource.
    fn request(&self, handle: MemoryHandle) -> MemoryImport {
        let is_kmt = handle.kind() == MemoryHandleKind::D3d11ResourceKmt;
        // SAFETY: Direct3D just shared this resource as the handle, or under the name in it, for which the caller adds
        // a handle to the request; with a KMT handle the request keeps the resource alive, below. The variant is that
        // of a resource, which is a dedicated allocation of that size and not native memory of a compute backend. The
        // exporting device is named.
        let request = unsafe { MemoryImport::new(handle, self.size).dedicated(true) };
        let request = request.exported_by(self.interop.identity().clone());
        let request = if is_kmt { request.keeping(Arc::new(self.clone())) } else { request };
        match self.array_desc() {
            // SAFETY: the texture was created with this description.
            Ok(desc) => unsafe { request.of_image(desc) },
            // A buffer has none.
            Err(_) => request,
        }
    }
}

pub(super) fn text(sharing: Sharing) -> String {
    format!("{sharing:?}")
}

fn create(interop: &D3d11Interop, texture: &TextureSpec, bind: BindFlags, sharing: Sharing) -> Result<ID3D11Resource> {
    let device = interop.device();
    let width = u32::try_from(texture.width).map_err(|_| {
        Error::invalid("ExportableResource::texture", "a Direct3D 11 texture is at most 2^32 - 1 texels wide")
    })?;
    let (format, levels) = (texture.format.into(), u32::from(texture.levels));
    let (depth_or_layers, bind) = (u32::from(texture.depth_or_array_size), bind.bits());
    let mut misc = sharing.misc_flags();
    macro_rules! create {
        ($desc:ident, $interface:ident, $method:ident, { $($field:ident: $value:expr),+ }) => {{
            let desc = $desc {
                Width: width,
                MipLevels: levels,
                Format: format,
                Usage: D3D11_USAGE_DEFAULT,
                BindFlags: bind,
                CPUAccessFlags: 0,
                MiscFlags: misc.bits(),
                $($field: $value),+
            };
            let mut texture: Option<$interface> = None;
            // SAFETY: the description is plain data that outlives the call; no initial data is passed.
            let result = unsafe { device.$method(&raw const desc, None, Some(&raw mut texture)) };
            created(concat!("ID3D11Device::", stringify!($method)), result, texture).map(Into::into)
        }};
    }
    let height = texture.height;
    match texture.dimension {
        SrvDimension::TEXTURE1D | SrvDimension::TEXTURE1DARRAY => {
            create!(D3D11_TEXTURE1D_DESC, ID3D11Texture1D, CreateTexture1D, { ArraySize: depth_or_layers })
        }
        SrvDimension::TEXTURE3D => {
            create!(D3D11_TEXTURE3D_DESC, ID3D11Texture3D, CreateTexture3D, { Height: height, Depth: depth_or_layers })
        }
        view => {
            if matches!(view, SrvDimension::TEXTURECUBE | SrvDimension::TEXTURECUBEARRAY) {
                misc |= MiscFlags::TEXTURECUBE;
            }
            create!(D3D11_TEXTURE2D_DESC, ID3D11Texture2D, CreateTexture2D, {
                Height: height,
                ArraySize: depth_or_layers,
                SampleDesc: DXGI_SAMPLE_DESC { Count: 1, Quality: 0 }
            })
        }
    }
}
