//! `nvscisync.h`.

use gpu_interop_driver::{Status, driver_table};

use super::{Handle, KeyValuePair};

/// `NvSciSyncMajorVersion`: the version of the declared functions.
pub(crate) const MAJOR: u32 = 2;
/// `NvSciSyncMinorVersion` of the oldest header consulted.
pub(crate) const MINOR: u32 = 0;

/// `NvSciSyncAttrKey`.
pub(crate) mod key {
    pub(crate) const NEED_CPU_ACCESS: u32 = 1;
    pub(crate) const REQUIRED_PERM: u32 = 2;
    pub(crate) const ACTUAL_PERM: u32 = 3;
    /// Not in version 2.0.
    pub(crate) const REQUIRE_DETERMINISTIC_FENCES: u32 = 6;
    /// Not in version 2.0.
    pub(crate) const MAX_PRIMITIVE_VALUE: u32 = 9;
}

/// `NvSciSyncAccessPerm`: 64 bits, unlike every other enumeration. Up to 2.3 it is an `enum` with a value of 64 bits,
/// since 2.4 a `uint64_t`.
pub(crate) mod perm {
    pub(crate) const WAIT_ONLY: u64 = 1;
    pub(crate) const SIGNAL_ONLY: u64 = 2;
}

/// `NvSciSyncFenceMaxTimeout`, microseconds.
pub(crate) const MAX_TIMEOUT_US: i64 = i64::MAX / 1000;

/// `NvSciSyncFence`. All zeros is a cleared fence (`NvSciSyncFenceInitializer`). Not `Copy`: a filled fence holds a
/// reference, which is released once.
#[repr(C)]
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct Fence {
    pub(crate) payload: [u64; 6],
}

const _: () = assert!(size_of::<Fence>() == 48);

driver_table! {
    /// The functions of NvSciSync.
    pub(crate) struct Functions {
        required {
            module_open: fn(module: *mut Handle) -> Status = c"NvSciSyncModuleOpen";
            module_close: fn(module: Handle) -> () = c"NvSciSyncModuleClose";
            list_create: fn(module: Handle, list: *mut Handle) -> Status = c"NvSciSyncAttrListCreate";
            list_free: fn(list: Handle) -> () = c"NvSciSyncAttrListFree";
            list_set: fn(list: Handle, pairs: *mut KeyValuePair, count: usize) -> Status = c"NvSciSyncAttrListSetAttrs";
            list_get: fn(list: Handle, pairs: *mut KeyValuePair, count: usize) -> Status = c"NvSciSyncAttrListGetAttrs";
            list_reconcile: fn(lists: *const Handle, count: usize, list: *mut Handle, conflict: *mut Handle) -> Status
                = c"NvSciSyncAttrListReconcile";
            obj_alloc: fn(list: Handle, object: *mut Handle) -> Status = c"NvSciSyncObjAlloc";
            obj_free: fn(object: Handle) -> () = c"NvSciSyncObjFree";
            obj_generate_fence: fn(object: Handle, fence: *mut Fence) -> Status = c"NvSciSyncObjGenerateFence";
            obj_signal: fn(object: Handle) -> Status = c"NvSciSyncObjSignal";
            fence_clear: fn(fence: *mut Fence) -> () = c"NvSciSyncFenceClear";
            fence_wait: fn(fence: *const Fence, context: Handle, timeout_us: i64) -> Status = c"NvSciSyncFenceWait";
            cpu_wait_context_alloc: fn(module: Handle, context: *mut Handle) -> Status
                = c"NvSciSyncCpuWaitContextAlloc";
            cpu_wait_context_free: fn(context: Handle) -> () = c"NvSciSyncCpuWaitContextFree";
        }
        optional {
            check_version: fn(major: u32, minor: u32, is_compatible: *mut u8) -> Status
                = c"NvSciSyncCheckVersionCompatibility" since (2, 0);
            // Not in the header of 2.0, in that of 2.3; the headers of 2.1 and 2.2 were not consulted.
            fence_update: fn(object: Handle, id: u64, value: u64, fence: *mut Fence) -> Status
                = c"NvSciSyncFenceUpdateFence" since (2, 3);
            fence_extract: fn(fence: *const Fence, id: *mut u64, value: *mut u64) -> Status
                = c"NvSciSyncFenceExtractFence" since (2, 3);
        }
    }
}
