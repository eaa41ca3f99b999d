//! Command lists of Direct3D 12, for copies, and the queues that execute them.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard};

use windows::Win32::Graphics::Direct3D12::*;
use windows::core::{GUID, HRESULT, IUnknown, Interface};

use crate::counter::Counter;
use crate::lock;
use crate::object::{ComObject, borrowed, methods, object, set_name, state, unknown};
use crate::queue::Queue;
use crate::resource12::{Backing, Fence, InUse, Resource, Used};
use crate::section::Part;
use crate::{E_INVALIDARG, layout};

/// A recorded command.
pub(crate) type Command = Arc<dyn Fn(&mut Used) + Send + Sync>;

/// A list, created in the recording state.
#[derive(Default)]
pub(crate) struct List(Mutex<Recorded>);

#[derive(Default)]
struct Recorded {
    closed: bool,
    commands: Vec<Command>,
    /// The resources of the commands.
    resources: Vec<Arc<Backing>>,
}

impl ComObject for List {
    const LINE: &'static [GUID] =
        &[ID3D12Object::IID, ID3D12DeviceChild::IID, ID3D12CommandList::IID, ID3D12GraphicsCommandList::IID];
}

impl List {
    pub(crate) fn create() -> ID3D12GraphicsCommandList {
        object!(ID3D12GraphicsCommandList_Vtbl, Arc::<Self>::default(), |table| {
            table.base__.base__.base__.base__ = unknown::<Self>();
            table.base__.base__.base__.SetName = set_name;
            table.Close = close;
            table.Reset = reset;
            table.ResourceBarrier = barrier;
            table.CopyBufferRegion = copy_buffer;
            table.CopyTextureRegion = copy_texture;
        })
    }

    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        lock(&self.0)
    }

    /// Appends the recorded commands and their resources.
    ///
    /// # Panics
    /// If the list is still recording.
    pub(crate) fn submit(&self, commands: &mut Vec<Command>, resources: &mut Vec<Arc<Backing>>) {
        let recorded = self.recorded();
        assert!(recorded.closed, "a list is executed while it records");
        commands.extend_from_slice(&recorded.commands);
        resources.extend_from_slice(&recorded.resources);
    }

    fn record(&self, resources: &[&Arc<Backing>], command: impl Fn(&mut Used) + Send + Sync + 'static) {
        let mut recorded = self.recorded();
        assert!(!recorded.closed, "a list that is closed records");
        recorded.resources.extend(resources.iter().copied().cloned());
        recorded.commands.push(Arc::new(command));
    }
}

/// The implementation of a resource.
///
/// # Safety
/// The resource is live, or null.
unsafe fn resource(raw: *mut c_void) -> Arc<Backing> {
    assert!(!raw.is_null(), "no resource");
    // SAFETY: the caller's promise.
    let resource = unsafe { borrowed::<ID3D12Resource>(raw) };
    resource.cast_object_ref::<Resource>().expect("a resource of the simulator").backing.clone()
}

/// Rows of a subresource.
struct CopyLocation {
    backing: Arc<Backing>,
    subresource: u32,
    rows: layout::Rows,
    /// Bytes of a texel.
    texel: usize,
}

/// The rows of a location.
///
/// # Safety
/// The location is valid.
unsafe fn location(location: *const D3D12_TEXTURE_COPY_LOCATION) -> CopyLocation {
    // SAFETY: the caller's promise; the type selects the union's member.
    unsafe {
        let location = &*location;
        let raw = location.pResource.as_ref().map_or(std::ptr::null_mut(), Interface::as_raw);
        let backing = resource(raw);
        if location.Type == D3D12_TEXTURE_COPY_TYPE_SUBRESOURCE_INDEX {
            let subresource = location.Anonymous.SubresourceIndex;
            let (rows, texel) = (backing.layout.subresource(subresource), backing.layout.texel(subresource));
            return CopyLocation { backing, subresource, rows, texel };
        }
        let placed = location.Anonymous.PlacedFootprint;
        let print = placed.Footprint;
        assert!(placed.Offset.is_multiple_of(512) && print.RowPitch.is_multiple_of(256), "{placed:?}");
        let texel = layout::texel_size(print.Format);
        let pitch = print.RowPitch as usize;
        let (width, height) = (print.Width as usize * texel, print.Height as usize);
        let offset = usize::try_from(placed.Offset).expect("64 bits");
        let extent = [width, height, print.Depth as usize];
        let rows = layout::Rows { offset, pitch, slice_pitch: pitch * height, extent };
        // As for buffers.
        backing.part.with(offset, rows.size(), |_| ());
        CopyLocation { backing, subresource: 0, rows, texel }
    }
}

