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
struct MemoryHandleDesc {
    kind: c_uint,
    handle: [*const c_void; 2],
    size: u64,
    flags: c_uint,
}

/// `hipExternalMemoryBufferDesc`.
#[repr(C)]
struct MemoryBufferDesc {
    offset: u64,
    size: u64,
    flags: c_uint,
}

/// `hipExternalSemaphoreHandleDesc`.
#[repr(C)]
struct SemaphoreHandleDesc {
    kind: c_uint,
    handle: [*const c_void; 2],
    flags: c_uint,
}

/// `hipExternalSemaphoreSignalParams`.
#[repr(C)]
struct SemaphoreSignalParams {
    fence_value: u64,
    key: u64,
    params_reserved: [c_uint; 12],
    flags: c_uint,
    reserved: [c_uint; 16],
}

/// `hipExternalSemaphoreWaitParams`.
#[repr(C)]
struct SemaphoreWaitParams {
    fence_value: u64,
    key: u64,
    timeout_ms: c_uint,
    padding: c_uint,
    params_reserved: [c_uint; 10],
    flags: c_uint,
    reserved: [c_uint; 16],
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
