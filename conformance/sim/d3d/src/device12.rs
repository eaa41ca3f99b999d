//! A device of Direct3D 12, its features, its views, and the record of its requests.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex};

use windows::Win32::Foundation::{HANDLE, LUID};
use windows::Win32::Graphics::Direct3D::D3D_FEATURE_LEVEL_12_0;
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT;
use windows::Win32::Security::SECURITY_ATTRIBUTES;
use windows::core::{GUID, HRESULT, IUnknown, Interface, PCWSTR, Ref, Result, implement};

use crate::counter::{Counter, Fences};
use crate::layout::{Layout, has_texels, is_typeless, planes};
use crate::list12::{List, Queue12};
use crate::object::{ComObject, borrowed, children12, methods, object, unknown};
use crate::resource12::{
    Allocator, Backing, Fence, Heap, Resource, Rules, is_inside, is_mapped, layout, reserve, rules,
};
use crate::section::{Part, Section};
use crate::{DEVICE_HUNG, E_HANDLE, E_INVALIDARG, answered, faults, note, os};

impl Device12 {
    /// Creates a device, and returns it with its state.
    pub fn new(behavior: Behavior12) -> (ID3D12Device, Arc<Self>) {
        let state = Arc::new(Self {
            behavior,
            lost: AtomicBool::new(false),
            heaps: Mutex::default(),
            committed: Mutex::default(),
            placed: Mutex::default(),
            fence_flags: Mutex::default(),
            fences: Fences::default(),
            object: AtomicPtr::default(),
        });
        let device: ID3D12Device = object!(ID3D12Device_Vtbl, state.clone(), |table| {
            table.base__.base__ = unknown::<Self>();
            table.GetNodeCount = node_count;
            table.GetAdapterLuid = adapter_luid;
            table.GetDeviceRemovedReason = removed_reason;
            table.CheckFeatureSupport = check_feature_support;
            table.GetResourceAllocationInfo = allocation_info;
            table.CreateCommandQueue = create_queue;
            table.CreateCommandAllocator = create_allocator;
            table.CreateCommandList = create_list;
            table.CreateCommandSignature = create_command_signature;
            table.CreateDescriptorHeap = create_descriptor_heap;
            table.GetDescriptorHandleIncrementSize = descriptor_size;
            table.CopyDescriptors = copy_descriptors;
            table.CreateConstantBufferView = constant_buffer_view;
            table.CreateShaderResourceView = shader_resource_view;
            table.CreateUnorderedAccessView = unordered_access_view;
            table.CreateRenderTargetView = render_target_view;
            table.CreateHeap = create_heap;
            table.CreateCommittedResource = create_committed;
            table.CreatePlacedResource = create_placed;
            table.CreateFence = create_fence;
            table.CreateSharedHandle = create_shared_handle;
            table.OpenSharedHandle = open_shared_handle;
            table.OpenSharedHandleByName = open_by_name;
            table.GetCopyableFootprints = copyable_footprints;
        });
        state.object.store(device.as_raw(), Ordering::Relaxed);
        (device, state)
    }
}

impl ComObject for Device12 {
    const LINE: &'static [GUID] = &[ID3D12Object::IID, ID3D12Device::IID];
}

fn bytes(size: u64) -> usize {
    usize::try_from(size).expect("64 bits")
}

/// A new handle to a shareable object.
fn share(object: &IUnknown, name: PCWSTR) -> Result<HANDLE> {
    if let Ok(fence) = object.cast_object_ref::<Fence>() {
        return fence.0.share(name);
    }
    if let Ok(heap) = object.cast_object_ref::<Heap>() {
        let shareable = heap.desc.Flags.contains(D3D12_HEAP_FLAG_SHARED);
        return if shareable { heap.section.share(name) } else { Err(E_INVALIDARG.into()) };
    }
    match object.cast_object_ref::<Resource>() {
        Ok(resource) if resource.shareable => resource.backing.part.section.share(name),
        _ => Err(E_INVALIDARG.into()),
    }
}

