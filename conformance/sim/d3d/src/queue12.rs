//! Command queues of Direct3D 12.

use std::ffi::c_void;
use std::sync::Arc;

use windows::Win32::Graphics::Direct3D12::*;
use windows::core::{GUID, HRESULT, Interface};

use crate::counter::Counter;
use crate::list12::List;
use crate::object::{Stand, borrowed, methods, object, state, unknown};
use crate::queue::Queue;
use crate::resource12::Fence;

/// A queue with its own thread.
#[derive(Default)]
pub(crate) struct Queue12(Queue);

impl Stand for Queue12 {
    const LINE: &'static [GUID] =
        &[ID3D12Object::IID, ID3D12DeviceChild::IID, ID3D12Pageable::IID, ID3D12CommandQueue::IID];
}

impl Queue12 {
    pub(crate) fn create() -> ID3D12CommandQueue {
        object!(ID3D12CommandQueue_Vtbl, Arc::<Self>::default(), |table| {
            table.base__.base__.base__.base__ = unknown::<Self>();
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
    fn execute(queue, count: u32, lists: *const *mut c_void) {
        for index in 0..count as usize {
            let commands = state::<List>(*lists.add(index)).commands();
            queue.0.record(move |_| commands.iter().for_each(|command| command()));
            queue.0.submit();
        }
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
