//! Heaps that other APIs can import, and resources placed on them.

use gpu_interop_core::handle::{NtHandle, ObjectName};
use gpu_interop_core::{Error, MemoryHandle, MemoryImport, MipmappedArrayDesc, Result};
use windows::Win32::Graphics::Direct3D12::{
    D3D12_FEATURE_D3D12_OPTIONS, D3D12_FEATURE_DATA_D3D12_OPTIONS, D3D12_HEAP_DESC,
    D3D12_HEAP_FLAG_ALLOW_ALL_BUFFERS_AND_TEXTURES, D3D12_HEAP_FLAG_ALLOW_ONLY_BUFFERS,
    D3D12_HEAP_FLAG_ALLOW_ONLY_NON_RT_DS_TEXTURES, D3D12_HEAP_FLAG_ALLOW_ONLY_RT_DS_TEXTURES, D3D12_HEAP_FLAG_SHARED,
    D3D12_HEAP_FLAGS, D3D12_RESOURCE_HEAP_TIER_2, D3D12_RESOURCE_STATE_COMMON, ID3D12Heap, ID3D12Resource,
};

use super::interop::D3d12Interop;
use super::resource::{Content, Plan};
use crate::flags::ResourceFlags;
use crate::handle::{Checked, created, keep_handle};
use crate::texture::TextureSpec;

/// `D3D12_DEFAULT_RESOURCE_PLACEMENT_ALIGNMENT`, bytes.
const ALIGNMENT: u64 = 64 << 10;

/// Kinds of resources that may be placed on a heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HeapContents {
    /// Buffers.
    Buffers,
    /// Textures without `ALLOW_RENDER_TARGET`.
    Textures,
    /// Textures with `ALLOW_RENDER_TARGET`.
    RenderTargets,
    /// All of these. Needs `D3D12_RESOURCE_HEAP_TIER_2`.
    Any,
}

impl HeapContents {
    fn flags(self) -> D3D12_HEAP_FLAGS {
        match self {
            Self::Buffers => D3D12_HEAP_FLAG_ALLOW_ONLY_BUFFERS,
            Self::Textures => D3D12_HEAP_FLAG_ALLOW_ONLY_NON_RT_DS_TEXTURES,
            Self::RenderTargets => D3D12_HEAP_FLAG_ALLOW_ONLY_RT_DS_TEXTURES,
            Self::Any => D3D12_HEAP_FLAG_ALLOW_ALL_BUFFERS_AND_TEXTURES,
        }
    }

    fn of(plan: &Plan) -> Self {
        match plan.content {
            Content::Buffer(_) => Self::Buffers,
            Content::Texture(_) if plan.flags.contains(ResourceFlags::ALLOW_RENDER_TARGET) => Self::RenderTargets,
            Content::Texture(_) => Self::Textures,
        }
    }
}

/// Options of an [`ExportableHeap`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeapOptions {
    /// Size, bytes; rounded up to a multiple of 64 KiB.
    pub size: u64,
    /// The resources that may be placed on it.
    pub contents: HeapContents,
}

impl HeapOptions {
    /// Creates the options of a heap of at least `size` bytes.
    #[must_use]
    pub fn new(size: u64, contents: HeapContents) -> Self {
        Self { size, contents }
    }
}

/// A heap in device memory that can be exported. The memory is freed when this object, the placed resources, every
/// handle and every import are released.
#[derive(Debug, Clone)]
pub struct ExportableHeap {
    interop: D3d12Interop,
    heap: ID3D12Heap,
    options: HeapOptions,
}

impl ExportableHeap {
    /// Creates a heap. Calls `ID3D12Device::CreateHeap` with `D3D12_HEAP_FLAG_SHARED`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a size of 0 or beyond 64 bits,
    /// `Unsupported` if the device lacks heaps for such contents, `OutOfMemory`, or the driver's error.
    pub fn new(interop: &D3d12Interop, options: &HeapOptions) -> Result<Self> {
        const OPERATION: &str = "ExportableHeap::new";
        let size = options.size.checked_next_multiple_of(ALIGNMENT).filter(|size| *size > 0);
        let size = size.ok_or_else(|| {
            Error::invalid(OPERATION, "the size is 0 or exceeds 64 bits").with_context("size", options.size)
        })?;
        if options.contents == HeapContents::Any {
            check_mixed_heaps(interop)?;
        }
        let desc = D3D12_HEAP_DESC {
            SizeInBytes: size,
            Properties: interop.memory(),
            Alignment: ALIGNMENT,
            Flags: D3D12_HEAP_FLAG_SHARED | options.contents.flags(),
        };
        let mut heap = None;
        // SAFETY: the description is plain data that outlives the call; the requested interface is the type of `heap`.
        let result = unsafe { interop.device().CreateHeap(&raw const desc, &raw mut heap) };
        let heap = created("ID3D12Device::CreateHeap", result, heap)
            .map_err(|error| interop.failed(error).with_context("size", size))?;
        Ok(Self { interop: interop.clone(), heap, options: HeapOptions { size, ..*options } })
    }

    /// The heap.
    #[must_use]
    pub fn heap(&self) -> &ID3D12Heap {
        &self.heap
    }

