//! The interop structs of HIP 5, which are the beginnings of those of HIP 6 and later as far as the fields that are used
//! go: what HIP 6 appended, HIP 5 does not read.
//!
//! So descriptors of HIP 6 are given to both. Of signals and waits only the fence's value is at the same place, which is
//! all that a semaphore kind of HIP 5 uses, and everything else is 0. Their arrays have another stride: hence one
//! semaphore a call.

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

// The sizes and offsets that a C program prints with the headers of HIP 5.2 and 5.7.
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

macro_rules! same_place {
    ($name:ident: $($field:ident),+) => {
        $( assert!(offset_of!($name, $field) == offset_of!(abi::$name, $field)); )+
        assert!(size_of::<$name>() <= size_of::<abi::$name>());
    };
}

const _: () = {
    same_place!(MemoryHandleDesc: kind, handle, size, flags);
    same_place!(MemoryBufferDesc: offset, size, flags);
    same_place!(SemaphoreHandleDesc: kind, handle, flags);
    same_place!(SemaphoreSignalParams: fence_value);
    same_place!(SemaphoreWaitParams: fence_value);
};