methods! { List;
    fn close(list) -> HRESULT {
        if std::mem::replace(&mut list.recorded().closed, true) { E_INVALIDARG } else { HRESULT(0) }
    }

    fn reset(list, _: *mut c_void, _: *mut c_void) -> HRESULT {
        *list.recorded() = Recorded::default();
        HRESULT(0)
    }

    fn barrier(list, count: u32, barriers: *const D3D12_RESOURCE_BARRIER) {
        for barrier in std::slice::from_raw_parts(barriers, count as usize) {
            if barrier.Type != D3D12_RESOURCE_BARRIER_TYPE_TRANSITION {
                continue;
            }
            let transition = &barrier.Anonymous.Transition;
            let backing = resource(transition.pResource.as_ref().map_or(std::ptr::null_mut(), Interface::as_raw));
            let (subresource, before, after) = (transition.Subresource, transition.StateBefore, transition.StateAfter);
            list.record(&[&backing.clone()], move |used| backing.transition(used, subresource, before, after));
        }
    }

    fn copy_buffer(
        list, target: *mut c_void, target_offset: u64, source: *mut c_void, source_offset: u64, size: u64
    ) {
        let (to, from) = (resource(target), resource(source));
        let [to_offset, from_offset, size] =
            [target_offset, source_offset, size].map(|bytes| usize::try_from(bytes).expect("64 bits"));
        // Here, where it is seen who asks for it.
        to.part.with(to_offset, size, |_| ());
        from.part.with(from_offset, size, |_| ());
        list.record(&[&to.clone(), &from.clone()], move |used| {
            let from = from.used(used, 0, D3D12_RESOURCE_STATE_COPY_SOURCE);
            Part::copy((from, from_offset), (to.used(used, 0, D3D12_RESOURCE_STATE_COPY_DEST), to_offset), size);
        });
    }

    fn copy_texture(
        list, target: *const D3D12_TEXTURE_COPY_LOCATION, x: u32, y: u32, z: u32,
        source: *const D3D12_TEXTURE_COPY_LOCATION, area: *const D3D12_BOX
    ) {
        let (target, source) = (location(target), location(source));
        let texel = target.texel;
        assert_eq!(texel, source.texel, "bytes of a texel");
        let from = area.as_ref().map_or(source.rows, |area| {
            let (x, width) = (area.left as usize * texel, (area.right - area.left) as usize * texel);
            let extent = [width, (area.bottom - area.top) as usize, (area.back - area.front) as usize];
            source.rows.part([x, area.top as usize, area.front as usize], extent)
        });
        let to = target.rows.part([x as usize * texel, y as usize, z as usize], from.extent);
        list.record(&[&target.backing.clone(), &source.backing.clone()], move |used| {
            let part = source.backing.used(used, source.subresource, D3D12_RESOURCE_STATE_COPY_SOURCE);
            from.copy(part, to, target.backing.used(used, target.subresource, D3D12_RESOURCE_STATE_COPY_DEST));
        });
    }
}

/// A queue with its own thread, and its device.
pub(crate) struct Queue12(Queue, ID3D12Device);

impl ComObject for Queue12 {
    const LINE: &'static [GUID] =
        &[ID3D12Object::IID, ID3D12DeviceChild::IID, ID3D12Pageable::IID, ID3D12CommandQueue::IID];
}

impl Queue12 {
    pub(crate) fn create(device: ID3D12Device) -> ID3D12CommandQueue {
        object!(ID3D12CommandQueue_Vtbl, Arc::new(Self(Queue::default(), device)), |table| {
            table.base__.base__.base__.base__ = unknown::<Self>();
            table.base__.base__.base__.SetName = set_name;
            table.base__.base__.GetDevice = device_of;
            table.GetTimestampFrequency = timestamp_frequency;
            table.ExecuteCommandLists = execute;
            table.Signal = signal;
            table.Wait = wait;
        })
    }
}

/// The implementation of a fence.
///
/// # Safety
/// The fence is live.
unsafe fn counter(fence: *mut c_void) -> Arc<Counter> {
    // SAFETY: the caller's promise.
    let fence = unsafe { borrowed::<ID3D12Fence>(fence) };
    fence.cast_object_ref::<Fence>().expect("a fence of the simulator").0.clone()
}

methods! { Queue12;
    fn device_of(queue, iid: *const GUID, device: *mut *mut c_void) -> HRESULT {
        IUnknown::from(queue.1.clone()).query(iid, device)
    }

    fn timestamp_frequency(_, ticks: *mut u64) -> HRESULT {
        *ticks = 1_000_000_000;
        HRESULT(0)
    }

    fn execute(queue, count: u32, lists: *const *mut c_void) {
        let (mut commands, mut resources) = (Vec::new(), Vec::new());
        for index in 0..count as usize {
            state::<List>(*lists.add(index)).submit(&mut commands, &mut resources);
        }
        let in_use = InUse::new(resources);
        queue.0.record(move |_| {
            let mut used = Used::new();
            commands.iter().for_each(|command| command(&mut used));
            used.iter().for_each(|backing| backing.decay());
            drop(in_use);
        });
        queue.0.submit();
    }

    fn signal(queue, fence: *mut c_void, value: u64) -> HRESULT {
        queue.0.signal(counter(fence), value);
        queue.0.submit();
        HRESULT(0)
    }

    fn wait(queue, fence: *mut c_void, value: u64) -> HRESULT {
        queue.0.wait(counter(fence), value);
        queue.0.submit();
        HRESULT(0)
    }
}