methods! { Device12;
    fn node_count(device) -> u32 {
        device.behavior.nodes
    }

    fn adapter_luid(_, luid: *mut LUID) {
        *luid = crate::luid();
    }

    fn removed_reason(device) -> HRESULT {
        if device.lost.load(Ordering::SeqCst) { DEVICE_HUNG } else { HRESULT(0) }
    }

    fn allocation_info(
        device, info: *mut D3D12_RESOURCE_ALLOCATION_INFO, _: u32, count: u32, desc: *const D3D12_RESOURCE_DESC
    ) {
        assert_eq!(count, 1);
        let alignment = device.behavior.alignment;
        let bytes = layout(&*desc).and_then(|layout| (layout.size as u64).checked_next_multiple_of(alignment));
        // What Direct3D answers to what the device does not have.
        let bytes = bytes.unwrap_or(u64::MAX);
        *info = D3D12_RESOURCE_ALLOCATION_INFO { SizeInBytes: bytes, Alignment: alignment };
    }

    /// The formats of planes are left out.
    fn copyable_footprints(
        _, desc: *const D3D12_RESOURCE_DESC, first: u32, count: u32, base: u64,
        footprints: *mut D3D12_PLACED_SUBRESOURCE_FOOTPRINT, rows: *mut u32, row_sizes: *mut u64, total: *mut u64
    ) {
        assert!(rows.is_null() && row_sizes.is_null() && total.is_null(), "only footprints are simulated");
        let layout = layout(&*desc).expect("a texture");
        let mut end = base;
        for (place, number) in (first..first + count).enumerate() {
            let ([row, height, depth], texel) = (layout.subresource(number).extent, layout.texel(number));
            let number_of = |count: usize| u32::try_from(count).expect("32 bits");
            let (pitch, offset) = (row.next_multiple_of(256), end.next_multiple_of(512));
            let footprint = D3D12_SUBRESOURCE_FOOTPRINT {
                Width: number_of(row / texel),
                Height: number_of(height),
                Depth: number_of(depth),
                RowPitch: number_of(pitch),
                ..D3D12_SUBRESOURCE_FOOTPRINT::default()
            };
            footprints.add(place).write(D3D12_PLACED_SUBRESOURCE_FOOTPRINT { Offset: offset, Footprint: footprint });
            end = offset + (pitch * height * depth) as u64;
        }
    }

    fn create_queue(device, _: *const D3D12_COMMAND_QUEUE_DESC, iid: *const GUID, queue: *mut *mut c_void) -> HRESULT {
        IUnknown::from(Queue12::create(device.object())).query(iid, queue)
    }

    fn create_allocator(_, _: D3D12_COMMAND_LIST_TYPE, iid: *const GUID, allocator: *mut *mut c_void) -> HRESULT {
        IUnknown::from(Allocator).query(iid, allocator)
    }

    fn create_list(
        _, _: u32, _: D3D12_COMMAND_LIST_TYPE, allocator: *mut c_void, _: *mut c_void, iid: *const GUID,
        list: *mut *mut c_void
    ) -> HRESULT {
        assert!(!allocator.is_null(), "a list without an allocator");
        IUnknown::from(List::create()).query(iid, list)
    }

    fn create_heap(device, desc: *const D3D12_HEAP_DESC, iid: *const GUID, heap: *mut *mut c_void) -> HRESULT {
        let desc = *desc;
        note(&device.heaps, desc);
        let size = bytes(desc.SizeInBytes);
        let shareable = desc.Flags.contains(D3D12_HEAP_FLAG_SHARED);
        let section = Arc::new(answered!(if shareable { Section::new(size) } else { Section::private(size) }));
        IUnknown::from(Heap { desc, section }).query(iid, heap)
    }

    fn create_committed(
        device, memory: *const D3D12_HEAP_PROPERTIES, flags: D3D12_HEAP_FLAGS, desc: *const D3D12_RESOURCE_DESC,
        state: D3D12_RESOURCE_STATES, _: *const D3D12_CLEAR_VALUE, iid: *const GUID, resource: *mut *mut c_void
    ) -> HRESULT {
        let (memory, desc) = (*memory, *desc);
        let (shareable, mappable) = (flags.contains(D3D12_HEAP_FLAG_SHARED), is_mapped(&memory));
        let Some(layout) = layout(&desc) else { return E_INVALIDARG };
        // The size that importers receive.
        let Some(size) = layout.size.checked_next_multiple_of(bytes(device.behavior.alignment)) else {
            return E_INVALIDARG;
        };
        if shareable && mappable {
            return E_INVALIDARG;
        }
        note(&device.committed, (memory, flags, desc));
        let section = Arc::new(answered!(if shareable { Section::new(size) } else { Section::private(size) }));
        let part = Part { section, offset: 0, size: layout.size };
        let rules = rules(&desc, &memory);
        let backing = answered!(Backing::new(part, layout, rules, desc.Flags, state, shareable));
        IUnknown::from(Resource::new(desc, backing, shareable, mappable)).query(iid, resource)
    }

    fn create_placed(
        device, heap: *mut c_void, offset: u64, desc: *const D3D12_RESOURCE_DESC, state: D3D12_RESOURCE_STATES,
        _: *const D3D12_CLEAR_VALUE, iid: *const GUID, resource: *mut *mut c_void
    ) -> HRESULT {
        let (desc, heap) = (*desc, borrowed::<ID3D12Heap>(heap));
        note(&device.placed, (offset, desc));
        let heap = heap.cast_object_ref::<Heap>().expect("a heap of the simulator");
        let Some(layout) = layout(&desc) else { return E_INVALIDARG };
        let wrong = if faults::wanted(faults::WRONG_OFFSET) { 256.min(bytes(offset)) } else { 0 };
        let part = Part { section: heap.section.clone(), offset: bytes(offset) - wrong, size: layout.size };
        if part.offset.checked_add(part.size).is_none_or(|end| end > part.section.length()) {
            return E_INVALIDARG;
        }
        let (memory, shared) = (heap.desc.Properties, heap.desc.Flags.contains(D3D12_HEAP_FLAG_SHARED));
        let backing = answered!(Backing::new(part, layout, rules(&desc, &memory), desc.Flags, state, shared));
        IUnknown::from(Resource::new(desc, backing, false, is_mapped(&memory))).query(iid, resource)
    }

    fn create_fence(
        device, value: u64, flags: D3D12_FENCE_FLAGS, iid: *const GUID, fence: *mut *mut c_void
    ) -> HRESULT {
        let counter = answered!(Counter::new(value));
        note(&device.fence_flags, flags);
        device.fences.keep(&counter);
        IUnknown::from(Fence(counter)).query(iid, fence)
    }

    fn create_shared_handle(
        device, object: *mut c_void, attributes: *const SECURITY_ATTRIBUTES, access: u32, name: PCWSTR,
        handle: *mut HANDLE
    ) -> HRESULT {
        assert!(attributes.is_null());
        // GENERIC_ALL, the only access that Direct3D 12 takes.
        assert_eq!(access, 0x1000_0000);
        if let Some(code) = device.behavior.share {
            return code;
        }
        // Children of a device are objects.
        *handle = answered!(share(&borrowed::<IUnknown>(object), name));
        HRESULT(0)
    }

    /// The requested interface determines the kind of the object. A resource is treated as a buffer.
    fn open_shared_handle(device, handle: HANDLE, iid: *const GUID, object: *mut *mut c_void) -> HRESULT {
        if !os::is_open(handle) {
            return E_HANDLE;
        }
        let asked = *iid;
        let opened: IUnknown = if asked == ID3D12Fence::IID {
            let counter = answered!(Counter::open(handle));
            device.fences.keep(&counter);
            Fence(counter).into()
        } else {
            let section = Arc::new(answered!(Section::open(handle)));
            let size = section.length();
            if asked == ID3D12Heap::IID {
                let desc = D3D12_HEAP_DESC {
                    SizeInBytes: size as u64,
                    Flags: D3D12_HEAP_FLAG_SHARED,
                    ..D3D12_HEAP_DESC::default()
                };
                Heap { desc, section }.into()
            } else {
                let desc = D3D12_RESOURCE_DESC {
                    Dimension: D3D12_RESOURCE_DIMENSION_BUFFER,
                    Width: size as u64,
                    ..D3D12_RESOURCE_DESC::default()
                };
                let (part, layout) = (Part { section, offset: 0, size }, Layout::buffer(size));
                let (rules, state) = (Rules::Simultaneous, D3D12_RESOURCE_STATE_COMMON);
                let backing = answered!(Backing::new(part, layout, rules, desc.Flags, state, true));
                Resource::new(desc, backing, true, false).into()
            }
        };
        opened.query(iid, object)
    }

    fn open_by_name(_, name: PCWSTR, access: u32, handle: *mut HANDLE) -> HRESULT {
        use std::os::windows::io::IntoRawHandle;
        assert_eq!(access, 0x1000_0000);
        *handle = HANDLE(answered!(os::open_section(name)).into_raw_handle());
        HRESULT(0)
    }
}

