//! Heaps, resources and fences of Direct3D 12; the GPU's addresses of buffers; and resource states, with the memory of
//! a resource in each of them.
//!
//! A shared texture without `ALLOW_SIMULTANEOUS_ACCESS` is in the shared memory only while its state is COMMON. In
//! other states the device has a copy, like a driver that compresses: without a transition to COMMON, other APIs find
//! old texels, and what they write is lost.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use windows::Win32::Foundation::HANDLE;
use windows::Win32::Graphics::Direct3D12::*;
use windows::core::{GUID, IUnknown, PCWSTR, Ref, Result, implement};

use crate::E_INVALIDARG;
use crate::counter::Counter;
use crate::layout::{Layout, Texture};
use crate::lock;
use crate::object::{children12, not_implemented};
use crate::section::{Part, Section};

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

/// Addresses that were never used, of this many bytes.
pub(crate) fn reserve(bytes: u64) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 32);
    NEXT.fetch_add(bytes.next_multiple_of(64 << 10), Ordering::Relaxed)
}

/// The GPU's address of a buffer, unique for its life.
#[derive(Debug)]
pub(crate) struct Address(u64);

/// The addresses of all buffers, with their sizes.
static ADDRESSES: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());

fn addresses() -> MutexGuard<'static, BTreeMap<u64, u64>> {
    lock(&ADDRESSES)
}

impl Address {
    pub(crate) fn new(size: u64) -> Self {
        let address = reserve(size);
        addresses().insert(address, size);
        Self(address)
    }

    pub(crate) fn get(&self) -> u64 {
        self.0
    }
}

/// `true` if a range is inside of a buffer.
pub(crate) fn is_inside(start: u64, size: u64) -> bool {
    addresses().range(..=start).next_back().is_some_and(|(base, own)| start + size <= base + own)
}

impl Drop for Address {
    fn drop(&mut self) {
        addresses().remove(&self.0);
    }
}

/// Changes of a resource's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rules {
    /// None: memory of the types UPLOAD and READBACK.
    Fixed,
    /// Each use, from COMMON to any state, until the end of `ExecuteCommandLists`: buffers, and textures with
    /// simultaneous access.
    Simultaneous,
    /// Barriers, and each use from COMMON to a state of copies and shaders. A state to read, reached by use, ends with
    /// `ExecuteCommandLists`.
    Exclusive,
}

/// States of textures that a use reaches from COMMON.
const PROMOTED: i32 =
    D3D12_RESOURCE_STATE_ALL_SHADER_RESOURCE.0 | D3D12_RESOURCE_STATE_COPY_SOURCE.0 | D3D12_RESOURCE_STATE_COPY_DEST.0;

#[derive(Debug, Clone, Copy)]
struct SubresourceState {
    current: D3D12_RESOURCE_STATES,
    /// Reached by use.
    promoted: bool,
    /// Written since it left COMMON.
    written: bool,
}

/// The memory of a resource.
#[derive(Debug)]
pub(crate) struct Backing {
    pub(crate) part: Part,
    pub(crate) layout: Layout,
    rules: Rules,
    flags: D3D12_RESOURCE_FLAGS,
    /// The memory in other states than COMMON, if it is not `part`.
    copy: Option<Part>,
    /// By subresource.
    states: Mutex<Vec<SubresourceState>>,
    /// Number of pending commands that use it.
    pending: AtomicUsize,
}

/// Resources used since the start of `ExecuteCommandLists`.
pub(crate) type Used = Vec<Arc<Backing>>;

/// Resources of pending commands.
pub(crate) struct InUse(Vec<Arc<Backing>>);

impl InUse {
    pub(crate) fn new(resources: Vec<Arc<Backing>>) -> Self {
        for backing in &resources {
            backing.pending.fetch_add(1, Ordering::SeqCst);
        }
        Self(resources)
    }
}

