//! Interop structs of HIP 5, for comparison. The library passes the structs of HIP 6 to both versions:
//! * Descriptors: the fields that HIP 5 reads have the same offsets in both versions. HIP 6 appended the other fields.
//! * Signal and wait parameters: only the fence value has the same offset. The semaphore kinds of HIP 5 use no other
//!   field, and the library sets the other fields to 0.
//! * Arrays of parameters: the size of an element differs, so HIP 5 gets one semaphore per call.

use std::ffi::{c_uint, c_void};
use std::mem::{offset_of, size_of};

use gpu_interop_driver::abi;

/// `hipExternalMemoryHandleDesc`.
#[repr(C)]
pub(crate) struct MemoryHandleDesc {
    pub(crate) kind: c_uint,
    pub(crate) handle: [*const c_void; 2],
    pub(crate) size: u64,
    pub(crate) flags: c_uint,
}

/// `hipExternalMemoryBufferDesc`.
#[repr(C)]
pub(crate) struct MemoryBufferDesc {
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) flags: c_uint,
}

/// `hipExternalSemaphoreHandleDesc`.
#[repr(C)]
pub(crate) struct SemaphoreHandleDesc {
    pub(crate) kind: c_uint,
    pub(crate) handle: [*const c_void; 2],
    pub(crate) flags: c_uint,
}

/// `hipExternalSemaphoreSignalParams`.
#[repr(C)]
pub(crate) struct SemaphoreSignalParams {
    pub(crate) fence_value: u64,
    pub(crate) key: u64,
    pub(crate) params_reserved: [c_uint; 12],
    pub(crate) flags: c_uint,
    pub(crate) reserved: [c_uint; 16],
}

/// `hipExternalSemaphoreWaitParams`.
#[repr(C)]
pub(crate) struct SemaphoreWaitParams {
    pub(crate) fence_value: u64,
    pub(crate) key: u64,
    pub(crate) timeout_ms: c_uint,
    pub(crate) padding: c_uint,
    pub(crate) params_reserved: [c_uint; 10],
    pub(crate) flags: c_uint,
    pub(crate) reserved: [c_uint; 16],
}

// Sizes and offsets printed by a C program with the headers of HIP 5.2 and 5.7.
const _: () = {
    assert!(size_of::<MemoryHandleDesc>() == 40);
    assert!(size_of::<MemoryBufferDesc>() == 24);
    assert!(size_of::<SemaphoreHandleDesc>() == 32);
    assert!(size_of::<SemaphoreSignalParams>() == 136);
    assert!(offset_of!(SemaphoreSignalParams, flags) == 64);
    assert!(size_of::<SemaphoreWaitParams>() == 136);
    assert!(offset_of!(SemaphoreWaitParams, timeout_ms) == 16);
    assert!(offset_of!(SemaphoreWaitParams, flags) == 64);
};

macro_rules! same_offset {
    ($name:ident: $($field:ident),+) => {
        $( assert!(offset_of!($name, $field) == offset_of!(abi::$name, $field)); )+
        assert!(size_of::<$name>() <= size_of::<abi::$name>());
    };
}

const _: () = {
    same_offset!(MemoryHandleDesc: kind, handle, size, flags);
    same_offset!(MemoryBufferDesc: offset, size, flags);
    same_offset!(SemaphoreHandleDesc: kind, handle, flags);
    same_offset!(SemaphoreSignalParams: fence_value);
    same_offset!(SemaphoreWaitParams: fence_value);
};
