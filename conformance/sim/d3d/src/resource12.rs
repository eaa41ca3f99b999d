//! Heaps, resources and fences of Direct3D 12.

use std::ffi::c_void;
use std::sync::Arc;

use windows::Win32::Foundation::HANDLE;
use windows::Win32::Graphics::Direct3D12::*;
use windows::core::{GUID, IUnknown, PCWSTR, Ref, Result, implement};

use crate::E_INVALIDARG;
use crate::address12::Address;
use crate::backing12::{Backing, Rules};
use crate::children::{children12, not_implemented};
use crate::counter::Counter;
use crate::layout::{Layout, Texture};
use crate::section::Section;

#[implement(ID3D12Heap)]
pub(crate) struct Heap {
    pub(crate) desc: D3D12_HEAP_DESC,
    pub(crate) section: Arc<Section>,
}

impl ID3D12Heap_Impl for Heap_Impl {
    fn GetDesc(&self) -> D3D12_HEAP_DESC {
        self.desc
    }
}

#[implement(ID3D12Resource)]
pub(crate) struct Resource {
    pub(crate) desc: D3D12_RESOURCE_DESC,
    pub(crate) backing: Arc<Backing>,
    /// Of buffers.
    address: Option<Address>,
    /// `true` if it may be exported: committed, and created for sharing.
    pub(crate) shareable: bool,
    /// `true` if the host may map it.
    pub(crate) mappable: bool,
}

impl Resource {
    pub(crate) fn new(desc: D3D12_RESOURCE_DESC, backing: Arc<Backing>, shareable: bool, mappable: bool) -> Self {
        let is_buffer = desc.Dimension == D3D12_RESOURCE_DIMENSION_BUFFER;
        Self { desc, backing, address: is_buffer.then(|| Address::new(desc.Width)), shareable, mappable }
    }
}

/// Programs must keep the resources of pending commands.
impl Drop for Resource {
    fn drop(&mut self) {
        assert!(!self.backing.is_in_use(), "a resource is released while commands that use it are pending");
    }
}

/// `true` if the host may map memory with these properties.
pub(crate) fn is_mapped(memory: &D3D12_HEAP_PROPERTIES) -> bool {
    match memory.Type {
        D3D12_HEAP_TYPE_DEFAULT => false,
        D3D12_HEAP_TYPE_CUSTOM => memory.CPUPageProperty != D3D12_CPU_PAGE_PROPERTY_NOT_AVAILABLE,
        _ => true,
    }
}

/// Rules for the states of a resource.
pub(crate) fn rules(desc: &D3D12_RESOURCE_DESC, memory: &D3D12_HEAP_PROPERTIES) -> Rules {
    if memory.Type == D3D12_HEAP_TYPE_UPLOAD || memory.Type == D3D12_HEAP_TYPE_READBACK {
        Rules::Fixed
    } else if desc.Dimension == D3D12_RESOURCE_DIMENSION_BUFFER
        || desc.Flags.contains(D3D12_RESOURCE_FLAG_ALLOW_SIMULTANEOUS_ACCESS)
    {
        Rules::Simultaneous
    } else {
        Rules::Exclusive
    }
}

/// Layout of the texels or bytes of a resource; `None` for an unsupported texture.
pub(crate) fn layout(desc: &D3D12_RESOURCE_DESC) -> Option<Layout> {
    let size = |n: u64| usize::try_from(n).expect("64 bits");
    if desc.Dimension == D3D12_RESOURCE_DIMENSION_BUFFER {
        return Some(Layout::buffer(size(desc.Width)));
    }
    if desc.Width > D3D12_REQ_TEXTURE2D_U_OR_V_DIMENSION.into() {
        return None;
    }
    Layout::texture(&Texture {
        width: size(desc.Width),
        height: if desc.Dimension == D3D12_RESOURCE_DIMENSION_TEXTURE1D { 0 } else { desc.Height as usize },
        depth: desc.DepthOrArraySize.into(),
        layered: desc.Dimension != D3D12_RESOURCE_DIMENSION_TEXTURE3D,
        levels: desc.MipLevels.into(),
        format: desc.Format,
    })
}

impl ID3D12Resource_Impl for Resource_Impl {
    fn Map(&self, subresource: u32, _: *const D3D12_RANGE, address: *mut *mut c_void) -> Result<()> {
        if !self.mappable || subresource != 0 {
            return Err(E_INVALIDARG.into());
        }
        // SAFETY: Direct3D's rules: the pointer is valid. Mappable resources are not shared, so the address stays
        // valid.
        self.backing.part.with(0, 0, |base| unsafe { *address = base.cast() });
        Ok(())
    }
    fn Unmap(&self, _: u32, _: *const D3D12_RANGE) {}
    fn GetDesc(&self) -> D3D12_RESOURCE_DESC {
        self.desc
    }
    fn GetGPUVirtualAddress(&self) -> u64 {
        self.address.as_ref().map_or(0, Address::get)
    }
    not_implemented! {
        fn WriteToSubresource(&self, _: u32, _: *const D3D12_BOX, _: *const c_void, _: u32, _: u32) -> Result<()>;
        fn ReadFromSubresource(&self, _: *mut c_void, _: u32, _: u32, _: u32, _: *const D3D12_BOX) -> Result<()>;
        fn GetHeapProperties(&self, _: *mut D3D12_HEAP_PROPERTIES, _: *mut D3D12_HEAP_FLAGS) -> Result<()>;
    }
}

#[implement(ID3D12Fence)]
pub(crate) struct Fence(pub(crate) Arc<Counter>);

impl Drop for Fence {
    fn drop(&mut self) {
        self.0.settle();
    }
}

impl ID3D12Fence_Impl for Fence_Impl {
    fn GetCompletedValue(&self) -> u64 {
        self.0.value()
    }
    fn SetEventOnCompletion(&self, value: u64, event: HANDLE) -> Result<()> {
        self.0.notify(value, event)
    }
    fn Signal(&self, value: u64) -> Result<()> {
        self.0.set(value);
        Ok(())
    }
}

#[implement(ID3D12CommandAllocator)]
pub(crate) struct Allocator;

impl ID3D12CommandAllocator_Impl for Allocator_Impl {
    fn Reset(&self) -> Result<()> {
        Ok(())
    }
}

children12!(Heap_Impl, Resource_Impl, Fence_Impl, Allocator_Impl);
