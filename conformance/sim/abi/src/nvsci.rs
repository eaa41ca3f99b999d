//! Interface by which a simulator of CUDA's driver accesses the objects of a simulator of NvSci. NVIDIA's driver is
//! linked with the real libraries and uses private functions of them; this interface replaces those.

use std::ffi::{CStr, c_int, c_void};

/// The symbol of the function that returns an [`Interface`]: [`Entry`].
pub const ENTRY: &CStr = c"sim_nvsci_interface";

/// The type of the function at [`ENTRY`].
pub type Entry = extern "C" fn() -> *const Interface;

/// `NvSciError_NotSupported`.
pub const NOT_SUPPORTED: u32 = 0x11;

/// A GPU's id.
pub type GpuId = [u8; 16];

/// The contents of an NvSciBuf object.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct BufferView {
    /// A memory file, owned by the object.
    pub fd: c_int,
    /// 1 if the object only permits reads, else 0.
    pub read_only: u32,
    /// 1 if it is an image, else 0.
    pub image: u32,
    /// 1 if it is an image without a pitch-linear layout, else 0.
    pub block_linear: u32,
    /// Size in bytes.
    pub size: u64,
}

/// A future point of an object. It holds its reference until it is released.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Point {
    /// The object to signal.
    pub primitive: *const c_void,
    /// The object's value at that point.
    pub value: u64,
}

/// Functions for a driver. Those that return a number return 0 or an `NvSciError`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Interface {
    /// Returns the contents of a buffer for a GPU that imports it, and records the import. Fails for a GPU that the
    /// buffer was not created for.
    pub import_buffer: unsafe extern "C" fn(object: usize, gpu: *const GpuId, view: *mut BufferView) -> u32,
    /// Ends a recorded import of a buffer.
    pub release_buffer: unsafe extern "C" fn(object: usize),
    /// Fills an attribute list with a GPU's requirements; 1 to signal, 2 to wait.
    pub fill_list: unsafe extern "C" fn(list: usize, gpu: *const GpuId, flags: c_int) -> u32,
    /// Imports an object for a GPU. The import holds the object.
    pub import_sync: unsafe extern "C" fn(object: usize, gpu: *const GpuId, import: *mut usize) -> u32,
    /// Ends an import of an object.
    pub release_sync: unsafe extern "C" fn(import: usize),
    /// The next point of an import's object, and a fence for it. [`NOT_SUPPORTED`] unless a list filled by the GPU
    /// requested signals.
    pub next_point: unsafe extern "C" fn(import: usize, fence: *mut c_void, point: *mut Point) -> u32,
    /// The point of a fence. [`NOT_SUPPORTED`] unless a list filled by the GPU requested waits for the import's object.
    pub point_of: unsafe extern "C" fn(import: usize, fence: *const c_void, point: *mut Point) -> u32,
    /// Signals a point.
    pub signal: unsafe extern "C" fn(point: *const Point),
    /// Waits until a point is reached.
    pub wait: unsafe extern "C" fn(point: *const Point),
    /// Releases a point.
    pub release_point: unsafe extern "C" fn(point: *const Point),
    /// Counts a signal (1) or wait (0) with (0) or without (1) synchronisation of memory.
    pub count_memsync: extern "C" fn(signal: u32, skipped: u32),
}
