//! `nvscibuf.h`.

use std::ffi::{c_uint, c_void};

use gpu_interop_driver::{Status, driver_table};

use super::{Handle, KeyValuePair};

/// `NvSciBufMajorVersion`: the version of the declared functions.
pub(crate) const MAJOR: u32 = 2;
/// `NvSciBufMinorVersion` of the oldest header consulted.
pub(crate) const MINOR: u32 = 0;

/// `NvSciBufAttrKey`: the buffer's type in the upper half, a number in the lower.
pub(crate) mod key {
    pub(crate) const TYPES: u32 = 0x1;
    pub(crate) const NEED_CPU_ACCESS: u32 = 0x2;
    pub(crate) const REQUIRED_PERM: u32 = 0x3;
    pub(crate) const ENABLE_CPU_CACHE: u32 = 0x4;
    pub(crate) const GPU_ID: u32 = 0x5;
    pub(crate) const CPU_NEED_SW_CACHE_COHERENCY: u32 = 0x6;
    pub(crate) const ACTUAL_PERM: u32 = 0x7;
    /// Not in version 2.0.
    pub(crate) const ENABLE_GPU_CACHE: u32 = 0x9;
    /// Not in version 2.0.
    pub(crate) const GPU_SW_NEED_CACHE_COHERENCY: u32 = 0xa;
    /// Not in version 2.0.
    pub(crate) const ENABLE_GPU_COMPRESSION: u32 = 0xb;

    pub(crate) const RAW_SIZE: u32 = 0x1_0000;
    pub(crate) const RAW_ALIGN: u32 = 0x1_0001;

    pub(crate) const IMAGE_LAYOUT: u32 = 0x2_0000;
    pub(crate) const IMAGE_SIZE: u32 = 0x2_0006;
    pub(crate) const IMAGE_ALIGNMENT: u32 = 0x2_0007;
    pub(crate) const IMAGE_PLANE_COUNT: u32 = 0x2_0008;
    pub(crate) const IMAGE_PLANE_COLOR_FORMAT: u32 = 0x2_0009;
    pub(crate) const IMAGE_PLANE_BASE_ADDR_ALIGN: u32 = 0x2_000b;
    pub(crate) const IMAGE_PLANE_WIDTH: u32 = 0x2_000c;
    pub(crate) const IMAGE_PLANE_HEIGHT: u32 = 0x2_000d;
    pub(crate) const IMAGE_SCAN_TYPE: u32 = 0x2_000e;
    pub(crate) const IMAGE_PLANE_OFFSET: u32 = 0x2_0010;
    pub(crate) const IMAGE_PLANE_PITCH: u32 = 0x2_0014;
    pub(crate) const IMAGE_PLANE_ALIGNED_HEIGHT: u32 = 0x2_0015;
    pub(crate) const IMAGE_PLANE_ALIGNED_SIZE: u32 = 0x2_0016;
    pub(crate) const IMAGE_COUNT: u32 = 0x2_0017;
}

/// `NvSciBufType`.
pub(crate) mod buffer_type {
    pub(crate) const RAW_BUFFER: u32 = 1;
    pub(crate) const IMAGE: u32 = 2;
}

/// `NvSciBufAttrValAccessPerm`.
pub(crate) mod perm {
    pub(crate) const READONLY: u32 = 1;
    pub(crate) const READ_WRITE: u32 = 3;
}

/// `NvSciBufImage_BlockLinearType`.
pub(crate) const LAYOUT_BLOCK_LINEAR: u32 = 0;
/// `NvSciBufImage_PitchLinearType`.
pub(crate) const LAYOUT_PITCH_LINEAR: u32 = 1;
/// `NvSciBufScan_ProgressiveType`.
pub(crate) const SCAN_PROGRESSIVE: u32 = 0;
/// `NvSciBufCompressionType_None`.
pub(crate) const COMPRESSION_NONE: u32 = 0;
/// `NvSciBufCompressionType_GenericCompressible`.
pub(crate) const COMPRESSION_GENERIC: u32 = 1;
/// `NV_SCI_BUF_MAX_GPUS`.
pub(crate) const MAX_GPUS: usize = 16;
/// `NV_SCI_BUF_IMAGE_MAX_PLANES`.
pub(crate) const MAX_PLANES: usize = 3;

/// `NvSciBufAttrValGpuCache`. The `bool` is a number here, because the library may return any value.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GpuCache {
    pub(crate) id: [u8; 16],
    pub(crate) cacheability: u8,
}

/// `NvSciBufAttrValGpuCompression`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GpuCompression {
    pub(crate) id: [u8; 16],
    pub(crate) kind: c_uint,
}

driver_table! {
    /// The functions of NvSciBuf.
    pub(crate) struct Functions {
        required {
            module_open: fn(module: *mut Handle) -> Status = c"NvSciBufModuleOpen";
            module_close: fn(module: Handle) -> () = c"NvSciBufModuleClose";
            list_create: fn(module: Handle, list: *mut Handle) -> Status = c"NvSciBufAttrListCreate";
            list_free: fn(list: Handle) -> () = c"NvSciBufAttrListFree";
            list_set: fn(list: Handle, pairs: *mut KeyValuePair, count: usize) -> Status = c"NvSciBufAttrListSetAttrs";
            list_get: fn(list: Handle, pairs: *mut KeyValuePair, count: usize) -> Status = c"NvSciBufAttrListGetAttrs";
            list_reconcile: fn(lists: *const Handle, count: usize, list: *mut Handle, conflict: *mut Handle) -> Status
                = c"NvSciBufAttrListReconcile";
            obj_alloc: fn(list: Handle, object: *mut Handle) -> Status = c"NvSciBufObjAlloc";
            obj_free: fn(object: Handle) -> () = c"NvSciBufObjFree";
            obj_dup_with_reduce_perm: fn(object: Handle, perm: c_uint, duplicate: *mut Handle) -> Status
                = c"NvSciBufObjDupWithReducePerm";
            obj_get_attr_list: fn(object: Handle, list: *mut Handle) -> Status = c"NvSciBufObjGetAttrList";
            obj_get_cpu_ptr: fn(object: Handle, pointer: *mut *mut c_void) -> Status = c"NvSciBufObjGetCpuPtr";
            obj_get_const_cpu_ptr: fn(object: Handle, pointer: *mut *const c_void) -> Status
                = c"NvSciBufObjGetConstCpuPtr";
            obj_flush: fn(object: Handle, offset: u64, length: u64) -> Status = c"NvSciBufObjFlushCpuCacheRange";
        }
        optional {
            check_version: fn(major: u32, minor: u32, is_compatible: *mut u8) -> Status
                = c"NvSciBufCheckVersionCompatibility" since (2, 0);
        }
    }
}
