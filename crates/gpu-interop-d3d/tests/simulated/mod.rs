//! Simulated devices of Direct3D, and the numbers of the handles that they return.
#![allow(dead_code, unused_imports, reason = "each test uses some of it")]
#![allow(clippy::expect_used, clippy::panic)]

pub(crate) use gpu_interop_sim_d3d::{Behavior11, Behavior12, Device11, Device12, E_NOTIMPL, LUID_BYTES};

pub(crate) mod os {
    use gpu_interop_core::handle::{NtHandle, Win32Object};
    use gpu_interop_core::{MemoryHandle, SemaphoreHandle};
    use gpu_interop_sim_d3d::os::View;
    pub(crate) use gpu_interop_sim_d3d::os::{create_section, handle_count, is_open, open_section};
    use windows::Win32::Foundation::HANDLE;

    /// The first bytes of the memory behind a handle.
    pub(crate) fn view(handle: HANDLE, length: usize) -> View {
        View::new(handle, length).expect("a handle to memory")
    }

    pub(crate) fn raw(handle: &NtHandle) -> HANDLE {
        HANDLE(handle.as_raw())
    }

    /// The NT handle in a memory handle of Direct3D.
    pub(crate) fn raw_of_memory(handle: &MemoryHandle) -> HANDLE {
        match handle {
            MemoryHandle::D3d12Heap(Win32Object::Handle(handle))
            | MemoryHandle::D3d12Resource(Win32Object::Handle(handle))
            | MemoryHandle::D3d11Resource(Win32Object::Handle(handle)) => raw(handle),
            other => panic!("no NT handle: {other:?}"),
        }
    }

    /// The NT handle in a semaphore handle of Direct3D.
    pub(crate) fn raw_of_semaphore(handle: &SemaphoreHandle) -> HANDLE {
        match handle {
            SemaphoreHandle::D3d12Fence(Win32Object::Handle(handle))
            | SemaphoreHandle::D3d11Fence(Win32Object::Handle(handle))
            | SemaphoreHandle::D3d11KeyedMutex(Win32Object::Handle(handle)) => raw(handle),
            other => panic!("no NT handle: {other:?}"),
        }
    }
}
