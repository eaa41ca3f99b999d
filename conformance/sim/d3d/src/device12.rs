//! A device of Direct3D 12.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use windows::Win32::Foundation::{HANDLE, LUID};
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Security::SECURITY_ATTRIBUTES;
use windows::core::{GUID, HRESULT, IUnknown, Interface, PCWSTR, Result};

use crate::counter::{Counter, Fences};
use crate::layout::Layout;
use crate::list12::List;
use crate::object::{Stand, borrowed, create, state, table, unknown};
use crate::os;
use crate::queue12::Queue12;
use crate::resource12::{Allocator, Fence, Heap, Resource, layout};
use crate::section::{Part, Section};
use crate::{DEVICE_HUNG, E_HANDLE, E_INVALIDARG, answered, faults, note};

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
    /// Whether the device is lost.
    pub lost: AtomicBool,
    /// Requests for heaps.
    pub heaps: Mutex<Vec<D3D12_HEAP_DESC>>,
    /// Requests for committed resources.
    pub committed: Mutex<Vec<(D3D12_HEAP_PROPERTIES, D3D12_HEAP_FLAGS, D3D12_RESOURCE_DESC)>>,
    /// Requests for placed resources, with their offsets.
    pub placed: Mutex<Vec<(u64, D3D12_RESOURCE_DESC)>>,
    /// Requests for fences.
    pub fence_flags: Mutex<Vec<D3D12_FENCE_FLAGS>>,
    fences: Fences,
}