/// The commands have completed, or never will.
impl Drop for InUse {
    fn drop(&mut self) {
        for backing in &self.0 {
            backing.pending.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Backing {
    /// With `shared`, others access the memory.
    pub(crate) fn new(
        part: Part,
        layout: Layout,
        rules: Rules,
        flags: D3D12_RESOURCE_FLAGS,
        initial: D3D12_RESOURCE_STATES,
        shared: bool,
    ) -> Result<Arc<Self>> {
        let copy = if shared && rules == Rules::Exclusive {
            let section = Arc::new(Section::private(layout.size)?);
            Some(Part { section, offset: 0, size: layout.size })
        } else {
            None
        };
        let state = SubresourceState { current: initial, promoted: false, written: false };
        let states = Mutex::new(vec![state; layout.subresources()]);
        Ok(Arc::new(Self { part, layout, rules, flags, copy, states, pending: AtomicUsize::new(0) }))
    }

    /// `true` while commands that use the resource are pending.
    pub(crate) fn is_in_use(&self) -> bool {
        self.pending.load(Ordering::SeqCst) > 0
    }

    fn states(&self) -> MutexGuard<'_, Vec<SubresourceState>> {
        lock(&self.states)
    }

    fn is_promoted_to(&self, state: D3D12_RESOURCE_STATES) -> bool {
        match self.rules {
            Rules::Fixed => false,
            Rules::Simultaneous => true,
            Rules::Exclusive => PROMOTED & state.0 == state.0,
        }
    }

    /// The memory of a subresource for a command that needs `state`.
    ///
    /// # Panics
    /// If the subresource is in another state.
    pub(crate) fn used(self: &Arc<Self>, used: &mut Used, subresource: u32, state: D3D12_RESOURCE_STATES) -> &Part {
        let mut states = self.states();
        let own = states.get_mut(subresource as usize).expect("a subresource");
        if own.current == D3D12_RESOURCE_STATE_COMMON && self.is_promoted_to(state) {
            self.enter(own, subresource, state);
            own.promoted = true;
        }
        let fits = own.current.contains(state) && own.current != D3D12_RESOURCE_STATE_COMMON;
        assert!(fits, "a command that needs {state:?} uses subresource {subresource} in {:?}", own.current);
        own.written |= state == D3D12_RESOURCE_STATE_COPY_DEST;
        used.push(self.clone());
        self.copy.as_ref().unwrap_or(&self.part)
    }

    /// Executes a barrier.
    ///
    /// # Panics
    /// If a subresource is not in the state `before`, or the resource was not created for `after`.
    pub(crate) fn transition(
        self: &Arc<Self>,
        used: &mut Used,
        subresource: u32,
        before: D3D12_RESOURCE_STATES,
        after: D3D12_RESOURCE_STATES,
    ) {
        let lacks = |state, flag| after.contains(state) && !self.flags.contains(flag);
        let lacks = lacks(D3D12_RESOURCE_STATE_UNORDERED_ACCESS, D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS)
            || lacks(D3D12_RESOURCE_STATE_RENDER_TARGET, D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET);
        assert!(!lacks, "a transition to {after:?} of a resource with {:?}", self.flags);
        assert!(before != after, "a transition from {before:?} to itself");
        assert!(self.rules != Rules::Fixed, "a transition of a resource in upload or readback memory");
        let all = subresource == D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES;
        for (number, own) in (0..).zip(self.states().iter_mut()).filter(|(number, _)| all || *number == subresource) {
            let is_common = own.current == D3D12_RESOURCE_STATE_COMMON;
            let fits = own.current == before || is_common && self.is_promoted_to(before);
            assert!(
                fits,
                "a transition from {before:?} to {after:?} of subresource {number}, which is in {:?}",
                own.current
            );
            self.enter(own, number, after);
        }
        used.push(self.clone());
    }

    /// The end of an `ExecuteCommandLists` that used the resource.
    pub(crate) fn decay(&self) {
        for (number, own) in (0..).zip(self.states().iter_mut()) {
            let decays = match self.rules {
                Rules::Fixed => false,
                Rules::Simultaneous => true,
                Rules::Exclusive => own.promoted && !own.written,
            };
            if decays {
                self.enter(own, number, D3D12_RESOURCE_STATE_COMMON);
            }
        }
    }

    fn enter(&self, own: &mut SubresourceState, subresource: u32, state: D3D12_RESOURCE_STATES) {
        let was_common = own.current == D3D12_RESOURCE_STATE_COMMON;
        let is_common = state == D3D12_RESOURCE_STATE_COMMON;
        if let Some(copy) = &self.copy {
            let rows = self.layout.subresource(subresource);
            if was_common && !is_common {
                rows.copy(&self.part, rows, copy);
            } else if is_common && own.written {
                rows.copy(copy, rows, &self.part);
            }
        }
        // Render targets and unordered access are for writing.
        let writes = D3D12_RESOURCE_STATE_RENDER_TARGET.0 | D3D12_RESOURCE_STATE_UNORDERED_ACCESS.0;
        let written = !is_common && (own.written || state.0 & writes != 0);
        *own = SubresourceState { current: state, promoted: false, written };
    }
}
