//! A device of Direct3D 12.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use windows::Win32::Foundation::{HANDLE, LUID};
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Security::SECURITY_ATTRIBUTES;
use windows::core::{GUID, HRESULT, IUnknown, Interface, PCWSTR, Ref, Result, implement};

use super::fence::Counter;
use super::object::{Stand, borrowed, create, state, table, unknown};
use super::os::{self, Kind};
use super::{DEVICE_HUNG, E_NOTIMPL};

/// What the device does.
#[derive(Clone, Copy)]
pub(crate) struct Behavior12 {
    pub(crate) nodes: u32,
    /// `D3D12_RESOURCE_HEAP_TIER`.
    pub(crate) heap_tier: i32,
    /// What sharing answers, if not a handle.
    pub(crate) share: Option<HRESULT>,
    /// What an allocation is rounded up to, bytes.
    pub(crate) alignment: u64,
}

impl Default for Behavior12 {
    fn default() -> Self {
        Self { nodes: 1, heap_tier: 2, share: None, alignment: 64 << 10 }
    }
}

/// The device, and what it was asked for.
pub(crate) struct Device12 {
    pub(crate) behavior: Behavior12,
    pub(crate) lost: AtomicBool,
    pub(crate) heaps: Mutex<Vec<D3D12_HEAP_DESC>>,
    /// Of committed resources and placed ones, which have an offset instead of memory and flags.
    pub(crate) committed: Mutex<Vec<(D3D12_HEAP_PROPERTIES, D3D12_HEAP_FLAGS, D3D12_RESOURCE_DESC)>>,
    pub(crate) placed: Mutex<Vec<(u64, D3D12_RESOURCE_DESC)>>,
    pub(crate) fence_flags: Mutex<Vec<D3D12_FENCE_FLAGS>>,
    pub(crate) fences: Mutex<Vec<Arc<Counter>>>,
}

impl Device12 {
    pub(crate) fn new(behavior: Behavior12) -> (ID3D12Device, Arc<Self>) {
        let state = Arc::new(Self {
            behavior,
            lost: AtomicBool::new(false),
            heaps: Mutex::default(),
            committed: Mutex::default(),
            placed: Mutex::default(),
            fence_flags: Mutex::default(),
            fences: Mutex::default(),
        });
        // SAFETY: it is the interface's table, of which these are methods.
        let device = unsafe {
            let mut table = table::<ID3D12Device_Vtbl>();
            table.base__.base__ = unknown::<Self>();
            table.GetNodeCount = node_count;
            table.GetAdapterLuid = adapter_luid;
            table.GetDeviceRemovedReason = removed_reason;
            table.CheckFeatureSupport = check_feature_support;
            table.GetResourceAllocationInfo = allocation_info;
            table.CreateHeap = create_heap;
            table.CreateCommittedResource = create_committed;
            table.CreatePlacedResource = create_placed;
            table.CreateFence = create_fence;
            table.CreateSharedHandle = create_shared_handle;
            table.OpenSharedHandleByName = open_by_name;
            create::<Self, ID3D12Device, _>(table, state.clone())
        };
        (device, state)
    }

    /// Loses the device, as a driver does: every fence answers its greatest value.
    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::SeqCst);
        for fence in self.fences.lock().expect("no panic").iter() {
            fence.set(u64::MAX);
        }
    }
}

impl Stand for Device12 {
    const LINE: &'static [GUID] = &[ID3D12Object::IID, ID3D12Device::IID];
}

#[implement(ID3D12Heap)]
struct Heap(D3D12_HEAP_DESC);

impl ID3D12Heap_Impl for Heap_Impl {
    fn GetDesc(&self) -> D3D12_HEAP_DESC {
        self.0
    }
}

#[implement(ID3D12Resource)]
struct Resource(D3D12_RESOURCE_DESC);

impl ID3D12Resource_Impl for Resource_Impl {
    fn Map(&self, _: u32, _: *const D3D12_RANGE, _: *mut *mut c_void) -> Result<()> {
        Err(E_NOTIMPL.into())
    }
    fn Unmap(&self, _: u32, _: *const D3D12_RANGE) {}
    fn GetDesc(&self) -> D3D12_RESOURCE_DESC {
        self.0
    }
    fn GetGPUVirtualAddress(&self) -> u64 {
        0
    }
    fn WriteToSubresource(&self, _: u32, _: *const D3D12_BOX, _: *const c_void, _: u32, _: u32) -> Result<()> {
        Err(E_NOTIMPL.into())
    }
    fn ReadFromSubresource(&self, _: *mut c_void, _: u32, _: u32, _: u32, _: *const D3D12_BOX) -> Result<()> {
        Err(E_NOTIMPL.into())
    }
    fn GetHeapProperties(&self, _: *mut D3D12_HEAP_PROPERTIES, _: *mut D3D12_HEAP_FLAGS) -> Result<()> {
        Err(E_NOTIMPL.into())
    }
}