    /// Size, bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.options.size
    }

    fn share(&self, name: Option<&ObjectName>) -> Result<NtHandle> {
        self.interop.share(&self.heap, name)
    }

    /// Builds the request for a handle that was just exported from this heap.
    fn request(&self, handle: MemoryHandle) -> MemoryImport {
        // SAFETY: Direct3D just shared this heap as the handle, or under the name in it, for which the caller adds a
        // handle to the request. The variant is that of a heap. The size is that of the heap; a heap is not a dedicated
        // allocation and not native memory of a compute backend. The exporting device is named.
        let request = unsafe { MemoryImport::new(handle, self.size()) };
        request.exported_by(self.interop.identity().clone())
    }

    /// Places a buffer of `size` bytes at `offset`, where an importer of the heap maps it. Calls
    /// `ID3D12Device::CreatePlacedResource`. Resources may overlap; the application then synchronises their use.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the heap was not created for
    /// buffers, the offset is not a multiple of the required alignment, or the buffer ends past the heap; otherwise as
    /// [`ExportableResource::buffer`](super::ExportableResource::buffer).
    pub fn place_buffer(&self, offset: u64, size: u64, flags: ResourceFlags) -> Result<PlacedResource> {
        const OPERATION: &str = "ExportableHeap::place_buffer";
        self.place(OPERATION, offset, Plan::buffer(OPERATION, size, flags)?)
    }

    /// Places a texture at `offset`, where an importer of the heap maps it. Calls `ID3D12Device::CreatePlacedResource`.
    ///
    /// # Errors
    /// As [`place_buffer`](Self::place_buffer) and
    /// [`ExportableResource::texture`](super::ExportableResource::texture).
    pub fn place_texture(&self, offset: u64, texture: &TextureSpec, flags: ResourceFlags) -> Result<PlacedResource> {
        const OPERATION: &str = "ExportableHeap::place_texture";
        self.place(OPERATION, offset, Plan::texture(OPERATION, texture, flags)?)
    }

    fn place(&self, operation: &'static str, offset: u64, plan: Plan) -> Result<PlacedResource> {
        let needs = self.interop.allocation(&plan.desc)?;
        let invalid = |message: String| {
            let error = Error::invalid(operation, message).with_context("offset", offset);
            Err(error.with_context("size", needs.SizeInBytes).with_context("heap", format_args!("{:?}", self.options)))
        };
        if self.options.contents != HeapContents::Any && self.options.contents != HeapContents::of(&plan) {
            return invalid(format!("the heap was not created for {:?}", HeapContents::of(&plan)));
        }
        if !offset.is_multiple_of(needs.Alignment.max(1)) {
            return invalid(format!("the offset must be a multiple of {}", needs.Alignment));
        }
        if offset.checked_add(needs.SizeInBytes).is_none_or(|end| end > self.size()) {
            return invalid("the resource ends past the heap".into());
        }
        let mut resource = None;
        // SAFETY: the description is plain data that outlives the call, the heap is of this device and contains the
        // range; the requested interface is the type of `resource`.
        let result = unsafe {
            self.interop.device().CreatePlacedResource(
                &self.heap,
                offset,
                &raw const plan.desc,
                D3D12_RESOURCE_STATE_COMMON,
                None,
                &raw mut resource,
            )
        };
        let resource = created("ID3D12Device::CreatePlacedResource", result, resource)
            .map_err(|error| self.interop.failed(error).with_context("offset", offset))?;
        Ok(PlacedResource { resource, heap: self.clone(), plan, offset })
    }
}

nt_exports!(
    ExportableHeap,
    "memory",
    "ID3D12Device::CreateSharedHandle",
    MemoryHandle::D3d12Heap,
    MemoryImport,
    "handle, size, device identity"
);

/// Rejects a device whose heaps hold only one kind of resources.
fn check_mixed_heaps(interop: &D3d12Interop) -> Result<()> {
    const OPERATION: &str = "ID3D12Device::CheckFeatureSupport";
    let mut options = D3D12_FEATURE_DATA_D3D12_OPTIONS::default();
    let size = u32::try_from(size_of_val(&options)).unwrap_or(u32::MAX);
    // SAFETY: the structure is that of this feature, and its size is passed.
    unsafe { interop.device().CheckFeatureSupport(D3D12_FEATURE_D3D12_OPTIONS, (&raw mut options).cast(), size) }
        .checked(OPERATION)
        .map_err(|error| interop.failed(error))?;
    if options.ResourceHeapTier.0 >= D3D12_RESOURCE_HEAP_TIER_2.0 {
        return Ok(());
    }
    Err(interop.failed(Error::unsupported(
        OPERATION,
        "heaps of this device hold only buffers, only textures or only render targets; create one for each",
    )))
}

/// A resource on an [`ExportableHeap`], which it keeps alive. It is created in `D3D12_RESOURCE_STATE_COMMON` and must
/// be in that state whenever the other API uses it.
#[derive(Debug, Clone)]
pub struct PlacedResource {
    // Freed before its heap.
    resource: ID3D12Resource,
    heap: ExportableHeap,
    plan: Plan,
    offset: u64,
}

impl PlacedResource {
    /// The resource.
    #[must_use]
    pub fn resource(&self) -> &ID3D12Resource {
        &self.resource
    }

    /// The heap, which an importer imports.
    #[must_use]
    pub fn heap(&self) -> &ExportableHeap {
        &self.heap
    }

    /// Offset on the heap, bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The requested size of a buffer, which an importer maps, or the size of the tightly packed texels of a texture;
    /// bytes.
    ///
    /// # Errors
    /// None for a resource that was created.
    pub fn size(&self) -> Result<u64> {
        self.plan.payload_size()
    }

    /// The array description of a texture, for an importer of the heap.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a buffer.
    pub fn array_desc(&self) -> Result<MipmappedArrayDesc> {
        self.plan.array_desc("PlacedResource::array_desc", self.offset)
    }
}