impl Device12 {
    /// Creates a device, and returns it with its state.
    #[must_use]
    pub fn new(behavior: Behavior12) -> (ID3D12Device, Arc<Self>) {
        let state = Arc::new(Self {
            behavior,
            lost: AtomicBool::new(false),
            heaps: Mutex::default(),
            committed: Mutex::default(),
            placed: Mutex::default(),
            fence_flags: Mutex::default(),
            fences: Fences::default(),
        });
        static TABLE: OnceLock<ID3D12Device_Vtbl> = OnceLock::new();
        let methods = TABLE.get_or_init(|| {
            // SAFETY: the table is that of the interface.
            let mut table = unsafe { table::<ID3D12Device_Vtbl>() };
            table.base__.base__ = unknown::<Self>();
            table.GetNodeCount = node_count;
            table.GetAdapterLuid = adapter_luid;
            table.GetDeviceRemovedReason = removed_reason;
            table.CheckFeatureSupport = check_feature_support;
            table.GetResourceAllocationInfo = allocation_info;
            table.CreateCommandQueue = create_queue;
            table.CreateCommandAllocator = create_allocator;
            table.CreateCommandList = create_list;
            table.CreateHeap = create_heap;
            table.CreateCommittedResource = create_committed;
            table.CreatePlacedResource = create_placed;
            table.CreateFence = create_fence;
            table.CreateSharedHandle = create_shared_handle;
            table.OpenSharedHandle = open_shared_handle;
            table.OpenSharedHandleByName = open_by_name;
            table
        });
        // SAFETY: the interface is the last of its ancestors, and the methods are its own.
        (unsafe { create(methods, state.clone()) }, state)
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
    #[must_use]
    pub fn fences(&self) -> Vec<Arc<Counter>> {
        self.fences.all()
    }
}

impl Stand for Device12 {
    const LINE: &'static [GUID] = &[ID3D12Object::IID, ID3D12Device::IID];
}

/// Returns a new object by the requested interface.
///
/// # Safety
/// COM's rules: both are valid.
unsafe fn hand_out(object: &IUnknown, iid: *const GUID, to: *mut *mut c_void) -> HRESULT {
    // SAFETY: the caller's promise.
    unsafe { object.query(iid, to) }
}

// SAFETY of all below: Direct3D's rules, which the callers in the crate keep: `this` is such a device, pointers are
// valid.

unsafe extern "system" fn node_count(this: *mut c_void) -> u32 {
    // SAFETY: see above.
    unsafe { state::<Device12>(this) }.behavior.nodes
}

unsafe extern "system" fn adapter_luid(_: *mut c_void, luid: *mut LUID) {
    // SAFETY: see above.
    unsafe { *luid = crate::luid() };
}

unsafe extern "system" fn removed_reason(this: *mut c_void) -> HRESULT {
    // SAFETY: see above.
    if unsafe { state::<Device12>(this) }.lost.load(Ordering::SeqCst) { DEVICE_HUNG } else { HRESULT(0) }
}

unsafe extern "system" fn check_feature_support(
    this: *mut c_void,
    feature: D3D12_FEATURE,
    data: *mut c_void,
    size: u32,
) -> HRESULT {
    assert_eq!(feature, D3D12_FEATURE_D3D12_OPTIONS);
    assert_eq!(size as usize, size_of::<D3D12_FEATURE_DATA_D3D12_OPTIONS>());
    // SAFETY: see above.
    unsafe {
        let tier = D3D12_RESOURCE_HEAP_TIER(state::<Device12>(this).behavior.heap_tier);
        (*data.cast::<D3D12_FEATURE_DATA_D3D12_OPTIONS>()).ResourceHeapTier = tier;
    }
    HRESULT(0)
}

unsafe extern "system" fn allocation_info(
    this: *mut c_void,
    info: *mut D3D12_RESOURCE_ALLOCATION_INFO,
    _: u32,
    count: u32,
    desc: *const D3D12_RESOURCE_DESC,
) {
    assert_eq!(count, 1);
    // SAFETY: see above.
    let (desc, alignment) = unsafe { (&*desc, state::<Device12>(this).behavior.alignment) };
    let bytes = layout(desc).and_then(|layout| (layout.size as u64).checked_next_multiple_of(alignment));
    // Direct3D's result for an unsupported description.
    let bytes = bytes.unwrap_or(u64::MAX);
    // SAFETY: see above.
    unsafe { *info = D3D12_RESOURCE_ALLOCATION_INFO { SizeInBytes: bytes, Alignment: alignment } };
}

unsafe extern "system" fn create_queue(
    _: *mut c_void,
    _: *const D3D12_COMMAND_QUEUE_DESC,
    iid: *const GUID,
    queue: *mut *mut c_void,
) -> HRESULT {
    // SAFETY: see above.
    unsafe { hand_out(&Queue12::create().into(), iid, queue) }
}

unsafe extern "system" fn create_allocator(
    _: *mut c_void,
    _: D3D12_COMMAND_LIST_TYPE,
    iid: *const GUID,
    allocator: *mut *mut c_void,
) -> HRESULT {
    // SAFETY: see above.
    unsafe { hand_out(&Allocator.into(), iid, allocator) }
}

unsafe extern "system" fn create_list(
    _: *mut c_void,
    _: u32,
    _: D3D12_COMMAND_LIST_TYPE,
    allocator: *mut c_void,
    _: *mut c_void,
    iid: *const GUID,
    list: *mut *mut c_void,
) -> HRESULT {
    assert!(!allocator.is_null(), "a list without an allocator");
    // SAFETY: see above.
    unsafe { hand_out(&List::create().into(), iid, list) }
}

fn bytes(size: u64) -> usize {
    usize::try_from(size).expect("64 bits")
}

unsafe extern "system" fn create_heap(
    this: *mut c_void,
    desc: *const D3D12_HEAP_DESC,
    iid: *const GUID,
    heap: *mut *mut c_void,
) -> HRESULT {
    // SAFETY: see above.
    let (device, desc) = unsafe { (state::<Device12>(this), *desc) };
    note(&device.heaps, desc);
    let section = Arc::new(answered!(Section::new(bytes(desc.SizeInBytes))));
    // SAFETY: see above.
    unsafe { hand_out(&Heap { desc, section }.into(), iid, heap) }
}

unsafe extern "system" fn create_committed(
    this: *mut c_void,
    memory: *const D3D12_HEAP_PROPERTIES,
    flags: D3D12_HEAP_FLAGS,
    desc: *const D3D12_RESOURCE_DESC,
    _: D3D12_RESOURCE_STATES,
    _: *const D3D12_CLEAR_VALUE,
    iid: *const GUID,
    resource: *mut *mut c_void,
) -> HRESULT {
    // SAFETY: see above.
    let (device, memory, desc) = unsafe { (state::<Device12>(this), *memory, *desc) };
    let (shareable, mappable) = (flags.contains(D3D12_HEAP_FLAG_SHARED), memory.Type != D3D12_HEAP_TYPE_DEFAULT);
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
    // SAFETY: see above.
    unsafe { hand_out(&Resource { desc, part, layout, shareable, mappable }.into(), iid, resource) }
}

unsafe extern "system" fn create_placed(
    this: *mut c_void,
    heap: *mut c_void,
    offset: u64,
    desc: *const D3D12_RESOURCE_DESC,
    _: D3D12_RESOURCE_STATES,
    _: *const D3D12_CLEAR_VALUE,
    iid: *const GUID,
    resource: *mut *mut c_void,
) -> HRESULT {
    // SAFETY: see above.
    let (device, desc, heap) = unsafe { (state::<Device12>(this), *desc, borrowed::<ID3D12Heap>(heap)) };
    note(&device.placed, (offset, desc));
    let heap = heap.cast_object_ref::<Heap>().expect("a heap of the simulator");
    let Some(layout) = layout(&desc) else { return E_INVALIDARG };
    let wrong = if faults::wanted(faults::WRONG_OFFSET) { 256.min(bytes(offset)) } else { 0 };
    let part = Part { section: heap.section.clone(), offset: bytes(offset) - wrong, size: layout.size };
    if part.offset.checked_add(part.size).is_none_or(|end| end > part.section.length()) {
        return E_INVALIDARG;
    }
    // SAFETY: see above.
    unsafe { hand_out(&Resource { desc, part, layout, shareable: false, mappable: false }.into(), iid, resource) }
}

unsafe extern "system" fn create_fence(
    this: *mut c_void,
    value: u64,
    flags: D3D12_FENCE_FLAGS,
    iid: *const GUID,
    fence: *mut *mut c_void,
) -> HRESULT {
    let counter = answered!(Counter::new(value));
    // SAFETY: see above.
    unsafe {
        let device = state::<Device12>(this);
        note(&device.fence_flags, flags);
        device.fences.keep(&counter);
        hand_out(&Fence(counter).into(), iid, fence)
    }
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
        Ok(resource) if resource.shareable => resource.part.section.share(name),
        _ => Err(E_INVALIDARG.into()),
    }
}

