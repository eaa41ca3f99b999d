//! Command queues of Direct3D 12.

use std::ffi::c_void;
use std::sync::Arc;

use windows::Win32::Graphics::Direct3D12::*;
use windows::core::{GUID, HRESULT, IUnknown, Interface};

use crate::backing12::{InUse, Used};
use crate::counter::Counter;
use crate::list12::List;
use crate::object::{Stand, borrowed, methods, object, set_name, state, unknown};
use crate::queue::Queue;
use crate::resource12::Fence;

/// A queue with its own thread, and its device.
pub(crate) struct Queue12(Queue, ID3D12Device);

impl Stand for Queue12 {
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