/// Behaviour of a device.
#[derive(Debug, Clone, Copy)]
pub struct Behavior12 {
    /// Number of nodes.
    pub nodes: u32,
    /// `D3D12_RESOURCE_HEAP_TIER`.
    pub heap_tier: i32,
    /// Result of sharing, instead of a handle.
    pub share: Option<HRESULT>,
    /// Granularity of allocations, bytes.
    pub alignment: u64,
}

impl Default for Behavior12 {
    fn default() -> Self {
        Self { nodes: 1, heap_tier: 2, share: None, alignment: 64 << 10 }
    }
}

/// The device, and the recorded requests.
#[derive(Debug)]
pub struct Device12 {
    /// Its behaviour.
    pub behavior: Behavior12,
    /// `true` if the device is lost.
    pub lost: AtomicBool,
    /// Requests for heaps.
    pub heaps: Mutex<Vec<D3D12_HEAP_DESC>>,
    /// Requests for committed resources.
    pub committed: Mutex<Vec<(D3D12_HEAP_PROPERTIES, D3D12_HEAP_FLAGS, D3D12_RESOURCE_DESC)>>,
    /// Requests for placed resources, with their offsets.
    pub placed: Mutex<Vec<(u64, D3D12_RESOURCE_DESC)>>,
    /// Requests for fences.
    pub fence_flags: Mutex<Vec<D3D12_FENCE_FLAGS>>,
    pub(crate) fences: Fences,
    /// Its object, which lives longer.
    pub(crate) object: AtomicPtr<c_void>,
}

