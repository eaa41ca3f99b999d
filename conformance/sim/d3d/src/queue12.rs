//! Command queues of Direct3D 12.

use std::ffi::c_void;
use std::sync::{Arc, OnceLock};

use windows::Win32::Graphics::Direct3D12::*;
use windows::core::{GUID, HRESULT, Interface};

use crate::counter::Counter;
use crate::list12::List;
use crate::object::{Stand, borrowed, create, state, table, unknown};
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
        static TABLE: OnceLock<ID3D12CommandQueue_Vtbl> = OnceLock::new();
        let methods = TABLE.get_or_init(|| {
            // SAFETY: the table is that of the interface.
            let mut table = unsafe { table::<ID3D12CommandQueue_Vtbl>() };
            table.base__.base__.base__.base__ = unknown::<Self>();
            table.ExecuteCommandLists = execute;
            table.Signal = signal;
            table.Wait = wait;
            table
        });
        // SAFETY: the interface is the last of its ancestors, and the methods are its own.
        unsafe { create(methods, Arc::<Self>::default()) }
    }
}

// SAFETY of all below: Direct3D's rules: `this` is such a queue, pointers are valid, and what they point to is of this
// device.

unsafe extern "system" fn execute(this: *mut c_void, count: u32, lists: *const *mut c_void) {
    for index in 0..count as usize {
        // SAFETY: see above.
        let (queue, list) = unsafe { (state::<Queue12>(this), state::<List>(*lists.add(index))) };
        let commands = list.commands();
        queue.0.record(move |_| commands.iter().for_each(|command| command()));
        queue.0.submit();
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

unsafe extern "system" fn signal(this: *mut c_void, fence: *mut c_void, value: u64) -> HRESULT {
    // SAFETY: see above.
    let (queue, fence) = unsafe { (state::<Queue12>(this), counter(fence)) };
    queue.0.signal(fence, value);
    queue.0.submit();
    HRESULT(0)
}

unsafe extern "system" fn wait(this: *mut c_void, fence: *mut c_void, value: u64) -> HRESULT {
    // SAFETY: see above.
    let (queue, fence) = unsafe { (state::<Queue12>(this), counter(fence)) };
    queue.0.wait(fence, value);
    queue.0.submit();
    HRESULT(0)
}