unsafe extern "system" fn create_shared_handle(
    this: *mut c_void,
    object: *mut c_void,
    attributes: *const SECURITY_ATTRIBUTES,
    access: u32,
    name: PCWSTR,
    handle: *mut HANDLE,
) -> HRESULT {
    assert!(attributes.is_null());
    // GENERIC_ALL, the only access that Direct3D 12 accepts.
    assert_eq!(access, 0x1000_0000);
    // SAFETY: see above; children of a device are objects.
    let (device, object) = unsafe { (state::<Device12>(this), borrowed::<IUnknown>(object)) };
    if let Some(code) = device.behavior.share {
        return code;
    }
    let created = answered!(share(&object, name));
    // SAFETY: see above.
    unsafe { *handle = created };
    HRESULT(0)
}

/// The requested interface determines the kind of the object behind a handle. A resource is opened as a buffer.
unsafe extern "system" fn open_shared_handle(
    this: *mut c_void,
    handle: HANDLE,
    iid: *const GUID,
    object: *mut *mut c_void,
) -> HRESULT {
    if !os::is_open(handle) {
        return E_HANDLE;
    }
    // SAFETY: see above.
    let (device, asked) = unsafe { (state::<Device12>(this), *iid) };
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
            let part = Part { section, offset: 0, size };
            Resource { desc, part, layout: Layout::buffer(size), shareable: true, mappable: false }.into()
        }
    };
    // SAFETY: see above.
    unsafe { hand_out(&opened, iid, object) }
}

unsafe extern "system" fn open_by_name(_: *mut c_void, name: PCWSTR, access: u32, handle: *mut HANDLE) -> HRESULT {
    use std::os::windows::io::IntoRawHandle;
    assert_eq!(access, 0x1000_0000);
    let opened = answered!(os::open_section(name));
    // SAFETY: see above.
    unsafe { *handle = HANDLE(opened.into_raw_handle()) };
    HRESULT(0)
}