impl Device12 {
    /// A new reference to the object.
    ///
    /// # Safety
    /// The caller has a reference, as in a call of a method.
    pub(crate) unsafe fn object(&self) -> ID3D12Device {
        // SAFETY: the caller's promise.
        let device = unsafe { borrowed::<ID3D12Device>(self.object.load(Ordering::Relaxed)) };
        (*device).clone()
    }

    /// Loses the device, as a driver does: every fence has the greatest value then.
    ///
    /// # Panics
    /// If a thread that uses the device panicked.
    pub fn lose(&self) {
        self.lost.store(true, Ordering::SeqCst);
        self.fences().iter().for_each(|fence| fence.set(u64::MAX));
    }

    /// The existing fences.
    ///
    /// # Panics
    /// As [`lose`](Self::lose).
    pub fn fences(&self) -> Vec<Arc<Counter>> {
        self.fences.all()
    }
}

/// Uses of a format with texels. Only copies are simulated; views can be created.
const USES: D3D12_FORMAT_SUPPORT1 = D3D12_FORMAT_SUPPORT1(
    D3D12_FORMAT_SUPPORT1_TEXTURE1D.0
        | D3D12_FORMAT_SUPPORT1_TEXTURE2D.0
        | D3D12_FORMAT_SUPPORT1_TEXTURE3D.0
        | D3D12_FORMAT_SUPPORT1_TEXTURECUBE.0
        | D3D12_FORMAT_SUPPORT1_MIP.0
        | D3D12_FORMAT_SUPPORT1_SHADER_LOAD.0
        | D3D12_FORMAT_SUPPORT1_SHADER_SAMPLE.0
        | D3D12_FORMAT_SUPPORT1_RENDER_TARGET.0
        | D3D12_FORMAT_SUPPORT1_BLENDABLE.0
        | D3D12_FORMAT_SUPPORT1_TYPED_UNORDERED_ACCESS_VIEW.0,
);
const STORAGE: D3D12_FORMAT_SUPPORT2 =
    D3D12_FORMAT_SUPPORT2(D3D12_FORMAT_SUPPORT2_UAV_TYPED_LOAD.0 | D3D12_FORMAT_SUPPORT2_UAV_TYPED_STORE.0);

