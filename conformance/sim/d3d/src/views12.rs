//! Descriptor heaps and views of Direct3D 12. The views are checked; nothing uses them.

use std::ffi::c_void;

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT;
use windows::core::{GUID, HRESULT, IUnknown, Interface, PCWSTR, Ref, Result, implement};

use crate::device12::Device12;
use crate::layout::is_typeless;
use crate::object::{borrowed, children12, methods};
use crate::resource12::{Resource, is_inside, reserve};

/// Bytes of a descriptor.
const DESCRIPTOR: u32 = 32;

#[implement(ID3D12DescriptorHeap)]
struct DescriptorHeap {
    desc: D3D12_DESCRIPTOR_HEAP_DESC,
    start: u64,
}

impl ID3D12DescriptorHeap_Impl for DescriptorHeap_Impl {
    fn GetDesc(&self) -> D3D12_DESCRIPTOR_HEAP_DESC {
        self.desc
    }
    fn GetCPUDescriptorHandleForHeapStart(&self) -> D3D12_CPU_DESCRIPTOR_HANDLE {
        D3D12_CPU_DESCRIPTOR_HANDLE { ptr: usize::try_from(self.start).expect("64 bits") }
    }
    fn GetGPUDescriptorHandleForHeapStart(&self) -> D3D12_GPU_DESCRIPTOR_HANDLE {
        D3D12_GPU_DESCRIPTOR_HANDLE { ptr: self.start }
    }
}

#[implement(ID3D12CommandSignature)]
struct CommandSignature;

impl ID3D12CommandSignature_Impl for CommandSignature_Impl {}

children12!(DescriptorHeap_Impl, CommandSignature_Impl);

/// The description of a view's resource; `None` for a view of nothing.
///
/// # Safety
/// The resource is live, or null.
unsafe fn viewed(raw: *mut c_void) -> Option<D3D12_RESOURCE_DESC> {
    if raw.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let resource = unsafe { borrowed::<ID3D12Resource>(raw) };
    Some(resource.cast_object_ref::<Resource>().expect("a resource of the simulator").desc)
}

fn check_words(desc: &D3D12_RESOURCE_DESC, first: u64, count: u32) {
    let end = (first + u64::from(count)) * 4;
    assert!(end <= desc.Width, "a view of {count} words from {first} of a buffer of {} bytes", desc.Width);
}

fn check_format(desc: &D3D12_RESOURCE_DESC, format: DXGI_FORMAT) {
    let same = format == desc.Format || is_typeless(desc.Format);
    assert!(same, "a view of {format:?} of a texture of {:?}", desc.Format);
}

fn check_flag(desc: &D3D12_RESOURCE_DESC, flag: D3D12_RESOURCE_FLAGS) {
    assert!(desc.Flags.contains(flag), "a view that needs {flag:?} of a resource with {:?}", desc.Flags);
}

methods! { Device12;
    pub(crate) fn create_descriptor_heap(
        _, desc: *const D3D12_DESCRIPTOR_HEAP_DESC, iid: *const GUID, heap: *mut *mut c_void
    ) -> HRESULT {
        let desc = *desc;
        let start = reserve(u64::from(desc.NumDescriptors) * u64::from(DESCRIPTOR));
        IUnknown::from(DescriptorHeap { desc, start }).query(iid, heap)
    }

    pub(crate) fn descriptor_size(_, _: D3D12_DESCRIPTOR_HEAP_TYPE) -> u32 {
        DESCRIPTOR
    }

    pub(crate) fn copy_descriptors(
        _, _: u32, _: *const D3D12_CPU_DESCRIPTOR_HANDLE, _: *const u32, _: u32,
        _: *const D3D12_CPU_DESCRIPTOR_HANDLE, _: *const u32, _: D3D12_DESCRIPTOR_HEAP_TYPE
    ) {}

    pub(crate) fn create_command_signature(
        _, _: *const D3D12_COMMAND_SIGNATURE_DESC, _: *mut c_void, iid: *const GUID, signature: *mut *mut c_void
    ) -> HRESULT {
        IUnknown::from(CommandSignature).query(iid, signature)
    }

    pub(crate) fn constant_buffer_view(
        _, desc: *const D3D12_CONSTANT_BUFFER_VIEW_DESC, _: D3D12_CPU_DESCRIPTOR_HANDLE
    ) {
        let (start, size) = ((*desc).BufferLocation, u64::from((*desc).SizeInBytes));
        assert!(start.is_multiple_of(256) && size.is_multiple_of(256), "{size} bytes of constants at {start:#x}");
        assert!(is_inside(start, size), "a view of {size} bytes of constants exceeds its buffer");
    }

    pub(crate) fn shader_resource_view(
        _, resource: *mut c_void, desc: *const D3D12_SHADER_RESOURCE_VIEW_DESC, _: D3D12_CPU_DESCRIPTOR_HANDLE
    ) {
        let Some(own) = viewed(resource) else { return };
        if (*desc).ViewDimension == D3D12_SRV_DIMENSION_BUFFER {
            let buffer = (*desc).Anonymous.Buffer;
            check_words(&own, buffer.FirstElement, buffer.NumElements);
        } else {
            check_format(&own, (*desc).Format);
        }
    }

    pub(crate) fn unordered_access_view(
        _, resource: *mut c_void, _: *mut c_void, desc: *const D3D12_UNORDERED_ACCESS_VIEW_DESC,
        _: D3D12_CPU_DESCRIPTOR_HANDLE
    ) {
        let Some(own) = viewed(resource) else { return };
        check_flag(&own, D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS);
        if (*desc).ViewDimension == D3D12_UAV_DIMENSION_BUFFER {
            let buffer = (*desc).Anonymous.Buffer;
            check_words(&own, buffer.FirstElement, buffer.NumElements);
        } else {
            check_format(&own, (*desc).Format);
        }
    }

    pub(crate) fn render_target_view(
        _, resource: *mut c_void, desc: *const D3D12_RENDER_TARGET_VIEW_DESC, _: D3D12_CPU_DESCRIPTOR_HANDLE
    ) {
        let Some(own) = viewed(resource) else { return };
        check_flag(&own, D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET);
        check_format(&own, (*desc).Format);
    }
}