#[implement(ID3D12Fence)]
struct Fence(Arc<Counter>);

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

macro_rules! children {
    ($($name:ident),*) => { $(
        impl ID3D12Pageable_Impl for $name {}
        impl ID3D12DeviceChild_Impl for $name {
            fn GetDevice(&self, _: *const GUID, _: *mut *mut c_void) -> Result<()> {
                Err(E_NOTIMPL.into())
            }
        }
        impl ID3D12Object_Impl for $name {
            fn GetPrivateData(&self, _: *const GUID, _: *mut u32, _: *mut c_void) -> Result<()> {
                Err(E_NOTIMPL.into())
            }
            fn SetPrivateData(&self, _: *const GUID, _: u32, _: *const c_void) -> Result<()> {
                Err(E_NOTIMPL.into())
            }
            fn SetPrivateDataInterface(&self, _: *const GUID, _: Ref<'_, IUnknown>) -> Result<()> {
                Err(E_NOTIMPL.into())
            }
            fn SetName(&self, _: &PCWSTR) -> Result<()> {
                Err(E_NOTIMPL.into())
            }
        }
    )* };
}

children!(Heap_Impl, Resource_Impl, Fence_Impl);

/// Hands a new object out by the interface that is asked for.
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
    unsafe { *luid = super::LUID };
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
    // Textures of this width are what the device does not have.
    let bytes = if desc.Width == 16_385 {
        u64::MAX
    } else {
        (desc.Width * u64::from(desc.Height) * u64::from(desc.DepthOrArraySize) * 16).next_multiple_of(alignment)
    };
    // SAFETY: see above.
    unsafe { *info = D3D12_RESOURCE_ALLOCATION_INFO { SizeInBytes: bytes, Alignment: alignment } };
}

unsafe extern "system" fn create_heap(
    this: *mut c_void,
    desc: *const D3D12_HEAP_DESC,
    iid: *const GUID,
    heap: *mut *mut c_void,
) -> HRESULT {
    // SAFETY: see above.
    unsafe {
        state::<Device12>(this).heaps.lock().expect("no panic").push(*desc);
        hand_out(&Heap(*desc).into(), iid, heap)
    }
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
    unsafe {
        state::<Device12>(this).committed.lock().expect("no panic").push((*memory, flags, *desc));
        hand_out(&Resource(*desc).into(), iid, resource)
    }
}

unsafe extern "system" fn create_placed(
    this: *mut c_void,
    _: *mut c_void,
    offset: u64,
    desc: *const D3D12_RESOURCE_DESC,
    _: D3D12_RESOURCE_STATES,
    _: *const D3D12_CLEAR_VALUE,
    iid: *const GUID,
    resource: *mut *mut c_void,
) -> HRESULT {
    // SAFETY: see above.
    unsafe {
        state::<Device12>(this).placed.lock().expect("no panic").push((offset, *desc));
        hand_out(&Resource(*desc).into(), iid, resource)
    }
}

unsafe extern "system" fn create_fence(
    this: *mut c_void,
    value: u64,
    flags: D3D12_FENCE_FLAGS,
    iid: *const GUID,
    fence: *mut *mut c_void,
) -> HRESULT {
    let counter = Arc::new(Counter::new(value));
    // SAFETY: see above.
    unsafe {
        let device = state::<Device12>(this);
        device.fence_flags.lock().expect("no panic").push(flags);
        device.fences.lock().expect("no panic").push(counter.clone());
        hand_out(&Fence(counter).into(), iid, fence)
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
    // GENERIC_ALL, the only access that Direct3D 12 takes.
    assert_eq!(access, 0x1000_0000);
    // SAFETY: see above; children of a device are objects.
    let (device, object) = unsafe { (state::<Device12>(this), borrowed::<IUnknown>(object)) };
    if let Some(code) = device.behavior.share {
        return code;
    }
    let kind = if object.cast::<ID3D12Fence>().is_ok() { Kind::Fence } else { Kind::Memory(4096) };
    match os::create(kind, name) {
        Ok(created) => {
            // SAFETY: see above.
            unsafe { *handle = created };
            HRESULT(0)
        }
        Err(error) => error.code(),
    }
}

unsafe extern "system" fn open_by_name(_: *mut c_void, name: PCWSTR, access: u32, handle: *mut HANDLE) -> HRESULT {
    assert_eq!(access, 0x1000_0000);
    match os::open(Kind::Memory(0), name).or_else(|_| os::open(Kind::Fence, name)) {
        Ok(opened) => {
            // SAFETY: see above.
            unsafe { *handle = opened };
            HRESULT(0)
        }
        Err(error) => error.code(),
    }
}