fn support(format: DXGI_FORMAT) -> D3D12_FEATURE_DATA_FORMAT_SUPPORT {
    let (first, second) = match planes(format) {
        Some(_) => (D3D12_FORMAT_SUPPORT1_TEXTURE2D, D3D12_FORMAT_SUPPORT2_NONE),
        None if has_texels(format) => (USES, STORAGE),
        None => (D3D12_FORMAT_SUPPORT1_NONE, D3D12_FORMAT_SUPPORT2_NONE),
    };
    D3D12_FEATURE_DATA_FORMAT_SUPPORT { Format: format, Support1: first, Support2: second }
}

/// The structure of a feature.
///
/// # Panics
/// If the caller's has another size.
///
/// # Safety
/// `data` is the caller's structure, of `size` bytes.
unsafe fn structure<'a, T>(data: *mut c_void, size: u32) -> &'a mut T {
    assert_eq!(size as usize, size_of::<T>(), "bytes of a feature's structure");
    // SAFETY: the caller's promise; all are plain data.
    unsafe { &mut *data.cast::<T>() }
}

methods! { Device12;
    /// Newer features are unknown, as to an old runtime.
    pub(crate) fn check_feature_support(device, feature: D3D12_FEATURE, data: *mut c_void, size: u32) -> HRESULT {
        match feature {
            D3D12_FEATURE_D3D12_OPTIONS => {
                let options: &mut D3D12_FEATURE_DATA_D3D12_OPTIONS = structure(data, size);
                options.ResourceHeapTier = D3D12_RESOURCE_HEAP_TIER(device.behavior.heap_tier);
                options.ResourceBindingTier = D3D12_RESOURCE_BINDING_TIER_3;
            }
            D3D12_FEATURE_FEATURE_LEVELS => {
                let levels: &mut D3D12_FEATURE_DATA_FEATURE_LEVELS = structure(data, size);
                levels.MaxSupportedFeatureLevel = D3D_FEATURE_LEVEL_12_0;
            }
            D3D12_FEATURE_ARCHITECTURE => {
                let architecture: &mut D3D12_FEATURE_DATA_ARCHITECTURE = structure(data, size);
                architecture.UMA = false.into();
            }
            D3D12_FEATURE_FORMAT_SUPPORT => {
                let format: &mut D3D12_FEATURE_DATA_FORMAT_SUPPORT = structure(data, size);
                *format = support(format.Format);
            }
            _ => return E_INVALIDARG,
        }
        HRESULT(0)
    }
}

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
